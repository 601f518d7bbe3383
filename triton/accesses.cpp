#include "triton/accesses.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace tessera::triton {

namespace {

constexpr std::int64_t kGranules = 1024;  // of a page
constexpr std::size_t kWords = kGranules / 64;
constexpr std::size_t kEntries = 8;

/// Some granules of a page.
struct Set {
  std::array<std::uint64_t, kWords> words;

  /// None of [first, last]; of others nothing is said.
  static Set none(std::int64_t first, std::int64_t last) {
    Set s;  // NOLINT: what is not set is not read
    each_word(first, last, [&](std::size_t w, std::uint64_t) { s.words[w] = 0; });
    return s;
  }

  /// Calls f with each word of [first, last] and its bits.
  template <class F>
  static void each_word(std::int64_t first, std::int64_t last, F&& f) {
    for (std::int64_t w = first / 64; w <= last / 64; ++w) {
      std::uint64_t bits = ~std::uint64_t{0};
      if (w == first / 64) bits &= ~std::uint64_t{0} << (first % 64);
      if (w == last / 64) bits &= ~std::uint64_t{0} >> (63 - last % 64);
      f(static_cast<std::size_t>(w), bits);
    }
  }
  void add(std::int64_t first, std::int64_t last) {
    each_word(first, last, [&](std::size_t w, std::uint64_t bits) { words[w] |= bits; });
  }
  void add(const Set& other, std::int64_t first, std::int64_t last) {
    each_word(first, last,
              [&](std::size_t w, std::uint64_t bits) { words[w] |= other.words[w] & bits; });
  }
  bool has(std::int64_t g) const {
    return (words[static_cast<std::size_t>(g / 64)] >> (g % 64) & 1) != 0;
  }
  /// The first of both in [first, last]; kGranules if there is none.
  std::int64_t first_common(const Set& other, std::int64_t first, std::int64_t last) const {
    std::int64_t found = kGranules;
    each_word(first, last, [&](std::size_t w, std::uint64_t bits) {
      const std::uint64_t common = words[w] & other.words[w] & bits;
      if (common != 0 && found == kGranules)
        found = static_cast<std::int64_t>(w) * 64 + std::countr_zero(common);
    });
    return found;
  }
};

#if defined(__AVX512F__)
/// note_changes of granules of 4 bytes, 16 at a time from a multiple of 16 on; how many it did.
std::int64_t note_words(Set& to, std::int64_t first, std::int64_t n, const std::byte* a,
                        const std::byte* b) {
  std::int64_t g = 0;
  for (; first % 16 == 0 && g + 16 <= n; g += 16) {
    const std::uint64_t differ =
        _mm512_cmpneq_epi32_mask(_mm512_loadu_si512(a + 4 * g), _mm512_loadu_si512(b + 4 * g));
    to.words[static_cast<std::size_t>((first + g) / 64)] |= differ << ((first + g) % 64);
  }
  return g;
}
#endif

/// Adds the granules from `first` on of which one has other bytes than the other.
void note_changes(Set& to, std::int64_t first, std::int64_t n, const std::byte* a,
                  const std::byte* b, std::int64_t granule) {
#if defined(__AVX512F__)
  if (const std::int64_t done = granule == 4 ? note_words(to, first, n, a, b) : 0; done > 0)
    return done == n ? void()
                     : note_changes(to, first + done, n - done, a + 4 * done, b + 4 * done, 4);
#endif
  std::array<std::uint8_t, kGranules> differ;
  const auto compare = [&]<class T>(T) {
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t g = 0; g < n; ++g) {
      T x{};
      T y{};
      std::memcpy(&x, a + g * kWidth, sizeof(T));
      std::memcpy(&y, b + g * kWidth, sizeof(T));
      differ[static_cast<std::size_t>(g)] = x != y ? 1 : 0;
    }
  };
  switch (granule) {
    case 1:
      compare(std::uint8_t{});
      break;
    case 2:
      compare(std::uint16_t{});
      break;
    case 4:
      compare(std::uint32_t{});
      break;
    default:
      compare(std::uint64_t{});
  }
  std::int64_t g = 0;
  for (; g + 8 <= n && (first + g) % 8 == 0; g += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, &differ[static_cast<std::size_t>(g)], 8);
    // Byte k's lowest bit becomes bit k of the highest byte.
    const std::uint64_t bits = eight * 0x0102040810204080u >> 56;
    to.words[static_cast<std::size_t>((first + g) / 64)] |= bits << ((first + g) % 64);
  }
  for (; g < n; ++g) {
    if (differ[static_cast<std::size_t>(g)] != 0) to.add(first + g, first + g);
  }
}

