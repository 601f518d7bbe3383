// What the processes of a mesh counted and made, put together on rank 0.
#include "sim/machine/messages.hpp"
#include "sim/pipeline/run_driver.hpp"

namespace tessera {

namespace {

Json counts_of(const Ledger& ledger) {
  Json refs = Json::array();
  for (const RefTotals& ref : ledger.refs()) {
    Json counts = Json::array();
    for (const auto member : Ledger::kCounts) counts.push_back(ref.*member);
    refs.push_back(std::move(counts));
  }
  Json links = Json::array();
  for (const auto& [link, bytes] : ledger.links())
    links.push_back({link.first, link.second, bytes});
  return {{"refs", refs}, {"links", links}};
}

void add_counts(const Json& j, Ledger& ledger) {
  for (std::size_t i = 0; i < ledger.refs().size(); ++i) {
    RefTotals totals;
    for (std::size_t m = 0; m < Ledger::kCounts.size(); ++m) {
      totals.*Ledger::kCounts[m] = j.at("refs").at(i).at(m).get<std::int64_t>();
    }
    ledger.add_totals(i, totals);
  }
  for (const Json& link : j.at("links")) ledger.add_link(link.at(0), link.at(1), link.at(2));
}

}  // namespace

void RunDriver::merge_ranks(RunResult& result) {
  Transport& transport = *options_.transport;
  Json mine{{"steps", result.steps},
            {"flops", result.flops},
            {"transcendentals", result.transcendentals},
            {"switches", result.switches},
            {"grid", result.grid},
            {"ledger", counts_of(result.plan.ledger)},
            {"scopes", Json::array()},
            {"outputs", Json::array()}};
  for (const auto& [region, t] : result.scopes) {
    mine["scopes"].push_back({region, t.entries, t.flops, t.transcendentals});
  }
  // A shard of each output for every device that is here.
  for (int d = 0; d < devices_ && transport.rank() > 0; ++d) {
    if (!here(d)) continue;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const std::int64_t bytes = outputs_[o].size_bytes() / devices_;
      const auto* first = reinterpret_cast<const std::uint8_t*>(outputs_[o].bytes()) + d * bytes;
      mine["outputs"].push_back(
          {o, d, Json::binary(std::vector<std::uint8_t>(first, first + bytes))});
    }
  }
  const Json failure = result.ok() ? Json(nullptr) : to_json(result.diagnostics[0]);
  std::vector<Transport::Message> outgoing;
  for (int r = 0; r < transport.ranks(); ++r) {
    Json j{{"failure", failure}};
    if (r == 0 && transport.rank() > 0) j["part"] = mine;
    outgoing.push_back(Json::to_cbor(j));
  }
  result.diagnostics.clear();
  for (const auto& message : transport.exchange(std::move(outgoing))) {
    const Json j = Json::from_cbor(message);
    if (!j.at("failure").is_null() && result.ok()) {
      result.diagnostics.push_back(diagnostic_from(j.at("failure")));
    }
    if (!j.contains("part")) continue;
    const Json& part = j.at("part");
    result.steps += part.at("steps").get<std::int64_t>();
    result.flops += part.at("flops").get<std::int64_t>();
    result.transcendentals += part.at("transcendentals").get<std::int64_t>();
    result.switches += part.at("switches").get<std::int64_t>();
    for (std::size_t i = 0; i < result.grid.size(); ++i) {
      result.grid[i] = std::max(result.grid[i], part.at("grid").at(i).get<int>());
    }
    add_counts(part.at("ledger"), result.plan.ledger);
    for (const Json& s : part.at("scopes")) {
      ScopeTotals& sum = result.scopes[s.at(0).get<std::string>()];
      sum.entries += s.at(1).get<std::int64_t>();
      sum.flops += s.at(2).get<std::int64_t>();
      sum.transcendentals += s.at(3).get<std::int64_t>();
    }
    for (const Json& shard : part.at("outputs")) {
      Array& output = outputs_[shard.at(0).get<std::size_t>()];
      const auto& bytes = shard.at(2).get_binary();
      std::memcpy(output.bytes() +
                      shard.at(1).get<std::int64_t>() * static_cast<std::int64_t>(bytes.size()),
                  bytes.data(), bytes.size());
    }
  }
}

}  // namespace tessera
