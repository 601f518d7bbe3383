#include "predict/gpu_step.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tessera::predict {

namespace {

double up(double n, double unit) { return std::ceil(n / unit); }

bool is_tile(const OperandPlan& op) {
  return op.present && (op.role == Role::in || op.role == Role::out || op.role == Role::accum ||
                        op.role == Role::vmem);
}

/// How often shared memory's banks are asked, instead of once, for 8 rows' pieces of 16 bytes at
/// one column: swizzled panels have them side by side.
double conflicts(double rows, double cols, DType dtype) {
  const cta::Tile tile =
      cta::tile_of(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), dtype);
  if (tile.panelled) return 1;
  const auto row = static_cast<std::int64_t>(cols) * bit_width(dtype) / 8;
  const std::int64_t places = cta::kPanelBytes / std::gcd(row, std::int64_t{cta::kPanelBytes});
  return 8. / static_cast<double>(std::clamp<std::int64_t>(places, 1, 8));
}

/// Bytes from row to row of a tile that lie side by side for one load (cuda/packing.hpp).
bool together(const cta::Tile& tile, double row_bytes, int bytes) {
  return tile.panelled || std::fmod(row_bytes, bytes) == 0;
}

/// Of a register in local memory.
constexpr double kSlotBytes = 4;
/// Where few CTAs have L2 for themselves, what they get of the bandwidth of local memory that an SM
/// gets while all want theirs: of what loops move, which wait for it, and of what is moved once.
constexpr double kFewAgain = 1.25;
constexpr double kFewOnce = 2;

}  // namespace

GpuSteps::GpuSteps(const Plan& plan, const cta::Launch& launch, const GpuModel& model, DType dtype,
                   const std::vector<Work>& works, std::optional<CompiledKernel> compiled)
    : plan_(plan),
      launch_(launch),
      model_(model),
      compiled_(std::move(compiled)),
      clock_(figure("clock")),
      groups_(launch.warpgroups),
      dtype_(dtype),
      tensor_rate_(plan.device.peak(dtype) / plan.device.cores),
      element_bytes_(bit_width(dtype) / 8) {
  for (const OperandPlan& op : plan.operands) {
    if (!is_tile(op)) continue;
    const double rows = op.rows;
    const double cols = op.cols;
    if (op.role == Role::accum && op.cols > 1) {
      ++sums_;
      if (rows * cols > sum_rows_ * sum_cols_) {
        sum_rows_ = rows;
        sum_cols_ = cols;
      }
    }
    if (op.role == Role::accum && op.cols == 1 && op.rows > 1) ++statistics_;
    if (plan.exchanges && op.rows == 1 && op.cols > 1 && op.role == Role::out) ++column_sums_;
    if (rows * cols > tile_rows_ * tile_cols_) {
      tile_rows_ = rows;
      tile_cols_ = cols;
    }
  }
  if (sums_ == 0) {
    sum_rows_ = tile_rows_;
    sum_cols_ = tile_cols_;
  }
  bool known = false;
  for (const Work& w : works) {
    // Of elements, not of rows.
    functions_ =
        functions_ || 2. * static_cast<double>(w.transcendentals) > tile_rows_ * tile_cols_;
    most_elements_ = std::max(most_elements_, w.elements);
    if (w.matrix_flops == 0) continue;
    multiplies_ = true;
    least_elements_ = known ? std::min(least_elements_, w.elements) : w.elements;
    least_functions_ = known ? std::min(least_functions_, w.transcendentals) : w.transcendentals;
    known = true;
  }
  // A step that computes an operand of its product has a third input for that, or one of another
  // type; what else it computes is not of every step.
  bool converted = false;
  bool scores = false;
  for (const OperandPlan& op : plan.operands) {
    if (op.role != Role::in || !op.present || op.rows == 1 || op.cols == 1) continue;
    ++inputs_;
    converted = converted || op.dtype != dtype;
  }
  for (const Work& w : works) scores = scores || w.held_product > 0;
  if (inputs_ < 3 && !converted && !scores) {
    least_elements_ = 0;
    least_functions_ = 0;
  }
  resident_ = resident_of(1);
}

double GpuSteps::rows_held(double rows) const {
  if (rows <= 1) return 1;
  if (launch_.mma_sync) return rows <= 8 ? 1 : 2 * up(rows, 16 * groups_);
  if (launch_.tensor_cores) return up(rows, 64 * groups_);
  return up(rows, 8 * groups_ / launch_.half_warps);
}
double GpuSteps::cols_held(double cols) const {
  if (cols <= 1) return 1;
  if (launch_.tensor_cores && !launch_.mma_sync) return up(cols, 2);
  if (launch_.mma_sync || launch_.half_warps == 1 || cols <= kReduceChunk) return 2 * up(cols, 32);
  return 32 * up(cols, static_cast<double>(kReduceChunk) * launch_.half_warps);
}

