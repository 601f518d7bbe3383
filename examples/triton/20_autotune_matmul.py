"""Autotunes a matmul with grouped ordering by what its configurations are predicted to cost on an H100, without one."""
import numpy as np
import triton
import triton.language as tl

import tessera


@triton.autotune([triton.Config({"BM": 32, "BN": 32, "BK": 32, "GROUP": 8}),
                  triton.Config({"BM": 64, "BN": 64, "BK": 32, "GROUP": 8}),
                  triton.Config({"BM": 128, "BN": 64, "BK": 32, "GROUP": 4}),
                  triton.Config({"BM": 128, "BN": 128, "BK": 32, "GROUP": 4})], key=["M", "N", "K"])
@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    # Programs that follow one another share blocks of b: GROUP rows of blocks, column by column.
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    first = pid // (GROUP * across) * GROUP
    rows = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + pid % (GROUP * across) % rows
    pid_n = pid % (GROUP * across) // rows
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :], mask=(m[:, None] < M) & ((i + k)[None, :] < K), other=0)
        b = tl.load(b_ptr + (i + k)[:, None] * N + n[None, :], mask=((i + k)[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


M, N, K = 1024, 768, 512
rng = np.random.default_rng(0)
a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
c = tessera.DeviceArray.empty((M, N), np.float16)
with tessera.simulate_triton(device="h100") as report:
    matmul[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](
        tessera.DeviceArray(a), tessera.DeviceArray(b), c, M, N, K)
print("right:", np.array_equal(c.array, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)))
for config, call in zip(matmul.configs, report.calls):
    print(f"{config.kwargs['BM']:4} x {config.kwargs['BN']:3}  {call.json['grid'][0]:4} programs  "
          f"{call.traffic['hbm_read_bytes'] / 1e6:5.1f} MB asked for  {1e6 * call.predicted_seconds:.1f} us")
print("best:", matmul.best_config.kwargs)

# expected output
# right: True
#   32 x  32   768 programs   50.3 MB asked for  12.7 us
#   64 x  64   192 programs   25.2 MB asked for  10.9 us
#  128 x  64    96 programs   18.9 MB asked for  11.8 us
#  128 x 128    48 programs   12.6 MB asked for  13.2 us
# best: {'BM': 64, 'BN': 64, 'BK': 32, 'GROUP': 8}
