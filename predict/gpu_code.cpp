#include "predict/gpu_code.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace tessera::predict {

namespace {

// Of an ELF file of 64 bits.
constexpr std::size_t kHeader = 64;
constexpr std::size_t kSectionsAt = 0x28;
constexpr std::size_t kSectionCount = 0x3c;
constexpr std::size_t kNamesSection = 0x3e;
constexpr std::size_t kSectionHeader = 64;
constexpr std::size_t kOffsetInSection = 24;
constexpr std::size_t kSizeInSection = 32;

constexpr std::size_t kInstruction = 16;

template <class T>
bool read_at(std::string_view bytes, std::size_t at, T& value) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return false;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return true;
}

/// The largest section of code; empty if there is none.
std::string_view code_of(std::string_view file) {
  std::uint64_t at = 0;
  std::uint16_t count = 0;
  std::uint16_t names = 0;
  if (file.size() < kHeader || file.substr(0, 5) != std::string_view("\x7f"
                                                                     "ELF\x02",
                                                                     5))
    return {};
  read_at(file, kSectionsAt, at);
  read_at(file, kSectionCount, count);
  read_at(file, kNamesSection, names);
  const auto section = [&](std::uint64_t n) -> std::string_view {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    const std::uint64_t header = at + n * kSectionHeader;
    if (!read_at(file, header + kOffsetInSection, begin)) return {};
    if (!read_at(file, header + kSizeInSection, size)) return {};
    if (begin > file.size() || size > file.size() - begin) return {};
    return file.substr(begin, size);
  };
  const std::string_view all_names = section(names);
  std::string_view largest;
  for (std::uint64_t n = 0; n < count; ++n) {
    std::uint32_t name = 0;
    if (!read_at(file, at + n * kSectionHeader, name) || name >= all_names.size()) continue;
    if (!all_names.substr(name).starts_with(".text.")) continue;
    const std::string_view code = section(n);
    if (code.size() > largest.size()) largest = code;
  }
  return largest;
}

enum class Op : std::uint16_t {
  ffma = 0x23,
  hmma = 0x3c,
  bra = 0x147,
  ldl = 0x183,
  stl = 0x187,
  shfl = 0x189,
  syncs = 0x1a7,
  hgmma = 0x1f0,
};

struct Instruction {
  Op op;
  int bytes = 0;         ///< that it moves, if it moves any
  std::int64_t to = -1;  ///< of a branch: the instruction
};

Instruction instruction_at(std::string_view code, std::size_t n) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  read_at(code, n * kInstruction, low);
  read_at(code, n * kInstruction + 8, high);
  Instruction i{static_cast<Op>(low & 0x1ff)};
  // u8, s8, u16, s16, 32, 64 and 128 bits.
  constexpr int kSizes[] = {1, 1, 2, 2, 4, 8, 16, 0};
  if (i.op == Op::ldl || i.op == Op::stl) i.bytes = kSizes[high >> 9 & 7];
  if (i.op == Op::bra) {
    // 48 bits from 34 on are its distance in words, above eight more of them.
    std::uint64_t words = (low >> 34 | high << 30) << 8 | (low >> 16 & 0xff);
    words <<= 16;  // 48 bits, with their sign
    const std::int64_t distance = (static_cast<std::int64_t>(words) >> 16) * 4;
    constexpr std::int64_t kEach = kInstruction;
    const std::int64_t to = static_cast<std::int64_t>(n) + 1 + distance / kEach;
    if (distance % kEach == 0 && to >= 0) i.to = to;
  }
  return i;
}

void add(const Instruction& i, CodePart& part) {
  switch (i.op) {
    case Op::ldl:
      ++part.loads;
      part.load_bytes += i.bytes;
      break;
    case Op::stl:
      ++part.stores;
      part.store_bytes += i.bytes;
      break;
    case Op::ffma:
      ++part.fmas;
      break;
    case Op::hmma:
      ++part.mmas;
      break;
    case Op::hgmma:
      ++part.wgmmas;
      break;
    case Op::shfl:
      ++part.shuffles;
      break;
    default:
      break;
  }
}

