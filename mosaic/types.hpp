// Types of a module, as MLIR's text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory_model/dtype.hpp"

namespace tessera::mosaic {

inline constexpr std::int64_t kAnyExtent = -1;  ///< one that is known when the kernel runs

bool is_unsigned(DType dtype);
/// Integers of a module have no sign, nor have the arrays of its call.
DType signless(DType dtype);
/// "bf16", "i32"; throws unsupported for what TPUs, or modules, do not have.
std::string element_type(DType dtype);
/// "vector<8x128xf32>"
std::string vector_type(const std::vector<std::int64_t>& extents, const std::string& element);
/// "memref<8x128xf32, #tpu.memory_space<vmem>>"
std::string memref_type(const std::vector<std::int64_t>& extents, const std::string& element,
                        const std::string& space);
/// A number as an attribute of a type: its bits, so that none are lost. "0x3F800000"
std::string number_text(double value, DType dtype);

}  // namespace tessera::mosaic
