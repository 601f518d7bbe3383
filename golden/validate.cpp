#include "golden/validate.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "memory_model/float_format.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::golden {

namespace {

/// Bit patterns of a float type in the order of their values, so that neighbours differ by 1.
std::int64_t ordinal(DType d, std::uint64_t bits) {
  const int width = bit_width(d);
  const auto magnitude = static_cast<std::int64_t>(bits & ((std::uint64_t{1} << (width - 1)) - 1));
  return (bits >> (width - 1)) != 0 ? -magnitude : magnitude;
}

/// Half a unit in the last place of a number of magnitude v.
double half_ulp(DType d, double v) {
  if (!is_float(d)) return 0;
  int exponent = 0;
  std::frexp(v, &exponent);
  exponent = std::max(exponent - 1, smallest_exponent(d));
  return std::ldexp(0.5, exponent - mantissa_bits(d));
}

struct Tally {
  std::int64_t wrong = 0;
  std::int64_t worst = -1;
  double worst_excess = 0;  ///< |error| / bound of the worst element
  Shape first_index;
  std::vector<bool> shared;  ///< dims in which every wrong element has one index
};

void count_wrong(Tally& tally, const Shape& shape, std::int64_t i, double excess) {
  const Shape index = unravel(shape, i);
  if (tally.wrong == 0) {
    tally.first_index = index;
    tally.shared.assign(static_cast<std::size_t>(shape.rank), true);
  }
  for (int d = 0; d < shape.rank; ++d) {
    if (index[d] != tally.first_index[d]) tally.shared[static_cast<std::size_t>(d)] = false;
  }
  ++tally.wrong;
  if (tally.worst < 0 || excess > tally.worst_excess) {
    tally.worst = i;
    tally.worst_excess = excess;
  }
}

std::string hex_of(const Array& a, std::int64_t i) {
  return fmt::format("0x{:0{}x}", a.bits(i), std::max(1, bit_width(a.dtype()) / 4));
}

Diagnostic mismatch(const Plan& plan, const OperandPlan& op, const Array& got, const Array& wanted,
                    const Tally& tally, double bound, const std::string& oracle) {
  Diagnostic d{
      .slug = "mismatch",
      .headline = fmt::format("{} of {} elements of {} differ from reference::{}",
                              with_commas(tally.wrong), with_commas(got.elems()), op.name, oracle)};
  add_kernel_field(d);
  const std::int64_t w = tally.worst;
  const Shape index = unravel(got.shape(), w);
  std::string worst =
      fmt::format("{}{} = {:.9g} ({}), expected {:.9g} ({})", op.name, to_string(index), got.at(w),
                  hex_of(got, w), wanted.at(w), hex_of(wanted, w));
  if (is_float(got.dtype()) && std::isfinite(got.at(w)) && std::isfinite(wanted.at(w))) {
    const std::int64_t ulp = ulp_distance(got, wanted, w);
    worst += fmt::format(": {} ulp, {:.3g} off, {:.3g} allowed", with_commas(ulp),
                         std::abs(got.at(w) - wanted.at(w)), bound);
  }
  d.fields.emplace_back("worst", worst);
  std::string where;
  if (op.block.rank == index.rank) {
    Shape block = index;
    Shape within = index;
    for (int dim = 0; dim < index.rank; ++dim) {
      block[dim] = index[dim] / op.block[dim];
      within[dim] = index[dim] % op.block[dim];
    }
    where = "block " + index_string(block.dims.data(), block.rank) + ", element " +
            to_string(within) + " of the block";
  }
  if (got.shape().rank > 0 && got.shape()[0] != op.array[0]) {
    where =
        "device " + std::to_string(index[0] / op.array[0]) + (where.empty() ? "" : ", " + where);
  }
  if (tally.wrong > 1) {
    for (int dim = 0; dim < index.rank; ++dim) {
      if (!tally.shared[static_cast<std::size_t>(dim)] || got.shape()[dim] == 1) continue;
      where += fmt::format("; all have index {} in dim {}", index[dim], dim);
    }
  }
  d.fields.emplace_back("where", where);
  if (std::isnan(got.at(w)) && !std::isnan(wanted.at(w))) {
    bool ragged = false;
    for (const auto& in : plan.operands) {
      for (int dim = 0; in.role == Role::in && in.present && dim < in.block.rank; ++dim) {
        ragged = ragged || (!in.padded && in.array[dim] % in.block[dim] != 0);
      }
    }
    d.fields.emplace_back("help",
                          ragged ? "a ragged input block without .pad(value) holds NaN beyond the "
                                   "array; mask it, or declare its padding"
                                 : "run again with --trap nan to stop where the NaN is made");
  }
  add_replay_field(d);
  return d;
}

}  // namespace

