// Which programs accessed which granules of a storage, and what its bytes were before they were
// first written: page by page, so that a launch costs what it touches, however large the storage.
//
// Two accesses of one granule by two programs, of which one writes, conflict, unless the later
// program has acquired what the earlier one released. Where one thread runs all programs in the
// order of the grid (`alone`), only writes that leave other bytes than there were do, and a page
// has a set of granules for each program and site that accessed it; a page of many has, per
// granule, its last writer and its first reader. Where several threads run them, which is found,
// not what: the program that wrote a granule and the one that read it, or, as long as all accesses
// of a page are of whole lines of granules, a line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "triton/ranges.hpp"

namespace tessera::triton {

/// A program and where it is.
struct Accessor {
  std::int64_t program = 0;
  int site = 0;
  bool others = false;     ///< more programs than this one have read it
  std::int64_t epoch = 0;  ///< releases that the program had made
};

struct Conflict {
  std::int64_t granule = 0;
  Accessor earlier;
  bool earlier_writes = false;
};

class Accesses {
 public:
  /// By program: what it did in epochs before this one is known.
  using Known = std::map<std::int64_t, std::int64_t>;

  /// `several`: programs, so that accesses are noted; else writes are, to be undone.
  Accesses(std::byte* bytes, std::int64_t size, std::int64_t granule, bool several, bool alone);
  ~Accesses();
  Accesses(const Accesses&) = delete;
  Accesses& operator=(const Accesses&) = delete;

  /// Before the access; `from`: what is about to be written. Any thread, unless alone; who is not
  /// alone knows of nobody.
  std::optional<Conflict> read(const Accessor& who, const Known& known, std::int64_t offset,
                               std::int64_t bytes);
  std::optional<Conflict> write(const Accessor& who, const Known& known, std::int64_t offset,
                                std::int64_t bytes, const std::byte* from);
  /// The same of rows of as many bytes, `step` apart, whose values are `from_step` apart.
  struct Rows {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t count = 1;
    std::int64_t step = 0;
    std::int64_t from_step = 0;
  };
  std::optional<Conflict> write(const Accessor& who, const Known& known, const Rows& rows,
                                const std::byte* from);
  /// Before a write that nothing is noted of.
  void save(std::int64_t offset, std::int64_t bytes);
  /// An atomic is there: other programs' stores beside it conflict, whatever they write.
  void note_atomic(std::int64_t offset, std::int64_t bytes) {
    if (!atomics_.touches(offset, offset + bytes)) atomics_.add(offset, offset + bytes);
  }
  /// All bytes as they were.
  void restore();

 private:
  struct Page;
  struct Owners;
  struct Entries;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  Page& page(std::int64_t number);
  /// Makes those that are not there, all with one visit to the pool.
  void make_pages(std::span<const std::int64_t> numbers);
  Page* make_page(void* memory) const;
  /// The memory that it had.
  void* unmake(Page* p) const;
  void save(Page& p, std::int64_t number);
  std::size_t page_bytes() const;
  static Owners& owners(Page& p);
  static Entries& entries(Page& p);
  std::byte* before(Page& p) const;

  std::byte* bytes_;
  std::int64_t size_;
  std::int64_t granule_;
  bool several_;
  bool alone_;
  std::int64_t page_count_;
  Ranges atomics_;
  /// Memory that nobody touched costs nothing: calloc's.
  std::unique_ptr<std::atomic<Page*>[], Free> pages_;
};

}  // namespace tessera::triton
