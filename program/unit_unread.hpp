// What the TPU's compiler does not compute since nobody reads it, while a program's ops are priced
// (units.hpp): what was read alone by ops that it knows.
//
//   select(sign(n) != 1 & n % 1 != 0, n / 1 - 1, n / 1)    is n, and its sign is read by nobody
//
// Of ops that compute, whose readers are all in the same function and priced.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

#include "program/program.hpp"

namespace tessera::program {

class UnitUnread {
 public:
  void begin();
  /// The op as it is written, which will be the unit with this number.
  void note(const Operation& written, std::size_t unit);

  /// What nobody reads asks for nothing. `uses`: of each value; `name_of`: the value that it is.
  void leave_out(std::vector<UnitOp>& ops, const std::vector<int>& uses,
                 const std::function<int(int)>& name_of) const;

 private:
  std::set<const Operation*> noted_;
  std::unordered_map<int, int> read_;  ///< of each value how often ops that are priced do
  std::set<std::size_t> computes_;     ///< units
};

}  // namespace tessera::program
