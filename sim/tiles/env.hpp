// What a body knows about where it runs, and what it may say: the interpreter's env.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "sim/pipeline/scopes.hpp"
#include "sim/tiles/async.hpp"

namespace tessera {

namespace detail {
std::string print_value(double v);
template <class X>
std::string to_text(const X& x) {
  if constexpr (TileLike<X>) {
    const auto& tile = operand(x);
    std::string text = std::string(name(kDTypeOf<typename X::Element>)) + "(" +
                       std::to_string(tile.rows) + ", " + std::to_string(tile.cols) + ")";
    constexpr int kShown = 8;
    for (int r = 0; r < tile.rows && r < kShown; ++r) {
      text += "\n  ";
      for (int c = 0; c < tile.cols && c < kShown; ++c) {
        text += (c > 0 ? " " : "") + print_value(convert<double>(tile(r, c)));
      }
      if (tile.cols > kShown) text += " ...";
    }
    if (tile.rows > kShown) text += "\n  ...";
    return text;
  } else if constexpr (std::is_convertible_v<X, std::string>) {
    return x;
  } else {
    return print_value(convert<double>(x));
  }
}
}  // namespace detail

class Env {
 public:
  using Backend = Interpreter;
  /// `core`: of the asynchronous machine, or null.
  Env(const int* ids, const int* lo, const int* hi, std::string* printed, Scopes* scopes,
      MachineCore* core = nullptr)
      : ids_(ids), lo_(lo), hi_(hi), printed_(printed), scopes_(scopes), core_(core) {}

  int program_id(int dim) const { return ids_[dim]; }
  /// Steps of a dimension; of an arbitrary one with bounds, at the current outer ids.
  int num_programs(int dim) const { return hi_[dim] - lo_[dim]; }
  bool first(int dim) const { return ids_[dim] == lo_[dim]; }
  bool last(int dim) const { return ids_[dim] == hi_[dim] - 1; }

  /// Calls f(i) for i = lo, lo + 1, ..., hi - 1. The trip count may be data, in every build.
  template <class F>
  void loop(int lo, int hi, F f) const {
    for (int i = lo; i < hi; ++i) f(i);
  }

  /// Stops the run with error[check] unless the condition holds.
  void check(bool condition, const char* message, Here at = Here::now()) const {
    if (!condition) throw KernelError(check_failed(message, at));
  }
  /// Prints its arguments on a line, in grid order for every thread count. Tiles print their
  /// corner.
  template <class... X>
  void print(const X&... x) const {
    bool first_value = true;
    ((*printed_ += (std::exchange(first_value, false) ? "" : " ") + detail::to_text(x)), ...);
    *printed_ += '\n';
  }

  class Scope {
   public:
    explicit Scope(ScopeTotals* totals)
        : totals_(totals), flops_(op_state.flops), transcendentals_(op_state.transcendentals) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      ++totals_->entries;
      totals_->flops += op_state.flops - flops_;
      totals_->transcendentals += op_state.transcendentals - transcendentals_;
    }

   private:
    ScopeTotals* totals_;
    std::int64_t flops_;
    std::int64_t transcendentals_;
  };
  /// Names the region until the end of the block: auto region = env.scope("softmax");
  [[nodiscard]] Scope scope(const char* region) const { return Scope(&(*scopes_)[region]); }

  int device_id() const { return core_ == nullptr ? 0 : core_->device; }
  int num_devices() const { return core_ == nullptr ? 1 : core_->machine->devices(); }
  int core_id() const { return core_ == nullptr ? 0 : core_->core; }
  int num_cores() const { return core_ == nullptr ? 1 : core_->machine->cores_per_device(); }
  /// Devices along an axis of the mesh, and where this one is on it.
  int mesh_extent(int axis) const;
  int mesh_coordinate(int axis) const;
  /// The id of the device at these mesh coordinates, one per axis.
  template <class... I>
  int device_at(I... coordinates) const {
    return device_of(std::array<int, sizeof...(I)>{static_cast<int>(coordinates)...});
  }
  /// Calls body(refs...) with scratch that lives until it returns: run_scoped(body,
  /// vmem<float>("t", 8, 128), dma_sem("s")).
  template <class Body, class... Op>
  void run_scoped(Body&& body, const Op&... scratch) const;
  /// A semaphore that every device has, by collective id.
  SemRef barrier_semaphore(int collective_id = 0) const;

 private:
  int device_of(std::span<const int> coordinates) const;
  MachineCore& machine_core() const {
    if (core_ == nullptr) throw NeedsMachine{};
    return *core_;
  }
  const int* ids_;
  const int* lo_;
  const int* hi_;
  std::string* printed_;
  Scopes* scopes_;
  MachineCore* core_;
};

}  // namespace tessera
