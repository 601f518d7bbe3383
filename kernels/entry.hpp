// A kernel and its oracle. kernels/entries/NAME.hpp makes a kernel exist: the CLI lists it, the
// tests hold every case to the oracle and to hbm_bytes. It is compiled alone (cli/CMakeLists.txt)
// and says
//
//   constexpr auto NAME = entry<Name>([](const auto&, In in) { return reference::name(in["x"]); });
//
// Host only: nvcc sees neither this file nor entries. A program of a user's own lists its entries
// in main.cpp.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reference/tensor.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"
#include "sim/body/spec.hpp"

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
requires(BodyTakesItsOperands<K<float>>) constexpr auto entry(Oracle oracle) {
  return Entry<K, Oracle>{oracle};
}
template <template <class> class K, class Oracle, int kArguments = detail::refs_taken<K<float>>(),
          int kOperands = detail::operands_of<K<float>>()>
requires(!BodyTakesItsOperands<K<float>>)
    [[gnu::unavailable("the body takes kArguments arguments beside the env; its spec has kOperands "
                       "operands for it")]] constexpr auto entry(Oracle oracle) {
  return Entry<K, Oracle>{oracle};
}

/// A copy of a scalar-prefetched array, for oracles.
inline std::vector<int> values_of(const Smem<int>& array) {
  return std::vector<int>(array.data, array.data + array.size);
}

/// What a sum that passes from device to device is rounded to.
template <template <class> class K, class T>
double sum_roundoff(const K<T>&) {
  return kBytes<T> == 2 ? reference::kUBf16 : reference::kU32;
}

/// Integer inputs (segment ids) of an oracle.
inline std::vector<int> integers_of(const reference::Tensor& t) {
  return std::vector<int>(t.values.begin(), t.values.end());
}

namespace kernels::entries {
using In = const OracleInputs&;
}

}  // namespace tessera
