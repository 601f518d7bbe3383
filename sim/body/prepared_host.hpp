// The host of a kernel's prepare() in another build than the interpreter's: what it asks for was
// made, or given, before, so that the same arrays come out.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/dtype.hpp"
#include "memory_model/layout.hpp"
#include "sim/body/smem.hpp"

namespace tessera {

/// An array by the name of its operand.
struct HostArray {
  std::string name;
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// The prefetched arrays that a host keeps for a kernel.
class KeptScalars {
 public:
  struct Kept {
    std::vector<std::byte> bytes;
    int elems = 0;
  };
  template <class T>
  Smem<T> take(const char* name, const std::vector<T>& values) {
    static_assert(!kIsPacked<T> && !std::is_same_v<T, bool>,
                  "prefetched arrays hold whole bytes: numbers of 8 bits or more");
    Kept& kept = arrays_.emplace_back();
    kept.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(kept.bytes.data(), values.data(), kept.bytes.size());
    kept.elems = static_cast<int>(values.size());
    return {reinterpret_cast<const T*>(kept.bytes.data()), kept.elems, name};
  }
  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }
  const Kept& last() const { return arrays_.back(); }

 private:
  std::deque<Kept> arrays_;
};

class PreparedHost {
 public:
  /// draws: what is drawn at random, and is not among the arrays, is whatever it is; else an error.
  explicit PreparedHost(const std::vector<HostArray>& arrays, bool draws = true)
      : arrays_(arrays), draws_(draws) {}
  int random(int lo, int) {
    drawn_ = true;
    return lo;
  }
  template <class T = int>
  Smem<T> scalars(const char* name, const std::vector<T>& made) {
    return keep(name, given(name, made));
  }
  template <class T = int>
  Smem<T> keep(const char* name, std::vector<T> values) {
    return kept_.take(name, values);
  }
  template <class T>
  std::vector<T> input(const char* name, const Shape&, const std::vector<T>& made) const {
    return given(name, made);
  }
  [[noreturn]] void fail(const std::string& what) const { throw std::invalid_argument(what); }
  const KeptScalars& kept() const { return kept_; }

 private:
  template <class T>
  std::vector<T> given(const char* name, const std::vector<T>& made) const {
    for (const HostArray& a : arrays_) {
      if (a.name != name) continue;
      if constexpr (kIsPacked<T>) {
        std::vector<T> values;
        for (std::size_t i = 0; i < made.size(); ++i)
          values.push_back(
              load_element<T>(static_cast<const std::byte*>(a.data), static_cast<std::int64_t>(i)));
        return values;
      } else {
        std::vector<T> values(a.bytes / sizeof(T));
        std::memcpy(values.data(), a.data, a.bytes);
        return values;
      }
    }
    if (drawn_ && !draws_) fail(std::string(name) + " is prefetched: give its elements");
    return made;
  }
  const std::vector<HostArray>& arrays_;
  bool draws_;
  bool drawn_ = false;
  KeptScalars kept_;
};

}  // namespace tessera
