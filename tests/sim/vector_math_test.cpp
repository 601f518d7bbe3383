// Elementary functions of rows against the ops' own apply(), bit by bit.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/ops/exp.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/vector_math.hpp"

namespace tessera {

namespace {

template <class Op, class Rows>
void compare(Rows rows) {
  // Every 2,053rd float, in rows of odd lengths.
  constexpr std::uint64_t kStep = 2053;
  std::vector<float> in;
  std::vector<float> out;
  std::int64_t bad = 0;
  std::size_t length = 1;
  const auto flush = [&] {
    out.resize(in.size());
    rows(out.data(), in.data(), static_cast<std::int64_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float wanted = Op::apply(in[i]);
      const bool same =
          std::bit_cast<std::uint32_t>(wanted) == std::bit_cast<std::uint32_t>(out[i]);
      if (!same && !(std::isnan(wanted) && std::isnan(out[i]))) ++bad;
    }
    in.clear();
    length = length % 700 + 13;
  };
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kStep) {
    in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (in.size() == length) flush();
  }
  const float inf = std::numeric_limits<float>::infinity();
  in = {inf, -inf, 0.0f, -0.0f, 88.72283f, 88.72284f, -103.97f, -103.98f, 128, 127.99f, -149, -150};
  flush();
  CHECK(bad == 0);
}

}  // namespace

TEST_CASE("rows of exp and exp2 have the bits of the ops", "[ops]") {
  compare<Exp>(exp_rows);
  compare<Exp2>(exp2_rows);
}

}  // namespace tessera
