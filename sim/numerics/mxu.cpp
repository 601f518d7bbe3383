#include "sim/numerics/mxu.hpp"

#include <cmath>
#include <stdexcept>

namespace tessera::mxu {

namespace {
constexpr Passes kPasses[] = {
    {1, {0}, {0}},
    {3, {1, 0, 0}, {0, 1, 0}},
    {6, {1, 0, 2, 1, 0, 0}, {1, 2, 0, 0, 1, 0}},
};

/// What each pass takes of x: `part` says which of its parts.
template <class Put>
void put_parts(float x, int count, const std::array<int, 6>& part, Put&& put) {
  std::array<bf16, 3> parts{convert<bf16>(x), convert<bf16>(0.f), convert<bf16>(0.f)};
  if (!std::isfinite(convert<float>(parts[0]))) {
    for (int t = 0; t + 1 < count; ++t) put(t, parts[1]);
    put(count - 1, parts[0]);
    return;
  }
  float rest = x - convert<float>(parts[0]);  // exact, as the next one
  parts[1] = convert<bf16>(rest);
  rest -= convert<float>(parts[1]);
  parts[2] = convert<bf16>(rest);
  for (int t = 0; t < count; ++t)
    put(t, parts[static_cast<std::size_t>(part[static_cast<std::size_t>(t)])]);
}

}  // namespace

const Passes& passes(int count) {
  for (const Passes& p : kPasses) {
    if (p.count == count) return p;
  }
  throw std::logic_error("an MXU takes 1, 3 or 6 passes");
}

Operand2d<bf16> expand_left(std::vector<bf16>& buffer, Operand2d<float> a, int rows, int k,
                            const Passes& passes) {
  const std::int64_t stride = std::int64_t{k} * passes.count;
  buffer.resize(static_cast<std::size_t>(rows * stride));
  bf16* to = buffer.data();
  for (int i = 0; i < rows; ++i) {
    const float* from = a.data + i * a.row;
    if (passes.count == 1) {
      for (int p = 0; p < k; ++p) *to++ = convert<bf16>(from[p * a.col]);
      continue;
    }
    for (int p = 0; p < k; ++p, to += passes.count) {
      put_parts(from[p * a.col], passes.count, passes.of_left,
                [to](int t, bf16 part) { to[t] = part; });
    }
  }
  return {buffer.data(), stride, 1};
}

Operand2d<bf16> expand_right(std::vector<bf16>& buffer, Operand2d<float> b, int k, int cols,
                             const Passes& passes) {
  const std::int64_t row = std::int64_t{cols} * passes.count;
  buffer.resize(static_cast<std::size_t>(k * row));
  bf16* to = buffer.data();
  for (int p = 0; p < k; ++p, to += row) {
    const float* from = b.data + p * b.row;
    for (int j = 0; j < cols; ++j) {
      if (passes.count == 1) {
        to[j] = convert<bf16>(from[j * b.col]);
        continue;
      }
      put_parts(from[j * b.col], passes.count, passes.of_right,
                [&](int t, bf16 part) { to[std::int64_t{t} * cols + j] = part; });
    }
  }
  return {buffer.data(), cols, 1};
}

}  // namespace tessera::mxu
