#include "program/reduction.hpp"

#include <fmt/format.h>

#include <cmath>

#include "program/gather.hpp"
#include "sim/bounds/elementwise.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/numerics/reduce_row.hpp"

namespace tessera::program {

namespace {

template <class R, class T>
void reduce(T* to, const T* from, std::int64_t kept, std::int64_t reduced) {
  using Combine = typename R::Combine;
  constexpr std::int64_t kSome = 64;
  T some[kSome];
  for (std::int64_t first = 0; first < kept; first += kSome) {
    const std::int64_t rows = std::min(kSome, kept - first);
    reduce_rows<R>(some, from + first * reduced, rows, reduced, reduced);
    for (std::int64_t r = 0; r < rows; ++r)
      to[first + r] = Combine::template apply<T>(to[first + r], some[r]);
  }
}

struct WrappingSum {
  struct Combine {
    template <class T>
    static T apply(T a, T b) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
  };
  template <class T>
  static T identity() {
    return 0;
  }
};
struct Product {
  struct Combine {
    template <class T>
    static T apply(T a, T b) {
      return a * b;
    }
  };
  template <class T>
  static T identity() {
    return T(1);
  }
};
template <class Bits>
struct Bitwise {
  struct Combine {
    template <class T>
    static T apply(T a, T b) {
      return Bits::apply(a, b);
    }
  };
  template <class T>
  static T identity() {
    return static_cast<T>(Bits::kIdentity);
  }
};
struct And {
  static constexpr int kIdentity = -1;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  static constexpr int kIdentity = 0;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

template <class R, class T>
Reduction::Kernel reduce_kernel() {
  return [](std::byte* to, const std::byte* from, std::int64_t kept, std::int64_t reduced) {
    if constexpr (kIsSmallFloat<T>) {
      // In f32, rounded once.
      std::vector<float> wide(static_cast<std::size_t>(kept * reduced));
      std::vector<float> sums(static_cast<std::size_t>(kept));
      for (std::size_t i = 0; i < wide.size(); ++i)
        wide[i] = convert<float>(reinterpret_cast<const T*>(from)[i]);
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = convert<float>(reinterpret_cast<const T*>(to)[i]);
      reduce<R, float>(sums.data(), wide.data(), kept, reduced);
      for (std::size_t i = 0; i < sums.size(); ++i) reinterpret_cast<T*>(to)[i] = T(sums[i]);
    } else {
      reduce<R, T>(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), kept, reduced);
    }
  };
}
template <class R>
Reduction::Kernel float_reduction(DType d) {
  switch (d) {
    case DType::f32:
      return reduce_kernel<R, float>();
    case DType::bf16:
      return reduce_kernel<R, bf16>();
    case DType::f16:
      return reduce_kernel<R, f16>();
    default:
      return nullptr;
  }
}
template <class R>
Reduction::Kernel integer_reduction(DType d) {
  switch (d) {
    case DType::i32:
      return reduce_kernel<R, std::int32_t>();
    case DType::i16:
      return reduce_kernel<R, std::int16_t>();
    case DType::i8:
      return reduce_kernel<R, std::int8_t>();
    default:
      return nullptr;
  }
}
Reduction::Kernel find_reduction(const std::string& kind, DType d) {
  const bool f = is_float(d);
  if (kind == "add") return f ? float_reduction<RowSum>(d) : integer_reduction<WrappingSum>(d);
  if (kind == "mul") return f ? float_reduction<Product>(d) : nullptr;
  if (kind == "maximumf") return float_reduction<RowMax>(d);
  if (kind == "minimumf") return float_reduction<RowMin>(d);
  if (kind == "maxsi") return integer_reduction<RowMax>(d);
  if (kind == "minsi") return integer_reduction<RowMin>(d);
  if (kind == "and") return integer_reduction<Bitwise<And>>(d);
  if (kind == "or") return integer_reduction<Bitwise<Or>>(d);
  return nullptr;
}

/// Bounds of a reduction of rows, in f32, from `start`.
StorageHandle row_bounds(const char* row_op, const char* op, const Vector& rows,
                         const Vector& start, const Vector& result, Reduction::Kernel kernel,
                         std::int64_t kept, std::int64_t reduced) {
  const auto k = static_cast<int>(kept);
  const auto n = static_cast<int>(reduced);
  const ErrorModel& model = *op_state.error_model;
  // The rows alone: `kernel` begins with what it finds.
  StorageHandle alone(Storage::allocate(sizeof(float) * static_cast<std::size_t>(kept)));
  const bool sum = std::string_view(op) == "add";
  const float identity = sum ? 0.f : std::string_view(op) == "max" ? -INFINITY : INFINITY;
  std::fill_n(floats(alone), kept, identity);
  kernel(alone.bytes(), rows.data.bytes(), kept, reduced);
  const bounds::TileView from{rows.data.bytes(), DType::f32, k, n, n, rows.bounds()};
  const StorageHandle of_rows =
      bounds::reduce_rows(row_op, model, {alone.bytes(), DType::f32, k, 1, 1, nullptr}, from);
  const auto flat = [k](const std::byte* bytes, const float* bound) {
    return bounds::TileView{bytes, DType::f32, 1, k, k, bound};
  };
  return bounds::elementwise(bounds::rule_of(op), model, flat(result.data.bytes(), nullptr),
                             {flat(start.data.bytes(), start.bounds()),
                              flat(alone.bytes(), of_rows ? floats(of_rows) : nullptr)});
}

/// A vector of small floats as f32, with its bounds.
Vector as_f32(const Vector& v, DType dtype, std::int64_t n) {
  Vector wide{
      StorageHandle(Storage::allocate(sizeof(float) * static_cast<std::size_t>(n))), {}, v.bound};
  visit_dtype(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    if constexpr (kIsSmallFloat<T>) {
      for (std::int64_t i = 0; i < n; ++i)
        floats(wide.data)[i] = convert<float>(reinterpret_cast<const T*>(v.data.bytes())[i]);
    }
  });
  return wide;
}

}  // namespace

