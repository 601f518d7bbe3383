#include "program/product.hpp"

#include <fmt/format.h>

#include <cmath>

#include "program/elements.hpp"
#include "program/gather.hpp"
#include "sim/bounds/elementwise.hpp"
#include "sim/bounds/sum.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/numerics/dot.hpp"
#include "sim/numerics/tensor_core.hpp"

namespace tessera::program {

namespace {

/// The one stride of several dims together; -1 if they have none.
std::int64_t joint_stride(const Shape& s, const Shape& strides, const std::vector<int>& dims) {
  std::int64_t stride = -1;
  std::int64_t reach = 0;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    if (s[*d] == 1) continue;
    if (stride < 0)
      stride = strides[*d];
    else if (strides[*d] != reach)
      return -1;
    reach = strides[*d] * s[*d];
  }
  return stride < 0 ? 1 : stride;
}
std::int64_t extent(const Shape& s, const std::vector<int>& dims) {
  std::int64_t n = 1;
  for (const int d : dims) n *= s[d];
  return n;
}
Product::Matrix matrix_of(const Shape& s, const std::vector<int>& batch,
                          const std::vector<int>& rows, const std::vector<int>& columns) {
  const Shape strides = row_major_strides(s);
  Product::Matrix m;
  m.batch_stride = joint_stride(s, strides, batch);
  m.row = joint_stride(s, strides, rows);
  m.col = joint_stride(s, strides, columns);
  if (m.batch_stride >= 0 && m.row >= 0 && m.col >= 0) return m;
  m.moved = true;
  for (const auto* dims : {&batch, &rows, &columns}) {
    for (const int d : *dims) {
      m.extents.push_back(s[d]);
      m.strides.push_back(strides[d]);
    }
  }
  m.col = 1;
  m.row = extent(s, columns);
  m.batch_stride = m.row * extent(s, rows);
  return m;
}

StorageHandle as_type(const StorageHandle& from, DType is, DType wanted, std::int64_t n) {
  if (is == wanted || (wanted == DType::i8 && bit_width(is) < 8)) return from;
  StorageHandle to(Storage::allocate(static_cast<std::size_t>(n) * sizeof(float)));
  auto* const out = reinterpret_cast<float*>(to.bytes());
  visit_dtype(is, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      const auto* const in = reinterpret_cast<const T*>(from.bytes());
      for (std::int64_t i = 0; i < n; ++i) out[i] = convert<float>(in[i]);
    }
  });
  return to;
}

template <class Acc, class T>
void multiply(const Product& p, Acc* c, const std::byte* a, const std::byte* b) {
  auto* add = static_cast<void (*)(Acc*, std::int64_t, Operand2d<T>, Operand2d<T>, int, int, int)>(
      dot_accumulate);
  if constexpr (std::is_same_v<T, float>) {
    if (p.tf32 && on_tensor_cores(op_state.profile)) add = tensor_core_accumulate<float>;
  }
  for (std::int64_t i = 0; i < p.batch; ++i) {
    add(c + i * p.m * p.n, p.n,
        Operand2d<T>{reinterpret_cast<const T*>(a) + i * p.left.batch_stride, p.left.row,
                     p.left.col},
        Operand2d<T>{reinterpret_cast<const T*>(b) + i * p.right.batch_stride, p.right.row,
                     p.right.col},
        static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k));
  }
}