std::pair<int, int> GpuSteps::resident_between() const {
  constexpr double kOff = 0.15;  // as three in four of 102 kernels of rows and elements
  return {resident_of(1 + kOff), resident_of(1 - kOff)};
}

int GpuSteps::resident_of(double of_estimate) const {
  // Launch bounds say what nvcc may use for these; the others it gives what they want.
  if (launch_.tensor_cores || launch_.half_warps > 1 || launch_.at_least > 1)
    return launch_.resident;
  const cta::Sm& sm = cta::kSm90;
  // Sums of columns are made of a second tile; addresses of a third input have registers too.
  constexpr double kThirdInput = 14;
  const double each = figure("registers_per_element") * (column_sums_ > 0 ? 2 : 1) +
                      (functions_ ? figure("registers_per_function") : 0);
  const double wanted = of_estimate * (figure("registers_base") + (inputs_ > 2 ? kThirdInput : 0) +
                                       each * held(tile_rows_, tile_cols_));
  constexpr double kUnit = 8;  // in which they are given out
  const double registers = compiled_
                               ? kUnit * up(compiled_->registers, kUnit)
                               : std::min<double>(kUnit * up(wanted, kUnit), launch_.registers);
  const double by_registers = std::floor(sm.registers / (registers * launch_.threads));
  const std::int64_t by_memory =
      1 + (sm.shared_bytes - launch_.shared_bytes) / (launch_.shared_bytes + sm.reserved_bytes);
  return std::max(1, static_cast<int>(std::min<double>(
                         {static_cast<double>(by_memory), by_registers,
                          std::floor(static_cast<double>(sm.threads) / launch_.threads)})));
}

std::vector<StepProduct> GpuSteps::products_of(const Work& work) const {
  std::vector<StepProduct> products;
  if (work.matrix_flops == 0 || work.products == 0) return products;
  const auto multiplied = static_cast<double>(work.matrix_flops) / 2;
  const auto held_elems = static_cast<double>(work.held_product);
  const double rows = sum_rows_;
  const double cols = sum_cols_;
  if (held_elems > 0 && sums_ > 0 && work.products > sums_) {
    // Scores, then sums of what was made of them: attention and its gradients.
    const double keys = held_elems / rows;
    const auto scores = static_cast<double>(work.products - sums_);
    const double summed = sums_ * rows * cols * keys;
    const double depth = std::max(1., (multiplied - summed) / (scores * rows * keys));
    products.push_back(
        {.rows = rows, .cols = keys, .depth = depth, .times = scores, .right_turned = true});
    products.push_back({.rows = rows,
                        .cols = cols,
                        .depth = keys,
                        .times = static_cast<double>(sums_),
                        .left_held = true});
    return products;
  }
  StepProduct p{.rows = rows, .cols = cols, .times = static_cast<double>(work.products)};
  p.depth = std::max(1., multiplied / (rows * cols * p.times));
  int left = 0;
  int right = 0;
  int left_straight = 0;
  int right_straight = 0;
  std::vector<const OperandPlan*> inputs;
  for (const OperandPlan& op : plan_.operands) {
    if (op.role != Role::in || !op.present || op.rows == 1 || op.cols == 1) continue;
    inputs.push_back(&op);
    const auto is = [&](double r, double c) { return op.rows == r && op.cols == c; };
    const bool as_left = is(p.rows, p.depth) || is(p.depth, p.rows);
    const bool as_right = is(p.depth, p.cols) || is(p.cols, p.depth);
    left += as_left && !as_right ? 1 : 0;
    right += as_right && !as_left ? 1 : 0;
    left_straight += is(p.rows, p.depth) ? 1 : 0;
    right_straight += is(p.depth, p.cols) ? 1 : 0;
  }
  // A step that computes elements besides makes an operand of several inputs; where square blocks
  // do not tell which, arrays alike do: a left operand's come first.
  const auto elements = static_cast<double>(least_elements_);
  if (elements > 0) {
    if (left == right && inputs.size() > 2) {
      const bool first = inputs[0]->array == inputs[1]->array;
      const bool second = inputs[1]->array == inputs[2]->array;
      left += first && !second ? 1 : 0;
      right += second && !first ? 1 : 0;
    }
    p.left_held = left > right || (left == right && elements >= p.rows * p.depth &&
                                   std::fmod(elements, p.rows * p.depth) == 0);
    p.right_held = !p.left_held && elements >= p.depth * p.cols;
    p.computed = p.left_held || p.right_held;
  }
  p.left_turned = !p.left_held && left_straight == 0;
  p.right_turned = !p.right_held && right_straight == 0;
  // Of square blocks nothing tells: a gradient's product has its other operand turned.
  if (p.left_held && p.cols == p.depth) p.right_turned = true;
  if (p.right_held && p.rows == p.depth) p.left_turned = true;
  products.push_back(p);
  return products;
}

