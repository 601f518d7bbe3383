#include "program/call.hpp"

#include <cstring>
#include <deque>
#include <string_view>

#include "memory_model/file.hpp"
#include "memory_model/moved_bytes.hpp"
#include "program/program_kernel.hpp"
#include "program/unit_count.hpp"
#include "program/unit_pipeline.hpp"
#include "program/units_json.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/pipeline/core_cells.hpp"

namespace tessera::program {

namespace {

void check_extent(std::int64_t extent) {
  if (extent < 0 || extent > std::numeric_limits<std::int32_t>::max())
    throw InputError("bad-input", "a grid extent of " + std::to_string(extent));
}

std::vector<std::int64_t> grid_of(const Call& call) {
  std::vector<std::int64_t> grid = call.program->grid;
  std::size_t next = 0;
  for (std::int64_t& extent : grid) {
    if (extent != kDynamic) {
      check_extent(extent);
      continue;
    }
    if (next >= call.bounds.size()) {
      throw InputError("bad-input", "the grid has more dynamic extents than the " +
                                        std::to_string(call.bounds.size()) + " that are given");
    }
    extent = call.bounds[next++];
    check_extent(extent);
  }
  if (next != call.bounds.size()) {
    throw InputError("bad-input", "the grid has " + std::to_string(next) + " dynamic extents; " +
                                      std::to_string(call.bounds.size()) + " are given");
  }
  return grid;
}

Shape shape_of(const std::vector<std::int64_t>& bounds) {
  Shape s;
  for (const std::int64_t b : bounds) s.push_back(b);
  return s;
}

/// The ids of a step of the grid.
std::array<int, kMaxGridRank> ids_of(std::int64_t step, const std::vector<std::int64_t>& grid) {
  std::array<int, kMaxGridRank> ids{};
  for (std::size_t d = grid.size(); d-- > 0;) {
    ids[d] = static_cast<int>(step % grid[d]);
    step /= grid[d];
  }
  return ids;
}

/// The extents that hold every block a window takes.
Shape inferred_shape(const std::vector<std::int64_t>& grid, const Window& w, IndexMaps& maps) {
  Shape most = shape_of(w.bounds);
  for (int d = 0; w.by_element && d < most.rank; ++d) most[d] = 1;
  constexpr double kMost = 0x1p26;  // some seconds
  double all = 1;
  for (const std::int64_t e : grid) all *= static_cast<double>(e);
  if (all > kMost) {
    throw KernelError({.slug = "unsupported",
                       .kind = Diagnostic::Kind::unsupported,
                       .headline = "the shapes of operands that are not given, from a grid of more "
                                   "than 2^26 steps"});
  }
  const auto steps = static_cast<std::int64_t>(all);
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t s = 0; s < steps; ++s) {
    maps.evaluate(w, ids_of(s, grid).data(), index.data());
    for (int d = 0; d < most.rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      most[d] =
          std::max(most[d], w.by_element ? index[i] + w.bounds[i] - w.pad_low[i] - w.pad_high[i]
                                         : (index[i] + 1) * w.bounds[i]);
    }
  }
  return most;
}

struct Prepared {
  std::vector<std::int64_t> grid;
  Plan plan;
  std::vector<std::string> names;  ///< what the plan's aliases point to
};

Space space_of(const Window& w) {
  if (w.semaphores) return Space::semaphore;
  if (w.any) return Space::hbm;
  return w.smem ? Space::smem : Space::vmem;
}

Role semaphore_role(const Window& w) {
  return w.type.semaphore == "dma_semaphore" ? Role::dma_sem : Role::sem;
}

std::string name_of(const Call& call, std::size_t i) {
  if (i < call.names.size() && !call.names[i].empty()) return call.names[i];
  const std::size_t inputs = call.inputs.size();
  return i < inputs ? "in" + std::to_string(i) : "out" + std::to_string(i - inputs);
}

void check_arrays(const Call& call, int devices) {
  const Program& p = *call.program;
  if (call.prefetched.size() != p.prefetched.size() ||
      call.inputs.size() >= p.operands.size() + 1) {
    throw InputError("bad-input", p.name + " takes " + std::to_string(p.prefetched.size()) +
                                      " prefetched arrays and at most " +
                                      std::to_string(p.operands.size()) + " inputs; " +
                                      std::to_string(call.prefetched.size()) + " and " +
                                      std::to_string(call.inputs.size()) + " are given");
  }
  if (!call.results.empty() && call.inputs.size() + call.results.size() != p.operands.size()) {
    throw InputError("bad-input", p.name + " has " + std::to_string(p.operands.size()) +
                                      " inputs and results; " + std::to_string(call.inputs.size()) +
                                      " and " + std::to_string(call.results.size()) + " are given");
  }
  for (std::size_t i = 0; i < p.prefetched.size(); ++i) {
    const Type& t = p.prefetched[i].type;
    const Array& a = call.prefetched[i];
    const std::int64_t elems = t.shape.elems();
    if (a.dtype() != t.dtype || (a.elems() != elems && a.elems() != elems * devices)) {
      throw InputError("bad-input", "prefetched array " + std::to_string(i) + " is " +
                                        describe(a.dtype(), a.shape()) + "; " + p.name + " takes " +
                                        describe(t.dtype, t.shape));
    }
  }
}

bool is_aliased(const Call& call, std::size_t operand) {
  return std::ranges::any_of(call.aliases, [&](const Alias& a) {
    return call.inputs.size() + static_cast<std::size_t>(a.result) == operand;
  });
}

/// What the kernel reaches in HBM, or, where a result is an operand that it got, in other memory.
bool is_array(const Call& call, std::size_t operand) {
  const Window& w = call.program->operands[operand];
  const bool input = operand < call.inputs.size();
  return w.any || (w.in_place && (input ? std::ranges::any_of(call.aliases,
                                                              [&](const Alias& a) {
                                                                return static_cast<std::size_t>(
                                                                           a.input) == operand;
                                                              })
                                        : is_aliased(call, operand)));
}

struct Cells {
  int parallel = 0;  ///< leading dims whose steps are cells
  /// Per operand: a result with one block, which every cell writes and the last one leaves behind.
  /// Real kernels pass scratch as such results, beside ones that tell the cells apart.
  std::vector<bool> lingers;
};

/// Cells are the steps of the leading parallel dims.
Cells cells_of(const Call& call) {
  const Program& p = *call.program;
  Cells cells;
  while (static_cast<std::size_t>(cells.parallel) < p.grid.size() &&
         p.parallel[static_cast<std::size_t>(cells.parallel)])
    ++cells.parallel;
  cells.lingers.resize(p.operands.size());
  bool told_apart = false;
  for (std::size_t i = call.inputs.size(); i < p.operands.size(); ++i) {
    const Window& w = p.operands[i];
    const bool moves = !w.whole && std::ranges::count(w.uses, true) != 0;
    if (w.semaphores) continue;
    cells.lingers[i] = !w.any && !moves && !is_aliased(call, i);
    told_apart = told_apart || moves || is_array(call, i);
  }
  if (!told_apart || std::ranges::count(p.parallel, true) == 0)
    cells.lingers.assign(p.operands.size(), false);
  return cells;
}

/// True if no dim inside a cell moves the window's block.
bool stays_in_cell(const Window& w, int parallel) {
  return w.whole || std::ranges::count(w.uses.begin() + parallel, w.uses.end(), true) == 0;
}

/// Throws what the compiler of this device would refuse.
void check_compiles(const Call& call, const DeviceSpec& device) {
  for (const Refusal& r : call.program->refusals) {
    if (r.until_jax_0_11 && call.jax_0_11) continue;
    if (r.chips.empty() || r.chips.contains(device.jax.chip)) throw KernelError(r.diagnostic);
  }
}

/// The plan but for its operands.
Plan plan_of(const Call& call, const DeviceSpec& device, const std::vector<std::int64_t>& grid,
             const Cells& cells) {
  const Program& p = *call.program;
  Plan plan;
  plan.kernel = p.name;
  plan.device = device;
  plan.leaves_undefined = true;
  plan.writes_agree = !p.subcores.empty();
  plan.compact = true;
  plan.copies = p.asynchronous;
  if (p.subcores.empty()) {  // SparseCores have memory of their own
    plan.author_limits = call.vmem_limit > 0;
    plan.vmem_limit = plan.author_limits ? call.vmem_limit : device.scoped_vmem_bytes;
    plan.operands_in_vmem = !call.alone || device.keeps_operands_in_vmem;
  }
  plan.counts_in_run = true;
  plan.grid_rank = static_cast<int>(p.grid.size());
  plan.parallel_rank = cells.parallel;
  for (std::size_t d = static_cast<std::size_t>(cells.parallel); d < p.grid.size(); ++d)
    plan.inner_parallel[d] = p.parallel[d];
  for (std::size_t d = 0; d < grid.size(); ++d)
    plan.bounds[d] = Range{0, static_cast<int>(grid[d])};
  plan.labels.fill("");
  return plan;
}

/// One device's part of an array that was given; throws if the window does not fit it.
Shape given_shape(const Program& p, const Window& w, const Array& a, const Shape& block,
                  int devices, const std::string& what) {
  Shape shape = a.shape();
  if (devices > 1 && shape.rank > 0) {
    if (shape[0] % devices != 0) {
      throw InputError("bad-input", what + " is " + describe(a.dtype(), a.shape()) +
                                        ", which does not divide among " + std::to_string(devices) +
                                        " devices");
    }
    shape[0] /= devices;
  }
  // Scalars and vectors of one element may come without dims.
  if (shape.rank != block.rank && shape.elems() == block.elems()) shape = block;
  const bool fits = shape.rank == block.rank && (!w.whole || shape == block);
  if (a.dtype() != w.type.dtype || !fits) {
    throw InputError("bad-input", what + " is " + describe(a.dtype(), shape) + "; " + p.name +
                                      " takes " + (w.whole ? "" : "blocks of ") +
                                      describe(w.type.dtype, block));
  }
  return shape;
}

void set_tile(OperandPlan& op) {
  op.cols = op.block.rank > 0 ? static_cast<int>(op.block[op.block.rank - 1]) : 1;
  op.rows = static_cast<int>(op.block.elems() / std::max(1, op.cols));
}

/// Where the body stores to it last, which is where an accumulator is added to; else where it
/// begins.
const Location& line_of(const Program& p, const Window& w) {
  const auto& steps = p.main.steps;
  const auto store = std::find_if(steps.rbegin(), steps.rend(), [&](const Step& s) {
    return s.argument == w.argument && std::string_view(s.op).find("store") != std::string::npos;
  });
  const int at = store == steps.rend() ? 0 : store->location;
  return p.locations[static_cast<std::size_t>(at)];
}

Here here(const Location& at) { return {at.file.c_str(), at.line}; }

/// The line of the body that accesses a window first; none if no step says so.
Here first_use(const Program& p, const Window& w) {
  for (const Step& step : p.main.steps) {
    if (step.argument < 0 || step.argument != w.argument) continue;
    return here(p.locations[static_cast<std::size_t>(step.location)]);
  }
  return {};
}

/// Where its index map computes, else where the body reads it, else where it begins.
Here line_of_input(const Program& p, const Window& w) {
  for (const Step& step : w.transform.steps) {
    const Here at = here(p.locations[static_cast<std::size_t>(step.location)]);
    if (at.line > 0) return at;
  }
  const Here used = first_use(p, w);
  return used.line > 0 ? used : here(p.locations.front());
}

OperandPlan operand_plan(const Call& call, std::size_t i, int devices,
                         const std::vector<std::int64_t>& grid, const Cells& cells,
                         IndexMaps& maps) {
  const Program& p = *call.program;
  const Window& w = p.operands[i];
  const bool input = i < call.inputs.size();
  const bool array = is_array(call, i);
  OperandPlan op;
  op.name = name_of(call, i);
  op.given = w.semaphores && input;
  op.handed_on = w.semaphores && !input;
  op.role = w.semaphores ? semaphore_role(w)
            : array      ? (input ? Role::hbm_in : Role::hbm_out)
            : input      ? Role::in
                         : Role::out;
  op.written = input && w.written;
  op.dtype = w.type.dtype;
  op.space = space_of(w);
  op.block = shape_of(w.bounds);
  op.used_at = first_use(p, w);
  op.at = input ? line_of_input(p, w) : here(line_of(p, w));
  const std::size_t number = input ? i : i - call.inputs.size();
  if (input || !call.results.empty()) {
    op.array = given_shape(p, w, input ? call.inputs[number] : call.results[number], op.block,
                           devices, (input ? "input " : "result ") + std::to_string(number));
  } else {
    op.array = w.whole ? op.block : inferred_shape(grid, w, maps);
  }
  op.by_element = w.by_element;
  op.pad_low = shape_of(w.pad_low);
  op.pad_high = shape_of(w.pad_high);
  if (op.block.rank == 0) op.array = op.block = {1};  // of one element, squeezed
  if (w.semaphores) {
    op.block = {};
    return op;
  }
  const auto squeezed = dropped_ones(op.block, w.type.shape);
  if (!squeezed) {
    throw InputError("bad-module", "the module makes no sense: a window of " + to_string(op.block) +
                                       " for " + to_string(w.type.shape));
  }
  for (const int d : *squeezed) op.squeezed[static_cast<std::size_t>(d)] = true;
  set_tile(op);
  op.buffers = w.slots;
  op.of_cell = !array && stays_in_cell(w, cells.parallel);
  op.outside = OperandPlan::Outside::undefined;
  op.returns = cells.lingers[i] ? OperandPlan::Returns::lingers
               : w.restored     ? OperandPlan::Returns::restored
                                : OperandPlan::Returns::rewritten;
  op.dense = true;
  // A grid of dynamic extents visits what its caller says; reads that are not checked are the
  // author's.
  op.by_data = w.written && (w.by_data || !call.bounds.empty() || call.unchecked_bounds);
  op.reached = op.role == Role::out || w.whole;
  return op;
}

OperandPlan scratch_plan(const Window& w, std::size_t i) {
  OperandPlan op;
  op.name = "scratch" + std::to_string(i);
  op.dtype = w.type.dtype;
  op.space = space_of(w);
  if (w.semaphores) {
    op.role = semaphore_role(w);
    op.array = {w.type.shape.elems()};
    return op;
  }
  op.role = w.any ? Role::hbm : w.smem ? Role::smem : Role::vmem;
  op.array = op.block = w.type.shape;
  op.buffers = 1;
  set_tile(op);
  op.dense = op.reached = true;
  return op;
}

Prepared prepare(const Call& call, const DeviceSpec& device, int devices) {
  check_arrays(call, devices);
  const Program& p = *call.program;
  check_compiles(call, device);
  Prepared r;
  r.grid = grid_of(call);
  const Cells cells = cells_of(call);
  Plan& plan = r.plan = plan_of(call, device, r.grid, cells);
  StepContext context;
  context.plan = &plan;
  Exec exec(p, nullptr, context);
  IndexMaps maps(call, r.grid, exec, 0);
  r.names.reserve(p.operands.size());
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    plan.operands.push_back(operand_plan(call, i, devices, r.grid, cells, maps));
    r.names.push_back(plan.operands.back().name);
  }
  for (const Alias& a : call.aliases) {
    const auto out = call.inputs.size() + static_cast<std::size_t>(a.result);
    if (a.input < 0 || static_cast<std::size_t>(a.input) >= call.inputs.size() || a.result < 0 ||
        out >= plan.operands.size())
      throw InputError("bad-input", "an alias of operands that there are not");
    plan.operands[out].alias = r.names[static_cast<std::size_t>(a.input)].c_str();
  }
  for (std::size_t i = 0; i < p.scratch.size(); ++i)
    plan.operands.push_back(scratch_plan(p.scratch[i], i));
  for (std::size_t i = 0; i < p.prefetched.size(); ++i) {
    const Type& t = p.prefetched[i].type;
    plan.scalars.push_back(
        {"prefetched" + std::to_string(i), t.dtype, t.shape.elems(), Here{}, -1});
    plan.writes_inputs = plan.writes_inputs || p.prefetched[i].written;
  }
  for (const OperandPlan& op : plan.operands)
    plan.writes_inputs = plan.writes_inputs || (op.written && op.role == Role::in);
  return r;
}

