// The CUDA build on a GPU, CTA by CTA (cuda/kernel.hpp says what it does).
//
// Persistent CTAs, as many as the multiprocessors hold, draw parallel cells, last cell first, in
// bands of rows (cuda/cell.hpp). In each a producer brings the blocks of the coming steps into its
// slots while the warpgroups compute. Transfers queue at three places: the SM's port, the way of a
// group of SMs to L2 (predict/sm_place.hpp), DRAM; each is a server of a fixed rate. What DRAM
// gives is what the cache (predict/l2_cache.hpp) does not have.
//
// What a step's body takes is predict/gpu_step.hpp's. SMs are not equally fast, so that CTAs that
// begin together drift apart and ask for the blocks that they share at other times.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>

#include "memory_model/split_mix.hpp"
#include "predict/gpu_model.hpp"
#include "predict/gpu_step.hpp"
#include "predict/l2_cache.hpp"
#include "predict/model_timelines.hpp"
#include "predict/server.hpp"
#include "predict/sm_place.hpp"
#include "sim/body/spread.hpp"
#include "sim/pipeline/block_runs.hpp"
#include "sim/pipeline/cta_operands.hpp"

namespace tessera::predict {

namespace {

/// Of L2; as much as a burst of an HBM pseudo channel (JESD235: 64 bits four times, JESD238: 32
/// bits eight times).
constexpr std::int64_t kSector = 32;
/// Of L2 too: what an SM asks for at a time.
constexpr std::int64_t kLine = 4 * kSector;
/// Two bursts: what DRAM gives for a sector that L2 lacks (measured: predict/ACCURACY.md).
constexpr std::int64_t kGranule = 2 * kSector;
/// A row of a bank of an HBM pseudo channel (JESD235, JESD238).
constexpr std::int64_t kPage = 1024;
/// Of L2, that hold none of a kernel's blocks: chosen beside DRAM's bytes of 113 products.
constexpr std::int64_t kNoBlocks = 1'400'000;
/// Of a cell's draw from the counter that hands them out.
constexpr std::int64_t kDrawBytes = 32;
/// Registers in local memory that DRAM's bytes are without in words: of 931 counted runs those with
/// fewer have DRAM reads that are off by more than 15 % in one of 76, those with more in one of
/// three (predict/ACCURACY_CUDA.md).
constexpr double kManyLocal = 10e6;

std::int64_t sectors(std::int64_t from, std::int64_t to) {
  return to > from ? (to + kSector - 1) / kSector - from / kSector : 0;
}

std::int64_t lines(std::int64_t from, std::int64_t to) {
  return to > from ? (to + kLine - 1) / kLine - from / kLine : 0;
}

/// Bytes that a block of an operand is to L2: sectors that it touches, and what crosses to an SM.
///
/// DRAM gives granules, and opens a page for each run of a row. Blocks side by side whose rows are
/// parts of one granule come together: to the cache they are one.
class BlockBytes {
 public:
  BlockBytes(const OperandPlan& op, bool spreads) : op_(op) {
    const int last = op.array.rank - 1;
    const std::int64_t row = last >= 0 ? op.block[last] * bit_width(op.dtype) / 8 : 0;
    if (last >= 1 && row > 0) {
      along_ = std::max<std::int64_t>(op.blocks[last], 1);  // none of what is absent
      in_granule_ = std::clamp<std::int64_t>(kGranule / row, 1, along_);
      in_page_ = std::clamp<std::int64_t>(kPage / row, 1, along_);
    }
    const cta::Tile tile = cta::tile_of(op.rows, op.cols, op.dtype);
    bool whole = true;
    for (int d = 0; d <= last; ++d) whole = whole && op.array[d] % op.block[d] == 0;
    const bool zeros = !op.padded || op.pad_value == 0 || whole;
    panelled_ = tile.panelled;
    const bool box = op.role == Role::in && op.present && op.rows > 1 && zeros &&
                     cta::is_box(cta::box_of(op.block, tile),
                                 op.squeezed[static_cast<std::size_t>(last)], op.dtype);
    const bool as_it_is = box && cta::is_mappable(op.array, op.dtype);
    mapped_ = as_it_is ||
              (box && spreads && cta::is_mappable(cta::spread_of(op.array, op.dtype), op.dtype));
    // Who brings it: the copy engine boxes and whole lines, threads all else.
    // Of an array of one row its blocks' places alone tell.
    const bool one_row = last < 0 || op.array.elems() == op.array[last];
    const std::int64_t pitch = one_row ? row : packed_bytes(op.dtype, op.array[last]);
    shifts_ = pitch % 16 != 0;
    const bool line = (op.rows == 1 || row > cta::kLongestPanelled) && row % 16 == 0 && !shifts_ &&
                      (op.array[last] % op.block[last] == 0 || op.blocks[last] > 1);
    by_threads_ = op.role == Role::in && op.present && !mapped_ && !line;
    if (mapped_ && !as_it_is) {
      spread_bytes_ = packed_bytes(op.dtype, op.array.elems());
      spread_row_ = cta::spread_of(op.array, op.dtype)[last];
    }
  }
  bool by_threads() const { return by_threads_; }
  /// Its rows begin at no multiple of 16 bytes.
  bool shifts() const { return shifts_; }
  /// Some of a block's columns lie outside of the array.
  bool ragged(std::int64_t block) const {
    const int last = op_.array.rank - 1;
    return last >= 0 && (block % op_.blocks[last] + 1) * op_.block[last] > op_.array[last];
  }
  /// Read and written before the kernel begins.
  std::int64_t spread_bytes() const { return spread_bytes_; }