/// What one program did at one site.
struct Entry {
  std::int64_t program;
  int site;
  std::int64_t epoch;
  Set read;
  Set wrote;
  Set changed;  ///< part of `wrote`, if alone
};

/// Per granule; program + 1, 0: nobody.
struct Fine {
  struct Cell {
    std::int64_t program = 0;
    std::int64_t epoch = 0;
    int site = 0;
    bool marked = false;  ///< a reader: several are; a writer: it changed it
  };
  std::array<Cell, kGranules> readers;
  std::array<Cell, kGranules> writers;
};

bool knows(const Accesses::Known& known, std::int64_t program, std::int64_t epoch) {
  if (known.empty()) return false;
  const auto it = known.find(program);
  return it != known.end() && it->second > epoch;
}

}  // namespace

/// Of a page, where several threads run programs: numbers of programs, 0: nobody. As long as all
/// that is accessed are whole lines, of lines; then of granules.
struct Accesses::Owners {
  static constexpr std::uint32_t kSeveral = UINT32_MAX;
  static constexpr std::int64_t kLine = 16;  // granules
  template <std::size_t kCount>
  struct Each {
    std::array<std::uint32_t, kCount> writers;
    std::array<std::uint32_t, kCount> readers;

    /// As Owners::note, kCount if nothing is in its way.
    std::size_t note(std::uint32_t who, std::size_t begin, std::size_t end, bool writes) {
      const auto other = [&](std::size_t g) {
        const std::uint32_t w = writers[g];
        const std::uint32_t r = writes ? readers[g] : 0;
        return static_cast<unsigned>((w != 0 && w != who) || (r != 0 && r != who));
      };
      unsigned any = 0;
      for (std::size_t g = begin; g < end; ++g) any |= other(g);
      for (std::size_t g = begin; any != 0 && g < end; ++g) {
        if (other(g) != 0) return g;
      }
      if (writes) {
        for (std::size_t g = begin; g < end; ++g) writers[g] = who;
      } else {
        for (std::size_t g = begin; g < end; ++g)
          readers[g] = readers[g] == 0 || readers[g] == who ? who : kSeveral;
      }
      return kCount;
    }
  };
  using Granules = Each<kGranules>;
  Each<kGranules / kLine> lines;
  std::unique_ptr<Granules> granules;

  /// For a note of a write from a granule on.
  void prefetch(std::int64_t first) const {
    __builtin_prefetch(&lines.writers[static_cast<std::size_t>(first / kLine)], 1);
    __builtin_prefetch(&lines.readers[static_cast<std::size_t>(first / kLine)]);
  }
  /// Two programs that share one are 2^32 apart: hours.
  static std::uint32_t number(std::int64_t program) {
    return static_cast<std::uint32_t>(program % (kSeveral - 1)) + 1;
  }
  /// Notes an access to granules [first, last]; the first where another program's is in its way,
  /// kGranules if there is none.
  std::int64_t note(std::uint32_t who, std::int64_t first, std::int64_t last, bool writes) {
    const auto begin = static_cast<std::size_t>(first);
    const auto end = static_cast<std::size_t>(last) + 1;
    constexpr auto kWidth = static_cast<std::size_t>(kLine);
    if (!granules) {
      if ((begin | end) % kWidth == 0)
        return static_cast<std::int64_t>(lines.note(who, begin / kWidth, end / kWidth, writes)) *
               kLine;
      granules = std::make_unique_for_overwrite<Granules>();
      for (std::size_t g = 0; g < kGranules; ++g) {
        granules->writers[g] = lines.writers[g / kWidth];
        granules->readers[g] = lines.readers[g / kWidth];
      }
    }
    return static_cast<std::int64_t>(granules->note(who, begin, end, writes));
  }
};

/// Of a page, where one thread runs all programs.
struct Accesses::Entries {
  std::size_t count = 0;
  std::unique_ptr<Fine> fine;
  std::array<Entry, kEntries> entries;  ///< the first `count` hold anything

