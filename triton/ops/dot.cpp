// tt.dot: batches of matrix products, summed in f32 (8-bit integers in i32), one FMA per k.
//
// f32 operands have the input precision that the op asks for: tf32 (10 bits of mantissa, the rest
// cut off, as tensor cores take them), ieee, tf32x3: hi hi + hi lo + lo hi, or, as sums of bf16 of
// which each has what the ones before left, bf16x3 the same, bf16x6 besides mid mid + lo hi + hi
// lo: the smallest first, from zero, NaN as zero before the largest, c at the end. Sums of f16
// results are rounded at the end, those of fp8 kept in f32 whatever maxNumImpreciseAcc allows.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "program/product.hpp"
#include "program/rules.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/memory.hpp"
#include "triton/ops/parts.hpp"
#include "triton/plan_kernel.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// Numbers of tt.dot's inputPrecision.
enum Precision : std::int64_t { kTf32, kTf32x3, kIeee, kBf16x3, kBf16x6 };

float cut_to_tf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u);
}

/// hi: what tensor cores take of a vector; lo: of what they leave.
Vector as_tf32(const Vector& v, std::int64_t n, bool low) {
  Vector r{StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * sizeof(float))), v.poison};
  const auto* const from = reinterpret_cast<const float*>(v.data.bytes());
  auto* const to = reinterpret_cast<float*>(r.data.bytes());
  for (std::int64_t i = 0; i < n; ++i) {
    const float high = cut_to_tf32(from[i]);
    to[i] = low ? cut_to_tf32(from[i] - high) : high;
  }
  if (!v.bound) return r;
  r.bound = bound_storage(n);
  constexpr float kCut = 0x1p-10F;  // of another number
  for (std::int64_t i = 0; i < n; ++i) {
    const float off = v.bounds()[i];
    floats(r.bound)[i] = off > 0 ? off + kCut * (std::fabs(from[i]) + 2 * off) : 0.f;
  }
  return r;
}

/// A vector as the sum of three of bf16.
std::array<Vector, 3> as_bf16(const Vector& v, std::int64_t n) {
  std::array<Vector, 3> parts;
  for (Vector& part : parts)
    part = {StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * sizeof(bf16))), v.poison};
  const auto* const from = reinterpret_cast<const float*>(v.data.bytes());
  for (std::int64_t i = 0; i < n; ++i) {
    float left = from[i];
    for (Vector& part : parts) {
      const bf16 taken = convert<bf16>(left);
      reinterpret_cast<bf16*>(part.data.bytes())[i] = taken;
      left -= convert<float>(taken);
    }
  }
  return parts;
}

/// What a product in parts gives, with bounds where a launch keeps them.
template <class Compute>
Vector in_parts(InParts how, const Product& of, const Vector& l, const Vector& r, Vector start,
                Compute&& compute) {
  if (op_state.error_model == nullptr) return compute(std::move(start));
  struct Unbounded {
    const ErrorModel* before = std::exchange(op_state.error_model, nullptr);
    ~Unbounded() { op_state.error_model = before; }
  };
  const auto value = [&] {
    const Unbounded scope;
    return compute(Vector{start.data, start.poison});
  };
  Vector result = value();
  result.bound = bounds_in_parts(how, of, result, l, r, start);
  return result;
}

/// Sums of products of such parts.
struct Bf16Dot {
  Product product;
  std::int64_t n = 0;  ///< elements of the left operand, the right one, the result
  std::int64_t m = 0;
  std::int64_t results = 0;
  bool six = false;

  Vector run(const Vector& l, const Vector& r, const Vector& c) const {
    constexpr std::size_t kHigh = 0;
    constexpr std::size_t kMid = 1;
    constexpr std::size_t kLow = 2;
    const auto a = as_bf16(l, n);
    const auto b = as_bf16(r, m);
    const auto bytes = static_cast<std::size_t>(results) * sizeof(float);
    Vector sum{StorageHandle(Storage::allocate(bytes))};
    std::memset(sum.data.bytes(), 0, bytes);
    const auto add = [&](std::size_t i, std::size_t j) {
      sum = product.run(a[i], b[j], std::move(sum), "tt.dot");
    };
    if (six) {
      add(kMid, kMid);
      add(kLow, kHigh);
      add(kHigh, kLow);
    }
    add(kMid, kHigh);
    add(kHigh, kMid);
    auto* const small = reinterpret_cast<float*>(sum.data.bytes());
    for (std::int64_t i = 0; i < results; ++i) small[i] = std::isnan(small[i]) ? 0.f : small[i];
    add(kHigh, kHigh);
    auto* const all = reinterpret_cast<float*>(sum.data.bytes());
    const auto* const start = reinterpret_cast<const float*>(c.data.bytes());
    for (std::int64_t i = 0; i < results; ++i) {
      all[i] += start[i];
      if (const Origin o = c.poison_at(i)) {
        if (!sum.poison) sum.poison = poison_mask(results, 0);
        sum.poison.bytes()[i] = std::byte{o};
      }
    }
    return sum;
  }
};

