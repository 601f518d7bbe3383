#include "memory_model/array.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

namespace tessera {

void advise_huge_pages(void* memory, std::size_t bytes) { madvise(memory, bytes, MADV_HUGEPAGE); }

double Array::at(std::int64_t i) const {
  return visit_dtype(
      dtype_, [&]<class T>(TypeTag<T>) { return convert<double>(load_element<T>(bytes(), i)); });
}

void Array::set(std::int64_t i, double value) {
  visit_dtype(dtype_, [&]<class T>(TypeTag<T>) { store_element(bytes(), i, convert<T>(value)); });
}

std::uint64_t Array::bits(std::int64_t i) const {
  return visit_dtype(dtype_, [&]<class T>(TypeTag<T>) -> std::uint64_t {
    const T v = load_element<T>(bytes(), i);
    if constexpr (kIsPacked<T>) {
      return pattern_of(v);
    } else {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &v, sizeof(T));
      return bits;
    }
  });
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(elems()));
  visit_dtype(dtype_, [&]<class T>(TypeTag<T>) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = convert<double>(load_element<T>(bytes(), static_cast<std::int64_t>(i)));
    }
  });
  return values;
}

Array f32_array(Shape shape, const std::vector<float>& values) {
  if (shape.elems() != static_cast<std::int64_t>(values.size())) {
    throw std::invalid_argument("f32_array: " + std::to_string(values.size()) + " values for " +
                                to_string(shape));
  }
  Array a(DType::f32, shape);
  std::copy(values.begin(), values.end(), a.data<float>());
  return a;
}

void poison(std::byte* to, DType dtype, std::int64_t elems) {
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsPacked<T>) {
      std::memset(to, 0x55, static_cast<std::size_t>(packed_bytes(dtype, elems)));
    } else {
      T value{};
      if constexpr (kIsFloat<T>)
        value = convert<T>(std::numeric_limits<float>::quiet_NaN());
      else if constexpr (std::is_same_v<T, bool>)
        value = true;
      else
        value = convert<T>(std::int64_t{-0x5a5a5a5a});
      std::fill_n(reinterpret_cast<T*>(to), elems, value);
    }
  });
}

}  // namespace tessera