double GpuSteps::product_seconds(const Work& work) const {
  const auto flops = static_cast<double>(work.matrix_flops);
  if (!launch_.tensor_cores) return flops / (2. * 128 * clock_);
  const double computed = flops / tensor_rate_;
  if (launch_.mma_sync) return computed;
  // Tensor cores wait for operands where shared memory gives them more slowly: a right one whole
  // for every 64 rows, a left one for every piece of columns.
  constexpr double kBytes = 2;  // of bf16 and f16
  const double right = flops / 2 / 64;
  const double read = kBytes * (right + static_cast<double>(work.left_elements));
  return std::max(computed, read / figure("operand_bandwidth"));
}

GpuSteps::Spilled GpuSteps::spilled(const Work& work) const {
  Spilled s;
  const double threads = 128.0 * groups_;
  // A product that is no accumulator is held in f32; of a gradient two, the first one partly as
  // what the next ones read; whole where the gradient has one sum, and less beside them.
  const bool gradient = work.products > sums_ + 1;
  const bool one_sum = gradient && sums_ == 1;
  double sums = figure(one_sum ? "gradient_registers" : "registers_used");
  for (const OperandPlan& op : plan_.operands) {
    if (op.role != Role::accum || !op.present) continue;
    const double elems = op.rows * static_cast<double>(op.cols);
    sums += std::max(1.0, elems / threads);
    if (elems > s.sum_elems) {
      s.sum_elems = elems;
      s.sum_cols = op.cols;
    }
  }
  const double tiles = one_sum ? 2 : gradient ? figure("gradient_tiles") : 1;
  const double live = sums + tiles * static_cast<double>(work.held_product) / threads;
  s.sums = std::max(0.0, sums - launch_.registers);
  s.all = std::max(0.0, live - launch_.registers) - s.sums;
  return s;
}

double GpuSteps::of_all_ctas(double places) const {
  return places *
         std::min(static_cast<double>(plan_.cells()), 1.0 * resident_ * plan_.device.cores);
}

double GpuSteps::local_rate(double most_of_many) const {
  const auto cells = static_cast<double>(plan_.cells());
  return figure("local_bandwidth") * std::clamp(plan_.device.cores / cells, 1., most_of_many);
}

/// L1 is what shared memory leaves, less than what a step spills: local memory is L2's, and DRAM's
/// where all CTAs have more of it than L2 holds. `places`: of a CTA.
GpuSteps::Local GpuSteps::local(double bytes, double places, double most_of_many) const {
  const auto cells = static_cast<double>(plan_.cells());
  const double all = of_all_ctas(places);
  const double rate = local_rate(most_of_many);
  // Each is one SM's: L2 has it once.
  const double beyond = all > 0 ? std::max(0.0, 1 - 2 * figure("l2_kept") / all) : 0;
  const double dram = plan_.device.hbm_bytes_per_s * figure("hbm_efficiency") /
                      std::min<double>(cells, plan_.device.cores);
  // As much is written as is read.
  return {bytes * ((1 - beyond) / rate + beyond / dram), bytes / 2 * beyond, all};
}

/// What lies in local memory because the registers do not hold it: accumulators for every
/// instruction of a product, other tiles a few times a step.
GpuSteps::Local GpuSteps::wgmma_spills(const Work& work) const {
  const Spilled s = spilled(work);
  constexpr double kDepth = 16;  // of an instruction
  constexpr double kCols = 256;  // likewise
  const double threads = 128.0 * groups_;
  if (s.sums + s.all <= 0) {
    if (work.held_product > 0 || !functions_ || work.elements == 0 || s.sum_cols <= kCols)
      return {};
    // Half of the sums again, as what becomes of them; those that find no register are stored once
    // and loaded twice.
    const double lacking =
        1.5 * s.sum_elems / threads + figure("registers_used") - launch_.registers;
    const double bytes = kSlotBytes * std::max(0., lacking) * threads;
    return local(3 * bytes, bytes, kFewOnce);
  }
  // Two instructions side by side: what the second sums into is put away for every one.
  const double second = std::max(0., 1 - kCols / s.sum_cols) * s.sum_elems / threads;
  const double instructions = static_cast<double>(work.matrix_flops) / (2 * kDepth * s.sum_elems);
  double places = s.sums > 0 ? std::max(s.sums, second) : 0;
  double slots = places * instructions;
  if (work.held_product > 0) {
    // Beside scores accumulators wait for their product.
    slots = places = (s.sums + s.all) * figure("spill_rounds");
  }
  Local all = local(2 * kSlotBytes * slots * threads, kSlotBytes * places * threads, kFewAgain);
  if (work.held_product == 0) {
    // An op of what follows a sum goes over all of it.
    const double rounds =
        figure("element_rounds") * static_cast<double>(work.elements) / s.sum_elems;
    const Local after =
        local(2 * kSlotBytes * s.sums * rounds * threads, kSlotBytes * places * threads, kFewOnce);
    all.seconds += after.seconds;
    all.dram_read += after.dram_read;
  }
  return all;
}