bool is_lent(const Instance& x, int slot) { return x.lent[static_cast<std::size_t>(slot)].lent; }

/// Of operands that may lie in the caller's memory.
Product of_lent(Product product, const Instance& x, int left, int right) {
  const auto lies = [&](Product::Matrix& m, int slot) {
    const Lent& lent = x.lent[static_cast<std::size_t>(slot)];
    if (!lent.lent) return;
    m.row = lent.row;
    m.col = lent.col;
  };
  lies(product.left, left);
  lies(product.right, right);
  return product;
}

/// What waits of a running sum is multiplied now.
void settle(WaitingProduct& waiting, Vector& sum) {
  if (waiting.product.k == 0) return;
  waiting.product.accumulate(sum, {StorageHandle(Storage::borrow(waiting.left))},
                             {StorageHandle(Storage::borrow(waiting.right))});
  waiting.product.k = 0;
}

/// Whether products for the sum may wait at all.
bool may_wait(const Vector& sum) {
  return op_state.error_model == nullptr && !op_state.trap_nan &&
         !on_tensor_cores(op_state.profile) && !sum.poison;
}

/// Leaves the product of two tiles behind what waits already if it continues that.
void wait(const Product& product, WaitingProduct& waiting, const std::byte* left,
          const std::byte* right, Vector& sum) {
  constexpr std::int64_t kMostDepth = 1 << 16;  // a stop is obeyed soon
  const std::int64_t width = register_bytes(product.left_type);
  const Product& before = waiting.product;
  const Product::Matrix& a = product.left;
  const Product::Matrix& b = product.right;
  const bool continues = left == waiting.left + before.k * a.col * width &&
                         right == waiting.right + before.k * b.row * width &&
                         a.row == before.left.row && a.col == before.left.col &&
                         b.row == before.right.row && b.col == before.right.col &&
                         before.k < kMostDepth;
  if (!continues) settle(waiting, sum);
  if (before.k > 0) {
    waiting.product.k += product.k;
    return;
  }
  if (sum.data.shared()) {
    const auto bytes = static_cast<std::size_t>(product.elems()) * sizeof(float);
    StorageHandle own(Storage::allocate(bytes));
    std::memcpy(own.bytes(), sum.data.bytes(), bytes);
    sum.data = std::move(own);
  }
  waiting = {product, left, right};
}

void plan_settle(Planner& p, const Operation& op) {
  p.expect(op, 1, 0);
  const int sum = running_sum(p, op.operands[0]);
  if (sum < 0) p.refuse(op);
  const int slot = p.vector(op.operands[0]);
  p.emit(
      [=](Exec& x) { settle(instance(x).waiting[static_cast<std::size_t>(sum)], x.vector(slot)); },
      {slot});
}

