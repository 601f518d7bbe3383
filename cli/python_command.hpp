// What Python does for the command line, by python3 on PATH or the interpreter that TESSERA_PYTHON
// names.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

/// Becomes `python3 -m tessera WORDS`: tessera triton (python/tessera/__main__.py). The package is
/// that beside this program in a build folder, else what is installed there. Throws InputError if
/// it cannot.
[[noreturn]] void python_command(std::vector<std::string> words);

/// The exit code of `python3 WORDS`. Throws InputError if there is none.
int status_of_python(std::vector<std::string> words);

}  // namespace tessera::cli
