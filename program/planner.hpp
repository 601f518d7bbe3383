// From a module's operations to a program: places for values, fused groups, dead code left out.
//
// Shape casts and bitcasts of one width share their operand's registers; broadcasts are read where
// they are used; constants are set once. Each op is a rule: its name, what it means, and how it is
// planned. Which ones there are, a front end says.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>

#include "program/group.hpp"
#include "program/program.hpp"
#include "program/unit_ops.hpp"

namespace tessera::program {

class Planner;

/// What a dry run does with an op that has no regions.
enum class Dry : std::uint8_t {
  by_types,  ///< counts it if it takes or gives a vector, else runs it
  skipped,
  runs,
};

struct Rule {
  const char* name;     ///< "arith.addf"
  const char* meaning;  ///< "a + b"
  bool pure;            ///< without results that are read it need not run
  std::function<void(Planner&, const Operation&)> plan;
  Dry dry = Dry::by_types;
};
using Rules = std::span<const Rule>;

/// All ops that a front end has, by name.
class RuleTable {
 public:
  /// `help`: where a user finds them listed.
  RuleTable(std::initializer_list<Rules> families, const char* help);
  /// Null if there is none.
  const Rule* find(const std::string& op) const;
  const std::map<std::string, const Rule*>& all() const { return rules_; }
  const char* help() const { return help_; }

 private:
  std::map<std::string, const Rule*> rules_;
  const char* help_;
};

/// `unsupported`, with the op's line and types. `kernel`: its name.
Diagnostic about_op(const Module& module, const Operation& op, const std::string& kernel,
                    const std::string& why);

class Planner {
 public:
  Planner(const Module& module, const RuleTable& rules, Program& program);
  virtual ~Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  void plan_function(const Function& f, Code& code);

  // For rules.

  const Type& type(int value) const { return module_.type(value); }
  /// Slots of values as operands. A vector is materialised, and what computes it is emitted.
  int scalar(int value);
  std::vector<int> scalars(std::span<const int> values);
  int vector(int value);
  int memref(int value);
  /// A slot for a result.
  int new_scalar(int value);
  int new_vector(int value);
  int new_memref(int value);
  int fresh_scalar() { return program_.scalars++; }
  int fresh_vector();
  /// The result has the same bytes in the same order.
  void alias(int result, int operand);
  /// The same bytes as another type. Bounds are of values: there must be none.
  void reinterpret(int result, int operand);
  /// The vector `result` repeats the scalar `operand`.
  void splat(int result, int scalar_slot);
  /// Of an operand: nobody reads it any more before it is set again. Known of arguments of the
  /// block that is planned; of others false.
  bool last_use(int value) const;
  /// The slot of the scalar that a vector repeats; -1 if it is none.
  int splatted(int value);
  /// The vector `result` broadcasts the vector `operand`.
  void broadcast(int result, int operand);
  void constant(int result, const Attribute& value);
  // Vectors without elements (regular.hpp). A value that `keep_regular` names is one if what it is
  // made of is.
  void keep_regular(std::vector<bool> values) { keep_ = std::move(values); }
  /// Integers that must fit their types: where one does not, it is as undefined (kWrapped). Sums
  /// and products, of scalars and of regular vectors.
  void watch(std::vector<bool> values) { watched_ = std::move(values); }
  /// What element_op() is asked for, by the value that it makes.
  struct MadeBy {
    ElementOp op;
    std::vector<int> operands;
  };
  void keep_element_ops(std::map<int, MadeBy>& to) { element_ops_ = &to; }
  bool is_regular(int value);  ///< or a splat of integers
  RegularView regular(int value);
  /// start, start + 1, ...: of one dim.
  void range(int result, std::int64_t start);
  /// The result is the operand with its dims in another order, or more of them (-1). False if it is
  /// not kept so: to be planned as vectors are.
  bool regular_dims(int result, int operand, std::span<const int> from);
  /// An op on one element, of scalars or vectors alike.
  void element_op(const Operation& op, ElementOp e, std::span<const int> operands);

  /// Scalars of a scf.for; in 64 bits, but for `begin` and `index`, which are as its operands.
  struct Counter {
    int begin = -1;
    int at = -1;
    int last = -1;  ///< where it ends
    int by = -1;
    int index = -1;  ///< what the body sees of `at`
    DType dtype = DType::i32;
    std::size_t first = 0;  ///< the step that each turn begins with
  };
  /// For a front end: the body of a loop is planned, and what it hands on is not yet.
  virtual void turn_ends(const Operation& /*loop*/, const Counter& /*counter*/) {}

