// Programs at the pipeline's edge: their index maps, and their code as bodies.
#pragma once

#include "program/call.hpp"
#include "sim/pipeline/counted_core.hpp"

namespace tessera::program {

/// Evaluates index maps: what block a window takes at a grid step.
class IndexMaps {
 public:
  /// `grid`: of the launch.
  IndexMaps(const Call& call, const std::vector<std::int64_t>& grid, Exec& exec, int device);
  /// One index per dim of the window's array.
  void evaluate(const Window& window, const int* ids, std::int64_t* index);
  /// Another parallel cell begins: what the body has made of prefetched scalars is stale.
  void forget_changes();

 private:
  /// The prefetched array as it came.
  const std::byte* given(std::size_t i) const;

  const Call& call_;
  int device_;
  const std::vector<std::int64_t>& grid_;
  Exec& exec_;
  std::vector<std::unique_ptr<Buffer>> prefetched_;
};

class ProgramKernel final : public tessera::Kernel {
 public:
  /// `core_use`: of a TPU's core, by step of the main code; empty where it is not modelled.
  ProgramKernel(const Call& call, std::vector<std::int64_t> grid, std::vector<CoreUse> core_use)
      : call_(call), grid_(std::move(grid)), core_use_(std::move(core_use)) {}
  std::unique_ptr<Body> body(CoreView& view) const override;
  /// Not if it copies, or keeps scalars from step to step.
  bool counts() const override;
  UndefinedRead undefined_read(Origin origin) const override;

 private:
  const Call& call_;
  std::vector<std::int64_t> grid_;
  std::vector<CoreUse> core_use_;
};

}  // namespace tessera::program
