// All that is wrong with a run that goes on (RunOptions::keep_going), one of each slug and place.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

class Findings {
 public:
  /// Keeps it, unless one that names the same lines of the same ref is kept already.
  void add(Diagnostic d);
  bool empty() const { return all_.empty(); }
  /// In the order in which they were found.
  std::vector<Diagnostic> take();

 private:
  std::vector<Diagnostic> all_;
  std::set<std::string> known_;
};

/// Something is wrong, and the run need not end there: kept if the thread's run keeps all that it
/// finds, else thrown as a KernelError.
void found(Diagnostic d);

}  // namespace tessera
