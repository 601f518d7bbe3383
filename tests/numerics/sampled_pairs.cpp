// Functions of two f32 against MPFR, on random pairs: are they correctly rounded?
//
// usage: sampled_pairs [--count N] [pow] [div]      (10^8 pairs each: minutes on two cores)
//
// Pairs are drawn so that most results are neither 0 nor infinite, and that many are, or lie next
// to, midpoints of two floats: squares and cubes of short numbers, roots of powers, bases near 1,
// quotients near 1. The same pairs every time. Exit code 1 if any result differs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/progress.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/pow.hpp"
#include "tests/numerics/f32_oracle.hpp"

using namespace tessera;
using namespace tessera::tests;

namespace {

using Pair = std::pair<float, float>;

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : rng_(seed) {}

  float bits() { return std::bit_cast<float>(static_cast<std::uint32_t>(rng_())); }
  int number(int least, int most) { return std::uniform_int_distribution<int>(least, most)(rng_); }
  float real(float least, float most) {
    return std::uniform_real_distribution<float>(least, most)(rng_);
  }
  /// 1 to `digits` binary digits, times a power of 2.
  float few_digits(int digits, int exponents) {
    return std::ldexp(static_cast<float>(number(1, 1 << digits)), number(-exponents, exponents));
  }

  Pair for_pow() {
    const float x = std::abs(bits());
    switch (number(0, 7)) {
      case 0:
        return {bits(), bits()};
      case 1:  // any base, any result
        return {x, real(-150, 129) / std::log2(x)};
      case 2: {  // a base near 1
        const float near = 1 + std::ldexp(real(-1, 1), -number(1, 23));
        return {near, real(-150, 129) / std::log2(near)};
      }
      case 3:  // squares, some of them midpoints
        return {few_digits(13, 40) * (number(0, 1) == 0 ? 1.0f : -1.0f), 2};
      case 4:
        return {few_digits(9, 20), static_cast<float>(number(-5, 9))};
      case 5:  // roots and powers of roots that are exact
        return {std::pow(few_digits(6, 6), 4.0f), static_cast<float>(number(-9, 9)) / 4};
      case 6:
        return {-few_digits(8, 8), static_cast<float>(number(-20, 20)) / 2};
      default:  // an exponent next to a whole one
        return {few_digits(13, 4), std::nextafter(static_cast<float>(number(1, 4)), bits())};
    }
  }
  Pair for_div() {
    const float x = bits();
    switch (number(0, 3)) {
      case 0:
        return {x, bits()};
      case 1:  // near 1
        return {x, x * (1 + std::ldexp(real(-1, 1), -number(1, 23)))};
      case 2:  // subnormal
        return {std::ldexp(real(1, 2), number(-126, -100)), std::ldexp(real(1, 2), number(20, 50))};
      default:  // exact, or a midpoint
        return {few_digits(12, 60) * few_digits(12, 2), few_digits(12, 60)};
    }
  }

 private:
  std::mt19937 rng_;
};

struct Function {
  const char* name;
  Binary mpfr;
  float (*ours)(float, float);
  Pair (Draw::*draw)();
};
const Function kFunctions[] = {{"div", mpfr_div, Div::apply<float>, &Draw::for_div},
                               {"pow", mpfr_pow, Pow::apply<float>, &Draw::for_pow}};

/// How many differ.
std::int64_t check(const Function& f, std::int64_t count) {
  constexpr std::int64_t kOfPart = 1 << 16;
  const std::int64_t parts = (count + kOfPart - 1) / kOfPart;
  std::vector<std::vector<Pair>> wrong(static_cast<std::size_t>(parts));
  std::int64_t done = 0;
  {
    cli::Progress progress(f.name);
#pragma omp parallel for schedule(dynamic)
    for (std::int64_t p = 0; p < parts; ++p) {
      Draw draw(static_cast<std::uint32_t>(p));
      F32Oracle oracle;
      const std::int64_t pairs = std::min(kOfPart, count - p * kOfPart);
      for (std::int64_t i = 0; i < pairs; ++i) {
        const auto [a, b] = (draw.*f.draw)();
        if (bits_of(f.ours(a, b)) != bits_of(oracle(f.mpfr, a, b)))
          wrong[static_cast<std::size_t>(p)].emplace_back(a, b);
      }
#pragma omp critical
      progress.show(static_cast<double>(++done) / static_cast<double>(parts));
    }
  }
  std::int64_t differ = 0;
  F32Oracle oracle;
  std::string examples;
  for (const auto& part : wrong) {
    for (const auto& [a, b] : part) {
      if (++differ > 20) continue;
      std::vector<char> line(200);
      std::snprintf(line.data(), line.size(), "  %s(%a, %a) is %a, not %a\n", f.name,
                    static_cast<double>(a), static_cast<double>(b),
                    static_cast<double>(f.ours(a, b)), static_cast<double>(oracle(f.mpfr, a, b)));
      examples += line.data();
    }
  }
  std::printf("| %s | %lld | %lld |\n%s", f.name, static_cast<long long>(count),
              static_cast<long long>(differ), examples.c_str());
  std::fflush(stdout);
  return differ;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t count = 100'000'000;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--count" && i + 1 < argc) {
      count = std::strtoll(argv[++i], nullptr, 10);
    } else if (argument == "pow" || argument == "div") {
      names.push_back(argument);
    } else {
      std::fputs("usage: sampled_pairs [--count N] [pow] [div]\n", stderr);
      return 2;
    }
  }
  std::int64_t differ = 0;
  for (const Function& f : kFunctions) {
    if (names.empty() || std::find(names.begin(), names.end(), f.name) != names.end())
      differ += check(f, count);
  }
  return differ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
