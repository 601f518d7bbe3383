#include "triton/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/diagnostics/slugs.hpp"

namespace tessera::triton {

namespace {

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

Memory::Memory(std::vector<GlobalStorage> storages, const std::vector<View>& views,
               const std::vector<Site>& sites, std::int64_t granule, bool several, bool alone)
    : storages_(std::move(storages)),
      sites_(sites),
      granule_(granule),
      alone_(alone),
      seen_(storages_.size()) {
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    const GlobalStorage& of = storages_[s];
    views_.push_back({s, of.name, 0, of.size});
    if (of.outside != nullptr)
      of_caller_.emplace(reinterpret_cast<std::int64_t>(of.outside), s);  // NOLINT
    if (of.watched)
      seen_[s].accesses = std::make_unique<Accesses>(of.bytes, of.size, granule, several, alone);
  }
  views_.insert(views_.end(), views.begin(), views.end());
}

void Memory::set_undefined(std::size_t storage, Ranges bytes) {
  seen_[storage].undefined = std::move(bytes);
  seen_[storage].mutex = std::make_unique<std::mutex>();
}

Ranges Memory::undefined(std::size_t storage) const {
  const Seen& seen = seen_[storage];
  Ranges bytes = seen.undefined;
  for (std::size_t g = 0; g < seen.reached.size(); ++g) {
    const auto at = static_cast<std::int64_t>(g) * granule_;
    if (seen.reached[g] != 0) bytes.add(at, std::min(at + granule_, storages_[storage].size));
  }
  return bytes;
}

std::int64_t Memory::of_caller(std::int64_t address) const {
  auto it = of_caller_.upper_bound(address);
  if (it == of_caller_.begin()) return address;
  --it;
  const std::int64_t offset = address - it->first;
  return offset <= storages_[it->second].size ? base_address(it->second) + offset : address;
}

void Memory::restore() {
  for (const Seen& seen : seen_) {
    if (seen.accesses) seen.accesses->restore();
  }
}

Memory::Place Memory::place(int site, std::int64_t address, std::int64_t bytes) const {
  const View* const v = view_at(address);
  const std::int64_t offset = offset_of(address);
  if (v == nullptr || offset < v->begin || offset + bytes > v->end)
    fail_bounds(site, address, bytes);
  return {v->storage, offset};
}

std::int64_t Memory::in_storage(std::int64_t address) const {
  const View* const v = view_at(address);
  return v == nullptr ? address : base_address(v->storage) + offset_of(address);
}

void Memory::fail_bounds(int site, std::int64_t address, std::int64_t bytes) const {
  if (!alone_) throw Again{};
  Diagnostic d{.slug = "oob-index"};
  const char* const does = verb(sites_[static_cast<std::size_t>(site)].kind);
  // An address just before a storage belongs to it, as one after it does.
  constexpr std::int64_t kSpan = std::int64_t{1} << kAddressBits;
  const std::int64_t last = base_address(views_.size());
  const bool near_one = address >= kSpan / 2 && address < last - kSpan / 2;
  const std::int64_t number = near_one ? (address + kSpan / 2) / kSpan - 1 : -1;
  if (number < 0) {
    d.headline = fmt::format("it {} at address {:#x}, where no storage is", does, address);
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
  } else {
    const View& v = views_[static_cast<std::size_t>(number)];
    const GlobalStorage& s = storages_[v.storage];
    const bool narrow = v.begin > 0 || v.end < s.size;
    const std::int64_t width = register_bytes(s.dtype);
    std::int64_t first = address - base_address(static_cast<std::size_t>(number)) - v.begin;
    // Of a run, the first bytes that are outside.
    std::int64_t wanted = bytes;
    const std::int64_t size = v.end - v.begin;
    if (first >= 0 && first < size) {
      wanted -= size - first;
      first = size;
    }
    const std::int64_t element = first >= 0 ? first / width : -((-first + width - 1) / width);
    d.headline = fmt::format("it {} element {} of {}, which {} {}", does, element, v.name,
                             narrow ? "is a view of" : "has", size / width);
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    d.fields.emplace_back("ref", describe(s));
    d.fields.emplace_back("bytes",
                          fmt::format("wanted [{}, {}); {} {} at {}", first + v.begin,
                                      first + v.begin + std::max<std::int64_t>(wanted, 1), v.name,
                                      first < 0 ? "begins" : "ends", first < 0 ? v.begin : v.end));
    if (narrow) {
      d.fields.emplace_back("help",
                            "mask off the lanes that are outside of the view, or pass the whole "
                            "tensor to a kernel that is to reach more");
      add_replay_field(d);
      throw KernelError(std::move(d));
    }
  }
  d.fields.emplace_back("help", "mask off the lanes that are outside of the tensor");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

void Memory::fail_race(Instance& x, int site, std::size_t storage, const Conflict& c,
                       bool writes) const {
  if (!alone_) throw Again{};
  const GlobalStorage& s = storages_[storage];
  const std::int64_t width = register_bytes(s.dtype);
  const std::int64_t offset = c.granule * granule_;
  Diagnostic d{.slug = "race"};
  d.headline = fmt::format(
      "two programs access element {} of {}, and {}", offset / width, s.name,
      writes && c.earlier_writes ? "write different values there" : "one of them changes it");
  add_kernel_field(d);
  const auto line = [&](const Accessor& who, bool write) {
    const bool atomic = sites_[static_cast<std::size_t>(who.site)].kind == Site::Kind::atomic;
    d.fields.emplace_back(atomic  ? "atomic"
                          : write ? "write"
                                  : "read",
                          line_of(x, sites_[static_cast<std::size_t>(who.site)]) +
                              fmt::format("   program {}", who.program) +
                              (who.others ? ", and others" : ""));
  };
  line(c.earlier, c.earlier_writes);
  line({x.number, site}, writes);
  d.fields.emplace_back(
      "bytes", fmt::format("both touch [{}, {}) of {}", offset, offset + granule_, describe(s)));
  d.fields.emplace_back(
      "help",
      "programs of a grid run in any order, and at the same time: give each its own "
      "elements, or use atomics");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

void Memory::note_read(Instance& x, int site, const Place& at, std::int64_t bytes) {
  Accesses* const accesses = seen_[at.storage].accesses.get();
  if (accesses == nullptr) return;
  if (const auto c = accesses->read({x.number, site, false, x.epoch}, x.knows, at.offset, bytes))
    fail_race(x, site, at.storage, *c, false);
}

void Memory::note_write(Instance& x, int site, const Place& at, const std::byte* from,
                        std::int64_t bytes) {
  Accesses* const accesses = seen_[at.storage].accesses.get();
  if (accesses == nullptr) return;
  if (const auto c =
          accesses->write({x.number, site, false, x.epoch}, x.knows, at.offset, bytes, from))
    fail_race(x, site, at.storage, *c, true);
}

void Memory::note_write(Instance& x, int site, const Place& first, const Strided& lanes,
                        std::int64_t width, const std::byte* from) {
  Accesses* const accesses = seen_[first.storage].accesses.get();
  if (accesses == nullptr) return;
  const std::int64_t base = lanes.first() - first.offset;
  if (lanes.rank == 2 && lanes.step[1] == width && lanes.apart[1] == 1 && lanes.step[0] > 0) {
    const auto c = accesses->write({x.number, site, false, x.epoch}, x.knows,
                                   {lanes.address - base, lanes.count[1] * width, lanes.count[0],
                                    lanes.step[0], lanes.apart[0] * width},
                                   from + lanes.lane * width);
    if (c) fail_race(x, site, first.storage, *c, true);
    return;
  }
  lanes.each_run(width, [&](std::int64_t address, std::int64_t lane, std::int64_t n) {
    note_write(x, site, {first.storage, address - base}, from + lane * width, n * width);
  });
}

void Memory::note_tile(Instance& x, const Strided& lanes, std::int64_t width, bool write) const {
  Strided own = lanes;
  own.address = in_storage(lanes.address);
  x.footprint->note(own, width, write);
}
void Memory::note_tile(Instance& x, const std::int64_t* addresses, const std::byte* mask,
                       std::int64_t n, std::int64_t width, bool write) const {
  const std::vector<std::int64_t> all = on_in_storages(addresses, mask, n);
  if (!all.empty()) x.footprint->note(all, width, write);
}
std::vector<std::int64_t> Memory::on_in_storages(const std::int64_t* addresses,
                                                 const std::byte* mask, std::int64_t n) const {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) {
    if (mask == nullptr || mask[i] != std::byte{0}) all.push_back(in_storage(addresses[i]));
  }
  return all;
}

void Memory::load(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
                  std::int64_t n, std::int64_t width, std::byte* to, StorageHandle& undefined) {
  if (x.footprint != nullptr) note_tile(x, addresses, mask, n, width, false);
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
    const auto counted = [&] {
      Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at.storage];
      r.read_bytes += bytes;
      if (at.storage != last) ++r.times;
      last = at.storage;
      i = end;
    };
    if (to == nullptr) {
      counted();
      continue;
    }
    if (s.stale) x.fail_value();
    std::memcpy(to + i * width, s.bytes + at.offset, static_cast<std::size_t>(bytes));
    x.last_read = addresses[i];
    note_read(x, site, at, bytes);
    if (any_undefined(at, bytes)) {
      for (std::int64_t k = i; k < end; ++k) {
        const Origin o = undefined_at(addresses[k], width);
        if (o == 0) continue;
        if (!undefined) undefined = poison_mask(n, 0);
        // What was stored undefined has an origin of its own.
        undefined.bytes()[k] = std::byte{o == kAnyRead ? x.undefined() : o};
      }
    }
    counted();
  }
}

