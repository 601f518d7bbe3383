#include "cli/registry.hpp"

#include <charconv>
#include <cmath>

namespace tessera::cli {

const KernelHandle& find_kernel(const std::vector<KernelHandle>& kernels, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& kernel : kernels) {
    if (name == kernel.info.name) return kernel;
    known.emplace_back(kernel.info.name);
  }
  // All of them are too many for a line.
  throw InputError("unknown-kernel", "no kernel '" + name + "'" + did_you_mean(name, known),
                   "tessera list");
}

DType parse_dtype(const std::string& text, const KernelHandle& kernel) {
  std::vector<std::string> known;
  for (const DType d : kernel.dtypes) {
    if (text == name(d)) return d;
    known.emplace_back(name(d));
  }
  const bool left_out = text == name(DType::f32) || text == name(DType::bf16);
  throw InputError(
      "unknown-dtype",
      std::string(kernel.info.name) + " is not built for '" + text + "'" + suggest(text, known),
      left_out ? "cmake -DTESSERA_DTYPES='f32;bf16' compiles kernels for both" : "");
}

double parse_number(const std::string& name, const std::string& text, bool real) {
  const char* end = text.data() + text.size();
  double value = 0;
  bool ok = false;
  if (real) {
    const auto result = std::from_chars(text.data(), end, value);
    ok = result.ec == std::errc() && result.ptr == end && std::isfinite(value);
  } else {
    int whole = 0;
    const auto result = std::from_chars(text.data(), end, whole);
    ok = result.ec == std::errc() && result.ptr == end;
    value = whole;
  }
  if (ok) return value;
  throw InputError("bad-input", name + " takes a " + (real ? "number" : "whole number") +
                                    ", not '" + text + "'");
}

}  // namespace tessera::cli
