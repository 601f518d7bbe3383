// Changes of files that keep their structure in mind: values of other types and sizes, keys that
// are gone or have another name, what is nested a thousand deep; then of their bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::fuzz {

using Json = nlohmann::ordered_json;

/// One change: where, of which kind, to what. Any three numbers are one.
struct Mutation {
  unsigned where = 0;
  unsigned what = 0;
  unsigned value = 0;
};

inline Json odd_value(unsigned n) {
  Json deep = 1;
  if (n % 24 == 0) {
    for (int i = 0; i < 1000; ++i) deep = Json::array({deep});
  }
  const Json values[] = {deep,
                         nullptr,
                         true,
                         0,
                         -1,
                         1,
                         3.5,
                         1e308,
                         -1e308,
                         1e-308,
                         2147483648,
                         -2147483649,
                         INT64_MAX,
                         INT64_MIN,
                         UINT64_MAX,
                         "",
                         "\x1b[31mred\x07\r",
                         "\xc2\x9b"
                         "2J",
                         std::string(100'000, 'x'),
                         "../../../../etc/hostname",
                         Json::array(),
                         Json::object(),
                         Json::array({1, "a", nullptr}),
                         Json{{"value", "x"}}};
  return values[n % std::size(values)];
}

/// All values in it, the whole first.
inline void values_of(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (!json.is_structured() || all.size() > 20'000) return;
  for (auto& each : json) values_of(each, all);
}

inline void mutate(Json& json, const Mutation& m) {
  std::vector<Json*> all;
  values_of(json, all);
  Json& at = *all[m.where % all.size()];
  switch (m.what % 5) {
    case 0:  // without a part of it
      if (at.is_structured() && !at.empty()) {
        auto part = at.begin();
        std::advance(part, m.value % at.size());
        at.erase(part);
      } else {
        at = nullptr;
      }
      break;
    case 1:
      if (at.is_number()) {
        const double factors[] = {0, -1, 1e-300, 1e-9, 1e9, 1e300};
        at = at.get<double>() * factors[m.value % std::size(factors)];
        break;
      }
      at = odd_value(m.value);
      break;
    case 2:  // more of the same
      if (at.is_array() && !at.empty()) {
        const Json first = at.front();
        for (unsigned i = 0; i < m.value % 2000; ++i) at.push_back(first);
      }
      break;
    case 3:
      if (at.is_object()) {
        at["another"] = odd_value(m.value);
        break;
      }
      at = odd_value(m.value);
      break;
    default:
      at = odd_value(m.value);
  }
}

/// Cut short, or with another byte or more of them.
inline void mutate(std::string& bytes, const Mutation& m) {
  if (bytes.empty()) return;
  const std::size_t at = m.where % bytes.size();
  switch (m.what % 4) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes[at] = static_cast<char>(m.value);
      break;
    case 2:
      bytes.insert(at, std::string(1 + m.value % 64, static_cast<char>(m.value >> 8)));
      break;
    default:
      bytes.erase(at, 1 + m.value % 16);
  }
}

}  // namespace tessera::fuzz
