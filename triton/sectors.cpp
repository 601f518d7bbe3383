#include "triton/sectors.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/diagnostics/diagnostic.hpp"
#include "triton/plan_kernel.hpp"

namespace tessera::triton {

namespace {

constexpr std::int64_t kSector = 32;

/// The element of a number's bits.
std::int64_t element_of(const std::vector<std::int64_t>& bases, std::size_t number) {
  std::int64_t element = 0;
  for (std::size_t b = 0; b < bases.size(); ++b) {
    if ((number >> b & 1) != 0) element ^= bases[b];
  }
  return element;
}
/// The bits that say nothing of the element.
std::size_t free_bits(const std::vector<std::int64_t>& bases) {
  std::size_t bits = 0;
  for (std::size_t b = 0; b < bases.size(); ++b) bits |= bases[b] == 0 ? std::size_t{1} << b : 0;
  return bits;
}

/// Why these are no elements of an access to so many; "" if they are.
std::string impossible(const WarpLayout& l, std::int64_t elements) {
  constexpr std::size_t kMostBits = 24;  // Triton's tensors have 2^20 elements at most
  constexpr int kMostBytes = 128;        // of an instruction and lane: 16 in hardware
  if (l.registers.size() > kMostBits || l.lanes.size() > 5 || l.warps.size() > 5)
    return "no thread block has so many registers, lanes or warps";
  if (l.bytes < 0 || l.bytes > kMostBytes)
    return "an instruction of " + std::to_string(l.bytes) + " bytes";
  std::int64_t bits = 0;  // of every sum
  for (const auto* bases : {&l.registers, &l.lanes, &l.warps})
    bits = std::accumulate(bases->begin(), bases->end(), bits, std::bit_or<>());
  if (bits < 0 || bits >= elements)
    return "element " + std::to_string(bits) + " of " + std::to_string(elements);
  return "";
}

}  // namespace

Sectors sectors_of(const WarpLayout& layout, const std::int64_t* addresses, const std::byte* mask,
                   std::int64_t width, FirstLevel* l1) {
  Sectors s;
  if (layout.past_l1) l1 = nullptr;
  const std::size_t free_registers = free_bits(layout.registers);
  const std::size_t free_lanes = layout.once ? free_bits(layout.lanes) : 0;
  const std::size_t free_warps = layout.once ? free_bits(layout.warps) : 0;
  const auto step = static_cast<std::size_t>(std::max<std::int64_t>(1, layout.bytes / width));
  const std::size_t lanes = std::size_t{1} << layout.lanes.size();
  std::vector<std::int64_t> touched;
  for (std::size_t w = 0; w < std::size_t{1} << layout.warps.size(); ++w) {
    if ((w & free_warps) != 0) continue;
    const std::int64_t of_warp = element_of(layout.warps, w);
    for (std::size_t r = 0; r < std::size_t{1} << layout.registers.size(); r += step) {
      if ((r & free_registers) != 0) continue;
      const std::int64_t of_register = of_warp ^ element_of(layout.registers, r);
      touched.clear();
      for (std::size_t l = 0; l < lanes; ++l) {
        if ((l & free_lanes) != 0) continue;
        const std::int64_t e = of_register ^ element_of(layout.lanes, l);
        if (mask != nullptr && mask[e] == std::byte{0}) continue;
        const std::int64_t last =
            (addresses[e] + std::max<std::int64_t>(layout.bytes, width) - 1) / kSector;
        for (std::int64_t k = addresses[e] / kSector; k <= last; ++k) {
          if (touched.empty() || touched.back() != k) touched.push_back(k);
        }
      }
      if (touched.empty()) continue;
      std::ranges::sort(touched);
      ++s.requests;
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      s.sectors += std::ssize(touched);
      s.of_l2 += l1 == nullptr ? std::ssize(touched)
                               : std::ranges::count_if(touched, [&](std::int64_t sector) {
                                   return l1->bring(sector);
                                 });
    }
  }
  return s;
}

void set_layouts(Kernel& kernel, const std::string& json) {
  using Json = nlohmann::json;
  try {
    const Json all = Json::parse(json);
    for (Site& site : kernel.sites) {
      if (site.number >= std::ssize(all))
        throw InputError("bad-input", "layouts of another module: they are " +
                                          std::to_string(all.size()) + ", and " +
                                          kernel.program.name + " has more accesses");
      for (const Json& of : all.at(static_cast<std::size_t>(site.number))) {
        WarpLayout& l = site.layouts.emplace_back();
        of.at("registers").get_to(l.registers);
        of.at("lanes").get_to(l.lanes);
        of.at("warps").get_to(l.warps);
        of.at("bytes").get_to(l.bytes);
        of.at("once").get_to(l.once);
        l.past_l1 = of.value("past_l1", false);
        if (const std::string why = impossible(l, site.elements); !why.empty())
          throw InputError("bad-input", "layouts of warps: " + why);
      }
    }
  } catch (const Json::exception& e) {
    throw InputError("bad-input", std::string("layouts of warps: ") + e.what());
  }
}

}  // namespace tessera::triton
