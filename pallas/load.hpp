// Reading Mosaic modules: stable_mosaic bytecode, or its generic text.
//
// Read are versions 8 to 18 of the dialect: 8 is what JAX 0.9.0 writes, 11 what jax.export of
// 0.10.2 pins, 15 the newest that it can write, 18 what 0.12.0 does. 8 to 11 write all modules of
// the corpus alike (measured); what later ones added to ops is refused where it is used and not
// built: 14 subcores as targets, 15 and 16 sizes and strides of reinterpret_cast, 16 the dimension
// of a scan, 18 kinds of reductions that say whether integers have a sign. MLIR does the parsing,
// in a process of its own (tessera-import); a tessera built without it says what to install.
// Errors: InputError, one line: no such file, no module, a corrupt or truncated one, another
// dialect, a newer version.
#pragma once

#include <string>

#include "program/ir.hpp"

namespace tessera::pallas {

using namespace program;

inline constexpr std::int64_t kOldestVersion = 8;
inline constexpr std::int64_t kNewestVersion = 18;

/// `name` is for messages.
Module load_module(const std::string& bytes, const std::string& name);
Module load_module_file(const std::string& path);

}  // namespace tessera::pallas
