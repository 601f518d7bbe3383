#include "predict/tpu_transfers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::predict {

namespace {

constexpr std::uint32_t kAddressUnit = 512;  // bytes
constexpr std::uint32_t kFirstOperand = 1U << 12;
constexpr std::uint32_t kLastOperand = 1U << 26;
constexpr std::uint32_t kLastAddress = 1U << 27;  // more would be negative as granules
constexpr std::uint32_t kAllocationStride = 1U << 16;

/// "bf16": 16, "s4": 4.
std::uint64_t bits_of(const std::string& type) {
  std::uint64_t bits = 0;
  for (const char c : type) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && bits > 0) break;
    if (digit) bits = 10 * bits + static_cast<std::uint64_t>(c - '0');
  }
  return bits == 0 ? 8 : bits;
}

/// No less than what an array takes, however it is tiled.
std::uint64_t most_bytes(const ListedOperand& o) {
  std::uint64_t elems = 1;
  for (int d = 0; d < o.shape.rank; ++d) {
    const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(o.shape[d], 1));
    const std::uint64_t to = d == o.shape.rank - 1 ? 1024 : d == o.shape.rank - 2 ? 64 : 1;
    elems *= (n + to - 1) / to * to;
  }
  return elems * bits_of(o.type) / 8;
}

/// Where an element lies in SMEM: tiles of (8, 128) words, fewer rows where an array has fewer;
/// narrow types have rows that share a word.
struct PlaceInWords {
  std::size_t word = 0;
  unsigned shift = 0;  ///< bits
};
PlaceInWords place_of(const Shape& shape, std::int64_t i, std::int64_t bits) {
  if (shape.rank < 2) return {static_cast<std::size_t>(i), 0};
  const std::int64_t packed = 32 / bits;
  const std::int64_t cols = shape[shape.rank - 1];
  const std::int64_t rows = shape[shape.rank - 2];
  const std::int64_t word_rows = (rows + packed - 1) / packed;
  std::int64_t tile_rows = 1;
  while (tile_rows < word_rows && tile_rows < 8) tile_rows *= 2;
  const std::int64_t across = (cols + 127) / 128;
  const std::int64_t down = (word_rows + tile_rows - 1) / tile_rows;
  const std::int64_t col = i % cols;
  const std::int64_t row = i / cols % rows;
  const std::int64_t word_row = row / packed;
  const std::int64_t tile = (i / (cols * rows) * down + word_row / tile_rows) * across + col / 128;
  return {static_cast<std::size_t>((tile * tile_rows + word_row % tile_rows) * 128 + col % 128),
          static_cast<unsigned>(row % packed * bits)};
}

/// The array as SMEM holds it. Throws ListingError where that is not known.
std::vector<Word> words_of(const Array& a) {
  const std::int64_t bits = bit_width(a.dtype());
  if (bits > 32 || (bits < 32 && a.shape().rank < 2))
    throw ListingError(
        fmt::format("how SMEM holds a {} array of rank {}", name(a.dtype()), a.shape().rank));
  std::vector<Word> words;
  for (std::int64_t e = 0; e < a.elems(); ++e) {
    const PlaceInWords at = place_of(a.shape(), e, bits);
    if (words.size() <= at.word) words.resize(at.word + 1);
    words[at.word] = words[at.word].value_or(0) | static_cast<std::uint32_t>(a.bits(e)) << at.shift;
  }
  return words;
}

}  // namespace

TpuMemories::TpuMemories(const Listing& listing, const std::vector<const Array*>& values,
                         const DeviceSpec& device, double clock_hz, std::size_t most_copies)
    : listing_(listing),
      arrays_(values),
      chip_(listed_chip(device)),
      clock_hz_(clock_hz),
      bytes_per_s_(device.hbm_bytes_per_s / device.cores),
      latency_cycles_(device.dma_latency_s * clock_hz),
      bytes_(listing.operands.size()),
      most_copies_(most_copies) {
  const auto hbm_unit = static_cast<std::uint64_t>(chip_.hbm_unit_bytes);
  std::uint64_t next = kFirstOperand;
  for (const ListedOperand& o : listing.operands) {
    if (o.space.starts_with('<')) {
      const Array* const a = array(values_.size());
      const bool known = a != nullptr && bit_width(a->dtype()) <= 32 && a->elems() > 0;
      values_.push_back(known ? Word(static_cast<std::uint32_t>(a->bits(0))) : Word());
      places_.emplace_back(0, 0);
      continue;
    }
    const std::uint64_t units = most_bytes(o) / kAddressUnit + 1;
    if (next + units >= kLastOperand) throw ListingError("operands of more than 32 GiB together");
    const std::uint64_t scale = o.space == "hbm" ? kAddressUnit / hbm_unit : 1;
    values_.emplace_back(static_cast<std::uint32_t>(next * scale));
    places_.emplace_back(next, next + units);
    if (o.space == "smem") {  // read where they lie
      const Array* const a = array(static_cast<std::size_t>(values_.size()) - 1);
      const std::vector<Word> words = a == nullptr ? std::vector<Word>() : words_of(*a);
      for (std::size_t w = 0; w < words.size(); ++w)
        store(static_cast<std::uint32_t>(next + w), words[w]);
    }
    next += units + 1;
  }
}

