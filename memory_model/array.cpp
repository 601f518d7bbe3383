#include "memory_model/array.hpp"

namespace tessera {

namespace {
template <class T>
T load_element(const std::byte* bytes, std::int64_t i) {
  if constexpr (kIsNibble<T>) {
    const auto byte = std::to_integer<unsigned>(bytes[i / 2]);
    return T(static_cast<std::int64_t>(i % 2 == 0 ? byte & 15u : byte >> 4));
  } else {
    T value;
    std::memcpy(&value, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
}
}  // namespace

double Array::at(std::int64_t i) const {
  return visit_dtype(dtype_, [&]<class T>(TypeTag<T>) {
    return convert<double>(load_element<T>(bytes_.data(), i));
  });
}

void Array::set(std::int64_t i, double value) {
  visit_dtype(dtype_, [&]<class T>(TypeTag<T>) {
    const T v = convert<T>(value);
    if constexpr (kIsNibble<T>) {
      auto byte = std::to_integer<unsigned>(bytes_[static_cast<std::size_t>(i / 2)]);
      const auto nibble = static_cast<unsigned>(v.value) & 15u;
      byte = i % 2 == 0 ? (byte & 0xf0u) | nibble : (byte & 0x0fu) | (nibble << 4);
      bytes_[static_cast<std::size_t>(i / 2)] = static_cast<std::byte>(byte);
    } else {
      std::memcpy(bytes_.data() + i * static_cast<std::int64_t>(sizeof(T)), &v, sizeof(T));
    }
  });
}

std::uint64_t Array::bits(std::int64_t i) const {
  return visit_dtype(dtype_, [&]<class T>(TypeTag<T>) -> std::uint64_t {
    const T v = load_element<T>(bytes_.data(), i);
    if constexpr (kIsNibble<T>) {
      return static_cast<std::uint64_t>(v.value) & 15u;
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
      values[i] = convert<double>(load_element<T>(bytes_.data(), static_cast<std::int64_t>(i)));
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

}  // namespace tessera
