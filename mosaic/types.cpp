#include "mosaic/types.hpp"

#include <cstdio>
#include <cstring>

#include "mosaic/trace.hpp"

namespace tessera::mosaic {

bool is_unsigned(DType dtype) {
  return dtype == DType::u32 || dtype == DType::u8 || dtype == DType::u4 || dtype == DType::u2;
}

DType signless(DType dtype) {
  switch (dtype) {
    case DType::u32:
      return DType::i32;
    case DType::u8:
      return DType::i8;
    case DType::u4:
      return DType::i4;
    case DType::u2:
      return DType::i2;
    default:
      return dtype;
  }
}

std::string element_type(DType dtype) {
  switch (signless(dtype)) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::i4:
    case DType::i2:
      return name(signless(dtype));
    case DType::f8e4m3fn:
      return "f8E4M3FN";
    case DType::f8e5m2:
      return "f8E5M2";
    case DType::boolean:
      return "i1";
    default:
      break;
  }
  refuse(std::string("elements of type ") + name(dtype) + " in the TPU build");
}

namespace {
std::string dims(const std::vector<std::int64_t>& extents) {
  std::string text;
  for (const std::int64_t e : extents)
    text += (e == kAnyExtent ? std::string("?") : std::to_string(e)) + "x";
  return text;
}
}  // namespace

std::string vector_type(const std::vector<std::int64_t>& extents, const std::string& element) {
  return "vector<" + dims(extents) + element + ">";
}
std::string memref_type(const std::vector<std::int64_t>& extents, const std::string& element,
                        const std::string& space) {
  return "memref<" + dims(extents) + element + ", #tpu.memory_space<" + space + ">>";
}

std::string number_text(double value, DType dtype) {
  if (dtype == DType::boolean) return value != 0 ? "true" : "false";
  if (!is_float(dtype)) {
    const auto whole = static_cast<std::int64_t>(value);
    // As signed numbers of as many bits, which MLIR reads of every type.
    if (is_unsigned(dtype) && whole >= std::int64_t{1} << (bit_width(dtype) - 1))
      return std::to_string(whole - (std::int64_t{1} << bit_width(dtype)));
    return std::to_string(whole);
  }
  std::uint32_t bits = 0;
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T> && sizeof(T) <= sizeof bits) {
      const T element = convert<T>(value);
      std::memcpy(&bits, &element, sizeof element);
    }
  });
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*X", bit_width(dtype) / 4, bits);
  return text;
}

}  // namespace tessera::mosaic
