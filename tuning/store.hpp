// The persistent cache: what candidates came to, and which was chosen, in an SQLite file.
//
// Any number of processes and threads may use one file, and any may be killed at any time: a
// candidate or a choice is there whole or not at all, and what was kept stays. (The file is in WAL
// mode, synchronous=NORMAL: a loss of power may take the last moments' entries. WAL does not work
// on network file systems.) A choice is made from the candidates in the file, in one transaction:
// of two tuners the later one knows what both found. A file of an older schema becomes one of this
// one's when it is opened; one of a newer tessera's is refused.
//
// Exported as JSON (tessera.tuning/1) choices can be checked in beside a model, and imported
// elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tuning/key.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace tessera::tuning {

/// What a candidate came to.
struct Evaluated {
  Configuration configuration;
  double seconds = 0;  ///< what candidates are ranked by
  std::string binds;
  std::string reason;   ///< why it cannot run; empty: it can
  double interval = 0;  ///< measured: half the width of the 95 % confidence interval, in seconds

  bool runs() const { return reason.empty(); }
  bool operator==(const Evaluated&) const = default;
};

/// A choice: the fastest of so many candidates.
struct Entry {
  Key key;
  Configuration configuration = {};
  double seconds = 0;
  std::string how = {};  ///< "predicted", "measured, with 95 % confidence"
  std::int64_t candidates = 0;

  bool operator==(const Entry&) const = default;
};

class Store {
 public:
  /// Makes the file and its folder if there are none. Throws InputError.
  explicit Store(std::string path);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  const std::string& path() const { return path_; }

  /// The choice for these very sizes, else the latest for their bucket.
  std::optional<Entry> find(const Key& key) const;
  /// Chooses among the candidates that are kept; none if none of them runs.
  std::optional<Entry> choose(const Key& key, const std::string& how);

  /// Of these very sizes, the fastest first, then what does not run.
  std::vector<Evaluated> candidates(const Key& key) const;
  std::optional<Evaluated> candidate(const Key& key, const Configuration& configuration) const;
  void keep(const Key& key, const Evaluated& candidate);

  /// Every choice, of one operation if it is named, as tessera.tuning/1.
  std::string exported(const std::string& operation = "") const;
  /// Takes the choices of such a text; how many. Throws InputError naming `origin`.
  std::size_t import(const std::string& json, const std::string& origin);

 private:
  class Statement;
  struct Closer {
    void operator()(sqlite3* database) const;
  };
  void set_up();
  void run(const char* sql) const;
  void keep(const Entry& entry) const;
  /// Of a row; what is none fails.
  Configuration configuration(const std::string& text) const;
  [[noreturn]] void fail() const;
  [[noreturn]] void fail(const std::string& why) const;

  std::string path_;
  std::unique_ptr<sqlite3, Closer> database_;
  mutable std::mutex mutex_;
};

/// The choices of a tessera.tuning/1 text. Throws InputError naming `origin`.
std::vector<Entry> entries_of(const std::string& json, const std::string& origin);

/// $TESSERA_TUNING_CACHE, else tuning/cache.sqlite in the user's cache.
std::string default_store();

}  // namespace tessera::tuning