  struct Bytes {
    std::int64_t l2 = 0;     ///< that L2 has to hold
    std::int64_t core = 0;   ///< that cross to the SM
    std::int64_t lines = 0;  ///< of L2 that an SM asks for, a panel's rows each by themselves
    std::int64_t split = 0;  ///< rows of panels that begin within a sector, and end in another line
    std::int64_t outside = 0;  ///< of `lines`, those in which a row has no column of the array
    std::int64_t dram = 0;     ///< that DRAM gives for it: those of its neighbours in granules too
    std::int64_t pages = 0;    ///< that they lie in
    std::int64_t own = 0;      ///< without what neighbours have of its sectors
  };
  const Bytes& of(std::int64_t block) {
    if (known_.empty()) known_.resize(static_cast<std::size_t>(op_.blocks.elems()));
    Bytes& b = known_[static_cast<std::size_t>(block)];
    if (b.core == 0) b = count(block);
    return b;
  }
  /// The blocks that come with this one; those that share its pages.
  std::int64_t granules(std::int64_t block) const { return group(block, in_granule_); }
  std::int64_t pages(std::int64_t block) const { return group(block, in_page_); }

 private:
  /// The number of a group of so many blocks side by side.
  std::int64_t group(std::int64_t block, std::int64_t blocks) const {
    return block / along_ * ((along_ + blocks - 1) / blocks) + block % along_ / blocks;
  }
  Bytes count(std::int64_t block) const {
    const Shape index = unravel(op_.blocks, block);
    const Shape inside = op_.in_bounds(index.dims.data());
    const std::int64_t bits = bit_width(op_.dtype);
    const int last = op_.block.rank - 1;
    const std::int64_t row = op_.block[last] * bits / 8;
    Bytes b;
    std::int64_t rows = 0;
    std::int64_t last_sector = -1;
    for_each_run(op_, index.dims.data(), inside,
                 [&](std::int64_t at, std::int64_t, std::int64_t n) {
                   if (spread_row_ > 0)
                     at = at / op_.array[last] * spread_row_ + at % op_.array[last];
                   const std::int64_t from = at * bits / 8;
                   const std::int64_t to = from + n * bits / 8;
                   // Rows that follow each other may share a sector.
                   b.l2 += (sectors(from, to) - (from / kSector == last_sector ? 1 : 0)) * kSector;
                   last_sector = (to - 1) / kSector;
                   b.own += to - from;
                   if (!mapped_) {
                     b.core += sectors(from, to) * kSector;
                     b.lines += lines(from, to);
                   } else if (!panelled_) {
                     b.core += (sectors(from, to) + (row - (to - from)) / kSector) * kSector;
                     b.lines += lines(from, from + row);
                     b.outside += lines(from, from + row) - lines(from, to);
                   } else {
                     for (std::int64_t p = from; p < from + row; p += cta::kPanelBytes) {
                       b.core += sectors(p, p + cta::kPanelBytes) * kSector;
                       const std::int64_t end = p + cta::kPanelBytes;
                       b.lines += lines(p, end);
                       b.outside += lines(p, end) - lines(p, std::clamp(to, p, end));
                       b.split += p % kSector != 0 ? 1 : 0;
                     }
                   }
                   ++rows;
                 });
    b.dram = in_granule_ > 1 ? rows * kGranule : along_ > 1 ? b.own : b.l2;
    b.pages = along_ > 1 ? rows * ((row + kPage - 1) / kPage) : (b.l2 + kPage - 1) / kPage;
    // The copy engine brings whole boxes: zeros for what lies outside of the array, of a row as
    // many sectors as if it went on.
    if (mapped_) {
      b.core += (op_.rows - rows) * row;
      b.lines += (op_.rows - rows) * ((row + kLine - 1) / kLine);
    }
    return b;
  }

