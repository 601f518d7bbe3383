#include "triton/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/diagnostics/slugs.hpp"

namespace tessera::triton {

namespace {

constexpr int kSiteBits = 16;
constexpr std::uint64_t kSiteMask = (std::uint64_t{1} << kSiteBits) - 1;
/// Another program than the one that is named has accessed it, too.
constexpr std::uint64_t kSeveral = std::uint64_t{1} << 63;
/// Of a writer: it left other bytes than there were.
constexpr std::uint64_t kChanged = std::uint64_t{1} << 62;

std::uint64_t word(std::int64_t program, int site) {
  return (static_cast<std::uint64_t>(program) + 1) << kSiteBits |
         std::min<std::uint64_t>(static_cast<std::uint64_t>(site), kSiteMask);
}
std::uint64_t program_part(std::uint64_t w) { return (w & ~(kSeveral | kChanged)) >> kSiteBits; }
std::int64_t program_of(std::uint64_t w) { return static_cast<std::int64_t>(program_part(w)) - 1; }

/// Names the accessor of a granule; any number of threads, in any order, leave the same: one
/// program, or several.
void note(std::uint64_t& granule, std::uint64_t me) {
  const std::atomic_ref<std::uint64_t> cell(granule);
  std::uint64_t seen = cell.load(std::memory_order_relaxed);
  for (;;) {
    if ((seen & kSeveral) != 0 || program_part(seen) == program_part(me)) return;
    const std::uint64_t wanted = seen == 0 ? me : seen | kSeveral;
    if (cell.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) return;
  }
}

/// Any number may be an address.
bool follows(std::int64_t address, std::int64_t next, std::int64_t width) {
  return static_cast<std::uint64_t>(next) - static_cast<std::uint64_t>(address) ==
         static_cast<std::uint64_t>(width);
}

const char* verb(Site::Kind kind) {
  switch (kind) {
    case Site::Kind::load:
      return "reads";
    case Site::Kind::store:
      return "writes";
    case Site::Kind::atomic:
      break;
  }
  return "updates";
}

std::string describe(const GlobalStorage& s) {
  return fmt::format("{}: {}[{}]", s.name, name(s.dtype), s.size / register_bytes(s.dtype));
}

std::string line_of(const Instance& x, const Site& site) {
  const Location& l = x.program.locations[static_cast<std::size_t>(site.location)];
  return source_excerpt({l.file.c_str(), l.line});
}

}  // namespace

Memory::Memory(std::vector<GlobalStorage> storages, const std::vector<Site>& sites,
               std::int64_t granule, bool several, bool alone)
    : storages_(std::move(storages)),
      sites_(sites),
      granule_(granule),
      alone_(alone),
      seen_(storages_.size()) {
  for (std::size_t s = 0; several && s < storages_.size(); ++s) {
    if (!storages_[s].watched) continue;
    const auto granules = static_cast<std::size_t>((storages_[s].size + granule - 1) / granule);
    seen_[s].readers.resize(granules);
    seen_[s].writers.resize(granules);
  }
}

void Memory::set_undefined(std::size_t storage) {
  any_undefined_ = true;
  seen_[storage].undefined.assign(
      static_cast<std::size_t>((storages_[storage].size + granule_ - 1) / granule_), kAnyRead);
}

void Memory::set_undefined(std::size_t storage, const std::vector<bool>& bytes) {
  std::vector<std::uint8_t>& of = seen_[storage].undefined;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!bytes[i]) continue;
    if (of.empty())
      of.resize(static_cast<std::size_t>((storages_[storage].size + granule_ - 1) / granule_));
    of[i / static_cast<std::size_t>(granule_)] = kAnyRead;
    any_undefined_ = true;
  }
}

