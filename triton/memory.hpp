// The global memory of a launch: storages at addresses of their own, who accessed what, and what is
// undefined.
//
// A storage is one allocation (of torch: what a tensor and its views share); pointers are 64-bit
// addresses, storage k at (k + 1) << 40, so that an offset that goes astray lands in no storage. An
// argument that is a view of less than its storage has addresses of its own, after the storages'.
// Accesses are checked against what the pointer was given for (oob-index). Programs of a grid run
// in any order: a granule (of the narrowest type that the kernel points to) that one of them writes
// with another value than there was while another reads or writes it, no release and acquire by
// atomics between, is a `race`; so are two lanes of a store that write different values to one
// address. Undefined is what the launch says is, and what a masked-off lane without `other` gives;
// where it is stored it is remembered. A store beside another program's atomics is a race; a load
// is not, which may be how a program waits. Left out: gaps inside of a view.
//
// Several threads may run programs at once. They find that something may be wrong, not what: a
// launch that may be wrong runs again on one (launch.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/undefined.hpp"
#include "program/program.hpp"
#include "triton/accesses.hpp"
#include "triton/atomic_passes.hpp"
#include "triton/footprint.hpp"
#include "triton/lent.hpp"
#include "triton/memory_bounds.hpp"
#include "triton/ranges.hpp"
#include "triton/running_sums.hpp"
#include "triton/sectors.hpp"
#include "triton/strided.hpp"

namespace tessera::triton {

using namespace program;

/// A load, store or atomic of a kernel.
struct Site {
  int location = 0;
  enum class Kind : std::uint8_t { load, store, atomic } kind = Kind::load;
  int number = -1;                       ///< among the accesses of its module
  std::int64_t elements = 1;             ///< of its pointers
  int width = 1;                         ///< elements of an instruction of a thread, at most
  int run = 1;                           ///< of a layout's, whatever the mask (widths.hpp)
  int stages = 1;                        ///< of its loop, as tl.range asks for
  int bytes = 4;                         ///< of an element
  std::vector<WarpLayout> layouts = {};  ///< where they are asked for
  // Of a dry run (dry.hpp).
  std::size_t step = SIZE_MAX;             ///< of the main code
  std::vector<StepNote::Slot> where = {};  ///< its pointers and its mask
  bool wanted = false;                     ///< what it reads decides something
};

/// What a site asked of a storage: every lane that is not masked off counts.
struct Requested {
  std::int64_t times = 0;  ///< that it ran and any lane was not masked off
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
  Sectors sectors = {};  ///< of sites whose layouts are known

  Requested& operator+=(const Requested& more) {
    times += more.times;
    read_bytes += more.read_bytes;
    written_bytes += more.written_bytes;
    sectors += more.sectors;
    return *this;
  }
};

struct GlobalStorage {
  std::string name;
  DType dtype = DType::f32;
  std::byte* bytes = nullptr;
  std::int64_t size = 0;
  bool watched = true;  ///< for races
  bool stale = false;   ///< of a dry run: what a run would have written there is not known
  const std::byte* outside = nullptr;  ///< where the caller has it: what its own pointers say
};

/// Bytes [begin, end) of a storage, all that an argument's pointer is for.
struct View {
  std::size_t storage = 0;
  std::string name;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

inline constexpr int kAddressBits = 40;
/// The address of the first byte of a storage, or, numbered on from them, of a view's storage.
constexpr std::int64_t base_address(std::size_t storage) {
  return static_cast<std::int64_t>(storage + 1) << kAddressBits;
}

class Instance;

class Memory {
 public:
  /// `granule`: bytes of the narrowest type pointed to. `several`: programs. `alone`: one thread
  /// runs them, in the order of the grid; else what may be wrong throws Again.
  Memory(std::vector<GlobalStorage> storages, const std::vector<View>& views,
         const std::vector<Site>& sites, std::int64_t granule, bool several, bool alone);

  /// Declares some bytes of a storage undefined; what is undefined now.
  void set_undefined(std::size_t storage, Ranges bytes);
  Ranges undefined(std::size_t storage) const;
  /// All storages as they were.
  void restore();
  const std::vector<GlobalStorage>& storages() const { return storages_; }
  const std::vector<Site>& sites() const { return sites_; }
  bool alone() const { return alone_; }

  /// A pointer that the kernel read or made of an integer: the caller's, into one of the storages,
  /// becomes ours.
  std::int64_t of_caller(std::int64_t address) const;

