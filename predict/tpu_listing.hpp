// The listing of a kernel's schedule that libtpu writes on request (`*-final_bundles.txt`, with
// `*-final_hlo-static-per-bundle-utilization.txt`), as data.
//
// A TPU core is a VLIW machine: a bundle is what its units do in one cycle. The listing's form is
// undocumented and changes, so the versions that were read are named (kListingVersions) and others
// are refused. Kept are the slots that decide what runs and what is moved: scalars, predicates,
// branches, sync flags, DMA. Of vector slots only that there are some: how many each unit takes is
// the utilization file's.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "memory_model/device_spec.hpp"
#include "memory_model/layout.hpp"

namespace tessera::predict {

/// Units of a TPU core, as the utilization file orders its columns.
enum class Unit : std::uint8_t {
  mxu,
  xlu,
  valu,
  vpop,
  eup,
  load,
  fill,
  store,
  spill,
  scalar,
};
inline constexpr std::size_t kUnits = 10;
inline constexpr std::array<const char*, kUnits> kUnitNames = {
    "MXU", "XLU", "VALU", "VPOP", "EUP", "load", "fill", "store", "spill", "scalar"};

/// "%s672_s25 = sadd.s32 (%p7_p0), 4294967295, %s1126_s24".
struct Slot {
  std::string op;
  std::string result;  ///< without %; "" if it has none
  std::string guard;   ///< predicate, without %, that decides whether it acts; "" if it always does
  bool guard_negated = false;
  std::string unless;                 ///< of smov: what the result is where the guard says no
  std::vector<std::string> operands;  ///< "%s1126_s24", "2", "[#allocation4 + $0x1]"
  int target = -1;                    ///< of a branch: the region
};

struct ListedBundle {
  std::vector<Slot> slots;
  std::array<std::uint8_t, kUnits> used{};  ///< slots of each unit
  bool vector = false;                      ///< a vector unit has something to do
};

/// An operand or result of the call, in the order of the call.
struct ListedOperand {
  std::string name;   ///< of the value that holds its address, or the value itself
  std::string space;  ///< "hbm", "vmem", "smem", or "<no memory space>": the value itself
  std::string type;   ///< "f32"
  Shape shape;
  int index = 0;
  bool output = false;
};

/// Op of a slot that loads the number of its core.
inline constexpr std::string_view kCoreId = "core_id";

struct Listing {
  std::vector<ListedBundle> bundles;
  std::vector<int> region_begin;  ///< first bundle of each region; -1 if the listing has none
  /// The exit bundle, where what a branch left out ends before it (its label is PF): the begin of
  /// the empty region behind, which the listing does not note. -1: another one.
  int fallthrough_exit = -1;
  std::vector<ListedOperand> operands;
  bool asks_core = false;              ///< cores share the grid by their numbers
  std::array<int, kUnits> capacity{};  ///< slots of each unit in a bundle
};

/// What was asked for and is none: another version, or a line that is not understood.
struct ListingError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Versions of libtpu whose listings were read, as prefixes.
inline constexpr std::array<std::string_view, 1> kListingVersions = {"0.0.42"};
/// Throws ListingError unless listings of this version were read.
void require_known_version(std::string_view libtpu);

/// What differs between the listings of generations: figures of the device.
struct ListedChip {
  int delay_slots = 0;  ///< bundles that still run after a branch
  /// Empty bundles in a row are listed as one.
  bool folds_empty = false;
  int hbm_unit_bytes = 0;   ///< of an address
  int copy_unit_bytes = 0;  ///< of addresses and sizes in a copy
};
/// Throws SpecError for a `model_` figure of a TPU's spec that has no meaning, or another unit.
void check_listed_figures(const DeviceSpec& device);
/// Throws ListingError for a device whose listings have not been read.
ListedChip listed_chip(const DeviceSpec& device);

/// Throws ListingError with the line that is not understood.
Listing read_listing(std::string_view bundles, std::string_view utilization);

}  // namespace tessera::predict
