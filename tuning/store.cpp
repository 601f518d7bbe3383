#include "tuning/store.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::tuning {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 2;
constexpr auto kPatience = std::chrono::seconds(60);  // with a file that others write to

constexpr const char* kTables = R"(
CREATE TABLE candidates(
  operation TEXT, device TEXT, fingerprint TEXT, sizes TEXT, dtype TEXT, mesh TEXT,
  configuration TEXT, seconds REAL NOT NULL, binds TEXT NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY(operation, device, fingerprint, sizes, dtype, mesh, configuration)) WITHOUT ROWID;
CREATE TABLE choices(
  operation TEXT, device TEXT, fingerprint TEXT, sizes TEXT, shapes TEXT, dtype TEXT, mesh TEXT,
  configuration TEXT NOT NULL, seconds REAL NOT NULL, how TEXT NOT NULL, candidates INTEGER NOT NULL,
  UNIQUE(operation, device, fingerprint, sizes, dtype, mesh));
CREATE INDEX buckets ON choices(operation, device, fingerprint, shapes, dtype, mesh);
)";
/// Of schema 1, which knew predictions alone: what else is in schema 2.
constexpr const char* kMeasured =
    "ALTER TABLE candidates ADD COLUMN interval REAL NOT NULL DEFAULT 0";

std::string packed(const Configuration& configuration) {
  Json object = Json::object();
  for (const auto& [name, value] : configuration) object[name] = value;
  return object.dump();
}

Configuration configuration_of(const Json& object) {
  Configuration configuration;
  for (const auto& [name, value] : object.items())
    configuration.emplace_back(name, value.get<std::string>());
  return configuration;
}

}  // namespace

/// One statement of one call.
class Store::Statement {
 public:
  Statement(const Store& store, const char* sql) : store_(store) {
    if (sqlite3_prepare_v2(store.database_.get(), sql, -1, &statement_, nullptr) != SQLITE_OK)
      store.fail();
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(const std::string& text) {
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(double value) {
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
  }
  Statement& bind(std::int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  /// What a key says of candidates.
  Statement& bind_sizes(const Key& k) {
    return bind(k.operation)
        .bind(k.device)
        .bind(k.fingerprint)
        .bind(k.sizes)
        .bind(k.dtype)
        .bind(k.mesh);
  }
  /// True if there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) store_.fail();
    return code == SQLITE_ROW;
  }
  /// The file is somebody else's: it may be damaged.
  std::string text(int column) const {
    const auto* const bytes =
        reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return printable({bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))});
  }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  std::int64_t whole(int column) const { return sqlite3_column_int64(statement_, column); }

