// Products as Hopper's tensor cores compute them, for other models to be compared with
// (mmasim_peer.py): tensor_core_products FORMAT M N K < operands > results
//
// Operands are a[M, K], b[K, N] in FORMAT (bf16, f16, tf32 as f32, f8e4m3fn, f8e5m2) and c[M, N] in
// f32, row-major, one after the other and as many times as there are; a result is c + a b in f32.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/numerics/tensor_core.hpp"

using namespace tessera;

namespace {

template <class T>
bool read(std::vector<T>& to) {
  return std::fread(to.data(), sizeof(T), to.size(), stdin) == to.size();
}

template <class T>
int run(int m, int n, int k) {
  const auto area = [](int rows, int cols) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  };
  std::vector<T> a(area(m, k));
  std::vector<T> b(area(k, n));
  std::vector<float> c(area(m, n));
  while (read(a) && read(b) && read(c)) {
    tensor_core_accumulate(c.data(), n, Operand2d<T>{a.data(), k, 1}, Operand2d<T>{b.data(), n, 1},
                           m, n, k);
    std::fwrite(c.data(), sizeof(float), c.size(), stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: tensor_core_products FORMAT M N K < operands > results\n");
    return 2;
  }
  const std::string format = argv[1];
  const int m = std::atoi(argv[2]);
  const int n = std::atoi(argv[3]);
  const int k = std::atoi(argv[4]);
  if (format == "bf16") return run<bf16>(m, n, k);
  if (format == "f16") return run<f16>(m, n, k);
  if (format == "tf32") return run<float>(m, n, k);
  if (format == "f8e4m3fn") return run<f8e4m3fn>(m, n, k);
  if (format == "f8e5m2") return run<f8e5m2>(m, n, k);
  std::fprintf(stderr, "no format %s\n", format.c_str());
  return 2;
}
