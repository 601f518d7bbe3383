// Which configuration an operation takes: the first tier that answers.
//
//   explicit    what the caller gave
//   overlay     what a scope or a file says, the innermost first
//   memory      what this process has answered before
//   persistent  the cache of this machine (store.hpp), for these sizes or their bucket
//   autotune    candidates are evaluated now
//   heuristic   a default
//
// Each tier says what it answered, or why it did not: that is the receipt. Where none answers, the
// error has all of it. What came of a bucket, or of a file, is asked whether it can serve these
// sizes before it does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tuning/key.hpp"
#include "tuning/store.hpp"

namespace tessera::tuning {

enum class Tier : std::uint8_t { given, overlay, memory, persistent, autotune, heuristic };
const char* name(Tier tier);

struct Said {
  Tier tier;
  std::string what;
};

struct Answer {
  Configuration configuration;
  Tier tier = Tier::given;
  double seconds = 0;      ///< as it was ranked; 0: nobody knows
  std::vector<Said> said;  ///< by each tier that was asked; the last one answered
};

/// Configurations that hold in a scope. What is empty in an entry's key fits every key.
struct Overlay {
  std::string origin;  ///< a file, or what made it
  std::vector<Entry> entries;
};

struct Question {
  Key key;
  /// Whose choices serve where `key` has none and nothing is autotuned, as what was predicted for a
  /// device does till something is measured on it.
  std::optional<Key> else_key = {};
  Configuration given = {};
  std::vector<const Overlay*> overlays = {};  ///< the innermost last
  /// Why these sizes cannot have a configuration; "" if they can.
  std::function<std::string(const Configuration&)> why_not = {};
  std::function<std::optional<Entry>()> autotune = {};
  std::string no_autotune = "not asked for";  ///< why there is none
  std::function<std::optional<Configuration>()> heuristic = {};
  std::string no_heuristic = "there is none";
};

class Configurations {
 public:
  /// `store`: its file; opened when it is first asked.
  explicit Configurations(std::string store) : path_(std::move(store)) {}

  /// Throws InputError[no-configuration].
  Answer resolve(const Question& question);
  /// The persistent cache. Throws InputError.
  Store& store();
  /// Drops what this process remembers.
  void forget();

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Known {
    Configuration configuration;
    double seconds = 0;
  };
  std::optional<Known> remembered(const Key& key) const;
  bool ask_store(const Key& key, const Question& question, Answer& answer);
  /// Remembers what answered for the question's own key.
  void remember(const Question& question, const Answer& answer);

  std::string path_;
  std::unique_ptr<Store> store_;
  std::unordered_map<Key, Known, Hash> memory_;
  mutable std::mutex mutex_;
};

}  // namespace tessera::tuning