  const OperandPlan& op_;
  std::int64_t along_ = 1;  ///< blocks in a row of the array
  std::int64_t in_granule_ = 1;
  std::int64_t in_page_ = 1;
  bool panelled_ = false;
  bool mapped_ = false;
  bool shifts_ = false;
  bool by_threads_ = false;
  std::int64_t spread_bytes_ = 0;
  std::int64_t spread_row_ = 0;  ///< elements from row to row of the copy; 0: there is none
  std::vector<Bytes> known_;
};

bool spreads_of(const Plan& plan) {
  const std::vector<cta::Operand> operands = cta_operands(plan);
  return cta::spreads(cta_view(plan, operands));
}

/// Parallel cells in the order in which they are drawn.
std::vector<std::int32_t> drawn_cells(const Plan& plan, const std::vector<std::int64_t>& extents,
                                      std::int64_t cells) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(cells));
  const std::size_t rank = extents.size();
  for (std::int64_t n = 0; n < cells; ++n) {
    const std::int64_t cell = cells - 1 - n;
    std::int64_t row_major = cell;
    if (rank >= 2) {
      const std::int64_t rows = extents[rank - 2];
      const std::int64_t columns = extents[rank - 1];
      const std::int64_t in_plane = cell % (rows * columns);
      const std::int64_t band = cta::band_rows(plan.parallel_rank);
      const auto at = cta::place_in_bands(in_plane, rows, columns, band);
      row_major = cell - in_plane + at.row * columns + at.column;
    }
    order[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(row_major);
  }
  return order;
}

/// How long what an SM computes takes, beside the mean of all: 1 - spread to 1 + spread.
double pace(std::uint64_t sm, double spread) {
  const std::uint64_t bits = split_mix(sm * kSplitMixStep);
  return 1 + spread * (static_cast<double>(bits >> 11) * 0x1p-52 - 1);
}

struct Cta {
  std::int64_t cell_step = 0;  ///< of the trace: the next step to fetch
  std::int64_t cell_end = 0;
  bool cell_start = true;
  std::int64_t fetched = 0;   ///< steps in all
  double producer = 0;        ///< when it can ask again
  double consumer = 0;        ///< when the warpgroups are done with all steps before
  std::vector<double> slots;  ///< when step n's slots were left, by n % stages
  double computing = 0;
  double waiting = 0;
  int sm = 0;
  int place = 0;  ///< of its SM among those that have CTAs
  double pace = 1;
  bool used = false;
};

class GpuTimeline {
 public:
  GpuTimeline(const Plan& plan, const StepTrace& trace, DType dtype, const TimelineOptions& options)
      : plan_(plan),
        trace_(trace),
        options_(options),
        launch_(launch_of(plan)),
        device_(plan.device),
        steps_(plan, launch_, model_, dtype, trace.works, options.compiled),
        cache_(static_cast<std::int64_t>(figure("l2_capacity")) - kNoBlocks, blocks_of(plan)) {
    const bool spreads = spreads_of(plan);
    for (const OperandPlan& op : plan.operands) {
      const BlockBytes& bytes = bytes_.emplace_back(op, spreads);
      opened_.emplace_back(op.role == Role::in ? op.blocks.elems() : 0);
      fetches_.push_back(bytes.by_threads() ? steps_.fetch_seconds(op, bytes.shifts()) : 0);
      if (bytes.by_threads()) issue_seconds_ = figure("thread_issue_seconds");
      const bool stored = op.role == Role::out && op.present;
      for (const bool ragged : {false, true})
        stores_[ragged ? 1 : 0].push_back(stored ? steps_.store_seconds(op, ragged) : 0);
    }
    side_by_side_ = static_cast<double>(std::min<std::int64_t>(
        steps_.resident(),
        std::max<std::int64_t>(1, (trace.cells() + device_.cores - 1) / device_.cores)));
    const double arrivals = arrivals_of_step();
    double stores[2] = {};
    for (std::size_t i = 0; i < plan.operands.size(); ++i) {
      beside_.push_back(!steps_.multiplies() && is_stored_at_every_step(i) ? 1 : 0);
      for (const int ragged : {0, 1}) {
        if (beside_[i] != 0) stores[ragged] += stores_[ragged][i];
      }
    }
    // A cell's start is a wait in which others compute.
    const double cells_of_step = static_cast<double>(trace.cells()) /
                                 static_cast<double>(std::max<std::size_t>(1, trace.work.size()));
    const double before =
        steps_.multiplies() ? 0 : cells_of_step * (cell_latency_ + 2 * scalar_seconds_);
    for (const Work& work : trace.works) {
      const StepTime t = steps_.time_of(work, side_by_side_, {arrivals, stores[0], before});
      seconds_[0].push_back(t.seconds);
      seconds_[1].push_back(
          stores[1] == stores[0]
              ? t.seconds
              : steps_.time_of(work, side_by_side_, {arrivals, stores[1], before}).seconds);
      lag_.push_back(t.lag);
      local_dram_.push_back(t.local_dram);
      local_bytes_ = std::max(local_bytes_, t.local_bytes);
      beside_fetch_.push_back(t.beside_fetch);
    }
  }

