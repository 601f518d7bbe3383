// What is said of a launch on a GPU before nvcc is asked: blocks that do not fit.
#pragma once

#include <string>

#include "sim/body/cta.hpp"
#include "sim/pipeline/plan.hpp"

namespace tessera::cli {

/// Strides and blocks of the operands, without a device's limits: what runs them has its own.
void lay_out(Plan& plan);
/// Throws InputError[no-backend] for blocks that are more than the shared memory of a CTA of the
/// target, each with its size.
void check_fits_cta(const std::string& kernel, const Plan& plan, const cta::Sm& target);

}  // namespace tessera::cli
