// What a step's code moves to and from local memory, by nvcc's code (predict/gpu_code.hpp).
//
// The figures below were chosen beside 150 runs of 90 kernels that spill more than 32 bytes a
// thread, and 36 of the 24 that spill most: predict/ACCURACY_CUDA.md.
#include <algorithm>
#include <cmath>

#include "predict/gpu_step.hpp"

namespace tessera::predict {

namespace {

/// L1 and shared memory of an SM, and what of it CTAs may have (CUDA C++ Programming Guide,
/// "Compute Capability 9.x").
constexpr double kKiB = 1024;
constexpr double kBoth = 256 * kKiB;
constexpr double kCarved[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
/// Of L1, what wgmma's kernels find there again.
constexpr double kOfWgmma = 0.8;
/// Where few CTAs have L2 for themselves; and what warps get that wait beside others.
constexpr double kFew = 1.7;
constexpr double kBeside = 2;
/// Of the whole chip, what is read and what is written.
constexpr double kL2BytesPerSecond = 11e12;
/// Of what moves, as one warp waits for it; of an epilogue, whose loads all are waited for.
constexpr double kWaits = 2;
constexpr double kAfter = 2;
/// Cycles of L1's port for an instruction of a warp; and before a loop's loads are there.
constexpr double kPort = 1.5;
constexpr double kLoopWait = 225;
/// Beside scores code stands for masks that most steps have not: at most so many times the stack.
constexpr double kOfStack = 3;
/// k's of an instruction of a tensor core.
constexpr double kDepth = 16;

}  // namespace

double GpuSteps::products_in(const CodePart& part) const {
  return launch_.mma_sync ? part.mmas : launch_.tensor_cores ? part.wgmmas : part.fmas;
}

double GpuSteps::products_of_k(const StepProduct& p) const {
  if (launch_.mma_sync)
    return (p.rows <= 8 ? 1 : rows_held(p.rows) / 2) * cols_held(p.cols) / 2 / kDepth;
  constexpr double kMostCols = 256;
  if (launch_.tensor_cores)
    return std::ceil(p.rows / (64 * groups_)) * std::ceil(p.cols / kMostCols) / kDepth;
  return held(p.rows, p.cols);
}

std::vector<double> GpuSteps::trips(const Work& work) const {
  const std::vector<StepProduct> products = products_of(work);
  if (products.empty()) return std::vector<double>(compiled_->loops.size(), 0);
  // Scores have a loop each time that they are made; sums of what was made of them, whose operand
  // comes by shuffles where FMAs make them, share what all of theirs do.
  const bool scores = products.size() > 1;
  const double of_scores = products_of_k(products[0]);
  const auto is_sum = [&](const CodePart& l) {
    if (!scores) return true;
    if (!launch_.tensor_cores) return l.shuffles > 0;
    return std::fmod(products_in(l), kDepth * of_scores) != 0;
  };
  double asked = 0;
  for (std::size_t n = scores ? 1 : 0; n < products.size(); ++n)
    asked += products[n].times * products[n].depth * products_of_k(products[n]);
  double there = 0;
  for (const CodePart& l : compiled_->loops) there += is_sum(l) ? products_in(l) : 0;
  std::vector<double> trips;
  for (const CodePart& l : compiled_->loops)
    trips.push_back(is_sum(l) ? asked / there : products[0].depth * of_scores / products_in(l));
  return trips;
}

GpuSteps::Local GpuSteps::add_code(const Work& work, double side_by_side, Cycles& c) const {
  if (work.matrix_flops == 0) return {};
  const bool wgmma = launch_.tensor_cores && !launch_.mma_sync;
  const double threads = 128 * groups_;
  const double shared =
      side_by_side * static_cast<double>(launch_.shared_bytes + cta::kSm90.reserved_bytes);
  const auto* const carved = std::find_if(std::begin(kCarved), std::end(kCarved) - 1,
                                          [&](double kib) { return shared <= kib * kKiB; });
  const double l1 = (kBoth - *carved * kKiB) * (wgmma ? kOfWgmma : 1);
  // What is more than L1 holds is not there again when its turn comes.
  const auto is_kept = [&](double bytes) { return threads * side_by_side * bytes <= l1; };
  double missed = 0;
  const auto move = [&](const CodePart& part, double times, bool kept) {
    if (!kept) missed += times * threads * (part.load_bytes + part.store_bytes);
    c.issue += times * (part.loads + part.stores);
    c.memory += times * (part.loads + part.stores) * kPort;
  };
  const bool all_kept = is_kept(compiled_->local_bytes);
  const CodePart& once = compiled_->step;
  const double bytes = once.load_bytes + once.store_bytes;
  const double most = kOfStack * compiled_->local_bytes;
  move(once, work.held_product > 0 && bytes > most ? most / bytes : 1, all_kept);
  const std::vector<double> times = trips(work);
  for (std::size_t n = 0; n < times.size(); ++n) {
    const CodePart& l = compiled_->loops[n];
    move(l, std::min(times[n], 1.), all_kept);
    move(l, std::max(times[n] - 1, 0.), is_kept(std::max(l.load_bytes, l.store_bytes)));
    if (l.loads > 0) c.waits += times[n] * kLoopWait;
  }
  if (work.elements > least_elements_) move(compiled_->after, kAfter, all_kept);
  const double own = (wgmma ? 1 : kBeside) * local_rate(kFew);
  const double sms =
      std::min(static_cast<double>(plan_.cells()), 1.0 * plan_.device.cores);  // that have cells
  const double seconds = missed / std::min(own, kL2BytesPerSecond / sms);
  // L1's port is busy while L2 answers.
  c.memory = std::hypot(c.memory, seconds * clock_ / (4 * groups_));
  c.waits += kWaits * seconds * clock_ / groups_;
  // What L2 has no room for is written back, and seldom read again: of 13 runs counted with a
  // kilobyte a thread DRAM gave 2 % of that at most (predict/ACCURACY.md).
  return {seconds, 0, of_all_ctas(threads * compiled_->local_bytes)};
}

}  // namespace tessera::predict
