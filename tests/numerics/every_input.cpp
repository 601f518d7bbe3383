// Every f32 against MPFR: are the elementary functions correctly rounded?
//
// usage: every_input [--quick] [--every N | --random N | --hard FILE] [--write-hard FILE] [OP...]
//
//   --quick            MPFR decides only where libm's f64 function leaves two floats to choose from
//   --every N          every N-th input; --random N: N random ones (always the same)
//   --hard FILE        the inputs of a file of hard cases
//   --write-hard FILE  with --quick: those that libm did not decide, as a file of hard cases
//
// All functions, on all inputs, unless told otherwise: minutes to an hour for each on two cores.
// Prints, for each, how many inputs were checked, how many results differ and the first of them,
// and a hash of all results in the order of the inputs. Exit code 1 if any differs.
// tests/numerics/RESULTS.md has what it said.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cli/progress.hpp"
#include "sim/ops/all.hpp"
#include "tests/numerics/f32_oracle.hpp"

using namespace tessera;
using namespace tessera::tests;

namespace {

using Rows = std::function<void(float*, const float*, std::size_t)>;
/// What the interpreter computes: an op over a row.
Rows rows_of(const std::string& name) {
  Rows rows;
  const auto offer = [&]<class Op>(Op) {
    if constexpr (Op::info.arity == 1 && requires { Op::apply(1.f); }) {
      if (name != Op::info.name) return;
      rows = [](float* out, const float* in, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) out[i] = Op::apply(in[i]);
      };
    }
  };
  [&]<class... Op>(std::tuple<Op...>*) { (offer(Op{}), ...); }(static_cast<ops::All*>(nullptr));
  return rows;
}

/// glibc's f64 functions, within 2 of the last bit by its manual ("Known Maximum Errors in Math
/// Functions"), and what is made of them.
const std::map<std::string, double (*)(double)> kLibm{
    {"cos", std::cos},
    {"erf", std::erf},
    {"exp", std::exp},
    {"exp2", std::exp2},
    {"expm1", std::expm1},
    {"log", std::log},
    {"log1p", std::log1p},
    {"log2", std::log2},
    {"logistic", [](double a) { return 1 / (1 + std::exp(-a)); }},
    {"rsqrt", [](double a) { return 1 / std::sqrt(a); }},
    {"sin", std::sin},
    {"sqrt", std::sqrt},
    {"tanh", std::tanh}};
constexpr double kLibmError = 0x1p-49;

struct Function {
  std::string name;
  Unary mpfr;
  Rows rows;
  double (*libm)(double);  ///< nullptr: MPFR decides all
};

/// FNV-1a, by words.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word) * 0x100000001b3;
}
constexpr std::uint64_t kHashBegin = 0xcbf29ce484222325;

struct Part {
  std::uint64_t hash = kHashBegin;
  std::vector<std::uint32_t> wrong;
  std::vector<std::uint32_t> hard;
};

Part check(const Function& f, const std::vector<float>& in) {
  std::vector<float> out(in.size());
  f.rows(out.data(), in.data(), in.size());
  F32Oracle oracle;
  Part part;
  for (std::size_t i = 0; i < in.size(); ++i) {
    part.hash = mixed(part.hash, bits_of(out[i]));
    if (f.libm != nullptr) {
      const double y = f.libm(static_cast<double>(in[i]));
      const double error = std::abs(y) * kLibmError;
      const auto settled = static_cast<float>(y);
      const bool one_float =
          static_cast<float>(y - error) == settled && static_cast<float>(y + error) == settled;
      if (one_float || std::isnan(y) || std::isinf(y)) {
        if (bits_of(out[i]) != bits_of(settled)) part.wrong.push_back(bits_of(in[i]));
        continue;
      }
      part.hard.push_back(bits_of(in[i]));
    }
    if (bits_of(out[i]) != bits_of(oracle(f.mpfr, in[i]))) part.wrong.push_back(bits_of(in[i]));
  }
  return part;
}

/// Which inputs: part by part.
struct Inputs {
  int parts;
  std::function<std::vector<float>(int part)> of;
};
constexpr int kParts = 1 << 12;
constexpr std::uint32_t kOfPart = 1u << 20;

Inputs every(std::uint32_t step) {
  return {kParts, [step](int part) {
            std::vector<float> in;
            for (std::uint32_t i = 0; i < kOfPart; i += step)
              in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(part) * kOfPart + i));
            return in;
          }};
}
/// Half of them of random bits, half where the functions are neither 0 nor 1 nor infinite.
Inputs random_inputs(std::int64_t count) {
  static constexpr std::int64_t kEach = 4096;
  return {static_cast<int>((count + kEach - 1) / kEach), [count](int part) {
            std::mt19937 rng(static_cast<std::uint32_t>(part));
            std::uniform_real_distribution<float> near(-20, 20);
            std::vector<float> in;
            for (std::int64_t i = 0; i < std::min(kEach, count - part * kEach); ++i)
              in.push_back(i % 2 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(rng()))
                                      : near(rng));
            return in;
          }};
}

