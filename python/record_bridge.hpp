// What _tuning has of record/.
#pragma once

#include <nanobind/nanobind.h>

namespace tessera {

void bind_records(nanobind::module_& module);

}  // namespace tessera