  Timeline run();
  /// Bytes of all arrays that it touches, each once.
  std::int64_t touched() const;
  std::int64_t code_bytes() const;
  /// Empty: the CUDA build compiles it.
  std::string why_not() const;
  /// Within which nine in ten such kernels were that no figure was fitted to.
  void say_interval(Timeline& line) const;
  /// Starts anew, with all that it touches in L2.
  void again();

 private:
  double figure(const char* name) const { return model_[name]; }
  static std::vector<std::int64_t> blocks_of(const Plan& plan) {
    std::vector<std::int64_t> blocks;
    for (const OperandPlan& op : plan.operands)
      blocks.push_back(op.present && op.pipelined() ? op.blocks.elems() : 0);
    return blocks;
  }
  /// Groups of SMs that have CTAs.
  int groups_there() const {
    return static_cast<int>(std::clamp<std::int64_t>(trace_.cells(), 1, kSmGroups));
  }
  /// Where threads bring some input, each of them arrives for every block of a step, and each that
  /// computes gives the step's slots back.
  double arrivals_of_step() const;
  bool is_stored_at_every_step(std::size_t operand) const {
    const OperandPlan& op = plan_.operands[operand];
    if (op.role != Role::out || !op.present) return false;
    const auto& blocks = trace_.blocks[operand];
    return std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end();
  }
  bool next_cell(Cta& cta);
  /// One step of a CTA: its blocks are asked for, then it is computed.
  void step(Cta& cta, int sm, Timeline& line);
  /// What DRAM gives of an input's block, and until when.
  double from_dram(std::size_t operand, std::int32_t block, int sm, double asked);
  const Plan& plan_;
  const StepTrace& trace_;
  const TimelineOptions& options_;
  const cta::Launch launch_;
  const DeviceSpec& device_;
  const GpuModel model_{device_};
  const GpuSteps steps_;
  L2Cache cache_;
  std::vector<BlockBytes> bytes_;
  /// Of each operand's pages: how much DRAM had given when they were last asked for.
  std::vector<std::vector<std::int64_t>> opened_;
  std::vector<std::int32_t> order_;
  std::int64_t drawn_ = 0;
  bool warm_ = false;     ///< all is in L2
  Server l2_[kSmGroups];  ///< of each group of SMs its share
  Server dram_;
  Server writes_;        ///< of L2: nobody waits for them but the end
  Busy products_;        ///< of the mean SM
  Busy steps_computed_;  ///< of all CTAs
  std::vector<Server> ports_;
  double side_by_side_ = 1;      ///< CTAs on an SM
  std::vector<double> fetches_;  ///< of each operand: until threads have brought a block
  /// Of each operand: of a block's stores, whole and with columns that are not there.
  std::vector<double> stores_[2];
  std::vector<char> beside_;        ///< 1: stored beside what each step computes, and part of it
  std::vector<double> seconds_[2];  ///< of each of the trace's works; 1: what it stores is ragged
  std::vector<double> lag_;
  std::vector<double> local_dram_;
  double local_bytes_ = 0;
  std::vector<double> beside_fetch_;
  // What every step asks for: bytes per second, and seconds.
  const double l2_rate_ = figure("l2_bandwidth") / groups_there();  ///< of a group
  const double dram_rate_ = device_.hbm_bytes_per_s * figure("hbm_efficiency");
  const double port_rate_ = figure("sm_bandwidth");
  const double store_rate_ = figure("store_bandwidth");
  const double write_rate_ = figure("write_bandwidth");
  const double load_latency_ = figure("load_latency");
  const double dram_latency_ = figure("dram_latency");
  const double page_seconds_ = figure("page_seconds");
  const double page_reuse_ = figure("page_reuse");
  /// Bytes that DRAM gives in the time that one request takes.
  const std::int64_t on_its_way_ =
      static_cast<std::int64_t>(dram_rate_ * (load_latency_ + dram_latency_));
  const double split_line_ = figure("split_line");
  const double outside_line_ = figure("outside_line");
  /// From one step's copies to the next one's: of one thread that starts them all, or of the many
  /// that some operand's rows are for.
  double issue_seconds_ = figure("issue_seconds");
  /// Where maps of blocks, and at a cell's start the bounds of its loops, read scalars, which lie
  /// in global memory.
  const double scalar_seconds_ = plan_.scalars.empty() ? 0 : figure("scalar_seconds");
  const double cell_latency_ = figure("cell_latency");
  const double draw_latency_ = figure("draw_latency");
};

double GpuTimeline::arrivals_of_step() const {
  const bool by_threads =
      std::any_of(bytes_.begin(), bytes_.end(), [](const BlockBytes& b) { return b.by_threads(); });
  if (!by_threads || trace_.cells() == 0) return 0;
  int changing = 0;  // from step to step
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    if (plan_.operands[i].role != Role::in || !plan_.operands[i].present) continue;
    bool changes = false;
    for (std::int64_t s = trace_.cell_begin[0] + 1; s < trace_.cell_begin[1] && !changes; ++s)
      changes = trace_.blocks[i][static_cast<std::size_t>(s)] !=
                trace_.blocks[i][static_cast<std::size_t>(s - 1)];
    changing += changes ? 1 : 0;
  }
  return changing > 0 ? static_cast<double>(cta::kWarpgroup) * (changing + launch_.warpgroups) : 0;
}