  /// For a front end: what the TPU's compiler knows a scalar to be at each step of the grid.
  void know(int value, std::int64_t constant);
  /// Of a branch: the way that the TPU's compiler knows it to go.
  std::optional<bool> known_way(int condition) const;
  /// Plans a way of such a branch: what is `taken` goes on where the branch is, the other one is
  /// nowhere in what it compiles.
  const Operation* way(const Region& r, bool taken);
  /// Such a branch is planned, from its step until now; its results are what this way ends with.
  void decided(const Operation& op, const Operation* taken, const Choice& ways, bool way);

  /// Adds a step; `reads`: the vector slots that it reads.
  std::size_t emit(std::function<void(Exec&)> run, std::initializer_list<int> reads = {});
  void read(int vector_slot);
  /// The slot of a value with a place, which the next step sets.
  int made(int value);
  /// The last step goes on at `target`; `when`: "else", or empty for always.
  void jumps(std::shared_ptr<const std::size_t> target, const char* when = "");
  /// Of the last step: what it does, if not its op.
  void does(const char* what) { code_->notes.back().what = what; }
  /// Says of the last step that the vectors and scalars it makes have the bounds they must.
  void carries_bounds() { code_->steps.back().carries_bounds = true; }
  /// An op that was planned as a branch over steps: they may do nothing but compute its results.
  void note_choice(const Operation& op, Choice choice);
  /// What the last step computes each time that it runs.
  void work(const Work& w) { code_->steps.back().work = w; }
  std::size_t position() const { return code_->steps.size(); }
  /// What is planned so far.
  const Code& code() const { return *code_; }
  /// A step that does nothing: where other steps jump to.
  std::size_t label();

  /// Plans a region of several blocks here; `leave`: what each of its returns does.
  void blocks(const Region& r, const std::function<void(const Operation&)>& leave);
  /// Plans a function's body here, in place of a call.
  void call(const Operation& op, const Function& f);
  const Module& module() const { return module_; }
  /// Plans a region's operations but its terminator, which it returns.
  const Operation* region(const Region& r);
  /// Of a branch: the last step goes on at a block of the function; to where, is known later.
  /// Refuses a block that was planned before.
  std::shared_ptr<const std::size_t> branch_target(const Operation& op, int block);
  /// Of the running branch: the values that a block's arguments get.
  std::span<const int> block_arguments(int block) const;
  /// The last step reads memory of a function's argument (-1: nobody's): its number among
  /// Program::reads.
  void reads_memory(const Operation& op, int argument);
  /// Copies values: of a terminator to results, of operands to arguments.
  void move(std::span<const int> from, std::span<const int> to);
  /// Gives places to the results of an op with regions, or to a region's arguments.
  void place(std::span<const int> values);
  /// Vectors that are read from here on, and were made before `first`, live until now.
  void hold_since(std::size_t first);
  /// Emits what is waiting to be fused.
  void flush();

  /// Operands, results or regions that no such op has.
  [[noreturn]] void refuse(const Operation& op);
  [[noreturn]] void unsupported(const Operation& op, const std::string& why);
  /// The same of what hardware does and nobody has measured.
  [[noreturn]] void unmodelled(const Operation& op, const std::string& why);
  Here here(const Operation& op) const;
  Program& program() { return program_; }
  /// The argument of a function whose memory a memref is, through whatever views; -1: it is none's.
  int root(int memref) const { return roots_[static_cast<std::size_t>(memref)]; }
  bool used(int value) const { return uses_[static_cast<std::size_t>(value)] > 0; }

  // Attributes of an op; unsupported if it has none of that kind.
  std::int64_t integer(const Operation& op, const char* attribute);
  std::int64_t integer_or(const Operation& op, const char* attribute, std::int64_t otherwise);
  std::vector<std::int64_t> integers(const Operation& op, const char* attribute);
  std::string text(const Operation& op, const char* attribute);
  /// "add" of "#vector.kind<add>".
  std::string inner_text(const Operation& op, const char* attribute);
  /// The operands of each segment of an op with operandSegmentSizes.
  std::vector<std::vector<int>> segments(const Operation& op);
  /// Throws unless all operands (from the `first` on) have the element type `d`.
  void expect_type(const Operation& op, DType d, std::size_t first = 0);
  /// Throws unless the two values have one element type.
  void expect_same_type(const Operation& op, int a, int b);
  /// Throws unless the op has as many operands, results and regions.
  void expect(const Operation& op, std::size_t operands, std::size_t results,
              std::size_t regions = 0);