void Memory::store(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
                   std::int64_t n, std::int64_t width, const std::byte* from,
                   const std::byte* undefined) {
  const auto on = [&](std::int64_t i) { return mask == nullptr || mask[i] != std::byte{0}; };
  if (x.footprint != nullptr) note_tile(x, addresses, mask, n, width, true);
  ++x.effects;
  if (alone_) changed(x);
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
    const auto counted = [&] {
      Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at.storage];
      r.written_bytes += bytes;
      if (at.storage != last) ++r.times;
      last = at.storage;
      i = end;
    };
    if (from == nullptr) {
      counted();
      continue;
    }
    // Lanes whose addresses rise are apart: most stores.
    if (addresses[i] < reach && !std::exchange(checked, true))
      check_lanes(x, site, addresses, mask, n, width, from);
    reach = addresses[end - 1] + width;
    x.last_written = addresses[i];
    note_write(x, site, at, from + i * width, bytes);
    std::memcpy(storages_[at.storage].bytes + at.offset, from + i * width,
                static_cast<std::size_t>(bytes));
    if (any_undefined(at, bytes)) define(addresses[i], bytes);
    for (std::int64_t k = i; undefined != nullptr && k < end; ++k) {
      const auto o = std::to_integer<Origin>(undefined[k]);
      if (o != 0) mark_undefined({at.storage, at.offset + (k - i) * width}, width, o);
    }
    counted();
  }
}

