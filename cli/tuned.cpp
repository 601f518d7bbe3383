#include "cli/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/points.hpp"
#include "cli/signals.hpp"
#include "memory_model/file.hpp"

namespace tessera::cli {

namespace {

/// What the model says of a kernel's cases: it changes whenever the kernel's spec, its body's work
/// or the model does.
std::string behaviour(const KernelHandle& kernel, const Request& request) {
  Request base;
  base.dtype = request.dtype;
  base.options.cores = request.options.cores;
  std::string text;
  for (std::size_t i = 0; i < kernel.cases.size(); ++i) {
    base.case_index = static_cast<int>(i);
    Point p;
    p.device = request.device.origin;
    count_point(count_of(kernel, base), p);
    text += fmt::format("{} {} {} {} {} {:.6g} {}\n", i, p.read, p.write, p.vmem, p.flops,
                        p.rank_seconds, p.reason);
  }
  return text;
}

bool ended(const std::string& reason) {
  return reason.starts_with("interrupted") || reason.starts_with("time-limit");
}

}  // namespace

TunedKernel::TunedKernel(const KernelHandle& kernel, Request request)
    : kernel_(kernel), request_(std::move(request)) {
  request_.backend.reset();
  const KernelFacts facts = kernel.make.front()()->facts();
  const auto is_tile = [&](const std::string& name) {
    return std::ranges::any_of(facts.tiles, [&](const TileParam& t) { return name == t.name; });
  };
  std::vector<std::pair<std::string, std::string>> sizes;
  for (auto& assignment : request_.assignments)
    (is_tile(assignment.first) ? given_ : sizes).push_back(std::move(assignment));
  request_.assignments = std::move(sizes);
  const Setting setting = setting_of(kernel, request_);
  tuning::Sizes extents;
  for (const Parameter& s : setting.sizes) {
    extents.emplace_back(s.name, s.value);
    largest_ = std::max(largest_, s.value);
  }
  for (const auto& [name, value] : setting.tiles)
    fallback_.emplace_back(name, std::to_string(value));
  for (const TileParam& t : facts.tiles) follows_.emplace_back(t.follows ? t.follows : "");
  key_ = tuning::key_of(
      kernel.info.name, request_.device.name,
      tuning::fingerprint(request_.device.json, TESSERA_VERSION, behaviour(kernel, request_)),
      extents, name(request_.dtype),
      request_.devices > 0 ? request_.options.mesh : std::vector<int>{1});
  if (request_.options.cores > 1) key_.mesh += fmt::format(" of {} cores", request_.options.cores);
}

std::string TunedKernel::title() const {
  return fmt::format("{} {} {} on {}", key_.operation, key_.dtype, key_.sizes, key_.device);
}

Request TunedKernel::with(const tuning::Configuration& tiles) const {
  Request request = request_;
  request.assignments.insert(request.assignments.end(), tiles.begin(), tiles.end());
  return request;
}

std::string TunedKernel::why_not(const tuning::Configuration& tiles) const {
  try {
    Plan plan = kernel_.describe(with(tiles)).plan;
    finish_plan(plan);
    return over_limit(plan);
  } catch (const InputError& error) {
    return error.what();
  } catch (const KernelError& error) {
    return error.diagnostic.headline;
  }
}

std::vector<tuning::Configuration> TunedKernel::candidates() const {
  constexpr int kSmaller = 4;  // than the tile of the case
  constexpr int kLarger = 16;
  tuning::Configuration values;  // of each tile, at commas
  for (std::size_t i = 0; i < fallback_.size(); ++i) {
    const auto& [tile, text] = fallback_[i];
    const auto given = std::ranges::find(given_, tile, &std::pair<std::string, std::string>::first);
    values.emplace_back(tile, given != given_.end() ? given->second : text);
    if (given != given_.end() || !follows_[i].empty()) continue;
    const int extent = std::stoi(text);
    const double most =
        std::min<double>(std::int64_t{extent} * kLarger, std::exp2(std::ceil(std::log2(largest_))));
    for (std::int64_t power = 1; static_cast<double>(power) <= most; power *= 2) {
      for (const std::int64_t value : {power, power + power / 2}) {
        if (value == extent || static_cast<double>(value) > most || value < extent / kSmaller ||
            (power == 1 && value > power))
          continue;
        values.back().second += fmt::format(",{}", value);
      }
    }
  }
  std::vector<std::string> varied;
  struct Candidate {
    tuning::Configuration tiles;
    double bytes = std::numeric_limits<double>::max();  // of what cannot run
  };
  std::vector<Candidate> candidates;
  for (const Point& p : combinations(values, varied)) {
    Candidate& c = candidates.emplace_back(Candidate{p.assignments});
    try {
      if (const auto moved = kernel_.describe(with(c.tiles)).closed_form)
        c.bytes = static_cast<double>(moved->read + moved->write + moved->remote);
    } catch (const InputError&) {
    } catch (const KernelError&) {
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::bytes);
  std::vector<tuning::Configuration> tiles;
  for (Candidate& c : candidates) tiles.push_back(std::move(c.tiles));
  return tiles;
}

namespace {

/// What a rank found.
struct Share {
  std::vector<tuning::Evaluated> evaluated = {};
  std::size_t known = 0;
  std::size_t left = 0;
  std::string error = {};  ///< why it could not go on
};

Transport::Message packed(const Share& share) {
  nlohmann::json all = nlohmann::json::array();
  for (const tuning::Evaluated& e : share.evaluated)
    all.push_back({e.configuration, e.seconds, e.binds, e.reason});
  return nlohmann::json::to_cbor({all, share.known, share.left, share.error});
}

Share unpacked(const Transport::Message& message) {
  const auto json = nlohmann::json::from_cbor(message);
  Share share{.known = json.at(1), .left = json.at(2), .error = json.at(3)};
  for (const auto& e : json.at(0)) {
    tuning::Evaluated& evaluated = share.evaluated.emplace_back();
    evaluated.configuration = e.at(0).get<tuning::Configuration>();
    evaluated.seconds = e.at(1);
    evaluated.binds = e.at(2);
    evaluated.reason = e.at(3);
  }
  return share;
}

/// Rank 0 gets what the others found into its store and its sums. Throws InputError if one of them
/// could not go on.
void gather(const tuning::Key& key, tuning::Store& store, Share& own, Transport& ranks) {
  std::vector<Transport::Message> outgoing(static_cast<std::size_t>(ranks.ranks()));
  outgoing[0] = packed(own);
  const std::vector<Transport::Message> arrived = ranks.exchange(std::move(outgoing));
  for (std::size_t r = 1; ranks.rank() == 0 && r < arrived.size(); ++r) {
    Share share = unpacked(arrived[r]);
    if (own.error.empty()) own.error = share.error;
    own.known += share.known;
    own.left += share.left;
    for (tuning::Evaluated& e : share.evaluated) {
      if (!store.candidate(key, e.configuration)) store.keep(key, e);
      own.evaluated.push_back(std::move(e));
    }
  }
  if (!own.error.empty()) throw InputError("tuning", own.error);
}

}  // namespace

Tuned autotune(const TunedKernel& tuned, tuning::Store& store, double budget, int threads,
               Transport* ranks) {
  const auto start = std::chrono::steady_clock::now();
  Tuned done;
  std::vector<Point> points;
  std::set<tuning::Configuration> asked;
  for (auto& tiles : tuned.candidates()) {
    Point& p = points.emplace_back();
    p.device = tuned.request().device.origin;
    p.assignments = *asked.insert(std::move(tiles)).first;
  }
  done.candidates = points.size();
  const Count count = count_of(tuned.kernel(), tuned.request());
  Share share;
  std::mutex mutex;
  const Count kept = [&](Point& p) {
    if (auto before = store.candidate(tuned.key(), p.assignments)) {
      const std::lock_guard lock(mutex);
      ++share.known;
      share.evaluated.push_back(std::move(*before));
      return;
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const bool ends = stop_flag() != Stop::none || (budget > 0 && spent.count() > budget);
    const tuning::Configuration tiles = p.assignments;
    if (!ends) {
      const auto& sizes = tuned.request().assignments;
      p.assignments.insert(p.assignments.begin(), sizes.begin(), sizes.end());
      count_point(count, p);
    }
    if (ends || ended(p.reason)) {
      const std::lock_guard lock(mutex);
      ++share.left;
      return;
    }
    tuning::Evaluated evaluated{tiles, p.rank_seconds, p.seconds > 0 ? p.binds : "bytes alone",
                                p.reason};
    store.keep(tuned.key(), evaluated);
    const std::lock_guard lock(mutex);
    share.evaluated.push_back(std::move(evaluated));
  };
  if (ranks == nullptr) {
    count_all("tuning " + tuned.key().operation, kept, points, threads);
  } else {
    std::vector<Point> own;
    for (auto i = static_cast<std::size_t>(ranks->rank()); i < points.size();
         i += static_cast<std::size_t>(ranks->ranks()))
      own.push_back(std::move(points[i]));
    try {
      count_all("tuning " + tuned.key().operation, kept, own, threads);
    } catch (const InputError& error) {  // the others wait for this one
      share.error = error.what();
    }
    gather(tuned.key(), store, share, *ranks);
  }
  done.known = share.known;
  done.left = share.left;
  done.refused = static_cast<std::size_t>(
      std::ranges::count_if(share.evaluated, [](const auto& e) { return !e.runs(); }));
  if (ranks != nullptr && ranks->rank() > 0) return done;
  done.entry = store.choose(tuned.key(), "predicted");
  for (auto& e : store.candidates(tuned.key()))
    if (e.runs() && asked.contains(e.configuration)) done.ranked.push_back(std::move(e));
  return done;
}

std::string store_of(const RunArguments& a) {
  return a.cache.empty() ? tuning::default_store() : a.cache;
}

tuning::Answer resolve(const TunedKernel& tuned, const RunArguments& a,
                       const std::optional<Judge>& judge) {
  constexpr std::size_t kLargestFile = std::size_t{1} << 24;
  std::vector<tuning::Overlay> overlays;
  for (const std::string& file : a.overlays)
    overlays.push_back({file, tuning::entries_of(read_file(file, kLargestFile), file)});
  tuning::Question question{.key = tuned.key(), .given = tuned.given()};
  if (judge) {
    question.else_key = tuned.key();
    question.key = judge->key;
  }
  for (const tuning::Overlay& overlay : overlays) question.overlays.push_back(&overlay);
  question.why_not = [&](const tuning::Configuration& tiles) { return tuned.why_not(tiles); };
  tuning::Configurations configurations(store_of(a));
  if (a.budget > 0) {
    question.autotune = [&] {
      tuning::Store& store = configurations.store();
      if (judge) return judge->tune(store);
      return autotune(tuned, store, a.budget, threads_of(a)).entry;
    };
  } else {
    question.no_autotune = "not asked for: --budget 10s";
  }
  if (tuned.fallback().empty())
    question.no_heuristic = tuned.key().operation + " has no tiles";
  else
    question.heuristic = [&] { return std::optional(tuned.fallback()); };
  return configurations.resolve(question);
}

report::Choice choice_of(const tuning::Answer& answer) {
  report::Choice choice{name(answer.tier), {}};
  for (const tuning::Said& said : answer.said) choice.said.emplace_back(name(said.tier), said.what);
  return choice;
}

}  // namespace tessera::cli
