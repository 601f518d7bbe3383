// Tiles of the CUDA build: values in registers or in shared memory, with compile-time extents, and
// the backend that sim/ops hands its ops to.
//
// A register tile is spread over the computing threads as its layout says (cuda/threads.hpp,
// cuda/warpgroups.hpp, cuda/warps.hpp); elementwise ops, row reductions and casts touch a thread's
// own elements and those of the threads of its row. Tiles in shared memory are read where an op
// wants them. Where tensor cores fill a thread's registers with an accumulator, elementwise ops
// wait until somebody wants their elements. dot() is a right-hand side: cuda/dot.hpp computes it.
#pragma once

#include "cuda/exchange.hpp"
#include "cuda/fast_math.hpp"
#include "cuda/packing.hpp"
#include "cuda/quotient.hpp"
#include "cuda/warpgroups.hpp"
#include "cuda/warps.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/lookup.hpp"
#include "sim/ops/op.hpp"

namespace tessera::cuda {

template <class Th>
struct Cta;

/// The 16-bit floats: what tensor cores multiply, and one instruction rounds two f32 to.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

/// What one load or store moves.
template <int kBytes>
inline constexpr bool kIsChunk = kBytes == 4 || kBytes == 8 || kBytes == 16;
template <int kBytes>
using Chunk =
    std::conditional_t<kBytes == 4, unsigned, std::conditional_t<kBytes == 8, uint2, uint4>>;

/// `kCount` neighbours, in one load where they are aligned.
template <int kCount, bool kAligned, class T>
__device__ __forceinline__ void read(const T* from, T (&to)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kAligned && kIsChunk<kBytes>) {
    const auto bits = *reinterpret_cast<const Chunk<kBytes>*>(from);
    __builtin_memcpy(to, &bits, sizeof bits);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = from[e];
  }
}
template <int kCount, bool kAligned, class T>
__device__ __forceinline__ void write(T* to, const T (&from)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kAligned && kIsChunk<kBytes>) {
    Chunk<kBytes> bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    *reinterpret_cast<Chunk<kBytes>*>(to) = bits;
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = from[e];
  }
}

/// Elements in registers.
template <class Th, class T, int kR, int kC>
struct RegTile {
  using Backend = Cta<Th>;
  using Element = T;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  static constexpr int kHeldRows = Th::template kRowsHeld<kR>;
  static constexpr int kHeldCols = Th::template kColsHeld<kC>;
  T v[kHeldRows][kHeldCols];

  /// The element at held place (i, j); 0 for the one row or column of a broadcast.
  __device__ __forceinline__ T at(int i, int j) const {
    return v[kR == 1 ? 0 : i][kC == 1 ? 0 : j];
  }
  RegTile() = default;
  template <class X>
  requires(!std::is_same_v<X, RegTile>) __device__ __forceinline__ RegTile& operator=(const X& x) {
    Backend::assign(*this, x);
    return *this;
  }
};

/// Keeps a tile's registers as they are here: nothing moves across.
template <class Th, int kR, int kC>
__device__ __forceinline__ void pin(RegTile<Th, float, kR, kC>& tile) {
#pragma unroll
  for (auto& row : tile.v) {
#pragma unroll
    for (float& value : row) asm volatile("" : "+f"(value)::"memory");
  }
}

/// Elements in shared memory, as cuda/packing.hpp lays them out.
template <class Th, class T, int kR, int kC>
struct SharedTile {
  using Backend = Cta<Th>;
  using Element = T;
  using Packed = Packing<T, kR, kC>;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  T* data;
  SharedAt address;  ///< the same place

  __device__ __forceinline__ T* at_place(int r, int c) const { return data + Packed::offset(r, c); }

  /// The element that this thread holds at place (i, j). Neighbours come in one load.
  __device__ __forceinline__ T at(int i, int j) const {
    const int r = Th::template row<kR>(i);
    if constexpr (kC == 1) {
      return inside<Th, kR, kC>(r, 0) ? *at_place(r, 0) : T{};
    } else {
      const int c = Th::template col<kC>(j / 2 * 2);
      T two[2] = {};
      if (inside<Th, kR, kC>(r, c + 1))
        read<2, Packed::together(2 * sizeof(T))>(at_place(r, c), two);
      else if (inside<Th, kR, kC>(r, c))
        two[0] = *at_place(r, c);
      return two[j % 2];
    }
  }
};

