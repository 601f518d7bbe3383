// The ops of a Mosaic module: those of the tpu dialect and all that touches memrefs here, one file
// of ops/ per family; the rest is program/rules.hpp's.
#pragma once

#include "program/planner.hpp"

namespace tessera::pallas {

using namespace program;

Rules tpu_vector_rules();
Rules shape_rules();
Rules memory_rules();
Rules view_rules();
Rules matmul_rules();
Rules scope_rules();
Rules dma_rules();
Rules random_rules();
Rules sparse_memory_rules();
Rules sparse_vector_rules();
const RuleTable& rules();

}  // namespace tessera::pallas
