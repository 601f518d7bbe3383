#include "tuning/key.hpp"

#include <fmt/format.h>

#include <cmath>

#include "golden/sha256.hpp"

namespace tessera::tuning {

std::string text_of(const Configuration& configuration) {
  std::string text;
  for (const auto& [name, value] : configuration) {
    if (!text.empty()) text += ' ';
    text += name + '=' + value;
  }
  return text;
}

double bucket(double extent) {
  constexpr double kAlone = 256;
  constexpr int kPartsOfAnOctave = 8;
  if (extent <= kAlone || extent != std::floor(extent)) return extent;
  // A power of two ends the octave below it.
  const double part = std::exp2(std::ceil(std::log2(extent)) - 1) / kPartsOfAnOctave;
  return std::ceil(extent / part) * part;
}

Key key_of(std::string operation, std::string device, std::string fingerprint, const Sizes& sizes,
           std::string dtype, const std::vector<int>& mesh) {
  Key key{.operation = std::move(operation),
          .device = std::move(device),
          .fingerprint = std::move(fingerprint),
          .dtype = std::move(dtype)};
  for (const auto& [name, value] : sizes) {
    const char* const space = key.sizes.empty() ? "" : " ";
    fmt::format_to(std::back_inserter(key.sizes), "{}{}={}", space, name, value);
    fmt::format_to(std::back_inserter(key.shapes), "{}{}={}", space, name, bucket(value));
  }
  for (const int extent : mesh) {
    if (!key.mesh.empty()) key.mesh += 'x';
    key.mesh += std::to_string(extent);
  }
  return key;
}

std::string fingerprint(std::string_view device_file, std::string_view version,
                        std::string_view operation) {
  std::string all;
  for (const std::string_view part : {device_file, version, operation})
    all += std::to_string(part.size()) + ':' + std::string(part);
  constexpr std::size_t kDigits = 16;
  return golden::sha256(all.data(), all.size()).substr(0, kDigits);
}

}  // namespace tessera::tuning