void Memory::undefined_after(std::size_t storage, std::vector<bool>& bytes) const {
  const std::vector<std::uint8_t>& of = seen_[storage].undefined;
  if (of.empty()) return bytes.clear();
  bytes.resize(static_cast<std::size_t>(storages_[storage].size));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = of[i / static_cast<std::size_t>(granule_)] != 0;
}

Memory::Place Memory::place(int site, std::int64_t address, std::int64_t bytes) const {
  const std::int64_t number = (address >> kAddressBits) - 1;
  const std::int64_t offset = address & ((std::int64_t{1} << kAddressBits) - 1);
  if (number < 0 || number >= std::ssize(storages_) ||
      offset + bytes > storages_[static_cast<std::size_t>(number)].size)
    fail_bounds(site, address, bytes);
  return {static_cast<std::size_t>(number), offset};
}

void Memory::fail_bounds(int site, std::int64_t address, std::int64_t bytes) const {
  if (!alone_) throw Again{};
  Diagnostic d{.slug = "oob-index"};
  const char* const does = verb(sites_[static_cast<std::size_t>(site)].kind);
  // An address just before a storage belongs to it, as one after it does.
  constexpr std::int64_t kSpan = std::int64_t{1} << kAddressBits;
  const std::int64_t last = base_address(storages_.size());
  const bool near_one = address >= kSpan / 2 && address < last - kSpan / 2;
  const std::int64_t number = near_one ? (address + kSpan / 2) / kSpan - 1 : -1;
  if (number < 0) {
    d.headline = fmt::format("it {} at address {:#x}, where no storage is", does, address);
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
  } else {
    const GlobalStorage& s = storages_[static_cast<std::size_t>(number)];
    const std::int64_t width = register_bytes(s.dtype);
    std::int64_t first = address - base_address(static_cast<std::size_t>(number));
    // Of a run, the first bytes that are outside.
    std::int64_t wanted = bytes;
    if (first >= 0 && first < s.size) {
      wanted -= s.size - first;
      first = s.size;
    }
    const std::int64_t element = first >= 0 ? first / width : -((-first + width - 1) / width);
    d.headline =
        fmt::format("it {} element {} of {}, which has {}", does, element, s.name, s.size / width);
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    d.fields.emplace_back("ref", describe(s));
    d.fields.emplace_back("bytes",
                          fmt::format("wanted [{}, {}); {} ends at {}", first,
                                      first + std::max<std::int64_t>(wanted, 1), s.name, s.size));
  }
  d.fields.emplace_back("help", "mask off the lanes that are outside of the tensor");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

bool Memory::ordered(const Instance& x, std::uint64_t earlier) const {
  const auto known = x.knows.find(program_of(earlier));
  return known != x.knows.end();
}

void Memory::fail_race(Instance& x, int site, const Place& at, std::uint64_t earlier,
                       bool earlier_writes, bool writes) const {
  const GlobalStorage& s = storages_[at.storage];
  const std::int64_t width = register_bytes(s.dtype);
  Diagnostic d{.slug = "race"};
  d.headline = fmt::format(
      "two programs access element {} of {}, and {}", at.offset / width, s.name,
      writes && earlier_writes ? "write different values there" : "one of them changes it");
  add_kernel_field(d);
  const auto line = [&](std::uint64_t w, bool write) {
    d.fields.emplace_back(write ? "write" : "read",
                          line_of(x, sites_[static_cast<std::size_t>(w & kSiteMask)]) +
                              fmt::format("   program {}", program_of(w)) +
                              ((w & kSeveral) != 0 ? ", and others" : ""));
  };
  line(earlier, earlier_writes);
  line(word(x.number, site), writes);
  d.fields.emplace_back("bytes", fmt::format("both touch [{}, {}) of {}", at.offset,
                                             at.offset + granule_, describe(s)));
  d.fields.emplace_back(
      "help",
      "programs of a grid run in any order, and at the same time: give each its own "
      "elements, or use atomics");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

void Memory::note_read(Instance& x, int site, const Place& at, std::int64_t bytes) {
  Seen& seen = seen_[at.storage];
  if (seen.readers.empty()) return;
  const std::uint64_t me = word(x.number, site);
  const std::int64_t last = (at.offset + bytes - 1) / granule_;
  for (std::int64_t g = at.offset / granule_; g <= last; ++g) {
    const auto i = static_cast<std::size_t>(g);
    note(seen.readers[i], me);
    if (!alone_) continue;
    const std::uint64_t writer = seen.writers[i];
    if ((writer & kChanged) != 0 && program_part(writer) != program_part(me) && !ordered(x, writer))
      fail_race(x, site, {at.storage, g * granule_}, writer, true, false);
  }
}

void Memory::note_write(Instance& x, int site, const Place& at, const std::byte* from,
                        std::int64_t bytes) {
  Seen& seen = seen_[at.storage];
  if (seen.writers.empty()) return;
  const GlobalStorage& s = storages_[at.storage];
  const std::uint64_t me = word(x.number, site);
  const std::int64_t last = (at.offset + bytes - 1) / granule_;
  for (std::int64_t g = at.offset / granule_; g <= last; ++g) {
    const auto i = static_cast<std::size_t>(g);
    if (!alone_) {
      note(seen.writers[i], me);
      continue;
    }
    const std::int64_t first = std::max(g * granule_, at.offset);
    const std::int64_t end = std::min((g + 1) * granule_, at.offset + bytes);
    const bool changes = std::memcmp(s.bytes + first, from + (first - at.offset),
                                     static_cast<std::size_t>(end - first)) != 0;
    const std::uint64_t writer = seen.writers[i];
    const std::uint64_t reader = seen.readers[i];
    if (changes) {
      const Place granule{at.storage, g * granule_};
      if (writer != 0 && program_part(writer) != program_part(me) && !ordered(x, writer))
        fail_race(x, site, granule, writer, true, true);
      // Of several readers the first alone is known: who has acquired anything may know them all.
      const bool others = (reader & kSeveral) != 0 && x.knows.empty();
      if (reader != 0 &&
          ((program_part(reader) != program_part(me) && !ordered(x, reader)) || others))
        fail_race(x, site, granule, reader, false, true);
    }
    if (changes || writer == 0) seen.writers[i] = changes ? me | kChanged : me;
  }
}

void Memory::load(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
                  std::int64_t n, std::int64_t width, std::byte* to, StorageHandle& undefined) {
  const auto on = [&](std::int64_t i) { return mask == nullptr || mask[i] != std::byte{0}; };
  std::size_t last = SIZE_MAX;
  for (std::int64_t i = 0; i < n;) {
    if (!on(i)) {
      ++i;
      continue;
    }
    // A run: lanes at addresses that follow one another.
    std::int64_t end = i + 1;
    while (end < n && follows(addresses[end - 1], addresses[end], width) && on(end)) ++end;
    const std::int64_t bytes = (end - i) * width;
    const Place at = place(site, addresses[i], bytes);
    const GlobalStorage& s = storages_[at.storage];
    std::memcpy(to + i * width, s.bytes + at.offset, static_cast<std::size_t>(bytes));
    note_read(x, site, at, bytes);
    Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at.storage];
    r.read_bytes += bytes;
    if (at.storage != last) ++r.times;
    last = at.storage;
    if (any_undefined_ && !seen_[at.storage].undefined.empty()) {
      for (std::int64_t k = i; k < end; ++k) {
        const Origin o = undefined_at(addresses[k], width);
        if (o == 0) continue;
        if (!undefined) undefined = poison_mask(n, 0);
        // What was stored undefined has an origin of its own.
        undefined.bytes()[k] = std::byte{o == kAnyRead ? x.undefined() : o};
      }
    }
    i = end;
  }
}

void Memory::store(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
                   std::int64_t n, std::int64_t width, const std::byte* from,
                   const std::byte* undefined) {
  const auto on = [&](std::int64_t i) { return mask == nullptr || mask[i] != std::byte{0}; };
  x.waits = 0;
  std::size_t last = SIZE_MAX;
  std::int64_t reach = INT64_MIN;
  bool checked = false;
  for (std::int64_t i = 0; i < n;) {
    if (!on(i)) {
      ++i;
      continue;
    }
    std::int64_t end = i + 1;
    while (end < n && follows(addresses[end - 1], addresses[end], width) && on(end)) ++end;
    const std::int64_t bytes = (end - i) * width;
    const Place at = place(site, addresses[i], bytes);
    // Lanes whose addresses rise are apart: most stores.
    if (addresses[i] < reach && !std::exchange(checked, true))
      check_lanes(x, site, addresses, mask, n, width, from);
    reach = addresses[end - 1] + width;
    note_write(x, site, at, from + i * width, bytes);
    std::memcpy(storages_[at.storage].bytes + at.offset, from + i * width,
                static_cast<std::size_t>(bytes));
    Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at.storage];
    r.written_bytes += bytes;
    if (at.storage != last) ++r.times;
    last = at.storage;
    for (std::int64_t k = i; k < end; ++k) {
      const Origin o = undefined == nullptr ? Origin{0} : std::to_integer<Origin>(undefined[k]);
      if (o != 0)
        mark_undefined({at.storage, at.offset + (k - i) * width}, width, o);
      else if (any_undefined_)
        define(addresses[k], width);
    }
    i = end;
  }
}

