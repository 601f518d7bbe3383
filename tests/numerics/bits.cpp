// The bits of everything the interpreter computes, as hashes: the same in every build, whatever the
// processor's vectors are (AVX-512, AVX2, none: -DTESSERA_NATIVE=OFF), and on every machine.
//
// usage: bits [FILE]     prints a line per op; with FILE (bits.txt), the lines that differ from its
//
// Exit code 1 if any differs, 77 if the build is for another processor.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "sim/numerics/op_state.hpp"
#include "sim/ops/all.hpp"
#include "sim/tiles/tile.hpp"

using namespace tessera;

namespace {

using Lines = std::map<std::string, std::uint64_t>;

/// FNV-1a of the elements' bits, NaNs alike.
template <class T>
std::uint64_t hash_of(const Tile<T>& tile) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int r = 0; r < tile.rows; ++r) {
    for (int c = 0; c < tile.cols; ++c) {
      std::uint32_t bits = 0;
      if constexpr (kIsFloat<T>) {
        const float v = convert<float>(tile(r, c));
        bits = v != v ? 0x7fc00000 : std::bit_cast<std::uint32_t>(v);
      } else {
        bits = static_cast<std::uint32_t>(tile(r, c));
      }
      hash = (hash ^ bits) * 0x100000001b3;
    }
  }
  return hash;
}

/// A third of any bits, a third of small numbers, a third near 1; the same everywhere.
template <class T>
Tile<T> random_tile(int rows, int cols, unsigned seed) {
  std::mt19937 rng(seed);
  FreshTile<T> tile(rows, cols);
  for (int i = 0; i < rows * cols; ++i) {
    const auto word = static_cast<std::uint32_t>(rng());
    float v = std::bit_cast<float>(word);
    if (i % 3 == 1) v = static_cast<float>(static_cast<int>(word >> 8)) * 0x1p-20f - 8;
    if (i % 3 == 2) v = 1 + static_cast<float>(static_cast<int>(word >> 8)) * 0x1p-26f;
    tile.data()[i] = convert<T>(v);
  }
  return std::move(tile).finish();
}
/// Finite, so that sums are not all NaN.
template <class T>
Tile<T> small_tile(int rows, int cols, unsigned seed) {
  std::mt19937 rng(seed);
  FreshTile<T> tile(rows, cols);
  for (int i = 0; i < rows * cols; ++i)
    tile.data()[i] = convert<T>(static_cast<float>(static_cast<int>(rng() >> 8)) * 0x1p-22f - 2);
  return std::move(tile).finish();
}

/// Odd extents: whole vectors and what is left over.
constexpr int kRows = 37;
constexpr int kCols = 1003;

template <class Op, class T>
void element_op(Lines& lines, const char* type) {
  const std::string name = std::string(Op::info.name) + " " + type;
  const auto a = random_tile<T>(kRows, kCols, 1);
  const auto b = random_tile<T>(kRows, kCols, 2);
  if constexpr (Op::info.arity == 1)
    lines[name] = hash_of(Interpreter::map<Op>(a));
  else
    lines[name] = hash_of(Interpreter::map<Op>(a, b));
}
template <class Op>
void every_type(Lines& lines) {
  if constexpr (
      requires { Op::apply(1.f); } || requires { Op::apply(1.f, 1.f); }) {
    if constexpr (!std::is_same_v<Op, LogicalNot> && !std::is_same_v<Op, LogicalAnd> &&
                  !std::is_same_v<Op, LogicalOr>) {
      element_op<Op, float>(lines, "f32");
      element_op<Op, bf16>(lines, "bf16");
      element_op<Op, f16>(lines, "f16");
    }
  }
  if constexpr (requires { typename Op::Combine; }) {
    const auto a = small_tile<float>(kRows, kCols, 3);
    if constexpr (requires { typename Op::OfRows; })
      lines[Op::info.name] = hash_of(Interpreter::reduce_cols<Op>(a));
    else
      lines[Op::info.name] = hash_of(Interpreter::reduce_rows<Op>(a));
  }
}

template <class T>
void products(Lines& lines, const char* type) {
  const auto a = small_tile<T>(37, 150, 4);
  const auto b = small_tile<T>(150, 83, 5);
  for (const Profile profile : kProfiles) {
    op_state.profile = profile;
    lines[std::string("dot ") + type + " " + name(profile)] =
        hash_of(Interpreter::load(Interpreter::dot(a, b)));
  }
  op_state.profile = Profile::exact;
}

Lines compute() {
  Lines lines;
  [&]<class... Op>(std::tuple<Op...>*) {
    (every_type<Op>(lines), ...);
  }(static_cast<ops::All*>(nullptr));
  products<float>(lines, "f32");
  products<bf16>(lines, "bf16");
  products<f16>(lines, "f16");
  products<f8e4m3fn>(lines, "f8e4m3fn");
  products<f8e5m2>(lines, "f8e5m2");
  return lines;
}

/// Whether this processor has the instructions that this build uses.
bool runs_here() {
#ifdef __AVX512F__
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
  return true;
#endif
}
}  // namespace

int main(int argc, char** argv) {
  if (!runs_here()) {
    std::puts("skipped: built for AVX-512, which this processor has not");
    return 77;
  }
  const Lines lines = compute();
  if (argc < 2) {
    for (const auto& [op, hash] : lines)
      std::printf("%016llx %s\n", static_cast<unsigned long long>(hash), op.c_str());
    return 0;
  }
  std::ifstream file(argv[1]);
  Lines recorded;
  std::string hash;
  for (std::string op; file >> hash && std::getline(file >> std::ws, op);)
    recorded[op] = std::stoull(hash, nullptr, 16);
  int differ = 0;
  for (const auto& [op, value] : lines) {
    if (recorded.contains(op) && recorded[op] == value) continue;
    std::printf("%s: %016llx, recorded %016llx\n", op.c_str(),
                static_cast<unsigned long long>(value),
                static_cast<unsigned long long>(recorded[op]));
    ++differ;
  }
  std::printf("%zu ops, %d differ\n", lines.size(), differ);
  return differ == 0 && !recorded.empty() ? 0 : 1;
}