/// Dims of a window that end beyond its array's tiles: what moves is then told where it does. Up to
/// their end an array is padded.
struct EndsBeyond {
  std::int64_t last = 0;  ///< the last block of several
  std::int64_t any = 0;   ///< or the only one
};
EndsBeyond ends_beyond(const Plan& plan, const OperandPlan& op) {
  EndsBeyond n;
  if (op.by_element) return n;
  const NativeTile tile = array_tile(plan.device, op.dtype, op.array);
  for (int d = 0; d < op.array.rank; ++d) {
    const int behind = op.array.rank - 1 - d;
    const std::int64_t unit = op.array.rank == 1 ? line_elems(op.dtype, tile)
                              : behind == 0      ? tile.lanes
                              : behind == 1      ? tile.sublanes
                                                 : 1;
    const auto tiles = [&](std::int64_t extent) { return (extent + unit - 1) / unit; };
    if (tiles(op.array[d]) % tiles(op.block[d]) == 0) continue;
    ++n.any;
    n.last += op.array[d] > op.block[d] ? 1 : 0;
  }
  return n;
}

/// The rows of an array's tiles, if they are fewer than eight; 0.
std::int64_t few_rows(const OperandPlan& op) {
  constexpr std::int64_t kRows = 8;
  const int bits = bit_width(op.dtype);
  if (op.array.rank < 2 || op.by_element || (bits != 32 && bits != 16)) return 0;
  const std::int64_t rows = op.array[op.array.rank - 2];
  std::int64_t of_tile = 32 / bits;
  while (of_tile < std::min(rows, kRows)) of_tile *= 2;
  return of_tile < kRows ? of_tile : 0;
}