void Memory::check_lanes(Instance& x, int site, const std::int64_t* addresses,
                         const std::byte* mask, std::int64_t n, std::int64_t width,
                         const std::byte* from) const {
  std::vector<std::int64_t> lanes;
  for (std::int64_t i = 0; i < n; ++i) {
    if (mask == nullptr || mask[i] != std::byte{0}) lanes.push_back(i);
  }
  std::ranges::stable_sort(lanes, {}, [&](std::int64_t i) { return addresses[i]; });
  for (std::size_t k = 1; k < lanes.size(); ++k) {
    const std::int64_t a = lanes[k - 1];
    const std::int64_t b = lanes[k];
    if (static_cast<std::uint64_t>(addresses[b]) - static_cast<std::uint64_t>(addresses[a]) >=
        static_cast<std::uint64_t>(width))
      continue;
    const Place at = place(site, addresses[b], width);
    if (addresses[a] == addresses[b] &&
        std::memcmp(from + a * width, from + b * width, static_cast<std::size_t>(width)) == 0)
      continue;
    if (!alone_) throw Again{};
    const GlobalStorage& s = storages_[at.storage];
    Diagnostic d{.slug = "race"};
    d.headline = fmt::format("two lanes of a store write different values to element {} of {}",
                             at.offset / register_bytes(s.dtype), s.name);
    add_kernel_field(d);
    d.fields.emplace_back("line", line_of(x, sites_[static_cast<std::size_t>(site)]));
    d.fields.emplace_back(
        "lanes", fmt::format("{} and {}, in row-major order", std::min(a, b), std::max(a, b)));
    d.fields.emplace_back("help",
                          "which of them stays is not defined: use atomics, or mask one off");
    add_replay_field(d);
    throw KernelError(std::move(d));
  }
}

