// ask.py, the program that Python runs; CMakeLists.txt embeds it.
#pragma once

namespace tessera::tpu_compiler {

extern const char* const kScript;

}  // namespace tessera::tpu_compiler
