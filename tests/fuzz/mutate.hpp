// Changes of files that keep their structure in mind: values of other types and sizes, keys that
// are gone or have another name, what is nested a thousand deep, words of a module's text; then of
// their bytes.
#pragma once

#include <algorithm>
#include <cctype>
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

/// Text of a module, changed at a word of it: another number, type or name of the text's own, a
/// line that is gone, twice there or before the one above it.
inline void mutate_words(std::string& text, const Mutation& m) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%';
  };
  struct Word {
    std::size_t at, size;
  };
  std::vector<Word> words;
  std::vector<Word> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back({at, end - at});
    at = end;
  }
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) words.push_back({at, end - at});
    at = end + 1;
  }
  if (words.empty() || lines.size() < 2) return;
  const auto [at, size] = words[m.where % words.size()];
  const std::size_t below = 1 + m.where % (lines.size() - 1);
  const auto line = lines[below];
  const std::string whole = text.substr(line.at, line.size);
  switch (m.what % 6) {
    case 0: {
      const char* const numbers[] = {"0",
                                     "1",
                                     "-1",
                                     "2",
                                     "7",
                                     "128",
                                     "1000000",
                                     "2147483647",
                                     "4294967296",
                                     "9223372036854775807",
                                     "99999999999999999999"};
      text.replace(at, size, numbers[m.value % std::size(numbers)]);
      break;
    }
    case 1: {
      const char* const types[] = {"f32",       "i32", "bf16", "i1",   "i4",  "index",        "f64",
                                   "8x128xf32", "i64", "vmem", "smem", "any", "semaphore_mem"};
      text.replace(at, size, types[m.value % std::size(types)]);
      break;
    }
    case 2: {
      const auto other = words[m.value % words.size()];
      text.replace(at, size, text.substr(other.at, other.size));
      break;
    }
    case 3:
      text.erase(line.at, line.size);
      break;
    case 4:
      text.insert(line.at, whole);
      break;
    default:
      text.erase(line.at, line.size);
      text.insert(lines[below - 1].at, whole);
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
