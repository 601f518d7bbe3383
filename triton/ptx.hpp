// Inline assembly: the arithmetic of PTX on registers, an instruction at a time.
//
// Modelled: mov (vectors and immediates too), cvt (fp8 and packed halves, tf32), arithmetic, logic,
// shifts, fields, prmt, lop3, shf, setp, selp, predicates, the .approx functions (here correctly
// rounded), of integers of 8 to 64 bits, f16, bf16, f32, f64 and pairs of halves. Left out, and
// refused by name: memory, branches, special registers, anything of several lanes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

class Assembly {
 public:
  /// `named`: the registers that $0, $1, ... stand for. Throws Refused.
  Assembly(std::string_view text, const std::vector<int>& named);

  int registers() const { return registers_; }
  void run(Registers& r) const {
    for (const auto& step : steps_) step(r);
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

  void statement(std::string_view text);
  void declare(std::string_view names);
  Operand operand(std::string_view text) const;
  int register_named(std::string_view name) const;
  Step instruction(const std::vector<std::string>& words, const std::vector<Operand>& operands);

  std::vector<std::map<std::string, int, std::less<>>> scopes_;
  std::vector<int> named_;
  int registers_ = 0;
  std::vector<Step> steps_;
};

}  // namespace tessera::triton::ptx