StepTime GpuSteps::wgmma_time(const Work& work, double side_by_side) const {
  const double products = product_seconds(work);
  // Rows that a warpgroup has and an operand in registers has not take as long.
  double padded = 1;
  for (const StepProduct& p : products_of(work)) {
    if (p.right_held) padded = held(p.depth, p.cols) * 128 * groups_ / (p.depth * p.cols);
  }
  // What every step does is interleaved with products; what some do besides (masks, quotients, a
  // norm) has code of its own and nothing beside it, but for what goes with a store: a cast and one
  // op more.
  const std::int64_t steady = std::min(work.elements, least_elements_);
  const std::int64_t steady_functions = std::min(work.transcendentals, least_functions_);
  const double stored = work.held_product > 0 ? 0 : 2 * sum_rows_ * sum_cols_;
  const double rare_elements = static_cast<double>(work.elements - steady) - stored;
  double rare = 0;
  if (rare_elements > 0) {
    const auto functions = static_cast<double>(work.transcendentals - steady_functions);
    // An op beside statistics of rows (a loss) is fewer instructions than one of a norm or a mask.
    const bool statistics = work.held_product == 0 && statistics_ > 0;
    const char* const each = statistics ? "statistics_element_seconds" : "rare_element_seconds";
    rare = (work.held_product > 0 ? 0 : figure("rare_latency")) +
           (rare_elements * figure(each) + functions * figure("rare_function_seconds")) / groups_;
  }
  const std::int64_t interleaved = rare_elements > 0 ? steady : work.elements;
  const double elementwise =
      padded * static_cast<double>(interleaved) * figure("seconds_per_element") +
      static_cast<double>(steady_functions) * figure("seconds_per_fast_function");
  const double latency =
      figure("step_latency") + static_cast<double>(work.products) * figure("product_latency");
  const double own = latency + (products + elementwise) / groups_ +
                     figure("contention") * (groups_ - 1) * products / groups_;
  // Scores are a warpgroup's own, and issue while others wait; what makes an operand is handed over
  // between barriers.
  const double overhead = figure(work.held_product > 0 ? "score_overhead" : "element_overhead");
  const double all = figure("product_overhead") * products + overhead * elementwise +
                     groups_ * figure("group_seconds");
  double handed = 0;
  for (const StepProduct& p : products_of(work)) {
    Cycles c;
    if (p.right_held) {
      add_handed(p, c);
      c.issue += held(p.depth, p.cols) * figure("right_made_cycles");
    }
    handed += p.times * cycles(groups_ * c.issue + c.waits);
  }
  StepTime t;
  Cycles beside;  // products hide it
  const Local spills = compiled_ ? add_code(work, side_by_side, beside) : wgmma_spills(work);
  t.seconds = side_by_side * (std::max(own, all) + rare + handed + spills.seconds);
  t.local_dram = spills.dram_read;
  t.local_bytes = spills.bytes;
  // They take turns at the tensor cores.
  t.lag = products * (groups_ - 1) / groups_;
  return t;
}

void GpuSteps::add_handed(const StepProduct& p, Cycles& c) const {
  // A barrier of more warps waits for more of them.
  const double sync =
      launch_.tensor_cores ? groups_ * figure("mma_sync_cycles") : figure("sync_cycles");
  if (p.right_held || (p.left_held && launch_.mma_sync)) {
    const double left_room = cta::kHandBytes / (p.rows * static_cast<double>(element_bytes_));
    const double right_room = cta::kExchangeBytes / (p.cols * static_cast<double>(element_bytes_));
    double room = p.depth;
    if (p.left_held && launch_.mma_sync) room = std::min(room, std::floor(left_room / 16) * 16);
    if (p.right_held) room = std::min(room, std::floor(right_room / 2) * 2);
    const double parts = up(p.depth, std::max(1., room));
    c.waits += 2 * parts * sync;
    if (p.left_held) c.waits += parts * figure("hand_wait");
    const double elems = p.left_held ? held(p.rows, p.depth)
                                     : held(p.depth, p.cols) * (launch_.mma_sync ? 1 : parts);
    // Of what mma.sync's threads make, that is part of making it.
    const bool made = p.computed && launch_.mma_sync;
    if (!made) c.issue += elems * figure(p.right_held ? "right_handed_cycles" : "handed_cycles");
    c.memory += elems / 2;
    // Its inputs come in pairs, a row to four threads.
    if (p.computed && launch_.mma_sync) {
      const double rows = p.left_held ? p.rows : p.depth;
      const double cols = p.left_held ? p.depth : p.cols;
      c.memory += held(rows, cols) * conflicts(rows, cols, dtype_) * figure("matrix_load_cycles");
    }
  }
}

