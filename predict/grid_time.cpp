#include "predict/grid_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::predict {

namespace {

// Fitted to 130 launches on an H200 whose times were taken by events, the L2 cleared before each
// (predict/ACCURACY.md); of an SM where nothing else is said.
constexpr double kLaunchSeconds = 7.29e-06;
constexpr double kDramEfficiency = 0.906;
constexpr double kCopyBandwidth = 8.94e+10;  ///< B/s, of loads of loops that multiply
constexpr double kLoadBandwidth = 8.69e+10;
constexpr double kWgmmaEfficiency = 1.0;
constexpr double kMmaEfficiency = 0.292;
constexpr double kSecondsPerFlop = 1.21e-11;
constexpr double kSecondsPerFunction = 2.54e-13;
constexpr double kRoundSeconds = 2.44e-07;
constexpr double kCopySeconds = 4.94e-07;  ///< the same of loads of loops that multiply
constexpr double kProgramSeconds = 3.45e-07;
constexpr double kReductionSeconds = 4.41e-07;
constexpr double kReductionPerWarp = 7.99e-09;
constexpr double kMix = 0.038;    ///< of the shorter of loads and elementwise work
constexpr double kAlone = 0.337;  ///< of a program's own work, that nothing of itself hides
constexpr double kProductNorm = 4.91;
constexpr double kSmNorm = 2.83;
constexpr double kDeviceNorm = 2.46;

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

/// Of a thread: lines through what ptxas gave these launches.
double registers_of(const GridWork& w) {
  if (w.registers > 0) return w.registers;
  const double threads = 32. * w.warps;
  const double needed = w.product_flops > 0
                            ? 48 + 1.15 * static_cast<double>(w.accumulators) / threads
                            : 20 + 1.6 * static_cast<double>(w.tile_elements) / threads;
  return std::min<double>(kMostRegisters, needed);
}

std::int64_t shared_of(const GridWork& w) {
  if (w.shared_bytes >= 0) return w.shared_bytes;
  if (w.product_flops == 0) return 0;
  return w.operand_bytes * std::max(1, by_wgmma(w) ? w.stages : w.stages - 1);
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
  const auto of_program = [&](std::int64_t total) { return static_cast<double>(total) / programs; };
  const bool products = w.product_flops > 0;

  // Of one program.
  const double moves = of_program(w.requested_bytes) / (products ? kCopyBandwidth : kLoadBandwidth);
  double computes =
      of_program(std::max<std::int64_t>(0, w.flops - w.product_flops)) * kSecondsPerFlop +
      of_program(w.functions) * kSecondsPerFunction +
      of_program(w.reductions) * kReductionPerWarp * w.warps;
  if (products) {
    computes += of_program(w.product_flops) / (w.product_flops_per_second / sms *
                                               (by_wgmma(w) ? kWgmmaEfficiency : kMmaEfficiency));
  }
  double waits = kProgramSeconds + of_program(w.reductions) * kReductionSeconds;
  for (const GridRound& r : w.rounds) {
    if (r.products)
      waits += of_program(r.times) * kCopySeconds / std::max(1, w.stages - 1) + kRoundSeconds;
    else
      waits += of_program(r.times) * kRoundSeconds;
  }
  const double alone = products ? together(moves, computes, kProductNorm) : moves + computes;
  const double shared =
      products ? alone : std::max(moves, computes) + kMix * std::min(moves, computes);

  // Of the SM with the most programs: how many of them, one after the other.
  const double most = std::ceil(programs / sms);
  const double turns = most <= resident      ? 1
                       : most > 4 * resident ? most / resident
                                             : std::ceil(most / resident);
  const double busy = most * shared;
  const double chain = turns * (waits + (products ? kAlone : 1) * alone);
  const double dram = dram_bytes / (device.hbm_bytes_per_s * kDramEfficiency);
  const std::pair<double, const char*> limits[] = {
      {dram, "DRAM"}, {busy, "SMs"}, {chain, "latency"}};
  return {kLaunchSeconds + together(together(busy, chain, kSmNorm), dram, kDeviceNorm),
          std::ranges::max_element(limits)->second};
}

}  // namespace tessera::predict
