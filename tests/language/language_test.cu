// The constructs of the language on a GPU: each case of tests/language/cases.hpp and
// memory_cases.hpp gives the bits of its plain loops. Exit code 77: no GPU.
#include "cuda/gpu_test.hpp"
#include "cuda/launch.hpp"
#include "tests/language/cases.hpp"
#include "tests/language/memory_cases.hpp"

namespace tessera::cuda {

template <class Body>
bool gives_its_bits() {
  using K = language::Probe<Body>;
  const language::Expected<Body> expected(7);
  using Out = typename Body::Out;
  const std::vector<std::byte> x = language::packed(expected.x);
  const std::vector<std::byte> y = language::packed(expected.y);
  std::vector<std::byte> bytes(language::packed(expected.o).size());
  Launch given;
  given.inputs = {{"x", x.data(), x.size()}, {"y", y.data(), y.size()}};
  given.outputs = {bytes.data()};
  given.output_bytes = {bytes.size()};
  try {
    launch<K>(given);
  } catch (const std::exception& e) {
    std::printf("%s: %s\n", Body::kName, e.what());
    return false;
  }
  for (std::size_t i = 0; i < expected.o.size(); ++i) {
    const auto got = load_element<Out>(bytes.data(), static_cast<std::int64_t>(i));
    if (std::memcmp(&got, &expected.o[i], sizeof got) == 0) continue;
    std::printf("%s: row %d, column %d is %.9g, not %.9g\n", Body::kName,
                static_cast<int>(i) / Body::kOutCols, static_cast<int>(i) % Body::kOutCols,
                convert<double>(got), convert<double>(expected.o[i]));
    return false;
  }
  std::printf("%s: the same bits\n", Body::kName);
  return true;
}

template <class K>
bool keeps_and_moves() {
  std::vector<language::Plain> inputs;
  K::fill_shapes(inputs);
  Launch given;
  for (language::Plain& in : inputs) {
    in.elems.resize(static_cast<std::size_t>(in.shape.elems()));
    language::fill(in.elems, given.inputs.size() + 3);
    given.inputs.push_back({in.name, in.elems.data(), in.elems.size() * sizeof(float)});
  }
  const std::vector<language::Plain> wanted = K::wanted(inputs);
  std::vector<std::vector<float>> got;
  for (const language::Plain& out : wanted) got.emplace_back(out.elems.size());
  for (auto& elems : got) {
    given.outputs.push_back(elems.data());
    given.output_bytes.push_back(elems.size() * sizeof(float));
  }
  // Once more: what a run overwrites is there again.
  given.rounds = 1;
  try {
    launch<K>(given);
  } catch (const std::exception& e) {
    std::printf("%s: %s\n", K::info.name, e.what());
    return false;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (std::size_t e = 0; e < got[i].size(); ++e) {
      if (std::memcmp(&got[i][e], &wanted[i].elems[e], sizeof(float)) == 0) continue;
      std::printf("%s: element %d of %s is %.9g, not %.9g\n", K::info.name, static_cast<int>(e),
                  wanted[i].name, got[i][e], wanted[i].elems[e]);
      return false;
    }
  }
  std::printf("%s: the same bits\n", K::info.name);
  return true;
}

template <class... Body>
bool all_give_their_bits(std::tuple<Body...>*) {
  return (int{gives_its_bits<Body>()} & ...) != 0;
}
template <class... K>
bool all_keep_and_move(std::tuple<K...>*) {
  return (int{keeps_and_moves<K>()} & ...) != 0;
}

}  // namespace tessera::cuda

int main() {
  tessera::cuda::require_gpu();
  const bool same =
      tessera::cuda::all_give_their_bits(static_cast<tessera::language::Cases*>(nullptr));
  const bool kept =
      tessera::cuda::all_keep_and_move(static_cast<tessera::language::MemoryCases*>(nullptr));
  return same && kept ? EXIT_SUCCESS : EXIT_FAILURE;
}
