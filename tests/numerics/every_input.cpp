// Every f32 against MPFR: are the elementary functions correctly rounded?
//
// usage: every_input [--every N] [OP...]     (all of them; every N-th input)
//
// Minutes to an hour for each on two cores, so no part of ctest. Prints, for each, how many inputs
// were checked, how many results differ and the first of them, and a hash of all results in the
// order of the inputs' bits. Exit code 1 if any differs. tests/numerics/RESULTS.md has what it
// said.
#include <mpfr.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "sim/ops/all.hpp"
#include "sim/vector_math.hpp"

using namespace tessera;

namespace {

using Unary = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);

/// 1 / (1 + e^-a) at the precision of r, off by less than 2^4 of its last bits.
int logistic(mpfr_t r, const mpfr_t a, mpfr_rnd_t) {
  mpfr_neg(r, a, MPFR_RNDN);
  mpfr_exp(r, r, MPFR_RNDN);
  mpfr_add_ui(r, r, 1, MPFR_RNDN);
  mpfr_ui_div(r, 1, r, MPFR_RNDN);
  return 0;
}

struct Function {
  const char* name;
  Unary mpfr;
  bool rounds;  ///< MPFR's own: correctly rounded to any precision
};
constexpr Function kFunctions[] = {
    {"cos", mpfr_cos, true},        {"erf", mpfr_erf, true},     {"exp", mpfr_exp, true},
    {"exp2", mpfr_exp2, true},      {"expm1", mpfr_expm1, true}, {"log", mpfr_log, true},
    {"log1p", mpfr_log1p, true},    {"log2", mpfr_log2, true},   {"logistic", logistic, false},
    {"rsqrt", mpfr_rec_sqrt, true}, {"sin", mpfr_sin, true},     {"sqrt", mpfr_sqrt, true},
    {"tanh", mpfr_tanh, true}};

/// MPFR as f32 is: 24 bits, subnormal numbers.
class Oracle {
 public:
  explicit Oracle(const Function& function) : function_(&function) {
    mpfr_set_emin(kLeast);
    mpfr_set_emax(kMost);
    mpfr_inits2(24, x_, y_, nullptr);
    mpfr_init2(wide_, 64);
  }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  ~Oracle() { mpfr_clears(x_, y_, wide_, nullptr); }

  float operator()(float a) {
    // rSqrt(-0) is -inf in IEEE 754, +inf in MPFR.
    if (function_->mpfr == static_cast<Unary>(mpfr_rec_sqrt) && a == 0)
      return std::copysign(std::numeric_limits<float>::infinity(), a);
    mpfr_set_flt(x_, a, MPFR_RNDN);
    const int inexact = function_->rounds ? function_->mpfr(y_, x_, MPFR_RNDN) : round_to_f32(a);
    mpfr_subnormalize(y_, inexact, MPFR_RNDN);
    return mpfr_get_flt(y_, MPFR_RNDN);
  }

 private:
  static constexpr mpfr_exp_t kLeast = -148;  ///< 2^-149 is 0.1 (binary) times 2^-148
  static constexpr mpfr_exp_t kMost = 128;

  /// For logistic: more bits until they settle the rounding.
  int round_to_f32(float a) {
    if (std::isnan(a)) return mpfr_set_nan(y_), 0;
    // Settled: e^-a under 2^-25 of 1; a quarter of it under a quarter of the last bit of 1/2; the
    // result under half of 2^-149.
    if (a > 18) return mpfr_set_ui(y_, 1, MPFR_RNDN), -1;
    if (std::abs(a) < 0x1p-26f) return mpfr_set_flt(y_, 0.5f, MPFR_RNDN), 0;
    if (a < -104) return mpfr_set_zero(y_, 1), -1;
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    for (mpfr_prec_t bits = 64;; bits *= 2) {
      mpfr_set_prec(wide_, bits);
      function_->mpfr(wide_, x_, MPFR_RNDN);
      if (mpfr_can_round(wide_, bits - 4, MPFR_RNDN, MPFR_RNDZ, 25) != 0) break;
    }
    mpfr_set_emin(kLeast);
    mpfr_set_emax(kMost);
    const int inexact = mpfr_set(y_, wide_, MPFR_RNDN);
    return mpfr_check_range(y_, inexact, MPFR_RNDN);
  }

  const Function* function_;
  mpfr_t x_;
  mpfr_t y_;
  mpfr_t wide_;
};

