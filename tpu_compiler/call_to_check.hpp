// A module with the types and shapes of its arrays: what can be said of a call before it has data.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "pallas/call_directory.hpp"
#include "program/call.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "tpu_compiler/tpu_compiler.hpp"

namespace tessera::tpu_compiler {

/// The question that a call with these arrays is; not of a mesh.
Question question_of(const std::string& module, const std::string& config,
                     const program::Call& call);

struct CallToCheck {
  std::unique_ptr<program::Program> program;  ///< null if tessera cannot plan it
  std::optional<Diagnostic> failure;          ///< why there is none
  program::Call call;  ///< its arrays hold anything, but for the extents of a dynamic grid
  int devices = 1;
  Question question;  ///< without a chip; on a mesh of one device
};

/// The question that a recorded call is. Throws InputError.
Question question_of(const std::string& folder);

/// One that is not in a folder yet, as the TPU build of a C++ kernel. Throws InputError.
CallToCheck call_to_check(const std::string& kernel, const pallas::CallToRecord& call);
/// A recorded call. Throws InputError.
CallToCheck read_folder(const std::string& folder);
/// A .mlirbc or .mlir file, with arrays of the smallest shapes that its grid needs. Throws
/// InputError where data or the caller
/// decides them, KernelError for a module that tessera cannot plan.
CallToCheck read_module(const std::string& file);

}  // namespace tessera::tpu_compiler
