// tpu.matmul, with every form of dimension numbers, and the explicit MXU ops.
//
// The order is that of sim/numerics/dot.hpp: one FMA per k from the accumulator on. Operands of two
// types meet in f32 (8-bit integers in i8), where each is exact.
#include "pallas/rules.hpp"
#include "program/elements.hpp"
#include "program/gather.hpp"
#include "sim/bounds/elementwise.hpp"
#include "sim/bounds/sum.hpp"
#include "sim/numerics/dot.hpp"

namespace tessera::pallas {

namespace {

/// "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"
std::vector<std::vector<int>> number_lists(const std::string& text) {
  std::vector<std::vector<int>> lists;
  for (std::size_t i = text.find('<'); i < text.size(); ++i) {
    if (text[i] == '[') {
      lists.emplace_back();
    } else if (!lists.empty() && text[i] >= '0' && text[i] <= '9') {
      int n = 0;
      while (i < text.size() && text[i] >= '0' && text[i] <= '9' && n < 1000)
        n = n * 10 + (text[i++] - '0');
      lists.back().push_back(n);
      --i;
    }
  }
  return lists;
}

struct Dims {
  std::vector<int> contracting;
  std::vector<int> kept;
  std::vector<int> batch;
};

/// An operand as batch x rows x columns of one stride each, or moved until it is.
struct Matrix {
  bool moved = false;
  Shape extents;  ///< of the move: batch, rows, columns
  Shape strides;
  std::int64_t batch_stride = 0;
  std::int64_t row = 0;
  std::int64_t col = 0;
};

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
std::int64_t product(const Shape& s, const std::vector<int>& dims) {
  std::int64_t n = 1;
  for (const int d : dims) n *= s[d];
  return n;
}
Matrix matrix_of(const Shape& s, const std::vector<int>& batch, const std::vector<int>& rows,
                 const std::vector<int>& columns) {
  const Shape strides = row_major_strides(s);
  Matrix m;
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
  m.row = product(s, columns);
  m.batch_stride = m.row * product(s, rows);
  return m;
}

/// What a product's elements are read as.
DType common_type(DType a, DType b) {
  const auto small = [](DType d) { return d == DType::i8 || d == DType::i4; };
  if (small(a) && small(b)) return DType::i8;  // an i4 is alone in its byte
  const bool has_dot = a <= DType::f8e5m2;
  return a == b && has_dot ? a : DType::f32;
}

StorageHandle as_type(const StorageHandle& from, DType is, DType wanted, std::int64_t n) {
  if (is == wanted || (is == DType::i4 && wanted == DType::i8)) return from;
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

struct Product {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix left;
  Matrix right;
  DType left_type = DType::f32;
  DType right_type = DType::f32;
  DType type = DType::f32;
};

template <class Acc, class T>
void multiply(const Product& p, Acc* c, const std::byte* a, const std::byte* b) {
  for (std::int64_t i = 0; i < p.batch; ++i) {
    dot_accumulate(c + i * p.m * p.n, p.n,
                   Operand2d<T>{reinterpret_cast<const T*>(a) + i * p.left.batch_stride, p.left.row,
                                p.left.col},
                   Operand2d<T>{reinterpret_cast<const T*>(b) + i * p.right.batch_stride,
                                p.right.row, p.right.col},
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

/// c += a b, with bounds if there is an error model.
bool multiply(const Product& p, Vector& sums, DType acc, const std::byte* a, const float* a_bound,
              const std::byte* b, const float* b_bound) {
  std::byte* const c = sums.data.bytes();
  if (acc == DType::i32) {
    if (p.type != DType::i8) return false;
    if (a_bound != nullptr || b_bound != nullptr || sums.bound)
      fail_bounds_of("through a product of integers");
    multiply<std::int32_t, std::int8_t>(p, reinterpret_cast<std::int32_t*>(c), a, b);
    return true;
  }
  if (op_state.error_model != nullptr) {
    return with_float(p.type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (kDTypeOf<T> <= DType::f8e5m2)
        multiply_bounded<T>(p, sums, a, a_bound, b, b_bound);
    });
  }
  return with_float(p.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kDTypeOf<T> <= DType::f8e5m2)  // others came as f32
      multiply<float, T>(p, reinterpret_cast<float*>(c), a, b);
  });
}

/// Rows (of the left operand) or columns that hold poison, in every batch.
std::vector<char> poisoned_lines(const Vector& v, const Matrix& m, std::int64_t batch,
                                 std::int64_t lines, std::int64_t line_stride, std::int64_t depth,
                                 std::int64_t depth_stride) {
  std::vector<char> bad(static_cast<std::size_t>(batch * lines), 0);
  for (std::int64_t i = 0; i < batch; ++i) {
    for (std::int64_t l = 0; l < lines; ++l) {
      for (std::int64_t k = 0; k < depth; ++k) {
        if (v.poison.bytes()[i * m.batch_stride + l * line_stride + k * depth_stride] !=
            std::byte{0})
          bad[static_cast<std::size_t>(i * lines + l)] = 1;
      }
    }
  }
  return bad;
}

/// On an MXU `precision` may ask for six passes, whatever the profile has for the other products.
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

void plan_matmul(Planner& p, const Operation& op) {
  p.expect(op, 3, 1);
  const Type& a = p.type(op.operands[0]);
  const Type& b = p.type(op.operands[1]);
  const Type& t = p.type(op.results[0]);
  if (a.kind != Type::Kind::vector || b.kind != Type::Kind::vector || !a.known || !b.known ||
      !t.known)
    p.unsupported(op, "its types are not built yet");
  p.expect_same_type(op, op.operands[2], op.results[0]);
  Dims left;
  Dims right;
  const Attribute* numbers = op.find("dimension_numbers");
  std::vector<int> order;
  if (numbers != nullptr && numbers->kind == Attribute::Kind::text) {
    const auto lists = number_lists(numbers->text);
    if (lists.size() < 7) p.unsupported(op, "with dimension_numbers " + numbers->text);
    left = {lists[0], lists[2], lists[5]};
    right = {lists[1], lists[3], lists[6]};
    order = lists[4];
    if (p.integer_or(op, "transpose_lhs", 0) != 0 || p.integer_or(op, "transpose_rhs", 0) != 0)
      p.unsupported(op, "with dimension_numbers and transposed operands");
  } else {
    const bool lt = p.integer_or(op, "transpose_lhs", 0) != 0;
    const bool rt = p.integer_or(op, "transpose_rhs", 0) != 0;
    left = {{lt ? 0 : 1}, {lt ? 1 : 0}, {}};
    right = {{rt ? 1 : 0}, {rt ? 0 : 1}, {}};
  }
  const auto valid = [](const Dims& d, const Shape& s) {
    std::vector<int> seen(static_cast<std::size_t>(s.rank), 0);
    std::size_t count = 0;
    for (const auto* list : {&d.contracting, &d.kept, &d.batch}) {
      for (const int i : *list) {
        if (i < 0 || i >= s.rank || seen[static_cast<std::size_t>(i)]++ != 0) return false;
        ++count;
      }
    }
    return count == static_cast<std::size_t>(s.rank);
  };
  if (!valid(left, a.shape) || !valid(right, b.shape) || left.batch.size() != right.batch.size())
    p.unsupported(op, "its dimension numbers do not fit its operands");
  Product product_of;
  product_of.batch = product(a.shape, left.batch);
  product_of.m = product(a.shape, left.kept);
  product_of.n = product(b.shape, right.kept);
  product_of.k = product(a.shape, left.contracting);
  if (product(b.shape, right.contracting) != product_of.k ||
      product(b.shape, right.batch) != product_of.batch ||
      t.shape.elems() != product_of.batch * product_of.m * product_of.n ||
      p.type(op.operands[2]).shape.elems() != t.shape.elems())
    p.unsupported(op, "its dimension numbers do not fit its operands");
  // The result's dims in the order batch, left, right; else it is moved.
  std::vector<std::pair<int, int>> natural;
  for (const int d : left.batch) natural.emplace_back(0, d);
  for (const int d : left.kept) natural.emplace_back(0, d);
  for (const int d : right.kept) natural.emplace_back(1, d);
  Shape natural_extents;
  for (const auto& [side, d] : natural)
    natural_extents.push_back(side == 0 ? a.shape[d] : b.shape[d]);
  Shape result_strides = row_major_strides(natural_extents);
  Shape to_natural = row_major_strides(t.shape);
  bool in_order = true;
  if (!order.empty()) {
    if (order.size() != 2 * natural.size()) p.unsupported(op, "with this order of results");
    const Shape strides = result_strides;
    for (std::size_t i = 0; i < natural.size(); ++i) {
      const std::pair<int, int> want{order[2 * i], order[2 * i + 1]};
      const auto it = std::find(natural.begin(), natural.end(), want);
      if (it == natural.end()) p.unsupported(op, "with this order of results");
      const auto at = static_cast<int>(it - natural.begin());
      in_order = in_order && at == static_cast<int>(i);
      result_strides[static_cast<int>(i)] = strides[at];
      to_natural[at] = row_major_strides(t.shape)[static_cast<int>(i)];
    }
  }
  product_of.left = matrix_of(a.shape, left.batch, left.kept, left.contracting);
  product_of.right = matrix_of(b.shape, right.batch, right.contracting, right.kept);
  product_of.left_type = a.dtype;
  product_of.right_type = b.dtype;
  product_of.type = common_type(a.dtype, b.dtype);
  const DType acc = t.dtype == DType::i32 ? DType::i32 : DType::f32;
  if ((!is_float(t.dtype) && acc != DType::i32) ||
      (acc == DType::i32) != (product_of.type == DType::i8))
    p.unsupported(op, "its types are not built yet");
  const Attribute* precision = op.find("precision");
  const bool highest = precision != nullptr && precision->kind == Attribute::Kind::text &&
                       precision->text.find("fp32") != std::string::npos;
  const int lhs = p.vector(op.operands[0]);
  const int rhs = p.vector(op.operands[1]);
  const int start = p.vector(op.operands[2]);
  const int result = p.new_vector(op.results[0]);
  const DType out = t.dtype;
  const Shape extents = t.shape;
  p.emit(
      [=](Exec& x) {
        const Product& d = product_of;
        const auto moved = [](const Vector& v, const Matrix& m, DType dtype) {
          if (!m.moved) return v;
          return rearranged(v, m.extents.elems(), register_bytes(dtype),
                            [&](std::byte* to, const std::byte* from, std::int64_t w) {
                              gather_strided(to, from, w, m.extents, m.strides);
                            });
        };
        const Vector l = moved(x.vector(lhs), d.left, d.left_type);
        const Vector r = moved(x.vector(rhs), d.right, d.right_type);
        const StorageHandle la = as_type(l.data, d.left_type, d.type, d.batch * d.m * d.k);
        const StorageHandle rb = as_type(r.data, d.right_type, d.type, d.batch * d.k * d.n);
        const std::int64_t elems = d.batch * d.m * d.n;
        Vector c;
        const Vector& from = x.vector(start);
        c.data = as_type(from.data, out, acc, elems);
        c.bound = from.bound;
        const auto in_natural_order = [&](const StorageHandle& held) {
          StorageHandle own(Storage::allocate(static_cast<std::size_t>(elems) * 4));
          if (in_order)
            std::memcpy(own.bytes(), held.bytes(), static_cast<std::size_t>(elems) * 4);
          else
            gather_strided(own.bytes(), held.bytes(), 4, natural_extents, to_natural);
          return own;
        };
        if (!in_order || out == acc) c.data = in_natural_order(c.data);
        if (!in_order && c.bound) c.bound = in_natural_order(c.bound);
        {
          const Precision scope(highest);
          multiply(d, c, acc, la.bytes(), l.bounds(), rb.bytes(), r.bounds());
        }
        if (l.poison || r.poison || from.poison) {
          c.poison = byte_mask(elems, false);
          std::vector<char> rows(static_cast<std::size_t>(d.batch * d.m), 0);
          std::vector<char> cols(static_cast<std::size_t>(d.batch * d.n), 0);
          if (l.poison) rows = poisoned_lines(l, d.left, d.batch, d.m, d.left.row, d.k, d.left.col);
          if (r.poison)
            cols = poisoned_lines(r, d.right, d.batch, d.n, d.right.col, d.k, d.right.row);
          for (std::int64_t e = 0; e < elems; ++e) {
            const std::int64_t i = e / (d.m * d.n);
            const bool bad = rows[static_cast<std::size_t>(e / d.n)] != 0 ||
                             cols[static_cast<std::size_t>(i * d.n + e % d.n)] != 0;
            if (bad || (from.poison && from.poison.bytes()[e] != std::byte{0}))
              c.poison.bytes()[e] = std::byte{1};
          }
        }
        if (!in_order) {
          c = rearranged(c, elems, 4, [&](std::byte* to, const std::byte* in, std::int64_t w) {
            gather_strided(to, in, w, extents, result_strides);
          });
        }
        if (out != acc) {
          StorageHandle narrow(
              Storage::allocate(static_cast<std::size_t>(elems * register_bytes(out))));
          visit_dtype(out, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if constexpr (kIsFloat<T>) {
              for (std::int64_t e = 0; e < elems; ++e)
                reinterpret_cast<T*>(narrow.bytes())[e] =
                    convert<T>(reinterpret_cast<const float*>(c.data.bytes())[e]);
            }
          });
          const auto n = static_cast<int>(elems);
          c.bound = bounds::cast({narrow.bytes(), out, 1, n, n, nullptr},
                                 {c.data.bytes(), acc, 1, n, n, c.bounds()});
          c.data = std::move(narrow);
        }
        x.vector(result) = std::move(c);
      },
      {lhs, rhs, start});
  p.carries_bounds();
  const std::int64_t flops = 2 * product_of.batch * product_of.m * product_of.n * product_of.k;
  p.work({.flops = flops, .matrix_flops = flops, .products = 1});
}

// The explicit ops: push an operand to a staging register, load it and multiply, pop the sum.

void plan_push(Planner& p, const Operation& op) {
  p.program().counts_all = false;  // which operand is multiplied turns out as it runs
  p.expect(op, 1, 0);
  const Type& t = p.type(op.operands[0]);
  if (t.kind != Type::Kind::vector || !t.known || t.shape.rank != 2)
    p.unsupported(op, "its type is not built yet");
  const int from = p.vector(op.operands[0]);
  const auto unit = p.integer(op, "mxu_index");
  const auto at = p.integer(op, "staging_register");
  const bool transpose = p.integer_or(op, "transpose", 0) != 0;
  const Shape shape = transpose ? Shape{t.shape[1], t.shape[0]} : t.shape;
  const Shape strides = transpose ? Shape{1, t.shape[1]} : Shape{t.shape[1], 1};
  const DType dtype = t.dtype;
  p.emit(
      [=](Exec& x) {
        auto& staged = x.matrix_units[unit].staged;
        if (staged.contains(at)) {
          fail_matrix_unit("staging register " + std::to_string(at) + " of matrix unit " +
                               std::to_string(unit) + " is pushed to twice",
                           "load what it holds with matmul_acc_lhs first");
        }
        Vector v = rearranged(x.vector(from), shape.elems(), register_bytes(dtype),
                              [&](std::byte* to, const std::byte* in, std::int64_t w) {
                                gather_strided(to, in, w, shape, strides);
                              });
        staged[at] = {std::move(v), shape, dtype};
      },
      {from});
}

void plan_accumulate(Planner& p, const Operation& op) {
  p.expect(op, 1, 0);
  const Type& t = p.type(op.operands[0]);
  if (t.kind != Type::Kind::vector || !t.known || t.shape.rank != 2)
    p.unsupported(op, "its type is not built yet");
  const int from = p.vector(op.operands[0]);
  const auto unit = p.integer(op, "mxu_index");
  const auto at = p.integer(op, "acc");
  const auto stage = p.integer_or(op, "load_staged_rhs", -1);
  const Shape shape = t.shape;
  const DType dtype = t.dtype;
  p.emit(
      [=](Exec& x) {
        MatrixUnit& mxu = x.matrix_units[unit];
        if (stage >= 0) {
          const auto it = mxu.staged.find(stage);
          if (it == mxu.staged.end()) {
            fail_matrix_unit("staging register " + std::to_string(stage) + " of matrix unit " +
                                 std::to_string(unit) + " holds nothing",
                             "push the right operand with matmul_push_rhs first");
          }
          mxu.loaded = std::move(it->second);
          mxu.staged.erase(it);
        }
        if (!mxu.loaded) {
          fail_matrix_unit("matrix unit " + std::to_string(unit) + " has no right operand",
                           "name a staging register in load_staged_rhs");
        }
        const MatrixUnit::Matrix& right = *mxu.loaded;
        Product d;
        d.m = shape[0];
        d.k = shape[1];
        d.n = right.shape[1];
        d.left = {false, {}, {}, 0, d.k, 1};
        d.right = {false, {}, {}, 0, d.n, 1};
        d.type = common_type(dtype, right.dtype);
        if (right.shape[0] != d.k) fail_ref("operands of a matrix unit that do not fit");
        const DType acc = d.type == DType::i8 ? DType::i32 : DType::f32;
        const Shape result{d.m, d.n};
        auto& sum = mxu.sums[at];
        if (!sum.value.data) {
          sum = {{StorageHandle(Storage::allocate(static_cast<std::size_t>(d.m * d.n) * 4))},
                 result,
                 acc};
          std::memset(sum.value.data.bytes(), 0, static_cast<std::size_t>(d.m * d.n) * 4);
        }
        if (!(sum.shape == result) || sum.dtype != acc)
          fail_ref("sums of several shapes in one accumulator");
        const Vector& left = x.vector(from);
        const StorageHandle a = as_type(left.data, dtype, d.type, d.m * d.k);
        const StorageHandle b = as_type(right.value.data, right.dtype, d.type, d.k * d.n);
        if (op_state.error_model != nullptr) fail_bounds_of("of the explicit ops of a matrix unit");
        if (!multiply(d, sum.value, acc, a.bytes(), nullptr, b.bytes(), nullptr))
          fail_ref("a product of these types in a matrix unit");
        op_state.flops += 2 * d.m * d.n * d.k;
        op_state.matrix_flops += 2 * d.m * d.n * d.k;
        if (left.poison || right.value.poison) sum.value.poison = byte_mask(d.m * d.n, true);
      },
      {from});
}

void plan_pop(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const Type& t = p.type(op.results[0]);
  const auto unit = p.integer(op, "mxu_index");
  const auto at = p.integer(op, "acc");
  const int to = p.new_vector(op.results[0]);
  const Shape shape = t.shape;
  const DType dtype = t.dtype;
  p.emit([=](Exec& x) {
    auto& sums = x.matrix_units[unit].sums;
    const auto it = sums.find(at);
    if (it == sums.end()) {
      fail_matrix_unit("accumulator " + std::to_string(at) + " of matrix unit " +
                           std::to_string(unit) + " holds nothing",
                       "multiply into it with matmul_acc_lhs first");
    }
    if (!(it->second.shape == shape) || it->second.dtype != dtype)
      fail_ref("a sum popped as another shape or type than it was made");
    x.vector(to) = std::move(it->second.value);
    sums.erase(it);
  });
}

}  // namespace

Rules matmul_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.matmul", "c + a b, one FMA per k", true, plan_matmul},
      {"tpu.matmul_push_rhs", "a right operand for a staging register of a matrix unit", false,
       plan_push},
      {"tpu.matmul_acc_lhs", "adds a product to an accumulator of a matrix unit", false,
       plan_accumulate},
      {"tpu.matmul_pop", "takes the sum of an accumulator", false, plan_pop},
  };
  return rules;
}

}  // namespace tessera::pallas
