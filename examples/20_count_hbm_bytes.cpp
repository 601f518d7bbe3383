// Choose block shapes by the bytes they move, before there is any hardware.
#include <cstdio>

#include "kernels/matmul.hpp"
#include "sim/run.hpp"

int main() {
  using namespace tessera;
  const int n = 512;
  const Array x(DType::bf16, {n, n});
  const Array y(DType::bf16, {n, n});
  const kernels::Matmul<bf16> matmul{.m = n, .n = n, .k = n};
  std::printf("matmul 512 x 512 x 512 in bf16 on tpu-v5e\n");
  std::printf("%14s %12s %12s %10s %12s\n", "bm bn bk", "read", "write", "VMEM", "FLOP / byte");
  for (const Tiles t : {tiles(128, 128, 128), tiles(128, 128, 512), tiles(256, 256, 128),
                        tiles(256, 512, 128), tiles(512, 512, 512)}) {
    const RunResult r = run(matmul, t, arrays(x, y));
    const auto read = r.ledger().hbm_read_bytes();
    const auto write = r.ledger().hbm_write_bytes();
    std::printf("%6d%4d%4d %12lld %12lld %10lld %12.1f\n", t[0], t[1], t[2],
                static_cast<long long>(read), static_cast<long long>(write),
                static_cast<long long>(r.plan.vmem_bytes()),
                static_cast<double>(r.flops) / static_cast<double>(read + write));
  }
}
/* expected output
matmul 512 x 512 x 512 in bf16 on tpu-v5e
      bm bn bk         read        write       VMEM  FLOP / byte
   128 128 128      4194304       524288     262144         56.9
   128 128 512      2621440       524288     655360         85.3
   256 256 128      2097152       524288     786432        102.4
   256 512 128      1572864       524288    1441792        128.0
   512 512 512      1048576       524288    4194304        170.7
*/
