// The operands of a plan as the launch of the CUDA build sees them (sim/body/cta.hpp).
#pragma once

#include <vector>

#include "sim/pipeline/plan.hpp"

namespace tessera {

std::vector<cta::Operand> cta_operands(const Plan& plan);
/// Of those, which live as long as `operands`.
cta::Operands cta_view(const Plan& plan, const std::vector<cta::Operand>& operands);

}  // namespace tessera