  void note_reader(std::int64_t g, std::int64_t program, std::int64_t epoch, int site) const {
    Fine::Cell& cell = fine->readers[static_cast<std::size_t>(g)];
    if (cell.program == 0 || (cell.program == program + 1 && cell.epoch < epoch))
      cell = {program + 1, epoch, site, cell.marked};
    else if (cell.program != program + 1)
      cell.marked = true;
  }

  /// What the entries say, per granule.
  void refine() {
    fine = std::make_unique<Fine>();
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& e = entries[i];
      for (std::int64_t g = 0; g < kGranules; ++g) {
        if (e.read.has(g)) note_reader(g, e.program, e.epoch, e.site);
        Fine::Cell& writer = fine->writers[static_cast<std::size_t>(g)];
        if (e.wrote.has(g) && (writer.program == 0 || e.changed.has(g)))
          writer = {e.program + 1, e.epoch, e.site, e.changed.has(g)};
      }
    }
  }

  /// The entry of an accessor; null if there is no room: the page is refined then.
  Entry* entry(std::int64_t program, std::int64_t epoch, int site) {
    for (std::size_t i = count; i-- > 0;) {
      const Entry& e = entries[i];
      if (e.program == program && e.epoch == epoch && e.site == site) return &entries[i];
    }
    if (count == kEntries) {
      refine();
      return nullptr;
    }
    Entry& e = entries[count++];
    e.program = program;
    e.epoch = epoch;
    e.site = site;
    e.read = {};
    e.wrote = {};
    e.changed = {};
    return &e;
  }

  /// The first granule in [first, last] of `granules` that another program accessed before, and
  /// who: writers come first. `writes`: reads count too, and writes that change nothing.
  std::optional<Conflict> conflict(const Accessor& who, const Known& known, const Set& granules,
                                   std::int64_t first, std::int64_t last, bool writes) const {
    std::int64_t found = kGranules;
    const auto other = [&](const Entry& e) {
      return e.program != who.program && !knows(known, e.program, e.epoch);
    };
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& e = entries[i];
      if (!other(e)) continue;
      found = std::min(found, (writes ? e.wrote : e.changed).first_common(granules, first, last));
      if (writes) found = std::min(found, e.read.first_common(granules, first, last));
    }
    if (found == kGranules) return std::nullopt;
    Conflict c;
    c.granule = found;
    const Entry* writer = nullptr;
    const Entry* reader = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& e = entries[i];
      if (!other(e)) continue;
      if ((writes ? e.wrote : e.changed).has(found) && (writer == nullptr || e.changed.has(found)))
        writer = &e;
      if (!e.read.has(found)) continue;
      if (reader == nullptr) reader = &e;
      c.earlier.others = c.earlier.others || reader->program != e.program;
    }
    const Entry& earlier = writer != nullptr ? *writer : *reader;
    c.earlier_writes = writer != nullptr;
    c.earlier.program = earlier.program;
    c.earlier.site = earlier.site;
    c.earlier.others = c.earlier.others && writer == nullptr;
    return c;
  }

  /// The same, of a refined page and one granule.
  std::optional<Conflict> fine_conflict(const Accessor& who, const Known& known, std::int64_t g,
                                        bool writes) const {
    const auto other = [&](const Fine::Cell& c) {
      return c.program != 0 && c.program != who.program + 1 &&
             !knows(known, c.program - 1, c.epoch);
    };
    const Fine::Cell& writer = fine->writers[static_cast<std::size_t>(g)];
    if (other(writer) && (writes || writer.marked))
      return Conflict{g, {writer.program - 1, writer.site}, true};
    const Fine::Cell& reader = fine->readers[static_cast<std::size_t>(g)];
    // Of several readers the first alone is known: who has acquired anything may know them all.
    if (writes && (other(reader) || (reader.marked && known.empty())))
      return Conflict{g, {reader.program - 1, reader.site, reader.marked}, false};
    return std::nullopt;
  }
};

/// Behind it are its Owners or its Entries, and then its bytes before they were written.
struct alignas(64) Accesses::Page {
  std::atomic_flag busy;
  bool saved = false;
  std::byte* behind() { return reinterpret_cast<std::byte*>(this + 1); }  // NOLINT
};