/// kRows x kCols of a tile in shared memory of kR x kC, from a place that is known when the kernel
/// runs. kWholeRows: rows from their first column on.
template <class Th, class T, int kR, int kC, int kRows, int kCols, bool kWholeRows>
struct SharedWindow {
  using Backend = Cta<Th>;
  using Element = T;
  using Of = Packing<T, kR, kC>;
  /// What dot() asks of the place of neighbours.
  struct Packed {
    static constexpr bool together(int bytes) { return kWholeRows && Of::together(bytes); }
  };
  static constexpr Int<kRows> rows{};
  static constexpr Int<kCols> cols{};
  T* data;  ///< of the tile
  int row0;
  int col0;

  __device__ __forceinline__ T* at_place(int r, int c) const {
    return data + Of::offset(row0 + r, col0 + c);
  }
  __device__ __forceinline__ T at(int i, int j) const {
    const int r = Th::template row<kRows>(i);
    const int c = Th::template col<kCols>(j);
    return inside<Th, kRows, kCols>(r, c) ? *at_place(r, c) : T{};
  }
};
template <class X>
inline constexpr bool kIsWindow = requires {
  typename X::Of;
};

/// Puts a tile into part of one in shared memory; the threads meet around it as the caller needs.
template <class Th, class T, int kR, int kC, int kRows, int kCols, bool kWholeRows, class X>
__device__ __forceinline__ void store_shared(
    const SharedWindow<Th, T, kR, kC, kRows, kCols, kWholeRows>& to, const X& x) {
  if (!hands_on<Th, kRows, kCols>()) return;
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kRows>; ++i) {
#pragma unroll
    for (int j = 0; j < Th::template kColsHeld<kCols>; ++j) {
      const int r = Th::template row<kRows>(i);
      const int c = Th::template col<kCols>(j);
      if (inside<Th, kRows, kCols>(r, c)) *to.at_place(r, c) = x.at(i, j);
    }
  }
}

/// Each element's row, or column, computed where it is wanted.
template <class Th, bool kOfRows, int kR, int kC>
struct Ids {
  using Backend = Cta<Th>;
  using Element = std::int32_t;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  __device__ __forceinline__ std::int32_t at(int i, int j) const {
    return kOfRows ? Th::template row<kR>(i) : Th::template col<kC>(j);
  }
};

/// True for a tile in registers, and for a place that is one.
template <class X>
inline constexpr bool kIsHeld = requires(const X& x) {
  x.sum;
}
|| requires(const X& x) { x.v; };

template <class X>
inline constexpr bool kIsShared = requires(const X& x) {
  x.at_place(0, 0);
};

/// Of an input: nothing changes it in a step, and it can be read where it lies when it is wanted.
template <class X>
inline constexpr bool kStays = kIsShared<X> && !std::is_base_of_v<OnDevice, X>;

/// The operand of a dot with rows and columns exchanged.
template <class A>
struct Transposed {
  using Backend = typename A::Backend;
  using Element = typename A::Element;
  static constexpr auto rows = A::cols;
  static constexpr auto cols = A::rows;
  A tile;
};
template <class X>
inline constexpr bool kIsShared<Transposed<X>> = kIsShared<X>;
template <class X>
inline constexpr bool kIsTransposed = false;
template <class X>
inline constexpr bool kIsTransposed<Transposed<X>> = true;

/// The operand as it lies, and its rows [kBegin, kBegin + kCount) put where `to` has them, for all
/// threads to read: a right operand of a product, which lies in registers.
template <class Th, int kBegin, int kCount, class B, class To>
__device__ __forceinline__ void hand_rows(const B& b, const To& to) {
  constexpr bool kTurned = kIsTransposed<B>;
  const auto& tile = [&]() -> const auto& {
    if constexpr (kTurned)
      return b.tile;
    else
      return b;
  }
  ();
  using Tile = std::remove_cvref_t<decltype(tile)>;
  constexpr int kR = Tile::rows;
  constexpr int kC = Tile::cols;
  const bool hands = hands_on<Th, kR, kC>();
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
#pragma unroll
    for (int j = 0; j < Th::template kColsHeld<kC>; ++j) {
      const int r = Th::template row<kR>(i);
      const int c = Th::template col<kC>(j);
      const int row = (kTurned ? c : r) - kBegin;
      if (hands && inside<Th, kR, kC>(r, c) && row >= 0 && row < kCount)
        *to.at_place(row, kTurned ? r : c) = tile.at(i, j);
    }
  }
  fence_async_proxy();
  Th::sync();
}

