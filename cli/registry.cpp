#include "cli/registry.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tessera::cli {

Kernels::Kernels(std::vector<std::string> names, Make make)
    : names_(std::move(names)), make_(std::move(make)), made_(names_.size()) {}

Kernels::Kernels(std::initializer_list<KernelHandle> all) {
  for (const KernelHandle& kernel : all) {
    names_.emplace_back(kernel.info.name);
    made_.push_back(std::make_unique<KernelHandle>(kernel));
  }
}

const KernelHandle& Kernels::at(std::size_t i) const {
  if (!made_[i]) made_[i] = std::make_unique<KernelHandle>(make_(names_[i]));
  return *made_[i];
}

const KernelHandle& Kernels::find(const std::string& name) const {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return at(static_cast<std::size_t>(found - names_.begin()));
  // All of them are too many for a line.
  throw InputError("unknown-kernel", "no kernel '" + name + "'" + did_you_mean(name, names_),
                   "tessera list");
}

std::vector<std::reference_wrapper<const KernelHandle>> Kernels::all() const {
  std::vector<std::reference_wrapper<const KernelHandle>> kernels;
  for (std::size_t i = 0; i < names_.size(); ++i) kernels.emplace_back(at(i));
  return kernels;
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
