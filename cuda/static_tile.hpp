// The language of bodies over compile-time extents, as nvcc sees it: declarations only.
//
// Instantiating a body over these types proves that it compiles for a device: its ops exist there,
// its extents are static, nothing of the interpreter leaks in. Nothing here computes; the CUDA
// build replaces the types with ones that do.
#pragma once

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/op.hpp"

namespace tessera::cuda {

struct Declared;

template <class T, int kRows, int kCols>
struct StaticTile {
  using Backend = Declared;
  using Element = T;
  static constexpr Int<kRows> rows{};
  static constexpr Int<kCols> cols{};
};

template <class T, int kRows, int kCols>
struct StaticDot : StaticTile<T, kRows, kCols> {};

template <class X>
inline constexpr int kRowsOf = 1;
template <class X>
inline constexpr int kColsOf = 1;
template <template <class, int, int> class X, class T, int kR, int kC>
inline constexpr int kRowsOf<X<T, kR, kC>> = kR;
template <template <class, int, int> class X, class T, int kR, int kC>
inline constexpr int kColsOf<X<T, kR, kC>> = kC;

namespace detail {
template <class... X>
constexpr int broadcast_extent(const int (&extents)[sizeof...(X)]) {
  int extent = 1;
  for (const int e : extents) extent = e > extent ? e : extent;
  return extent;
}
constexpr bool agree(int extent, int result) { return extent == result || extent == 1; }

/// What an operand contributes per position.
template <class S, class X>
struct OperandElement {
  using type = S;
};
template <class S, class X>
requires TileLike<X>
struct OperandElement<S, X> {
  using type = typename X::Element;
};
}  // namespace detail

struct Declared {
  template <class Op, class... X>
  static __device__ auto map(const X&...) {
    constexpr int kR = detail::broadcast_extent<X...>({kRowsOf<X>...});
    constexpr int kC = detail::broadcast_extent<X...>({kColsOf<X>...});
    static_assert((detail::agree(kRowsOf<X>, kR) && ...), "rows agree or are 1");
    static_assert((detail::agree(kColsOf<X>, kC) && ...), "columns agree or are 1");
    using S = ScalarOf<X...>;
    using R =
        decltype(apply_element<Op>(std::declval<typename detail::OperandElement<S, X>::type>()...));
    return StaticTile<R, kR, kC>{};
  }
  template <class To, class A>
  static __device__ auto cast(const A&) {
    return StaticTile<To, kRowsOf<A>, kColsOf<A>>{};
  }
  template <class Reduction, class A>
  static __device__ auto reduce_rows(const A&) {
    return StaticTile<typename A::Element, kRowsOf<A>, 1>{};
  }
  template <class A, class Keep, class B>
  static __device__ auto where_at(const A&, Keep keep, B) {
    static_assert(std::is_convertible_v<decltype(keep(0, 0)), bool>);
    (void)keep(0, 0);
    return StaticTile<typename A::Element, kRowsOf<A>, kColsOf<A>>{};
  }
  template <class A>
  static __device__ auto transpose(const A&) {
    return StaticTile<typename A::Element, kColsOf<A>, kRowsOf<A>>{};
  }
  template <class A, class B>
  static __device__ auto dot(const A&, const B&) {
    static_assert(kColsOf<A> == kRowsOf<B>, "the columns of a are the rows of b");
    static_assert(std::is_same_v<typename A::Element, typename B::Element>, "one element type");
    return StaticDot<float, kRowsOf<A>, kColsOf<B>>{};
  }
  template <class X>
  static __device__ auto load(const X&) {
    return StaticTile<typename X::Element, kRowsOf<X>, kColsOf<X>>{};
  }
};

/// `*ref` of a block that can be written.
template <class T, int kRows, int kCols>
struct StaticPlace : StaticTile<T, kRows, kCols> {
  template <class X>
  __device__ void operator=(const X&) && {
    static_assert(ScalarLike<X> || (kRowsOf<X> == kRows && kColsOf<X> == kCols), "extents differ");
  }
  template <class X>
  __device__ void operator+=(const X&) && {}
};

/// Part of an array in HBM or of a block: an end of copies. Its extents may be dynamic.
template <class T, bool kCanWrite>
struct StaticEnd {
  using Element = T;
  static constexpr bool kWritable = kCanWrite;
  template <class... Start, class... Size>
  __device__ StaticEnd slice(Ds<Start, Size>...) const {
    return {};
  }
  __device__ StaticEnd at(long long) const { return {}; }
};

struct StaticSems {
  __device__ StaticSems operator[](int) const { return {}; }
};

struct StaticCopy {
  __device__ void start(int = 0, Here = Here::now()) const {}
  __device__ void wait(Here = Here::now()) const {}
};
template <class From, class To>
__device__ StaticCopy make_async_copy(const From&, const To&, const StaticSems&,
                                      Here = Here::now()) {
  static_assert(std::is_same_v<typename From::Element, typename To::Element>, "one element type");
  static_assert(To::kWritable, "the destination of a copy is an input");
  return {};
}
template <class From, class To>
__device__ StaticCopy async_copy(const From& from, const To& to, const StaticSems& sem, int = 0,
                                 Here = Here::now()) {
  return make_async_copy(from, to, sem);
}

template <class T, Role kRole, int kRows, int kCols, int kSlots = 1>
struct StaticRef {
  using Element = T;
  static constexpr bool kWritable = kRole != Role::in;
  static constexpr Int<kRows> rows{};
  static constexpr Int<kCols> cols{};
  __device__ Int<kSlots> slots() const { return {}; }
  __device__ auto slot(int) const { return StaticRef<T, kRole, kRows / kSlots, kCols>{}; }
  template <class R0, class RN, class C0, class CN>
  __device__ auto slice(Ds<R0, RN>, Ds<C0, CN>) const {
    return StaticEnd<T, kWritable>{};
  }
  __device__ auto operator*() const {
    if constexpr (kRole == Role::in)
      return StaticTile<T, kRows, kCols>{};
    else
      return StaticPlace<T, kRows, kCols>{};
  }
  template <class X, class M>
  __device__ void store(const X&, const M&) const {}
  template <class X, class Keep>
  __device__ void store_at(const X&, Keep keep) const {
    (void)keep(0, 0);
  }
};

struct DeviceEnv {
  int ids[kMaxGridRank];
  __device__ int program_id(int dim) const { return ids[dim]; }
  __device__ int num_programs(int dim) const { return ids[dim] + 1; }
  __device__ bool first(int dim) const { return ids[dim] == 0; }
  __device__ bool last(int dim) const { return ids[dim] == 0; }
  __device__ void check(bool, const char*, Here = Here::now()) const {}
  template <class... X>
  __device__ void print(const X&...) const {}
  struct Scope {
    __device__ ~Scope() {}
  };
  __device__ Scope scope(const char*) const { return {}; }
};

}  // namespace tessera::cuda