/// At what part of the grid's steps the window moves, where its map computes, of bounds or of what
/// prefetched arrays say; 0: it does not, or there are more steps than are predicted, or the map
/// faults, which the run says where it does.
double moved_by_map(const Window& w, const std::vector<std::int64_t>& grid, std::int64_t most_steps,
                    IndexMaps& maps) {
  const bool computes =
      std::ranges::any_of(w.transform.units, [](const UnitOp& op) { return !op.rows.empty(); });
  if (!computes) return 0;
  double all = 1;
  for (const std::int64_t extent : grid) all *= static_cast<double>(extent);
  if (all < 1 || all > static_cast<double>(most_steps)) return 0;
  const auto steps = static_cast<std::int64_t>(all);
  std::array<std::int64_t, kMaxRank> before{};
  std::int64_t moved = 0;
  try {
    for (std::int64_t s = 0; s < steps; ++s) {
      std::array<std::int64_t, kMaxRank> index{};
      maps.evaluate(w, ids_of(s, grid).data(), index.data());
      moved += s == 0 || index != before ? 1 : 0;
      before = index;
    }
  } catch (const KernelError&) {
    return 0;
  }
  return static_cast<double>(moved) / all;
}

/// What arrays say of the program's windows.
WindowArrays arrays_of(const Call& call, const std::vector<std::int64_t>& grid,
                       std::int64_t most_steps, Plan& plan) {
  const Program& p = *call.program;
  StepContext context;
  context.plan = &plan;
  Exec exec(p, nullptr, context);
  IndexMaps maps(call, grid, exec, 0);
  WindowArrays arrays;
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const OperandPlan& op = plan.operands[i];
    const bool windows = (op.role == Role::in || op.role == Role::out) && op.present;
    arrays.in_registers.push_back(windows && op.role == Role::in && op.array.elems() == 1);
    arrays.few_rows.push_back(windows ? few_rows(op) : 0);
    const EndsBeyond beyond = windows ? ends_beyond(plan, op) : EndsBeyond{};
    arrays.ragged.push_back(beyond.last);
    arrays.beyond.push_back(beyond.any);
    arrays.moved_by_map.push_back(
        beyond.any > 0 ? moved_by_map(p.operands[i], grid, most_steps, maps) : 0);
  }
  return arrays;
}

