#include "triton/rules.hpp"

#include "program/rules.hpp"

namespace tessera::triton {

const RuleTable& rules() {
  static const RuleTable all(
      {program::arith_rules(), program::math_rules(), program::control_rules(),
       program::branch_rules(), shape_rules(), memory_rules(), atomic_rules(), math_rules(),
       combine_rules(), dot_rules(), control_rules()},
      "`tessera ops` lists the ops of Triton kernels that are built");
  return all;
}

bool is_tensor(const Type& t) { return t.kind == Type::Kind::vector; }

}  // namespace tessera::triton
