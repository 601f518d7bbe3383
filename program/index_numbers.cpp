#include "program/index_numbers.hpp"

#include <algorithm>
#include <set>

#include "program/unit_shapes.hpp"
#include "program/units.hpp"

namespace tessera::program {

int IndexNumbers::name_of(const std::string& text, bool constant) {
  const int next = static_cast<int>(names_.size()) + 1;
  return names_.try_emplace(text, constant ? -next : next).first->second;
}

namespace {

std::string operands_text(const Operation& op, const std::map<int, int>& known) {
  std::string text;
  for (const int v : op.operands) text += " %" + std::to_string(known.at(v));
  return text;
}

}  // namespace

std::string IndexNumbers::text_of(const Operation& op, const std::map<int, int>& known) const {
  std::string text = op.name;
  for (const auto& [attribute, value] : *op.attributes) {
    text += " " + attribute + value.text + std::to_string(value.integer);
    for (const std::int64_t each : value.integers) text += "," + std::to_string(each);
  }
  text += operands_text(op, known);
  for (const int v : op.results) text += " " + module_.type(v).text;
  return text;
}

int IndexNumbers::row(const std::string& name) {
  auto& rows = program_.unit_rows;
  const auto it = std::ranges::find(rows, name);
  if (it != rows.end()) return static_cast<int>(it - rows.begin());
  rows.push_back(name);
  return static_cast<int>(rows.size()) - 1;
}

namespace {

/// Of what divides, or leaves a rest: its row in a table of costs, as unit_rows() names it.
std::string row_of(const Operation& op, const std::map<int, std::int64_t>& constants) {
  if (op.name == "memref.load") return op.name;
  if ((op.name != "arith.divsi" && op.name != "arith.remsi") || op.operands.size() != 2)
    return "scalar";
  const auto by = constants.find(op.operands[1]);
  if (by == constants.end()) return op.name;
  const bool power = by->second > 0 && (by->second & (by->second - 1)) == 0;
  return op.name + (power ? " power" : " constant");
}

// SMEM is loaded in words: a shift, a mask, and a second shift of the sign. In which word a part of
// one lies, and where in it, is computed of the index: a shift and a mask of its rows and what each
// is a multiple of.
constexpr std::int64_t kOfPartOfWord = 3;
constexpr std::int64_t kPlaceOfPart = 5;

/// Those that the last one follows from.
std::vector<UnitOp> needed(const std::vector<UnitOp>& ops) {
  std::set<int> read;
  std::vector<UnitOp> kept;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    if (!op->makes.empty() && !read.contains(op->makes[0])) continue;
    read.insert(op->reads.begin(), op->reads.end());
    kept.push_back(*op);
  }
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace

std::vector<UnitOp> IndexNumbers::of(const Function& map) {
  std::vector<UnitOp> ops;
  std::map<int, int> known;
  std::map<int, std::int64_t> constants;
  const std::vector<int>& arguments = map.body.arguments;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const bool constant = k < program_.grid.size() && program_.grid[k] == 1;
    known[arguments[k]] = name_of("argument " + std::to_string(k), constant);
  }
  for (const Operation& op : map.body.operations) {
    if (!std::ranges::all_of(op.operands, [&](int v) { return known.contains(v); })) return {};
    UnitOp unit;
    unit.location = op.location;
    if (op.name == "func.return") {
      for (const int v : op.operands) unit.reads.push_back(known.at(v));
      ops.push_back(unit);
      return needed(ops);
    }
    if (!op.regions.empty() || op.results.size() != 1) return {};
    const bool casts = op.name == "arith.index_cast" && op.operands.size() == 1;
    const bool constant = std::ranges::all_of(op.operands, [&](int v) { return known.at(v) < 0; });
    const int name = casts ? known.at(op.operands[0]) : name_of(text_of(op, known), constant);
    known[op.results[0]] = name;
    if (const Attribute* value = op.find("value"); op.name == "arith.constant" && value != nullptr)
      constants[op.results[0]] = value->integer;
    if (constant || casts) continue;
    for (const int v : op.operands) unit.reads.push_back(known.at(v));
    unit.makes = {name};
    const bool loads = op.name == "memref.load";
    const bool narrow = loads && is_narrow(module_.type(op.results[0]).dtype);
    if (narrow) {
      UnitOp place = unit;
      place.makes = {name_of("place" + operands_text(op, known), false)};
      place.rows = {{row("scalar"), kPlaceOfPart}};
      unit.reads.push_back(place.makes[0]);
      ops.push_back(std::move(place));
    }
    const auto varies = std::ranges::count_if(op.operands, [&](int v) { return known.at(v) > 0; });
    unit.rows = {{row(row_of(op, constants)), loads ? varies - 1 : 1}};
    if (narrow) unit.rows.emplace_back(row("scalar"), kOfPartOfWord);
    ops.push_back(unit);
  }
  return {};
}

}  // namespace tessera::program
