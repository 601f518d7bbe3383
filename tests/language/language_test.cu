// The constructs of the language on a GPU: each case of tests/language/cases.hpp gives the bits of
// its plain loops. Exit code 77: no GPU.
#include "cuda/gpu_test.hpp"
#include "cuda/launch.hpp"
#include "tests/language/cases.hpp"

namespace tessera::cuda {

template <class Body>
bool gives_its_bits() {
  using K = language::Probe<Body>;
  const language::Expected<Body> expected(7);
  std::vector<typename Body::Out> got(expected.o.size());
  Launch given;
  given.inputs = {{"x", expected.x.data(), expected.x.size() * sizeof(typename Body::X)},
                  {"y", expected.y.data(), expected.y.size() * sizeof(typename Body::X)}};
  given.outputs = {got.data()};
  given.output_bytes = {got.size() * sizeof(typename Body::Out)};
  try {
    launch<K>(given);
  } catch (const std::exception& e) {
    std::printf("%s: %s\n", Body::kName, e.what());
    return false;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &expected.o[i], sizeof got[i]) == 0) continue;
    std::printf("%s: row %d, column %d is %.9g, not %.9g\n", Body::kName,
                static_cast<int>(i) / Body::kOutCols, static_cast<int>(i) % Body::kOutCols,
                convert<double>(got[i]), convert<double>(expected.o[i]));
    return false;
  }
  std::printf("%s: the same bits\n", Body::kName);
  return true;
}
template <class... Body>
bool all_give_their_bits(std::tuple<Body...>*) {
  return (int{gives_its_bits<Body>()} & ...) != 0;
}

}  // namespace tessera::cuda

int main() {
  tessera::cuda::require_gpu();
  const bool same =
      tessera::cuda::all_give_their_bits(static_cast<tessera::language::Cases*>(nullptr));
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
