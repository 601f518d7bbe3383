#include "cli/host.hpp"

#include <cmath>
#include <limits>

#include "memory_model/split_mix.hpp"

namespace tessera::cli {

namespace {

/// Where a name's random numbers begin.
std::uint64_t stream_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t z = seed * kSplitMixStep;
  for (const char c : name) z = (z ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return z;
}
/// The i-th of them.
std::uint64_t bits_at(std::uint64_t stream, std::uint64_t i) {
  return split_mix(stream + i * kSplitMixStep);
}

}  // namespace

std::uint64_t random_bits(std::uint64_t seed, const std::string& name, std::uint64_t i) {
  return bits_at(stream_of(seed, name), i);
}

const char* name(InputKind kind) {
  switch (kind) {
    case InputKind::uniform:
      return "uniform";
    case InputKind::binary:
      return "binary";
    case InputKind::integers:
      return "integers";
    case InputKind::cancellation:
      return "cancellation";
    case InputKind::wide:
      return "wide";
    case InputKind::special:
      break;
  }
  return "special";
}

namespace {

float uniform(std::uint64_t bits) {
  return static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) * 0x1p-23f;
}

/// Where index / 2 of an element lies, along every dim.
std::uint64_t pair_of(const Shape& shape, std::int64_t i, bool& second) {
  const Shape index = unravel(shape, i);
  std::uint64_t pair = 0;
  for (int dim = 0; dim < shape.rank; ++dim) {
    pair = pair * static_cast<std::uint64_t>(shape[dim] / 2 + 1) +
           static_cast<std::uint64_t>(index[dim] / 2);
  }
  second = shape.rank > 0 && index[shape.rank - 1] % 2 != 0;
  return pair;
}

int widest_exponent(DType d) { return d == DType::f16 ? 4 : bit_width(d) == 8 ? 2 : 30; }

/// Element i of a float array. Those that cancel come in pairs, of which `pairs` is the stream.
float made(InputKind kind, DType d, const Shape& shape, std::uint64_t bits, std::uint64_t pairs,
           std::int64_t i) {
  const float value = uniform(bits);
  switch (kind) {
    case InputKind::uniform:
      return value;
    case InputKind::binary:
      return static_cast<float>(bits >> 63);
    case InputKind::integers:
      return static_cast<float>(static_cast<int>((bits >> 40) % 5) - 2);
    case InputKind::cancellation: {
      bool second = false;
      const float base = uniform(bits_at(pairs, pair_of(shape, i, second)));
      return (second ? -base : base) + value * 0x1p-12f;
    }
    case InputKind::wide: {
      const int most = widest_exponent(d);
      const int exponent = static_cast<int>((bits & 0xffff) % static_cast<unsigned>(2 * most + 1));
      return std::ldexp(value, exponent - most);
    }
    case InputKind::special:
      break;
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(),
                            kInf,
                            -kInf,
                            0.f,
                            -0.f,
                            0x1.8p-130f,
                            -0x1p-149f,
                            0x1p60f};
  return bits % 64 == 0 ? kOdd[bits / 64 % std::size(kOdd)] : value;
}

/// Elements from which threads save time.
constexpr std::int64_t kWorthThreads = 1 << 16;

}  // namespace

Array random_array(DType d, const Shape& shape, std::uint64_t seed, const std::string& name,
                   InputKind kind) {
  Array array(d, shape);
  const std::uint64_t stream = stream_of(seed, name);
  const std::uint64_t pairs = stream_of(seed, name + "#");
  const std::int64_t elems = array.elems();
  visit_dtype(d, [&]<class T>(TypeTag<T>) {
    // Several packed elements are one byte.
    [[maybe_unused]] const bool threads = !kIsPacked<T> && elems >= kWorthThreads;
#pragma omp parallel for if (threads) schedule(static)
    for (std::int64_t i = 0; i < elems; ++i) {
      const std::uint64_t bits = bits_at(stream, static_cast<std::uint64_t>(i));
      if constexpr (kIsSmallInt<T>) {
        store_element(array.bytes(), i,
                      from_pattern<T>(static_cast<unsigned>(bits >> (64 - bit_width(d)))));
      } else if constexpr (kIsPacked<T>) {
        array.set(i, static_cast<double>(bits >> 61));
      } else if constexpr (kIsFloat<T>) {
        array.data<T>()[i] = convert<T>(made(kind, d, shape, bits, pairs, i));
      } else if constexpr (std::is_same_v<T, bool>) {
        array.data<T>()[i] = (bits >> 63) != 0;
      } else {
        array.data<T>()[i] = static_cast<T>(bits >> 61);
      }
    }
  });
  return array;
}

Array spread_array(DType d, const Shape& shape, std::uint64_t seed, const std::string& name,
                   Spread spread) {
  Array array(d, shape);
  const std::uint64_t stream = stream_of(seed, name);
  for (std::int64_t i = 0; i < array.elems(); ++i) {
    const double part = static_cast<double>(bits_at(stream, i) >> 11) * 0x1p-53;
    const double value = spread.lo + part * (spread.hi - spread.lo);
    array.set(i, is_float(d) ? value : std::floor(value));
  }
  return array;
}

int Host::random(int lo, int hi) {
  const auto range = static_cast<std::uint64_t>(hi - lo + 1);
  return lo + static_cast<int>(random_bits(seed_, "prepare", draws_++) % range);
}

const std::string* Host::take_file(const std::string& name) {
  const auto it = files_.find(name);
  if (it == files_.end()) return nullptr;
  used_[name] = true;
  return &it->second;
}

void Host::check_shape(const std::string& name, const Array& array, const Shape& wanted) const {
  if (array.shape() == wanted) return;
  throw InputError("bad-input", "--input " + name + " is " +
                                    describe(array.dtype(), array.shape()) + "; " + kernel_ +
                                    " takes " + describe(array.dtype(), wanted));
}

std::vector<Host::Asked> Host::asked() const {
  std::vector<Asked> all;
  for (const auto& [name, dtype, kept] : scalars_)
    all.push_back({name, dtype, {kept->elems}, kept->bytes.data(), kept->bytes.size()});
  for (const auto& [name, array] : inputs_)
    all.push_back({name, array.dtype(), array.shape(), array.bytes(),
                   static_cast<std::size_t>(array.size_bytes())});
  return all;
}

Array Host::operand(const std::string& name, DType d, const Shape& shape, Spread spread) {
  if (const auto it = inputs_.find(name); it != inputs_.end()) return it->second;
  if (const auto* file = take_file(name)) {
    Array array = read_npy(*file, d);
    check_shape(name, array, shape);
    return array;
  }
  if (spread.lo < spread.hi) return spread_array(d, shape, seed_, name, spread);
  return random_array(d, shape, seed_, name, kind_);
}

void Host::check_files_used(const std::vector<std::string>& known) const {
  for (const auto& [name, path] : files_) {
    if (used_.contains(name)) continue;
    throw InputError("unknown-parameter",
                     kernel_ + " has no input '" + name + "'" + suggest(name, known));
  }
}

}  // namespace tessera::cli