using Loop = std::pair<std::size_t, std::size_t>;  ///< its first and its last instruction

bool holds(const Loop& outer, const Loop& inner) {
  return outer.first <= inner.first && inner.second <= outer.second;
}

CodePart part_of(const std::vector<Instruction>& all, const Loop& l) {
  CodePart part;
  for (std::size_t n = l.first; n <= l.second; ++n) add(all[n], part);
  return part;
}

/// `part` more, or with -1 less.
void add(CodePart& to, const CodePart& part, int sign) {
  to.loads += sign * part.loads;
  to.stores += sign * part.stores;
  to.load_bytes += sign * part.load_bytes;
  to.store_bytes += sign * part.store_bytes;
  to.fmas += sign * part.fmas;
  to.mmas += sign * part.mmas;
  to.wgmmas += sign * part.wgmmas;
  to.shuffles += sign * part.shuffles;
}

}  // namespace

CodePart whole(const CompiledKernel& code) {
  CodePart all = code.cell;
  add(all, code.step, 1);
  add(all, code.after, 1);
  for (const CodePart& l : code.loops) add(all, l, 1);
  return all;
}

ReadCode read_cubin(const std::string& bytes) {
  ReadCode read;
  const std::string_view code = code_of(bytes);
  if (code.empty() || code.size() % kInstruction != 0) {
    read.why = "is no cubin with code";
    return read;
  }
  std::vector<Instruction> all;
  std::vector<Loop> loops;
  for (std::size_t n = 0; n < code.size() / kInstruction; ++n) {
    all.push_back(instruction_at(code, n));
    // A branch to itself ends the code.
    if (all.back().to >= 0 && all.back().to < static_cast<std::int64_t>(n))
      loops.emplace_back(all.back().to, n);
  }
  read.code.code_bytes = static_cast<std::int64_t>(code.size());
  std::sort(loops.begin(), loops.end());
  loops.erase(std::unique(loops.begin(), loops.end()), loops.end());
  const CodePart everything = part_of(all, {0, all.size() - 1});
  const auto is_product = [&](const Instruction& i) {
    return i.op == (everything.wgmmas > 0 ? Op::hgmma : everything.mmas > 0 ? Op::hmma : Op::ffma);
  };
  const auto waits = [](const Instruction& i) { return i.op == Op::syncs; };
  const auto has = [&](const Loop& l, const auto& what) {
    return std::any_of(all.begin() + l.first, all.begin() + l.second + 1, what);
  };
  std::vector<Loop> products;
  for (const Loop& l : loops) {
    if (!has(l, is_product) || has(l, waits)) continue;
    products.push_back(l);
  }
  std::erase_if(products, [&](const Loop& l) {
    return std::any_of(products.begin(), products.end(),
                       [&](const Loop& o) { return o != l && holds(l, o); });
  });
  // From where to where it multiplies.
  Loop span{all.size(), 0};
  const auto widen = [&](const Loop& l) {
    span = {std::min(span.first, l.first), std::max(span.second, l.second)};
  };
  for (const Loop& l : products) widen(l);
  for (std::size_t n = 0; n < all.size(); ++n) {
    if (is_product(all[n]) && (products.empty() || all[n].op != Op::ffma)) widen({n, n});
  }
  Loop step{0, all.size() - 1};
  for (const Loop& l : loops) {
    if (holds(l, span) && has(l, waits) && l.second - l.first < step.second - step.first) step = l;
  }
  read.code.step = part_of(all, {step.first, std::min(span.second, step.second)});
  if (span.second < step.second) read.code.after = part_of(all, {span.second + 1, step.second});
  read.code.cell = everything;
  add(read.code.cell, read.code.step, -1);
  add(read.code.cell, read.code.after, -1);
  for (const Loop& l : products) {
    read.code.loops.push_back(part_of(all, l));
    add(read.code.step, read.code.loops.back(), -1);
  }
  return read;
}

}  // namespace tessera::predict
