#include "triton/contract.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

namespace tessera::triton {

namespace {

using std::string_view;

bool moves_elements(const Operation& op) {
  constexpr string_view kNames[] = {"tt.broadcast", "tt.expand_dims", "tt.splat", "tt.reshape",
                                    "tt.trans"};
  return op.operands.size() == 1 && op.results.size() == 1 &&
         std::ranges::find(kNames, op.name) != std::end(kNames);
}

/// One that the compiler keeps in its order, as it does accesses to memory and instructions of the
/// special function unit; of the others here each is one instruction of an element.
bool kept_in_order(const Operation& op) {
  constexpr string_view kOrdinary[] = {
      "arith.addf",   "arith.subf",    "arith.mulf",    "arith.negf",   "arith.select",
      "arith.extf",   "arith.cmpf",    "arith.cmpi",    "arith.truncf", "arith.sitofp",
      "arith.uitofp", "arith.maxnumf", "math.absf",     "math.fma",     "arith.addi",
      "arith.muli",   "arith.subi",    "tt.contracted", "arith.extsi",  "arith.minnumf"};
  return std::ranges::find(kOrdinary, op.name) == std::end(kOrdinary);
}

class Contractor {
 public:
  explicit Contractor(Module& module)
      : module_(module), uses_(module.values.size()), rank_(module.values.size()) {}

  void function(Function& f) {
    count_uses(f.body);
    region(f.body);
  }

 private:
  /// A product as seen by an op that takes it, through ops that move elements and change signs.
  struct Seen {
    Operation product;
    std::vector<Operation> moves;  ///< from the product on
    bool negative = false;
  };
  /// What a basic block has computed so far.
  struct Place {
    std::size_t at;  ///< in `all`
    int block;
  };
  using Defined = std::map<int, Place>;

  /// Of values: by ops that compute, an element's.
  void count_uses(const Region& r) {
    for (const Region& other : r.others) count_uses(other);
    for (auto op = r.operations.rbegin(); op != r.operations.rend(); ++op) {
      for (const Region& each : op->regions) count_uses(each);
      double uses = 1;
      if (moves_elements(*op)) {
        const Type& from = module_.type(op->operands[0]);
        const Type& to = module_.type(op->results[0]);
        const bool scalar = from.kind == Type::Kind::scalar;
        uses = uses_of(op->results[0]) * static_cast<double>(to.shape.elems()) /
               static_cast<double>(scalar ? 1 : from.shape.elems());
      }
      for (const int v : op->operands) uses_[static_cast<std::size_t>(v)] += uses;
    }
  }
  double uses_of(int value) const { return uses_[static_cast<std::size_t>(value)]; }

  /// LLVM orders the operands of a sum by rank: that of what is kept in order grows with the
  /// program, another op's is one more than its highest operand's.
  void begin_block() { kept_ = ++blocks_ << 16; }
  void rank(const Operation& op) {
    std::int64_t rank = 0;
    if (op.operands.empty()) {
      // A constant.
    } else if (moves_elements(op)) {
      rank = rank_of(op.operands[0]);
    } else if (kept_in_order(op)) {
      rank = ++kept_;
    } else {
      for (const int v : op.operands) rank = std::max(rank, rank_of(v) + 1);
    }
    for (const int v : op.results) rank_[static_cast<std::size_t>(v)] = rank;
  }
  std::int64_t rank_of(int value) const { return rank_[static_cast<std::size_t>(value)]; }

  void region(Region& r) {
    std::vector<Operation> all;
    Defined defined;
    int block = 0;
    begin_block();
    for (const int v : r.arguments) rank_[static_cast<std::size_t>(v)] = ++kept_;
    for (Operation& op : r.operations) {
      for (Region& each : op.regions) region(each);
      if (!op.regions.empty()) {
        ++block;
        begin_block();
      }
      rank(op);
      if (op.name == "arith.addf" || op.name == "arith.subf") fuse(op, all, defined, block);
      for (const int v : op.results) defined[v] = {all.size(), block};
      all.push_back(std::move(op));
    }
    r.operations = std::move(all);
    for (Region& other : r.others) region(other);
  }

  static bool squares(int value, const std::vector<Operation>& all, const Defined& defined) {
    const auto it = defined.find(value);
    if (it == defined.end()) return false;
    const Operation& op = all[it->second.at];
    return op.name == "arith.mulf" && op.operands[0] == op.operands[1];
  }
  std::optional<Seen> product_of(int value, const std::vector<Operation>& all,
                                 const Defined& defined, int block) const {
    Seen seen;
    for (;;) {
      const auto it = defined.find(value);
      if (it == defined.end()) return std::nullopt;
      const Operation& op = all[it->second.at];
      if (op.name == "arith.mulf") {
        if (it->second.block != block) return std::nullopt;
        seen.product = op;
        return seen;
      }
      if (op.name == "math.absf" && squares(op.operands[0], all, defined)) {
        // ptxas drops the sign of what has none.
      } else if (moves_elements(op)) {
        seen.moves.insert(seen.moves.begin(), op);
      } else if (op.name == "arith.negf") {
        seen.negative = !seen.negative;
      } else {
        return std::nullopt;
      }
      value = op.operands[0];
    }
  }

  void fuse(Operation& op, std::vector<Operation>& all, Defined& defined, int block) {
    const DType d = module_.type(op.results[0]).dtype;
    if (op.operands.size() != 2 || (d != DType::f32 && d != DType::bf16 && d != DType::f16)) return;
    std::array<std::optional<Seen>, 2> seen;
    for (std::size_t i = 0; i < 2; ++i) seen[i] = product_of(op.operands[i], all, defined, block);
    if (!seen[0] && !seen[1]) return;
    const bool difference = op.name == "arith.subf";
    std::size_t which = seen[0] ? 0 : 1;
    if (seen[0] && seen[1]) {
      if (!difference && rank_of(op.operands[1]) < rank_of(op.operands[0])) which = 1;
      const auto uses = [&](std::size_t i) { return uses_of(seen[i]->product.results[0]); };
      if (uses(which) > uses(1 - which)) which = 1 - which;
    }
    const Seen& s = *seen[which];
    std::vector<int> operands = s.product.operands;
    for (int& v : operands) {
      for (Operation move : s.moves) {
        move.operands = {v};
        module_.values.push_back(module_.values[static_cast<std::size_t>(move.results[0])]);
        v = static_cast<int>(module_.values.size()) - 1;
        rank_.push_back(rank_of(move.results[0]));
        move.results = {v};
        defined[v] = {all.size(), block};
        all.push_back(std::move(move));
      }
    }
    operands.push_back(op.operands[1 - which]);
    const bool minus_product = s.negative != (difference && which == 1);
    const bool minus_other = difference && which == 0;
    Attributes attributes;
    attributes["form"].kind = Attribute::Kind::integer;
    attributes["form"].integer = (minus_product ? 1 : 0) + (minus_other ? 2 : 0);
    op.name = "tt.contracted";
    op.operands = std::move(operands);
    op.attributes = std::make_shared<const Attributes>(std::move(attributes));
  }

  Module& module_;
  std::vector<double> uses_;
  std::vector<std::int64_t> rank_;
  std::int64_t blocks_ = 0;
  std::int64_t kept_ = 0;
};

}  // namespace

void contract(Module& module) {
  for (Function& f : module.functions) Contractor(module).function(f);
}

}  // namespace tessera::triton