Vector Rows::of(const Vector& v, std::int64_t elem_bytes) const {
  return rearranged(v, elems(), elem_bytes,
                    [&](std::byte* out, const std::byte* in, std::int64_t width) {
                      gather_strided(out, in, width, extents, strides);
                    });
}

Rows reduced_dims(const Shape& s, const std::vector<std::int64_t>& dims) {
  const Shape strides = row_major_strides(s);
  Rows r;
  for (const bool gone : {false, true}) {
    for (int d = 0; d < s.rank; ++d) {
      if ((std::find(dims.begin(), dims.end(), d) != dims.end()) != gone) continue;
      r.extents.push_back(s[d]);
      r.strides.push_back(strides[d]);
      (gone ? r.reduced : r.kept) *= s[d];
    }
  }
  return r;
}

std::optional<Reduction> reduction(const std::string& kind, DType dtype, const Rows& rows) {
  const Reduction::Kernel kernel = find_reduction(kind, dtype);
  if (kernel == nullptr) return {};
  return Reduction{kind, dtype, rows, kernel,
                   is_float(dtype) ? find_reduction(kind, DType::f32) : nullptr};
}

Vector Reduction::run(const Vector& v, const Vector& start, const Shape& extents,
                      const char* op) const {
  const std::int64_t width = register_bytes(dtype);
  const bool in_order = row_major_strides(rows.extents) == rows.strides;
  const Vector moved = in_order ? Vector() : rows.of(v, width);
  const Vector& ordered = in_order ? v : moved;
  const auto bytes = static_cast<std::size_t>(rows.kept * width);
  Vector r{StorageHandle(Storage::allocate(bytes))};
  std::memcpy(r.data.bytes(), start.data.bytes(), bytes);
  kernel(r.data.bytes(), ordered.data.bytes(), rows.kept, rows.reduced);
  if (op_state.error_model != nullptr) r.bound = bounds(ordered, start, r);
  if (ordered.poison || start.poison) {
    r.poison = poison_mask(rows.kept, 0);
    for (std::int64_t i = 0; i < rows.kept; ++i) {
      const Origin o = start.poison_at(i);
      r.poison.bytes()[i] = std::byte{
          computed_from(o != 0 ? o : ordered.first_poison(i * rows.reduced, rows.reduced))};
    }
  }
  if (op_state.trap_nan && is_float(dtype)) trap_nan(op, ordered, start, r, extents);
  return r;
}

void Reduction::trap_nan(const char* op, const Vector& ordered, const Vector& start,
                         const Vector& result, const Shape& extents) const {
  for (std::int64_t i = 0; i < rows.kept; ++i) {
    if (!std::isnan(element(result, dtype, i)) || result.is_poison(i)) continue;
    const double from = element(start, dtype, i);
    bool carried = std::isnan(from);
    std::string values = fmt::format("from {}", from);
    int told = 0;
    for (std::int64_t c = 0; c < rows.reduced; ++c) {
      const double v = element(ordered, dtype, i * rows.reduced + c);
      carried = carried || std::isnan(v);
      if (std::isinf(v) && told++ < 3) values += fmt::format(", {} at {}", v, c);
    }
    if (!carried) throw KernelError(nan_born(op, unravel(extents, i), values));
  }
}

StorageHandle Reduction::bounds(const Vector& ordered, const Vector& start,
                                const Vector& result) const {
  const char* const op = kind == "add"        ? "add"
                         : kind == "maximumf" ? "max"
                         : kind == "minimumf" ? "min"
                                              : nullptr;
  const bool inexact = ordered.bound || start.bound;
  if (in_f32 == nullptr ? inexact : op == nullptr) fail_bounds_of("of a reduction by " + kind);
  if (in_f32 == nullptr) return {};
  const char* const row_op = kind == "add" ? "row_sum" : kind == "maximumf" ? "row_max" : "row_min";
  if (dtype == DType::f32)
    return row_bounds(row_op, op, ordered, start, result, kernel, rows.kept, rows.reduced);
  const Vector wide_rows = as_f32(ordered, dtype, rows.elems());
  const Vector wide_start = as_f32(start, dtype, rows.kept);
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(rows.kept);
  Vector wide{StorageHandle(Storage::allocate(bytes))};
  std::memcpy(wide.data.bytes(), wide_start.data.bytes(), bytes);
  in_f32(wide.data.bytes(), wide_rows.data.bytes(), rows.kept, rows.reduced);
  wide.bound = row_bounds(row_op, op, wide_rows, wide_start, wide, in_f32, rows.kept, rows.reduced);
  const auto n = static_cast<int>(rows.kept);
  return tessera::bounds::cast({result.data.bytes(), dtype, 1, n, n, nullptr},
                               {wide.data.bytes(), DType::f32, 1, n, n, wide.bounds()});
}

}  // namespace tessera::program