/// a times b, until somebody has a place for it. Sums of integers are i32.
template <class A, class B>
struct Product {
  using Backend = typename A::Backend;
  using Element = std::conditional_t<std::is_integral_v<typename A::Element>, std::int32_t, float>;
  static constexpr auto rows = A::rows;
  static constexpr auto cols = B::cols;
  A a;
  B b;
};
template <class X>
inline constexpr bool kIsProduct = false;
template <class A, class B>
inline constexpr bool kIsProduct<Product<A, B>> = true;

template <class X>
inline constexpr int kRowsOf = [] {
  if constexpr (TileLike<X>)
    return static_cast<int>(X::rows);
  else
    return 1;
}();
template <class X>
inline constexpr int kColsOf = [] {
  if constexpr (TileLike<X>)
    return static_cast<int>(X::cols);
  else
    return 1;
}();
template <class... X>
constexpr int largest(X... extents) {
  int most = 1;
  ((most = extents > most ? extents : most), ...);
  return most;
}

/// What an op takes of an operand at one place.
template <class S, class X>
__device__ __forceinline__ auto element(const X& x, int i, int j) {
  if constexpr (TileLike<X>)
    return x.at(i, j);
  else
    return convert<S>(x);
}

/// An elementwise op, computed where an element is wanted: a thread holds one element on its way
/// through an expression, not a tile of every step. Operands are kept by value, so that it means
/// what it meant when it was written. Wanted twice, the compiler computes it once.
template <class Th, class Op, class... X>
struct Elementwise {
  using Backend = Cta<Th>;
  using S = ScalarOf<X...>;
  static constexpr Int<largest(kRowsOf<X>...)> rows{};
  static constexpr Int<largest(kColsOf<X>...)> cols{};
  std::tuple<X...> operands;
  using Element = decltype(compute<Th, Op>(element<S>(std::declval<const X&>(), 0, 0)...));

  __device__ __forceinline__ Element at(int i, int j) const {
    return std::apply(
        [&](const X&... x) {
          return compute<Th, Op>(
              element<S>(x, kRowsOf<X> == 1 ? 0 : i, kColsOf<X> == 1 ? 0 : j)...);
        },
        operands);
  }
};

/// Puts a tile into shared memory; the threads meet around it as the caller needs.
template <class Th, class T, int kR, int kC, class X>
__device__ __forceinline__ void store_shared(const SharedTile<Th, T, kR, kC>& to, const X& x) {
  if (kR == 1 && !Th::first_of_column()) return;
  if (kC == 1 && !Th::first_of_row()) return;
#pragma unroll
  for (int i = 0; i < Th::template kRowsHeld<kR>; ++i) {
    const int r = Th::template row<kR>(i);
    if constexpr (kC == 1) {
      if (inside<Th, kR, kC>(r, 0)) *to.at_place(r, 0) = x.at(i, 0);
    } else {
#pragma unroll
      for (int j = 0; j < Th::template kColsHeld<kC>; j += 2) {
        const int c = Th::template col<kC>(j);
        const T two[2] = {x.at(i, j), x.at(i, j + 1)};
        if (inside<Th, kR, kC>(r, c + 1))
          write<2, Packing<T, kR, kC>::together(2 * sizeof(T))>(to.at_place(r, c), two);
        else if (inside<Th, kR, kC>(r, c))
          *to.at_place(r, c) = two[0];
      }
    }
  }
}

/// sum += a times b, or sum = a times b if kFresh.
template <bool kFresh, class Th, class A, class B, class Sum, int kR, int kC>
__device__ __forceinline__ void multiply_add(const Product<A, B>& product,
                                             RegTile<Th, Sum, kR, kC>& sum);

