#include "predict/tpu_player.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <deque>
#include <map>
#include <utility>

namespace tessera::predict {

namespace {

using u32 = std::uint32_t;

u32 add(u32 a, u32 b) { return a + b; }
u32 sub(u32 a, u32 b) { return a - b; }
u32 mul(u32 a, u32 b) { return a * b; }
u32 mul_high(u32 a, u32 b) { return static_cast<u32>(std::uint64_t{a} * b >> 32); }
u32 bit_and(u32 a, u32 b) { return a & b; }
u32 bit_or(u32 a, u32 b) { return a | b; }
u32 bit_xor(u32 a, u32 b) { return a ^ b; }
u32 shift_left(u32 a, u32 b) { return b < 32 ? a << b : 0; }
u32 shift_right(u32 a, u32 b) { return b < 32 ? a >> b : 0; }
std::int32_t as_signed(u32 a) { return std::bit_cast<std::int32_t>(a); }
u32 shift_signed(u32 a, u32 b) { return static_cast<u32>(as_signed(a) >> std::min(b, 31U)); }
u32 least(u32 a, u32 b) { return std::min(a, b); }
u32 most(u32 a, u32 b) { return std::max(a, b); }
u32 least_signed(u32 a, u32 b) { return as_signed(a) < as_signed(b) ? a : b; }
u32 most_signed(u32 a, u32 b) { return as_signed(a) > as_signed(b) ? a : b; }
u32 logical_and(u32 a, u32 b) { return a != 0 && b != 0 ? 1 : 0; }
u32 logical_or(u32 a, u32 b) { return a != 0 || b != 0 ? 1 : 0; }
u32 logical_xor(u32 a, u32 b) { return (a != 0) != (b != 0) ? 1 : 0; }
u32 logical_nand(u32 a, u32 b) { return 1 - logical_and(a, b); }
u32 logical_nor(u32 a, u32 b) { return 1 - logical_or(a, b); }
u32 eq(u32 a, u32 b) { return a == b ? 1 : 0; }
u32 ne(u32 a, u32 b) { return a != b ? 1 : 0; }
u32 lt(u32 a, u32 b) { return as_signed(a) < as_signed(b) ? 1 : 0; }
u32 le(u32 a, u32 b) { return as_signed(a) <= as_signed(b) ? 1 : 0; }
u32 gt(u32 a, u32 b) { return as_signed(a) > as_signed(b) ? 1 : 0; }
u32 ge(u32 a, u32 b) { return as_signed(a) >= as_signed(b) ? 1 : 0; }
u32 lt_u(u32 a, u32 b) { return a < b ? 1 : 0; }
u32 le_u(u32 a, u32 b) { return a <= b ? 1 : 0; }
u32 gt_u(u32 a, u32 b) { return a > b ? 1 : 0; }
u32 ge_u(u32 a, u32 b) { return a >= b ? 1 : 0; }

/// What a slot does, of those that are followed.
enum class Kind : std::uint8_t {
  binary,    ///< result = f(a, b)
  copy,      ///< result = a
  negate,    ///< result = not a
  divide,    ///< a / b, rest, or both are handed over
  take,      ///< result = the first that was handed over and not taken
  select,    ///< result = a ? b : c
  phi,       ///< what the register holds that its operands and its result share
  lea,       ///< result = a + b
  load,      ///< of SMEM
  store,     ///< of SMEM
  branch,    ///< to a region
  halt,      ///< if its guard says so
  dma,       ///< a copy begins
  wait,      ///< until a flag has so much
  flag_set,  ///< a flag = b
  flag_add,  ///< a flag += b
  flag_get,  ///< result = a flag
  core,      ///< result = the number of this core
  nothing,
  opaque,  ///< its result is not known
};

struct Rule {
  Kind act = Kind::opaque;
  u32 (*f)(u32, u32) = nullptr;
};

/// Slots of libtpu 0.0.42.
const std::map<std::string, Rule, std::less<>>& rules() {
  static const std::map<std::string, Rule, std::less<>> kRules = {
      {"sadd.s32", {Kind::binary, add}},
      {"ssub.s32", {Kind::binary, sub}},
      {"smul.u32", {Kind::binary, mul}},
      {"smulhi.u32", {Kind::binary, mul_high}},
      {"sand.u32", {Kind::binary, bit_and}},
      {"sor.u32", {Kind::binary, bit_or}},
      {"sxor.u32", {Kind::binary, bit_xor}},
      {"sshll.u32", {Kind::binary, shift_left}},
      {"sshrl.u32", {Kind::binary, shift_right}},
      {"sshra.s32", {Kind::binary, shift_signed}},
      {"smin.u32", {Kind::binary, least}},
      {"smax.u32", {Kind::binary, most}},
      {"smin.s32", {Kind::binary, least_signed}},
      {"smax.s32", {Kind::binary, most_signed}},
      {"pand", {Kind::binary, logical_and}},
      {"por", {Kind::binary, logical_or}},
      {"pxor", {Kind::binary, logical_xor}},
      {"pnand", {Kind::binary, logical_nand}},
      {"pnor", {Kind::binary, logical_nor}},
      {"scmp.eq.s32.totalorder", {Kind::binary, eq}},
      {"scmp.ne.s32.totalorder", {Kind::binary, ne}},
      {"scmp.lt.s32.totalorder", {Kind::binary, lt}},
      {"scmp.le.s32.totalorder", {Kind::binary, le}},
      {"scmp.gt.s32.totalorder", {Kind::binary, gt}},
      {"scmp.ge.s32.totalorder", {Kind::binary, ge}},
      {"scmp.eq.u32.totalorder", {Kind::binary, eq}},
      {"scmp.ne.u32.totalorder", {Kind::binary, ne}},
      {"scmp.lt.u32.totalorder", {Kind::binary, lt_u}},
      {"scmp.le.u32.totalorder", {Kind::binary, le_u}},
      {"scmp.gt.u32.totalorder", {Kind::binary, gt_u}},
      {"scmp.ge.u32.totalorder", {Kind::binary, ge_u}},
      {"smov", {Kind::copy}},
      {"pmov", {Kind::copy}},
      {"int_to_ptr.hbm", {Kind::copy}},
      {"int_to_ptr.vmem", {Kind::copy}},
      {"int_to_ptr.cmem", {Kind::copy}},
      {"int_to_ptr.smem", {Kind::copy}},
      {"int_to_ptr.sflag", {Kind::copy}},
      {"pneg", {Kind::negate}},
      {"sdivrem.u32.kDiv", {Kind::divide}},
      {"sdivrem.u32.kRem", {Kind::divide}},
      {"sdivrem.u32.kDivAndRem", {Kind::divide}},
      {"spop.drf", {Kind::take}},
      {"scalar_select", {Kind::select}},
      {"sphi", {Kind::phi}},
      {"pphi", {Kind::phi}},
      {"scalar_lea.hbm", {Kind::lea}},
      {"scalar_lea.vmem", {Kind::lea}},
      {"scalar_lea.cmem", {Kind::lea}},
      {"scalar_lea.smem", {Kind::lea}},
      {"scalar_lea.sflag", {Kind::lea}},
      {"sld", {Kind::load}},
      {"sst", {Kind::store}},
      {"sbr.rel", {Kind::branch}},
      {"shalt.err", {Kind::halt}},
      {"dma.done.wait", {Kind::wait}},
      {"vsyncpa", {Kind::flag_set}},
      {"vsyncadd", {Kind::flag_add}},
      {"vsyncmov", {Kind::flag_get}},
      {"vpop.sfrf", {Kind::copy}},
      {std::string(kCoreId), {Kind::core}},
      {"sfence", {Kind::nothing}},
      {"snop", {Kind::nothing}},
  };
  return kRules;
}

/// A sum of values and a constant: a name, a number, "[#allocation4 + $0x1]", "[smem:[%s1 + %s2]]".
struct Operand {
  u32 constant = 0;
  int a = -1;
  int b = -1;
};

struct Decoded {
  Kind act = Kind::opaque;
  u32 (*f)(u32, u32) = nullptr;
  const Slot* slot = nullptr;
  int result = -1;
  int guard = -1;
  bool guard_negated = false;
  Operand unless;
  bool has_unless = false;
  std::vector<Operand> operands;
  int target = -1;  ///< bundle
  int leaves = -1;  ///< of a branch: the last bundle that still runs
};

class Player {
 public:
  Player(const Listing& listing, const std::vector<const Array*>& values, const DeviceSpec& device,
         double clock_hz, const PlayOptions& options)
      : listing_(listing),
        options_(options),
        chip_(listed_chip(device)),
        memories_(listing, values, device, clock_hz, options.most_copies) {
    for (std::size_t i = 0; i < listing.operands.size(); ++i)
      set(value_of(listing.operands[i].name), memories_.operand(i));
    decode();
    find_blocks();
  }