  /// Of a dry run `to` and `from` are null, and all is done but that nothing is copied or noted.
  ///
  /// n lanes of `width` bytes at `addresses`; `mask` (null: all) says which are accessed. `to` and
  /// `undefined` get lane i at i; undefined is made where it is needed.
  void load(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
            std::int64_t n, std::int64_t width, std::byte* to, StorageHandle& undefined);
  void store(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
             std::int64_t n, std::int64_t width, const std::byte* from, const std::byte* undefined);
  /// The same of lanes whose addresses are regular. False, and nothing is done, where something may
  /// be wrong or undefined: to be told lane by lane.
  bool load(Instance& x, int site, const Strided& lanes, std::int64_t width, std::byte* to);
  bool store(Instance& x, int site, const Strided& lanes, std::int64_t width,
             const std::byte* from);
  /// The same load of memory that no program of the launch writes, but that nothing is copied:
  /// where the first lane lies. Null, and nothing is done: to be loaded.
  const std::byte* lend(Instance& x, int site, const Strided& lanes, std::int64_t width);
  /// Turns of a loop, from each to the next of which lanes move by so many bytes.
  struct Turns {
    std::int64_t count = 1;
    std::int64_t apart = 0;
  };
  /// Where the first lane of the first of some turns lies, if all of all may be lent; else null.
  const std::byte* lendable(const Strided& lanes, std::int64_t width, const Turns& turns) const;
  /// Such loads are done; the footprint is left to note_tile.
  void count_lent(Instance& x, int site, const Strided& lanes, std::int64_t width,
                  const Turns& turns) const;
  /// For the launch's footprint.
  void note_tile(Instance& x, const Strided& lanes, std::int64_t width, bool write) const;
  /// Of a load or store that was done, whose site has layouts.
  void count_sectors(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
                     std::int64_t n, std::int64_t width) const;
  enum class Atomic : std::uint8_t { updates, loads, stores };
  /// Of an atomic, before the first of its lanes.
  void begin_atomic(Instance& x, const std::int64_t* addresses, const std::byte* mask,
                    std::int64_t n, std::int64_t width, Atomic does = Atomic::updates) const;
  /// The bytes of one lane of an atomic (null: of a dry run), which may change them; `acquire`,
  /// `release`: as its memory order says. `last`: the storage of the lane before it, SIZE_MAX for
  /// the first.
  std::byte* atomic(Instance& x, int site, std::int64_t address, std::int64_t width,
                    std::size_t& last, Atomic does = Atomic::updates);
  /// It counts as a read for races, so that other programs' stores conflict with it, and neither
  /// their atomics nor their loads. After what it acquires.
  void note_atomic(Instance& x, int site, std::int64_t address, std::int64_t width);
  /// An atomic left memory as it was, or changed it. Of a program that does nothing but the former
  /// any more calls its `yield`; throws Waits if it has none.
  static void left_unchanged(Instance& x, std::int64_t address);
  /// A loop's turn was as the one before, and will be until memory changes: as left_unchanged, of
  /// the address that was read last.
  void turned_in_vain(Instance& x) const;
  void changed(Instance& x);
  /// Stores and atomics so far that may have left other bytes than there were.
  std::int64_t changes() const { return changes_; }
  /// "element 3 of flag".
  std::string element_at(std::int64_t address) const;
  void acquire(Instance& x, std::int64_t address);
  void release(Instance& x, std::int64_t address);
  /// Of the element at an address.
  Origin undefined_at(std::int64_t address, std::int64_t width) const;
  /// Where lanes are, all of them inside of what their pointer is for, and where the first of them
  /// lies; nothing if they are not. `undefined`: some may be.
  struct Lanes {
    std::size_t storage = 0;
    std::byte* memory = nullptr;
    bool undefined = false;
  };
  std::optional<Lanes> place_of(const Strided& lanes, std::int64_t width) const;
  /// The same for all views of a storage.
  std::int64_t in_storage(std::int64_t address) const;
  /// The launch said so of some of its bytes.
  bool declared_undefined(std::size_t storage) const { return seen_[storage].mutex != nullptr; }
  /// Bytes that follow one another.
  void define(std::int64_t address, std::int64_t bytes);

  /// The first element of a storage that was stored though it was undefined, and how many; of what
  /// the launch declared undefined: not.
  struct Reached {
    std::int64_t first = 0;
    std::int64_t count = 0;
    Origin origin = 0;
  };
  std::optional<Reached> reached(std::size_t storage) const;

  MemoryBounds bounds;
  std::unique_ptr<AtomicPasses> atomic_passes = std::make_unique<AtomicPasses>();

