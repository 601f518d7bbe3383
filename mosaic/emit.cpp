#include "mosaic/emit.hpp"

#include <algorithm>
#include <limits>

#include "mosaic/types.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::mosaic {

namespace {

/// What the bounds of a dim are over all outer ids.
struct Extremes {
  std::int64_t least_lo = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_lo = std::numeric_limits<std::int64_t>::min();
  std::int64_t least_hi = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_hi = std::numeric_limits<std::int64_t>::min();
  std::int64_t longest = 0;

  void add(std::int64_t lo, std::int64_t hi) {
    least_lo = std::min(least_lo, lo);
    most_lo = std::max(most_lo, lo);
    least_hi = std::min(least_hi, hi);
    most_hi = std::max(most_hi, hi);
    longest = std::max(longest, hi - lo);
  }
  bool fixed() const { return least_lo == most_lo && least_hi == most_hi; }
};

Number pick(Truth t, Number a, Number b) {
  if (t.is_known) return t.known_value ? a : b;
  if (a.value == b.value && a.lo == b.lo && a.hi == b.hi) return a;
  return number_in(trace().record("arith.select", {t.value, a.i32(), b.i32()}, "", "i32"),
                   std::min(a.lo, b.lo), std::max(a.hi, b.hi));
}
Number narrowed(Number n, std::int64_t lo, std::int64_t hi) {
  return n.known() ? n : number_in(n.value, std::max(n.lo, lo), std::min(n.hi, hi));
}

bool is_window(const Operand& op) { return op.role == Role::in || op.role == Role::out; }
bool is_input(const Operand& op) { return op.role == Role::in || op.role == Role::hbm_in; }
bool is_output(const Operand& op) { return op.role == Role::out || op.role == Role::hbm_out; }

std::string integers(const std::vector<std::int64_t>& list) {
  std::string text = "array<i64";
  for (std::size_t i = 0; i < list.size(); ++i)
    text += (i == 0 ? ": " : ", ") + std::to_string(list[i]);
  return text + ">";
}

class ModuleWriter {
 public:
  ModuleWriter(TracedKernel& kernel, bool fused) : kernel_(kernel), fused_(fused) {}

  BuiltModule write() {
    find_extents();
    sort_operands();
    built_.name = kernel_.name;
    built_.devices = kernel_.meeting.devices;
    std::string functions = main_function();
    for (std::size_t i = 0; i < windows_.size(); ++i) functions += index_map(i);
    built_.text = "\"builtin.module\"() ({\n" + functions +
                  "}) {stable_mosaic.version = 11 : i64} : () -> ()\n";
    // What is left of it: a body may ask for a barrier and not use it.
    const auto has = [&](const char* op) { return built_.text.find(op) != std::string::npos; };
    built_.communicates = has("tpu.device_id") || has("tpu.sem_barrier");
    if (has("tpu.sem_barrier")) built_.collective_id = kernel_.meeting.collective_id;
    return std::move(built_);
  }

 private:
  /// Walks the ids that bounds depend on, as far as one does.
  void find_extents() {
    const std::size_t rank = kernel_.dims.size();
    extremes_.resize(rank);
    std::size_t last = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      if (kernel_.dims[d].depends) last = d;
    }
    std::vector<Number> ids;
    std::int64_t visited = 0;
    const auto walk = [&](const auto& self, std::size_t d) -> void {
      const Bounds b = kernel_.bounds(static_cast<int>(d), ids);
      if (b.hi.lo <= b.lo.lo) refuse("a grid that has cells without a step");
      extremes_[d].add(b.lo.lo, b.hi.lo);
      if (d >= last) return;
      constexpr std::int64_t kMost = std::int64_t{1} << 24;
      for (std::int64_t i = b.lo.lo; i < b.hi.lo; ++i) {
        if (++visited > kMost) refuse("bounds that depend on more than 2^24 outer ids");
        ids.push_back(known(i));
        self(self, d + 1);
        ids.pop_back();
      }
    };
    walk(walk, 0);
    ids.assign(rank, known(0));
    for (std::size_t d = last + 1; d < rank; ++d) walk(walk, d);
  }

