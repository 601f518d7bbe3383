// What a traced body knows about where it runs: the counterpart of sim/tiles/env.hpp.
//
// Program ids and devices are Numbers. check() and print() have no counterpart in a module that
// computes and are left out; scope() likewise. run_scoped is a tpu.region.
#pragma once

#include "memory_model/here.hpp"
#include "mosaic/refs.hpp"

namespace tessera::mosaic {

/// One dim of the grid at the step that is traced. Of a dim whose bounds depend on outer ids, the
/// module's runs over its largest extent.
struct GridDim {
  Number step;  ///< the module's id, from 0
  Number lo;    ///< bounds at these outer ids
  Number hi;
  Number id;  ///< as the body sees it
};

/// What the body says to the call as a whole.
struct Meeting {
  int devices = 1;
  int collective_id = -1;  ///< of its barrier
};

class Env {
 public:
  using Backend = Emitter;
  Env(const std::vector<GridDim>& dims, Meeting& meeting) : dims_(&dims), meeting_(&meeting) {}

  Number program_id(int d) const { return at(d).id; }
  Number num_programs(int d) const { return at(d).hi - at(d).lo; }
  Truth first(int d) const { return at(d).step == 0; }
  Truth last(int d) const { return at(d).id == at(d).hi - 1; }

  /// A loop of the module's: what it carries lies in scratch.
  template <IsSize L, IsSize H, class F>
  void loop(L lo, H hi, F f) const {
    const Number from = number(lo);
    const Number to = number(hi);
    if (to.hi <= from.lo) return;
    trace().loop(from.i32(), to.i32(), [&](Value i) { f(number_in(i, from.lo, to.hi - 1)); });
  }

  template <class X>
  void check(const X&, const char*, Here = Here::now()) const {}
  template <class... X>
  void print(const X&...) const {}
  struct Scope {
    ~Scope() {}  // NOLINT(modernize-use-equals-default): a name for a region is used
  };
  [[nodiscard]] Scope scope(const char*) const { return {}; }

  Number device_id() const;
  int num_devices() const { return meeting_->devices; }
  int core_id() const { return 0; }
  int num_cores() const { return 1; }
  int mesh_extent(int axis) const {
    if (axis != 0) refuse("a mesh of several axes");
    return num_devices();
  }
  Number mesh_coordinate(int axis) const {
    if (axis != 0) refuse("a mesh of several axes");
    return device_id();
  }
  template <class I>
  Number device_at(I coordinate) const {
    return number(coordinate);
  }
  template <class Body, class... Op>
  void run_scoped(Body&& body, const Op&... ops) const {
    static_assert(((Op::kRole != Role::in && Op::kRole != Role::out) && ...),
                  "run_scoped makes scratch; inputs and outputs are operands of the kernel");
    trace().scope([&] {
      std::array<Operand, sizeof...(Op)> scratch{operand_of(ops)...};
      for (Operand& op : scratch) allocate(op);
      [&]<std::size_t... I>(std::index_sequence<I...>) { body(ref_of<Op>(scratch[I])...); }
      (std::index_sequence_for<Op...>{});
    });
  }
  SemRef barrier_semaphore(int collective_id = 0) const;

 private:
  const GridDim& at(int d) const { return (*dims_)[static_cast<std::size_t>(d)]; }
  const std::vector<GridDim>* dims_;
  Meeting* meeting_;
};

}  // namespace tessera::mosaic
