// What nvcc made of a kernel for Hopper, as far as a prediction wants it: registers, and how often
// a step's code loads and stores the local memory that holds what found no register.
//
// Read from the cubin (ELF) that `nvcc -cubin` writes: instructions have 16 bytes, an opcode in the
// lowest nine bits, and a branch its distance. NVIDIA documents their names (CUDA Binary
// Utilities), not their bits; what is read of local memory is held to the bytes that ptxas counts
// (cuda/one_instance.sh). The loop over a cell's steps is the shortest that multiplies
// and waits for an mbarrier; loops in it that multiply and wait for none are a product's, over k.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::predict {

/// Instructions of a thread that stand in a part of the code.
struct CodePart {
  int loads = 0;  ///< of local memory
  int stores = 0;
  int load_bytes = 0;  ///< of them, of a thread
  int store_bytes = 0;
  int fmas = 0;  ///< f32 fused multiply-adds
  int mmas = 0;  ///< mma.sync
  int wgmmas = 0;
  int shuffles = 0;
  bool multiplies() const { return fmas + mmas + wgmmas > 0; }
};

struct CompiledKernel {
  int registers = 0;    ///< of a thread
  int local_bytes = 0;  ///< of a thread's stack
  std::int64_t code_bytes = 0;
  std::vector<CodePart> loops;  ///< innermost ones that multiply
  CodePart step;                ///< what else the loop over steps has until it has multiplied
  CodePart after;               ///< and afterwards
  CodePart cell;                ///< what is outside of it
};

/// All instructions as they stand.
CodePart whole(const CompiledKernel& code);

/// The parts of a cubin's largest function. Empty `why`: it was read.
struct ReadCode {
  std::string why;
  CompiledKernel code;
};
ReadCode read_cubin(const std::string& bytes);

}  // namespace tessera::predict
