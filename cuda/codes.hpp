// Fields of packed words, as tiles whose elements are taken where they are wanted, and products
// with them by mma.sync: a thread reads the words of its own columns from shared memory and makes
// the fragments of a right operand in registers, two 16-bit floats at a time. Nothing is stored,
// nobody meets.
//
// The products of 16 k's, which tensor cores add in one step, may come in any order, as long as
// both operands have the same: a thread has four k's that follow one another in a word. So sums are
// those of a right operand in shared memory, bit by bit.
#pragma once

#include "cuda/mma_dot.hpp"

namespace tessera::cuda {

template <class Th, int kBits, class A>
struct Fields {
  using Backend = Cta<Th>;
  using Element = typename A::Element;
  static_assert(sizeof(Element) == 4 && std::is_integral_v<Element>,
                "fields are those of u32 and i32");
  static constexpr int kCount = 32 / kBits;
  static constexpr Int<kCount* static_cast<int>(A::rows)> rows{};
  static constexpr auto cols = A::cols;
  A words;

  __device__ __forceinline__ Element at(int i, int j) const {
    const int r = Th::template row<rows.value>(i);
    const int c = Th::template col<cols.value>(j);
    if (!inside<Th, rows.value, cols.value>(r, c)) return 0;
    const Element word = *words.at_place(r / kCount, c);
    return static_cast<Element>(word << (32 - kBits - r % kCount * kBits)) >> (32 - kBits);
  }
};
template <class Th, int kBits, class A>
inline constexpr bool kIsCodes<Fields<Th, kBits, A>> = true;

/// table[code] of codes.
template <class Th, int kSize, class A>
struct Looked {
  using Backend = Cta<Th>;
  using Element = float;
  static constexpr auto rows = A::rows;
  static constexpr auto cols = A::cols;
  A from;
  LookupTable<kSize> table;

  __device__ __forceinline__ float at(int i, int j) const {
    return entry<0, kSize>(static_cast<unsigned>(from.at(i, j)));
  }

 private:
  template <int kFirst, int kCount>
  __device__ __forceinline__ float entry(unsigned code) const {
    if constexpr (kCount == 1)
      return table.entries[kFirst];
    else
      return (code & (kCount / 2)) != 0 ? entry<kFirst + kCount / 2, kCount / 2>(code)
                                        : entry<kFirst, kCount / 2>(code);
  }
};
template <class Th, int kSize, class A>
inline constexpr bool kIsCodes<Looked<Th, kSize, A>> = true;

__device__ __forceinline__ unsigned permuted(unsigned a, unsigned b, unsigned selector) {
  unsigned to;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "r"(selector));
  return to;
}

/// Two pairs of the fields of a half-word of four, as 16-bit floats: fields 0 and 2, 1 and 3. With
/// the bits of 128 (1024, of f16) around it a field is that and its own number, which is then taken
/// away.
template <class T>
struct NumberPairs {
  static constexpr bool kNeighbours = false;

  __device__ __forceinline__ void take(unsigned word, bool upper, unsigned (&to)[2]) const {
    constexpr bool kBf16 = std::is_same_v<T, bf16>;
    constexpr unsigned kFields = 0x000f000fu;
    constexpr unsigned kAround = kBf16 ? 0x43004300u : 0x64006400u;
    constexpr unsigned kTaken = kBf16 ? 0xc300c300u : 0xe400e400u;
    constexpr unsigned kOne = kBf16 ? 0x3f803f80u : 0x3c003c00u;
    const unsigned bytes = permuted(word, 0, upper ? 0x4342 : 0x4140);  // a byte to 16 bits
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      unsigned around;  // bytes >> 4 p & fields | around
      asm("lop3.b32 %0, %1, %2, %3, 0xea;"
          : "=r"(around)
          : "r"(bytes >> (4 * p)), "n"(kFields), "r"(kAround));
      if constexpr (kBf16)
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(to[p]) : "r"(around), "r"(kOne), "r"(kTaken));
      else
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(to[p]) : "r"(around), "r"(kOne), "r"(kTaken));
    }
  }
};

/// Entries of a table of 16: of fields 0 and 1, 2 and 3. A byte permutation looks up four fields at
/// once in eight bytes of the table; of two of them the fields' highest bits choose.
template <class T>
struct TablePairs {
  static constexpr bool kNeighbours = true;
  unsigned bytes[2][4];  ///< low and high ones of the entries, four to a register