  Played run() {
    const auto end = static_cast<int>(code_.size());
    Played& p = played_;
    p.executed.assign(code_.size(), 0);
    p.waited.assign(code_.size(), 0.);
    int at = 0;
    const Decoded* taken = nullptr;
    std::int64_t ran = 0;
    while (at < end) {
      if (++ran > options_.most_bundles)
        throw ListingError(fmt::format("more than {} bundles run", options_.most_bundles));
      begin_run(at);
      const double waited_before = p.waiting;
      const Decoded* const branch = bundle(at, taken != nullptr);
      ++p.executed[static_cast<std::size_t>(at)];
      p.waited[static_cast<std::size_t>(at)] += p.waiting - waited_before;
      now_ += 1;
      if (branch != nullptr) taken = branch;
      if (taken != nullptr && at >= taken->leaves) {
        at = std::exchange(taken, nullptr)->target;
      } else {
        ++at;
      }
    }
    end_run();
    p.cycles = std::max(now_, memories_.last_landing());
    p.bytes = memories_.bytes();
    p.copies = memories_.copies();
    p.hbm = memories_.hbm().busy;
    return std::move(played_);
  }

 private:
  [[noreturn]] static void fail(int bundle, const std::string& what) {
    throw ListingError(fmt::format("bundle {:#x}: {}", bundle, what));
  }