void GpuSteps::add_fma(const StepProduct& p, Cycles& c) const {
  const double h = rows_held(p.rows);
  const double w = cols_held(p.cols);
  const bool whole = std::fmod(p.cols, 32. * launch_.half_warps) == 0;
  const double fours = p.depth / 4;
  Cycles one;
  one.issue = p.depth * h * w * figure("fma_cycles");
  double loads = 0;
  if (p.left_held) {
    loads += p.depth * h;
    one.memory += p.depth * h * figure("shuffle_cycles");
    one.waits += p.depth / 2 * figure("held_wait");
    // What follows from other products comes later.
    if (!p.right_turned) one.waits += p.depth / 2 * figure("scored_wait");
  } else {
    const double n = p.left_turned ? p.depth * h : fours * h;
    loads += n;
    one.memory += n * figure("left_load_cycles") * (p.left_turned ? 0.5 : 1);
    one.waits += fours * figure("load_wait");
  }
  if (p.right_turned) {
    // Threads side by side read rows that lie one below the other.
    const double n = p.left_held ? p.depth * w : fours * w;
    loads += n;
    one.memory += n * figure("turned_load_cycles");
    // Beside shuffles they come one by one, each from an address of its own.
    if (p.left_held) one.waits += n * figure("turned_load_wait");
  } else {
    const double n = p.depth * w / (whole ? 2 : 1);
    loads += n;
    one.memory += n * figure("right_load_cycles");
  }
  one.issue += loads + fours * figure("loop_cycles");
  add_handed(p, one);
  c.issue += p.times * one.issue;
  c.memory += p.times * one.memory;
  c.waits += p.times * one.waits;
}

void GpuSteps::add_mma(const StepProduct& p, Cycles& c) const {
  const double blocks = p.rows <= 8 ? 1 : rows_held(p.rows) / 2;
  const double groups = cols_held(p.cols) / 2;
  const double steps = up(p.depth, 32);
  const double halves = up(p.depth, 16);
  // Rows of a multiple of 16 k's, or the two operands are read element by element.
  const bool pieces = std::fmod(p.depth, 16) != 0 || std::fmod(p.cols, 8) != 0;
  Cycles one;
  const double products = halves * blocks * groups;
  const double left = halves * blocks;
  const double right = halves * groups / 2;
  one.tensor = products * figure("mma_cycles");
  one.issue = products + steps * figure("loop_cycles");
  // Where a step is few instructions, loads of several are on their way, from addresses that are
  // known.
  const bool unrolled = blocks * groups <= 4;
  const double piece = figure("piece_cycles") / (unrolled ? 3 : 1);
  const double of_left = pieces && !p.left_held ? piece : 1;
  const double of_right = pieces ? piece : 1;
  one.issue += left * of_left + right * of_right;
  const double left_banks = p.left_held     ? 1
                            : p.left_turned ? conflicts(p.depth, p.rows, dtype_)
                                            : conflicts(p.rows, p.depth, dtype_);
  const double right_banks = p.right_held     ? 1
                             : p.right_turned ? conflicts(p.cols, p.depth, dtype_)
                                              : conflicts(p.depth, p.cols, dtype_);
  one.memory += 4 * figure("matrix_load_cycles") *
                (left * (of_left > 1 ? 2 : left_banks) + right * (of_right > 1 ? 2 : right_banks));
  if (!unrolled) one.waits += figure("mma_load_wait") * 4 * groups_ * one.memory;
  one.waits += halves * figure("mma_wait");
  add_handed(p, one);
  c.issue += p.times * one.issue;
  c.memory += p.times * one.memory;
  c.tensor += p.times * one.tensor;
  c.waits += p.times * one.waits;
}