  void sort_operands() {
    for (PrefetchedArray& a : kernel_.arrays) {
      if (a.size == 0) continue;  // a memref of nothing
      prefetched_.push_back(&a);
      if (a.dtype != DType::i32 && a.dtype != DType::f32) refuse_elements(a.name, a.dtype);
      built_.prefetched.push_back({a.name, a.dtype, {a.size}});
      const auto* const words = static_cast<const std::int32_t*>(a.data);
      built_.prefetched_words.emplace_back(words, words + a.size);
    }
    std::vector<Operand*> spare;
    for (Operand& op : kernel_.operands) {
      if (!op.present) continue;
      auto& list = is_input(op)           ? inputs_
                   : is_output(op)        ? outputs_
                   : op.role == Role::hbm ? spare
                                          : scratch_;
      list.push_back(&op);
    }
    // Calls have no scratch in HBM: it is results behind the others.
    built_.dropped = static_cast<int>(spare.size());
    outputs_.insert(outputs_.end(), spare.begin(), spare.end());
    for (const Operand* op : inputs_)
      built_.inputs.push_back({op->name, signless(op->dtype), op->array});
    for (const Operand* op : outputs_) {
      if (!op->alias.empty()) {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
          if (inputs_[i]->name == op->alias)
            built_.aliases.push_back(
                {static_cast<int>(i), static_cast<int>(built_.outputs.size())});
        }
      }
      built_.outputs.push_back({op->name, signless(op->dtype), op->array});
    }
  }

  std::vector<Number> id_arguments(Trace& t) const {
    std::vector<Number> steps;
    for (const Extremes& e : extremes_)
      steps.push_back(number_in(t.argument("i32"), 0, e.longest - 1));
    return steps;
  }
  std::vector<PrefetchedArray> array_arguments(Trace& t) const {
    std::vector<PrefetchedArray> arrays;
    for (const PrefetchedArray* a : prefetched_) {
      arrays.push_back(*a);
      arrays.back().memref = t.argument(memref_type({a->size}, element_type(a->dtype), "smem"));
    }
    return arrays;
  }

  /// The dims at a step that lies in them. `live`: whether it does.
  std::vector<GridDim> dims_at(const std::vector<Number>& steps, Truth& live) const {
    std::vector<GridDim> dims;
    std::vector<Number> ids;
    live = known_truth(true);
    for (std::size_t d = 0; d < steps.size(); ++d) {
      const Extremes& e = extremes_[d];
      const Bounds b = bounds_at(d, ids);
      GridDim dim{steps[d], b.lo, b.hi, b.lo + steps[d]};
      if (!e.fixed()) live = both(live, dim.id < b.hi);
      dim.id = narrowed(dim.id, e.least_lo, e.most_hi - 1);
      ids.push_back(dim.id);
      dims.push_back(dim);
    }
    return dims;
  }
  /// The ids of a step, or of the last one that lies in the grid.
  std::vector<Number> last_ids_at(const std::vector<Number>& steps) const {
    std::vector<Number> ids;
    Truth dead = known_truth(false);
    for (std::size_t d = 0; d < steps.size(); ++d) {
      const Extremes& e = extremes_[d];
      const Bounds b = bounds_at(d, ids);
      const Number here = b.lo + steps[d];
      const Number last = b.hi - 1;
      if (!e.fixed()) dead = either(dead, here > last);
      ids.push_back(narrowed(pick(dead, last, here), e.least_lo, e.most_hi - 1));
    }
    return ids;
  }
  Bounds bounds_at(std::size_t d, const std::vector<Number>& ids) const {
    const Extremes& e = extremes_[d];
    if (e.fixed()) return {known(e.least_lo), known(e.least_hi)};
    const Bounds b = kernel_.bounds(static_cast<int>(d), ids);
    return {narrowed(b.lo, e.least_lo, e.most_lo), narrowed(b.hi, e.least_hi, e.most_hi)};
  }

  std::string main_function() {
    Trace t;
    t.fused = fused_;
    const std::vector<Number> steps = id_arguments(t);
    t.prefetched = array_arguments(t);
    for (auto* list : {&inputs_, &outputs_, &scratch_}) {
      for (Operand* op : *list) op->memref = t.argument(op->type());
    }
    std::vector<GridDim> dims;
    for (std::size_t i = 0; i < kernel_.operands.size(); ++i) {
      Operand& op = kernel_.operands[i];
      if (!is_window(op)) continue;
      op.index = [this, i, &dims] {
        std::vector<Number> ids;
        for (const GridDim& d : dims) ids.push_back(d.id);
        return kernel_.index(static_cast<int>(i), ids);
      };
    }
    t.run([&] {
      Truth live;
      dims = dims_at(steps, live);
      if (live) {
        Env env(dims, kernel_.meeting);
        kernel_.body(env);
      }
    });
    return t.text(kernel_.name, attributes());
  }

  std::string attributes() {
    std::string semantics;
    std::vector<std::int64_t> extents;
    for (std::size_t d = 0; d < kernel_.dims.size(); ++d) {
      semantics += std::string(d == 0 ? "" : ", ") + "#tpu.dimension_semantics<" +
                   (kernel_.dims[d].parallel ? "parallel" : "arbitrary") + ">";
      extents.push_back(extremes_[d].longest);
    }
    std::string windows;
    for (auto* list : {&inputs_, &outputs_}) {
      for (Operand* op : *list) {
        windows += windows.empty() ? "{" : ", {";
        if (is_window(*op)) {
          windows += "transform_indices = @transform_" + std::to_string(windows_.size()) +
                     ", window_bounds = " + integers(op->block);
          if (op->buffers == 1) windows += ", pipeline_mode = #tpu.pipeline_mode<synchronous>";
          if (op->buffers > 2) refuse("windows of more than two slots: " + op->name);
          windows_.push_back(op);
        }
        windows += "}";
      }
    }
    return "dimension_semantics = [" + semantics + "], iteration_bounds = " + integers(extents) +
           ", scalar_prefetch = " + std::to_string(prefetched_.size()) +
           " : i64, scratch_operands = " + std::to_string(scratch_.size()) +
           " : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [" + windows + "]";
  }

  std::string index_map(std::size_t i) {
    const auto operand = static_cast<int>(windows_[i] - kernel_.operands.data());
    Trace t;
    const std::vector<Number> steps = id_arguments(t);
    t.prefetched = array_arguments(t);
    int runs = 0;
    t.run([&] {
      if (++runs > 1) refuse("an index map that branches on program ids");
      for (const Number& n : kernel_.index(operand, last_ids_at(steps)))
        t.returned.push_back(n.i32());
    });
    return t.text("transform_" + std::to_string(i), "");
  }

  TracedKernel& kernel_;
  bool fused_;
  BuiltModule built_;
  std::vector<Extremes> extremes_;
  std::vector<const PrefetchedArray*> prefetched_;
  std::vector<Operand*> inputs_;
  std::vector<Operand*> outputs_;
  std::vector<Operand*> scratch_;
  std::vector<const Operand*> windows_;  ///< in the order of their index maps
};

}  // namespace

Number Env::device_id() const {
  return number_in(trace().record("tpu.device_id", {}, "", "i32"), 0,
                   std::max(1, meeting_->devices) - 1);
}
SemRef Env::barrier_semaphore(int collective_id) const {
  if (meeting_->collective_id >= 0 && meeting_->collective_id != collective_id)
    refuse("barriers of several collective ids in one kernel");
  meeting_->collective_id = collective_id;
  return SemRef(trace().record("tpu.sem_barrier", {}, "",
                               "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"));
}

BuiltModule write(TracedKernel& kernel, bool fused) { return ModuleWriter(kernel, fused).write(); }

}  // namespace tessera::mosaic
