// A body that is run to be written down: the operations of a Mosaic function, in a tree of paths.
//
// A body is C++. Where it computes with tiles and program ids, the backend of this folder records
// an operation; where it branches on what a program id says, Trace::ask chooses an arm. Trace::run
// calls the body once per path. What two paths have in common before they part is recorded once;
// arms that end alike are merged behind the branch, which becomes an scf.if. So a body may use `if`
// and `?:` on traced values, with no more in the module than it says. A body must do the same in
// every run. Paths are 4,096 at most, branches of a path 100: a loop whose trip count is data has
// no end here, and is said with loop().
//
// Operations are named as in a module, without `stable_mosaic.`; attributes and types are MLIR's
// text. Locations are the C++ lines outside tessera's own folders. Errors: unsupported.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/dtype.hpp"

namespace tessera::mosaic {

/// A value of the module, by its number.
using Value = int;
inline constexpr Value kNoValue = -1;

struct Operation;
struct Region {
  std::vector<Value> arguments;
  std::vector<Operation> operations;
  std::vector<Value> yields;
};
struct Operation {
  std::string name;
  std::vector<Value> operands;
  std::string attributes;  ///< "predicate = 2 : i64"
  std::vector<Value> results;
  std::vector<Region> regions;  ///< of an scf.if: its arms; of a loop or a scope: what it holds
  int site = 0;                 ///< where the body says it: Trace::sites_
};

/// A prefetched array: the kernel's, and the argument of the function that is it.
struct PrefetchedArray {
  const char* name = "";
  const void* data = nullptr;
  int size = 0;
  DType dtype = DType::i32;
  Value memref = kNoValue;
};

/// Throws unsupported: what this build of a body does not have, with the body's line.
[[noreturn]] void refuse(const std::string& headline);

class Trace {
 public:
  Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  /// The next argument of the function.
  Value argument(const std::string& type);
  /// Runs `body` once per path; what it records is the function.
  void run(const std::function<void()>& body);

  /// An operation with one result, of this type.
  Value record(const std::string& name, std::vector<Value> operands, const std::string& attributes,
               const std::string& result);
  /// One without results.
  void record(const std::string& name, std::vector<Value> operands, const std::string& attributes);
  /// One of each; they stand at the function's beginning.
  Value constant(const std::string& attribute, const std::string& type);
  /// Which arm to take.
  bool ask(Value condition);
  /// An scf.for from lo to hi, i32: `body` is run once per path through it, with the index. What it
  /// changes outside of memory is lost: that is refused.
  void loop(Value lo, Value hi, const std::function<void(Value)>& body);
  /// A tpu.region: what `body` allocates lives in it. The same holds of what it changes.
  void scope(const std::function<void()>& body);
  /// What the function returns, where it returns something: set in the body.
  std::vector<Value> returned;
  std::vector<PrefetchedArray> prefetched;
  bool fused = true;  ///< fma() rounds once

  const std::string& type(Value v) const { return types_[static_cast<std::size_t>(v)]; }
  /// The function as MLIR's generic text.
  std::string text(const std::string& name, const std::string& attributes) const;

 private:
  struct Node;
  struct Printer;
  Operation& next(Operation op, const std::string* result);
  /// Records an operation with a region, for which `body` is run `times` times.
  void nest(Operation op, std::vector<Value> arguments, int times,
            const std::function<void()>& body);
  /// Runs `body` once per path from a node on.
  void explore(Node& root, const std::function<void()>& body);
  /// Whether an earlier run has been here.
  bool recorded() const;
  [[noreturn]] void fail_other_run() const;
  Value fresh(const std::string& type);
  std::vector<Operation> in_line(const Node& node);
  std::vector<Operation> merged(Value condition, int site, std::vector<Operation> then_arm,
                                std::vector<Operation> else_arm);
  int site();

  std::vector<std::string> types_;
  std::vector<Value> arguments_;
  std::map<std::pair<std::string, std::string>, Value> constants_;
  std::unique_ptr<Node> root_;
  Node* node_ = nullptr;
  std::size_t at_ = 0;  ///< in its operations
  std::vector<bool> path_;
  std::size_t asked_ = 0;
  int nested_ = 0;                     ///< loops and scopes around what is recorded
  std::vector<Operation> operations_;  ///< when all paths have been run
  std::vector<std::vector<void*>> sites_;
  std::map<std::vector<void*>, int> known_sites_;
  Trace* before_;
};

/// The one that the body records in.
Trace& trace();

}  // namespace tessera::mosaic
