// What a kernel's prepare(host, tiles) may ask of the machine that starts it: scalar-prefetched
// arrays and inputs with a meaning, made from the seed unless the user gave a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/npy.hpp"
#include "sim/body/prepared_host.hpp"
#include "sim/body/spec.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

/// A counter-based generator (splitmix64): value i of stream `name` under `seed`, the same
/// everywhere.
std::uint64_t random_bits(std::uint64_t seed, const std::string& name, std::uint64_t i);

/// What made-up inputs of float types hold; integers are 0 to 7 (bool: 0 and 1) in all of them.
///   uniform       [-1, 1) in steps of 2^-23
///   binary        0 and 1: sums are exact in any order
///   integers      -2 to 2: likewise
///   cancellation  pairs along each dim that cancel in sums, but for 2^-12 of them
///   wide          random signs and significands, exponents over as much as the type's products
///                 and their sums allow (f32, bf16: -30 to 30; f16: -4 to 4; fp8: -2 to 2)
///   special       uniform with a NaN, an infinity, a zero of either sign, a subnormal number and
///                 a large one here and there (one in 64)
enum class InputKind { uniform, binary, integers, cancellation, wide, special };
inline constexpr InputKind kInputKinds[] = {InputKind::uniform,  InputKind::binary,
                                            InputKind::integers, InputKind::cancellation,
                                            InputKind::wide,     InputKind::special};
const char* name(InputKind kind);

Array random_array(DType d, const Shape& shape, std::uint64_t seed, const std::string& name,
                   InputKind kind = InputKind::uniform);

/// An array of a spread of its own, whatever the kind of the others.
Array spread_array(DType d, const Shape& shape, std::uint64_t seed, const std::string& name,
                   Spread spread);

class Host {
 public:
  Host(std::string kernel, std::uint64_t seed, std::map<std::string, std::string> files,
       InputKind kind = InputKind::uniform)
      : kernel_(std::move(kernel)), seed_(seed), files_(std::move(files)), kind_(kind) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Uniform in [lo, hi].
  int random(int lo, int hi);
  /// --input name=file.npy (of type T, one dim), or `made`.
  template <class T = int>
  Smem<T> scalars(const char* name, std::vector<T> made) {
    if (const auto* file = take_file(name)) {
      const Array array = read_npy(*file, kDTypeOf<T>);
      if (array.shape().rank != 1) fail(std::string(name) + " has one dimension");
      made.clear();
      for (std::int64_t i = 0; i < array.elems(); ++i)
        made.push_back(load_element<T>(array.bytes(), i));
    }
    const Smem<T> array = keep(name, std::move(made));
    scalars_.push_back({name, kDTypeOf<T>, &kept_.last()});
    return array;
  }
  /// An array that the kernel derives.
  template <class T = int>
  Smem<T> keep(const char* name, std::vector<T> values) {
    return kept_.take(name, values);
  }
  /// The values of the input of this name: --input, or `made`.
  template <class T>
  std::vector<T> input(const char* name, const Shape& shape, const std::vector<T>& made) {
    Array array(kDTypeOf<T>, shape);
    if (const auto file = take_file(name))
      array = read_npy(*file, kDTypeOf<T>);
    else
      for (std::int64_t i = 0; i < array.elems(); ++i)
        store_element(array.bytes(), i, made.at(static_cast<std::size_t>(i)));
    check_shape(name, array, shape);
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(array.elems()));
    for (std::int64_t i = 0; i < array.elems(); ++i)
      values.push_back(load_element<T>(array.bytes(), i));
    inputs_.insert_or_assign(name, std::move(array));
    return values;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError("bad-input", kernel_ + ": " + what);
  }

  /// The arrays that prepare() asked for by name, given or made.
  struct Asked {
    std::string name;
    DType dtype;
    Shape shape;
    const void* data;
    std::size_t bytes;
  };
  std::vector<Asked> asked() const;

  /// The input of an operand: prepared, from a file, or random.
  Array operand(const std::string& name, DType d, const Shape& shape, Spread spread = {});
  /// Files that nothing asked for are the user's mistake: throws InputError.
  void check_files_used(const std::vector<std::string>& known) const;

 private:
  const std::string* take_file(const std::string& name);
  void check_shape(const std::string& name, const Array& array, const Shape& wanted) const;

  std::string kernel_;
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::map<std::string, std::string> files_;
  InputKind kind_;
  std::map<std::string, bool> used_;
  std::map<std::string, Array> inputs_;
  struct NamedScalars {
    std::string name;
    DType dtype;
    const KeptScalars::Kept* kept;
  };
  KeptScalars kept_;
  std::vector<NamedScalars> scalars_;
};

}  // namespace tessera::cli