bool GpuTimeline::next_cell(Cta& cta) {
  while (drawn_ < static_cast<std::int64_t>(order_.size())) {
    const auto cell = static_cast<std::size_t>(order_[static_cast<std::size_t>(drawn_++)]);
    cta.cell_step = trace_.cell_begin[cell];
    cta.cell_end = trace_.cell_begin[cell + 1];
    cta.cell_start = true;
    if (cta.cell_step < cta.cell_end) return true;
  }
  return false;
}

double GpuTimeline::from_dram(std::size_t operand, std::int32_t block, int sm, double asked) {
  if (warm_) return asked;
  BlockBytes& blocks = bytes_[operand];
  const BlockBytes::Bytes& bytes = blocks.of(block);
  const std::int64_t missed = cache_.read(static_cast<int>(operand), blocks.granules(block),
                                          bytes.dram, side_of(sm, device_.cores));
  if (missed == 0) return asked;
  // A page that is asked for while another of its blocks is on its way may still be open.
  std::int64_t& opened = opened_[operand][static_cast<std::size_t>(blocks.pages(block))];
  const std::int64_t now = cache_.dram_read();
  const bool open = opened > 0 && now - opened < on_its_way_;
  opened = now;
  const double pages = static_cast<double>(bytes.pages) * static_cast<double>(missed) /
                       static_cast<double>(bytes.dram) * (open ? page_reuse_ : 1);
  const double seconds = std::max(static_cast<double>(missed) / dram_rate_, pages * page_seconds_);
  return dram_.serve(asked, seconds) + dram_latency_;
}

