// What a program's code asks of a TPU core's units, op by op as it is planned: which rows of a
// table of costs, how many times (units.hpp), with what the TPU's compiler knows of values, masks,
// registers and memory (unit_values.hpp and so on).
//
// Compilers differ in what they know. A v4's knows masks of vectors of less than 32 bits, those of
// other generations do not: what such masks select is counted for either.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "program/unit_copies.hpp"
#include "program/unit_masks.hpp"
#include "program/unit_memory.hpp"
#include "program/unit_numbers.hpp"
#include "program/unit_registers.hpp"
#include "program/unit_unread.hpp"
#include "program/unit_values.hpp"

namespace tessera::program {

/// Whether it matters if narrow masks are known.
bool selects_narrow(const Module& module);

class UnitOps {
 public:
  /// Of a planner, which outlives this.
  struct Planned {
    const Module& module;
    Program& program;
    const std::vector<int>& uses;      ///< of each value
    const std::vector<int>& roots;     ///< of each memref the argument that it is a view of
    std::map<std::string, int>& rows;  ///< places in Program::unit_rows
  };
  UnitOps(const Planned& planned, bool knows_narrow_masks);

  /// Of another function.
  void begin(std::vector<UnitOp>& ops);
  /// All of the function's ops are noted.
  void end();
  /// The next op. `known`: what repeats a scalar, and constants.
  void note(const Operation& op, std::size_t step, const KnownValues& known);

  /// Selects the result of a branch from what either way computes.
  UnitOp select(const std::vector<int>& of, int result, std::size_t step, int location) const;
  /// What ops of a branch ask more if the compiler takes it as none.
  UnitOp predicated(const std::string& op, std::int64_t times, std::size_t step,
                    int location) const;
  /// Values under the names that they have here, too.
  void add_names(std::vector<int>& to, const std::vector<int>& values) const;

  /// That a value is this constant, or another value.
  void know(int value, std::int64_t constant) { values_.know(value, constant); }
  void is_same(int result, int value);
  std::optional<std::int64_t> constant(int value, const KnownValues& known) const;

  /// What is computed in a block nobody finds outside of it.
  struct Mark {
    std::size_t values;
    std::size_t numbers;
  };
  Mark enter();
  /// `ends`: it is the kernel's whole body.
  void leave(const Mark& mark, bool ends);

 private:
  const Type& type(int value) const { return planned_.module.type(value); }
  int row(const std::string& name) const;
  Operation resolved(const Operation& op) const;
  bool is_used_once(int value) const {
    return planned_.uses[static_cast<std::size_t>(value)] == 1 && !shared_.contains(value);
  }
  void note_memory(const Operation& op, const KnownValues& known, UnitOp& unit);
  void note_reads(const Operation& op, const UnitMemory::Noted& noted);
  void end_memory();
  void note_computed(const Operation& op, UnitOp& unit);
  void note_iota(const Operation& op, bool computes, UnitOp& unit);
  void note_halves(const Operation& op);
  void need_part(int value, double part);
  void forget_place(int value);

  Planned planned_;
  std::vector<UnitOp>* ops_ = nullptr;
  UnitValues values_;
  UnitMasks masks_;
  UnitRegisters registers_;
  UnitMemory memory_;
  UnitCopies copies_;
  std::map<int, std::vector<std::size_t>> stores_;  ///< of the function, numbers by argument
  std::set<int> read_;                              ///< arguments that it reads; -1: any
  UnitNumbers numbers_;
  UnitUnread unread_;
  struct Iota {
    std::size_t unit;  ///< its number in ops_
    std::vector<std::pair<int, std::int64_t>> rows;
  };
  std::map<int, Iota> iotas_;  ///< by value
  struct Halves {
    std::size_t unit;  ///< the number in ops_ of what loads it
    std::int64_t registers;
  };
  std::map<int, Halves> halves_;              ///< by value
  std::map<int, int> is_;                     ///< values that are another one of their type
  std::set<int> shared_;                      ///< values that others are
  std::map<int, LoneRows> lone_rows_;         ///< by value
  std::set<int> packed_rows_;                 ///< rows of words that lie as lines do
  std::set<int> lines_down_;                  ///< vectors of one dim that lie down the sublanes
  std::unordered_map<int, double> computed_;  ///< of what casts make, how much is no constant
};

}  // namespace tessera::program
