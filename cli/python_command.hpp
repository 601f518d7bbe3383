// tessera triton ...: a program of Python, run by the Python package (python/tessera/__main__.py).
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

/// Becomes `python3 -m tessera WORDS`; the interpreter is python3 on PATH, or the one that
/// TESSERA_PYTHON names; the package is that beside this program in a build folder, else what is
/// installed there. Throws InputError if it cannot.
[[noreturn]] void python_command(const std::vector<std::string>& words);

}  // namespace tessera::cli
