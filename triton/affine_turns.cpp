#include "triton/affine_turns.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "program/regular.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/plan_kernel.hpp"

namespace tessera::triton {

namespace {

constexpr std::size_t kMost = 8;  // loads, integers that a loop carries

/// A scalar, or a vector that is kept without elements.
using IntegerSlot = std::pair<bool, int>;  // regular

bool in(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

/// An integer that a loop carries.
struct Carried {
  IntegerSlot to;  ///< at the beginning of a turn
  DType dtype = DType::i32;
  int from = -1;  ///< at its end: a scalar
  RegularView view = {};
};

/// What is known of a scalar.
struct Integer {
  int slot = -1;
  DType dtype = DType::i32;
};

struct AffineLoop {
  Planner::Counter counter;
  std::vector<std::size_t> steps;  ///< that compute what changes from turn to turn
  std::vector<Integer> scalars;    ///< that these make
  std::vector<Carried> carried;
  std::vector<LentLoad> loads;
  struct Product {
    SumOfProducts sum;
    std::size_t left = 0;  ///< loads
    std::size_t right = 0;
  };
  std::vector<Product> products;
  Work work;  ///< of a turn
};

/// Looks through the steps of a body.
class LoopBody {
 public:
  LoopBody(Planner& p, const Operation& loop, const Planner::Counter& counter)
      : p_(p), body_(loop.regions[0]), code_(p.code()) {
    plan_.counter = counter;
  }

  std::shared_ptr<const AffineLoop> plan(const std::vector<LentLoad>& loads,
                                         const std::vector<SumOfProducts>& products) {
    if (!has_such_operations() || !begin()) return nullptr;
    for (std::size_t i = plan_.counter.first + 1; i < code_.steps.size(); ++i) {
      if (!step(i, loads, products)) return nullptr;
    }
    if (plan_.products.empty() || !end()) return nullptr;
    return std::make_shared<const AffineLoop>(std::move(plan_));
  }

 private:
  bool has_such_operations() const {
    return std::ranges::all_of(body_.operations, [](const Operation& op) {
      constexpr std::int64_t kNotEqual = 1;
      if (op.name != "arith.cmpi") return op.regions.empty();
      // Numbers that differ in two turns may be the same between them.
      const Attribute* const predicate = op.find("predicate");
      return predicate != nullptr && predicate->integer != kNotEqual;
    });
  }
  bool sum(int value) const { return running_sum(p_, value) >= 0; }

  /// What the first step of a turn finds.
  bool begin() {
    grows_[{false, plan_.counter.index}] = -1;
    for (std::size_t i = 1; i < body_.arguments.size(); ++i) {
      const int argument = body_.arguments[i];
      const Type& t = p_.type(argument);
      const bool regular = p_.is_regular(argument);
      if (t.kind == Type::Kind::vector && !regular) continue;  // end() has it be a sum
      if (plan_.carried.size() == kMost || t.dtype == DType::boolean || is_float(t.dtype) ||
          (!regular && t.kind != Type::Kind::scalar))
        return false;
      const IntegerSlot slot{regular, regular ? p_.regular(argument).slot : p_.scalar(argument)};
      grows_[slot] = static_cast<int>(i);
      plan_.carried.push_back({.to = slot, .dtype = t.dtype});
    }
    return true;
  }

  /// What its last one leaves: sums, and what each integer was and a number that stays.
  bool end() {
    std::size_t next = 0;
    const std::vector<int>& yielded = body_.operations.back().operands;
    for (std::size_t i = 1; i < body_.arguments.size(); ++i) {
      const int argument = body_.arguments[i];
      const int value = yielded[i - 1];
      if (p_.type(argument).kind == Type::Kind::vector && !p_.is_regular(argument)) {
        if (!sum(value)) return false;
        continue;
      }
      Carried& c = plan_.carried[next++];
      IntegerSlot from;
      if (c.to.first) {
        if (!p_.is_regular(value)) return false;
        c.view = p_.regular(value);
        if (c.view.splat || !c.view.same) return false;
        from = {true, c.view.slot};
      } else {
        c.from = p_.scalar(value);
        from = {false, c.from};
      }
      const auto it = grows_.find(from);
      if (it == grows_.end() || it->second != static_cast<int>(i)) return false;
    }
    return true;
  }

  bool step(std::size_t i, const std::vector<LentLoad>& loads,
            const std::vector<SumOfProducts>& products) {
    const Step& s = code_.steps[i];
    const StepNote& note = code_.notes[i];
    plan_.work.add(s.work, 1);
    if (note.group || note.target) return false;
    const std::string_view op = s.op;
    if (op == "tt.load") {
      const auto it = std::ranges::find(loads, i, &LentLoad::step);
      if (it == loads.end() || plan_.loads.size() == kMost) return false;
      plan_.loads.push_back(*it);
      return true;
    }
    if (op == "tt.dot") {
      const auto it = std::ranges::find(products, i, &SumOfProducts::step);
      if (it == products.end()) return false;
      const auto loaded = [&](int vector) {
        const auto load = std::ranges::find(plan_.loads, vector, &LentLoad::to);
        return static_cast<std::size_t>(load - plan_.loads.begin());
      };
      plan_.products.push_back({*it, loaded(it->left), loaded(it->right)});
      return plan_.products.back().left < plan_.loads.size() &&
             plan_.products.back().right < plan_.loads.size();
    }
    return integers(i, op, note);
  }

  /// A step that computes integers or masks.
  bool integers(std::size_t i, std::string_view op, const StepNote& note) {
    const auto slot = [](const StepNote::Slot& s) { return IntegerSlot{s.regular, s.slot}; };
    const auto integer = [](const StepNote::Slot& s) {
      return s.regular || s.kind == Type::Kind::scalar || s.kind == Type::Kind::index;
    };
    if (!std::ranges::all_of(note.reads, integer) || !std::ranges::all_of(note.makes, integer))
      return false;
    int changing = 0;
    int of = -1;
    for (const StepNote::Slot& s : note.reads) {
      const auto it = grows_.find(slot(s));
      if (it == grows_.end()) continue;
      ++changing;
      of = it->second;
    }
    if (changing == 0) return true;
    if (note.makes.size() != 1) return false;
    const StepNote::Slot& made = note.makes.front();
    const bool mask = made.dtype == DType::boolean;
    // A mask of masks, or of integers.
    const bool fits = mask ? made.regular && in(op, {"arith.cmpi", "arith.andi"})
                           : in(op, {"arith.addi", "arith.subi", "tt.addptr", "arith.extsi"}) ||
                                 (op == "arith.muli" && changing == 1);
    if (!fits) return false;
    // Grown by what stays: as the argument does. (What is subtracted from is the first operand.)
    const bool minuend = !note.reads.empty() && grows_.contains(slot(note.reads.front()));
    const bool as_it_does = changing == 1 && in(op, {"arith.addi", "arith.subi", "tt.addptr"}) &&
                            (op == "arith.addi" || minuend);
    grows_[slot(made)] = as_it_does ? of : -1;
    plan_.steps.push_back(i);
    if (!made.regular) plan_.scalars.push_back({made.slot, made.dtype});
    return true;
  }

  Planner& p_;
  const Region& body_;
  const Code& code_;
  AffineLoop plan_;
  /// What changes from turn to turn, and which argument of the body it is, but for a sum with what
  /// stays; -1: none.
  std::map<IntegerSlot, int> grows_;
};

std::optional<std::int64_t> integer(const Exec& x, const Integer& of) {
  if (x.scalars[static_cast<std::size_t>(of.slot)].poison != 0) return std::nullopt;
  switch (of.dtype) {
    case DType::i64:
      return x.get<std::int64_t>(of.slot);
    case DType::i32:
      return x.get<std::int32_t>(of.slot);
    case DType::i16:
      return x.get<std::int16_t>(of.slot);
    case DType::i8:
      return x.get<std::int8_t>(of.slot);
    default:
      return std::nullopt;
  }
}
bool set_integer(Exec& x, const Integer& of, std::int64_t value) {
  Scalar& s = x.scalars[static_cast<std::size_t>(of.slot)];
  std::memcpy(s.bytes.data(), &value, static_cast<std::size_t>(register_bytes(of.dtype)));
  return integer(x, of) == value;
}

/// value + n step; false if that does not fit into 64 bits.
bool moved(std::int64_t value, std::int64_t step, std::int64_t n, std::int64_t& to) {
  return !__builtin_mul_overflow(step, n, &to) && !__builtin_add_overflow(to, value, &to);
}

/// Base and steps; of a scalar the base alone.
using Numbers = std::array<std::int64_t, 1 + kRegularRank>;

/// The end of the first turn.
class FirstTurn {
 public:
  FirstTurn(const AffineLoop& plan, Exec& x)
      : plan_(plan),
        x_(instance(x)),
        at_(x.get<std::int64_t>(plan.counter.at)),
        by_(x.get<std::int64_t>(plan.counter.by)) {}

  void run() {
    constexpr std::int64_t kFew = 2;
    const Planner::Counter& c = plan_.counter;
    const auto last = x_.get<std::int64_t>(c.last);
    const std::int64_t left = at_ < last ? (last - 1 - at_) / by_ : 0;
    if (left < kFew || x_.dry || at_ != integer(x_, {c.begin, c.dtype}) || !note_first()) return;
    const auto wraps = x_.wraps;
    const bool even = plan_.scalars.empty() || (go_to(1) && note_scalars(second_));
    for (const std::int64_t n : {left, left - 1}) {
      if (!even || n < kFew || !go_to(n) || !all_lie(n)) continue;
      take(n);
      return;
    }
    x_.wraps = wraps;
    go_to(0);
  }

 private:
  bool note_first() {
    const std::vector<Site>& sites = x_.memory.sites();
    for (std::size_t k = 0; k < plan_.loads.size(); ++k) {
      const LentLoad& l = plan_.loads[k];
      if (!x_.lent[static_cast<std::size_t>(l.to)].lent ||
          !sites[static_cast<std::size_t>(l.site)].layouts.empty())
        return false;
      const auto lanes = l.lanes(x_, steps_[k]);
      if (!lanes) return false;
      tiles_[k] = *lanes;
    }
    if (!std::ranges::all_of(plan_.products,
                             [&](const AffineLoop::Product& p) { return p.sum.waits(x_); }) ||
        !note_scalars(first_))
      return false;
    for (std::size_t k = 0; k < plan_.carried.size(); ++k) {
      const Carried& c = plan_.carried[k];
      Numbers after{};
      if (!c.to.first) {
        const auto begin = integer(x_, {c.to.second, c.dtype});
        const auto end = integer(x_, {c.from, c.dtype});
        if (!begin || !end) return false;
        begins_[k][0] = *begin;
        after[0] = *end;
      } else if (!numbers(c.to.second, begins_[k]) || !numbers(c.view.slot, after)) {
        return false;
      }
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (__builtin_sub_overflow(after[i], begins_[k][i], &grows_[k][i])) return false;
      }
    }
    return true;
  }
  bool numbers(int slot, Numbers& to) const {
    const Regular& r = x_.regulars[static_cast<std::size_t>(slot)];
    to[0] = r.base;
    std::ranges::copy(r.step, to.begin() + 1);
    return !r.dense.data;
  }
  bool note_scalars(std::vector<std::int64_t>& to) const {
    to.clear();
    for (const Integer& s : plan_.scalars) {
      const auto value = integer(x_, s);
      if (!value) return false;
      to.push_back(*value);
    }
    return true;
  }

  /// Computes what changes as of the n-th turn after this one. False where it cannot be.
  bool go_to(std::int64_t n) {
    if (!set_integer(x_, {plan_.counter.index, plan_.counter.dtype}, at_ + n * by_)) return false;
    for (std::size_t k = 0; k < plan_.carried.size(); ++k) {
      const Carried& c = plan_.carried[k];
      Numbers now{};
      for (std::size_t i = 0; i < now.size(); ++i) {
        if (!moved(begins_[k][i], grows_[k][i], n, now[i])) return false;
      }
      if (!c.to.first) {
        if (!set_integer(x_, {c.to.second, c.dtype}, now[0])) return false;
        continue;
      }
      Regular& r = x_.regulars[static_cast<std::size_t>(c.to.second)];
      r.base = now[0];
      std::copy(now.begin() + 1, now.end(), r.step.begin());
    }
    for (const std::size_t i : plan_.steps) x_.program.main.steps[i].run(x_);
    return true;
  }

  /// Whether, as computed for the n-th turn, all tiles up to there may be lent.
  bool all_lie(std::int64_t n) {
    // Scalars that wrapped on the way would not be where they must.
    for (std::size_t k = 0; k < plan_.scalars.size(); ++k) {
      std::int64_t step = 0;
      std::int64_t wanted = 0;
      if (__builtin_sub_overflow(second_[k], first_[k], &step) ||
          !moved(first_[k], step, n, wanted) || integer(x_, plan_.scalars[k]) != wanted)
        return false;
    }
    for (std::size_t k = 0; k < plan_.loads.size(); ++k) {
      const LentLoad& l = plan_.loads[k];
      Lent steps;
      const auto there = l.lanes(x_, steps);
      const Strided& here = tiles_[k];
      if (!there || there->rank != here.rank || there->count != here.count ||
          there->step != here.step || there->apart != here.apart || steps.row != steps_[k].row ||
          steps.col != steps_[k].col)
        return false;
      turns_[k] = {n, (there->address - here.address) / n};
      if (turns_[k].apart % l.width != 0) return false;
      lie_[k] = x_.memory.lendable(next_tile(k, 1), l.width, turns_[k]);
      if (lie_[k] == nullptr) return false;
    }
    return true;
  }
  Strided next_tile(std::size_t load, std::int64_t turn) const {
    Strided s = tiles_[load];
    s.address += turn * turns_[load].apart;
    return s;
  }

  void take(std::int64_t n) {
    for (std::size_t k = 0; k < plan_.loads.size(); ++k) {
      const LentLoad& l = plan_.loads[k];
      x_.memory.count_lent(x_, l.site, next_tile(k, 1), l.width, turns_[k]);
    }
    // In the order in which they are asked for.
    for (std::int64_t turn = 1; x_.footprint != nullptr && turn <= n; ++turn) {
      for (std::size_t k = 0; k < plan_.loads.size(); ++k)
        x_.memory.note_tile(x_, next_tile(k, turn), plan_.loads[k].width, false);
    }
    for (const AffineLoop::Product& p : plan_.products) {
      p.sum.follow(x_, {lie_[p.left], turns_[p.left].apart}, {lie_[p.right], turns_[p.right].apart},
                   n);
    }
    op_state.flops += n * plan_.work.flops;
    op_state.transcendentals += n * plan_.work.transcendentals;
    op_state.matrix_flops += n * plan_.work.matrix_flops;
    op_state.elements += n * plan_.work.elements;
    x_.set(plan_.counter.at, at_ + n * by_);
  }

  const AffineLoop& plan_;
  Instance& x_;
  std::int64_t at_;
  std::int64_t by_;
  // Of loads.
  std::array<Strided, kMost> tiles_;
  std::array<Lent, kMost> steps_;
  std::array<Memory::Turns, kMost> turns_;
  std::array<const std::byte*, kMost> lie_{};
  // Of what is carried, as this turn began, and how it grows.
  std::array<Numbers, kMost> begins_{};
  std::array<Numbers, kMost> grows_{};
  // Of scalars, in this turn and the next.
  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> second_;
};

}  // namespace

void plan_affine_turns(Planner& p, const Operation& loop, const Planner::Counter& counter,
                       const std::vector<LentLoad>& loads,
                       const std::vector<SumOfProducts>& products) {
  const auto plan = LoopBody(p, loop, counter).plan(loads, products);
  if (!plan) return;
  p.emit([plan](Exec& x) { FirstTurn(*plan, x).run(); });
  p.does("turns at once");
}

}  // namespace tessera::triton
