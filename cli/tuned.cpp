#include "cli/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/budget.hpp"
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
    count_point(count_of(kernel, base, {.by = "model"}), p);
    text += fmt::format("{} {} {} {} {} {:.6g} {}\n", i, p.read, p.write, p.vmem, p.flops,
                        p.rank_seconds, p.reason);
  }
  return text;
}

/// The time of its first case by the best model there is.
Point first_case(const KernelHandle& kernel, const Request& request) {
  Request base;
  base.dtype = request.dtype;
  base.options.cores = request.options.cores;
  Point p;
  p.device = request.device.origin;
  count_point(count_of(kernel, base, {}), p);
  return p;
}

bool ended(const std::string& reason) {
  return reason.starts_with("interrupted") || reason.starts_with("time-limit");
}

}  // namespace

TunedKernel::TunedKernel(const KernelHandle& kernel, Request request, const std::string& timing)
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
  const std::string by_rates = behaviour(kernel, request_);
  const auto fingerprint = [&](const std::string& behaves) {
    return tuning::fingerprint(request_.device.json, TESSERA_VERSION, behaves);
  };
  key_ = tuning::key_of(kernel.info.name, request_.device.name, fingerprint(by_rates), extents,
                        name(request_.dtype),
                        request_.devices > 0 ? request_.options.mesh : std::vector<int>{1});
  if (request_.options.cores > 1) key_.mesh += fmt::format(" of {} cores", request_.options.cores);
  if (timing == "model" || request_.device.kind != DeviceSpec::Kind::tpu) return;
  const Point p = first_case(kernel, request_);
  model_ = p.model;
  why_model_ = p.why_model;
  if (model_.empty() || !why_model_.empty()) return;
  rates_key_ = key_;
  key_.fingerprint = fingerprint(fmt::format("{}{} {:.6g}", by_rates, model_, p.rank_seconds));
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
  std::size_t slower = 0;
  std::string error = {};  ///< why it could not go on
};

Transport::Message packed(const Share& share) {
  nlohmann::json all = nlohmann::json::array();
  for (const tuning::Evaluated& e : share.evaluated)
    all.push_back({e.configuration, e.seconds, e.binds, e.reason});
  return nlohmann::json::to_cbor({all, share.known, share.left, share.slower, share.error});
}

Share unpacked(const Transport::Message& message) {
  const auto json = nlohmann::json::from_cbor(message);
  Share share{.known = json.at(1), .left = json.at(2), .slower = json.at(3), .error = json.at(4)};
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
    own.slower += share.slower;
    for (tuning::Evaluated& e : share.evaluated) {
      if (!store.candidate(key, e.configuration)) store.keep(key, e);
      own.evaluated.push_back(std::move(e));
    }
  }
  if (!own.error.empty()) throw InputError("tuning", own.error);
}

/// A rank's candidates, evaluated one way and kept under one key.
class Evaluation {
 public:
  Evaluation(const TunedKernel& tuned, tuning::Store& store, const Budget& budget, int threads)
      : tuned_(tuned), store_(store), budget_(budget), threads_(threads) {}

  /// By the plan's model, or published rates.
  Share by_model(std::vector<Point> points) {
    Share share;
    evaluate(tuned_.rates_key().value_or(tuned_.key()), {.by = "model"}, share, points,
             [](const Point&) { return false; });
    return share;
  }

  /// By units those of `by_rates` that can be faster than the fastest, and some more.
  Share by_units(const Share& by_rates) {
    std::vector<Point> points;
    std::map<tuning::Configuration, double> least;
    Share share;
    for (const tuning::Evaluated& e : by_rates.evaluated) {
      if (e.runs()) {
        points.push_back(point(e.configuration));
        least[e.configuration] = e.seconds;
      } else {
        if (store_.candidate(tuned_.key(), e.configuration))
          ++share.known;
        else
          store_.keep(tuned_.key(), e);
        share.evaluated.push_back(e);
      }
    }
    std::ranges::stable_sort(points, {}, [&](const Point& p) { return least.at(p.assignments); });
    evaluate(tuned_.key(), {}, share, points, [&](const Point& p) {
      constexpr std::size_t kSome = 32;  // of which a compiler may be asked about the first
      constexpr double kRates = 0.8;     // schedules have products faster than these
      return timed_ >= kSome && best_ < kRates * least.at(p.assignments);
    });
    share.left += by_rates.left;
    return share;
  }

