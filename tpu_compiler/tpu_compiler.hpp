// The TPU's compiler, asked whether it takes a module: Google's libtpu, ahead of time, no TPU
// needed.
//
//   TpuCompiler compiler({.python = "python3"});
//   Verdict v = compiler.ask({.kernel = "f", .module = bytes, .chip = "v5e", ...});
//
// libtpu is no part of tessera. Whoever wants to ask it installs it into an interpreter, under
// Google's terms, and names the interpreter; without it ask() says what to install. It runs in a
// process of its own (ask.py), which stays for the next question: it holds locks, aborts on some
// modules, and takes minutes for others. Answers are kept in the user's cache folder, by the bytes
// of the question and the versions of libtpu and JAX; a file of libtpu that changes is asked again.
// The module is compiled alone, for one device: what XLA puts around it in a larger program may
// take VMEM from it. Errors: InputError[no-tpu-compiler].
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/array.hpp"
#include "tpu_compiler/verdict.hpp"

namespace tessera::tpu_compiler {

/// One custom call.
struct Question {
  struct Value {
    DType dtype = DType::f32;
    Shape shape;
  };
  std::string kernel;
  std::string module;  ///< bytecode, or generic text
  std::string config;  ///< backend_config without the module, JSON
  std::string chip;    ///< "v5e", as a device spec's jax.chip has it
  std::vector<Value> operands;
  std::vector<Value> results;
  std::vector<std::pair<std::size_t, int>> aliases;  ///< operand, result
};

struct Settings {
  std::string python;       ///< with jax and libtpu; "": TESSERA_TPU_PYTHON, else python3
  double time_limit = 120;  ///< seconds for a module
  /// What it is asked to write beside its verdict: the less, the faster.
  enum class Listings { none, vmem, schedule };
  Listings listings = Listings::vmem;
  std::string cache_folder;  ///< "": $XDG_CACHE_HOME or ~/.cache, tessera/tpu-compiler
  /// Told once, before libtpu is first loaded, whose it is.
  std::function<void(const std::string&)> note;
};

class TpuCompiler {
 public:
  explicit TpuCompiler(Settings settings);
  ~TpuCompiler();
  TpuCompiler(const TpuCompiler&) = delete;
  TpuCompiler& operator=(const TpuCompiler&) = delete;

  /// Throws InputError if there is no compiler to ask.
  void require();
  /// From the cache, or from the compiler. Throws InputError.
  Verdict ask(const Question& question);
  /// "libtpu 0.0.42.1, jax 0.10.2"; known after the first ask().
  std::string version() const;
  /// "0.0.42.1"; likewise.
  std::string libtpu() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::tpu_compiler