void GpuTimeline::step(Cta& cta, int sm, Timeline& line) {
  const std::int64_t step = cta.cell_step;
  const auto s = static_cast<std::size_t>(step);
  const auto slot = static_cast<std::size_t>(cta.fetched % launch_.stages.of_step);
  Server& l2 = l2_[group_of(sm, device_.cores)];
  if (cta.cell_start && cta.used) cta.producer += draw_latency_;
  // Which blocks come next is read first.
  const double asked = std::max(cta.producer, cta.slots[slot]) + scalar_seconds_;
  double arrived = asked;
  double fetch = 0;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    const OperandPlan& op = plan_.operands[i];
    if (op.role != Role::in || !op.present) continue;
    const std::int32_t block = trace_.blocks[i][s];
    if (!cta.cell_start && trace_.blocks[i][s - 1] == block) continue;
    const BlockBytes::Bytes& bytes = bytes_[i].of(block);
    all += bytes.core;
    fetch += fetches_[i];
    const double lines = static_cast<double>(bytes.lines) +
                         split_line_ * static_cast<double>(bytes.split) +
                         outside_line_ * static_cast<double>(bytes.outside);
    const double at = l2.serve(asked, static_cast<double>(kLine) * lines / l2_rate_);
    arrived = std::max({arrived, at, from_dram(i, block, sm, asked)});
  }
  line.l2_to_core_bytes += all;
  if (fetch > 0 && launch_.stages.of_step > 1)
    fetch += beside_fetch_[static_cast<std::size_t>(trace_.work[s])];
  if (all > 0) {
    const double through =
        ports_[static_cast<std::size_t>(sm)].serve(asked, static_cast<double>(all) / port_rate_);
    arrived = std::max({arrived, through, asked + fetch}) + load_latency_;
    cta.producer = asked + issue_seconds_ + fetch;
  }
  if (cta.cell_start) cta.consumer += cell_latency_ + 2 * scalar_seconds_;
  const double start = std::max(arrived, cta.consumer);
  if (cta.used) cta.waiting += start - cta.consumer;
  cta.used = true;
  double seconds = 0;
  int ragged = 0;
  const bool last = step + 1 == cta.cell_end;
  std::int64_t written = 0;
  for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
    const OperandPlan& op = plan_.operands[i];
    if (op.role != Role::out || !op.present) continue;
    const std::int32_t block = trace_.blocks[i][s];
    if (!last && trace_.blocks[i][s + 1] == block) continue;
    const std::int64_t bytes = bytes_[i].of(block).l2;
    cache_.write(static_cast<int>(i), block, bytes_[i].of(block).own, side_of(sm, device_.cores));
    written += bytes;
    const int some = bytes_[i].ragged(block) ? 1 : 0;
    if (beside_[i] != 0)
      ragged = std::max(ragged, some);
    else
      seconds += side_by_side_ * stores_[some][i];
  }
  seconds += cta.pace * seconds_[ragged][static_cast<std::size_t>(trace_.work[s])];
  if (written > 0) {
    seconds += static_cast<double>(written) / store_rate_;
    // At the time of asking: a server that is told of later requests first would stand still.
    l2.serve(asked, static_cast<double>(written) / l2_rate_);
    if (!warm_) dram_.serve(asked, static_cast<double>(written) / dram_rate_);
  }
  cta.consumer = start + seconds;
  if (written > 0) writes_.serve(cta.consumer, static_cast<double>(written) / write_rate_);
  cta.computing += seconds;
  steps_computed_.add(start, cta.consumer, seconds);
  const Work& work = trace_.works[static_cast<std::size_t>(trace_.work[s])];
  if (work.matrix_flops > 0) {
    products_.add(start, cta.consumer, steps_.product_seconds(work) / device_.cores);
  }
  cta.slots[slot] = cta.consumer + lag_[static_cast<std::size_t>(trace_.work[s])];
  ++cta.fetched;
  ++cta.cell_step;
  cta.cell_start = false;
  if (line.spans.size() + 3 <= options_.most_spans && cta.place < 4) {
    if (all > 0) line.spans.push_back({cta.place, Span::Unit::fetch, step, asked, arrived, -1, 0});
    line.spans.push_back({cta.place, Span::Unit::compute, step, start, cta.consumer, -1, 0});
  }
}

std::int64_t GpuTimeline::touched() const {
  std::int64_t bytes = 0;
  for (const OperandPlan& op : plan_.operands) {
    if (op.present && op.pipelined()) bytes += packed_bytes(op.dtype, op.array.elems());
  }
  return bytes;
}

std::int64_t GpuTimeline::code_bytes() const {
  if (options_.compiled) {
    // All of short code is run; of long code (masks, blocks that are not whole) part. Of 110 runs.
    constexpr std::int64_t kArguments = 3'000;
    constexpr std::int64_t kAllRun = 76'000;
    constexpr double kOfTheRest = 0.38;
    const std::int64_t bytes = options_.compiled->code_bytes;
    return kArguments + std::min(bytes, kAllRun) +
           std::llround(kOfTheRest *
                        static_cast<double>(std::max<std::int64_t>(bytes - kAllRun, 0)));
  }
  bool products = false;
  bool functions = false;
  for (const Work& w : trace_.works) {
    products = products || w.matrix_flops > 0;
    functions = functions || w.transcendentals > 0;
  }
  if (!products || !functions) return kCodeBytes;
  return kCodeBytes + kFunctionsCodeBytes + (launch_.tensor_cores ? 0 : kUnrolledCodeBytes) +
         std::llround(steps_.code_bytes());
}

