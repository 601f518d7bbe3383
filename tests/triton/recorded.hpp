// The launches of ../shared/triton-corpus: what they were recorded with, and how near a result is.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "memory_model/npy.hpp"
#include "triton/case_directory.hpp"

namespace tessera::triton {

inline std::vector<std::string> corpus(const std::string& in = TESSERA_TRITON_CORPUS) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(in, error)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) std::cerr << "skipped: no " << in << "\n";
  return folders;
}

inline std::string inflated(const std::string& deflated) {
  z_stream z{};
  inflateInit2(&z, -MAX_WBITS);
  std::string to;
  std::array<unsigned char, 1 << 14> some{};
  std::string from = deflated;
  z.next_in = reinterpret_cast<unsigned char*>(from.data());
  z.avail_in = static_cast<unsigned>(from.size());
  for (int state = Z_OK; state == Z_OK;) {
    z.next_out = some.data();
    z.avail_out = static_cast<unsigned>(some.size());
    state = inflate(&z, Z_NO_FLUSH);
    to.append(reinterpret_cast<const char*>(some.data()), some.size() - z.avail_out);
  }
  inflateEnd(&z);
  return to;
}

/// Entry NAME.npy of an .npz; nothing if it has none.
inline std::optional<Array> read_npz(const std::string& path, const std::string& name,
                                     DType dtype) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  const auto number = [&](std::size_t at, int bytes) {
    std::uint64_t n = 0;
    for (int i = bytes; i-- > 0;)
      n = n << 8 | static_cast<unsigned char>(file.at(at + static_cast<std::size_t>(i)));
    return n;
  };
  for (std::size_t at = 0; at + 30 < file.size() && file.compare(at, 4, "PK\x03\x04") == 0;) {
    std::size_t size = number(at + 18, 4);
    const std::size_t name_size = number(at + 26, 2);
    const std::size_t extra = number(at + 28, 2);
    if (size == 0xffffffff)
      size = number(at + 30 + name_size + 4 + 8, 8);  // zip64, after the full size
    const std::size_t data = at + 30 + name_size + extra;
    if (file.substr(at + 30, name_size) == name + ".npy") {
      std::string bytes = file.substr(data, size);
      if (number(at + 8, 2) == 8) bytes = inflated(bytes);
      const std::string copy = std::filesystem::temp_directory_path() /
                               ("tessera_" + std::to_string(::getpid()) + ".npy");
      std::ofstream(copy, std::ios::binary)
          .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      Array a = read_npy_bits(copy, dtype);
      std::filesystem::remove(copy);
      return a;
    }
    at = data + size;
  }
  return std::nullopt;
}

struct Nearness {
  bool bits = true;
  double of_largest = 0;  ///< the largest difference, in units of the largest expected element
  std::int64_t worst = -1;
  bool special = false;  ///< a NaN or an infinity in one of them alone
};

inline Nearness compare(const Array& got, const Array& wanted) {
  Nearness n;
  double largest = 0;
  for (std::int64_t i = 0; i < wanted.elems(); ++i) {
    const double w = wanted.at(i);
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
  }
  for (std::int64_t i = 0; i < wanted.elems(); ++i) {
    if (got.bits(i) == wanted.bits(i)) continue;
    const double g = got.at(i);
    const double w = wanted.at(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    n.bits = false;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      n.special = true;
      if (n.worst < 0) n.worst = i;
      continue;
    }
    const double off = std::fabs(g - w) / (largest > 0 ? largest : 1);
    if (off > n.of_largest) {
      n.of_largest = off;
      n.worst = i;
    }
  }
  return n;
}

}  // namespace tessera::triton
