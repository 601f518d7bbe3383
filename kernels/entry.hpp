// A kernel and its oracle, as one entry of a list (kernels/all.hpp, or a list of the user's own).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reference/tensor.hpp"
#include "sim/body/smem.hpp"

namespace tessera {

/// A kernel's inputs as an oracle sees them, by name.
class OracleInputs {
 public:
  void add(std::string name, reference::Tensor tensor) {
    tensors_.emplace_back(std::move(name), std::move(tensor));
  }
  const reference::Tensor& operator[](const char* name) const {
    for (const auto& [n, tensor] : tensors_) {
      if (n == name) return tensor;
    }
    throw std::logic_error(std::string("the oracle asks for '") + name + "', which is no input");
  }

 private:
  std::vector<std::pair<std::string, reference::Tensor>> tensors_;
};

/// K is a kernel template over its element type; the oracle takes (const K<T>&, const
/// OracleInputs&) and gives an Expected, or a vector of them in the order of the spec's outputs.
template <template <class> class K, class Oracle>
struct Entry {
  template <class T>
  using Kernel = K<T>;
  Oracle oracle;
};
template <template <class> class K, class Oracle>
constexpr auto entry(Oracle oracle) {
  return Entry<K, Oracle>{oracle};
}

/// A copy of a scalar-prefetched array, for oracles.
inline std::vector<int> values_of(const Smem<int>& array) {
  return std::vector<int>(array.data, array.data + array.size);
}

/// Integer inputs (segment ids) of an oracle.
inline std::vector<int> integers_of(const reference::Tensor& t) {
  return std::vector<int>(t.values.begin(), t.values.end());
}

}  // namespace tessera