  int value_of(const std::string& name) {
    const auto [it, is_new] = names_.try_emplace(name, static_cast<int>(values_.size()));
    if (is_new) {
      // "s672_s25" lies in register s25.
      const std::string name_of_register = name.substr(name.rfind('_') + 1);
      const auto [place, is_new_register] =
          register_names_.try_emplace(name_of_register, static_cast<int>(registers_.size()));
      if (is_new_register) registers_.emplace_back();
      values_.emplace_back();
      register_of_.push_back(place->second);
    }
    return it->second;
  }
  void set(int value, Word word) {
    values_[static_cast<std::size_t>(value)] = word;
    registers_[static_cast<std::size_t>(register_of_[static_cast<std::size_t>(value)])] = word;
  }

  /// What the register of a value holds, whichever value that is.
  Word held(int value) const {
    return registers_[static_cast<std::size_t>(register_of_[static_cast<std::size_t>(value)])];
  }

  Operand operand_of(std::string_view text) {
    Operand o;
    const auto strip = [&](std::string_view prefix) {
      if (!text.starts_with(prefix) || !text.ends_with(']')) return;
      text.remove_prefix(prefix.size());
      text.remove_suffix(1);
    };
    strip("[smem:");
    strip("[");
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(" + "), text.size());
      add_term(text.substr(0, end), o);
      text.remove_prefix(std::min(end + 3, text.size()));
    }
    return o;
  }

