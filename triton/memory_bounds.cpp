#include "triton/memory_bounds.hpp"

#include <algorithm>

#include "sim/numerics/op_state.hpp"
#include "triton/memory.hpp"

namespace tessera::triton {

float* MemoryBounds::at(const Memory& of, std::int64_t address, std::int64_t width, bool made) {
  const std::int64_t inside = of.in_storage(address);
  const auto storage = static_cast<std::size_t>((inside >> kAddressBits) - 1);
  const std::int64_t offset = inside - base_address(storage);
  bounds_.resize(of.storages().size());
  std::vector<float>& bounds = bounds_[storage];
  const GlobalStorage& kept = of.storages()[storage];
  const std::int64_t element = register_bytes(kept.dtype);
  if (bounds.empty()) {
    if (!made) return nullptr;
    bounds.resize(static_cast<std::size_t>((kept.size + element - 1) / element), 0.f);
  }
  if (width != element || offset % element != 0)
    fail_bounds_of("through memory that is read as another type");
  return &bounds[static_cast<std::size_t>(offset / element)];
}

StorageHandle MemoryBounds::load(const Memory& of, const std::int64_t* addresses,
                                 const std::byte* mask, std::int64_t n, std::int64_t width) {
  StorageHandle made;
  for (std::int64_t i = 0; i < n; ++i) {
    if (mask != nullptr && mask[i] == std::byte{0}) continue;
    const float* const bound = at(of, addresses[i], width, false);
    if (bound == nullptr || *bound == 0) continue;
    if (!made) {
      made = bound_storage(n);
      std::fill_n(floats(made), n, 0.f);
    }
    floats(made)[i] = *bound;
  }
  return made;
}

void MemoryBounds::store(const Memory& of, const std::int64_t* addresses, const std::byte* mask,
                         std::int64_t n, std::int64_t width, const float* bounds) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (mask != nullptr && mask[i] == std::byte{0}) continue;
    const float bound = bounds == nullptr ? 0.f : bounds[i];
    float* const to = at(of, addresses[i], width, bound != 0);
    if (to != nullptr) *to = bound;
    sums_.erase(of.in_storage(addresses[i]));
  }
}

void MemoryBounds::add(const Memory& of, std::int64_t address, DType dtype, double before,
                       double term, float bound) {
  if (dtype == DType::f64) fail_bounds_of("of a sum in f64");
  float* const to = at(of, address, register_bytes(dtype), true);
  const auto [sum, first] = sums_.try_emplace(of.in_storage(address));
  if (first && (before != 0 || *to != 0)) sum->second.add(before, *to);
  sum->second.add(term, bound);
  double after = before + term;  // in f64: rounded to the type as the atomic did
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>) after = convert<double>(convert<T>(static_cast<float>(after)));
  });
  *to = sum->second.bound(after, bounds::addition_unit(*op_state.error_model, dtype));
}

Array MemoryBounds::all(const Memory& of, std::size_t storage) const {
  const GlobalStorage& kept = of.storages()[storage];
  const std::int64_t element = register_bytes(kept.dtype);
  Array bounds(DType::f32, {kept.size / element});
  std::fill_n(bounds.data<float>(), bounds.elems(), 0.f);
  if (storage < bounds_.size() && !bounds_[storage].empty())
    std::copy_n(bounds_[storage].begin(), bounds.elems(), bounds.data<float>());
  return bounds;
}

}  // namespace tessera::triton