/// Gives the plan a model of the device's cores, if there is one; what they do at each step.
/// Of more than `most_steps` nothing is predicted.
std::vector<CoreUse> model_core(const Call& call, const std::vector<std::int64_t>& grid, int cores,
                                std::int64_t most_steps, Plan& plan) {
  const Program& p = *call.program;
  const UnitCosts* const costs = unit_costs(plan.device.jax.chip);
  const auto clock = plan.device.model.find("clock");
  if (costs == nullptr || !p.of_core || !p.subcores.empty() || clock == plan.device.model.end())
    return {};
  const WindowArrays arrays = arrays_of(call, grid, most_steps, plan);
  CountedCode c = counted(p, p.main, *costs, arrays);
  CoreModel& core = plan.core;
  core.name =
      "units of a " + costs->chip + " core, " +
      (costs->tried.empty() ? "fitted to schedules of " + costs->compiler
                            : "by the costs of TESSERA_UNIT_COSTS=" + printable(costs->tried) +
                                  ", not by tessera's own");
  core.clock_hz = clock->second.value;
  core.capacity = costs->capacity;
  std::int64_t steps = 1;
  for (const std::int64_t extent : grid) steps *= extent;
  const std::int64_t cells = std::max<std::int64_t>(1, plan.cells());
  const std::int64_t of_core =
      steps / cells * places_of(cells, 0, cores).second;  // the first has most
  PipelineCycles pipeline =
      pipeline_cycles(p, of_core, arrays, *costs, shared_grid(p, grid, cores));
  // Cores that share a grid look first whether they run the same kernel.
  constexpr std::int64_t kCompareKernels = 8;
  core.launch_cycles = pipeline.launch + (cores > 1 ? kCompareKernels : 0);
  core.step_cycles = pipeline.step;
  core.stays = std::move(pipeline.stays);
  const std::string kind = held_out_kind(p, steps);
  core.least = costs->held_out.at(kind).least;
  core.most = costs->held_out.at(kind).most;
  core.least_whole = costs->whole.at(kind).least;
  core.most_whole = costs->whole.at(kind).most;
  core.lines = std::move(c.lines);
  for (const std::string& row : c.unmeasured)
    core.unmeasured += (core.unmeasured.empty() ? "what nobody has measured: " : ", ") + row;
  return std::move(c.at);
}

