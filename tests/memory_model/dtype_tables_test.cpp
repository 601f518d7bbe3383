// Conversions against tables that ml_dtypes and numpy made (make_dtype_tables.py): every pair of
// types, every pattern of the 8- and 16-bit ones.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "memory_model/npy.hpp"

using namespace tessera;

namespace {

DType unsigned_of(DType d) {
  return bit_width(d) <= 8 ? DType::u8 : bit_width(d) == 32 ? DType::u32 : DType::i64;
}

/// Bits as np.save wrote them: u8, u16, u32 or u64, which our reader knows as other types of that
/// width.
std::vector<std::uint64_t> read_bits(const std::string& path, DType d) {
  if (bit_width(d) == 16 || bit_width(d) == 64) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    REQUIRE(file != nullptr);
    unsigned char head[10];
    REQUIRE(std::fread(head, 1, 10, file) == 10);
    std::fseek(file, 10 + head[8] + 256 * head[9], SEEK_SET);
    std::vector<std::uint64_t> bits;
    std::uint64_t value = 0;
    while (std::fread(&value, static_cast<std::size_t>(bit_width(d) / 8), 1, file) == 1)
      bits.push_back(value);
    std::fclose(file);
    return bits;
  }
  const Array a = read_npy(path, unsigned_of(d));
  std::vector<std::uint64_t> bits;
  for (std::int64_t i = 0; i < a.elems(); ++i) bits.push_back(a.bits(i));
  return bits;
}

template <class T>
T from_bits(std::uint64_t bits) {
  if constexpr (kIsPacked<T>) {
    return from_pattern<T>(static_cast<unsigned>(bits));
  } else {
    T v;
    std::memcpy(static_cast<void*>(&v), &bits, sizeof(T));
    return v;
  }
}
template <class T>
std::uint64_t to_bits(T v) {
  if constexpr (kIsPacked<T>) {
    return pattern_of(v);
  } else {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof(T));
    return bits;
  }
}
template <class T>
bool is_nan(T v) {
  if constexpr (kIsFloat<T>)
    return std::isnan(convert<double>(v));
  else
    return false;
}

}  // namespace

TEST_CASE("conversions agree with ml_dtypes bit for bit", "[memory_model][dtype][tables]") {
  const char* folder = std::getenv("TESSERA_DTYPE_TABLES");
  if (folder == nullptr || !std::filesystem::exists(std::string(folder) + "/f32.bf16.in.npy")) {
    WARN("skipped: no tables from ml_dtypes");
    return;
  }
  std::int64_t compared = 0;
  for (int s = 0; s < kDTypes; ++s) {
    for (int d = 0; d < kDTypes; ++d) {
      const auto src = static_cast<DType>(s);
      const auto dst = static_cast<DType>(d);
      const std::string stem = std::string(folder) + "/" + name(src) + "." + name(dst);
      const auto in = read_bits(stem + ".in.npy", src);
      const auto out = read_bits(stem + ".out.npy", dst);
      REQUIRE(in.size() == out.size());
      CAPTURE(name(src), name(dst));
      visit_dtype(src, [&]<class S>(TypeTag<S>) {
        visit_dtype(dst, [&]<class D>(TypeTag<D>) {
          std::int64_t wrong = 0;
          for (std::size_t i = 0; i < in.size(); ++i) {
            const S from = from_bits<S>(in[i]);
            const D got = convert<D>(from);
            const D want = from_bits<D>(out[i]);
            // A NaN's payload: numpy's own casts keep it, ml_dtypes' do not; tessera keeps its sign
            // alone.
            const bool payload = (src == DType::f16 || dst == DType::f16 || bit_width(src) >= 32) &&
                                 is_nan(got) && is_nan(want);
            if (to_bits(got) != to_bits(want) && !payload) {
              if (wrong == 0) {
                UNSCOPED_INFO("first: 0x" << std::hex << in[i] << " gives 0x" << to_bits(got)
                                          << ", ml_dtypes 0x" << to_bits(want));
              }
              ++wrong;
            }
            ++compared;
          }
          CHECK(wrong == 0);
        });
      });
    }
  }
  CHECK(compared > 5'000'000);
}
