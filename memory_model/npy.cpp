#include "memory_model/npy.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "memory_model/file.hpp"

namespace tessera {

namespace {

std::string descr_of(DType d) {
  switch (d) {
    case DType::f64:
      return "<f8";
    case DType::f32:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::bf16:
      return "<V2";
    case DType::i64:
      return "<i8";
    case DType::i32:
      return "<i4";
    case DType::i16:
      return "<i2";
    case DType::i8:
      return "|i1";
    case DType::u32:
      return "<u4";
    case DType::u8:
      return "|u1";
    case DType::boolean:
      return "|b1";
    default:
      return "<V1";
  }
}

bool accepts(DType expected, std::string descr) {
  if (descr == "<f1") return expected == DType::f8e5m2;
  if (!descr.empty() && descr[0] == '|') descr[0] = '<';
  std::string wanted = descr_of(expected);
  if (wanted[0] == '|') wanted[0] = '<';
  return descr == wanted;
}

/// A file has them one to a byte.
bool is_packed(DType d) { return bit_width(d) < 8; }

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw NpyError(path + ": " + what);
}

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  Shape shape;
  std::size_t data_at = 0;
};

/// What follows 'key': in the header, which is a Python dictionary of literals.
std::string value_of(const std::string& header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) return "";
  const std::size_t colon = header.find(':', at);
  if (colon == std::string::npos) return "";
  const std::size_t value = header.find_first_not_of(' ', colon + 1);
  return value == std::string::npos ? "" : header.substr(value);
}

/// The text between an opening mark, which must come first, and the next closing one; "" without
/// them.
std::string between(const std::string& text, char open, char close) {
  if (text.empty() || text[0] != open) return "";
  const std::size_t end = text.find(close, 1);
  return end == std::string::npos ? "" : text.substr(1, end - 1);
}

/// True for any number type of the width.
bool same_width(DType dtype, const std::string& descr) {
  const std::int64_t width = bit_width(dtype) < 8 ? 1 : bit_width(dtype) / 8;
  return descr.size() >= 3 && descr[0] != '>' && descr.substr(2) == std::to_string(width);
}

Header parse_header(const std::string& path, const std::string& file, DType expected, bool bits) {
  if (file.size() < 10) fail(path, "is truncated in its header");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(file[i]));
  };
  const std::size_t major = byte(6);
  if (major < 1 || major > 3)
    fail(path, "has .npy format " + std::to_string(major) + ", not 1 to 3");
  std::size_t length = byte(8) | byte(9) << 8;
  std::size_t at = 10;
  if (major > 1) {
    if (file.size() < 12) fail(path, "is truncated in its header");
    length |= byte(10) << 16 | byte(11) << 24;
    at = 12;
  }
  if (file.size() - at < length) fail(path, "is truncated in its header");
  const std::string header = file.substr(at, length);
  const std::string descr = between(value_of(header, "descr"), '\'', '\'');
  if (descr.empty()) fail(path, "holds records or objects, not numbers");
  if (!(bits ? same_width(expected, descr) : accepts(expected, descr))) {
    fail(path,
         "holds '" + descr + "'; wanted " + name(expected) + " ('" + descr_of(expected) + "')");
  }
  const std::string order = value_of(header, "fortran_order");
  const bool fortran = order.starts_with("True");
  if (!fortran && !order.starts_with("False")) fail(path, "has no fortran_order in its header");
  const std::string tuple = value_of(header, "shape");
  if (!tuple.starts_with("(") || tuple.find(')') == std::string::npos) {
    fail(path, "has no shape in its header");
  }
  Header result;
  std::istringstream extents(between(tuple, '(', ')'));
  for (std::string item; std::getline(extents, item, ',');) {
    if (item.find_first_not_of(" \t") == std::string::npos) continue;
    if (result.shape.rank == kMaxRank) fail(path, "has more than 8 dimensions");
    std::int64_t extent = 0;
    const char* first = item.data() + item.find_first_not_of(' ');
    const auto parsed = std::from_chars(first, item.data() + item.size(), extent);
    const bool ends = std::all_of(parsed.ptr, static_cast<const char*>(item.data() + item.size()),
                                  [](char c) { return c == ' '; });
    if (parsed.ec != std::errc() || !ends || extent < 0) fail(path, "has an unreadable shape");
    // 2^44 elements in all is past any machine; it also keeps the products below from overflowing.
    if (extent > (1LL << 44) || (extent > 0 && result.shape.elems() > (1LL << 44) / extent)) {
      fail(path, "claims an impossible shape");
    }
    result.shape.push_back(extent);
  }
  if (fortran && result.shape.rank > 1) {
    fail(path, "is in Fortran order; save numpy.ascontiguousarray(a)");
  }
  result.data_at = at + length;
  return result;
}