 private:
  /// What is known of a storage.
  struct Seen {
    std::unique_ptr<Accesses> accesses;  ///< null: nothing writes there
    Ranges undefined;                    ///< as the launch declares, until it is written
    std::unique_ptr<std::mutex> mutex;   ///< of `undefined`
    /// Per granule, Origin of an undefined value that was stored; empty: none was.
    std::vector<std::uint8_t> reached;
  };
  struct Place {
    std::size_t storage = 0;
    std::int64_t offset = 0;
  };
  /// Null if there is none.
  const View* view_at(std::int64_t address) const {
    const std::int64_t number = (address >> kAddressBits) - 1;
    return number >= 0 && number < std::ssize(views_) ? &views_[static_cast<std::size_t>(number)]
                                                      : nullptr;
  }
  static std::int64_t offset_of(std::int64_t address) {
    return address & ((std::int64_t{1} << kAddressBits) - 1);
  }
  Place place(int site, std::int64_t address, std::int64_t bytes) const;
  /// Of bytes that follow one another: nothing if one is outside, or may be undefined.
  std::optional<Place> inside(std::int64_t first, std::int64_t bytes) const;
  bool count(Instance& x, int site, const Strided& lanes, std::int64_t width,
             std::int64_t Requested::*bytes) const;
  void count_load(Instance& x, int site, const Strided& lanes, std::int64_t width,
                  std::size_t storage) const;
  [[noreturn]] void fail_bounds(int site, std::int64_t address, std::int64_t bytes) const;
  [[noreturn]] void fail_race(Instance& x, int site, std::size_t storage, const Conflict& c,
                              bool writes) const;
  void check_lanes(Instance& x, int site, const std::int64_t* addresses, const std::byte* mask,
                   std::int64_t n, std::int64_t width, const std::byte* from) const;
  void note_read(Instance& x, int site, const Place& at, std::int64_t bytes);
  void note_write(Instance& x, int site, const Place& at, const std::byte* from,
                  std::int64_t bytes);
  /// Of lanes that are inside, of which none lies before `first`.
  void note_write(Instance& x, int site, const Place& first, const Strided& lanes,
                  std::int64_t width, const std::byte* from);
  void note_tile(Instance& x, const std::int64_t* addresses, const std::byte* mask, std::int64_t n,
                 std::int64_t width, bool write) const;
  /// Of the lanes that are on, in row-major order.
  std::vector<std::int64_t> on_in_storages(const std::int64_t* addresses, const std::byte* mask,
                                           std::int64_t n) const;
  void mark_undefined(const Place& at, std::int64_t width, Origin origin);
  bool any_undefined(const Place& at, std::int64_t bytes) const;

  std::vector<GlobalStorage> storages_;
  std::vector<View> views_;  ///< whole storages first
  const std::vector<Site>& sites_;
  std::int64_t granule_;
  bool alone_;
  std::int64_t changes_ = 0;  ///< alone
  std::vector<Seen> seen_;
  std::map<std::int64_t, std::size_t> of_caller_;  ///< storages by the caller's address
  /// Of atomics, by address: up to which epoch of which program their acquirers know.
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> released_;
};

/// Thrown on several threads where something may be wrong.
struct Again {};
/// Thrown where programs run one after the other and one waits for another.
struct Waits {};

/// What one thread runs programs with.
class Instance : public Exec {
 public:
  Instance(const Program& program_, StepContext& context_, Memory& memory_)
      : Exec(program_, nullptr, context_),
        memory(memory_),
        lent(static_cast<std::size_t>(program_.vectors)),
        requested(memory_.sites().size() * memory_.storages().size()) {}

  Memory& memory;
  std::int64_t number = 0;                ///< of the running program
  std::int64_t epoch = 0;                 ///< releases that it has made
  Accesses::Known knows;                  ///< epochs of programs that it has acquired
  std::vector<Lent> lent;                 ///< by slot of a vector
  std::vector<WaitingProduct> waiting;    ///< by running sum
  std::vector<Requested> requested;       ///< by site, then storage
  Footprint* footprint = nullptr;         ///< where it is asked for
  FirstLevel loaded;                      ///< by the running program, where sectors are counted
  FirstLevel stored;                      ///< since it last loaded
  std::int64_t effects = 0;               ///< stores, and atomics of whatever effect
  std::int64_t last_read = 0;             ///< address of the last load
  std::int64_t last_written = 0;          ///< of the last store
  std::int64_t waits_for = 0;             ///< address of the last atomic that left memory as it was
  std::int64_t waits = 0;                 ///< such atomics on end
  std::int64_t patience = 2000;           ///< of them, before it yields
  std::function<void()> yield = nullptr;  ///< to other programs
};

inline Instance& instance(Exec& x) { return static_cast<Instance&>(x); }

}  // namespace tessera::triton
