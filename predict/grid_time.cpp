#include "predict/grid_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "predict/gpu_model.hpp"
#include "predict/program_queue.hpp"

namespace tessera::predict {

namespace {

// Fitted to launches on an H200 and an H100, whose SMs are the same; times by events, the L2
// cleared before each (predict/ACCURACY.md).
constexpr double kClock = 1.755e9;  ///< Hz

/// Of kernels that multiply nothing.
namespace rows {
constexpr double kLaunchSeconds = 5.53e-06;
constexpr double kDram = 1.01;           ///< of the rate that the device file says
constexpr double kBandwidth = 6.43e+10;  ///< B/s, of an SM
// Instructions of a warp, fitted to counts of 120 launches: 2.7 % off at the median, 19 % at worst.
constexpr double kElement = 0.58;
constexpr double kFunction = 6.92;
constexpr double kAccess = 4.1;
constexpr double kReduced = 35.4;
constexpr double kAround = 45;    ///< of a loop, or what is around loops
constexpr double kIssue = 0.697;  ///< cycles of a quarter of an SM that one takes
constexpr double kAlone = 2.97;   ///< where nothing else fills the gaps
// Cycles of an SM's L1, of a line.
constexpr double kRead = 0.787;
constexpr double kWrite = 0.274;
// Seconds until loads are there.
constexpr double kDramLatency = 4.27e-07;
constexpr double kL2Latency = 1.43e-07;
constexpr double kProgram = 3.93e-07;
constexpr double kReduction = 2.39e-07;
constexpr double kStreams =
    0.0433;                     ///< that DRAM takes longer where twice as many programs share an SM
constexpr double kNorm = 3.61;  ///< of SMs and DRAM
constexpr double kGaps = 1.5;   ///< of programs side by side, which fill each other's
// What the L1 still has of a program's own rows falls with what the SM's programs hold of them.
constexpr double kL1Bytes = 400e3;
constexpr double kL1Own = 0.95;
constexpr double kL1Shared = 40e3;  ///< of what all programs read
constexpr double kL1Hits = 0.527;   ///< of that
}  // namespace rows

/// Of loops that multiply.
namespace products {
constexpr double kLaunchSeconds = 5e-6;
constexpr double kDram = 1;
constexpr double kBandwidth = 1e+11;
constexpr double kWgmma = 0.767;
constexpr double kMma = 2.66;
constexpr double kWgmmaOperands = 1.03;
constexpr double kMmaOperands = 1.08;
constexpr double kFlop = 1.15e-12;
constexpr double kElement = 2.55e-12;
constexpr double kCopySeconds = 6.1e-07;   ///< of a turn's loads
constexpr double kMissSeconds = 3.25e-08;  ///< besides, from DRAM
constexpr double kStages = 1.41;           ///< power of the turns that they come ahead
constexpr double kOtherRound = 1.76e-06;
constexpr double kProgram = 5.98e-07;
constexpr double kStored = 9.47e10;  ///< B/s
constexpr double kTurn = 3.67e-08;   ///< of 8 warps: barriers, addresses
constexpr double kOperandNorm = 4.08;
constexpr double kSharedNorm = 9.84;
constexpr double kChainNorm = 6.59;
constexpr double kNorm = 2.28;
}  // namespace products

/// Of loops whose products follow each other.
namespace chained {
constexpr double kLaunchSeconds = 6.86e-6;
constexpr double kWgmma = 0.9;
constexpr double kMma = 2.25;
constexpr double kFlop = 1.14e-12;
constexpr double kElement = 2.93e-12;
constexpr double kMaskElements = 2.28;  ///< that one which is selected is besides
constexpr double kFunction = 5.15e-12;
constexpr double kRow = 1.65e-10;  ///< of a turn
constexpr double kRowOfGroups = 3e-10;
constexpr double kGroupsNorm = 1.125;  ///< of products and elementwise work of several
constexpr double kBandwidth = 2.83e+11;
constexpr double kAloneWarps = 4.55;       ///< that keep an SM's quarters busy
constexpr double kCopySeconds = 4.15e-07;  ///< of a turn's loads
constexpr double kSyncSeconds = 1.14e-06;  ///< of those that come no turn ahead
constexpr double kStages = 2.99;           ///< power of the turns that they come ahead
constexpr double kProgram = 2.92e-06;
constexpr double kSpillSeconds = 1.16e-10;  ///< of a register, a thread and a turn
constexpr double kSharedNorm = 1.18;
constexpr double kChainNorm = 2.42;
constexpr double kNorm = 3.79;
constexpr double kDram = 0.968;
constexpr double kSpillsFrom = 249;  ///< registers of a thread
constexpr double kMaskRegisters = 15.5;
}  // namespace chained

// What an SM has (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr int kWarps = 64;
constexpr int kPrograms = 32;
constexpr int kRegisters = 65536;
constexpr int kMostRegisters = 255;
constexpr std::int64_t kReservedShared = 1024;  ///< of each block
constexpr double kSharedWidth = 128;            ///< bytes that shared memory gives in a cycle
constexpr double kRequest = 128;                ///< bytes of a line

/// Between the larger of the two and their sum.
double together(double a, double b, double norm) {
  return std::pow(std::pow(a, norm) + std::pow(b, norm), 1 / norm);
}

double divided(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(b, 1));
}
double of_one(const GridWork& w, std::int64_t total) { return divided(total, w.programs); }
double threads_of(const GridWork& w) { return 32. * std::max(1, w.warps); }

bool by_wgmma(const GridWork& w) { return w.product_rows >= 64 && w.warps % 4 == 0; }

/// Threads access their elements one by one.
bool one_by_one(const GridWork& w) {
  return std::ranges::any_of(w.accesses, [&](const GridAccess& a) {
    return a.width == 1 && static_cast<double>(a.elements) >= 2 * threads_of(w);
  });
}

/// Of a thread: lines through what ptxas gave these launches.
double registers_of(const GridWork& w) {
  constexpr double kUnit = 8;  // in which they are given out
  const auto given = [](double n) {
    return std::min<double>(kMostRegisters, std::ceil(n / kUnit) * kUnit);
  };
  if (w.registers > 0) return given(w.registers);
  const double threads = threads_of(w);
  const auto accumulators = static_cast<double>(w.accumulators);
  const double held = static_cast<double>(w.held_bytes) / 4 / threads;
  const double kept = accumulators / threads;
  if (w.chained && w.products.size() > 2) return given(14.5 + 1.15 * kept + 0.17 * held);
  if (w.chained) return given(20 + 1.12 * (kept + held));
  if (w.product_flops > 0) {
    constexpr double kCopied = 16;  // bytes of which a thread keeps an address
    const double copies = static_cast<double>(w.operand_bytes) / kCopied / threads;
    return given(by_wgmma(w) ? 20 + kept + 3 * copies : 31 + 1.56 * kept + 2.6 * copies);
  }
  constexpr double kLeast = 32;
  const double loaded = static_cast<double>(w.tile_elements) / threads;
  return given(std::max(kLeast, one_by_one(w) ? 22 + 2.3 * loaded : 20 + 1.4 * loaded));
}

std::int64_t shared_of(const GridWork& w) {
  if (w.shared_bytes >= 0) return w.shared_bytes;
  if (w.product_flops == 0) {
    std::int64_t copied = 0;
    for (const GridRound& r : w.rounds) copied += (r.stages - 1) * r.turn_bytes;
    return copied;
  }
  return w.kept_bytes + w.operand_bytes * std::max(1, by_wgmma(w) ? w.stages : w.stages - 1);
}

/// What programs take on SMs that have room for so many: turns and what each of them takes.
struct Pace {
  double turns = 1;
  double alone = 0;   ///< seconds of a turn, of a program for itself
  double shared = 0;  ///< of what a turn asks of the SM
  double norm = 1;
  double once = 0;  ///< besides, of a program
};
double played(const GridWork& w, const DeviceSpec& device, int resident, const Pace& p) {
  std::vector<double> seconds;
  for (int k = 1; k <= resident; ++k)
    seconds.push_back(std::max(1e-15, together(p.alone, k * p.shared, p.norm)));
  const double once = p.once / seconds.back();
  std::vector<double> lengths = w.turns;
  if (lengths.empty()) lengths.push_back(p.turns);
  for (double& length : lengths) length += once;
  return queue_seconds(std::max<std::int64_t>(w.programs, 1), lengths, device.cores, seconds);
}

GridTime longest(double launch, double sms, bool waits, double dram, double norm) {
  return {launch + together(sms, dram, norm), dram > sms ? "DRAM" : waits ? "latency" : "SMs"};
}

/// The part of what programs of rows read again that is no longer in the L2: none while what all
/// that run have read is little, all when it is much, and between these more and more.
double gone_from_l2(const DeviceSpec& device, const GridWork& w, int resident) {
  // Of the L2: a line through what DRAM gave to 120 launches on an H100 (predict/ACCURACY.md).
  constexpr double kAllThere = 0.363;
  constexpr double kNoneThere = 0.898;
  const auto most = static_cast<double>(std::int64_t{device.cores} * resident);
  const double running = std::min(static_cast<double>(w.programs), most);
  const double held =
      running * of_one(w, w.requested_bytes - w.written_bytes) * w.reads.bytes.first;
  const double share = held / checked_figure(device, "l2_capacity");
  return std::clamp((share - kAllThere) / (kNoneThere - kAllThere), 0., 1.);
}

// ---- kernels that multiply nothing -----------------------------------------------------------

/// How often a turn of a loop waits for loads. ptxas puts some of them before what takes the first,
/// and others where that leaves room: read off its code for such loops, by the elements that a
/// thread loads in a turn (predict/ACCURACY.md).
double waits_of(const GridRound& r, double threads) {
  constexpr double kOrdered[] = {1, 2.8, 3.3};  ///< of 16, 32 and 64 elements
  constexpr double kWide16 = 2;                 ///< of 16 of four bytes
  constexpr double kStores = 1.8;
  if (r.sites == 0 || r.width == 1) return 1;
  const double held = static_cast<double>(r.elements) / threads;
  if (r.stores) return held <= 16 ? 1 : kStores;
  if (r.sites > 1) return 1;
  // Four turns are unrolled: of their loads three are on their way together, or two.
  if (held <= 4) return 2. / 4;
  if (held <= 8) return 3. / 4;
  if (held <= 16) return r.bytes >= 4 ? kWide16 : kOrdered[0];
  if (held <= 64) return kOrdered[held <= 32 ? 1 : 2];
  return 1;  // as many registers as there are: all loads come first
}

/// Of a program: instructions that a thread accesses memory with, and lines that its warps ask the
/// L1 for and write.
struct Lines {
  double instructions = 0;
  double read = 0;
  double written = 0;
};
Lines lines_of(const GridWork& w, double threads) {
  constexpr double kLanes = 32;
  // One layout serves a kernel's tensors: where one of them is known to begin well, threads have
  // neighbours of all, which masks or rows that begin anywhere let them access but one by one.
  double together = 1;
  for (const GridAccess& a : w.accesses) {
    if (static_cast<double>(a.elements) >= kLanes)
      together = std::max<double>(together, std::max(a.run, a.width));
  }
  Lines lines;
  for (const GridAccess& a : w.accesses) {
    const double times = of_one(w, a.times);
    const auto elements = static_cast<double>(a.elements);
    const double held = std::max(1., elements / threads);
    const double width = std::min<double>(a.width, held);
    const double bytes = a.bytes;
    const double moved = a.moved > 0 ? of_one(w, a.moved) : times * elements * bytes;
    lines.instructions += times * held / width;
    const bool aligned = std::max(a.run, a.width) > 1;
    double asked = times;
    if (elements >= kLanes) {
      const double span = kLanes * std::max(width, std::min(together, held)) * bytes;
      asked = moved / (kLanes * width * bytes) *
              (aligned ? std::max(1., span / kRequest) : 1 + (span - bytes) / kRequest);
    }
    (a.write ? lines.written : lines.read) += asked;
  }
  return lines;
}

GridTime rows_time(const DeviceSpec& device, const GridWork& w, double dram_bytes, int resident) {
  using namespace rows;
  const double warps = std::max(1, w.warps);
  const double threads = threads_of(w);
  const Lines lines = lines_of(w, threads);
  const double read = of_one(w, w.requested_bytes - w.written_bytes);
  const double written = of_one(w, w.written_bytes);
  const double own = kL1Own * std::max(0., 1 - resident * read * w.reads.bytes.first / kL1Bytes);
  const bool little = w.reads.bytes.others * read < kL1Shared;
  const bool many = static_cast<double>(w.programs) > 2. * device.cores * resident;
  const double others = little && many ? kL1Hits : 0;
  const double hits = own * w.reads.bytes.own + others * w.reads.bytes.others;
  const ReadShares& by = w.reads.accesses;
  const double far = by.first + by.own * (1 - own) * gone_from_l2(device, w, resident);
  const double near = own * by.own + others * by.others;
  const double latency = far * kDramLatency + (1 - far - near) * kL2Latency;

  const double reductions = of_one(w, w.reductions);
  const double instructions = kElement * of_one(w, w.elements) / threads +
                              kFunction * of_one(w, w.functions) / threads +
                              kAccess * lines.instructions + kReduced * reductions +
                              kAround * static_cast<double>(w.rounds.size());
  const double moved = read * (1 - hits) + written;
  const double issue = warps * instructions / 4 * kIssue / kClock;
  const double requests = (lines.read * kRead + lines.written * kWrite) / kClock;
  const double busy = std::max({issue, requests, moved / kBandwidth});
  const double work = reductions * kReduction + kAlone * instructions / kClock;
  double turns = 0;
  for (const GridRound& r : w.rounds) turns += of_one(w, r.times);
  double chain = kProgram + work;
  for (const GridRound& r : w.rounds) {
    // The copy for a later turn starts when this one has read what it overwrites: of two stages it
    // is no earlier than a load.
    const double ahead = std::max(0, r.stages - 2) * work / std::max(1., turns);
    chain += of_one(w, r.times) * std::max(0., waits_of(r, threads) * latency - ahead);
  }
  const double sms = played(w, device, resident, {1, chain, busy, kGaps, 0});
  const double beside = std::min<double>(resident, divided(w.programs, device.cores));
  const double dram = dram_bytes / (device.hbm_bytes_per_s * kDram) *
                      (1 + kStreams * std::log2(std::max(1., beside)));
  return longest(kLaunchSeconds, sms, chain > resident * busy, dram, kNorm);
}

// ---- loops that multiply ---------------------------------------------------------------------

double turns_of(const GridWork& w) {
  double turns = 1;
  for (const GridProduct& p : w.products) turns = std::max(turns, of_one(w, p.times));
  return turns;
}

double multiplied(const GridWork& w, double sms, const GridProduct& p) {
  return 2. * static_cast<double>(p.rows) * static_cast<double>(p.cols) *
         static_cast<double>(p.depth) / (w.product_flops_per_second / sms);
}

/// Bytes of operands that warps read from shared memory.
double operand_bytes(const GridWork& w, const GridProduct& p) {
  const double bytes = static_cast<double>(p.bits) / 8;
  const auto rows = static_cast<double>(p.rows);
  const auto cols = static_cast<double>(p.cols);
  const auto depth = static_cast<double>(p.depth);
  constexpr double kGroupRows = 64;
  if (by_wgmma(w)) {
    // Warpgroups divide the rows, then the columns.
    const double beside = std::max(1., w.warps / 4. / std::max(1., rows / kGroupRows));
    return std::ceil(rows / kGroupRows) * beside * (kGroupRows + std::max(8., cols / beside)) *
           depth * bytes;
  }
  double down = 1;
  double across = 1;
  while (down * across < w.warps) {
    if (rows / down >= cols / across && down < rows / 16)
      down *= 2;
    else
      across *= 2;
  }
  return w.warps * (std::max(16., rows / down) + std::max(8., cols / across)) * depth * bytes;
}

Pace products_pace(const DeviceSpec& device, const GridWork& w, int resident) {
  using namespace products;
  const auto sms = static_cast<double>(device.cores);
  const double turns = turns_of(w);
  double tensor = 0;  // of a turn
  for (const GridProduct& p : w.products) {
    const double read = operand_bytes(w, p) / (kSharedWidth * kClock);
    tensor += of_one(w, p.times) / turns *
              together(multiplied(w, sms, p) * (by_wgmma(w) ? kWgmma : kMma),
                       read * (by_wgmma(w) ? kWgmmaOperands : kMmaOperands), kOperandNorm);
  }
  const double moves = of_one(w, w.requested_bytes) / turns / kBandwidth;
  const double elementwise =
      (of_one(w, std::max<std::int64_t>(0, w.flops - w.product_flops)) * kFlop +
       of_one(w, w.elements) * kElement) /
      turns;
  double others = 0;
  bool copies = false;
  for (const GridRound& r : w.rounds) {
    copies = copies || r.products;
    if (!r.products) others += of_one(w, r.times);
  }
  // Of the first wave each turn finds what nobody brought yet.
  const double waves = static_cast<double>(w.programs) / (sms * resident);
  const double wait = kCopySeconds + kMissSeconds * std::min(1., 1 / waves);
  const double ahead = std::pow(std::max(1, w.stages - 1), kStages);
  return {.turns = turns,
          .alone = tensor + elementwise + kTurn + (copies ? wait / ahead : 0),
          .shared = together(tensor, moves, kSharedNorm) + elementwise + kTurn * w.warps / 8,
          .norm = kChainNorm,
          .once = kProgram + others * kOtherRound + of_one(w, w.written_bytes) / kStored};
}

GridTime products_time(const DeviceSpec& device, const GridWork& w, double dram_bytes,
                       int resident) {
  using namespace products;
  const Pace pace = products_pace(device, w, resident);
  return longest(kLaunchSeconds, played(w, device, resident, pace),
                 pace.alone > resident * pace.shared, dram_bytes / (device.hbm_bytes_per_s * kDram),
                 kNorm);
}

// ---- loops whose products follow each other --------------------------------------------------

GridTime chained_time(const DeviceSpec& device, const GridWork& w, double dram_bytes,
                      int resident) {
  using namespace chained;
  const auto sms = static_cast<double>(device.cores);
  const double turns = turns_of(w);
  double tensor = 0;  // of a turn
  double rows = 0;
  for (const GridProduct& p : w.products) {
    const auto m = static_cast<double>(p.rows);
    const auto k = static_cast<double>(p.depth);
    const double bytes = static_cast<double>(p.bits) / 8;
    const double read = (p.left_computed ? 0 : m * k * bytes) +
                        std::ceil(m / 64) * k * static_cast<double>(p.cols) * bytes;
    const double flops = multiplied(w, sms, p);
    tensor +=
        of_one(w, p.times) / turns *
        (by_wgmma(w) ? std::max(flops, read / (kSharedWidth * kClock)) * kWgmma : flops * kMma);
    rows = std::max(rows, m);
  }
  // Warpgroups multiply for themselves, and wait for each other each turn.
  const int groups = w.warps / 4;
  const double elements = of_one(w, w.elements) + kMaskElements * of_one(w, w.masked_elements);
  const double elementwise =
      (of_one(w, std::max<std::int64_t>(0, w.flops - w.product_flops)) * kFlop +
       elements * kElement + of_one(w, w.functions) * kFunction) /
          turns +
      rows * (groups > 1 ? kRowOfGroups : kRow);
  const double moves = of_one(w, w.requested_bytes) / turns / kBandwidth;
  const double threads = threads_of(w);
  const double wanted =
      (static_cast<double>(w.accumulators) + static_cast<double>(w.held_bytes) / 4) / threads +
      (w.masked_elements > 0 ? kMaskRegisters : 0);
  // What has fewer registers than there are spills none.
  const bool enough = w.registers > 0 && w.registers < kMostRegisters;
  const double spills = enough ? 0 : std::max(0., wanted - kSpillsFrom) * threads * kSpillSeconds;
  const double busy = elementwise * std::max(1., kAloneWarps / w.warps);
  const double work = groups > 1 ? together(tensor, busy, kGroupsNorm) : tensor + busy;
  const double loads =
      w.stages <= 1 ? kSyncSeconds : kCopySeconds / std::pow(w.stages - 1, kStages);
  const double shared =
      std::pow(std::pow(tensor, kSharedNorm) + std::pow(elementwise, kSharedNorm) +
                   std::pow(moves, kSharedNorm),
               1 / kSharedNorm) +
      spills;
  const Pace pace{.turns = turns,
                  .alone = work + loads + spills,
                  .shared = shared,
                  .norm = kChainNorm,
                  .once = kProgram};
  return longest(kLaunchSeconds, played(w, device, resident, pace),
                 pace.alone > resident * pace.shared, dram_bytes / (device.hbm_bytes_per_s * kDram),
                 kNorm);
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

SideBySide side_by_side(const DeviceSpec& device, const GridWork& w) {
  SideBySide how{resident_programs(device, w)};
  if (w.product_flops == 0) {
    how.gone = gone_from_l2(device, w, how.resident);
  } else if (!w.chained && w.product_flops_per_second > 0) {
    const Pace pace = products_pace(device, w, how.resident);
    how.kept_up = pace.alone / pace.shared;
  }
  return how;
}

/// Measured on an H100: lanes to one place, and to 100,000.
double atomics_seconds(const GridWork& w) {
  constexpr double kPass = 0.735e-9;
  constexpr double kL2Units = 59;  // of the L2, that change sectors side by side
  constexpr double kLaunch = 2.5e-6;
  if (w.atomic_passes == 0) return 0;
  return kLaunch + kPass * std::max(static_cast<double>(w.most_atomic_passes),
                                    static_cast<double>(w.atomic_passes) / kL2Units);
}

GridTime grid_time(const DeviceSpec& device, const GridWork& w, double dram_bytes) {
  if (device.kind != DeviceSpec::Kind::gpu || device.model.empty())
    return {.binds = "no figures of " + device.name + " to predict with"};
  if (w.product_flops > 0 && w.product_flops_per_second <= 0)
    return {.binds = "no rate of " + device.name + " for these products"};
  const int resident = resident_programs(device, w);
  GridTime time = w.product_flops == 0 ? rows_time(device, w, dram_bytes, resident)
                  : w.chained          ? chained_time(device, w, dram_bytes, resident)
                                       : products_time(device, w, dram_bytes, resident);
  if (const double s = atomics_seconds(w); s > time.seconds) time = {s, "atomics"};
  return time;
}

}  // namespace tessera::predict