std::optional<Memory::Place> Memory::inside(std::int64_t first, std::int64_t bytes) const {
  const View* const v = view_at(first);
  const std::int64_t offset = offset_of(first);
  if (v == nullptr || offset < v->begin || offset + bytes > v->end) return std::nullopt;
  const Place at{v->storage, offset};
  if (any_undefined(at, bytes)) return std::nullopt;
  return at;
}

std::optional<Memory::Lanes> Memory::place_of(const Strided& lanes, std::int64_t width) const {
  const std::int64_t first = lanes.first();
  const std::int64_t bytes = lanes.end(width) - first;
  const View* const v = view_at(first);
  const std::int64_t offset = offset_of(first);
  if (v == nullptr || offset < v->begin || offset + bytes > v->end) return std::nullopt;
  return Lanes{v->storage, storages_[v->storage].bytes + offset + (lanes.address - first),
               any_undefined({v->storage, offset}, bytes)};
}

/// Of a dry run.
bool Memory::count(Instance& x, int site, const Strided& lanes, std::int64_t width,
                   std::int64_t Requested::*bytes) const {
  const auto at = place_of(lanes, width);
  if (!at) return false;
  Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at->storage];
  r.*bytes += lanes.lanes * width;
  ++r.times;
  if (x.footprint != nullptr) note_tile(x, lanes, width, bytes == &Requested::written_bytes);
  return true;
}

void Memory::count_load(Instance& x, int site, const Strided& lanes, std::int64_t width,
                        std::size_t storage) const {
  Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + storage];
  r.read_bytes += lanes.lanes * width;
  ++r.times;
  if (x.footprint != nullptr) note_tile(x, lanes, width, false);
}

