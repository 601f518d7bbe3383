// Modules of MLIR's dialects, read by a program of its own (tessera-import, mlir_import.cpp):
// bytecode or generic text of Mosaic modules (stable_mosaic) and of Triton's (tt), as plain data.
//
// A tessera built without MLIR says what to install. Errors: InputError, one line: no such file, no
// module, a corrupt or truncated one, another dialect.
#pragma once

#include <string>

#include "program/ir.hpp"

namespace tessera::program {

/// `name` and `what` ("Mosaic module") are for messages. Throws InputError[bad-module].
Module import_module(const std::string& bytes, const std::string& name, const char* what);
/// The bytes of a module's file. Throws InputError[bad-input].
std::string module_bytes(const std::string& path);

/// Where tessera-import is, if it is neither where it was built nor where it was installed.
void set_importer(const std::string& path);

}  // namespace tessera::program