  Point point(const tuning::Configuration& tiles) const {
    Point p;
    p.device = tuned_.request().device.origin;
    p.assignments = tiles;
    return p;
  }

 private:
  void evaluate(const tuning::Key& key, const Timing& timing, Share& share,
                std::vector<Point>& points, const std::function<bool(const Point&)>& slower) {
    const Count count = count_of(tuned_.kernel(), tuned_.request(), timing);
    const auto took = [&](tuning::Evaluated e) {
      if (e.runs()) {
        best_ = std::min(best_, e.seconds);
        ++timed_;
      }
      share.evaluated.push_back(std::move(e));
    };
    std::mutex mutex;
    const Count kept = [&](Point& p) {
      const tuning::Configuration tiles = p.assignments;
      auto before = store_.candidate(key, tiles);
      {
        const std::lock_guard lock(mutex);
        if (before) {
          ++share.known;
          return took(std::move(*before));
        }
        if (slower(p)) {
          ++share.slower;
          return;
        }
      }
      const bool ends = stop_flag() != Stop::none || budget_.past(1);
      if (!ends) {
        const auto& sizes = tuned_.request().assignments;
        p.assignments.insert(p.assignments.begin(), sizes.begin(), sizes.end());
        count_point(count, p);
      }
      if (ends || ended(p.reason)) {
        const std::lock_guard lock(mutex);
        ++share.left;
        return;
      }
      // The least that it can take is no time beside those of the others.
      if (p.runs() && !p.why_model.empty()) p.reason = "no-units: " + p.why_model;
      tuning::Evaluated evaluated{tiles, p.rank_seconds, p.seconds > 0 ? p.binds : "bytes alone",
                                  p.reason};
      store_.keep(key, evaluated);
      const std::lock_guard lock(mutex);
      took(std::move(evaluated));
    };
    best_ = std::numeric_limits<double>::max();
    timed_ = 0;
    count_all("tuning " + key.operation, kept, points, threads_);
  }

  const TunedKernel& tuned_;
  tuning::Store& store_;
  const Budget& budget_;
  int threads_;
  double best_ = 0;
  std::size_t timed_ = 0;
};

}  // namespace

Tuned autotune(const TunedKernel& tuned, tuning::Store& store, double budget, int threads,
               Transport* ranks) {
  const Budget limit(budget);
  Evaluation evaluation(tuned, store, limit, threads);
  Tuned done;
  std::vector<Point> points;
  std::set<tuning::Configuration> asked;
  const std::size_t rank = ranks != nullptr ? static_cast<std::size_t>(ranks->rank()) : 0;
  const std::size_t all = ranks != nullptr ? static_cast<std::size_t>(ranks->ranks()) : 1;
  for (auto& tiles : tuned.candidates()) {
    if (done.candidates++ % all == rank) points.push_back(evaluation.point(tiles));
    asked.insert(std::move(tiles));
  }
  Share share;
  try {
    share = evaluation.by_model(std::move(points));
    if (tuned.rates_key()) share = evaluation.by_units(share);
  } catch (const InputError& error) {
    if (ranks == nullptr) throw;
    share.error = error.what();  // the others wait for this one
  }
  if (ranks != nullptr) gather(tuned.key(), store, share, *ranks);
  done.known = share.known;
  done.left = share.left;
  done.slower = share.slower;
  done.refused = static_cast<std::size_t>(
      std::ranges::count_if(share.evaluated, [](const auto& e) { return !e.runs(); }));
  if (rank > 0) return done;
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