bool Memory::load(Instance& x, int site, const Strided& lanes, std::int64_t width, std::byte* to) {
  if (lanes.lanes == 0) return true;
  if (to == nullptr) return count(x, site, lanes, width, &Requested::read_bytes);
  const std::int64_t first = lanes.first();
  const auto at = inside(first, lanes.end(width) - first);
  if (!at || storages_[at->storage].stale) return false;
  x.last_read = lanes.address;
  const std::int64_t base = first - at->offset;
  load_strided(lanes, width, storages_[at->storage].bytes + (lanes.address - base), to);
  if (seen_[at->storage].accesses) {
    lanes.each_run(width, [&](std::int64_t address, std::int64_t, std::int64_t n) {
      note_read(x, site, {at->storage, address - base}, n * width);
    });
  }
  count_load(x, site, lanes, width, at->storage);
  return true;
}

const std::byte* Memory::lend(Instance& x, int site, const Strided& lanes, std::int64_t width) {
  const std::byte* const at = lendable(lanes, width, {});
  if (at == nullptr) return nullptr;
  count_lent(x, site, lanes, width, {});
  if (x.footprint != nullptr) note_tile(x, lanes, width, false);
  return at;
}

const std::byte* Memory::lendable(const Strided& lanes, std::int64_t width,
                                  const Turns& turns) const {
  if (lanes.lanes == 0) return nullptr;
  const std::int64_t reach = (turns.count - 1) * turns.apart;
  const std::int64_t first = lanes.first() + std::min<std::int64_t>(reach, 0);
  const auto at = inside(first, lanes.end(width) + std::max<std::int64_t>(reach, 0) - first);
  if (!at || storages_[at->storage].stale || seen_[at->storage].accesses) return nullptr;
  return storages_[at->storage].bytes + at->offset + (lanes.address - first);
}

void Memory::count_lent(Instance& x, int site, const Strided& lanes, std::int64_t width,
                        const Turns& turns) const {
  const std::size_t storage = view_at(lanes.first())->storage;
  Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + storage];
  r.read_bytes += turns.count * lanes.lanes * width;
  r.times += turns.count;
  x.last_read = lanes.address + (turns.count - 1) * turns.apart;
}

bool Memory::store(Instance& x, int site, const Strided& lanes, std::int64_t width,
                   const std::byte* from) {
  ++x.effects;
  if (lanes.lanes == 0) {
    if (alone_) changed(x);
    return true;
  }
  if (from == nullptr) return count(x, site, lanes, width, &Requested::written_bytes);
  const std::int64_t first = lanes.first();
  const auto at = inside(first, lanes.end(width) - first);
  if (!at || !lanes.disjoint(width)) return false;
  if (alone_) changed(x);
  x.last_written = lanes.address;
  const std::int64_t base = first - at->offset;
  note_write(x, site, *at, lanes, width, from);
  store_strided(lanes, width, from, storages_[at->storage].bytes + (lanes.address - base));
  Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at->storage];
  r.written_bytes += lanes.lanes * width;
  ++r.times;
  if (x.footprint != nullptr) note_tile(x, lanes, width, true);
  return true;
}

