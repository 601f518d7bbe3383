// tpu.matmul, with every form of dimension numbers, and the explicit MXU ops.
#include "pallas/rules.hpp"
#include "program/gather.hpp"
#include "program/product.hpp"

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

void plan_matmul(Planner& p, const Operation& op) {
  p.expect(op, 3, 1);
  const Type& a = p.type(op.operands[0]);
  const Type& b = p.type(op.operands[1]);
  const Type& t = p.type(op.results[0]);
  if (a.kind != Type::Kind::vector || b.kind != Type::Kind::vector || !a.known || !b.known ||
      !t.known)
    p.unsupported(op, "its types are not built yet");
  p.expect_same_type(op, op.operands[2], op.results[0]);
  ProductDims left;
  ProductDims right;
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
  Product product;
  if (const char* why = plan_product(a, left, b, right, t, order, product)) p.unsupported(op, why);
  if (p.type(op.operands[2]).shape.elems() != t.shape.elems())
    p.unsupported(op, "its dimension numbers do not fit its operands");
  const Attribute* precision = op.find("precision");
  product.highest = precision != nullptr && precision->kind == Attribute::Kind::text &&
                    precision->text.find("fp32") != std::string::npos;
  const int lhs = p.vector(op.operands[0]);
  const int rhs = p.vector(op.operands[1]);
  const int start = p.vector(op.operands[2]);
  const int result = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        x.vector(result) = product.run(x.vector(lhs), x.vector(rhs), x.vector(start), "tpu.matmul");
      },
      {lhs, rhs, start});
  p.carries_bounds();
  p.work(product.work());
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
        d.left_type = dtype;
        d.right_type = right.dtype;
        d.sum_type = sum_type_of(dtype, right.dtype);
        if (right.shape[0] != d.k) fail_ref("operands of a matrix unit that do not fit");
        const Shape result{d.m, d.n};
        auto& sum = mxu.sums[at];
        if (!sum.value.data) {
          sum = {{StorageHandle(Storage::allocate(static_cast<std::size_t>(d.m * d.n) * 4))},
                 result,
                 d.sum_type};
          std::memset(sum.value.data.bytes(), 0, static_cast<std::size_t>(d.m * d.n) * 4);
        }
        if (!(sum.shape == result) || sum.dtype != d.sum_type)
          fail_ref("sums of several shapes in one accumulator");
        const Vector& left = x.vector(from);
        if (op_state.error_model != nullptr) fail_bounds_of("of the explicit ops of a matrix unit");
        if (!d.accumulate(sum.value, left, right.value))
          fail_ref("a product of these types in a matrix unit");
        op_state.flops += 2 * d.m * d.n * d.k;
        op_state.matrix_flops += 2 * d.m * d.n * d.k;
        const Origin poison =
            left.poison ? left.first_poison(0, d.m * d.k) : right.value.first_poison(0, d.k * d.n);
        if (poison != 0) sum.value.poison = poison_mask(d.m * d.n, computed_from(poison));
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