Array read(const std::string& path, DType expected, bool bits) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code error;
  if (!stream || std::filesystem::is_directory(path, error)) fail(path, "cannot be read");
  // The first bytes alone tell a device that never ends.
  std::string file(kMagic.size(), '\0');
  stream.read(file.data(), static_cast<std::streamsize>(file.size()));
  if (file != kMagic) fail(path, "is not a .npy file");
  constexpr std::size_t kPart = std::size_t{1} << 16;  // pipes have no size to ask for
  while (stream) {
    const std::size_t at = file.size();
    file.resize(at + kPart);
    stream.read(file.data() + at, static_cast<std::streamsize>(kPart));
    file.resize(at + static_cast<std::size_t>(stream.gcount()));
  }
  const Header header = parse_header(path, file, expected, bits);
  const std::int64_t elems = header.shape.elems();
  const std::int64_t wanted = is_packed(expected) ? elems : packed_bytes(expected, elems);
  const auto have = static_cast<std::int64_t>(file.size() - header.data_at);
  if (have < wanted) {
    fail(path, "is truncated: " + to_string(header.shape) + " needs " + std::to_string(wanted) +
                   " bytes of data, it has " + std::to_string(have));
  }
  if (have > wanted) fail(path, "has " + std::to_string(have - wanted) + " bytes after its data");
  Array array(expected, header.shape);
  const char* data = file.data() + header.data_at;
  if (is_packed(expected)) {
    visit_dtype(expected, [&]<class T>(TypeTag<T>) {
      if constexpr (kIsPacked<T>) {
        for (std::int64_t i = 0; i < elems; ++i)
          store_element(array.bytes(), i,
                        from_pattern<T>(static_cast<unsigned char>(data[i]) & kPatternMask<T>));
      }
    });
  } else if (wanted > 0) {
    std::memcpy(array.bytes(), data, static_cast<std::size_t>(wanted));
  }
  return array;
}

}  // namespace

Array read_npy(const std::string& path, DType expected) { return read(path, expected, false); }
Array read_npy_bits(const std::string& path, DType dtype) {
  if (dtype == DType::f4e2m1fn) {
    try {
      const Array values = read(path, DType::f32, false);
      Array array(dtype, values.shape());
      for (std::int64_t i = 0; i < values.elems(); ++i) array.set(i, values.at(i));
      return array;
    } catch (const NpyError&) {  // patterns, then
    }
  }
  return read(path, dtype, true);
}

namespace {

/// Of a device or a pipe: what another file takes the place of would be gone.
bool is_special(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return !error && std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

}  // namespace

void write_file_atomically(const std::string& path, const std::string& text) {
  if (is_special(path)) {
    std::ofstream stream(path, std::ios::binary);
    stream.write(text.data(), static_cast<std::streamsize>(text.size()));
    stream.close();
    if (!stream) fail(path, "cannot be written");
    return;
  }
  constexpr const char* kMark = ".tmp";
  sweep(path, kMark);
  const std::string temporary = path + kMark + std::to_string(::getpid());
  std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(temporary, path, error);
  if (!stream || error) {
    std::filesystem::remove(temporary, error);
    fail(path, "cannot be written");
  }
}

void write_npy(const std::string& path, const Array& array) {
  std::string shape = "(";
  for (int i = 0; i < array.shape().rank; ++i) shape += std::to_string(array.shape()[i]) + ", ";
  if (array.shape().rank > 1) shape.resize(shape.size() - 2);
  if (array.shape().rank == 1) shape.resize(shape.size() - 1);
  shape += ")";
  std::string header = "{'descr': '" + descr_of(array.dtype()) +
                       "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 255u);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  if (is_packed(array.dtype())) {
    const bool is_signed = array.dtype() == DType::i4 || array.dtype() == DType::i2;
    for (std::int64_t i = 0; i < array.elems(); ++i)
      file += static_cast<char>(
          is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(array.at(i)))
                    : array.bits(i));
  } else {
    file.append(reinterpret_cast<const char*>(array.bytes()),
                static_cast<std::size_t>(array.size_bytes()));
  }
  write_file_atomically(path, file);
}

}  // namespace tessera