std::byte* Memory::atomic(Instance& x, int site, std::int64_t address, std::int64_t width) {
  const Place at = place(site, address, width);
  Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at.storage];
  ++r.times;
  r.read_bytes += width;
  r.written_bytes += width;
  return storages_[at.storage].bytes + at.offset;
}

void Memory::left_unchanged(Instance& x, std::int64_t address) {
  constexpr std::int64_t kMost = 1'000'000;
  x.waits = x.waits_for == address ? x.waits + 1 : 1;
  x.waits_for = address;
  if (x.waits < kMost) return;
  Diagnostic d{.slug = "unsupported",
               .kind = Diagnostic::Kind::unsupported,
               .headline = "a program that waits for another, which the grid has later"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("help",
                        "programs with atomics run one after the other, in the order of the grid");
  throw KernelError(std::move(d));
}

void Memory::acquire(Instance& x, std::int64_t address) {
  for (const auto& [program, epoch] : released_[address]) {
    std::int64_t& known = x.knows.try_emplace(program, 0).first->second;
    known = std::max(known, epoch);
  }
}
void Memory::release(Instance& x, std::int64_t address) {
  auto& clock = released_[address];
  clock[x.number] = ++x.epoch;
  for (const auto& [program, epoch] : x.knows) {
    std::int64_t& known = clock.try_emplace(program, 0).first->second;
    known = std::max(known, epoch);
  }
}

Origin Memory::undefined_at(std::int64_t address, std::int64_t width) const {
  const auto storage = static_cast<std::size_t>((address >> kAddressBits) - 1);
  const Seen& seen = seen_[storage];
  if (seen.undefined.empty()) return 0;
  const std::int64_t offset = address - base_address(storage);
  for (std::int64_t g = offset / granule_; g <= (offset + width - 1) / granule_; ++g) {
    const auto i = static_cast<std::size_t>(g);
    if (seen.undefined[i] != 0) return seen.undefined[i];
  }
  return 0;
}

void Memory::define(std::int64_t address, std::int64_t width) {
  const auto storage = static_cast<std::size_t>((address >> kAddressBits) - 1);
  Seen& seen = seen_[storage];
  if (seen.undefined.empty()) return;
  const std::int64_t offset = address - base_address(storage);
  for (std::int64_t g = offset / granule_; g <= (offset + width - 1) / granule_; ++g) {
    std::atomic_ref(seen.undefined[static_cast<std::size_t>(g)])
        .store(0, std::memory_order_relaxed);
    if (!seen.reached.empty()) seen.reached[static_cast<std::size_t>(g)] = 0;
  }
}

void Memory::mark_undefined(const Place& at, std::int64_t width, Origin origin) {
  if (!alone_) throw Again{};
  any_undefined_ = true;
  Seen& seen = seen_[at.storage];
  const auto granules =
      static_cast<std::size_t>((storages_[at.storage].size + granule_ - 1) / granule_);
  if (seen.undefined.empty()) seen.undefined.resize(granules);
  if (seen.reached.empty()) seen.reached.resize(granules);
  for (std::int64_t g = at.offset / granule_; g <= (at.offset + width - 1) / granule_; ++g) {
    seen.undefined[static_cast<std::size_t>(g)] = origin;
    seen.reached[static_cast<std::size_t>(g)] = origin;
  }
}

bool Memory::suspect() const {
  for (const Seen& seen : seen_) {
    for (std::size_t g = 0; g < seen.writers.size(); ++g) {
      const std::uint64_t writer = seen.writers[g];
      if (writer == 0) continue;
      const std::uint64_t reader = seen.readers[g];
      if (((writer | reader) & kSeveral) != 0 ||
          (reader != 0 && program_part(reader) != program_part(writer)))
        return true;
    }
  }
  return false;
}

std::optional<Memory::Reached> Memory::reached(std::size_t storage) const {
  const Seen& seen = seen_[storage];
  Reached r;
  const std::int64_t width = register_bytes(storages_[storage].dtype);
  std::int64_t last = -1;
  for (std::size_t g = 0; g < seen.reached.size(); ++g) {
    if (seen.reached[g] == 0) continue;
    const std::int64_t element = static_cast<std::int64_t>(g) * granule_ / width;
    if (r.count == 0) {
      r.first = element;
      r.origin = seen.reached[g];
    }
    if (element != last) ++r.count;
    last = element;
  }
  if (r.count == 0) return std::nullopt;
  return r;
}

}  // namespace tessera::triton
