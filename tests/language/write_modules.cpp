// language_modules FOLDER: the TPU build of each of the language's cases as a call in FOLDER/NAME,
// for the TPU's compiler (tests/python/test_tpu_build.py).
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "mosaic/emit.hpp"
#include "pallas/call_directory.hpp"
#include "tests/language/cases.hpp"
#include "tests/language/memory_cases.hpp"

namespace tessera::language {

template <class T>
Array array_of(const std::vector<T>& elems, DType dtype, const Shape& shape) {
  Array a(dtype, shape);
  const std::vector<std::byte> bytes = packed(elems);
  std::memcpy(a.bytes(), bytes.data(), bytes.size());
  return a;
}

template <class Body>
void write(const std::filesystem::path& folder) {
  if (!Body::kOnTpu) return;
  const mosaic::BuiltModule m = mosaic::emit(Probe<Body>{}, {});
  const Expected<Body> cells(7);
  pallas::CallToRecord call;
  call.module = m.text;
  call.config =
      "{\"custom_call_config\": {\"serialization_format\": 1, \"needs_layout_passes\": true}}\n";
  call.operands = {{array_of(cells.x, m.inputs[0].dtype, m.inputs[0].shape),
                    array_of(cells.y, m.inputs[1].dtype, m.inputs[1].shape)}};
  call.inputs = 2;
  call.results = {array_of(cells.o, m.outputs[0].dtype, m.outputs[0].shape)};
  call.device = load_device("tpu-v5e");
  pallas::write_call((folder / Body::kName).string(), call);
}

template <class K>
void write_memory(const std::filesystem::path& folder) {
  K kernel;
  const std::vector<HostArray> none;
  PreparedHost host(none);
  if constexpr (requires { kernel.prepare(host, Tiles{}); }) kernel.prepare(host, Tiles{});
  const mosaic::BuiltModule m = mosaic::emit(kernel, {});
  pallas::CallToRecord call;
  call.module = m.text;
  call.config =
      "{\"custom_call_config\": {\"serialization_format\": 1, \"needs_layout_passes\": true}}\n";
  call.operands.emplace_back();
  for (std::size_t i = 0; i < m.prefetched.size(); ++i)
    call.operands[0].push_back(
        array_of(m.prefetched_words[i], m.prefetched[i].dtype, m.prefetched[i].shape));
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    std::vector<float> elems(static_cast<std::size_t>(m.inputs[i].shape.elems()));
    fill(elems, i + 3);
    call.operands[0].push_back(array_of(elems, m.inputs[i].dtype, m.inputs[i].shape));
  }
  call.inputs = m.inputs.size();
  for (const auto& out : m.outputs) call.results.push_back(Array::undefined(out.dtype, out.shape));
  for (const auto& alias : m.aliases)
    call.aliases.emplace_back(m.prefetched.size() + static_cast<std::size_t>(alias.input),
                              alias.output);
  call.device = load_device("tpu-v5e");
  pallas::write_call((folder / K::info.name).string(), call);
}

}  // namespace tessera::language

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: language_modules FOLDER\n", stderr);
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  [&]<class... Body>(std::tuple<Body...>*) {
    (tessera::language::write<Body>(argv[1]), ...);
  }(static_cast<tessera::language::Cases*>(nullptr));
  [&]<class... K>(std::tuple<K...>*) {
    (tessera::language::write_memory<K>(argv[1]), ...);
  }(static_cast<tessera::language::MemoryCases*>(nullptr));
  return 0;
}
