// The host of a kernel's prepare() in another build than the interpreter's: what it asks for was
// made, or given, before, so that the same arrays come out.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory_model/layout.hpp"
#include "sim/body/smem.hpp"

namespace tessera {

/// An array by the name of its operand.
struct HostArray {
  std::string name;
  const void* data = nullptr;
  std::size_t bytes = 0;
};

class PreparedHost {
 public:
  explicit PreparedHost(const std::vector<HostArray>& arrays) : arrays_(arrays) {}
  int random(int lo, int) const { return lo; }
  Smem<int> scalars(const char* name, const std::vector<int>& made) {
    return keep(name, given(name, made));
  }
  Smem<int> keep(const char* name, std::vector<int> values) {
    kept_.push_back(std::move(values));
    return {kept_.back().data(), static_cast<int>(kept_.back().size()), name};
  }
  template <class T>
  std::vector<T> input(const char* name, const Shape&, const std::vector<T>& made) const {
    return given(name, made);
  }
  [[noreturn]] void fail(const std::string& what) const { throw std::invalid_argument(what); }
  const std::deque<std::vector<int>>& kept() const { return kept_; }

 private:
  template <class T>
  std::vector<T> given(const char* name, const std::vector<T>& made) const {
    for (const HostArray& a : arrays_) {
      if (a.name != name) continue;
      std::vector<T> values(a.bytes / sizeof(T));
      std::memcpy(values.data(), a.data, a.bytes);
      return values;
    }
    return made;
  }
  const std::vector<HostArray>& arrays_;
  std::deque<std::vector<int>> kept_;
};

}  // namespace tessera