namespace {

/// Pages of launches that are over, for the next ones: fresh memory costs more than it holds.
class Pool {
 public:
  /// Each of `bytes`.
  void take(std::span<void*> all, std::size_t bytes) {
    std::size_t taken = 0;
    {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& kept = kept_[bytes];
      for (; taken < all.size() && !kept.empty(); ++taken, total_ -= bytes) {
        all[taken] = kept.back();
        kept.pop_back();
      }
    }
    for (; taken < all.size(); ++taken) all[taken] = ::operator new(bytes, kAligned);
  }
  /// Each of `bytes`.
  void give_back(const std::vector<void*>& all, std::size_t bytes) {
    constexpr std::size_t kMost = std::size_t{64} << 20;
    auto p = all.begin();
    {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& kept = kept_[bytes];
      for (; p != all.end() && total_ + bytes <= kMost; ++p, total_ += bytes) kept.push_back(*p);
    }
    for (; p != all.end(); ++p) ::operator delete(*p, kAligned);
  }
  ~Pool() {
    for (auto& [bytes, kept] : kept_) {
      for (void* const p : kept) ::operator delete(p, kAligned);
    }
  }

 private:
  static constexpr std::align_val_t kAligned{64};
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> kept_;
  std::size_t total_ = 0;
};
Pool& pool() {
  static Pool all;
  return all;
}

/// Held by the thread that looks at a page.
class Busy {
 public:
  Busy(std::atomic_flag& flag, bool alone) : flag_(alone ? nullptr : &flag) {
    while (flag_ != nullptr && flag_->test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Busy() {
    if (flag_ != nullptr) flag_->clear(std::memory_order_release);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic_flag* flag_;
};

}  // namespace

Accesses::Accesses(std::byte* bytes, std::int64_t size, std::int64_t granule, bool several,
                   bool alone)
    : bytes_(bytes),
      size_(size),
      granule_(granule),
      several_(several),
      alone_(alone),
      page_count_((size + kGranules * granule - 1) / (kGranules * granule)),
      pages_(static_cast<std::atomic<Page*>*>(
          std::calloc(static_cast<std::size_t>(page_count_) + 1, sizeof(std::atomic<Page*>)))) {
  if (!pages_) throw std::bad_alloc();
}

Accesses::~Accesses() {
  std::vector<void*> all;
  for (std::int64_t i = 0; i < page_count_; ++i) {
    Page* const p = pages_[static_cast<std::size_t>(i)].load(std::memory_order_relaxed);
    if (p != nullptr) all.push_back(unmake(p));
  }
  pool().give_back(all, page_bytes());
}

std::size_t Accesses::page_bytes() const {
  return sizeof(Page) + (alone_ ? sizeof(Entries) : sizeof(Owners)) +
         static_cast<std::size_t>(kGranules * granule_);
}

Accesses::Owners& Accesses::owners(Page& p) {
  return *reinterpret_cast<Owners*>(p.behind());  // NOLINT
}
Accesses::Entries& Accesses::entries(Page& p) {
  return *reinterpret_cast<Entries*>(p.behind());  // NOLINT
}
std::byte* Accesses::before(Page& p) const {
  return p.behind() + (alone_ ? sizeof(Entries) : sizeof(Owners));
}

Accesses::Page* Accesses::make_page(void* memory) const {
  Page* const p = ::new (memory) Page;
  if (alone_)
    ::new (&entries(*p)) Entries;  // what its count leaves out is not set
  else
    ::new (&owners(*p)) Owners{};
  return p;
}

void* Accesses::unmake(Page* p) const {
  if (alone_)
    entries(*p).~Entries();
  else
    owners(*p).~Owners();
  p->~Page();
  return p;
}

Accesses::Page& Accesses::page(std::int64_t number) {
  std::atomic<Page*>& at = pages_[static_cast<std::size_t>(number)];
  if (at.load(std::memory_order_acquire) == nullptr) make_pages({&number, 1});
  return *at.load(std::memory_order_acquire);
}

void Accesses::make_pages(std::span<const std::int64_t> numbers) {
  std::vector<void*> memory(numbers.size());
  pool().take(memory, page_bytes());
  std::vector<void*> left;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Page* none = nullptr;
    Page* const fresh = make_page(memory[i]);
    if (!pages_[static_cast<std::size_t>(numbers[i])].compare_exchange_strong(
            none, fresh, std::memory_order_acq_rel))
      left.push_back(unmake(fresh));  // another thread made it
  }
  if (!left.empty()) pool().give_back(left, page_bytes());
}

void Accesses::save(Page& p, std::int64_t number) {
  if (p.saved) return;
  const std::int64_t first = number * kGranules * granule_;
  std::memcpy(before(p), bytes_ + first,
              static_cast<std::size_t>(std::min(size_ - first, kGranules * granule_)));
  p.saved = true;
}

void Accesses::save(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t of_page = kGranules * granule_;
  for (std::int64_t n = offset / of_page; n <= (offset + bytes - 1) / of_page; ++n) {
    Page& p = page(n);
    const Busy busy(p.busy, alone_);
    save(p, n);
  }
}

void Accesses::restore() {
  const std::int64_t of_page = kGranules * granule_;
  for (std::int64_t n = 0; n < page_count_; ++n) {
    Page* const p = pages_[static_cast<std::size_t>(n)].load(std::memory_order_relaxed);
    if (p == nullptr || !p->saved) continue;
    std::memcpy(bytes_ + n * of_page, before(*p),
                static_cast<std::size_t>(std::min(size_ - n * of_page, of_page)));
  }
}

std::optional<Conflict> Accesses::read(const Accessor& who, const Known& known, std::int64_t offset,
                                       std::int64_t bytes) {
  if (!several_) return std::nullopt;
  const std::int64_t begin = offset / granule_;
  const std::int64_t end = (offset + bytes - 1) / granule_ + 1;
  for (std::int64_t n = begin / kGranules; n * kGranules < end; ++n) {
    Page& p = page(n);
    const std::int64_t first = std::max<std::int64_t>(begin - n * kGranules, 0);
    const std::int64_t last = std::min(end - n * kGranules, kGranules) - 1;
    const Busy busy(p.busy, alone_);
    if (!alone_) {
      const std::int64_t g = owners(p).note(Owners::number(who.program), first, last, false);
      if (g < kGranules) return Conflict{g + n * kGranules, {}, true};
      continue;
    }
    Entries& of = entries(p);
    Entry* const e = of.fine ? nullptr : of.entry(who.program, who.epoch, who.site);
    std::optional<Conflict> c;
    if (e != nullptr) {
      if (of.count > 1) {
        Set all = Set::none(first, last);
        all.add(first, last);
        c = of.conflict(who, known, all, first, last, false);
      }
      e->read.add(first, last);
    } else {
      for (std::int64_t g = first; g <= last && !c; ++g) {
        c = of.fine_conflict(who, known, g, false);
        of.note_reader(g, who.program, who.epoch, who.site);
      }
    }
    if (!c) continue;
    c->granule += n * kGranules;
    return c;
  }
  return std::nullopt;
}

std::optional<Conflict> Accesses::write(const Accessor& who, const Known& known,
                                        std::int64_t offset, std::int64_t bytes,
                                        const std::byte* from) {
  const std::int64_t begin = offset / granule_;
  const std::int64_t end = (offset + bytes - 1) / granule_ + 1;
  for (std::int64_t n = begin / kGranules; n * kGranules < end; ++n) {
    Page& p = page(n);
    const std::int64_t first = std::max<std::int64_t>(begin - n * kGranules, 0);
    const std::int64_t last = std::min(end - n * kGranules, kGranules) - 1;
    const Busy busy(p.busy, alone_);
    save(p, n);
    if (!several_) continue;
    if (!alone_) {
      const std::int64_t g = owners(p).note(Owners::number(who.program), first, last, true);
      if (g < kGranules) return Conflict{g + n * kGranules, {}, false};
      continue;
    }
    // What this leaves other than it was.
    Set changes = Set::none(first, last);
    const std::int64_t at = (n * kGranules + first) * granule_;
    if (at >= offset && (n * kGranules + last + 1) * granule_ <= offset + bytes) {
      note_changes(changes, first, last + 1 - first, bytes_ + at, from + (at - offset), granule_);
    } else {
      for (std::int64_t g = first; g <= last; ++g) {
        const std::int64_t part = std::max((n * kGranules + g) * granule_, offset);
        const std::int64_t to = std::min((n * kGranules + g + 1) * granule_, offset + bytes);
        if (std::memcmp(bytes_ + part, from + (part - offset),
                        static_cast<std::size_t>(to - part)) != 0)
          changes.add(g, g);
      }
    }
    // Beside an atomic the same value may be another one, had they come the other way round.
    for (std::int64_t g = first; !atomics_.empty() && g <= last; ++g) {
      const std::int64_t part = (n * kGranules + g) * granule_;
      if (atomics_.touches(part, part + granule_)) changes.add(g, g);
    }
    Entries& of = entries(p);
    Entry* const e = of.fine ? nullptr : of.entry(who.program, who.epoch, who.site);
    std::optional<Conflict> c;
    if (e != nullptr) {
      if (of.count > 1) c = of.conflict(who, known, changes, first, last, true);
      e->wrote.add(first, last);
      e->changed.add(changes, first, last);
    } else {
      for (std::int64_t g = first; g <= last && !c; ++g) {
        const bool changed = changes.has(g);
        if (changed) c = of.fine_conflict(who, known, g, true);
        Fine::Cell& writer = of.fine->writers[static_cast<std::size_t>(g)];
        if (changed || writer.program == 0)
          writer = {who.program + 1, who.epoch, who.site, changed};
      }
    }
    if (!c) continue;
    c->granule += n * kGranules;
    return c;
  }
  return std::nullopt;
}

std::optional<Conflict> Accesses::write(const Accessor& who, const Known& known, const Rows& rows,
                                        const std::byte* from) {
  // Granules are powers of two: shifts, where a division takes as long as the rest.
  const int granule_bits = std::countr_zero(static_cast<std::uint64_t>(granule_));
  const int page_bits = granule_bits + std::countr_zero(static_cast<std::uint64_t>(kGranules));
  const bool shared = several_ && !alone_;
  const auto page_of = [&](std::int64_t i) {
    const std::int64_t begin = rows.offset + i * rows.step;
    const std::int64_t n = begin >> page_bits;
    return (begin + rows.bytes - 1) >> page_bits == n ? n : -1;
  };
  // Another thread had most pages last, and each is locked: they would be waited for one by one.
  const auto prefetch = [&](std::int64_t i) {
    const std::int64_t n = i < rows.count ? page_of(i) : -1;
    if (n < 0) return;
    Page* const p = pages_[static_cast<std::size_t>(n)].load(std::memory_order_relaxed);
    if (p == nullptr) return;
    const std::int64_t begin = rows.offset + i * rows.step - (n << page_bits);
    __builtin_prefetch(p, 1);
    owners(*p).prefetch(begin >> granule_bits);
  };
  std::vector<std::int64_t> missing;
  for (std::int64_t i = 0; shared && i < rows.count; ++i) {
    const std::int64_t n = page_of(i);
    if (n >= 0 && (missing.empty() || missing.back() != n) &&
        pages_[static_cast<std::size_t>(n)].load(std::memory_order_relaxed) == nullptr)
      missing.push_back(n);
  }
  if (!missing.empty()) make_pages(missing);
  constexpr std::int64_t kAhead = 16;  // rows
  for (std::int64_t i = 0; shared && i < kAhead; ++i) prefetch(i);
  for (std::int64_t i = 0; i < rows.count;) {
    const std::int64_t n = shared ? page_of(i) : -1;
    if (n < 0) {
      const auto c =
          write(who, known, rows.offset + i * rows.step, rows.bytes, from + i * rows.from_step);
      if (c) return c;
      ++i;
      continue;
    }
    // Threads that meet at a page do so once for all rows.
    Page& p = page(n);
    const Busy busy(p.busy, false);
    save(p, n);
    Owners& all = owners(p);
    for (; i < rows.count && page_of(i) == n; ++i) {
      prefetch(i + kAhead);
      const std::int64_t begin = rows.offset + i * rows.step - (n << page_bits);
      const std::int64_t g = all.note(Owners::number(who.program), begin >> granule_bits,
                                      (begin + rows.bytes - 1) >> granule_bits, true);
      if (g < kGranules) return Conflict{g + n * kGranules, {}, false};
    }
  }
  return std::nullopt;
}

}  // namespace tessera::triton
