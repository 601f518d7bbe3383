// Run a kernel from a program: give it arrays, take its outputs and its bytes.
#include <cstdio>

#include "kernels/add_vectors.hpp"
#include "sim/run.hpp"

int main() {
  using namespace tessera;
  const int n = 1000;  // the last block of 256 is ragged
  Array x(DType::f32, {n});
  Array y(DType::f32, {n});
  for (int i = 0; i < n; ++i) {
    x.data<float>()[i] = static_cast<float>(i);
    y.data<float>()[i] = 0.5f;
  }
  const RunResult result = run(kernels::AddVectors<float>{.n = n}, tiles(256), arrays(x, y));
  if (!result.ok()) {
    std::fputs(result.diagnostics[0].text().c_str(), stderr);
    return 1;
  }
  std::printf("o[999] = %g after %lld grid steps\n", result.outputs[0].at(999),
              static_cast<long long>(result.steps));
  for (const auto& ref : result.ledger().refs()) {
    std::printf("%-3s %-3s %lld transfers, %lld bytes, %lld padded\n", ref.name.c_str(),
                ref.direction, static_cast<long long>(ref.transfers),
                static_cast<long long>(ref.bytes), static_cast<long long>(ref.padded_bytes));
  }
}
/* expected output
o[999] = 999.5 after 4 grid steps
x   in  4 transfers, 4000 bytes, 4096 padded
y   in  4 transfers, 4000 bytes, 4096 padded
o   out 4 transfers, 4000 bytes, 4096 padded
*/