/// Two f32 to the narrow float, rounded to nearest even by one instruction.
template <class To>
__device__ __forceinline__ void narrow(float a, float b, To (&to)[2]) {
  unsigned bits;
  if constexpr (std::is_same_v<To, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(b), "f"(a));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(b), "f"(a));
  __builtin_memcpy(to, &bits, sizeof bits);
}

/// A tile of f32 as narrow floats, rounded where an element is wanted: beside an accumulator there
/// are no registers for the whole of it.
template <class Th, class To, class A>
struct Narrowed {
  using Backend = Cta<Th>;
  using Element = To;
  static constexpr auto rows = A::rows;
  static constexpr auto cols = A::cols;
  A wide;
  /// Neighbours come by one instruction.
  __device__ __forceinline__ To at(int i, int j) const {
    To two[2];
    narrow(wide.at(i, j / 2 * 2), wide.at(i, j / 2 * 2 + 1), two);
    return two[j % 2];
  }
};
/// A tile of another type, converted where an element is wanted.
template <class Th, class To, class A>
struct Converted {
  using Backend = Cta<Th>;
  using Element = To;
  static constexpr auto rows = A::rows;
  static constexpr auto cols = A::cols;
  A from;
  __device__ __forceinline__ To at(int i, int j) const { return convert<To>(from.at(i, j)); }
};
/// Fields of words, and what is computed of each alone (cuda/codes.hpp): taken where they are
/// wanted.
template <class X>
inline constexpr bool kIsCodes = false;
template <class Th, class To, class A>
inline constexpr bool kIsCodes<Converted<Th, To, A>> = kIsCodes<A>;
template <class Th, int kBits, class A>
struct Fields;
template <class Th, int kSize, class A>
struct Looked;
/// What an output takes element by element.
template <class X>
inline constexpr bool kIsCast = false;
template <class Th, class To, class A>
inline constexpr bool kIsCast<Narrowed<Th, To, A>> = true;
template <class Th, class To, class A>
inline constexpr bool kIsCast<Converted<Th, To, A>> = true;

template <class Th, class A>
__device__ __forceinline__ auto totals_of_rows(const A& a);

