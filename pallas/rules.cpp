#include "pallas/rules.hpp"

#include "program/rules.hpp"

namespace tessera::pallas {

const RuleTable& rules() {
  static const RuleTable all(
      {arith_rules(), math_rules(), vector_rules(), control_rules(), tpu_vector_rules(),
       shape_rules(), memory_rules(), view_rules(), matmul_rules(), scope_rules(), dma_rules(),
       random_rules(), sparse_memory_rules(), sparse_vector_rules()},
      "`tessera ops` lists the ops of Mosaic modules that are built");
  return all;
}

}  // namespace tessera::pallas
