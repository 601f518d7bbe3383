#include "program/unit_costs.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "memory_model/file.hpp"
#include "program/embedded_unit_costs.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::program {

namespace {

using Json = nlohmann::json;

UnitCosts read(std::string_view text) {
  const Json json = Json::parse(text);
  UnitCosts c;
  c.chip = json.at("chip");
  c.compiler = json.at("compiler");
  c.knows_narrow_masks = json.at("knows_narrow_masks");
  const auto slots = [](const Json& from) {
    std::array<double, kCoreUnits> all{};
    for (std::size_t u = 0; u < kCoreUnits; ++u) all[u] = from.value(kCoreUnitNames[u], 0.);
    return all;
  };
  c.capacity = slots(json.at("capacity"));
  for (const auto& [row, cost] : json.at("rows").items()) {
    UnitCost& of = c.rows[row];
    of = {cost.value("latency", 0.),  slots(cost),           cost.value("alone", 0.),
          cost.value("multiply", 0.), cost.value("add", 0.), {}};
    if (cost.contains("operations")) of.operations = cost.at("operations");
  }
  const Json& fixed = json.at("cycles");
  c.launch = fixed.at("launch");
  c.semaphore = fixed.at("semaphore");
  c.operand = fixed.at("operand");
  c.ends = fixed.at("ends");
  c.step = fixed.at("step");
  c.window = fixed.at("window");
  c.check = fixed.at("check");
  c.skip = fixed.at("skip");
  c.still = fixed.at("still");
  c.dim = fixed.at("dim");
  c.index = fixed.at("index");
  c.carried = fixed.at("carried");
  c.kept = fixed.at("kept");
  c.map = fixed.at("map");
  c.map_op = fixed.at("map_op");
  c.map_again = fixed.at("map_again");
  c.chosen = fixed.at("chosen");
  c.ragged = fixed.at("ragged");
  c.block = fixed.at("block");
  c.jump = fixed.at("jump");
  c.product = fixed.at("product");
  c.rest = fixed.at("rest");
  c.spill = fixed.at("spill");
  const Json& schedule = json.at("schedule");
  UnitSchedules& to = c.schedules.emplace();
  to.eup = schedule.at("eup");
  to.eup_every = schedule.at("eup_every");
  to.reduce = schedule.at("reduce");
  to.permute = schedule.at("permute");
  to.reduce_every = schedule.value("reduce_every", to.reduce_every);
  to.push_words = schedule.value("push_words", to.push_words);
  to.push_words_turned = schedule.value("push_words_turned", to.push_words_turned);
  to.product = schedule.value("product", to.product);
  to.pops_from_queue = schedule.value("queue", 0) != 0;
  to.adds_up = schedule.value("adds_up", 0) != 0;
  to.packs_words = schedule.value("packs_words", 0) != 0;
  to.turn = schedule.value("turn", to.turn);
  to.turn_every = schedule.value("turn_every", to.turn_every);
  to.pass = schedule.value("pass", to.pass);
  to.behind_loop = schedule.value("behind_loop", to.behind_loop);
  to.memory = schedule.at("memory");
  to.places = schedule.value("places", to.places);
  for (const auto& [of, kept] : json.at("held_out").items())
    c.held_out[of] = {kept.at("least"), kept.at("most")};
  for (const auto& [of, kept] : json.at("whole").items())
    c.whole[of] = {kept.at("least"), kept.at("most")};
  for (const char* const kind : kUnitKinds) {
    for (const char* const size : {"stretch ", "module "})
      for (const char* const interval : {"held_out", "whole"})
        json.at(interval).at(std::string(size) + kind);
  }
  return c;
}

/// Somebody's table, which may be of another version of this format, or none at all.
UnitCosts read_tried(const std::string& file) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 20;
  const std::string is = "TESSERA_UNIT_COSTS=" + file;
  try {
    UnitCosts c = read(read_file(file, kMostBytes));
    c.tried = file;
    return c;
  } catch (const FileError& e) {
    throw InputError("bad-unit-costs", is + " cannot be read: " + e.what(),
                     "unset TESSERA_UNIT_COSTS for tessera's own costs");
  } catch (const Json::exception& e) {
    const std::string text = e.what();
    throw InputError(
        "bad-unit-costs",
        is + " is no table of costs of this tessera: " + text.substr(text.find("] ") + 2),
        "change a copy of a table of this version (program/unit_costs), or make one with "
        "tpu_compiler/unit_costs.py fit; unset TESSERA_UNIT_COSTS for tessera's own");
  }
}

}  // namespace

const UnitCosts* unit_costs(const std::string& chip) {
  static const std::map<std::string, UnitCosts> all = [] {
    std::map<std::string, UnitCosts> read_ones;
    if (const char* const tried = std::getenv("TESSERA_UNIT_COSTS")) {
      UnitCosts c = read_tried(tried);
      const std::string name = c.chip;
      read_ones.emplace(name, std::move(c));
    }
    for (const EmbeddedUnitCosts& e : embedded_unit_costs()) {
      UnitCosts c = read(e.json);
      const std::string name = c.chip;
      read_ones.emplace(name, std::move(c));
    }
    return read_ones;
  }();
  const auto it = all.find(chip);
  return it == all.end() ? nullptr : &it->second;
}

}  // namespace tessera::program
