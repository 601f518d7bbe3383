// Which arguments a kernel writes, and for which of them what it reads says where.
#pragma once

#include <map>
#include <set>

#include "program/planner.hpp"

namespace tessera::pallas {

struct Written {
  std::map<int, int> arguments;  ///< with the location of the first op that does
  /// Written under a condition, at an index, through a mask or by a copy that depends on memory: a
  /// kernel may leave the rest to callers who know the data (a grouped product writes the rows of
  /// its groups).
  std::set<int> by_data;
};

/// Of a function that `planner` has planned. On a SparseCore results leave by copies of memory that
/// holds as many elements as the data says.
Written written_by(const program::Module& module, const program::Function& f,
                   const program::Planner& planner, bool sparse_core);

}  // namespace tessera::pallas