void plan_dot(Planner& p, const Operation& op) {
  p.expect(op, 3, 1);
  const Type& a = p.type(op.operands[0]);
  const Type& b = p.type(op.operands[1]);
  const Type& result = p.type(op.results[0]);
  const int rank = a.shape.rank;
  if (!a.known || !b.known || !is_tensor(a) || !is_tensor(b) || rank != b.shape.rank || rank < 2 ||
      rank > 3 || p.type(op.operands[2]).text != result.text)
    p.unsupported(op, "of these types");
  ProductDims left{{rank - 1}, {rank - 2}, {}};
  ProductDims right{{rank - 2}, {rank - 1}, {}};
  if (rank == 3) {
    left.batch = {0};
    right.batch = {0};
  }
  Product product;
  if (const char* const why = plan_product(a, left, b, right, result, {}, product))
    p.unsupported(op, why);
  const std::int64_t precision = p.integer_or(op, "inputPrecision", kIeee);
  const bool f32 = a.dtype == DType::f32 && b.dtype == DType::f32;
  product.tf32 = f32 && (precision == kTf32 || precision == kTf32x3);
  const int x_slot = p.vector(op.operands[0]);
  const int y_slot = p.vector(op.operands[1]);
  const int start = p.vector(op.operands[2]);
  const bool last = p.last_use(op.operands[2]);
  const int to = p.new_vector(op.results[0]);
  const std::int64_t n = a.shape.elems();
  const std::int64_t m = b.shape.elems();
  const int sum = running_sum(p, op.results[0]);
  const bool lent = may_be_lent(p, op.operands[0]) || may_be_lent(p, op.operands[1]);
  if (f32 && precision > kIeee) {
    Type a16 = a;
    Type b16 = b;
    a16.dtype = b16.dtype = DType::bf16;
    Bf16Dot dot;
    dot.n = n;
    dot.m = m;
    dot.results = result.shape.elems();
    dot.six = precision == kBf16x6;
    if (const char* const why = plan_product(a16, left, b16, right, result, {}, dot.product))
      p.unsupported(op, why);
    p.emit(
        [=](Exec& x) {
          const Vector& l = x.vector(x_slot);
          const Vector& r = x.vector(y_slot);
          x.vector(to) =
              in_parts(dot.six ? InParts::bf16x6 : InParts::bf16x3, dot.product, l, r,
                       x.vector(start), [&](const Vector& c) { return dot.run(l, r, c); });
        },
        {x_slot, y_slot, start});
    p.carries_bounds();
    p.work(dot.product.work());
    note_product(p, DType::bf16, false);
    return;
  }
  p.emit(
      [=](Exec& x) {
        const Vector& l = x.vector(x_slot);
        const Vector& r = x.vector(y_slot);
        Vector c = last ? std::exchange(x.vector(start), Vector()) : x.vector(start);
        if (!f32 || precision == kIeee) {
          if (!lent) {
            x.vector(to) = product.run(l, r, std::move(c), "tt.dot");
            return;
          }
          Instance& i = instance(x);
          const Product where = of_lent(product, i, x_slot, y_slot);
          if (sum >= 0) {
            WaitingProduct& waiting = i.waiting[static_cast<std::size_t>(sum)];
            if (is_lent(i, x_slot) && is_lent(i, y_slot) && may_wait(c)) {
              wait(where, waiting, l.data.bytes(), r.data.bytes(), c);
              x.vector(to) = std::move(c);
              return;
            }
            settle(waiting, c);
          }
          x.vector(to) = where.run(l, r, std::move(c), "tt.dot");
          return;
        }
        const Vector high_l = as_tf32(l, n, false);
        const Vector high_r = as_tf32(r, m, false);
        if (precision != kTf32x3) {
          x.vector(to) = product.run(high_l, high_r, std::move(c), "tt.dot");
          return;
        }
        x.vector(to) = in_parts(InParts::tf32x3, product, l, r, std::move(c), [&](Vector sums) {
          sums = product.run(as_tf32(l, n, true), high_r, std::move(sums), "tt.dot");
          sums = product.run(high_l, as_tf32(r, m, true), std::move(sums), "tt.dot");
          return product.run(high_l, high_r, std::move(sums), "tt.dot");
        });
      },
      {x_slot, y_slot, start});
  p.carries_bounds();
  p.work(product.work());
  note_product(p, a.dtype, product.tf32);
  if (sum < 0) return;
  note_sum_of_products(
      p, {.left = x_slot,
          .right = y_slot,
          .waits =
              [=](Instance& x) {
                return may_wait(x.vector(to)) &&
                       x.waiting[static_cast<std::size_t>(sum)].product.k > 0;
              },
          .follow =
              [=](Instance& x, const MovingTile& l, const MovingTile& r, std::int64_t turns) {
                const Product where = of_lent(product, x, x_slot, y_slot);
                for (std::int64_t i = 0; i < turns; ++i) {
                  wait(where, x.waiting[static_cast<std::size_t>(sum)], l.first + i * l.apart,
                       r.first + i * r.apart, x.vector(to));
                }
              }});
}

}  // namespace

Rules dot_rules() {
  static const std::vector<Rule> rules = {
      {"tt.dot", "c + a b", true, plan_dot},
      {"tt.settle", "the end of a loop's sum: what waits of it is multiplied", false, plan_settle},
  };
  return rules;
}

}  // namespace tessera::triton