void GpuSteps::add_elementwise(const Work& work, Cycles& c) const {
  double rows = tile_rows_;
  double cols = tile_cols_;
  if (work.held_product > 0 && sums_ > 0) {
    rows = sum_rows_;
    cols = static_cast<double>(work.held_product) / sum_rows_;
  }
  bool made = false;
  for (const StepProduct& p : products_of(work)) {
    if (work.held_product > 0 || !(p.left_held || p.right_held)) continue;
    made = p.computed && launch_.mma_sync;
    rows = p.right_held ? p.depth : p.rows;
    cols = p.right_held ? p.cols : p.depth;
  }
  const double elems = rows * cols;
  const double of_thread = held(rows, cols) / elems;
  auto elements = static_cast<double>(work.elements);
  const auto functions = static_cast<double>(work.transcendentals);
  // f32 becomes 16 bits by one instruction for two elements.
  // Beside a product's sums few registers are left to work with.
  const char* const each = launch_.mma_sync         ? "mma_element_cycles"
                           : multiplies_            ? "fma_element_cycles"
                           : bit_width(dtype_) < 32 ? "half_element_cycles"
                                                    : "element_cycles";
  // What follows a product (a loss) is half waits, which other warps hide.
  const bool after = multiplies_ && !launch_.fast_functions && work.held_product == 0;
  const char* const function = launch_.fast_functions ? "fast_function_cycles"
                               : after                ? "after_function_cycles"
                               : multiplies_          ? "fma_function_cycles"
                                                      : "exact_function_cycles";
  if (made) {
    // All that becomes of an element on its way from two inputs to the product, and what a step
    // of such has besides.
    c.issue += figure("made_issue") + held(rows, cols) * figure("made_cycles");
    elements = std::max(0., elements - static_cast<double>(least_elements_));
  }
  if (after) c.waits += functions * of_thread * figure("after_function_wait");
  c.issue += elements * of_thread * figure(each) + functions * of_thread * figure(function);
  c.waits += (elements + functions * 4) * of_thread * figure("element_wait");
  // Ops on one column: rows are reduced.
  const bool reduces =
      statistics_ > 0 || (work.matrix_flops == 0 && std::fmod(elements, elems / 2) > 0);
  double reductions = reduces ? 2 : 0;
  if (statistics_ > 0) reductions = work.matrix_flops > 0 && elements >= elems ? statistics_ : 0;
  const double h = rows_held(rows);
  if (reductions > 0) {
    const double chunks =
        launch_.mma_sync ? 1 : up(cols, static_cast<double>(kReduceChunk) * launch_.half_warps);
    c.issue += reductions * h * chunks * 20;
    if (launch_.mma_sync)
      c.waits += reductions * h * 2 * groups_ * figure("mma_sync_cycles");
    else
      c.waits +=
          reductions * (figure("reduction_wait") + h * chunks * figure("reduction_row_wait"));
    if (launch_.half_warps > 1) c.waits += reductions * 2 * figure("sync_cycles");
  }
  // Columns are reduced where most is computed: of a row of steps in the last.
  if (work.matrix_flops == 0 && column_sums_ > 0 && work.elements > 0 &&
      work.elements == most_elements_) {
    for (int n = 0; n < column_sums_; ++n) add_column_sum(rows, cols, c);
  }
}

void GpuSteps::add_column_sum(double rows, double cols, Cycles& c) const {
  if (rows == 1) return;
  const double threads = 128 * groups_;
  const double room = cta::kExchangeBytes / 4.;
  const double of_row = 16. * launch_.half_warps;
  const double fit = std::floor(room / rows / (2 * of_row)) * 2;
  if (rows <= kReduceLanes && fit > 0) {
    // Every element is handed over once, a group of columns at a time; threads reduce one each.
    const double group = std::min(fit, cols_held(cols));
    const double passes = up(cols_held(cols), group);
    c.waits += passes * 3 * figure("sync_cycles") + held(rows, cols) * figure("column_cycles");
    c.issue += passes * up(group * of_row, threads) * 2 * rows;
    return;
  }
  // Lanes of pieces of columns are cleared, filled and halved; each piece makes all elements that a
  // thread holds anew: tiles wait until somebody wants them.
  const double wide = std::min(cols, room / kReduceLanes);
  const double passes = up(cols, wide) * up(rows, kReduceChunk);
  const double rounds = up(rows, kReduceLanes);
  c.waits += passes * (7 + rounds) * figure("sync_cycles");
  c.waits += passes * held(rows, cols) * rounds * figure("column_cycles");
  c.issue += passes * 5 * kReduceLanes * wide / threads * 2;
}

