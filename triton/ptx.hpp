// Inline assembly: the arithmetic of PTX on registers, an instruction at a time.
//
// Modelled: mov (vectors and immediates too), cvt (fp8 and packed halves, tf32), arithmetic, logic,
// shifts, fields, prmt, lop3, shf, setp, selp, predicates, the .approx functions (here correctly
// rounded), of integers of 8 to 64 bits, f16, bf16, f32, f64 and pairs of halves. Left out, and
// refused by name: memory, branches, special registers, anything of several lanes.
//
// Another build has the same bits of all that is exact, and misses .approx functions by what the
// PTX ISA 9.0 states of each. Bounds of floats in registers follow arithmetic by the mean value
// theorem or, of monotone functions, by their values at both ends (ptx_bounds.cpp); integers that
// are made of bits that may be others are refused by the instruction's name.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::triton::ptx {

/// What an instruction that is not built is called, and why.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Registers hold the low bits of a word; those above are zero.
using Registers = std::vector<std::uint64_t>;

/// What a suffix says: "s32", "f16x2", "pred".
struct Type {
  char kind = 'b';  ///< b, u, s: integers; f; t: tf32; h: bf16; e: e4m3; d: e5m2; p: a predicate
  int width = 0;    ///< of an element
  int pair = 1;     ///< elements
  int bits() const { return width * pair; }
  bool real() const { return kind == 'f' || kind == 'h' || kind == 'e' || kind == 'd'; }
};
std::optional<Type> type_of(std::string_view word);
bool has(std::span<const std::string> words, std::string_view word);
/// What the low bits are as a float of that type.
double real(std::uint64_t bits, const Type& t);

/// How far another build's floats in a register may be, the lowest first; of floats of that type.
struct Bound {
  std::array<double, 2> off{};
  char kind = 'f';
  int width = 32;
  bool exact() const { return off[0] == 0 && off[1] == 0; }
};
using Bounds = std::vector<Bound>;

class Assembly {
 public:
  /// `named`: the registers that $0, $1, ... stand for. Throws Refused.
  Assembly(std::string_view text, const std::vector<int>& named);

  int registers() const { return registers_; }
  void run(Registers& r) const {
    for (const auto& step : steps_) step(r);
  }
  /// The same with bounds. Throws Refused where nothing can be said.
  void run(Registers& r, Bounds& bounds) const {
    Registers before;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      before = r;
      steps_[i](r);
      bound_steps_[i](before, r, bounds);
    }
  }

 private:
  struct Operand {
    std::vector<int> registers;   ///< one, or those of a vector; empty: an immediate
    std::uint64_t immediate = 0;  ///< an integer
    double real = 0;
    bool is_real = false;
    bool negated = false;  ///< of a predicate
    int second = -1;       ///< of a pair of predicates "p|q"
  };
  using Step = std::function<void(Registers&)>;
  using BoundStep = std::function<void(const Registers& before, const Registers& after, Bounds&)>;

  void statement(std::string_view text);
  void declare(std::string_view names);
  Operand operand(std::string_view text) const;
  int register_named(std::string_view name) const;
  Step instruction(const std::vector<std::string>& words, const std::vector<Operand>& operands);
  static BoundStep bound_step(const std::vector<std::string>& words,
                              const std::vector<Operand>& operands);

  std::vector<std::map<std::string, int, std::less<>>> scopes_;
  std::vector<int> named_;
  int registers_ = 0;
  std::vector<Step> steps_;
  std::vector<BoundStep> bound_steps_;
};

}  // namespace tessera::triton::ptx
