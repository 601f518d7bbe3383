#include "program/print.hpp"

#include <fmt/format.h>

#include "program/group.hpp"

namespace tessera::program {

std::string element_text(const std::byte* at, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) -> std::string {
    using T = typename decltype(tag)::type;
    T v{};
    std::memcpy(&v, at, sizeof(T));
    if constexpr (kIsFloat<T>)
      return fmt::format("{:g}", convert<float>(v));
    else if constexpr (std::is_same_v<T, bool>)
      return v ? "true" : "false";
    else
      return std::to_string(convert<std::int64_t>(v));
  });
}

namespace {

class Printer {
 public:
  explicit Printer(const Program& p) : p_(p) {
    for (const auto& [slot, value] : p.constants) constants_.emplace(slot, value);
  }

  std::string text() {
    line("{}: {} ops, {} scalars, {} vectors, {} memrefs", p_.name, p_.operations, p_.scalars,
         p_.vectors, p_.memrefs);
    line("\nwindows");
    windows("prefetched", p_.prefetched);
    windows("operand", p_.operands);
    windows("scratch", p_.scratch);
    for (const auto& [slot, bytes] : p_.dense)
      line("  constant     v{}, {} bytes", slot, bytes.size());
    for (std::size_t i = 0; i < p_.operands.size(); ++i) {
      if (!p_.operands[i].whole)
        code(fmt::format("index map of operand {}", i), p_.operands[i].transform);
    }
    code("body", p_.main);
    return std::move(out_);
  }

 private:
  using Slot = StepNote::Slot;

  template <class... A>
  void line(fmt::format_string<A...> format, A&&... values) {
    out_ += fmt::format(format, std::forward<A>(values)...);
    while (out_.ends_with(' ')) out_.pop_back();
    out_ += '\n';
  }

  std::string index_map(const Window& w) const {
    if (w.semaphores) return w.type.semaphore;
    if (w.any) return "stays there";
    if (w.whole) return "whole";
    std::string ids;
    for (std::size_t d = 0; d < w.uses.size(); ++d) {
      if (w.uses[d]) ids += fmt::format("{}{}", ids.empty() ? " of ids " : ", ", d);
    }
    return fmt::format("{} along the last id,{}{} {} buffers",
                       w.along == Along::constant ? "constant"
                       : w.along == Along::affine ? "affine"
                                                  : "not affine",
                       ids, ids.empty() ? "" : ";", w.slots);
  }
  void windows(const char* role, const std::vector<Window>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Window& w = all[i];
      line("  {:<12} m{:<3} {:<20} {:<13} {}", fmt::format("{} {}", role, i), w.slot,
           w.semaphores ? to_string(w.type.shape) : describe(w.type.dtype, w.type.shape),
           w.type.space, index_map(w));
    }
  }

  std::string where(int location) const {
    const Location& l = p_.locations[static_cast<std::size_t>(location)];
    return l.file.empty() ? "" : fmt::format("{}:{}", l.file, l.line);
  }
  std::string scalar(int slot, DType dtype) const {
    const auto constant = constants_.find(slot);
    return fmt::format("s{}{}", slot,
                       constant == constants_.end()
                           ? ""
                           : "=" + element_text(constant->second.bytes.data(), dtype));
  }
  std::string name(const Slot& s) const {
    if (s.regular) return fmt::format("r{}", s.slot);
    switch (s.kind) {
      case Type::Kind::vector:
        return fmt::format("v{}", s.slot);
      case Type::Kind::memref:
        return fmt::format("m{}", s.slot);
      default:
        return scalar(s.slot, s.dtype);
    }
  }
  std::string made(const Slot& s) const {
    const bool one = s.kind != Type::Kind::vector && s.kind != Type::Kind::memref;
    return name(s) + " " + (one ? tessera::name(s.dtype) : describe(s.dtype, s.shape));
  }
  template <class F>
  static std::string list(std::size_t n, F&& item) {
    std::string all;
    for (std::size_t i = 0; i < n; ++i) all += (i > 0 ? ", " : "") + item(i);
    return all;
  }
  std::string lane(const Lane& l) const {
    switch (l.kind) {
      case Lane::Kind::splat:
        return scalar(l.slot, l.dtype);
      case Lane::Kind::rows:
        return fmt::format("v{}[i / {}]", l.slot, l.period);
      case Lane::Kind::columns:
        return fmt::format("v{}[i % {}]", l.slot, l.period);
      case Lane::Kind::result:
        return fmt::format("#{}", l.slot);
      default:
        return fmt::format("v{}", l.slot);
    }
  }

  void group(std::size_t number, const Group& g) {
    line("{:>4}  [", number);
    for (std::size_t i = 0; i < g.members.size(); ++i) {
      const Group::Member& m = g.members[i];
      const std::string text = fmt::format(
          "#{}{} {} = {} {}", i, m.vector < 0 ? "" : fmt::format(" v{}", m.vector),
          describe(m.op.result, m.shape), m.op.name, list(m.operands.size(), [&](std::size_t k) {
            return lane(g.lanes[static_cast<std::size_t>(m.operands[k])]);
          }));
      line("        {:<66} {}", text, where(m.location));
    }
  }

  void code(const std::string& title, const Code& c) {
    line("\n{} ({})", title, list(c.arguments.size(), [&](std::size_t i) {
           return fmt::format("{}{}", i < p_.grid.size() ? "s" : "m", c.arguments[i]);
         }));
    for (std::size_t i = 0; i < c.steps.size(); ++i) {
      const Step& s = c.steps[i];
      const StepNote& n = c.notes[i];
      if (n.group) {
        group(i, *n.group);
      } else {
        std::string text = list(n.makes.size(), [&](std::size_t k) { return made(n.makes[k]); });
        text += fmt::format("{}{} {}", text.empty() ? "" : " = ", n.what[0] != 0 ? n.what : s.op,
                            list(n.reads.size(), [&](std::size_t k) { return name(n.reads[k]); }));
        if (n.target)
          text += fmt::format("{}{}{}-> {}", text.ends_with(' ') ? "" : ", ", n.when,
                              n.when[0] == 0 ? "" : " ", *n.target);
        line("{:>4}  {:<68} {}", i, text, where(s.location));
      }
      const std::string frees =
          list(s.releases.size(), [&](std::size_t k) { return fmt::format("v{}", s.releases[k]); });
      if (n.group || !frees.empty())
        line("{}{}", n.group ? "      ]" : "     ", frees.empty() ? "" : " frees " + frees);
    }
    line("      end{}{}", c.results.empty() ? "" : " with ",
         list(c.results.size(), [&](std::size_t i) { return scalar(c.results[i], DType::i32); }));
  }

  const Program& p_;
  std::map<int, Scalar> constants_;
  std::string out_;
};

}  // namespace

std::string print(const Program& program) { return Printer(program).text(); }

}  // namespace tessera::program