 private:
  const Store& store_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

void Store::Closer::operator()(sqlite3* database) const { sqlite3_close(database); }

Store::Store(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const auto folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(path_.c_str(), &database,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) fail();
  sqlite3_busy_timeout(database, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
  set_up();
}

Store::~Store() = default;

void Store::set_up() {
  // Entering WAL mode asks for the whole file, and does not wait for it.
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (sqlite3_exec(database_.get(), "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr) !=
         SQLITE_OK) {
    const bool busy = sqlite3_errcode(database_.get()) == SQLITE_BUSY;
    if (!busy || std::chrono::steady_clock::now() > give_up) fail();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  run("PRAGMA synchronous=NORMAL");
  const auto schema = [this] {
    Statement version(*this, "PRAGMA user_version");
    version.step();
    return version.whole(0);
  };
  if (schema() < kSchema) {
    run("BEGIN IMMEDIATE");
    const std::int64_t before = schema();
    if (before == 0) run(kTables);
    if (before < 2) run(kMeasured);
    if (before < kSchema) run(fmt::format("PRAGMA user_version={}", kSchema).c_str());
    run("COMMIT");
  }
  if (schema() != kSchema) {
    throw InputError(
        "tuning-cache",
        fmt::format("{} has schema {}; this tessera reads {}", path_, schema(), kSchema),
        "TESSERA_TUNING_CACHE names another file");
  }
}

void Store::run(const char* sql) const {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void Store::fail() const { fail(database_ ? sqlite3_errmsg(database_.get()) : "out of memory"); }

void Store::fail(const std::string& why) const {
  if (database_) sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  throw InputError("tuning-cache", path_ + ": " + printable(why),
                   "TESSERA_TUNING_CACHE names another file; one that is damaged may be removed");
}

Configuration Store::configuration(const std::string& text) const {
  try {
    return configuration_of(Json::parse(text));
  } catch (const Json::exception&) {
    fail("a configuration that is none: " + text);
  }
}

std::optional<Entry> Store::find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  Statement row(
      *this,
      "SELECT sizes, configuration, seconds, how, candidates FROM choices "
      "WHERE operation=?1 AND device=?2 AND fingerprint=?3 AND shapes=?4 AND dtype=?5 AND "
      "mesh=?6 ORDER BY sizes=?7 DESC, rowid DESC LIMIT 1");
  row.bind(key.operation).bind(key.device).bind(key.fingerprint).bind(key.shapes).bind(key.dtype);
  row.bind(key.mesh).bind(key.sizes);
  if (!row.step()) return std::nullopt;
  Entry entry{key, configuration(row.text(1)), row.real(2), row.text(3), row.whole(4)};
  entry.key.sizes = row.text(0);
  return entry;
}

void Store::keep(const Entry& e) const {
  Statement row(*this, "INSERT OR REPLACE INTO choices VALUES(?,?,?,?,?,?,?,?,?,?,?)");
  const Key& k = e.key;
  row.bind(k.operation).bind(k.device).bind(k.fingerprint).bind(k.sizes).bind(k.shapes);
  row.bind(k.dtype).bind(k.mesh).bind(packed(e.configuration)).bind(e.seconds).bind(e.how);
  row.bind(e.candidates).step();
}

std::optional<Entry> Store::choose(const Key& key, const std::string& how) {
  const std::lock_guard lock(mutex_);
  run("BEGIN IMMEDIATE");
  std::optional<Entry> entry;
  {
    Statement best(
        *this,
        "SELECT configuration, seconds, (SELECT count(*) FROM candidates WHERE operation=?1 "
        "AND device=?2 AND fingerprint=?3 AND sizes=?4 AND dtype=?5 AND mesh=?6) "
        "FROM candidates WHERE operation=?1 AND device=?2 AND fingerprint=?3 AND sizes=?4 "
        "AND dtype=?5 AND mesh=?6 AND reason='' ORDER BY seconds, configuration LIMIT 1");
    if (best.bind_sizes(key).step())
      entry = Entry{key, configuration(best.text(0)), best.real(1), how, best.whole(2)};
  }
  if (entry) keep(*entry);
  run("COMMIT");
  return entry;
}

std::vector<Evaluated> Store::candidates(const Key& key) const {
  const std::lock_guard lock(mutex_);
  std::vector<Evaluated> all;
  Statement rows(*this,
                 "SELECT configuration, seconds, binds, reason, interval FROM candidates WHERE "
                 "operation=? AND "
                 "device=? AND fingerprint=? AND sizes=? AND dtype=? AND mesh=? "
                 "ORDER BY reason!='', seconds, configuration");
  rows.bind_sizes(key);
  while (rows.step())
    all.push_back(
        {configuration(rows.text(0)), rows.real(1), rows.text(2), rows.text(3), rows.real(4)});
  return all;
}

std::optional<Evaluated> Store::candidate(const Key& key,
                                          const Configuration& configuration) const {
  const std::lock_guard lock(mutex_);
  Statement row(
      *this,
      "SELECT seconds, binds, reason, interval FROM candidates WHERE operation=? AND device=? AND "
      "fingerprint=? AND sizes=? AND dtype=? AND mesh=? AND configuration=?");
  if (!row.bind_sizes(key).bind(packed(configuration)).step()) return std::nullopt;
  return Evaluated{configuration, row.real(0), row.text(1), row.text(2), row.real(3)};
}

void Store::keep(const Key& key, const Evaluated& c) {
  const std::lock_guard lock(mutex_);
  Statement row(*this, "INSERT OR REPLACE INTO candidates VALUES(?,?,?,?,?,?,?,?,?,?,?)");
  row.bind_sizes(key).bind(packed(c.configuration)).bind(c.seconds).bind(c.binds).bind(c.reason);
  row.bind(c.interval).step();
}

std::string Store::exported(const std::string& operation) const {
  const std::lock_guard lock(mutex_);
  Statement rows(
      *this,
      "SELECT operation, device, fingerprint, sizes, shapes, dtype, mesh, configuration, "
      "seconds, how, candidates FROM choices WHERE ?1='' OR operation=?1 "
      "ORDER BY operation, device, dtype, mesh, sizes, fingerprint");
  rows.bind(operation);
  Json choices = Json::array();
  constexpr const char* kNames[] = {"operation", "device", "fingerprint", "sizes",
                                    "shapes",    "dtype",  "mesh"};
  while (rows.step()) {
    Json row = Json::object();
    int column = 0;
    for (const char* const name : kNames) row[name] = rows.text(column++);
    row["configuration"] = Json::object();
    for (const auto& [name, value] : configuration(rows.text(column++)))
      row["configuration"][name] = value;
    row["seconds"] = rows.real(column++);
    row["how"] = rows.text(column++);
    row["candidates"] = rows.whole(column);
    choices.push_back(row);
  }
  const Json all{{"schema", "tessera.tuning/1"}, {"choices", choices}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<Entry> entries_of(const std::string& json, const std::string& origin) {
  std::vector<Entry> entries;
  try {
    const Json all = Json::parse(json);
    if (all.at("schema") != "tessera.tuning/1")
      throw InputError("bad-input",
                       origin + " is " + all.at("schema").dump() + ", not tessera.tuning/1");
    for (const Json& row : all.at("choices")) {
      const auto text = [&row](const char* name) { return row.at(name).get<std::string>(); };
      const Key key{text("operation"), text("device"), text("fingerprint"), text("sizes"),
                    text("shapes"),    text("dtype"),  text("mesh")};
      entries.push_back({key, configuration_of(row.at("configuration")),
                         row.at("seconds").get<double>(), text("how"),
                         row.at("candidates").get<std::int64_t>()});
    }
  } catch (const Json::exception& error) {
    throw InputError("bad-input", origin + ": " + printable(error.what()),
                     "tessera tune --export FILE writes such a file");
  }
  return entries;
}

std::size_t Store::import(const std::string& json, const std::string& origin) {
  const std::vector<Entry> entries = entries_of(json, origin);
  const std::lock_guard lock(mutex_);
  run("BEGIN IMMEDIATE");
  for (const Entry& entry : entries) keep(entry);
  run("COMMIT");
  return entries.size();
}

std::string default_store() {
  const char* const named = std::getenv("TESSERA_TUNING_CACHE");
  if (named != nullptr && *named != '\0') return named;
  return cache_folder("tuning") + "/cache.sqlite";
}

}  // namespace tessera::tuning