/// The same with bounds: `c` has those it begins with, then those of the sum.
template <class T>
void multiply_bounded(const Product& p, Vector& c, const std::byte* a, const float* a_bound,
                      const std::byte* b, const float* b_bound) {
  const auto m = static_cast<int>(p.m);
  const auto n = static_cast<int>(p.n);
  const std::int64_t elems = p.m * p.n;
  StorageHandle made = bound_storage(p.batch * elems);
  const auto from = [](const float* bound, std::int64_t at) {
    return bound == nullptr ? nullptr : bound + at;
  };
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const std::int64_t left = i * p.left.batch_stride;
    const std::int64_t right = i * p.right.batch_stride;
    float* const sums = floats(c.data) + i * elems;
    bounds::SumState state(m, n);
    if (c.bound) std::copy_n(c.bounds() + i * elems, elems, state.view().bound);
    bounds::dot_accumulate(
        sums, n, Operand2d<T>{reinterpret_cast<const T*>(a) + left, p.left.row, p.left.col},
        Operand2d<float>{from(a_bound, left), p.left.row, p.left.col},
        Operand2d<T>{reinterpret_cast<const T*>(b) + right, p.right.row, p.right.col},
        Operand2d<float>{from(b_bound, right), p.right.row, p.right.col}, m, n,
        static_cast<int>(p.k), *op_state.error_model, state.view());
    const StorageHandle bound = bounds::write_bounds({sums, DType::f32, m, n, n, nullptr},
                                                     state.view(), *op_state.error_model);
    std::copy_n(floats(bound), elems, floats(made) + i * elems);
  }
  c.bound = std::move(made);
}

/// Rows (of the left operand) or columns that hold poison, in every batch.
std::vector<Origin> poisoned_lines(const Vector& v, const Product::Matrix& m, std::int64_t batch,
                                   std::int64_t lines, std::int64_t line_stride, std::int64_t depth,
                                   std::int64_t depth_stride) {
  std::vector<Origin> bad(static_cast<std::size_t>(batch * lines), 0);
  for (std::int64_t i = 0; i < batch; ++i) {
    for (std::int64_t l = 0; l < lines; ++l) {
      for (std::int64_t k = 0; k < depth; ++k) {
        Origin& o = bad[static_cast<std::size_t>(i * lines + l)];
        if (o == 0) o = v.poison_at(i * m.batch_stride + l * line_stride + k * depth_stride);
      }
    }
  }
  return bad;
}

/// Product::highest, while there is one.
class Precision {
 public:
  explicit Precision(bool highest) : before_(op_state.profile) {
    if (highest && mxu_passes(before_) > 0) op_state.profile = Profile::mxu_x6;
  }
  ~Precision() { op_state.profile = before_; }
  Precision(const Precision&) = delete;
  Precision& operator=(const Precision&) = delete;

 private:
  Profile before_;
};

Vector moved(const Vector& v, const Product::Matrix& m, DType dtype) {
  if (!m.moved) return v;
  return rearranged(v, m.extents.elems(), register_bytes(dtype),
                    [&](std::byte* to, const std::byte* from, std::int64_t width) {
                      gather_strided(to, from, width, m.extents, m.strides);
                    });
}

/// Sums as the result's type, with their bounds.
void narrow(Vector& sums, DType from, DType to, std::int64_t elems) {
  StorageHandle made(Storage::allocate(static_cast<std::size_t>(elems * register_bytes(to))));
  visit_dtype(to, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>) {
      for (std::int64_t e = 0; e < elems; ++e)
        reinterpret_cast<T*>(made.bytes())[e] = convert<T>(floats(sums.data)[e]);
    }
  });
  const auto n = static_cast<int>(elems);
  sums.bound = bounds::cast({made.bytes(), to, 1, n, n, nullptr},
                            {sums.data.bytes(), from, 1, n, n, sums.bounds()});
  sums.data = std::move(made);
}

bool each_once(const ProductDims& dims, const Shape& s) {
  std::vector<int> seen(static_cast<std::size_t>(s.rank), 0);
  std::size_t count = 0;
  for (const auto* list : {&dims.contracting, &dims.kept, &dims.batch}) {
    for (const int d : *list) {
      if (d < 0 || d >= s.rank || seen[static_cast<std::size_t>(d)]++ != 0) return false;
      ++count;
    }
  }
  return count == static_cast<std::size_t>(s.rank);
}

}  // namespace

DType common_type(DType a, DType b) {
  const auto small = [](DType d) { return d == DType::i8 || d == DType::i4 || d == DType::i2; };
  if (small(a) && small(b)) return DType::i8;  // what is packed is alone in its byte
  const bool has_dot = a <= DType::f8e5m2;
  return a == b && has_dot ? a : DType::f32;
}