struct Result {
  std::size_t inputs = 0;
  std::size_t wrong = 0;
  std::vector<std::uint32_t> hard;
};

Result check_all(const Function& f, const Inputs& inputs) {
  std::vector<Part> parts(static_cast<std::size_t>(inputs.parts));
  int done = 0;
  std::atomic<std::size_t> checked = 0;
  const auto start = std::chrono::steady_clock::now();
  {
    cli::Progress progress(f.name);
#pragma omp parallel for schedule(dynamic)
    for (int p = 0; p < inputs.parts; ++p) {
      const std::vector<float> in = inputs.of(p);
      parts[static_cast<std::size_t>(p)] = check(f, in);
      checked += in.size();
#pragma omp critical
      progress.show(static_cast<double>(++done) / inputs.parts);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::uint64_t hash = kHashBegin;
  std::vector<std::uint32_t> wrong;
  Result result{checked, 0, {}};
  for (const Part& part : parts) {
    hash = mixed(hash, part.hash);
    wrong.insert(wrong.end(), part.wrong.begin(), part.wrong.end());
    result.hard.insert(result.hard.end(), part.hard.begin(), part.hard.end());
  }
  result.wrong = wrong.size();
  std::printf("| %s | %zu | %zu | %016llx | %.0f s |\n", f.name.c_str(), result.inputs,
              result.wrong, static_cast<unsigned long long>(hash), took.count());
  F32Oracle oracle;
  for (std::size_t i = 0; i < wrong.size() && i < 20; ++i) {
    const float in = std::bit_cast<float>(wrong[i]);
    float out = 0;
    f.rows(&out, &in, 1);
    std::printf("  %s(%a) is %a, not %a\n", f.name.c_str(), static_cast<double>(in),
                static_cast<double>(out), static_cast<double>(oracle(f.mpfr, in)));
  }
  std::fflush(stdout);
  return result;
}

[[noreturn]] void usage(const std::string& what) {
  std::fprintf(stderr, "every_input: %s\n", what.c_str());
  std::exit(2);
}

/// Lines of a function's name and an input in C's hexadecimal floating point.
std::map<std::string, std::vector<float>> read_hard(const std::string& path) {
  std::ifstream file(path);
  if (!file) usage("cannot read " + path);
  std::map<std::string, std::vector<float>> cases;
  std::string name;
  std::string input;
  while (file >> name >> input) cases[name].push_back(std::strtof(input.c_str(), nullptr));
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  Inputs inputs = every(1);
  std::optional<std::map<std::string, std::vector<float>>> hard;
  std::string write_hard;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> const char* {
      if (i + 1 == argc) usage(argument + " takes a value");
      return argv[++i];
    };
    const auto number = [&](std::int64_t most) {
      const std::int64_t n = std::strtoll(value(), nullptr, 10);
      if (n < 1 || n > most) usage(argument + " takes a number from 1 to " + std::to_string(most));
      return n;
    };
    if (argument == "--quick")
      quick = true;
    else if (argument == "--every")
      inputs = every(static_cast<std::uint32_t>(number(kOfPart)));
    else if (argument == "--random")
      inputs = random_inputs(number(std::int64_t{1} << 40));
    else if (argument == "--hard")
      hard = read_hard(value());
    else if (argument == "--write-hard")
      write_hard = value();
    else if (kUnary.contains(argument))
      names.push_back(argument);
    else {
      std::string known;
      for (const auto& [name, function] : kUnary) known += " " + name;
      usage("no function '" + argument + "'; there are" + known);
    }
  }
  std::ofstream hard_file;
  if (!write_hard.empty()) hard_file.open(write_hard);
  std::size_t wrong = 0;
  for (const auto& [name, mpfr] : kUnary) {
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (hard) inputs = {1, [&, of = name](int) { return (*hard)[of]; }};
    const Function function{name, mpfr, rows_of(name), quick ? kLibm.at(name) : nullptr};
    if (!function.rows) usage("no op '" + name + "'");
    const Result result = check_all(function, inputs);
    wrong += result.wrong;
    char line[80];
    for (const std::uint32_t bits : result.hard) {
      std::snprintf(line, sizeof line, "%s %a\n", name.c_str(),
                    static_cast<double>(std::bit_cast<float>(bits)));
      hard_file << line;
    }
  }
  return wrong == 0 ? 0 : 1;
}