  __device__ __forceinline__ explicit TablePairs(const LookupTable<16>& table) {
#pragma unroll
    for (int e = 0; e < 16; e += 4) {
      unsigned two[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        T of[2];
        narrow(table.entries[e + 2 * half], table.entries[e + 2 * half + 1], of);
        __builtin_memcpy(&two[half], of, sizeof of);
      }
      bytes[0][e / 4] = permuted(two[0], two[1], 0x6420);
      bytes[1][e / 4] = permuted(two[0], two[1], 0x7531);
    }
  }
  __device__ __forceinline__ void take(unsigned word, bool upper, unsigned (&to)[2]) const {
    const unsigned four = word >> (upper ? 16 : 0);
    const unsigned within = four & 0x7777u;
    // A byte of ones where a field is 8 or more: the highest bits of even fields become bytes'.
    const unsigned second = permuted(four << 4, four, 0xd9c8);
    unsigned of[2];
#pragma unroll
    for (int byte = 0; byte < 2; ++byte) {
      const unsigned low = permuted(bytes[byte][0], bytes[byte][1], within);
      const unsigned high = permuted(bytes[byte][2], bytes[byte][3], within);
      asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(of[byte]) : "r"(second), "r"(high), "r"(low));
    }
    to[0] = permuted(of[0], of[1], 0x5140);
    to[1] = permuted(of[0], of[1], 0x7362);
  }
};

/// Whether 4 neighbours of a tile are 8 aligned bytes, from a multiple of 4 on: in part of a block
/// if it begins at one.
template <class X>
constexpr bool in_fours() {
  if constexpr (kIsWindow<X>)
    return X::Of::together(8);
  else
    return X::Packed::together(8);
}
/// Places of a tile from one on that a thread has, at distances that are known when this is
/// compiled: what the swizzle exchanges by them is one xor, the rest no instruction.
template <class X>
struct PlacesFrom {
  const X& tile;
  int row;
  int col;
  int first = offset(row, col);

  /// The distance has no bits of the chunk, nor of the row's last three, that the place has.
  __device__ __forceinline__ auto* at(int rows, int cols) const {
    if constexpr (kIsWindow<X>) {
      return tile.at_place(row + rows, col + cols);
    } else {
      using Packed = typename X::Packed;
      constexpr int kExchanged = Packed::kPanelled ? 7 * Packed::kChunk : 0;
      const int far = Packed::offset(rows, cols);
      return tile.data + ((first ^ (far & kExchanged)) + (far & ~kExchanged));
    }
  }

 private:
  static __device__ __forceinline__ int offset(int r, int c) {
    if constexpr (kIsWindow<X>)
      return 0;
    else
      return X::Packed::offset(r, c);
  }
};

/// Of 16 rows of a, columns k to k + 15: a thread has four neighbours of each of its rows, as
/// fields of words lie, in pairs of neighbours or of those two apart.
template <class Th, bool kNeighbours, class A>
__device__ __forceinline__ void left_fours(const A& a, int block, int k, unsigned (&to)[4]) {
  using T = typename A::Element;
  constexpr int kR = kRowsOf<A>;
  constexpr bool kEight = kR <= 8;  // of 8 rows the other 8 are nobody's
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool aligned = true;
  if constexpr (kIsWindow<A>) aligned = a.col0 % 4 == 0;
  const PlacesFrom<A> places{a, Th::template row<kR>(0), lane % 4 * 4};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    unsigned two[2] = {};
    if (!kEight || half == 0) {
      const int r = Th::template row<kR>(2 * block + half);
      if (Th::template kWholeRows<kR> || r < kR) {
        T four[4];
        if (aligned) {
          read<4, true>(places.at(Th::kHigh * block + 8 * half, k), four);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) four[e] = *place(a, r, k + lane % 4 * 4 + e);
        }
        __builtin_memcpy(two, four, sizeof two);
      }
    }
    to[half] = kNeighbours ? two[0] : permuted(two[0], two[1], 0x5410);
    to[half + 2] = kNeighbours ? two[1] : permuted(two[0], two[1], 0x7632);
  }
}

/// What makes fragments of a tile of codes: the words, and the pairs of their fields.
template <class T, class X>
struct CodePairs {
  static constexpr bool kAre = false;
};
template <class T, class Th, class To, class A>
struct CodePairs<T, Converted<Th, To, A>> : CodePairs<T, A> {
  static __device__ __forceinline__ auto pairs(const Converted<Th, To, A>& x) {
    return CodePairs<T, A>::pairs(x.from);
  }
  static __device__ __forceinline__ auto words(const Converted<Th, To, A>& x) {
    return CodePairs<T, A>::words(x.from);
  }
};
template <class T, class Th, class A>
struct CodePairs<T, Fields<Th, 4, A>> {
  static constexpr bool kAre = std::is_unsigned_v<typename A::Element>;
  static __device__ __forceinline__ auto pairs(const Fields<Th, 4, A>&) { return NumberPairs<T>{}; }
  static __device__ __forceinline__ auto words(const Fields<Th, 4, A>& x) { return x.words; }
};
template <class T, class Th, class A>
struct CodePairs<T, Looked<Th, 16, A>> : CodePairs<T, A> {
  static __device__ __forceinline__ auto pairs(const Looked<Th, 16, A>& x) {
    return TablePairs<T>(x.table);
  }
  static __device__ __forceinline__ auto words(const Looked<Th, 16, A>& x) {
    return CodePairs<T, A>::words(x.from);
  }
};

