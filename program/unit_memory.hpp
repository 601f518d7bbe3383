// What the TPU's compiler knows of VMEM while a program's ops are priced (units.hpp): what a store
// of whole registers leaves is not loaded again, and what nobody loads before it is stored anew, or
// before the kernel ends, is not stored.
//
//   acc[...] = 0; acc[...] = acc[...] + x @ w; o[...] = acc[...]   of one step: one store, to o
//
// What a store of parts of registers leaves is loaded, when it has been stored. Of a stretch of
// code without branches, at places that are constants.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "program/units.hpp"

namespace tessera::program {

class UnitMemory {
 public:
  explicit UnitMemory(const Module& module) : module_(module) {}

  struct Noted {
    bool forwarded = false;           ///< a load of what `after` has: it costs nothing
    std::vector<int> after;           ///< values whose stores a load waits for
    std::optional<int> is;            ///< of a forwarded load: the value that was stored there
    std::vector<std::size_t> unread;  ///< numbers of stores that nobody needs
    bool only_stores = false;         ///< it reads nothing of its memref
  };
  /// Notes the op, whose memref is a view of this argument (-1: of none). `number`: the op's own.
  Noted note(const Operation& op, int argument, std::size_t number, const KnownValues& known);

  /// Numbers of stores to these arguments that nobody has read.
  std::vector<std::size_t> unread(const std::set<int>& arguments) const;
  void forget() { stores_.clear(); }

 private:
  struct Box {
    std::vector<std::int64_t> begin;
    std::vector<std::int64_t> extent;
    bool within(const Box& other) const;
    bool meets(const Box& other) const;
  };
  struct Store {
    int memref;
    int argument;
    Box box;
    bool whole;  ///< registers
    int value;
    std::size_t number;
    bool read = false;
  };
  /// Where a plain load or store of a vector goes; empty: nobody knows.
  Box place_of(const Operation& op, int memref, const Type& vector, const KnownValues& known) const;
  static bool whole_registers(const Box& box, DType dtype);

  const Module& module_;
  std::vector<Store> stores_;  ///< of this stretch, each the last one to its place
};

}  // namespace tessera::program