/// A scalar as an array with its value for each device.
Array on_all_devices(const Array& scalar, int devices) {
  Array a(scalar.dtype(), {devices});
  for (int d = 0; d < devices; ++d) a.set(d, scalar.at(0));
  return a;
}

std::size_t dynamic_extents(const Program& p) {
  return static_cast<std::size_t>(std::count(p.grid.begin(), p.grid.end(), kDynamic));
}

}  // namespace

Array join_parts(std::vector<Array> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Shape shape = parts.front().shape();
  if (shape.rank == 0) shape.push_back(1);
  shape[0] *= static_cast<std::int64_t>(parts.size());
  Array whole = Array::undefined(parts.front().dtype(), shape);
  std::byte* to = whole.bytes();
  for (const Array& part : parts) {
    if (part.shape() != parts.front().shape())
      throw InputError("bad-input", "an array has another shape on every device");
    std::memcpy(to, part.bytes(), static_cast<std::size_t>(part.size_bytes()));
    to += part.size_bytes();
  }
  return whole;
}

DType main_dtype(const Program& p) {
  for (const Window& w : p.operands) {
    if (is_float(w.type.dtype)) return w.type.dtype;
  }
  return p.operands.empty() ? DType::f32 : p.operands.front().type.dtype;
}

std::size_t operands_before_inputs(const Program& p) {
  return dynamic_extents(p) + p.prefetched.size();
}

