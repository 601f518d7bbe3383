#include "triton/rules.hpp"

#include "program/rules.hpp"

namespace tessera::triton {

namespace {
constexpr auto kHelp = "`tessera ops` lists the ops of Triton kernels that are built";
}

const RuleTable& rules(Profile profile) {
  static const RuleTable all(
      {program::arith_rules(), program::math_rules(), program::control_rules(),
       program::branch_rules(), shape_rules(), memory_rules(), atomic_rules(), math_rules(),
       combine_rules(), dot_rules(), dot_scaled_rules(), control_rules(), inline_asm_rules()},
      kHelp);
  static const RuleTable of_gpu(
      {program::arith_rules(), program::math_rules(), program::control_rules(),
       program::branch_rules(), shape_rules(), memory_rules(), atomic_rules(), math_rules(),
       combine_rules(), dot_rules(), dot_scaled_rules(), control_rules(), inline_asm_rules(),
       gpu_rules()},
      kHelp);
  return profile == Profile::gpu_hopper ? of_gpu : all;
}

bool is_tensor(const Type& t) { return t.kind == Type::Kind::vector; }

}  // namespace tessera::triton
