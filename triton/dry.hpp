// A dry run of a launch: what its programs would access, from addresses and masks alone. No element
// of a tensor is read, computed or written, so that an array may be as large as it likes; FLOP are
// counted, races are not looked for.
//
// What is computed is what decides where an access is and which way a program goes. If elements in
// memory are part of that (a gather by an index that is loaded), those loads read them; undefined
// ones are refused.
#pragma once

#include "triton/plan_kernel.hpp"

namespace tessera::triton {

/// Says of each step of a planned kernel whether a dry run runs it (Step::on_values), and of each
/// access whether it needs its values (Site::wanted). Kernel::undry: why there is none.
void plan_dry_run(Kernel& kernel);

}  // namespace tessera::triton