reference::Tensor to_tensor(const Array& array) {
  reference::Tensor t;
  for (int d = 0; d < array.shape().rank; ++d)
    t.shape.push_back(static_cast<std::size_t>(array.shape()[d]));
  t.values = array.to_doubles();
  return t;
}

Validation validate(const Plan& plan, const std::vector<Array>& outputs,
                    const std::vector<reference::Expected>& expected, const std::string& oracle,
                    const std::vector<Array>& profile_bounds) {
  Validation v;
  v.reference = oracle;
  std::size_t next = 0;
  for (const auto& op : plan.operands) {
    if (!op.is_output() || !op.present) continue;
    if (next >= expected.size()) throw std::logic_error("the oracle has no result for " + op.name);
    const Array& got = outputs[next];
    const reference::Expected& e = expected[next];
    const float* const added =
        profile_bounds.empty() ? nullptr : profile_bounds[next].data<float>();
    ++next;
    if (static_cast<std::int64_t>(e.value.values.size()) != got.elems() ||
        e.error.values.size() != e.value.values.size()) {
      throw std::logic_error("the oracle's result for " + op.name + " has another size");
    }
    Array wanted(got.dtype(), got.shape());
    Tally tally;
    double worst_bound = 0;
    const std::vector<double> values = got.to_doubles();
    for (std::int64_t i = 0; i < got.elems(); ++i) {
      const double want = e.value.values[static_cast<std::size_t>(i)];
      const double value = values[static_cast<std::size_t>(i)];
      wanted.set(i, want);
      if (std::isnan(want) && std::isnan(value)) continue;
      if (value == want) continue;
      const double off = std::abs(value - want);
      const double error =
          e.error.values[static_cast<std::size_t>(i)] + (added != nullptr ? added[i] : 0);
      const double bound = error * (1 + 1e-12) + half_ulp(got.dtype(), std::abs(want) + error);
      if (std::isfinite(off)) {
        v.max_abs_err = std::max(v.max_abs_err, off);
        if (want != 0) v.max_rel_err = std::max(v.max_rel_err, off / std::abs(want));
        if (is_float(got.dtype())) {
          v.max_ulp = std::max(v.max_ulp, ulp_distance(got, wanted, i));
        }
        v.worst_of_bound = std::max(v.worst_of_bound, off / bound);
        if (off <= bound) continue;
      } else {
        // A finite value may round to infinity where the oracle's f64 does not.
        if (std::isinf(value) && value == wanted.at(i)) continue;
      }
      const double excess = std::isfinite(off) ? off / bound : INFINITY;
      if (tally.worst < 0 || excess > tally.worst_excess) worst_bound = bound;
      count_wrong(tally, got.shape(), i, excess);
    }
    if (tally.wrong > 0 && v.passed) {
      v.passed = false;
      v.mismatch = mismatch(plan, op, got, wanted, tally, worst_bound, oracle);
    }
  }
  return v;
}

std::int64_t ulp_distance(const Array& a, const Array& b, std::int64_t i) {
  return std::abs(ordinal(a.dtype(), a.bits(i)) - ordinal(b.dtype(), b.bits(i)));
}

}  // namespace tessera::golden
