// Libraries that a program loads when it needs them. They lie beside it in a build folder, under
// lib/tessera in an installation.
#pragma once

#include <string>

namespace tessera::cli {

/// A symbol of the library of this file name; null if there is no such library. Throws
/// InputError[bad-input] if there is one and it cannot be loaded, or was compiled with other
/// headers than the program (cli/interface.hpp).
void* symbol_of_library(const std::string& file, const char* symbol);

/// A file that the program hands out, named by its place in the source tree: the installation's
/// that it belongs to, else the source tree's.
std::string handed_out(const std::string& file);

}  // namespace tessera::cli