/// Whether the product of a tile in shared memory and of codes is made from words in registers.
template <class A, class B>
constexpr bool takes_words() {
  using T = typename A::Element;
  if constexpr (kIsHalf<T> && kIsShared<A> && !kIsTransposed<A> && CodePairs<T, B>::kAre)
    return in_fours<A>() && kColsOf<A> % 16 == 0 && kColsOf<B> % 32 == 0 &&
           (kRowsOf<A> % 16 == 0 || kRowsOf<A> <= 8);
  else
    return false;
}

/// sum += a times b, of 16 bits in shared memory and of codes.
template <class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_words(const A& a, const B& b,
                                               RegTile<Th, float, kR, kC>& sum) {
  using T = typename A::Element;
  using Tile = RegTile<Th, float, kR, kC>;
  const auto pairs = CodePairs<T, B>::pairs(b);
  const auto words = CodePairs<T, B>::words(b);
  using Pairs = std::remove_const_t<decltype(pairs)>;
  constexpr bool kEight = Tile::kHeldRows == 1;
  constexpr int kBlocks = kEight ? 1 : Tile::kHeldRows / 2;
  constexpr int kGroups = Tile::kHeldCols / 2;
  // Columns of a product of 8, too, may be any: those of two groups come in neighbours, the even
  // ones of the 8 from the first group.
  constexpr int kPair = kGroups % 2 == 0 ? 2 : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool upper = lane % 2 != 0;  // half of a word
  const int of_eight = lane / 4;
  const int col = kPair == 1 ? of_eight : of_eight % 2 * Th::kSpan + of_eight / 2 * 2;
  const PlacesFrom<std::remove_const_t<decltype(words)>> places{words, lane % 4 / 2,
                                                                8 * Th::warp() + col};
#pragma unroll
  for (int k = 0; k < kColsOf<A>; k += 16) {
    unsigned left[kBlocks][4];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
      left_fours<Th, Pairs::kNeighbours>(a, block, k, left[block]);
#pragma unroll
    for (int group = 0; group < kGroups; group += kPair) {
      typename std::remove_const_t<decltype(words)>::Element word[kPair];
      read<kPair, true>(places.at(k / 8, Th::kSpan * group), word);
#pragma unroll
      for (int e = 0; e < kPair; ++e) {
        unsigned right[2];
        pairs.take(word[e], upper, right);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          constexpr int kUpper = kEight ? 0 : 1;
          float* const lo = sum.v[2 * block] + 2 * group + e;
          float* const hi = sum.v[2 * block + kUpper] + 2 * group + e;
          float d[4] = {lo[0], lo[kPair], kEight ? 0.f : hi[0], kEight ? 0.f : hi[kPair]};
          mma_sync<T>(d, left[block], right);
          lo[0] = d[0];
          lo[kPair] = d[1];
          if constexpr (!kEight) {
            hi[0] = d[2];
            hi[kPair] = d[3];
          }
        }
      }
    }
  }
}

/// sum_k a[i,k] of each row, by a column of ones. Each warp sums its own 16 rows.
template <class Th, class A>
__device__ __forceinline__ auto totals_of_rows(const A& a) {
  using T = typename A::Element;
  constexpr unsigned kOnes = std::is_same_v<T, bf16> ? 0x3f803f80u : 0x3c003c00u;
  constexpr unsigned kRight[2] = {kOnes, kOnes};
  RegTile<Th, float, kRowsOf<A>, 1> sum;
  constexpr int kBlocks = sum.kHeldRows == 1 ? 1 : sum.kHeldRows / 2;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    float d[4] = {};
#pragma unroll
    for (int k = 0; k < kColsOf<A>; k += 16) {
      unsigned left[4];
      left_fours<Th, false>(a, block, k, left);  // the order that products with numbers take
      mma_sync<T>(d, left, kRight);
    }
    sum.v[2 * block][0] = d[0];
    if constexpr (sum.kHeldRows > 1) sum.v[2 * block + 1][0] = d[2];
  }
  return sum;
}

}  // namespace tessera::cuda