std::size_t operand_count(const Program& p) {
  return operands_before_inputs(p) + p.operands.size();
}

DType operand_dtype(const Program& p, std::size_t operand) {
  const std::size_t dynamic = dynamic_extents(p);
  if (operand < dynamic) return DType::i32;
  const std::size_t first = dynamic + p.prefetched.size();
  return operand < first ? p.prefetched[operand - dynamic].type.dtype
                         : p.operands[operand - first].type.dtype;
}

void retype_integers(Array& array, DType wanted) {
  if (!is_float(array.dtype()) && !is_float(wanted) &&
      bit_width(array.dtype()) == bit_width(wanted))
    array.retype(wanted);
}

Call make_call(const Program& p, std::vector<Array> operands,
               const std::vector<std::pair<std::size_t, int>>& aliases) {
  Call call;
  call.program = &p;
  const std::size_t dynamic = dynamic_extents(p);
  const std::size_t first = operands_before_inputs(p);
  if (operands.size() < first) {
    throw InputError("bad-input", p.name + " takes at least " + std::to_string(first) +
                                      " operands; " + std::to_string(operands.size()) +
                                      " are given");
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i >= dynamic) {
      (i < first ? call.prefetched : call.inputs).push_back(std::move(operands[i]));
      continue;
    }
    if (operands[i].elems() < 1)
      throw InputError("bad-input", "the extent of a dim of the grid is no number");
    call.bounds.push_back(static_cast<std::int64_t>(operands[i].at(0)));
  }
  for (const auto& [operand, result] : aliases) {
    if (operand >= first) call.aliases.push_back({static_cast<int>(operand - first), result});
  }
  return call;
}