std::string GpuTimeline::why_not() const {
  if (launch_.groups > 1) return "groups of warps do the runs of its sum side by side";
  if (!launch_.tensor_cores || launch_.mma_sync) return "";
  for (const Work& work : trace_.works) {
    for (const StepProduct& p : steps_.products_of(work)) {
      const bool keys =
          p.right_turned && work.held_product > 0 &&
          std::any_of(plan_.operands.begin(), plan_.operands.end(), [&](const OperandPlan& op) {
            return op.role == Role::in && op.rows == static_cast<int>(p.cols);
          });
      if (keys && std::fmod(p.cols, 32) != 0)
        return "the CUDA build compiles no scores of " + std::to_string(std::lround(p.cols)) +
               " columns: wgmma's are multiples of 32 here";
    }
  }
  return "";
}

void GpuTimeline::say_interval(Timeline& line) const {
  const bool products = std::any_of(trace_.works.begin(), trace_.works.end(),
                                    [](const Work& w) { return w.matrix_flops > 0; });
  const std::string of = !products              ? "elementwise"
                         : launch_.mma_sync     ? "mma_sync"
                         : launch_.tensor_cores ? "wgmma"
                                                : "fma";
  line.least_seconds = line.seconds * figure(("least_" + of).c_str());
  line.most_seconds = line.seconds * figure(("most_" + of).c_str());
}

void GpuTimeline::again() {
  drawn_ = 0;
  for (Server& l2 : l2_) l2 = {};
  dram_ = {};
  writes_ = {};
  products_ = {};
  steps_computed_ = {};
  ports_.clear();
  for (auto& opened : opened_) std::fill(opened.begin(), opened.end(), 0);
  warm_ = true;
}

