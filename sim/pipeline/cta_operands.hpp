// The operands of a plan as the launch of the CUDA build sees them (sim/body/cta.hpp).
#pragma once

#include <string>
#include <vector>

#include "sim/pipeline/plan.hpp"

namespace tessera {

std::vector<cta::Operand> cta_operands(const Plan& plan);
/// Of those, which live as long as `operands`.
cta::Operands cta_view(const Plan& plan, const std::vector<cta::Operand>& operands);
/// "16-bit products by FMA chains, not on tensor cores: acc: its rows are no multiple of 8"; ""
/// where they are on tensor cores, or there are none.
std::string fall_from_tensor_cores(const Plan& plan);

}  // namespace tessera
