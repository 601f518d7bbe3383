#include "predict/grid_bytes.hpp"

#include <algorithm>
#include <vector>

#include "predict/gpu_model.hpp"
#include "predict/l2_cache.hpp"
#include "predict/sm_place.hpp"

namespace tessera::predict {

namespace {

// Fitted to DRAM's counters of 751 launches on an H100 (predict/ACCURACY.md).
constexpr double kUsed = 0.915;  ///< of the L2: 48 MB of 52.4
/// Of a program, that one which an SM does not keep up with is behind the one before, times the
/// programs that the SM has.
constexpr double kBehind = 0.6;

}  // namespace

GridReads grid_reads(const GridTiles& tiles) {
  std::vector<std::int64_t> reader(tiles.tiles.size(), -1);
  double counts[3] = {};
  double bytes[3] = {};
  for (std::size_t p = 0; p < tiles.begins.size(); ++p) {
    const std::size_t end =
        p + 1 < tiles.begins.size() ? tiles.begins[p + 1] : tiles.accesses.size();
    for (std::size_t i = tiles.begins[p]; i < end; ++i) {
      const GridTiles::Access& a = tiles.accesses[i];
      if (a.write) continue;
      const GridTile& tile = tiles.tiles[static_cast<std::size_t>(a.tile)];
      std::int64_t& before = reader[static_cast<std::size_t>(a.tile)];
      const bool own = before == static_cast<std::int64_t>(p);
      const bool first = before < 0 && 2 * tile.fresh >= tile.bytes;
      const int which = first ? 0 : own ? 2 : 1;
      counts[which] += 1;
      bytes[which] += static_cast<double>(tile.bytes);
      before = static_cast<std::int64_t>(p);
    }
  }
  const auto shares = [](const double(&of)[3]) {
    const double all = of[0] + of[1] + of[2];
    return all > 0 ? ReadShares{of[0] / all, of[1] / all, of[2] / all} : ReadShares{};
  };
  return {shares(counts), shares(bytes)};
}

GridBytes grid_bytes(const DeviceSpec& device, const GridTiles& tiles, const SideBySide& how) {
  const double l2_capacity = kUsed * checked_figure(device, "l2_capacity");
  L2Cache cache(static_cast<std::int64_t>(l2_capacity),
                {static_cast<std::int64_t>(tiles.tiles.size())});
  struct Place {
    std::size_t program = 0;
    std::size_t at = 0;
    std::size_t end = 0;
    bool late = false;
    std::size_t waits = 0;  // accesses of another program, before the first
  };
  std::size_t next = 0;
  const auto place_of_next = [&] {
    const std::size_t program = next++;
    const std::size_t end =
        program + 1 < tiles.begins.size() ? tiles.begins[program + 1] : tiles.accesses.size();
    return Place{program, tiles.begins[program], end, program >= tiles.begins.size() / 2};
  };
  std::vector<std::int64_t> reader(tiles.tiles.size(), -1);
  std::vector<Place> running;
  const auto sms = static_cast<std::size_t>(device.cores);
  const std::size_t most = sms * static_cast<std::size_t>(how.resident);
  // Of an SM's first programs, accesses of another that the n-th is behind the first one.
  const auto behind = [&](std::size_t n) {
    const double of_program = static_cast<double>(tiles.accesses.size()) /
                              static_cast<double>(tiles.begins.size()) / how.resident;
    return kBehind * of_program * std::max(0., static_cast<double>(n + 1) - how.kept_up);
  };
  // What more programs than were written down take is as what the later half of these does.
  struct Bytes {
    double read = 0;  // that programs ask for
    double dram = 0;  // of them
    double written = 0;
  };
  Bytes all;
  Bytes late;
  while (next < tiles.begins.size() || !running.empty()) {
    while (running.size() < most && next < tiles.begins.size()) {
      const bool first = next < most;
      const std::size_t beside = running.size() / sms;  // that are on its SM already
      running.push_back(place_of_next());
      if (first) running.back().waits = static_cast<std::size_t>(behind(beside));
    }
    for (Place& p : running) {
      if (p.waits > 0) {
        --p.waits;
        continue;
      }
      while (p.at == p.end && next < tiles.begins.size()) p = place_of_next();
      if (p.at == p.end) continue;
      const GridTiles::Access& a = tiles.accesses[p.at++];
      const GridTile& tile = tiles.tiles[static_cast<std::size_t>(a.tile)];
      Bytes more;
      if (a.write) {
        if (tile.fresh > 0) cache.write(0, a.tile, tile.fresh);
        more.written = static_cast<double>(tile.bytes);
      } else {
        std::int64_t& last = reader[static_cast<std::size_t>(a.tile)];
        const bool again = last == static_cast<std::int64_t>(p.program);
        last = static_cast<std::int64_t>(p.program);
        const auto sm = static_cast<int>((&p - running.data()) % device.cores);
        if (tile.fresh > 0)
          more.dram =
              static_cast<double>(cache.read(0, a.tile, tile.fresh, side_of(sm, device.cores)));
        if (again && how.gone) more.dram = *how.gone * static_cast<double>(tile.fresh);
        more.read = static_cast<double>(tile.bytes);
      }
      for (Bytes* to : {&all, p.late ? &late : nullptr}) {
        if (to == nullptr) continue;
        to->read += more.read;
        to->dram += more.dram;
        to->written += more.written;
      }
    }
    std::erase_if(running, [](const Place& p) { return p.at == p.end; });
  }
  GridBytes bytes{all.dram, static_cast<double>(cache.dram_written())};
  const double more = tiles.share - 1;
  if (more > 0 && late.read > 0) {
    bytes.dram_read += more * all.read * late.dram / late.read;
    // The cache keeps some of what was written: as much as of what crossed it last, of which what
    // is read takes room twice.
    const double written = tiles.share * all.written;
    const double kept = l2_capacity * written / (written + 2 * bytes.dram_read);
    bytes.dram_written = std::max(bytes.dram_written, written - kept);
  }
  return bytes;
}

}  // namespace tessera::predict
