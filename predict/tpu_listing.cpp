#include "predict/tpu_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace tessera::predict {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw ListingError("the compiler's listing: " + what);
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

int number_at(std::string_view s, std::size_t at) {
  int n = -1;
  std::from_chars(s.data() + at, s.data() + s.size(), n);
  return n;
}

/// Behind the comment that opens at `open`; comments nest.
std::size_t end_of_comment(std::string_view s, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at + 1 < s.size();) {
    const std::string_view two = s.substr(at, 2);
    at += two == "/*" || two == "*/" ? 2 : 1;
    depth += two == "/*" ? 1 : two == "*/" ? -1 : 0;
    if (depth == 0) return at;
  }
  fail("a comment that does not end");
}

/// Vector slots that act on sync flags or hand something to scalars: the player follows them.
bool is_followed(std::string_view op) {
  return !op.starts_with('v') || op.starts_with("vsync") || op.starts_with("vwait") ||
         op.starts_with("vdelay") || op == "vpop.sfrf";
}

/// Parts of `s` between `separator`s outside of brackets; empty ones are left out.
std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '[' || s[i] == '(' || s[i] == '<')) ++depth;
    if (i < s.size() && (s[i] == ']' || s[i] == ')' || s[i] == '>')) --depth;
    if (i < s.size() && (depth > 0 || s[i] != separator)) continue;
    if (const auto part = trimmed(s.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

std::string_view unprefixed(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  return name;
}

Shape shape_of(std::string_view dims) {
  Shape shape;
  while (!dims.empty()) {
    const std::size_t comma = std::min(dims.find(','), dims.size());
    if (shape.rank == kMaxRank) fail("an operand of too many dims");
    std::int64_t n = 0;
    std::from_chars(dims.data(), dims.data() + comma, n);
    shape.push_back(n);
    dims.remove_prefix(std::min(comma + 1, dims.size()));
  }
  return shape;
}

/// "[shape: f32[256,512], index: 0, kind: input, shape index: {}]"
ListedOperand operand_of(std::string_view name, std::string_view space, std::string_view text) {
  ListedOperand o;
  o.name = unprefixed(name);
  o.space = space;
  const std::size_t type = text.find("shape: ");
  const std::size_t open = text.find('[', type == std::string_view::npos ? 0 : type);
  const std::size_t close = text.find(']', open);
  const std::size_t index = text.find(", index: ");
  if (type == std::string_view::npos || close == std::string_view::npos ||
      index == std::string_view::npos)
    fail(fmt::format("the operand '{}'", text));
  o.type = text.substr(type + 7, open - type - 7);
  o.shape = shape_of(text.substr(open + 1, close - open - 1));
  o.index = number_at(text, index + 9);
  o.output = text.find("kind: output") != std::string_view::npos;
  return o;
}

/// Without its comments; regions that begin there are noted.
class Comments {
 public:
  explicit Comments(std::string_view line) {
    while (true) {
      const std::size_t open = line.find("/*");
      text_ += line.substr(0, open);
      if (open == std::string_view::npos) return;
      const std::size_t end = end_of_comment(line, open);
      note(line.substr(open, end - open));
      name_way(line.substr(open, end - open));
      name_parts(line.substr(open, end - open));
      if (line.substr(open, end - open) == "/* core id */") text_ += kCoreId;
      line.remove_prefix(end);
    }
  }
  const std::string& text() const { return text_; }
  const std::vector<int>& begun() const { return begun_; }

 private:
  void note(std::string_view comment) {
    constexpr std::string_view kStart = "Start region ";
    constexpr std::string_view kEmpty = "Start/End empty region ";
    for (const std::string_view words : {kStart, kEmpty}) {
      for (std::size_t at = 0; (at = comment.find(words, at)) != std::string_view::npos;) {
        at += words.size();
        begun_.push_back(number_at(comment, at));
      }
    }
  }

  /// Copies of many strides have their way in a comment: "dma.general ... /* hbm-to-vmem */".
  void name_way(std::string_view comment) {
    constexpr std::string_view kGeneral = "dma.general";
    const bool in = comment == "/* hbm-to-vmem */";
    const std::size_t at = text_.rfind(kGeneral);
    if ((!in && comment != "/* vmem-to-hbm */") || at == std::string::npos ||
        text_.find(";;", at) != std::string::npos)
      return;
    text_.replace(at, kGeneral.size(), in ? "dma.hbm_to_vmem" : "dma.vmem_to_hbm");
  }

  /// What of a quotient is asked for is in a comment: "sdivrem.u32 %s1, %s2 /* kDiv */".
  void name_parts(std::string_view comment) {
    constexpr std::string_view kDivides = "sdivrem.u32";
    const std::size_t at = text_.rfind(kDivides);
    if (at == std::string::npos || text_.find(";;", at) != std::string::npos) return;
    for (const std::string_view parts : {"kDiv", "kRem", "kDivAndRem"}) {
      if (comment == "/* " + std::string(parts) + " */")
        text_.replace(at, kDivides.size(), std::string(kDivides) + "." + std::string(parts));
    }
  }

  std::string text_;
  std::vector<int> begun_;
};

void read_guard(std::string_view word, Slot& slot) {
  word = word.substr(1, word.size() - 2);
  if (word.starts_with('!')) {
    slot.guard_negated = true;
    word.remove_prefix(1);
  }
  const std::size_t comma = word.find(',');
  slot.guard = unprefixed(trimmed(word.substr(0, comma)));
  if (comma != std::string_view::npos) slot.unless = trimmed(word.substr(comma + 1));
}

class Reader {
 public:
  Listing read(std::string_view bundles, std::string_view utilization) {
    while (!bundles.empty()) {
      const std::size_t end = end_of_line(bundles);
      line(bundles.substr(0, end));
      bundles.remove_prefix(std::min(end + 1, bundles.size()));
    }
    if (listing_.bundles.empty()) fail("no bundles");
    std::stable_sort(listing_.operands.begin(), listing_.operands.end(),
                     [](const auto& a, const auto& b) { return a.index < b.index; });
    use(utilization);
    return std::move(listing_);
  }

 private:
  /// A comment may have newlines.
  static std::size_t end_of_line(std::string_view s) {
    std::size_t at = 0;
    while (true) {
      const std::size_t newline = std::min(s.find('\n', at), s.size());
      const std::size_t comment = s.find("/*", at);
      if (comment == std::string_view::npos || comment > newline) return newline;
      at = end_of_comment(s, comment);
    }
  }

  /// "  0x10 LB: > { slot  ;;  slot } /* Start region 90 */"; others explain the notation.
  void line(std::string_view full) {
    const Comments without(full);
    const std::string_view text = trimmed(without.text());
    const std::size_t open = text.find('{');
    const std::size_t close = text.rfind('}');
    if (open == std::string_view::npos || !(text.front() >= '0' && text.front() <= '9')) return;
    std::size_t number = 0;
    const bool hexadecimal = text.starts_with("0x");
    const char* const digits = text.data() + (hexadecimal ? 2 : 0);
    const auto read =
        std::from_chars(digits, text.data() + text.size(), number, hexadecimal ? 16 : 10);
    if (read.ptr == digits || close == std::string_view::npos)
      fail(fmt::format("the line '{}'", text.substr(0, 80)));
    if (number != listing_.bundles.size())
      fail(fmt::format("bundle {:#x} where {:#x} would be", number, listing_.bundles.size()));
    for (const int region : without.begun()) begin(region);
    if (full.find("/* exit bundle:") != std::string_view::npos &&
        text.substr(0, open).find("PF:") != std::string_view::npos)
      listing_.fallthrough_exit = static_cast<int>(listing_.bundles.size());
    ListedBundle bundle;
    std::string_view rest = text.substr(open + 1, close - open - 1);
    while (!trimmed(rest).empty()) {
      const std::size_t end = std::min(rest.find(";;"), rest.size());
      slot(trimmed(rest.substr(0, end)), bundle);
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    listing_.bundles.push_back(std::move(bundle));
  }

  void begin(int region) {
    constexpr int kMostRegions = 1 << 20;
    if (region < 0 || region > kMostRegions) fail("a region without a number");
    const auto r = static_cast<std::size_t>(region);
    if (listing_.region_begin.size() <= r) listing_.region_begin.resize(r + 1, -1);
    if (listing_.region_begin[r] < 0)
      listing_.region_begin[r] = static_cast<int>(listing_.bundles.size());
  }

  void slot(std::string_view text, ListedBundle& bundle) {
    Slot s;
    const std::size_t equals = text.find(" = ");
    if (text.empty()) return;
    if (equals == std::string_view::npos) fail(fmt::format("the slot '{}'", text));
    // "target = $region28" has an equals sign of its own.
    const std::string_view name = unprefixed(trimmed(text.substr(0, equals)));
    const std::string_view rest = trimmed(text.substr(equals + 3));
    const std::size_t end = std::min(rest.find(' '), rest.size());
    constexpr std::string_view kOperand = "inlined_call_operand.";
    if (rest.starts_with(kOperand)) {
      const std::size_t open = rest.find(" [");
      if (open == std::string_view::npos) fail(fmt::format("the slot '{}'", text));
      listing_.operands.push_back(operand_of(
          name, rest.substr(kOperand.size(), open - kOperand.size()), rest.substr(open + 1)));
      return;
    }
    s.op = rest.substr(0, end);
    if (!is_followed(s.op)) {
      bundle.vector = true;
      if (name.empty() || (name.front() != 's' && name.front() != 'p')) return;
    }
    if (!name.empty() && (name.front() == 's' || name.front() == 'p' || s.op == "vsyncmov"))
      s.result = name;
    if (s.op == "vsyncmov") s.result = name;
    // An operand is the first word of its part; what follows it is the guard, or a remark.
    for (const std::string_view part : split(rest.substr(end), ',')) {
      bool has_operand = false;
      for (const std::string_view word : split(part, ' ')) {
        if (word == kCoreId)
          s.op = kCoreId;
        else if (word.front() == '(')
          read_guard(word, s);
        else if (word.starts_with("$region"))
          s.target = number_at(word, 7);
        else if (!has_operand && !word.starts_with("[thread:") &&
                 !word.starts_with("[resolvable:") && word != "target" && word != "=") {
          s.operands.emplace_back(word);
          has_operand = !word.starts_with("[smem:");  // a store's value follows without a comma
        }
      }
    }
    listing_.asks_core = listing_.asks_core || s.op == kCoreId;
    bundle.slots.push_back(std::move(s));
  }

  /// Two lines of columns and capacities, then a line for each bundle.
  void use(std::string_view text) {
    std::size_t row = 0;
    bool capacities = false;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = trimmed(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.empty() || line.starts_with("==")) continue;
      if (!capacities && line.front() > '9') {
        if (line != "MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU")
          fail(fmt::format("the units '{}'", line));
        continue;
      }
      std::array<int, kUnits> numbers{};
      const auto words = split(line, ' ');
      if (words.size() != kUnits) fail(fmt::format("the utilization '{}'", line));
      for (std::size_t u = 0; u < kUnits; ++u) numbers[u] = number_at(words[u], 0);
      if (!capacities) {
        listing_.capacity = numbers;
        capacities = true;
        continue;
      }
      if (row == listing_.bundles.size()) fail("more utilizations than bundles");
      for (std::size_t u = 0; u < kUnits; ++u)
        listing_.bundles[row].used[u] = static_cast<std::uint8_t>(numbers[u]);
      ++row;
    }
    if (row != listing_.bundles.size())
      fail(fmt::format("{} utilizations of {} bundles", row, listing_.bundles.size()));
  }

  Listing listing_;
};

}  // namespace

void require_known_version(std::string_view libtpu) {
  for (const std::string_view known : kListingVersions) {
    if (libtpu.starts_with(known) && (libtpu.size() == known.size() || libtpu[known.size()] == '.'))
      return;
  }
  std::string all;
  for (const std::string_view known : kListingVersions)
    all += (all.empty() ? "" : ", ") + std::string(known);
  throw ListingError("listings of libtpu " + std::string(libtpu) +
                     " have not been read; those of " + all + " have");
}

void check_listed_figures(const DeviceSpec& device) {
  static const std::map<std::string, std::string> units = {{"clock", "Hz"},
                                                           {"branch_delay", "bundle"},
                                                           {"folds_empty_bundles", "1"},
                                                           {"hbm_unit", "B"},
                                                           {"copy_unit", "B"}};
  for (const auto& [name, figure] : device.model) {
    const auto unit = units.find(name);
    const std::string what = device.name + ": figure 'model_" + name + "' ";
    if (unit == units.end()) throw SpecError(what + "is not one that tessera knows");
    if (figure.unit != unit->second) throw SpecError(what + "must have the unit " + unit->second);
    if (!(figure.value >= 0 && figure.value <= 1e12)) throw SpecError(what + "is out of range");
  }
}

ListedChip listed_chip(const DeviceSpec& device) {
  const auto figure = [&](const char* name) {
    const auto it = device.model.find(name);
    if (it == device.model.end())
      throw ListingError("listings for " + device.name + " have not been read (no figure model_" +
                         name + ")");
    return static_cast<int>(it->second.value);
  };
  return {.delay_slots = figure("branch_delay"),
          .folds_empty =
              device.model.contains("folds_empty_bundles") && figure("folds_empty_bundles") != 0,
          .hbm_unit_bytes = std::max(1, figure("hbm_unit")),
          .copy_unit_bytes = std::max(1, figure("copy_unit"))};
}

Listing read_listing(std::string_view bundles, std::string_view utilization) {
  return Reader().read(bundles, utilization);
}

}  // namespace tessera::predict
