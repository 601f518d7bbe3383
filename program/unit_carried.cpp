#include "program/unit_carried.hpp"

#include <algorithm>
#include <set>

namespace tessera::program {

namespace {

bool has_no_range(const Program& program, const UnitOp& op) {
  return std::ranges::any_of(op.rows, [&](const auto& row) {
    const std::string& name = program.unit_rows[static_cast<std::size_t>(row.first)];
    return name == "memref.load" || name.starts_with("arith.divsi") ||
           name.starts_with("arith.remsi");
  });
}

/// Dims of the grid that a map reads the id of, none that has one step.
std::set<std::size_t> dims_of(const Program& program, const Window& w) {
  std::set<std::size_t> dims;
  for (const UnitOp& op : w.transform.units)
    for (const int number : op.reads)
      if (number > 0 && std::cmp_less_equal(number, program.grid.size()))
        dims.insert(static_cast<std::size_t>(number) - 1);
  return dims;
}

/// Those whose id the body reads.
std::set<std::size_t> dims_of_body(const Program& program) {
  const int ids = static_cast<int>(program.grid.size());
  const int behind = program.prefetched.empty()
                         ? (program.operands.empty() ? 0 : program.operands[0].argument)
                         : program.prefetched[0].argument;
  std::set<std::size_t> dims;
  for (const UnitOp& op : program.main.units) {
    for (const int value : op.reads) {
      const int dim = value - (behind - ids);
      if (dim >= 0 && dim < ids && program.grid[static_cast<std::size_t>(dim)] != 1)
        dims.insert(static_cast<std::size_t>(dim));
    }
  }
  return dims;
}

}  // namespace

std::vector<bool> known_ranges(const Program& program) {
  std::vector<bool> known;
  for (const Window& w : program.operands) {
    std::set<int> without;  // numbers
    for (std::size_t d = 0; d < program.grid.size(); ++d)
      if (program.grid[d] == kDynamic) without.insert(static_cast<int>(d) + 1);
    const auto has_none = [&](int number) { return without.contains(number); };
    bool found = program.grid.size() > 1 && !w.written && !w.transform.units.empty();
    for (const UnitOp& op : w.transform.units) {
      const bool none = has_no_range(program, op) || std::ranges::any_of(op.reads, has_none);
      if (none && op.makes.empty()) found = false;
      if (none) without.insert(op.makes.begin(), op.makes.end());
    }
    known.push_back(found);
  }
  return known;
}

std::int64_t carried_words(const Program& program, const std::vector<bool>& moves,
                           std::int64_t indices) {
  constexpr std::int64_t kBuffers = 3;
  const std::int64_t words = 1 + kBuffers * indices;
  if (program.grid.size() == 1) return words;  // its id is the turn's number
  // What is written, and computed, is a turn behind what is brought.
  std::set<std::size_t> behind = dims_of_body(program);
  std::size_t outermost = behind.empty() ? program.grid.size() : *behind.begin();
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    if (!moves[i]) continue;
    const std::set<std::size_t> dims = dims_of(program, program.operands[i]);
    if (!dims.empty()) outermost = std::min(outermost, *dims.begin());
    if (program.operands[i].written) behind.insert(dims.begin(), dims.end());
  }
  // A dim counts where an inner one is through.
  const auto counts = [](std::int64_t steps) { return steps != 1; };
  return words + std::ssize(behind) +
         std::count_if(program.grid.begin() + static_cast<std::ptrdiff_t>(outermost),
                       program.grid.end(), counts);
}

}  // namespace tessera::program
