#include "cli/builtin.hpp"
#include "kernels/all.hpp"

namespace tessera::cli {

std::vector<KernelHandle> builtin_kernels() {
  constexpr std::size_t kKernels = std::tuple_size_v<decltype(kernels::all())>;
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<KernelHandle>{builtin_kernel<I>()...};
  }
  (std::make_index_sequence<kKernels>{});
}

}  // namespace tessera::cli
