#include "pallas/extract.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tessera::pallas {

namespace {

using Json = nlohmann::json;

/// RFC 4648; "" if the text is none.
std::string decode_base64(const std::string& text) {
  std::array<int, 256> digit{};
  digit.fill(-1);
  int next = 0;
  for (const char c :
       std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
    digit[static_cast<unsigned char>(c)] = next++;
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int d = digit[static_cast<unsigned char>(c)];
    if (d < 0) return "";
    bits = bits << 6 | static_cast<unsigned>(d);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xff);
  }
  return bytes;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The JSON object that begins at `at`, as it stands in a string of MLIR's text (`escaped`: \22 or
/// \" is a quote) or of its bytecode.
std::string object_at(const std::string& program, std::size_t at, bool escaped) {
  std::string object;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = at; i < program.size(); ++i) {
    char c = program[i];
    if (escaped && c == '\\' && i + 1 < program.size()) {
      if (i + 2 < program.size() && hex(program[i + 1]) >= 0 && hex(program[i + 2]) >= 0) {
        c = static_cast<char>(hex(program[i + 1]) * 16 + hex(program[i + 2]));
        i += 2;
      } else {
        c = program[++i];
      }
    } else if (escaped && c == '"') {
      return "";  // the end of MLIR's string
    }
    object += c;
    if (in_string && c == '\\' && i + 1 < program.size() && !escaped) {
      object += program[++i];
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) return object;
    }
  }
  return "";
}

}  // namespace

std::vector<ExtractedKernel> extract_kernels(const std::string& program) {
  std::vector<ExtractedKernel> kernels;
  const std::string key = "custom_call_config";
  for (std::size_t at = program.find(key); at != std::string::npos;
       at = program.find(key, at + key.size())) {
    const std::size_t brace = program.rfind('{', at);
    if (brace == std::string::npos || at - brace > 8) continue;
    const bool escaped = program[brace + 1] == '\\' || program.find('\\', brace) < at;
    const Json config = Json::parse(object_at(program, brace, escaped), nullptr, false);
    if (!config.is_object() || !config[key].is_object() || !config[key]["body"].is_string())
      continue;
    ExtractedKernel kernel;
    kernel.module = decode_base64(config[key]["body"].get<std::string>());
    if (kernel.module.empty()) continue;
    Json rest = config;
    rest[key].erase("body");
    kernel.config = rest.dump(1) + "\n";
    const auto same = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) {
      return k.module == kernel.module && k.config == kernel.config;
    });
    if (same == kernels.end())
      kernels.push_back(std::move(kernel));
    else
      ++same->calls;
  }
  return kernels;
}

}  // namespace tessera::pallas