const char* plan_product(const Type& a, const ProductDims& left, const Type& b,
                         const ProductDims& right, const Type& result,
                         const std::vector<int>& order, Product& p) {
  constexpr auto kNoFit = "its dimension numbers do not fit its operands";
  constexpr auto kNoOrder = "with this order of results";
  if (!each_once(left, a.shape) || !each_once(right, b.shape) ||
      left.batch.size() != right.batch.size())
    return kNoFit;
  p.batch = extent(a.shape, left.batch);
  p.m = extent(a.shape, left.kept);
  p.n = extent(b.shape, right.kept);
  p.k = extent(a.shape, left.contracting);
  if (extent(b.shape, right.contracting) != p.k || extent(b.shape, right.batch) != p.batch ||
      result.shape.elems() != p.elems())
    return kNoFit;
  std::vector<std::pair<int, int>> natural;
  for (const int d : left.batch) natural.emplace_back(0, d);
  for (const int d : left.kept) natural.emplace_back(0, d);
  for (const int d : right.kept) natural.emplace_back(1, d);
  for (const auto& [side, d] : natural)
    p.natural_extents.push_back(side == 0 ? a.shape[d] : b.shape[d]);
  p.from_natural = row_major_strides(p.natural_extents);
  p.to_natural = row_major_strides(result.shape);
  p.extents = result.shape;
  if (!order.empty()) {
    if (order.size() != 2 * natural.size()) return kNoOrder;
    const Shape strides = p.from_natural;
    for (std::size_t i = 0; i < natural.size(); ++i) {
      const std::pair<int, int> want{order[2 * i], order[2 * i + 1]};
      const auto it = std::find(natural.begin(), natural.end(), want);
      if (it == natural.end()) return kNoOrder;
      const auto at = static_cast<int>(it - natural.begin());
      p.in_order = p.in_order && at == static_cast<int>(i);
      p.from_natural[static_cast<int>(i)] = strides[at];
      p.to_natural[at] = row_major_strides(result.shape)[static_cast<int>(i)];
    }
  }
  p.left = matrix_of(a.shape, left.batch, left.kept, left.contracting);
  p.right = matrix_of(b.shape, right.batch, right.contracting, right.kept);
  p.left_type = a.dtype;
  p.right_type = b.dtype;
  p.sum_type = sum_type_of(a.dtype, b.dtype);
  p.result_type = result.dtype;
  if (p.sum_type == DType::f32 ? !is_float(result.dtype) || result.dtype == DType::f64
                               : result.dtype != p.sum_type)
    return "its types are not built yet";
  return nullptr;
}

Work Product::work() const {
  const std::int64_t flops = 2 * elems() * k;
  return {.flops = flops, .matrix_flops = flops, .products = 1};
}

bool Product::accumulate(Vector& sums, const Vector& a, const Vector& b) const {
  const DType type = common_type(left_type, right_type);
  const StorageHandle left_data = as_type(a.data, left_type, type, batch * m * k);
  const StorageHandle right_data = as_type(b.data, right_type, type, batch * k * n);
  std::byte* const c = sums.data.bytes();
  const std::byte* const l = left_data.bytes();
  const std::byte* const r = right_data.bytes();
  if (sum_type == DType::f64) {
    if (type != DType::f64) return false;
    if (op_state.error_model != nullptr) fail_bounds_of("of a product in f64");
    multiply<double, double>(*this, reinterpret_cast<double*>(c), l, r);
    return true;
  }
  if (sum_type == DType::i32) {
    if (type != DType::i8) return false;
    if (a.bound || b.bound || sums.bound) fail_bounds_of("through a product of integers");
    multiply<std::int32_t, std::int8_t>(*this, reinterpret_cast<std::int32_t*>(c), l, r);
    return true;
  }
  return with_float(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kDTypeOf<T> <= DType::f8e5m2) {  // others came as f32
      if (op_state.error_model != nullptr)
        multiply_bounded<T>(*this, sums, l, a.bounds(), r, b.bounds());
      else
        multiply<float, T>(*this, reinterpret_cast<float*>(c), l, r);
    }
  });
}