std::vector<Shape> smallest_shapes(const Program& p) {
  if (dynamic_extents(p) > 0)
    throw InputError("bad-input",
                     p.name + " has a grid of dynamic extents, which its caller gives");
  Call call;
  call.program = &p;
  for (const Window& w : p.prefetched) call.prefetched.emplace_back(w.type.dtype, w.type.shape);
  const std::vector<std::int64_t> grid = grid_of(call);
  Plan plan;
  StepContext context;
  context.plan = &plan;
  Exec exec(p, nullptr, context);
  IndexMaps maps(call, grid, exec, 0);
  std::vector<Shape> shapes;
  for (const Window& w : p.operands) {
    if (w.by_data) throw InputError("bad-input", "data decides which blocks " + p.name + " takes");
    shapes.push_back(w.whole ? shape_of(w.bounds) : inferred_shape(grid, w, maps));
  }
  return shapes;
}

std::int64_t planned_vmem_bytes(const Call& call, const RunOptions& options) {
  int devices = 1;
  for (const int extent : options.mesh) devices *= extent;
  Prepared p = prepare(call, options.device, devices);
  finish_plan(p.plan);
  return p.plan.vmem_bytes();
}

RunResult run_call(const Call& call, const RunOptions& given) {
  RunOptions options = given;
  if (options.profile == Profile::gpu_hopper)
    throw InputError("bad-input",
                     std::string("--profile ") + name(options.profile) +
                         " is of C++ kernels: a module's elementary functions are the exact ones");
  int devices = 1;
  for (const int extent : options.mesh) devices *= extent;
  Prepared p = prepare(call, options.device, devices);
  if (!call.program->subcores.empty()) {
    options.cores = static_cast<int>(std::max<std::int64_t>(1, p.plan.cells()));
    options.trace_steps = 0;  // timelines and pictures know the cores of a grid, not subcores
  }
  if (call.program->asynchronous && !options.schedule) options.schedule = Schedule{};
  Inputs inputs;
  std::deque<Array> scalars;
  for (const Array& input : call.inputs) {
    const bool scalar = input.shape().rank == 0;
    if (scalar) scalars.push_back(on_all_devices(input, devices));
    inputs.push_back(scalar ? &scalars.back() : &input);
  }
  std::vector<CoreUse> core_use;
  if (options.trace_steps > 0)
    core_use = model_core(call, p.grid, options.cores, options.trace_steps, p.plan);
  RunResult result = run(ProgramKernel(call, std::move(p.grid), std::move(core_use)),
                         std::move(p.plan), inputs, options);
  if (options.dry && !call.program->counts_all) {
    result.no_work = "it multiplies by the explicit ops of a matrix unit";
    result.trace.work.clear();
  }
  return result;
}

}  // namespace tessera::program