/// n results of an op, as the interpreter computes rows of them.
using Rows = std::function<void(float*, const float*, std::int64_t)>;
Rows rows_of(const std::string& name) {
  if (name == "exp") return exp_rows;
  if (name == "exp2") return exp2_rows;
  Rows rows;
  const auto offer = [&]<class Op>(Op) {
    if constexpr (Op::info.arity == 1 && requires { Op::apply(1.f); }) {
      if (name != Op::info.name) return;
      rows = [](float* out, const float* in, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = Op::apply(in[i]);
      };
    }
  };
  [&]<class... Op>(std::tuple<Op...>*) { (offer(Op{}), ...); }(static_cast<ops::All*>(nullptr));
  return rows;
}

std::uint32_t bits_of(float v) {
  constexpr std::uint32_t kNan = 0x7fc00000;
  return std::isnan(v) ? kNan : std::bit_cast<std::uint32_t>(v);
}
/// FNV-1a, by words.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word) * 0x100000001b3;
}
constexpr std::uint64_t kHashBegin = 0xcbf29ce484222325;

struct Part {
  std::uint64_t hash = kHashBegin;
  std::vector<std::uint32_t> wrong;
};

constexpr int kParts = 1 << 12;
constexpr std::uint32_t kOfPart = 1u << 20;

Part check(const Function& function, const Rows& rows, std::uint32_t first, std::uint32_t every) {
  std::vector<float> in;
  for (std::uint32_t i = 0; i < kOfPart; i += every) in.push_back(std::bit_cast<float>(first + i));
  std::vector<float> out(in.size());
  rows(out.data(), in.data(), static_cast<std::int64_t>(in.size()));
  Oracle oracle(function);
  Part part;
  for (std::size_t i = 0; i < in.size(); ++i) {
    part.hash = mixed(part.hash, bits_of(out[i]));
    if (bits_of(out[i]) != bits_of(oracle(in[i])))
      part.wrong.push_back(std::bit_cast<std::uint32_t>(in[i]));
  }
  return part;
}

/// How many results differ.
std::size_t check_all(const Function& function, std::uint32_t every) {
  const Rows rows = rows_of(function.name);
  if (!rows) {
    std::fprintf(stderr, "every_input: no op '%s'\n", function.name);
    std::exit(2);
  }
  std::vector<Part> parts(kParts);
  std::atomic<int> done = 0;
  const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for schedule(dynamic)
  for (int p = 0; p < kParts; ++p) {
    parts[static_cast<std::size_t>(p)] =
        check(function, rows, static_cast<std::uint32_t>(p) * kOfPart, every);
    const int n = ++done;
    if (isatty(STDERR_FILENO) != 0 && n % 16 == 0)
      std::fprintf(stderr, "\r%s: %d %%", function.name, 100 * n / kParts);
  }
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r", stderr);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::uint64_t hash = kHashBegin;
  std::vector<std::uint32_t> wrong;
  for (const Part& part : parts) {
    hash = mixed(hash, part.hash);
    wrong.insert(wrong.end(), part.wrong.begin(), part.wrong.end());
  }
  const std::uint64_t inputs = kParts * static_cast<std::uint64_t>((kOfPart + every - 1) / every);
  std::printf("| %s | %llu | %zu | %016llx | %.0f s |\n", function.name,
              static_cast<unsigned long long>(inputs), wrong.size(),
              static_cast<unsigned long long>(hash), took.count());
  Oracle oracle(function);
  for (std::size_t i = 0; i < wrong.size() && i < 20; ++i) {
    const float in = std::bit_cast<float>(wrong[i]);
    float out = 0;
    rows(&out, &in, 1);
    std::printf("  %s(%a) is %a, not %a\n", function.name, static_cast<double>(in),
                static_cast<double>(out), static_cast<double>(oracle(in)));
  }
  std::fflush(stdout);
  return wrong.size();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t every = 1;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--every") == 0 && i + 1 < argc)
      every = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    else
      names.emplace_back(argv[i]);
  }
  if (every < 1 || every > kOfPart) {
    std::fputs("every_input: --every takes 1 to 2^20\n", stderr);
    return 2;
  }
  for (const std::string& name : names) {
    bool known = false;
    for (const Function& f : kFunctions) known = known || name == f.name;
    if (!known) {
      std::fprintf(stderr, "every_input: no function '%s'; there are", name.c_str());
      for (const Function& f : kFunctions) std::fprintf(stderr, " %s", f.name);
      std::fputs("\n", stderr);
      return 2;
    }
  }
  std::size_t wrong = 0;
  for (const Function& f : kFunctions) {
    bool asked = names.empty();
    for (const std::string& name : names) asked = asked || name == f.name;
    if (asked) wrong += check_all(f, every);
  }
  return wrong == 0 ? 0 : 1;
}