/// The backend of tiles that a CTA computes.
template <class Th>
struct Cta {
  template <class Op, class... X>
  static __device__ __forceinline__ auto map(const X&... x) {
    static_assert((!kIsProduct<X> && ...), "name a dot through load(dot(a, b))");
    constexpr int kR = largest(kRowsOf<X>...);
    constexpr int kC = largest(kColsOf<X>...);
    static_assert(((kRowsOf<X> == kR || kRowsOf<X> == 1) && ...), "rows agree or are 1");
    static_assert(((kColsOf<X> == kC || kColsOf<X> == 1) && ...), "columns agree or are 1");
    using S = ScalarOf<X...>;
    if constexpr (Th::template kWaits<kR, kC>)
      return Elementwise<Th, Op, std::remove_cvref_t<decltype(kept(x))>...>{{kept(x)...}};
    else
      return map_now<Op, S, kR, kC>(x...);
  }
  template <class Op, class S, int kR, int kC, class... X>
  static __device__ __forceinline__ auto map_now(const X&... x) {
    RegTile<Th, decltype(compute<Th, Op>(element<S>(x, 0, 0)...)), kR, kC> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j)
        r.v[i][j] =
            compute<Th, Op>(element<S>(x, kRowsOf<X> == 1 ? 0 : i, kColsOf<X> == 1 ? 0 : j)...);
    }
    return r;
  }
  /// An operand as it is now, whatever happens to its place.
  template <class X>
  static __device__ __forceinline__ decltype(auto) kept(const X& x) {
    if constexpr (requires { x.sum; })
      return RegTile<Th, typename X::Element, X::rows, X::cols>(*x.sum);
    else if constexpr (kIsShared<X> && std::is_base_of_v<OnDevice, X>)
      return load(x);
    else
      return x;
  }
  /// Every row by its own number.
  template <class Op, class A, class B>
  requires(std::is_same_v<Op, Div> && !Th::template kWaits<2, 2> && TileLike<A> && TileLike<B> &&
           kColsOf<B> == 1 && (kColsOf<A> > 1) && kRowsOf<A> == kRowsOf<B> &&
           std::is_same_v<ScalarOf<A, B>, float>) static __device__ __forceinline__
      auto map(const A& a, const B& b) {
    RegTile<Th, float, kRowsOf<A>, kColsOf<A>> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
      const double reciprocal = 1.0 / static_cast<double>(b.at(i, 0));
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j) r.v[i][j] = quotient(a.at(i, j), reciprocal);
    }
    return r;
  }

  template <class To, class A>
  static __device__ __forceinline__ auto cast(const A& a) {
    using From = typename A::Element;
    constexpr bool kOneColumn = kColsOf<A> == 1;
    constexpr bool kPairs = std::is_same_v<From, float> && !kOneColumn && kIsHalf<To>;
    if constexpr (kIsCodes<A>) {
      return Converted<Th, To, A>{a};
    } else if constexpr (Th::kTensorCores && kPairs && kIsHeld<A>) {
      return Narrowed<Th, To, std::remove_cvref_t<decltype(kept(a))>>{kept(a)};
    } else if constexpr (!Th::kTensorCores && (Th::template kWaits<kRowsOf<A>, kColsOf<A>> ||
                                               (Th::kTeams && kStays<A>))) {
      return Converted<Th, To, std::remove_cvref_t<decltype(kept(a))>>{kept(a)};
    } else {
      RegTile<Th, To, kRowsOf<A>, kColsOf<A>> r;
#pragma unroll
      for (int j = 0; j < r.kHeldCols; j += kPairs ? 2 : 1) {
#pragma unroll
        for (int i = 0; i < r.kHeldRows; ++i) {
          if constexpr (kPairs) {
            To two[2];
            narrow(a.at(i, j), a.at(i, j + 1), two);
            r.v[i][j] = two[0];
            r.v[i][j + 1] = two[1];
          } else {
            r.v[i][j] = convert<To>(a.at(i, j));
          }
        }
      }
      return r;
    }
  }

  /// In the one order of sim/ops/reduce.hpp.
  template <class Reduction, class A>
  static __device__ __forceinline__ auto reduce_rows(const A& a) {
    using T = typename A::Element;
    using Combine = typename Reduction::Combine;
    constexpr int kC = kColsOf<A>;
    const T identity = Reduction::template identity<T>();
    const auto combine = [](T x, T y) { return compute<Th, Combine>(x, y); };
    RegTile<Th, T, kRowsOf<A>, 1> r;
    if constexpr (kC == 1) {
      // Every thread of a row has the element; the other lanes are the identity.
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i)
        r.v[i][0] = combine(combine(identity, a.at(i, 0)), identity);
    } else if constexpr (Th::kTeams) {
      reduce_by_teams<Combine, kC>(a, identity, combine, r);
    } else {
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i) {
        T of[kPartsHeld<kC>];
#pragma unroll
        for (int part = 0; part < kPartsHeld<kC>; ++part)
          of[part] = reduced_chunk<Combine, kC>(a, i, part, identity, combine);
        r.v[i][0] = reduce_few(of, combine);
      }
    }
    return r;
  }
  /// Chunks of a row that a thread holds columns of.
  template <int kC>
  static constexpr int kPartsHeld =
      (Th::template kColsHeld<kC> + Th::kChunkHeld - 1) / Th::kChunkHeld;
  /// Chunk `part` of those that the threads of held row i have.
  template <class Combine, int kC, class A, class T, class Combined>
  static __device__ __forceinline__ T reduced_chunk(const A& a, int i, int part, T identity,
                                                    Combined combine) {
    constexpr int kHeld = Th::template kColsHeld<kC>;
    T lane[Th::kLanes];
#pragma unroll
    for (T& l : lane) l = identity;
#pragma unroll
    for (int n = 0; n < Th::kChunkHeld; ++n) {
      const int j = part * Th::kChunkHeld + n;
      if (j < kHeld && inside<Th, 1, kC>(0, Th::template col<kC>(j)))
        lane[n % Th::kLanes] = combine(lane[n % Th::kLanes], a.at(i, j));
    }
    return Th::template combine_lanes<Combine>(lane);
  }
  /// What the chunks of a row gave goes through shared memory, where each half-warp puts its own.
  template <class Combine, int kC, class A, class T, class Combined, class R>
  static __device__ __forceinline__ void reduce_by_teams(const A& a, T identity, Combined combine,
                                                         R& r) {
    constexpr int kChunks = (kC + kReduceChunk - 1) / kReduceChunk;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int part = 0; part < kPartsHeld<kC>; ++part) {
        const int chunk = part * Th::kHalfWarpsOfRow + Th::half_warp();
        const T reduced = reduced_chunk<Combine, kC>(a, i, part, identity, combine);
        if (chunk < kChunks && Th::x() == 0) Th::template chunks_of<kChunks, T>(i)[chunk] = reduced;
      }
    }
    Th::sync_team();
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
      const T* const chunks = Th::template chunks_of<kChunks, T>(i);
      if constexpr (kChunks <= 8) {
        T of[kChunks];
#pragma unroll
        for (int n = 0; n < kChunks; ++n) of[n] = chunks[n];
        r.v[i][0] = reduce_few(of, combine);
      } else {
        T lane[Th::kLanes];
#pragma unroll
        for (T& l : lane) l = identity;
#pragma unroll
        for (int n = 0; n < kChunks; n += kReduceLanes) {
#pragma unroll
          for (int l = 0; l < Th::kLanes; ++l) {
            const int chunk = n + Th::kLanes * Th::x() + l;
            if (chunk < kChunks) lane[l] = combine(lane[l], chunks[chunk]);
          }
        }
        r.v[i][0] = Th::template combine_lanes<Combine>(lane);
      }
    }
    Th::sync_team();  // nobody puts another reduction's there before
  }

  /// In the same order, lanes and all, through shared memory.
  template <class Reduction, class A>
  static __device__ __forceinline__ auto reduce_cols(const A& a) {
    using T = typename A::Element;
    using Combine = typename Reduction::Combine;
    RegTile<Th, T, 1, kColsOf<A>> r;
    reduce_down<Th, kRowsOf<A>, kColsOf<A>>(
        a, Reduction::template identity<T>(), [](T x, T y) { return compute<Th, Combine>(x, y); },
        [&](int j, T reduced) { r.v[0][j] = reduced; });
    return r;
  }

  template <class A>
  requires(kColumnsScanned<Th, kRowsOf<A>, kColsOf<A>, typename A::Element> >
           0) static __device__ __forceinline__ auto cumsum_rows(const A& a) {
    using T = typename A::Element;
    RegTile<Th, T, kRowsOf<A>, kColsOf<A>> r;
    scan_down<Th, kRowsOf<A>, kColsOf<A>>(
        a, [](T earlier, T later) { return compute<Th, Add>(later, earlier); },
        [&](int i, int j, T x) { r.v[i][j] = x; });
    return r;
  }

  /// Of words that stay where they lie.
  template <int kBits, class A>
  requires(kStays<A>) static __device__ __forceinline__ auto unpack_rows(const A& words) {
    return Fields<Th, kBits, A>{words};
  }
  template <class A, int kSize>
  requires(kIsCodes<A>) static __device__ __forceinline__
      auto lookup(const A& codes, const LookupTable<kSize>& table) {
    return Looked<Th, kSize, A>{codes, table};
  }
  /// By tensor cores, which have a column of ones to multiply by.
  template <class A>
  requires(Th::kTensorCores&& kStays<A>&& kIsHalf<typename A::Element>&& kColsOf<A> % 16 ==
           0) static __device__ __forceinline__ auto row_total(const A& a) {
    return totals_of_rows<Th>(a);
  }

  template <class Which, class A>
  static __device__ __forceinline__ auto ids(const A&) {
    return Ids<Th, Which::kRows, kRowsOf<A>, kColsOf<A>>{};
  }
  template <class T, class R, class C>
  static __device__ __forceinline__ auto full(R, C, T value) {
    static_assert(
        !std::is_same_v<R, int> && !std::is_same_v<C, int>,
        "the extents of a tile are compile-time: take .rows and .cols of a ref, or Int<N>");
    RegTile<Th, T, R::value, C::value> r;
    assign(r, value);
    return r;
  }
  template <class To, class A>
  static __device__ __forceinline__ auto bitcast(const A& a) {
    RegTile<Th, To, kRowsOf<A>, kColsOf<A>> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j) {
        const typename A::Element from = a.at(i, j);
        __builtin_memcpy(&r.v[i][j], &from, sizeof from);
      }
    }
    return r;
  }

  /// r[row, col] = a[from(row, col)].
  template <int kR, int kC, class A, class From>
  static __device__ __forceinline__ auto moved(const A& a, From from) {
    using T = typename A::Element;
    RegTile<Th, T, kR, kC> r{};
    if constexpr (kIsShared<A>) {
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
        for (int j = 0; j < r.kHeldCols; ++j) {
          const int row = Th::template row<kR>(i);
          const int col = Th::template col<kC>(j);
          if (!inside<Th, kR, kC>(row, col)) continue;
          const At at = from(row, col);
          r.v[i][j] = *a.at_place(at.row, at.col);
        }
      }
    } else {
      hand_over<Th, kR, kC, kRowsOf<A>, kColsOf<A>>(a, from,
                                                    [&](int i, int j, T x) { r.v[i][j] = x; });
    }
    return r;
  }
  /// Columns that a thread holds of a tile are those that it holds of parts of it.
  template <int kC>
  static constexpr bool kWholePairs = kC > 1 && kC % Th::kSpan == 0;

  template <bool kRows, class A, class B>
  static __device__ __forceinline__ auto concat(const A& a, const B& b) {
    constexpr int kFirst = kRows ? kRowsOf<A> : kColsOf<A>;
    constexpr int kR = kRowsOf<A> + (kRows ? kRowsOf<B> : 0);
    constexpr int kC = kColsOf<A> + (kRows ? 0 : kColsOf<B>);
    static_assert(kRows ? kColsOf<A> == kColsOf<B> : kRowsOf<A> == kRowsOf<B>,
                  "what is joined side by side agrees in rows, one below the other in columns");
    if constexpr (!kRows && kWholePairs<kColsOf<A>> && kWholePairs<kColsOf<B>>) {
      RegTile<Th, typename A::Element, kR, kC> r;
      constexpr int kHeld = Th::template kColsHeld<kColsOf<A>>;
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
        for (int j = 0; j < r.kHeldCols; ++j)
          r.v[i][j] = j < kHeld ? a.at(i, j < kHeld ? j : 0) : b.at(i, j < kHeld ? 0 : j - kHeld);
      }
      return r;
    } else {
      // Each where it lies; what lies beyond it is taken from its edge, and not looked at.
      const auto r = moved<kR, kC>(a, [](int row, int col) {
        return kRows ? At{row < kFirst ? row : 0, col} : At{row, col < kFirst ? col : 0};
      });
      auto all = moved<kR, kC>(b, [](int row, int col) {
        return kRows ? At{row < kFirst ? 0 : row - kFirst, col}
                     : At{row, col < kFirst ? 0 : col - kFirst};
      });
#pragma unroll
      for (int i = 0; i < all.kHeldRows; ++i) {
#pragma unroll
        for (int j = 0; j < all.kHeldCols; ++j) {
          const int place = kRows ? Th::template row<kR>(i) : Th::template col<kC>(j);
          if (place < kFirst) all.v[i][j] = r.v[i][j];
        }
      }
      return all;
    }
  }
  template <bool kRows, class A>
  static __device__ __forceinline__ auto roll(const A& a, int n) {
    constexpr int kExtent = kRows ? kRowsOf<A> : kColsOf<A>;
    const int back = kExtent - (n % kExtent + kExtent) % kExtent;
    return moved<kRowsOf<A>, kColsOf<A>>(a, [back](int row, int col) {
      const int place = (kRows ? row : col) + back;
      const int from = place < kExtent ? place : place - kExtent;
      return kRows ? At{from, col} : At{row, from};
    });
  }
  template <bool kRows, int kTimes, class A>
  static __device__ __forceinline__ auto repeat(const A& a) {
    constexpr int kR = kRowsOf<A> * (kRows ? kTimes : 1);
    constexpr int kC = kColsOf<A> * (kRows ? 1 : kTimes);
    return moved<kR, kC>(a, [](int row, int col) {
      return kRows ? At{row / kTimes, col} : At{row, col / kTimes};
    });
  }
  template <bool kRows, int kParts, int kWhich, class A>
  static __device__ __forceinline__ auto part(const A& a) {
    constexpr int kExtent = kRows ? kRowsOf<A> : kColsOf<A>;
    static_assert(kExtent % kParts == 0, "a split is into equal parts");
    constexpr int kR = kRows ? kRowsOf<A> / kParts : kRowsOf<A>;
    constexpr int kC = kRows ? kColsOf<A> : kColsOf<A> / kParts;
    if constexpr (!kRows && kWholePairs<kC>) {
      RegTile<Th, typename A::Element, kR, kC> r;
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
        for (int j = 0; j < r.kHeldCols; ++j) r.v[i][j] = a.at(i, j + kWhich * r.kHeldCols);
      }
      return r;
    } else {
      return moved<kR, kC>(a, [](int row, int col) {
        return At{row + (kRows ? kWhich * kR : 0), col + (kRows ? 0 : kWhich * kC)};
      });
    }
  }

  template <class A, class Keep, class B>
  static __device__ __forceinline__ auto where_at(const A& a, Keep keep, B otherwise) {
    using T = typename A::Element;
    constexpr int kR = kRowsOf<A>;
    constexpr int kC = kColsOf<A>;
    RegTile<Th, T, kR, kC> r;
    const int first = Th::first_here();
    // Down the columns: what keep() computes of a column is used at once.
#pragma unroll
    for (int j = 0; j < r.kHeldCols; ++j) {
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i)
        r.v[i][j] = keep(Th::template row<kR>(i), Th::template col<kC>(j, first))
                        ? a.at(i, j)
                        : convert<T>(otherwise);
    }
    return r;
  }

  template <class A>
  static __device__ __forceinline__ auto transpose(const A& a) {
    return Transposed<A>{a};
  }

  template <class A, class B>
  static __device__ __forceinline__ auto dot(const A& a, const B& b) {
    static_assert(kColsOf<A> == kRowsOf<B>, "the columns of a are the rows of b");
    static_assert(std::is_same_v<typename A::Element, typename B::Element>,
                  "dot of two element types: cast<T>() one of them");
    using T = typename A::Element;
    static_assert(std::is_same_v<T, float> || kIsSmallFloat<T> || kIsByte<T>,
                  "dot() is of f32, narrower floats and 8-bit integers: cast<T>() first");
    return Product<A, B>{a, b};
  }

  /// A right-hand side in registers.
  template <class X>
  static __device__ __forceinline__ auto load(const X& x) {
    using T = typename X::Element;
    if constexpr (kIsTransposed<X>) {
      return moved<kRowsOf<X>, kColsOf<X>>(x.tile, [](int row, int col) { return At{col, row}; });
    } else {
      RegTile<Th, T, kRowsOf<X>, kColsOf<X>> r;
      if constexpr (kIsProduct<X>) {
        multiply_add<true>(x, r);
      } else {
        assign(r, x);
      }
      return r;
    }
  }

  /// A right-hand side of these extents in registers; a scalar fills them.
  template <class T, int kR, int kC, class X>
  static __device__ __forceinline__ auto as_tile(const X& x) {
    if constexpr (kIsCast<X>) {
      static_assert(kRowsOf<X> == kR && kColsOf<X> == kC, "extents differ");
      return x;
    } else if constexpr (kIsProduct<X>) {
      return load(x);
    } else {
      RegTile<Th, T, kR, kC> r;
      assign(r, x);
      return r;
    }
  }

  /// r = x: a scalar, or a tile of its extents.
  template <class T, int kR, int kC, class X>
  static __device__ __forceinline__ void assign(RegTile<Th, T, kR, kC>& r, const X& x) {
    if constexpr (TileLike<X>) {
      static_assert(kRowsOf<X> == kR && kColsOf<X> == kC, "extents differ");
      static_assert(std::is_same_v<typename X::Element, T>,
                    "element types differ: cast<T>() first");
    }
    // Down the columns: what an expression reads of a row vector is used at once.
#pragma unroll
    for (int j = 0; j < r.kHeldCols; ++j) {
#pragma unroll
      for (int i = 0; i < r.kHeldRows; ++i) r.v[i][j] = element<T>(x, i, j);
    }
  }
};

}  // namespace tessera::cuda