 private:
  bool may_be_predicated(const Operation& op) const;
  struct Place {
    enum class Kind : std::uint8_t {
      none,
      scalar,
      vector,
      memref,
      splat,
      broadcast,
      waiting,
      regular
    };
    Kind kind = Kind::none;
    int slot = -1;
    Lane lane;       ///< of a broadcast or a splat
    int member = 0;  ///< waiting: in the group of as many elements
    std::shared_ptr<const RegularView> view = nullptr;  ///< of a regular one
    std::size_t block = 0;  ///< where `slot` has a regular one's elements; 0: nowhere
  };
  Place& place_of(int value);
  void drop_dead(const Region& r);
  void operation(const Operation& op);
  const Operation* block(const Region& r);
  KnownValues known_values() const;
  std::vector<int> block_order(const Region& body) const;
  void body(const Function& f, Code& code);
  Origin read_number(const Operation& op, int argument);
  void note_memory(const Operation& op, std::size_t first);
  /// True if an op means nothing to a dry run but the work that it is.
  bool on_values(const Operation& op, const Rule& rule) const;
  void scalar_op(int result, const ElementOp& e, std::span<const int> operands);
  void grouped_op(int result, const ElementOp& e, std::span<const int> operands);
  void watched_op(int result, const ElementOp& e, std::span<const int> operands);
  void repeat(int result, int operand, const Shape& strides);
  void emit_group(std::int64_t elems);
  void note_units(const Operation& op, std::size_t step);
  bool kept_regular(int value) const {
    return !keep_.empty() && keep_[static_cast<std::size_t>(value)];
  }
  bool watched(int value) const {
    return !watched_.empty() && watched_[static_cast<std::size_t>(value)];
  }
  void place_regular(int value, int slot);
  void regular_op(int result, const ElementOp& e, std::span<const int> operands);
  StepNote::Slot noted(int value, int slot) const;
  Lane lane_of(int value);

  static constexpr std::size_t kAlways = SIZE_MAX;  ///< read by steps to come, for ever

  const Module& module_;
  const RuleTable& rules_;
  Program& program_;
  Code* code_ = nullptr;
  std::vector<Place> places_;
  std::vector<int> uses_;
  std::vector<bool> keep_;  ///< regular
  std::vector<bool> watched_;
  std::map<int, MadeBy>* element_ops_ = nullptr;
  std::size_t block_ = 1;  ///< that is planned
  std::size_t blocks_ = 1;
  std::map<int, std::size_t> arguments_;  ///< of blocks that are planned, and which
  std::vector<int> roots_;
  std::set<const Operation*> dead_;
  std::map<std::int64_t, Group> waiting_;                    ///< by number of elements
  std::map<std::int64_t, std::vector<int>> waiting_values_;  ///< of their members
  std::vector<std::size_t> last_read_;                       ///< per vector slot
  std::vector<std::size_t> made_;                            ///< per vector slot
  std::map<std::pair<DType, std::uint64_t>, int> constants_;
  std::vector<int> pending_reads_;  ///< of the step to come
  StepNote note_;                   ///< of the step to come
  const Operation* running_ = nullptr;
  const char* running_name_ = "";
  const Region* body_ = nullptr;  ///< whose blocks are planned
  std::vector<const Function*> calls_;
  std::set<const Function*> called_;
  std::set<int> planned_;  ///< of its blocks
  std::vector<std::shared_ptr<std::size_t>> block_starts_;
  std::map<std::string, int> unit_rows_;  ///< places in Program::unit_rows
  std::deque<UnitOps> units_;             ///< of compilers that know less, and more
  int never_ = 0;         ///< regions that are planned, and that the TPU's compiler leaves out
  bool goes_on_ = false;  ///< the next block is the taken way of a branch of one
  std::size_t of_scalars_ = 0;  ///< position after a step of a vector op that computes on scalars
};

}  // namespace tessera::program
