// What reductions and scans are written out as (combine.hpp).
#include "program/gather.hpp"
#include "program/rules.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/any_order.hpp"
#include "triton/operand.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// A tensor around an axis.
struct Around {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};
Around around(Planner& p, const Operation& op) {
  const Shape& s = p.type(op.operands[0]).shape;
  const std::int64_t axis = p.integer(op, "axis");
  if (axis < 0 || axis >= s.rank) p.refuse(op);
  Around a;
  for (int d = 0; d < s.rank; ++d) (d < axis ? a.outer : d == axis ? a.extent : a.inner) *= s[d];
  return a;
}
/// Of a scan: elements along the axis that a step reaches back.
std::int64_t distance_of(Planner& p, const Operation& op, const Around& a) {
  const std::int64_t distance = p.integer(op, "distance");
  if (distance < 1 || distance >= a.extent) p.refuse(op);
  for (const int v : op.operands) {
    p.expect_same_type(op, v, op.results[0]);
    if (p.type(v).shape != p.type(op.results[0]).shape) p.refuse(op);
  }
  return distance;
}

void plan_half(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& t = p.type(op.operands[0]);
  const Around a = around(p, op);
  const std::int64_t upper = p.integer(op, "upper");
  p.expect_same_type(op, op.operands[0], op.results[0]);
  if (upper < 0 || upper > 1 || a.extent % 2 != 0 ||
      2 * p.type(op.results[0]).shape.elems() != t.shape.elems())
    p.refuse(op);
  const std::int64_t width = register_bytes(t.dtype);
  const std::int64_t chunk = a.extent / 2 * a.inner;
  const int from = p.vector(op.operands[0]);
  const int to = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        x.vector(to) =
            rearranged(x.vector(from), a.outer * chunk, width,
                       [&](std::byte* out, const std::byte* in, std::int64_t w) {
                         if (chunk == 1)
                           return gather_strided(out, in + upper * w, w, {a.outer}, {2});
                         for (std::int64_t o = 0; o < a.outer; ++o)
                           std::memcpy(out + o * chunk * w, in + (2 * o + upper) * chunk * w,
                                       static_cast<std::size_t>(chunk * w));
                       });
      },
      {from});
  p.carries_bounds();
}

void plan_last(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& to = p.type(op.results[0]);
  if (is_tensor(to)) {
    plan_same(p, op);
    return;
  }
  p.expect_same_type(op, op.operands[0], op.results[0]);
  if (p.type(op.operands[0]).shape.elems() != 1) p.refuse(op);
  const int from = p.vector(op.operands[0]);
  const int scalar = p.new_scalar(op.results[0]);
  const auto width = static_cast<std::size_t>(register_bytes(to.dtype));
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(from);
        Scalar& s = x.scalars[static_cast<std::size_t>(scalar)];
        s = {};
        std::memcpy(s.bytes.data(), v.data.bytes(), width);
        s.poison = v.poison_at(0);
        s.bound = v.bound ? v.bounds()[0] : 0.f;
      },
      {from});
  p.carries_bounds();
}

void plan_shift(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& t = p.type(op.operands[0]);
  const Around a = around(p, op);
  const std::int64_t distance = distance_of(p, op, a);
  const bool reverse = p.integer(op, "reverse") != 0;
  const std::int64_t width = register_bytes(t.dtype);
  const int from = p.vector(op.operands[0]);
  const int to = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        x.vector(to) =
            rearranged(x.vector(from), a.outer * a.extent * a.inner, width,
                       [&](std::byte* out, const std::byte* in, std::int64_t w) {
                         const std::int64_t row = a.extent * a.inner * w;
                         const std::int64_t by = distance * a.inner * w;
                         const auto moved = static_cast<std::size_t>(row - by);
                         const auto kept = static_cast<std::size_t>(by);
                         for (std::int64_t o = 0; o < a.outer; ++o) {
                           std::byte* const r = out + o * row;
                           const std::byte* const s = in + o * row;
                           std::memcpy(reverse ? r : r + by, reverse ? s + by : s, moved);
                           std::memcpy(reverse ? r + moved : r, reverse ? s + moved : s, kept);
                         }
                       });
      },
      {from});
  p.carries_bounds();
}

void plan_keep(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const Type& t = p.type(op.operands[0]);
  const Around a = around(p, op);
  const std::int64_t distance = distance_of(p, op, a);
  const bool reverse = p.integer(op, "reverse") != 0;
  const std::int64_t width = register_bytes(t.dtype);
  const std::int64_t n = a.outer * a.extent * a.inner;
  const int first = p.vector(op.operands[0]);
  const int rest = p.vector(op.operands[1]);
  const int to = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const auto merge = [&](std::byte* out, const std::byte* kept, std::int64_t w) {
          const std::int64_t row = a.extent * a.inner * w;
          const std::int64_t by = distance * a.inner * w;
          for (std::int64_t o = 0; o < a.outer; ++o) {
            const std::int64_t at = o * row + (reverse ? row - by : 0);
            std::memcpy(out + at, kept + at, static_cast<std::size_t>(by));
          }
        };
        const Vector& f = x.vector(first);
        Vector r = rearranged(x.vector(rest), n, width,
                              [&](std::byte* out, const std::byte* in, std::int64_t w) {
                                std::memcpy(out, in, static_cast<std::size_t>(n * w));
                              });
        merge(r.data.bytes(), f.data.bytes(), width);
        if (f.poison || r.poison) {
          if (!r.poison) r.poison = poison_mask(n, 0);
          merge(r.poison.bytes(), (f.poison ? f.poison : poison_mask(n, 0)).bytes(), 1);
        }
        if (f.bound || r.bound) {
          if (!r.bound) r.bound = no_bounds(n);
          merge(r.bound.bytes(), (f.bound ? f.bound : no_bounds(n)).bytes(), sizeof(float));
        }
        x.vector(to) = std::move(r);
      },
      {first, rest});
  p.carries_bounds();
}

