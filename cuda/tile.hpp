// Tiles of the CUDA build: values in registers or in shared memory, with compile-time extents, and
// the backend that sim/ops hands its ops to.
//
// A register tile is spread over the CTA as cuda/threads.hpp says; elementwise ops, row reductions
// and casts touch a thread's own elements and its half-warp's. Tiles in shared memory are read
// where an op wants an element. dot() is a right-hand side: cuda/dot.hpp computes it.
#pragma once

#include "cuda/threads.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/op.hpp"

namespace tessera::cuda {

template <class Th>
struct Simt;

/// Elements in registers.
template <class Th, class T, int kR, int kC>
struct RegTile {
  using Backend = Simt<Th>;
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
};

/// Elements in shared memory, rows kPitch elements apart.
template <class Th, class T, int kR, int kC, int kPitch>
struct SharedTile {
  using Backend = Simt<Th>;
  using Element = T;
  static constexpr Int<kR> rows{};
  static constexpr Int<kC> cols{};
  const T* data;

  __device__ __forceinline__ T at(int i, int j) const {
    const int r = Th::template row<kR>(i);
    const int c = Th::template col<kC>(j);
    return Th::template inside<kR, kC>(r, c) ? data[r * kPitch + c] : T{};
  }
};

/// The operand of a dot with rows and columns exchanged.
template <class A>
struct Transposed {
  using Backend = typename A::Backend;
  using Element = typename A::Element;
  static constexpr auto rows = A::cols;
  static constexpr auto cols = A::rows;
  A tile;
};

/// a times b, until somebody has a place for it.
template <class A, class B>
struct Product {
  using Backend = typename A::Backend;
  using Element = float;
  static constexpr auto rows = A::rows;
  static constexpr auto cols = B::cols;
  A a;
  B b;
};
template <class X>
inline constexpr bool kIsProduct = false;
template <class A, class B>
inline constexpr bool kIsProduct<Product<A, B>> = true;

/// What an op takes of an operand at one place.
template <class S, class X>
__device__ __forceinline__ auto element(const X& x, int i, int j) {
  if constexpr (TileLike<X>)
    return x.at(i, j);
  else
    return convert<S>(x);
}

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

template <class Th, class A, class B, int kR, int kC>
__device__ __forceinline__ void multiply_add(const Product<A, B>& product,
                                             RegTile<Th, float, kR, kC>& sum);

/// The backend of tiles whose values SIMT lanes compute.
template <class Th>
struct Simt {
  template <class Op, class... X>
  static __device__ __forceinline__ auto map(const X&... x) {
    static_assert((!kIsProduct<X> && ...), "name a dot through load(dot(a, b))");
    constexpr int kR = largest(kRowsOf<X>...);
    constexpr int kC = largest(kColsOf<X>...);
    static_assert(((kRowsOf<X> == kR || kRowsOf<X> == 1) && ...), "rows agree or are 1");
    static_assert(((kColsOf<X> == kC || kColsOf<X> == 1) && ...), "columns agree or are 1");
    using S = ScalarOf<X...>;
    RegTile<Th, decltype(apply_element<Op>(element<S>(x, 0, 0)...)), kR, kC> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j)
        r.v[i][j] =
            apply_element<Op>(element<S>(x, kRowsOf<X> == 1 ? 0 : i, kColsOf<X> == 1 ? 0 : j)...);
    }
    return r;
  }

  template <class To, class A>
  static __device__ __forceinline__ auto cast(const A& a) {
    RegTile<Th, To, kRowsOf<A>, kColsOf<A>> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j) r.v[i][j] = convert<To>(a.at(i, j));
    }
    return r;
  }

  /// In the one order of sim/ops/reduce.hpp: lanes 2 x and 2 x + 1 are this thread's.
  template <class Reduction, class A>
  static __device__ __forceinline__ auto reduce_rows(const A& a) {
    using T = typename A::Element;
    using Combine = typename Reduction::Combine;
    static_assert(Th::kWide == kHalfWarp && Th::kApart == kReduceLanes, "rows of half a warp");
    constexpr int kC = kColsOf<A>;
    constexpr int kHeld = Th::template kColsHeld<kC>;
    RegTile<Th, T, kRowsOf<A>, 1> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
      T lane[2] = {Reduction::template identity<T>(), Reduction::template identity<T>()};
      if constexpr (kC == 1) {
        if (Th::x() == 0) lane[0] = apply_element<Combine>(lane[0], a.at(i, 0));
      } else {
#pragma unroll
        for (int j = 0; j < kHeld; ++j) {
          if (Th::template inside<1, kC>(0, Th::template col<kC>(j)))
            lane[j % 2] = apply_element<Combine>(lane[j % 2], a.at(i, j));
        }
      }
#pragma unroll
      for (int apart = kHalfWarp / 2; apart > 0; apart /= 2) {
#pragma unroll
        for (T& l : lane) l = apply_element<Combine>(l, shuffled(l, apart));
      }
      r.v[i][0] = apply_element<Combine>(lane[0], lane[1]);
    }
    return r;
  }

  template <class A, class Keep, class B>
  static __device__ __forceinline__ auto where_at(const A& a, Keep keep, B otherwise) {
    using T = typename A::Element;
    constexpr int kR = kRowsOf<A>;
    constexpr int kC = kColsOf<A>;
    RegTile<Th, T, kR, kC> r;
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j)
        r.v[i][j] = keep(Th::template row<kR>(i), Th::template col<kC>(j)) ? a.at(i, j)
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
    static_assert(std::is_same_v<typename A::Element, typename B::Element>, "one element type");
    return Product<A, B>{a, b};
  }

  /// A right-hand side in registers.
  template <class X>
  static __device__ __forceinline__ auto load(const X& x) {
    using T = typename X::Element;
    RegTile<Th, T, kRowsOf<X>, kColsOf<X>> r;
    if constexpr (kIsProduct<X>) {
      fill(r, 0.f);
      multiply_add(x, r);
    } else {
      assign(r, x);
    }
    return r;
  }

  /// A right-hand side of these extents in registers; a scalar fills them.
  template <class T, int kR, int kC, class X>
  static __device__ __forceinline__ auto as_tile(const X& x) {
    if constexpr (kIsProduct<X>) {
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
#pragma unroll
    for (int i = 0; i < r.kHeldRows; ++i) {
#pragma unroll
      for (int j = 0; j < r.kHeldCols; ++j) r.v[i][j] = element<T>(x, i, j);
    }
  }
  template <class T, int kR, int kC>
  static __device__ __forceinline__ void fill(RegTile<Th, T, kR, kC>& r, T value) {
    assign(r, value);
  }

  /// The lane `apart` away in this half-warp. Every warp is whole here.
  template <class T>
  static __device__ __forceinline__ T shuffled(T v, int apart) {
    if constexpr (kIsSmallFloat<T>) {
      // Exact, and back: every small float is an f32.
      return T(__shfl_xor_sync(0xffffffffu, static_cast<float>(v), apart));
    } else {
      return __shfl_xor_sync(0xffffffffu, v, apart);
    }
  }
};

}  // namespace tessera::cuda
