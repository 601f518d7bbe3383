#include "predict/grid_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::predict {

namespace {

// Fitted to 130 launches on an H200 whose times were taken by events, the L2 cleared before each
// (predict/ACCURACY.md); of an SM where nothing else is said.
constexpr double kLaunchSeconds = 7.29e-06;
constexpr double kWgmmaEfficiency = 1;
constexpr double kMmaEfficiency = 0.292;

/// Of kernels of one kind.
struct Figures {
  double dram;                  ///< of the rate that the device file says
  double bandwidth;             ///< B/s, of loads
  double seconds_per_flop;      ///< elementwise
  double seconds_per_function;  ///< exp and its kin
  double round_seconds;         ///< that a program waits for its loads
  double program_seconds;
  double reduction_seconds;
  double reduction_per_warp;
  double alone;  ///< of a program's own work, that nothing of itself hides
  double sm_norm;
  double device_norm;
};
constexpr Figures kRows{.dram = 0.903,
                        .bandwidth = 8.36e+10,
                        .seconds_per_flop = 1.11e-11,
                        .seconds_per_function = 5.72e-11,
                        .round_seconds = 2.59e-07,
                        .program_seconds = 0,
                        .reduction_seconds = 2.13e-07,
                        .reduction_per_warp = 7.85e-09,
                        .alone = 1,
                        .sm_norm = 3.8,
                        .device_norm = 2.53};
/// Loops that multiply: of copies num_stages ahead.
constexpr Figures kProducts{.dram = 0.906,
                            .bandwidth = 8.94e+10,
                            .seconds_per_flop = 1.21e-11,
                            .seconds_per_function = 2.54e-13,
                            .round_seconds = 2.44e-07,
                            .program_seconds = 3.45e-07,
                            .reduction_seconds = 2.13e-07,
                            .reduction_per_warp = 7.85e-09,
                            .alone = 0.337,
                            .sm_norm = 2.83,
                            .device_norm = 2.46};
constexpr double kCopySeconds = 4.94e-07;  ///< of a turn's loads that come ahead
constexpr double kProductNorm = 4.91;

// Of loops whose products follow each other: fitted to attentions of the same draws.
constexpr double kClock = 1.755e9;  ///< Hz
constexpr double kChainedWgmma = 1.06;
constexpr double kChainedMma = 1.4;
constexpr double kChainedFlop = 1.81e-12;
constexpr double kChainedElement = 2.05e-12;
constexpr double kChainedFunction = 1.04e-11;
constexpr double kChainedRow = 2.34e-10;         ///< of a turn
constexpr double kChainedBandwidth = 9.45e+10;   ///< B/s
constexpr double kAloneWarps = 4.68;             ///< that keep an SM's quarters busy
constexpr double kChainedCopySeconds = 7.87e-7;  ///< of a turn's loads
constexpr double kChainedProgram = 1.57e-6;
constexpr double kRegistersWanted = 279;    ///< of a thread, from which on it spills
constexpr double kSpillSeconds = 4.96e-11;  ///< of a register, a thread and a turn
constexpr double kHideNorm = 1.55;          ///< of a program's work and its loads
constexpr double kChainedNorm = 1.82;       ///< of what programs side by side ask of an SM
constexpr double kChainNorm = 2.87;

// What an SM has (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr int kWarps = 64;
constexpr int kPrograms = 32;
constexpr int kRegisters = 65536;
constexpr int kMostRegisters = 255;
constexpr std::int64_t kReservedShared = 1024;  ///< of each block

/// Between the larger of the two and their sum.
double together(double a, double b, double norm) {
  return std::pow(std::pow(a, norm) + std::pow(b, norm), 1 / norm);
}

bool by_wgmma(const GridWork& w) { return w.product_rows >= 64 && w.warps % 4 == 0; }

/// Of a thread of a loop whose products follow each other: what it accumulates and what it makes of
/// that.
double registers_wanted(const GridWork& w) {
  const double threads = 32. * w.warps;
  return 20 + 1.12 * (static_cast<double>(w.accumulators) + static_cast<double>(w.held_bytes) / 4) /
                  threads;
}

/// Of a thread: lines through what ptxas gave these launches.
double registers_of(const GridWork& w) {
  if (w.registers > 0) return w.registers;
  const double threads = 32. * w.warps;
  if (!w.chained.empty()) {
    constexpr double kUnit = 8;  // in which they are given out
    return std::min<double>(kMostRegisters, std::ceil(registers_wanted(w) / kUnit) * kUnit);
  }
  const double needed = w.product_flops > 0
                            ? 48 + 1.15 * static_cast<double>(w.accumulators) / threads
                            : 20 + 1.6 * static_cast<double>(w.tile_elements) / threads;
  return std::min<double>(kMostRegisters, needed);
}

std::int64_t shared_of(const GridWork& w) {
  if (w.shared_bytes >= 0) return w.shared_bytes;
  if (w.product_flops == 0) return 0;
  return w.kept_bytes + w.operand_bytes * std::max(1, by_wgmma(w) ? w.stages : w.stages - 1);
}

double of_one(const GridWork& w, std::int64_t total) {
  return static_cast<double>(total) / static_cast<double>(std::max<std::int64_t>(w.programs, 1));
}

/// Programs that follow each other on the SM with the most of them.
double turns_of(double most, double resident) {
  if (most <= resident) return 1;
  return most > 4 * resident ? most / resident : std::ceil(most / resident);
}

/// Seconds of the SM with the most programs, of loops whose products follow each other.
struct SmTime {
  double busy = 0;   ///< with what programs ask of it
  double chain = 0;  ///< of programs one after the other
};
SmTime chained_time(const GridWork& w, double sms, double most, double resident) {
  double tensor = 0;
  double turns = 0;
  double rows = 0;
  for (const GridProduct& p : w.chained) {
    const auto m = static_cast<double>(p.rows);
    const auto n = static_cast<double>(p.cols);
    const auto k = static_cast<double>(p.depth);
    const double multiplied = 2 * m * n * k / (w.product_flops_per_second / sms);
    constexpr double kSharedWidth = 128;  // bytes that shared memory gives in a cycle
    const double bytes = static_cast<double>(p.bits) / 8;
    const double read = (p.left_computed ? 0 : m * k * bytes) + std::ceil(m / 64) * k * n * bytes;
    tensor += of_one(w, p.times) *
              (by_wgmma(w) ? std::max(multiplied, read / (kSharedWidth * kClock)) * kChainedWgmma
                           : multiplied * kChainedMma);
    turns = std::max(turns, of_one(w, p.times));
    rows = std::max(rows, m);
  }
  const double elementwise =
      of_one(w, std::max<std::int64_t>(0, w.flops - w.product_flops)) * kChainedFlop +
      of_one(w, w.elements) * kChainedElement + of_one(w, w.functions) * kChainedFunction +
      turns * rows * kChainedRow;
  const double moves = of_one(w, w.requested_bytes) / kChainedBandwidth;
  const double lacking = std::max(0., registers_wanted(w) - kRegistersWanted);
  const double spills = w.registers > 0 ? 0 : lacking * 32 * w.warps * kSpillSeconds * turns;
  const double work = tensor + elementwise * std::max(1., kAloneWarps / w.warps);
  const double loads = turns * kChainedCopySeconds / std::max(1, w.stages - 1);
  const double one = together(work, loads, kHideNorm) + spills + kChainedProgram;
  const double shared =
      std::pow(std::pow(tensor, kChainedNorm) + std::pow(elementwise, kChainedNorm) +
                   std::pow(moves, kChainedNorm),
               1 / kChainedNorm) +
      spills;
  return {most * shared, turns_of(most, resident) * one};
}

}  // namespace