Timeline GpuTimeline::run() {
  Timeline line;
  line.model = options_.compiled ? "pipeline of the CUDA build, fitted to a GPU, and nvcc's code"
                                 : "pipeline of the CUDA build, fitted to a GPU";
  std::vector<std::int64_t> extents;
  for (int d = 0; d < plan_.parallel_rank; ++d)
    extents.push_back(trace_.grid[static_cast<std::size_t>(d)]);
  order_ = drawn_cells(plan_, extents, trace_.cells());
  const auto ctas = static_cast<std::size_t>(
      std::min<std::int64_t>(std::int64_t{device_.cores} * steps_.resident(), trace_.cells()));
  std::vector<Cta> cta(ctas);
  ports_.resize(static_cast<std::size_t>(device_.cores));
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  const double launch = figure("launch_seconds");
  for (std::size_t i = 0; i < ctas; ++i) {
    cta[i].slots.assign(static_cast<std::size_t>(launch_.stages.of_step), launch);
    cta[i].producer = launch;
    cta[i].consumer = launch;
    cta[i].sm = static_cast<int>(
        sm_of(static_cast<std::int64_t>(i), static_cast<std::int64_t>(ctas), device_.cores));
    cta[i].place = ctas < ports_.size() ? static_cast<int>(i) : cta[i].sm;
    cta[i].pace = pace(static_cast<std::size_t>(cta[i].sm), figure("sm_spread"));
    if (next_cell(cta[i])) events.emplace(launch, i);
  }
  while (!events.empty()) {
    const std::size_t i = events.top().second;
    events.pop();
    Cta& c = cta[i];
    step(c, c.sm, line);
    if (c.cell_step == c.cell_end && !next_cell(c)) continue;
    events.emplace(
        std::max(c.producer, c.slots[static_cast<std::size_t>(c.fetched % launch_.stages.of_step)]),
        i);
  }
  line.l2_to_core_bytes += kDrawBytes * trace_.cells();
  double end = launch;
  for (const Cta& c : cta) end = std::max(end, c.consumer);
  // What is on its way to DRAM is waited for only where it is more than the cache holds.
  line.seconds = std::max({end, dram_.free, writes_.free});
  // Inputs whose rows are moved apart first.
  for (const BlockBytes& b : bytes_) {
    if (b.spread_bytes() == 0) continue;
    line.seconds += figure("copy_launch_seconds") +
                    2 * static_cast<double>(b.spread_bytes()) / figure("copy_bandwidth");
    line.dram_read_bytes += b.spread_bytes();
  }
  for (const Cta& c : cta) {
    line.compute_seconds += c.computing;
    line.exposed_seconds += c.waiting;
  }
  line.compute_seconds /= static_cast<double>(std::max<std::size_t>(1, ctas));
  line.exposed_seconds /= static_cast<double>(std::max<std::size_t>(1, ctas));
  line.idle_seconds = line.seconds - line.compute_seconds - line.exposed_seconds;
  double local = 0;
  for (const std::int32_t w : trace_.work) local += local_dram_[static_cast<std::size_t>(w)];
  local += steps_.early_loads() * static_cast<double>(ctas);
  line.dram_read_bytes += code_bytes() + cache_.dram_read() + std::llround(local);
  line.dram_write_bytes = cache_.dram_written();
  if (local_bytes_ >= kManyLocal)
    line.dram_left_out = fmt::format(
        "what L2 does not keep of {:.0f} MB of registers in local memory", local_bytes_ / 1e6);
  double lacking = 0;
  for (const Work& w : trace_.works) {
    const GpuSteps::Spilled s = steps_.spilled(w);
    lacking = std::max(lacking, s.sums + s.all);
  }
  line.compiled = options_.compiled;
  const auto warn = [&line](const std::string& of) {
    if (!of.empty()) line.warning += (line.warning.empty() ? "" : "; ") + of;
  };
  warn(fall_from_tensor_cores(plan_));
  const auto [fewest, most] = steps_.resident_between();
  if (!line.compiled && launch_.tensor_cores && lacking >= 1) {
    warn("about " + std::to_string(static_cast<int>(lacking)) +
         " values a thread find no register");
  } else if (!line.compiled && fewest < most && trace_.cells() > device_.cores) {
    warn(fmt::format(
        "nvcc's registers, an estimate here, decide whether an SM has {} or {} CTAs ({} here): "
        "--timing compiler counts them",
        fewest, most, steps_.resident()));
  }
  const auto less_busy = [](const Server& a, const Server& b) {
    return a.busy.total() < b.busy.total();
  };
  const Server& port = *std::max_element(ports_.begin(), ports_.end(), less_busy);
  const Server& l2 = *std::max_element(std::begin(l2_), std::end(l2_), less_busy);
  line.busy = {
      resource_of(launch_.tensor_cores ? "tensor cores" : "FMA units", products_, line.seconds),
      resource_of("SM port", port.busy, line.seconds), resource_of("L2", l2.busy, line.seconds),
      resource_of("DRAM", dram_.busy, line.seconds)};
  line.computing = steps_computed_.over(line.seconds, Resource::kParts);
  for (double& c : line.computing) c /= static_cast<double>(std::max<std::size_t>(1, ctas));
  return line;
}

/// Part of what a kernel touches that L2 no longer has when it runs again; `of_kept`: times what L2
/// keeps. A cache that makes room anywhere hits h of its accesses where a line outlives the
/// (1 - h) of_kept others that are missed meanwhile: h = exp(-(1 - h) of_kept).
double missed_again(double of_kept) {
  if (of_kept <= 1) return 0;
  double missed = 1;
  for (int n = 0; n < 100; ++n) missed = 1 - std::exp(-missed * of_kept);
  return missed;
}
/// Of a kernel that finds nothing.
constexpr double kAllMissed = 0.99;

}  // namespace

Timeline gpu_timeline(const Plan& plan, const StepTrace& trace, DType dtype,
                      const TimelineOptions& options) {
  GpuTimeline timeline(plan, trace, dtype, options);
  Timeline line;
  line.unmodelled = timeline.why_not();
  if (!line.unmodelled.empty()) return line;
  line = timeline.run();
  // Who measures runs a kernel again and again, and finds in L2 part of what the run before left.
  const double missed =
      missed_again(static_cast<double>(timeline.touched()) / plan.device.model.at("l2_kept").value);
  if (missed < kAllMissed) {
    const Timeline first = line;
    timeline.again();
    line = timeline.run();
    line.seconds += missed * (first.seconds - line.seconds);
    line.l2_to_core_bytes = first.l2_to_core_bytes;
    line.dram_read_bytes = first.dram_read_bytes;
    line.dram_write_bytes = first.dram_write_bytes;
  }
  timeline.say_interval(line);
  return line;
}

}  // namespace tessera::predict
