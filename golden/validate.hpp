// A kernel's output against its oracle, element by element.
//
// An element passes if it lies within the oracle's bound on f32 error plus half a unit in the last
// place of the output's type, and what the profile adds to that (sim/numerics/profile.hpp). NaN and
// infinities must be where the oracle has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "reference/tensor.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/pipeline/plan.hpp"

namespace tessera::golden {

struct Validation {
  std::string reference;  ///< the oracle's name
  bool passed = true;
  double max_abs_err = 0;
  double max_rel_err = 0;  ///< where the expected value is not 0
  std::int64_t max_ulp =
      0;  ///< units in the last place, against the expected value rounded to the type
  double worst_of_bound = 0;  ///< largest |error| / bound; 0 if every element is exact
  std::optional<Diagnostic> mismatch;
};

/// Compares outputs (in spec order) with what the oracle expects. `plan` names them and their
/// blocks. `profile_bounds`: how far each element may be from what the kernel computes where
/// products of f32 are not rounded (f32, sim/bounds); empty: nowhere.
Validation validate(const Plan& plan, const std::vector<Array>& outputs,
                    const std::vector<reference::Expected>& expected, const std::string& oracle,
                    const std::vector<Array>& profile_bounds = {});

/// How many numbers of their type lie between element i of two arrays.
std::int64_t ulp_distance(const Array& a, const Array& b, std::int64_t i);

/// An input array as oracles take it.
reference::Tensor to_tensor(const Array& array);

}  // namespace tessera::golden
