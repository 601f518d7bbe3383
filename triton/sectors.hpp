// Sectors of 32 bytes that the loads and stores of a kernel ask of the L1 on a GPU: warp by warp,
// for the lanes and registers that Triton's compiler gave each element (warp_layouts.py asks it).
//
// An instruction of a warp asks for each sector that one of its lanes touches, once. Lanes that a
// mask leaves out touch none; of a store, or a copy to shared memory, also those that hold what
// another lane holds. Of what it asks for, the L2 is asked for what the L1 has not, which keeps
// what the program's loads brought since an atomic that acquires; copies of 16 bytes a lane to
// shared memory (cp.async.cg) go past the L1. Stores are written through, to one sector together if
// the program loads nothing between them. What is counted leaves the SM: on its way to the L2,
// reads of neighbouring SMs that come at about the same time become one. Left out: atomics, what
// ptxas makes of equal loads, what it spills, programs that share an SM.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace tessera::triton {

struct Kernel;

/// Which elements of a tensor, by their row-major index, an instruction of a warp has: the sum of
/// those bases whose bits the numbers of register, lane and warp have. A base of 0: the element is
/// there twice.
struct WarpLayout {
  std::vector<std::int64_t> registers;
  std::vector<std::int64_t> lanes;
  std::vector<std::int64_t> warps;
  int bytes = 0;      ///< of one instruction and lane
  bool once = false;  ///< of lanes that hold the same element one accesses it
  bool past_l1 = false;
};

/// The sectors that a program's loads have brought to the L1, which has room for all of them; or
/// that a store has written.
class FirstLevel {
 public:
  /// False if it was there.
  bool bring(std::int64_t sector) { return held_.insert(sector).second; }
  void clear() {
    if (!held_.empty()) held_.clear();
  }

 private:
  std::unordered_set<std::int64_t> held_;
};

struct Sectors {
  std::int64_t requests = 0;  ///< instructions of warps with any lane that is not masked off
  std::int64_t sectors = 0;
  std::int64_t of_l2 = 0;  ///< sectors that the L2 is asked for

  Sectors& operator+=(const Sectors& more) {
    requests += more.requests;
    sectors += more.sectors;
    of_l2 += more.of_l2;
    return *this;
  }
};

/// `mask`: null: all. Addresses and mask by the row-major index of the element, of `width` bytes.
/// `l1`: null: nothing of it is there, and none put together.
Sectors sectors_of(const WarpLayout& layout, const std::int64_t* addresses, const std::byte* mask,
                   std::int64_t width, FirstLevel* l1 = nullptr);

/// Gives the kernel's accesses their layouts. `json`: a list, in the order of the module's tt.load,
/// tt.store and tt.atomic_*, of lists: {"registers": [], "lanes": [], "warps": [], "bytes": n,
/// "once": false, "past_l1": false} for each time that the compiled kernel makes that access where
/// the module makes it once. Throws InputError if it is none, or another module's.
void set_layouts(Kernel& kernel, const std::string& json);

}  // namespace tessera::triton
