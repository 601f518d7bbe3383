// Elementwise ops on vectors of as many elements, fused: each strip of the operands goes through
// all of them before the next one, so that intermediate values stay in the cache.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "program/program.hpp"
#include "program/regular.hpp"

namespace tessera::program {

/// One op over n elements, dense.
using Kernel = void (*)(std::byte* out, const std::byte* const* in, std::int64_t n);

/// How poison goes through an op: to every result that it reaches, or only where it counts.
enum class PoisonRule : std::uint8_t { any, same, select, conjunction, disjunction };

/// Of a result: `bad(k)` is operand k's poison, `zero(k)` true if all of its bits are 0. `same` is
/// a conversion, whose result is as undefined as its operand.
template <class Bad, class Zero>
Origin poisoned(PoisonRule rule, std::size_t operands, Bad&& bad, Zero&& zero) {
  switch (rule) {
    case PoisonRule::same:
      return bad(0);
    case PoisonRule::select:
      return bad(0) != 0 ? computed_from(bad(0)) : bad(zero(0) ? 2 : 1);
    case PoisonRule::conjunction:
    case PoisonRule::disjunction: {
      const Origin a = bad(0);
      const Origin b = bad(1);
      // A value of zeros decides a conjunction.
      const auto decides = [&](std::size_t k) {
        return zero(k) == (rule == PoisonRule::conjunction);
      };
      const bool poison = (a != 0 && (b != 0 || !decides(1))) || (b != 0 && a == 0 && !decides(0));
      return poison ? computed_from(a != 0 ? a : b) : Origin{0};
    }
    case PoisonRule::any:
      break;
  }
  for (std::size_t k = 0; k < operands; ++k) {
    if (const Origin o = bad(k)) return computed_from(o);
  }
  return 0;
}

/// How error bounds go through an op.
struct BoundRule {
  enum class Kind : std::uint8_t {
    exact,    ///< exact operands make an exact result; nothing is known of others
    rule,     ///< that of a sim op (sim/bounds/elementwise.hpp)
    stated,   ///< the same, if the error model states its ulps: a unit that approximates
    cast,     ///< a conversion
    unknown,  ///< other builds may compute something else, nobody says how far from it
  };
  Kind kind = Kind::exact;
  const char* op = "";  ///< of a rule: "add"
};

struct ElementOp {
  const char* name = "";  ///< "arith.addf"
  Kernel kernel = nullptr;
  DType result = DType::f32;
  PoisonRule poison = PoisonRule::any;
  int flops = 0;
  bool transcendental = false;
  BoundRule bound = {};
  RegularKernel regular = nullptr;  ///< of operands that are, or null

  /// Bounds of n results (op_state has an error model); empty if they are exact. An operand's
  /// bounds are null where it is.
  StorageHandle bounds(const std::byte* result_bytes, std::span<const std::byte* const> in,
                       std::span<const DType> types, std::span<const float* const> of,
                       std::int64_t n) const;
};

/// An operand: a vector as it is, or one that repeats.
struct Lane {
  enum class Kind : std::uint8_t {
    dense,    ///< element i of the vector
    splat,    ///< a scalar
    rows,     ///< element i / period of the vector
    columns,  ///< element i % period
    result    ///< what op `slot` of the group gives
  };
  Kind kind = Kind::dense;
  int slot = 0;
  std::int64_t period = 1;
  DType dtype = DType::f32;
  bool operator==(const Lane&) const = default;
};

struct Group {
  std::int64_t elems = 0;
  struct Member {
    ElementOp op;
    std::vector<int> operands;  ///< lanes
    int vector = -1;            ///< slot that keeps the result, or -1
    int last_use = 0;           ///< member that reads it last
    int location = 0;           ///< of the op
    Shape shape;                ///< of its result
  };
  std::vector<Lane> lanes;
  std::vector<Member> members;

  int lane(const Lane& l);
  Work work() const;
  void run(Exec& x) const;

 private:
  void run_apart(Exec& x) const;
  static void trap_nan(Exec& x, const Member& m, const Vector& result,
                       std::span<const Vector* const> operands, std::span<const DType> types);
};

/// Writes n elements of a lane from element `first` on, unless it is dense.
void expand_lane(std::byte* to, const Lane& lane, const std::byte* from, std::int64_t elem_bytes,
                 std::int64_t first, std::int64_t n);

/// What a lane that is no result repeats.
const std::byte* lane_data(const Exec& x, const Lane& lane);
/// A lane that is no result as a vector of its own, with its poison.
Vector expanded(const Exec& x, const Lane& lane, std::int64_t elems);

}  // namespace tessera::program