std::uint32_t TpuMemories::allocation(const std::string& name) {
  const std::uint64_t next = kLastOperand + allocations_.size() * kAllocationStride;
  if (next >= kLastAddress) throw ListingError("too many allocations");
  return allocations_.try_emplace(name, static_cast<std::uint32_t>(next)).first->second;
}

const Array* TpuMemories::array(std::size_t operand) const {
  const auto index = static_cast<std::size_t>(listing_.operands[operand].index);
  return index < arrays_.size() ? arrays_[index] : nullptr;
}

Word TpuMemories::load(std::uint32_t address) const {
  const auto it = smem_.find(address);
  return it == smem_.end() ? Word() : it->second;
}

int TpuMemories::operand_at(std::string_view space, std::uint64_t granule) const {
  const std::uint64_t unit =
      granule * static_cast<std::uint64_t>(chip_.copy_unit_bytes) / kAddressUnit;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (listing_.operands[i].space == space && unit >= places_[i].first && unit < places_[i].second)
      return static_cast<int>(i);
  }
  return -1;
}

void TpuMemories::copy_words(int operand, const Copy& copy) {
  const auto unit = static_cast<std::uint32_t>(chip_.copy_unit_bytes);
  const std::uint32_t words = copy.granules * unit / 4;
  for (std::uint32_t w = 0; w < words; ++w) store(copy.to + w, {});
  const Array* const a = operand < 0 ? nullptr : array(static_cast<std::size_t>(operand));
  if (a == nullptr) return;
  const std::vector<Word> all = words_of(*a);
  const std::uint32_t begin =
      places_[static_cast<std::size_t>(operand)].first * (kAddressUnit / unit);
  const std::uint32_t first = (copy.from - begin) * unit / 4;
  for (std::uint32_t w = 0; w < words && first + w < all.size(); ++w)
    store(copy.to + w, all[first + w]);
}

void TpuMemories::start(const Copy& copy, double now) {
  const std::string_view way = copy.op.substr(std::string_view("dma.").size());
  const std::size_t to = way.find("_to_");
  if (to == std::string_view::npos)
    throw ListingError(
        fmt::format("{}: a copy whose way is not in its name (to another device)", copy.op));
  const std::string_view from_space = way.substr(0, to);
  const std::string_view to_space = way.substr(to + 4);
  for (const std::string_view space : {from_space, to_space}) {
    if (space != "hbm" && space != "vmem" && space != "smem" && space != "cmem")
      throw ListingError(fmt::format("{}: a copy of a memory that is not modelled", copy.op));
  }
  const std::int64_t bytes = std::int64_t{copy.granules} * chip_.copy_unit_bytes;
  double landed = now;
  const int source = operand_at(from_space, copy.from);
  const auto move = [&](int operand, std::int64_t OperandBytes::*which) {
    if (operand < 0) throw ListingError(fmt::format("{} outside of the operands", copy.op));
    OperandBytes& b = bytes_[static_cast<std::size_t>(operand)];
    b.*which += bytes;
    ++b.transfers;
    const double begin = std::max(hbm_.free * clock_hz_, now);
    const double until =
        hbm_.serve(now / clock_hz_, static_cast<double>(bytes) / bytes_per_s_) * clock_hz_;
    if (copies_.size() < most_copies_)
      copies_.push_back({operand, which == &OperandBytes::written, begin, until});
    landed = std::max(landed, until + latency_cycles_);
  };
  if (from_space == "hbm") move(source, &OperandBytes::read);
  if (to_space == "hbm") move(operand_at("hbm", copy.to), &OperandBytes::written);
  if (to_space == "smem") copy_words(source, copy);
  Flag& f = flags_[copy.flag];
  const auto later = std::upper_bound(f.coming.begin(), f.coming.end(), landed,
                                      [](double t, const auto& each) { return t < each.first; });
  f.coming.insert(later, {landed, copy.granules});
  last_ = std::max(last_, landed);
}

void TpuMemories::set_flag(std::uint32_t flag, std::int64_t value, double now) {
  Flag& f = flags_[flag];
  while (!f.coming.empty() && f.coming.front().first <= now) f.coming.pop_front();
  f.value = value;
}

void TpuMemories::add_to_flag(std::uint32_t flag, std::int64_t amount, double now) {
  Flag& f = flags_[flag];
  while (!f.coming.empty() && f.coming.front().first <= now) {
    f.value += f.coming.front().second;
    f.coming.pop_front();
  }
  f.value += amount;
}

std::optional<double> TpuMemories::when(std::uint32_t flag, std::int64_t value) const {
  const auto it = flags_.find(flag);
  if (it == flags_.end()) return value <= 0 ? std::optional(0.) : std::nullopt;
  std::int64_t n = it->second.value;
  if (n >= value) return 0.;
  for (const auto& [time, amount] : it->second.coming) {
    if ((n += amount) >= value) return time;
  }
  return {};
}

std::int64_t TpuMemories::flag(std::uint32_t flag, double now) const {
  const auto it = flags_.find(flag);
  if (it == flags_.end()) return 0;
  std::int64_t n = it->second.value;
  for (const auto& [time, amount] : it->second.coming)
    if (time <= now) n += amount;
  return n;
}

}  // namespace tessera::predict