GpuSteps::Local GpuSteps::add_spills(const Work& work, Cycles& c) const {
  double sums = figure("registers_besides");
  for (const OperandPlan& op : plan_.operands) {
    if (op.role == Role::accum && op.present) sums += held(op.rows, op.cols);
  }
  double depth = 0;
  double tile = 0;
  for (const StepProduct& p : products_of(work)) {
    depth += p.times * p.depth;
    if (sums_ == 0 || work.held_product == 0 || p.left_held) continue;
    const bool halves = launch_.mma_sync && p.times > 1;  // of which one becomes 16 bits
    tile = (halves ? figure("gradient_tiles") : p.times) * held(p.rows, p.cols);
  }
  // mma.sync's fragments of the rows, of two halves of a step.
  if (launch_.mma_sync && work.held_product > 0) tile += 4 * rows_held(sum_rows_);
  // Beside sums of columns more is held; one row has none to make.
  const bool sums_columns = column_sums_ > 0 && tile_rows_ > 1;
  if (work.matrix_flops == 0)
    tile = figure(sums_columns ? "column_tiles" : "row_tiles") * held(tile_rows_, tile_cols_);
  const double of_sums = std::max(0., sums - launch_.registers);
  double of_tiles = std::max(0., sums + tile - launch_.registers) - of_sums;
  if (compiled_ && compiled_->local_bytes == 0) of_tiles = 0;
  // A loop over k's, four at a time or the 32 of two instructions, brings back what it does not
  // find, and puts it away.
  const double rounds = depth / (launch_.mma_sync ? 32 : 4);
  // As a warp's share of the bandwidth. FMAs move a sum a few times in a round.
  const double places =
      kSlotBytes * of_sums * (launch_.mma_sync ? 1 : figure("spill_rounds")) * 128 * groups_;
  const Local sums_there = local(2 * rounds * places, places, kFewAgain);
  c.memory += sums_there.seconds * clock_ / (4 * groups_);
  const double held_there = kSlotBytes * of_tiles * 128 * groups_;
  if (column_sums_ == 0) {
    // While scores are made the sums of what follows are put away, all at once.
    const bool attends = !launch_.mma_sync && work.held_product > 0 && work.products == sums_ + 1;
    const double beside = attends ? static_cast<double>(work.held_product) / sum_rows_ / 4 : rounds;
    c.memory += of_tiles * (1 + beside) * figure("tile_spill_cycles");
    return {0, sums_there.dram_read, of_all_ctas(places + held_there)};
  }
  const Local tiles_there = local(2 * held_there, held_there, kFewAgain);
  c.memory += tiles_there.seconds * clock_ / (4 * groups_);
  // Loads are waited for, stores are not.
  c.waits += tiles_there.seconds * clock_ / 2;
  return {tiles_there.seconds, sums_there.dram_read + tiles_there.dram_read,
          sums_there.bytes + tiles_there.bytes};
}

double GpuSteps::early_loads() const {
  constexpr double kMostGroups = 4;  // whose threads have the fewest registers
  if (column_sums_ == 0 || launch_.half_warps == 1 || tile_rows_ == 1 || groups_ < kMostGroups)
    return 0;
  // Of fourteen kernels: a tile where few rows lie side by side, half of one where many do.
  const double tiles = launch_.half_warps > 4 ? 1 : 0.5;
  return kSlotBytes * tiles * held(tile_rows_, tile_cols_) * 128 * groups_;
}

double GpuSteps::code_bytes() const {
  // Of what follows a sum, for each element that a thread has: up to so many lie in loops.
  constexpr double kOfElement = 850;
  constexpr double kFew = 64;
  const bool wgmma = launch_.tensor_cores && !launch_.mma_sync;
  const double elems = sum_rows_ * sum_cols_ / (128 * groups_);
  return wgmma && functions_ ? kOfElement * std::max(0., elems - kFew) : 0;
}

double GpuSteps::busy_warps(const Work& work) const {
  if (launch_.mma_sync || work.matrix_flops > 0) return 4 * groups_;
  const double rows = std::min(tile_rows_, 8 * groups_ / launch_.half_warps);
  return std::ceil(rows * launch_.half_warps / 2);
}

double GpuSteps::beside_others(const Cycles& c, double warps, double before) {
  const double demands[] = {c.issue, c.tensor};
  double queued[] = {0, 0};
  double cycle = 0;
  const auto whole = static_cast<int>(std::ceil(warps));
  for (int n = 1; n <= whole; ++n) {
    const double there = std::min<double>(n, warps);
    double stays[2];
    cycle = before + c.waits;
    for (int k = 0; k < 2; ++k) cycle += stays[k] = demands[k] * (1 + queued[k]);
    for (int k = 0; k < 2; ++k) queued[k] = cycle > 0 ? there * stays[k] / cycle : 0;
  }
  return std::max({cycle, warps * c.issue, warps * c.tensor}) - before;
}

