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

/// The entry of an overlay that fits a key, the one for its very sizes first. What does not fit is
/// said in `why`.
const Entry* fitting(const Overlay& overlay, const Key& key, std::string& why) {
  const Entry* found = nullptr;
  for (const Entry& entry : overlay.entries) {
    if (!entry.key.operation.empty() && entry.key.operation != key.operation) continue;
    if (std::string no = misfit(entry.key, key); !no.empty()) {
      why += (why.empty() ? "" : ", ") + text_of(entry.configuration) + " " + no;
    } else if (found == nullptr || entry.key.sizes == key.sizes) {
      found = &entry;
    }
  }
  return found;
}

bool ask_overlays(const Question& q, Answer& answer) {
  std::string why = q.overlays.empty() ? "there is none" : "";
  for (auto overlay = q.overlays.rbegin(); overlay != q.overlays.rend(); ++overlay) {
    std::string here;
    const Entry* entry = fitting(**overlay, q.key, here);
    if (entry == nullptr && q.else_key) {
      std::string not_predicted;
      entry = fitting(**overlay, *q.else_key, not_predicted);
    }
    if (entry != nullptr) {
      const std::string no = refusal(q, entry->configuration);
      if (no.empty()) {
        answer_with(answer, Tier::overlay, entry->configuration, entry->seconds,
                    (*overlay)->origin);
        return true;
      }
      here = text_of(entry->configuration) + " cannot serve: " + no;
    }
    if (here.empty()) here = "nothing for " + q.key.operation;
    why += (why.empty() ? "" : "; ") + (*overlay)->origin + ": " + here;
  }
  answer.said.push_back({Tier::overlay, why});
  return false;
}

/// " on h100", where a question has two devices.
std::string on_device(const Key& key, const Question& question) {
  return question.else_key ? " on " + key.device : "";
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

void Configurations::remember(const Question& q, const Answer& answer) {
  const std::lock_guard lock(mutex_);
  memory_.insert_or_assign(q.key, Known{answer.configuration, answer.seconds});
}

bool Configurations::ask_store(const Key& key, const Question& q, Answer& answer) {
  std::string why;
  try {
    if (std::optional<Entry> entry = store().find(key)) {
      why = refusal(q, entry->configuration);
      if (why.empty()) {
        answer_with(
            answer, Tier::persistent, std::move(entry->configuration), entry->seconds,
            fmt::format("the fastest of {} candidates, {}, for {}{}; in {}", entry->candidates,
                        entry->how, entry->key.sizes, on_device(key, q), path_));
        return true;
      }
      why = fmt::format("{}, chosen for {}, cannot serve: {}", text_of(entry->configuration),
                        entry->key.sizes, why);
    } else {
      why = fmt::format("nothing for {}{} in {}", key.shapes, on_device(key, q), path_);
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
  if (ask_store(q.key, q, answer)) {
    remember(q, answer);
    return answer;
  }
  if (!q.autotune) {
    answer.said.push_back({Tier::autotune, q.no_autotune});
  } else if (std::optional<Entry> entry = q.autotune()) {
    const std::string what =
        fmt::format("the fastest of {} candidates, {}", entry->candidates, entry->how);
    answer_with(answer, Tier::autotune, std::move(entry->configuration), entry->seconds, what);
    remember(q, answer);
    return answer;
  } else {
    answer.said.push_back({Tier::autotune, "no candidate runs"});
  }
  // Another key's choice and a default are not remembered: somebody may tune meanwhile.
  if (q.else_key && ask_store(*q.else_key, q, answer)) return answer;
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
