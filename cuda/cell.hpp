// The grid on the device: a CTA takes parallel cells one after the other; a cell's steps are the
// arbitrary dimensions in row-major order. Two cursors walk them: the producer's, ahead, and the
// consumers'.
#pragma once

#include "cuda/barrier.hpp"
#include "memory_model/here.hpp"
#include "sim/body/cta.hpp"

namespace tessera::cuda {

template <class Th>
struct Cta;

template <class G>
struct Cursor {
  int ids[G::kRank];
  int lo[G::kRank];
  int hi[G::kRank];
  bool alive;

  /// The first step of a cell.
  __device__ __forceinline__ Cursor(const G& grid, int cell) {
    set_cell(grid, cell);
    alive = enter<G::kParallel>(grid);
  }
  /// That of one run of its sum.
  __device__ __forceinline__ Cursor(const G& grid, int cell, int run) {
    set_cell(grid, cell);
    lo[G::kParallel] = 0;
    hi[G::kParallel] = std::get<G::kParallel>(grid.dims).hi;
    set_run(grid, run);
  }
  __device__ __forceinline__ void advance(const G& grid) {
    alive = next<G::kRank - 1, G::kParallel>(grid);
  }
  __device__ __forceinline__ void set_run(const G& grid, int run) {
    ids[G::kParallel] = run;
    alive = enter<G::kParallel + 1>(grid);
  }
  __device__ __forceinline__ void advance_in_run(const G& grid) {
    alive = next<G::kRank - 1, G::kParallel + 1>(grid);
  }

 private:
  __device__ __forceinline__ void set_cell(const G& grid, int cell) {
    if constexpr (G::kParallel >= 2) {
      constexpr int kI = G::kParallel - 2;
      const int rows = std::get<kI>(grid.dims).count;
      const int columns = std::get<kI + 1>(grid.dims).count;
      constexpr int kBand = cta::band_rows(G::kParallel);
      const auto at = cta::place_in_bands(cell % (rows * columns), rows, columns, kBand);
      set<kI>(rows, at.row);
      set<kI + 1>(columns, at.column);
      set_outer<kI - 1>(grid, cell / (rows * columns));
    } else {
      set_outer<G::kParallel - 1>(grid, cell);
    }
  }
  template <int kD>
  __device__ __forceinline__ void set(int count, int id) {
    lo[kD] = 0;
    hi[kD] = count;
    ids[kD] = id;
  }
  template <int kD>
  __device__ __forceinline__ void set_outer(const G& grid, int cell) {
    if constexpr (kD >= 0) {
      const int count = std::get<kD>(grid.dims).count;
      set<kD>(count, cell % count);
      set_outer<kD - 1>(grid, cell / count);
    }
  }
  /// Sets dims kD and after to their first step; false if there is none.
  template <int kD>
  __device__ __forceinline__ bool enter(const G& grid) {
    if constexpr (kD == G::kRank) {
      return true;
    } else {
      const auto& dim = std::get<kD>(grid.dims);
      lo[kD] = bound_at<G, kD>(dim.lo, ids);
      hi[kD] = bound_at<G, kD>(dim.hi, ids);
      for (ids[kD] = lo[kD]; ids[kD] < hi[kD]; ++ids[kD]) {
        if (enter<kD + 1>(grid)) return true;
      }
      return false;
    }
  }
  template <int kD, int kFirst>
  __device__ __forceinline__ bool next(const G& grid) {
    if constexpr (kD < kFirst) {
      return false;
    } else {
      while (++ids[kD] < hi[kD]) {
        if (enter<kD + 1>(grid)) return true;
      }
      return next<kD - 1, kFirst>(grid);
    }
  }
};

/// Shared memory that run_scoped gives and takes back.
struct ScopeMemory {
  SharedAt next;
  SharedAt end;
};
/// Calls body(refs...) with scratch that lives until it returns (cuda/scoped.hpp).
template <class Th, int kScope, class Body, class... Op>
__device__ __forceinline__ void in_scope(ScopeMemory& memory, Body&& body, const Op&... scratch);

/// What a body knows about where it runs. Checks and prints cost nothing here: the interpreter has
/// them. kScope: bytes of shared memory for run_scoped.
template <class G, class Th, int kScope = 0>
struct Env {
  using Backend = Cta<Th>;
  const Cursor<G>* at;
  ScopeMemory memory;
  template <class Body, class... Op>
  __device__ __forceinline__ void run_scoped(Body&& body, const Op&... scratch) {
    in_scope<Th, kScope>(memory, static_cast<Body&&>(body), scratch...);
  }
  __device__ __forceinline__ int program_id(int d) const { return at->ids[d]; }
  __device__ __forceinline__ int num_programs(int d) const { return at->hi[d] - at->lo[d]; }
  __device__ __forceinline__ bool first(int d) const { return at->ids[d] == at->lo[d]; }
  __device__ __forceinline__ bool last(int d) const { return at->ids[d] == at->hi[d] - 1; }
  template <class F>
  __device__ __forceinline__ void loop(int lo, int hi, F f) const {
    for (int i = lo; i < hi; ++i) f(i);
  }
  __device__ __forceinline__ void check(bool, const char*, Here = Here::now()) const {}
  template <class... X>
  __device__ __forceinline__ void print(const X&...) const {}
  struct Scope {
    __device__ __forceinline__ ~Scope() {}
  };
  [[nodiscard]] __device__ __forceinline__ Scope scope(const char*) const { return {}; }
  __device__ __forceinline__ int device_id() const { return 0; }
  __device__ __forceinline__ int num_devices() const { return 1; }
  __device__ __forceinline__ int core_id() const { return 0; }
  __device__ __forceinline__ int num_cores() const { return 1; }
};

}  // namespace tessera::cuda