  void add_term(std::string_view term, Operand& o) {
    if (term.starts_with('#')) {
      o.constant += memories_.allocation(std::string(term));
      return;
    }
    int base = 10;
    std::string_view digits = term;
    if (digits.starts_with('$')) digits.remove_prefix(1);
    if (digits.starts_with("0x")) {
      digits.remove_prefix(2);
      base = 16;
    }
    std::int64_t n = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), n, base);
    if (read.ptr == digits.data() + digits.size() && !digits.empty()) {
      o.constant += static_cast<u32>(n);
      return;
    }
    int& place = o.a < 0 ? o.a : o.b;
    const bool is_name = term.starts_with('%') && place < 0;
    place = is_name ? value_of(std::string(term.substr(1))) : kUnknown;
  }

  void decode() {
    set(value_of("?"), {});  // kUnknown
    for (std::size_t b = 0; b < listing_.bundles.size(); ++b) {
      std::vector<Decoded>& bundle = code_.emplace_back();
      for (const Slot& slot : listing_.bundles[b].slots) {
        Decoded d;
        d.slot = &slot;
        if (const auto it = rules().find(slot.op); it != rules().end()) {
          d.act = it->second.act;
          d.f = it->second.f;
        } else if (slot.op.starts_with("dma.")) {
          d.act = Kind::dma;
        } else if (slot.result.empty()) {
          fail(static_cast<int>(b), "no slot " + slot.op + " is known");
        }
        if (!slot.result.empty()) d.result = value_of(slot.result);
        if (!slot.guard.empty()) d.guard = value_of(slot.guard);
        d.guard_negated = slot.guard_negated;
        d.has_unless = !slot.unless.empty();
        if (d.has_unless) d.unless = operand_of(slot.unless);
        for (const std::string& text : slot.operands) d.operands.push_back(operand_of(text));
        require_operands(d, static_cast<int>(b));
        if (d.act == Kind::branch) {
          d.target = begin_of(slot.target, static_cast<int>(b));
          d.leaves = end_of_delay(slot, b);
        }
        bundle.push_back(std::move(d));
      }
    }
  }

  void require_operands(const Decoded& d, int bundle) const {
    std::size_t least = 0;
    switch (d.act) {
      case Kind::binary:
      case Kind::divide:
      case Kind::phi:
      case Kind::store:
      case Kind::wait:
      case Kind::flag_set:
      case Kind::flag_add:
        least = 2;
        break;
      case Kind::select:
        least = 3;
        break;
      case Kind::dma:
        least = 4;
        break;
      case Kind::copy:
      case Kind::negate:
      case Kind::lea:
      case Kind::load:
      case Kind::flag_get:
        least = 1;
        break;
      default:
        break;
    }
    if (d.operands.size() < least) fail(bundle, d.slot->op + " with too few operands");
    const auto shared = [&](const Operand& o) {
      return o.a > kUnknown && register_of_[static_cast<std::size_t>(o.a)] ==
                                   register_of_[static_cast<std::size_t>(d.result)];
    };
    if (d.act == Kind::phi && !(shared(d.operands[0]) && shared(d.operands[1])))
      fail(bundle, d.slot->op + " of several registers");
  }

  int begin_of(int region, int from) {
    const auto r = static_cast<std::size_t>(region);
    if (region >= 0 && r < listing_.region_begin.size() && listing_.region_begin[r] >= 0)
      return listing_.region_begin[r];
    // Of a v5p's second core, which has no part in the kernel: to its end.
    const bool leaves =
        region >= 0 && listing_.fallthrough_exit > from && (left_by_ < 0 || left_by_ == region);
    if (!leaves) fail(from, fmt::format("no region {}", region));
    left_by_ = region;
    return listing_.fallthrough_exit;
  }

  /// The last bundle that runs behind a branch in bundle `b`. Where empty bundles are folded, the
  /// last of those fills the delay up, but that what only acts if the branch does not is in it too.
  int end_of_delay(const Slot& branch, std::size_t b) const {
    const std::size_t all = b + static_cast<std::size_t>(chip_.delay_slots);
    if (!chip_.folds_empty) return static_cast<int>(all);
    std::size_t last = 0;
    bool folded = false;
    for (std::size_t i = b + 1; i <= all && i < listing_.bundles.size(); ++i) {
      const ListedBundle& bundle = listing_.bundles[i];
      const bool empty = bundle.slots.empty() && !bundle.vector;
      const bool else_alone = std::ranges::any_of(bundle.slots, [&](const Slot& s) {
        return !s.guard.empty() && s.guard == branch.guard &&
               s.guard_negated != branch.guard_negated;
      });
      folded = folded || empty;
      if (empty || else_alone) last = i;
    }
    return static_cast<int>(folded ? last : all);
  }

  /// A block begins where a branch leads, behind one, and where a copy is awaited.
  void find_blocks() {
    std::vector<bool> begins(code_.size() + 1, false);
    begins[0] = true;
    for (std::size_t b = 0; b < code_.size(); ++b) {
      for (const Decoded& d : code_[b]) {
        if (d.act == Kind::wait) begins[b] = true;
        if (d.act != Kind::branch) continue;
        begins[static_cast<std::size_t>(d.target)] = true;
        begins[std::min(static_cast<std::size_t>(d.leaves) + 1, code_.size())] = true;
      }
    }
    block_of_.resize(code_.size());
    for (std::size_t b = 0; b < code_.size(); ++b) {
      if (begins[b]) played_.blocks.push_back({static_cast<int>(b), static_cast<int>(b)});
      played_.blocks.back().end = static_cast<int>(b) + 1;
      block_of_[b] = static_cast<int>(played_.blocks.size()) - 1;
    }
  }

  void begin_run(int at) {
    const int block = block_of_[static_cast<std::size_t>(at)];
    if (played_.blocks[static_cast<std::size_t>(block)].begin != at) return;
    end_run();
    run_ = {.block = block, .begin = now_, .end = now_, .waited = played_.waiting};
    running_ = true;
  }
  void end_run() {
    if (!running_) return;
    run_.end = now_;
    run_.waited = played_.waiting - run_.waited;
    if (options_.on_run)
      options_.on_run(played_.blocks[static_cast<std::size_t>(run_.block)], run_);
  }

  Word value(const Operand& o) const {
    u32 sum = o.constant;
    for (const int term : {o.a, o.b}) {
      if (term < 0) continue;
      const Word w = values_[static_cast<std::size_t>(term)];
      if (!w) return {};
      sum += *w;
    }
    return sum;
  }
  u32 known(const Decoded& d, std::size_t i, int at) const {
    const Word w = value(d.operands[i]);
    if (!w) fail(at, d.slot->op + " depends on what is not known: " + cause(d.operands[i]));
    return *w;
  }

  /// The slot behind an unknown value: the first one back that does not merely pass it on.
  std::string cause(const Operand& o) const {
    std::vector<bool> seen(values_.size(), false);
    Operand now = o;
    while (true) {
      const int value = unknown_term(now);
      if (value <= kUnknown || seen[static_cast<std::size_t>(value)]) return "a value";
      seen[static_cast<std::size_t>(value)] = true;
      const Decoded* const slot = defining(value);
      if (slot == nullptr) return "an operand of the call";
      const auto next =
          std::find_if(slot->operands.begin(), slot->operands.end(), [&](const Operand& each) {
            const int term = unknown_term(each);
            return term > kUnknown && !seen[static_cast<std::size_t>(term)];
          });
      if (next == slot->operands.end()) return "%" + slot->slot->result + " = " + slot->slot->op;
      now = *next;
    }
  }
  int unknown_term(const Operand& o) const {
    for (const int term : {o.a, o.b})
      if (term >= 0 && !values_[static_cast<std::size_t>(term)]) return term;
    return -1;
  }
  const Decoded* defining(int value) const {
    for (const std::vector<Decoded>& bundle : code_)
      for (const Decoded& d : bundle)
        if (d.result == value) return &d;
    return nullptr;
  }

  /// Whether a slot acts; nothing if that is not known.
  std::optional<bool> acts(const Decoded& d) const {
    if (d.guard < 0) return true;
    const Word w = values_[static_cast<std::size_t>(d.guard)];
    if (!w) return {};
    return (*w != 0) != d.guard_negated;
  }

  /// Runs a bundle; gives the branch that is taken, or null. In the delay of a taken one another
  /// does nothing.
  const Decoded* bundle(int at, bool in_delay) {
    const std::vector<Decoded>& slots = code_[static_cast<std::size_t>(at)];
    phis_.clear();
    for (const Decoded& d : slots)
      if (d.act == Kind::phi) phis_.emplace_back(d.result, held(d.result));
    for (const auto& [result, word] : phis_) set(result, word);
    stores_.clear();
    const Decoded* branch = nullptr;
    for (const Decoded& d : slots) {
      if (d.act == Kind::phi || d.act == Kind::nothing) continue;
      if (in_delay && d.act == Kind::branch) continue;
      const std::optional<bool> yes = acts(d);
      if (!yes && d.result < 0 && d.act != Kind::halt && d.act != Kind::store)
        fail(at, "whether " + d.slot->op +
                     " acts depends on what is not known: " + cause({.constant = 0, .a = d.guard}));
      if (yes && !*yes) {
        if (d.has_unless) set(d.result, value(d.unless));
        continue;
      }
      slot(d, at, yes.has_value());
      if (d.act == Kind::branch) branch = &d;
    }
    for (const auto& [address, word] : stores_) memories_.store(address, word);
    return branch;
  }

  void slot(const Decoded& d, int at, bool surely) {
    switch (d.act) {
      case Kind::phi:
      case Kind::nothing:
      case Kind::branch:
        break;
      case Kind::divide:
        divide(d);
        break;
      case Kind::take: {
        if (handed_.empty()) fail(at, d.slot->op + " of what nothing handed over");
        result(d, handed_.front(), surely);
        handed_.pop_front();
        break;
      }
      case Kind::binary: {
        const Word a = value(d.operands[0]);
        const Word b = value(d.operands[1]);
        result(d, a && b ? Word(d.f(*a, *b)) : Word(), surely);
        break;
      }
      case Kind::copy:
        result(d, value(d.operands[0]), surely);
        break;
      case Kind::negate: {
        const Word a = value(d.operands[0]);
        result(d, a ? Word(*a == 0 ? 1 : 0) : Word(), surely);
        break;
      }
      case Kind::select: {
        const Word p = value(d.operands[0]);
        result(d, p ? value(d.operands[*p != 0 ? 1 : 2]) : Word(), surely);
        break;
      }
      case Kind::lea: {
        Word sum = value(d.operands[0]);
        for (std::size_t i = 1; i < d.operands.size() && sum; ++i) {
          const Word more = value(d.operands[i]);
          sum = more ? Word(*sum + *more) : Word();
        }
        result(d, sum, surely);
        break;
      }
      case Kind::load: {
        const Word address = value(d.operands[0]);
        result(d, address ? memories_.load(*address) : Word(), surely);
        break;
      }
      case Kind::store: {
        const Word address = value(d.operands[0]);
        if (!address) fail(at, "sst depends on what is not known: " + cause(d.operands[0]));
        stores_.emplace_back(*address, surely ? value(d.operands[1]) : Word());
        break;
      }
      case Kind::halt:
        if (surely) fail(at, "the schedule halts: a check of its own fails");
        break;
      case Kind::dma:
        copy(d, at);
        break;
      case Kind::wait: {
        const std::optional<double> when = memories_.when(known(d, 0, at), known(d, 1, at));
        if (!when) fail(at, "it waits for what no copy of this core brings");
        if (*when > now_) {
          played_.waiting += *when - now_;
          now_ = *when;
        }
        break;
      }
      case Kind::flag_set:
        memories_.set_flag(known(d, 0, at), as_signed(known(d, 1, at)), now_);
        break;
      case Kind::flag_add:
        memories_.add_to_flag(known(d, 0, at), as_signed(known(d, 1, at)), now_);
        break;
      case Kind::flag_get:
        result(d, static_cast<u32>(memories_.flag(known(d, 0, at), now_)), surely);
        break;
      case Kind::core:
        result(d, static_cast<u32>(options_.core), surely);
        break;
      case Kind::opaque:
        result(d, {}, surely);
        break;
    }
  }

  /// Of both the quotient comes first.
  void divide(const Decoded& d) {
    const Word a = value(d.operands[0]);
    const Word b = value(d.operands[1]);
    const bool known = a && b && *b != 0;
    if (!d.slot->op.ends_with(".kRem")) handed_.push_back(known ? Word(*a / *b) : Word());
    if (!d.slot->op.ends_with(".kDiv")) handed_.push_back(known ? Word(*a % *b) : Word());
  }

  void result(const Decoded& d, Word word, bool surely) {
    if (d.result >= 0) set(d.result, surely ? word : Word());
  }

  /// from, granules, to, flag: the strides do not change how much moves.
  void copy(const Decoded& d, int at) {
    const TpuMemories::Copy copy{.op = d.slot->op,
                                 .from = known(d, 0, at),
                                 .to = known(d, 2, at),
                                 .granules = known(d, 1, at),
                                 .flag = known(d, 3, at)};
    try {
      memories_.start(copy, now_);
    } catch (const ListingError& e) {
      fail(at, e.what());
    }
  }

  static constexpr int kUnknown = 0;

  const Listing& listing_;
  const PlayOptions& options_;
  ListedChip chip_;
  std::map<std::string, int, std::less<>> names_{{"?", kUnknown}};
  std::vector<Word> values_{Word()};
  std::map<std::string, int, std::less<>> register_names_;
  std::vector<Word> registers_{Word()};
  std::vector<int> register_of_{0};  ///< of each value
  TpuMemories memories_;
  std::vector<std::vector<Decoded>> code_;
  std::vector<int> block_of_;
  int left_by_ = -1;  ///< the region behind all others; -1: none yet
  std::vector<std::pair<int, Word>> phis_;
  std::vector<std::pair<u32, Word>> stores_;
  std::deque<Word> handed_;  ///< by quotients, until they are taken
  Played played_;
  double now_ = 0;
  BlockRun run_;
  bool running_ = false;
};

}  // namespace

Played play(const Listing& listing, const std::vector<const Array*>& values,
            const DeviceSpec& device, double clock_hz, const PlayOptions& options) {
  return Player(listing, values, device, clock_hz, options).run();
}

}  // namespace tessera::predict