/// Of a, b: b with the bounds of sums of a.
void plan_any_order(Planner& p, const Operation& op, bool scan) {
  p.expect(op, 2, 1);
  const Type& t = p.type(op.operands[0]);
  const Type& result = p.type(op.results[0]);
  p.expect_same_type(op, op.operands[1], op.results[0]);
  const Around a = around(p, op);
  const bool reverse = scan && p.integer(op, "reverse") != 0;
  const bool tensor = is_tensor(result);
  const std::int64_t results = a.outer * a.inner * (scan ? a.extent : 1);
  if ((tensor ? result.shape.elems() : 1) != results) p.refuse(op);
  const DType dtype = t.dtype;
  const int from = p.vector(op.operands[0]);
  const int sums = tensor ? p.vector(op.operands[1]) : p.scalar(op.operands[1]);
  const int to = tensor ? p.new_vector(op.results[0]) : p.new_scalar(op.results[0]);
  p.read(from);
  if (tensor) p.read(sums);
  p.emit([=](Exec& x) {
    Vector r;
    if (tensor) {
      r = x.vector(sums);
    } else {
      const Scalar& s = x.scalars[static_cast<std::size_t>(sums)];
      r.data = StorageHandle(Storage::allocate(s.bytes.size()));
      std::memcpy(r.data.bytes(), s.bytes.data(), s.bytes.size());
    }
    if (op_state.error_model != nullptr) {
      if (dtype == DType::f64) fail_bounds_of("of a sum in f64");
      const double unit = bounds::addition_unit(*op_state.error_model, dtype);
      const Vector& v = x.vector(from);
      StorageHandle made = bound_storage(results);
      float* const b = floats(made);
      for (std::int64_t o = 0; o < a.outer; ++o) {
        for (std::int64_t i = 0; i < a.inner; ++i) {
          bounds::AnyOrder sum;
          for (std::int64_t e = 0; e < a.extent; ++e) {
            const std::int64_t k = reverse ? a.extent - 1 - e : e;
            const std::int64_t at = (o * a.extent + k) * a.inner + i;
            sum.add(element(v, dtype, at), v.bound ? v.bounds()[at] : 0.);
            if (scan) b[at] = sum.bound(element(r, dtype, at), unit);
          }
          const std::int64_t at = o * a.inner + i;
          if (!scan) b[at] = sum.bound(element(r, dtype, at), unit);
        }
      }
      r.bound = std::move(made);
    }
    if (tensor) {
      x.vector(to) = std::move(r);
      return;
    }
    Scalar& s = x.scalars[static_cast<std::size_t>(to)];
    s = x.scalars[static_cast<std::size_t>(sums)];
    s.bound = r.bound ? r.bounds()[0] : 0.f;
  });
  p.carries_bounds();
}

void plan_open(Planner& p, const Operation& op) {
  p.emit([](Exec&) {
    if (op_state.error_model != nullptr)
      fail_bounds_of(
          "of a reduction or scan whose combination rounds and is no sum: its order decides, and "
          "is "
          "open");
  });
  if (is_tensor(p.type(op.results[0])))
    plan_same(p, op);
  else
    p.alias(op.results[0], op.operands[0]);
}

}  // namespace

Rules combine_rules() {
  static const std::vector<Rule> rules = {
      {"tt.reduce.half", "of tt.reduce: half of a tensor along its axis", true, plan_half},
      {"tt.reduce.last", "of tt.reduce: its result", true, plan_last},
      {"tt.reduce.any_order", "of tt.reduce: a sum, with the bounds of any order", true,
       [](Planner& p, const Operation& op) { plan_any_order(p, op, false); }},
      {"tt.scan.shift", "of tt.scan: what lies before", true, plan_shift},
      {"tt.scan.keep", "of tt.scan: the first elements stay", true, plan_keep},
      {"tt.scan.last", "of tt.scan: its result", true, plan_same},
      {"tt.scan.any_order", "of tt.scan: sums, with the bounds of any order", true,
       [](Planner& p, const Operation& op) { plan_any_order(p, op, true); }},
      {"tt.combine.open", "of tt.reduce and tt.scan: a result that depends on their order", false,
       plan_open},
  };
  return rules;
}

}  // namespace tessera::triton