int resident_programs(const DeviceSpec& device, const GridWork& w) {
  const int warps = std::max(1, w.warps);
  int most = std::min(kPrograms, kWarps / warps);
  most = std::min(most, static_cast<int>(kRegisters / (registers_of(w) * 32 * warps)));
  if (const std::int64_t shared = shared_of(w); shared > 0) {
    most = std::min(
        most, static_cast<int>((device.vmem_bytes + kReservedShared) / (shared + kReservedShared)));
  }
  return std::max(1, most);
}

GridTime grid_time(const DeviceSpec& device, const GridWork& w, double dram_bytes) {
  if (device.kind != DeviceSpec::Kind::gpu || device.model.empty())
    return {.binds = "no figures of " + device.name + " to predict with"};
  if (w.product_flops > 0 && w.product_flops_per_second <= 0)
    return {.binds = "no rate of " + device.name + " for these products"};
  const auto sms = static_cast<double>(device.cores);
  const auto programs = static_cast<double>(std::max<std::int64_t>(w.programs, 1));
  const double resident = resident_programs(device, w);
  const auto of_program = [&](std::int64_t total) { return of_one(w, total); };
  const bool products = w.product_flops > 0;
  const double most = std::ceil(programs / sms);
  const Figures& f = products ? kProducts : kRows;
  const double dram = dram_bytes / (device.hbm_bytes_per_s * f.dram);
  const auto longest = [&](const SmTime& sm, double norm) {
    const std::pair<double, const char*> limits[] = {
        {dram, "DRAM"}, {sm.busy, "SMs"}, {sm.chain, "latency"}};
    return GridTime{
        kLaunchSeconds + together(together(sm.busy, sm.chain, norm), dram, f.device_norm),
        std::ranges::max_element(limits)->second};
  };
  if (products && !w.chained.empty())
    return longest(chained_time(w, sms, most, resident), kChainNorm);

  // Of one program.
  const double moves = of_program(w.requested_bytes) / f.bandwidth;
  double computes =
      of_program(std::max<std::int64_t>(0, w.flops - w.product_flops)) * f.seconds_per_flop +
      of_program(w.functions) * f.seconds_per_function +
      of_program(w.reductions) * f.reduction_per_warp * w.warps;
  if (products) {
    computes += of_program(w.product_flops) / (w.product_flops_per_second / sms *
                                               (by_wgmma(w) ? kWgmmaEfficiency : kMmaEfficiency));
  }
  double waits = f.program_seconds + of_program(w.reductions) * f.reduction_seconds;
  for (const GridRound& r : w.rounds) {
    if (r.products)
      waits += of_program(r.times) * kCopySeconds / std::max(1, w.stages - 1) + f.round_seconds;
    else
      waits += of_program(r.times) * f.round_seconds;
  }
  const double alone = products ? together(moves, computes, kProductNorm) : moves + computes;
  const double shared = products ? alone : std::max(moves, computes);

  // Of the SM with the most programs: how many of them, one after the other.
  const double chain = turns_of(most, resident) * (waits + f.alone * alone);
  return longest({most * shared, chain}, f.sm_norm);
}

}  // namespace tessera::predict
