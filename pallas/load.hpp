// Reading Mosaic modules: stable_mosaic bytecode, or its generic text.
//
// Read are versions 8 to 15 of the dialect: 8 is what JAX 0.9.0 writes, 11 what jax.export of
// 0.10.2 pins, 15 the newest that it can write. 8 to 11 write all modules of the corpus alike
// (measured); what 12 to 15 added to ops is refused where it is used. MLIR does the parsing, in a
// process of its own (tessera-import); a tessera built without it says what to install.
// Errors: InputError, one line: no such file, no module, a corrupt or truncated one, another
// dialect, a newer version.
#pragma once

#include <string>

#include "program/ir.hpp"

namespace tessera::pallas {

using namespace program;

inline constexpr std::int64_t kOldestVersion = 8;
inline constexpr std::int64_t kNewestVersion = 15;

/// `name` is for messages.
Module load_module(const std::string& bytes, const std::string& name);
Module load_module_file(const std::string& path);

}  // namespace tessera::pallas
