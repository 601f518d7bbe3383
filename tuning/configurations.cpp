#include "tuning/configurations.hpp"

#include <fmt/format.h>

#include <functional>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::tuning {

const char* name(Tier tier) {
  switch (tier) {
    case Tier::given:
      return "explicit";
    case Tier::overlay:
      return "overlay";
    case Tier::memory:
      return "memory";
    case Tier::persistent:
      return "persistent";
    case Tier::autotune:
      return "autotune";
    case Tier::heuristic:
      break;
  }
  return "heuristic";
}

namespace {

std::string refusal(const Question& question, const Configuration& configuration) {
  return question.why_not ? question.why_not(configuration) : "";
}

void answer_with(Answer& answer, Tier tier, Configuration configuration, double seconds,
                 std::string what) {
  answer.tier = tier;
  answer.configuration = std::move(configuration);
  answer.seconds = seconds;
  answer.said.push_back({tier, std::move(what)});
}

/// What of an entry's key is not as asked, sizes apart; "" if it fits.
std::string misfit(const Key& entry, const Key& key) {
  const auto differs = [](const std::string& a, const std::string& b) {
    return !a.empty() && a != b;
  };
  if (differs(entry.device, key.device)) return "is for " + entry.device;
  if (differs(entry.dtype, key.dtype)) return "is for " + entry.dtype;
  if (differs(entry.mesh, key.mesh)) return "is for a mesh of " + entry.mesh;
  if (differs(entry.shapes, key.shapes)) return "is for " + entry.shapes;
  if (differs(entry.fingerprint, key.fingerprint))
    return "was chosen for another version of the kernel, the device or tessera";
  return "";
}

bool ask_overlays(const Question& q, Answer& answer) {
  std::string why = q.overlays.empty() ? "there is none" : "";
  for (auto overlay = q.overlays.rbegin(); overlay != q.overlays.rend(); ++overlay) {
    std::string here;
    const Entry* fitting = nullptr;
    for (const Entry& entry : (*overlay)->entries) {
      if (!entry.key.operation.empty() && entry.key.operation != q.key.operation) continue;
      if (std::string no = misfit(entry.key, q.key); !no.empty()) {
        here = (here.empty() ? "" : here + ", ") + text_of(entry.configuration) + " " + no;
      } else if (fitting == nullptr || entry.key.sizes == q.key.sizes) {
        fitting = &entry;
      }
    }
    if (fitting != nullptr) {
      const std::string no = refusal(q, fitting->configuration);
      if (no.empty()) {
        answer_with(answer, Tier::overlay, fitting->configuration, fitting->seconds,
                    (*overlay)->origin);
        return true;
      }
      here = text_of(fitting->configuration) + " cannot serve: " + no;
    }
    if (here.empty()) here = "nothing for " + q.key.operation;
    why += (why.empty() ? "" : "; ") + (*overlay)->origin + ": " + here;
  }
  answer.said.push_back({Tier::overlay, why});
  return false;
}

}  // namespace

std::size_t Configurations::Hash::operator()(const Key& key) const {
  std::size_t hash = 0;
  constexpr std::size_t kGolden = 0x9e3779b97f4a7c15;
  for (const std::string* part :
       {&key.operation, &key.device, &key.fingerprint, &key.sizes, &key.dtype, &key.mesh})
    hash = (hash ^ std::hash<std::string>()(*part)) * kGolden;
  return hash;
}

Store& Configurations::store() {
  const std::lock_guard lock(mutex_);
  if (!store_) store_ = std::make_unique<Store>(path_);
  return *store_;
}

void Configurations::forget() {
  const std::lock_guard lock(mutex_);
  memory_.clear();
}

std::optional<Configurations::Known> Configurations::remembered(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(key);
  if (found == memory_.end()) return std::nullopt;
  return found->second;
}

bool Configurations::ask_store(const Question& q, Answer& answer) {
  std::string why;
  try {
    if (std::optional<Entry> entry = store().find(q.key)) {
      why = refusal(q, entry->configuration);
      if (why.empty()) {
        answer_with(answer, Tier::persistent, std::move(entry->configuration), entry->seconds,
                    fmt::format("the fastest of {} candidates, {}, for {}; in {}",
                                entry->candidates, entry->how, entry->key.sizes, path_));
        return true;
      }
      why = fmt::format("{}, chosen for {}, cannot serve: {}", text_of(entry->configuration),
                        entry->key.sizes, why);
    } else {
      why = "nothing for " + q.key.shapes + " in " + path_;
    }
  } catch (const InputError& error) {  // a cache that is damaged keeps nobody from running
    why = error.what();
  }
  answer.said.push_back({Tier::persistent, why});
  return false;
}

Answer Configurations::resolve(const Question& q) {
  Answer answer;
  if (!q.given.empty()) {
    answer_with(answer, Tier::given, q.given, 0, "given");
    return answer;
  }
  answer.said.push_back({Tier::given, "none given"});
  if (ask_overlays(q, answer)) return answer;
  if (std::optional<Known> known = remembered(q.key)) {
    answer_with(answer, Tier::memory, std::move(known->configuration), known->seconds,
                "answered before");
    return answer;
  }
  answer.said.push_back({Tier::memory, "not asked before"});
  const auto remember = [&] {
    const std::lock_guard lock(mutex_);
    memory_.insert_or_assign(q.key, Known{answer.configuration, answer.seconds});
  };
  if (ask_store(q, answer)) {
    remember();
    return answer;
  }
  if (!q.autotune) {
    answer.said.push_back({Tier::autotune, q.no_autotune});
  } else if (std::optional<Entry> entry = q.autotune()) {
    const std::string what =
        fmt::format("the fastest of {} candidates, {}", entry->candidates, entry->how);
    answer_with(answer, Tier::autotune, std::move(entry->configuration), entry->seconds, what);
    remember();
    return answer;
  } else {
    answer.said.push_back({Tier::autotune, "no candidate runs"});
  }
  // A default is not remembered: somebody may tune meanwhile.
  std::string why = q.no_heuristic;
  if (std::optional<Configuration> fallback = q.heuristic ? q.heuristic() : std::nullopt) {
    why = refusal(q, *fallback);
    if (why.empty()) {
      answer_with(answer, Tier::heuristic, std::move(*fallback), 0, "the default");
      return answer;
    }
    why = text_of(*fallback) + ", the default, cannot serve: " + why;
  }
  answer.said.push_back({Tier::heuristic, why});
  std::string all;
  for (const Said& said : answer.said)
    all += fmt::format("\n  {:<10} {}", name(said.tier), said.what);
  throw InputError("no-configuration",
                   fmt::format("no tier has a configuration of {} for {} {} on {}{}",
                               q.key.operation, q.key.sizes, q.key.dtype, q.key.device, all),
                   "give one by name, or tune");
}

}  // namespace tessera::tuning