void Memory::count_sectors(Instance& x, int site, const std::int64_t* addresses,
                           const std::byte* mask, std::int64_t n, std::int64_t width) const {
  const Site& of = sites_[static_cast<std::size_t>(site)];
  std::int64_t first = 0;
  while (mask != nullptr && first < n && mask[first] == std::byte{0}) ++first;
  if (first == n) return;
  const std::size_t storage = place(site, addresses[first], width).storage;
  Sectors& all = x.requested[static_cast<std::size_t>(site) * storages_.size() + storage].sectors;
  FirstLevel* kept = nullptr;
  if (of.kind == Site::Kind::load) {
    kept = &x.loaded;
    x.stored.clear();
  } else if (of.kind == Site::Kind::store) {
    kept = &x.stored;
  }
  for (const WarpLayout& l : of.layouts) all += sectors_of(l, addresses, mask, width, kept);
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

void Memory::begin_atomic(Instance& x, const std::int64_t* addresses, const std::byte* mask,
                          std::int64_t n, std::int64_t width, Atomic does) const {
  const std::vector<std::int64_t> all = on_in_storages(addresses, mask, n);
  if (all.empty()) return;
  if (x.footprint != nullptr) x.footprint->note(all, width, does != Atomic::loads);
  if (does == Atomic::updates) atomic_passes->note(all);
}

std::byte* Memory::atomic(Instance& x, int site, std::int64_t address, std::int64_t width,
                          std::size_t& last, Atomic does) {
  const Place at = place(site, address, width);
  ++x.effects;
  Requested& r = x.requested[static_cast<std::size_t>(site) * storages_.size() + at.storage];
  if (at.storage != last) ++r.times;
  last = at.storage;
  if (does != Atomic::stores) r.read_bytes += width;
  if (does != Atomic::loads) r.written_bytes += width;
  if (x.dry) return nullptr;
  if (Accesses* const accesses = seen_[at.storage].accesses.get()) accesses->save(at.offset, width);
  return storages_[at.storage].bytes + at.offset;
}

void Memory::note_atomic(Instance& x, int site, std::int64_t address, std::int64_t width) {
  const Place at = place(site, address, width);
  note_read(x, site, at, width);
  if (Accesses* const accesses = seen_[at.storage].accesses.get())
    accesses->note_atomic(at.offset, width);
}

void Memory::left_unchanged(Instance& x, std::int64_t address) {
  x.waits = x.waits_for == address ? x.waits + 1 : 1;
  x.waits_for = address;
  if (x.waits < x.patience) return;
  x.waits = 0;
  stop_if_asked();
  if (!x.yield) throw Waits{};
  x.yield();
}

void Memory::turned_in_vain(Instance& x) const {
  if (!alone_) throw Again{};
  left_unchanged(x, x.last_read);
}

void Memory::changed(Instance& x) {
  x.waits = 0;
  ++changes_;
}

std::string Memory::element_at(std::int64_t address) const {
  const View* const v = view_at(address);
  if (v == nullptr) return fmt::format("address {:#x}", address);
  const GlobalStorage& s = storages_[v->storage];
  return fmt::format("element {} of {}", offset_of(address) / register_bytes(s.dtype), s.name);
}

void Memory::acquire(Instance& x, std::int64_t address) {
  for (const auto& [program, epoch] : released_[in_storage(address)]) {
    std::int64_t& known = x.knows.try_emplace(program, 0).first->second;
    known = std::max(known, epoch);
  }
}
void Memory::release(Instance& x, std::int64_t address) {
  auto& clock = released_[in_storage(address)];
  clock[x.number] = ++x.epoch;
  for (const auto& [program, epoch] : x.knows) {
    std::int64_t& known = clock.try_emplace(program, 0).first->second;
    known = std::max(known, epoch);
  }
}

bool Memory::any_undefined(const Place& at, std::int64_t bytes) const {
  const Seen& seen = seen_[at.storage];
  if (!seen.reached.empty()) return true;
  if (!seen.mutex) return false;
  const std::lock_guard lock(*seen.mutex);
  return seen.undefined.touches(at.offset, at.offset + bytes);
}

Origin Memory::undefined_at(std::int64_t address, std::int64_t width) const {
  const Seen& seen = seen_[view_at(address)->storage];
  const std::int64_t offset = offset_of(address);
  if (!seen.reached.empty()) {
    for (std::int64_t g = offset / granule_; g <= (offset + width - 1) / granule_; ++g) {
      if (const auto o = seen.reached[static_cast<std::size_t>(g)]; o != 0) return o;
    }
  }
  if (!seen.mutex) return 0;
  const std::lock_guard lock(*seen.mutex);
  return seen.undefined.touches(offset, offset + width) ? kAnyRead : Origin{0};
}

void Memory::define(std::int64_t address, std::int64_t bytes) {
  Seen& seen = seen_[view_at(address)->storage];
  const std::int64_t offset = offset_of(address);
  for (std::int64_t g = offset / granule_;
       !seen.reached.empty() && g <= (offset + bytes - 1) / granule_; ++g)
    seen.reached[static_cast<std::size_t>(g)] = 0;
  if (!seen.mutex) return;
  const std::lock_guard lock(*seen.mutex);
  seen.undefined.remove(offset, offset + bytes);
}

void Memory::mark_undefined(const Place& at, std::int64_t width, Origin origin) {
  if (!alone_) throw Again{};
  Seen& seen = seen_[at.storage];
  if (seen.reached.empty()) {
    seen.reached.resize(
        static_cast<std::size_t>((storages_[at.storage].size + granule_ - 1) / granule_));
  }
  for (std::int64_t g = at.offset / granule_; g <= (at.offset + width - 1) / granule_; ++g)
    seen.reached[static_cast<std::size_t>(g)] = origin;
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
