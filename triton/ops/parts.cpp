#include "triton/ops/parts.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "sim/bounds/elementwise.hpp"
#include "sim/bounds/sum.hpp"
#include "sim/numerics/op_state.hpp"

namespace tessera::triton {

namespace {

constexpr std::size_t kParts = 3;

/// The parts of the left and of the right operand that are multiplied with each other; the largest
/// come last.
struct Pair {
  std::size_t left;
  std::size_t right;
};
constexpr std::array<Pair, 3> kThree{{{1, 0}, {0, 1}, {0, 0}}};
constexpr std::array<Pair, 6> kSix{{{1, 1}, {2, 0}, {0, 2}, {1, 0}, {0, 1}, {0, 0}}};

std::span<const Pair> pairs_of(InParts how) {
  if (how == InParts::bf16x6) return kSix;
  return kThree;
}
double left_out(InParts how) {
  return how == InParts::tf32x3 ? 0x1p-18 : how == InParts::bf16x3 ? 0x1p-14 : 0x1p-21;
}

std::array<float, kParts> parts_of(InParts how, float x) {
  std::array<float, kParts> parts{};
  for (float& part : parts) {
    part = how == InParts::tf32x3
               ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u)
               : convert<float>(convert<bf16>(x));
    x -= part;
  }
  return parts;
}

/// How far its products may be from those of x, on its largest part. That is at least
/// (1 - 2^-8) |x| of either operand.
float off(InParts how, float x, float bound, double theirs) {
  if (bound == 0 && theirs == 0) return 0;
  const auto size = std::fabs(static_cast<double>(x));
  const auto e = static_cast<double>(bound) + theirs * size;
  // Of numbers near f32's smallest ones parts keep less.
  constexpr double kLeast = 0x1p-126;
  const double all = e + 2 * left_out(how) * (size + e) + kLeast;
  return static_cast<float>(all * (1 + 0x1p-7) * (1 + 0x1p-20));
}

/// Parts beside each other along k, and their bounds.
struct Side {
  std::vector<float> values;
  std::vector<float> bounds;
  bool bounded = false;
};

/// `place(row, k, pass)` says where, of an operand of rows x k whose element is
/// from[row * row_stride + k * k_stride].
template <class Place>
Side side_of(InParts how, const float* from, const float* bound, std::int64_t rows, std::int64_t k,
             std::int64_t row_stride, std::int64_t k_stride, std::size_t Pair::*which,
             Place&& place) {
  const std::span<const Pair> pairs = pairs_of(how);
  Side s;
  s.values.resize(static_cast<std::size_t>(rows * k) * pairs.size());
  s.bounds.resize(s.values.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t at = i * row_stride + j * k_stride;
      const auto parts = parts_of(how, from[at]);
      for (std::size_t p = 0; p < pairs.size(); ++p)
        s.values[place(i, j, p)] = parts[pairs[p].*which];
      const float e =
          off(how, from[at], bound == nullptr ? 0.f : bound[at], op_state.error_model->operands);
      s.bounds[place(i, j, pairs.size() - 1)] = e;
      s.bounded = s.bounded || e != 0;
    }
  }
  return s;
}

}  // namespace

StorageHandle bounds_in_parts(InParts how, const Product& of, const Vector& result, const Vector& l,
                              const Vector& r, const Vector& start) {
  const ErrorModel& model = *op_state.error_model;
  const std::size_t passes = pairs_of(how).size();
  const auto m = static_cast<int>(of.m);
  const auto n = static_cast<int>(of.n);
  const auto k = static_cast<std::size_t>(of.k);
  const auto depth = static_cast<int>(k * passes);
  const std::int64_t elems = of.m * of.n;
  const auto from = [](const Vector& v, std::int64_t at) {
    return reinterpret_cast<const float*>(v.data.bytes()) + at;
  };
  const auto bound_from = [](const Vector& v, std::int64_t at) {
    return v.bound ? v.bounds() + at : nullptr;
  };
  StorageHandle sums(Storage::allocate(static_cast<std::size_t>(of.batch * elems) * sizeof(float)));
  StorageHandle made = bound_storage(of.batch * elems);
  for (std::int64_t b = 0; b < of.batch; ++b) {
    const std::int64_t left_at = b * of.m * of.k;
    const std::int64_t right_at = b * of.k * of.n;
    const Side left = side_of(how, from(l, left_at), bound_from(l, left_at), of.m, of.k, of.k, 1,
                              &Pair::left, [&](std::int64_t i, std::int64_t j, std::size_t p) {
                                return static_cast<std::size_t>(i) * k * passes + p * k +
                                       static_cast<std::size_t>(j);
                              });
    const Side right =
        side_of(how, from(r, right_at), bound_from(r, right_at), of.n, of.k, 1, of.n, &Pair::right,
                [&](std::int64_t i, std::int64_t j, std::size_t p) {
                  return (p * k + static_cast<std::size_t>(j)) * static_cast<std::size_t>(n) +
                         static_cast<std::size_t>(i);
                });
    float* const sum = floats(sums) + b * elems;
    std::copy_n(from(start, b * elems), elems, sum);
    bounds::SumState state(m, n);
    if (start.bound) std::copy_n(start.bounds() + b * elems, elems, state.view().bound);
    bounds::dot_accumulate(sum, n, Operand2d<float>{left.values.data(), depth, 1},
                           Operand2d<float>{left.bounded ? left.bounds.data() : nullptr, depth, 1},
                           Operand2d<float>{right.values.data(), n, 1},
                           Operand2d<float>{right.bounded ? right.bounds.data() : nullptr, n, 1}, m,
                           n, depth, model, state.view());
    const StorageHandle bound =
        bounds::write_bounds({sum, DType::f32, m, n, n, nullptr}, state.view(), model);
    std::copy_n(floats(bound), elems, floats(made) + b * elems);
  }
  return bounds::around(from(result, 0), from({sums}, 0), of.batch * elems, made);
}

}  // namespace tessera::triton