StepTime GpuSteps::time_of(const Work& work, double side_by_side, const Beside& beside) const {
  if (launch_.tensor_cores && !launch_.mma_sync) {
    StepTime t = wgmma_time(work, side_by_side);
    // Beside scores they are hidden.
    if (work.held_product == 0)
      t.seconds += side_by_side * cycles(beside.arrivals * figure("wgmma_arrival_cycles"));
    return t;
  }
  Cycles c;
  for (const StepProduct& p : products_of(work)) {
    if (launch_.mma_sync)
      add_mma(p, c);
    else
      add_fma(p, c);
  }
  add_elementwise(work, c);
  c.issue += beside.stores * clock_ / groups_;
  StepTime t;
  const Local spills =
      compiled_ && multiplies_ ? add_code(work, side_by_side, c) : add_spills(work, c);
  t.local_dram = spills.dram_read;
  t.local_bytes = spills.bytes;
  t.beside_fetch = spills.seconds;
  c.waits += figure(launch_.mma_sync ? "mma_step_cycles" : "step_cycles");
  if (launch_.mma_sync) c.issue += figure("mma_step_issue");
  if (multiplies_) c.waits += beside.arrivals * figure("arrival_cycles");
  // A quarter of an SM has a warp of each warpgroup. Of few rows some hold nothing: rows lie in
  // warps one after the other and warps in quarters in turn, so that those of one row are all in
  // the first quarter, which alone is faster than beside others.
  const double ctas = side_by_side * groups_;
  const double busy = busy_warps(work);
  const double warps = side_by_side * up(busy, 4);
  if (busy < 4) c.issue *= 1 - (1 - figure("quarter_alone")) * (4 - busy) / 3;
  constexpr double kNorm = 4;
  const auto both = [](double a, double b) {
    return std::pow(std::pow(a, kNorm) + std::pow(b, kNorm), 1 / kNorm);
  };
  t.seconds = cycles(both(beside_others(c, warps, beside.before * clock_), 4 * ctas * c.memory));
  return t;
}

double GpuSteps::store_seconds(const OperandPlan& op, bool ragged) const {
  const int last = op.array.rank - 1;
  const bool one_row = last < 0 || op.array.elems() == op.array[last];
  const std::int64_t pitch =
      last < 0 ? 0 : packed_bytes(op.dtype, one_row ? op.block[last] : op.array[last]);
  // Where all columns are there and rows begin at multiples of 16 bytes, a quad of wgmma's threads
  // fills sectors; where pairs begin, two of them do half; else elements go one by one, a quarter.
  const bool wgmma = launch_.tensor_cores && !launch_.mma_sync;
  const std::int64_t pair = packed_bytes(op.dtype, 2);
  const int rows_span = launch_.half_warps > 1 ? kReduceChunk * launch_.half_warps : 32;
  const int span = wgmma ? 8 : launch_.mma_sync ? 32 : rows_span;
  const bool pairs = !ragged && pitch % pair == 0 && (op.cols == 1 || op.cols % span == 0);
  const bool eights = wgmma && pairs && bit_width(op.dtype) == 16 && pitch % 16 == 0 &&
                      op.cols % 32 == 0 && op.rows > 1;
  double pieces = pairs ? 1 : figure("single_stores");
  if (wgmma && !eights) pieces *= figure("pair_stores");
  // Rows that begin within a sector: three where there would be two.
  if (eights && pitch % 32 != 0) pieces *= 1.5;
  // All are asked for their place, those that are there are stored.
  if (ragged) {
    const auto there = static_cast<double>(op.array[last] % op.block[last]);
    pieces *= (1 + there / static_cast<double>(op.block[last])) / 2;
  }
  const double each = figure(launch_.mma_sync       ? "mma_store_cycles"
                             : launch_.tensor_cores ? "store_cycles"
                             : multiplies_          ? "fma_store_cycles"
                                                    : "simt_store_cycles");
  const double seconds = groups_ * held(op.rows, op.cols) * cycles(each * pieces);
  if (!wgmma) return seconds;
  // Accumulators of tensor cores are waited for, rounded and exchanged first; sums beside
  // statistics of rows are divided by one, a quotient after the other.
  const bool quotients = statistics_ > 0 && op.rows == sum_rows_ && op.cols == sum_cols_;
  return seconds + figure("store_latency") +
         (quotients ? held(op.rows, op.cols) * cycles(figure("quotient_cycles")) : 0);
}

double GpuSteps::fetch_seconds(const OperandPlan& op, bool shifts) const {
  const cta::Tile tile = cta::tile_of(op.rows, op.cols, op.dtype);
  const double size = std::max(8, bit_width(op.dtype)) / 8.;
  const double vector = together(tile, op.cols * size, 16) ? 16 / size : 1;
  const double chunks = op.rows * up(op.cols, vector);
  const double at_a_time = launch_.tensor_cores ? 1 : 2;
  const double issued = up(chunks, cta::kProducers) * figure("thread_issue");
  // What every cell reads is near.
  const double latency = figure("thread_latency") * (op.blocks.elems() == 1 ? 0.5 : 1);
  // Shifted loads are waited for round by round; others are copied while the next ones start.
  const double rounds = shifts && vector > 1 ? up(chunks, at_a_time * cta::kProducers) : 1;
  return issued + rounds * latency;
}

}  // namespace tessera::predict
