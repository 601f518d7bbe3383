// Copies past the caches: lines that are all written need not be read first, and what is larger
// than a cache would not stay there.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::triton {

constexpr std::int64_t kStreamLine = 64;  ///< bytes; whole ones are streamed

/// Bytes from `p` to the next line.
inline std::int64_t to_line(const std::byte* p) {
  return -reinterpret_cast<std::intptr_t>(p) & (kStreamLine - 1);
}

#if defined(__AVX512F__)
constexpr bool kStreams = true;

inline void stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::int64_t i = std::min(bytes, to_line(to));
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + kStreamLine <= bytes; i += kStreamLine)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}
/// What this thread streamed is there for the others.
inline void end_stream() { _mm_sfence(); }
#else
constexpr bool kStreams = false;

inline void stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline void end_stream() {}
#endif

}  // namespace tessera::triton