Vector Product::run(const Vector& a, const Vector& b, Vector start, const char* op) const {
  const Vector l = moved(a, left, left_type);
  const Vector r = moved(b, right, right_type);
  const std::int64_t width = register_bytes(sum_type);
  const auto in_natural_order = [&](const StorageHandle& held, std::int64_t w) {
    StorageHandle own(Storage::allocate(static_cast<std::size_t>(elems() * w)));
    if (in_order)
      std::memcpy(own.bytes(), held.bytes(), static_cast<std::size_t>(elems() * w));
    else
      gather_strided(own.bytes(), held.bytes(), w, natural_extents, to_natural);
    return own;
  };
  Vector c{as_type(start.data, result_type, sum_type, elems()), {}, start.bound};
  // Messages of NaN tell what was there.
  if (!op_state.trap_nan) start.data = StorageHandle();
  if (!in_order || c.data.shared()) c.data = in_natural_order(c.data, width);
  if (!in_order && c.bound) c.bound = in_natural_order(c.bound, sizeof(float));
  {
    const Precision scope(highest);
    accumulate(c, l, r);
  }
  if (l.poison || r.poison || start.poison) spread_poison(c, l, r, start);
  if (op_state.trap_nan && is_float(result_type)) trap_nan(op, c, l, r, start);
  if (!in_order) {
    c = rearranged(c, elems(), width, [&](std::byte* to, const std::byte* in, std::int64_t w) {
      gather_strided(to, in, w, extents, from_natural);
    });
  }
  if (result_type != sum_type) narrow(c, sum_type, result_type, elems());
  return c;
}

void Product::spread_poison(Vector& sums, const Vector& a, const Vector& b,
                            const Vector& start) const {
  std::vector<Origin> rows(static_cast<std::size_t>(batch * m), 0);
  std::vector<Origin> cols(static_cast<std::size_t>(batch * n), 0);
  if (a.poison) rows = poisoned_lines(a, left, batch, m, left.row, k, left.col);
  if (b.poison) cols = poisoned_lines(b, right, batch, n, right.col, k, right.row);
  sums.poison = poison_mask(elems(), 0);
  if (start.poison)
    gather_strided(sums.poison.bytes(), start.poison.bytes(), 1, natural_extents, to_natural);
  for (std::int64_t e = 0; e < elems(); ++e) {
    Origin o = std::to_integer<Origin>(sums.poison.bytes()[e]);
    if (o == 0) o = rows[static_cast<std::size_t>(e / n)];
    if (o == 0) o = cols[static_cast<std::size_t>(e / (m * n) * n + e % n)];
    sums.poison.bytes()[e] = std::byte{computed_from(o)};
  }
}

void Product::trap_nan(const char* op, const Vector& sums, const Vector& a, const Vector& b,
                       const Vector& start) const {
  for (std::int64_t e = 0; e < elems(); ++e) {
    if (!std::isnan(element(sums, sum_type, e)) || sums.is_poison(e)) continue;
    const Shape at = unravel(natural_extents, e);
    std::int64_t place = 0;  // in the result, and so in `start`
    for (int d = 0; d < at.rank; ++d) place += at[d] * to_natural[d];
    const double from = element(start, result_type, place);
    bool carried = std::isnan(from);
    std::string values = fmt::format("from {}", from);
    bool told = false;
    for (std::int64_t i = 0; i < k; ++i) {
      const double x = element(
          a, left_type, e / (m * n) * left.batch_stride + e / n % m * left.row + i * left.col);
      const double y = element(
          b, right_type, e / (m * n) * right.batch_stride + i * right.row + e % n * right.col);
      carried = carried || std::isnan(x) || std::isnan(y);
      if (!told && !(std::isfinite(x) && std::isfinite(y))) {
        values += fmt::format(", {} * {} at k = {}", x, y, i);
        told = true;
      }
    }
    if (!carried) throw KernelError(nan_born(op, unravel(extents, place), values));
  }
}

}  // namespace tessera::program
