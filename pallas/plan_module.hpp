// The launch that a module's main function carries, and its code, as a program.
#pragma once

#include <memory>

#include "program/program.hpp"

namespace tessera::pallas {

/// Throws KernelError[unsupported], or InputError for a module that makes no sense.
std::unique_ptr<program::Program> plan_module(const program::Module& module);

/// The field of a diagnostic that says that a TPU's compiler refuses the kernel too.
inline constexpr const char* kRefusedByCompiler = "compiler";

}  // namespace tessera::pallas
