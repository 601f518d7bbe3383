"""Runs a Triton kernel without a GPU, and counts the bytes that it asks for."""
import numpy as np
import triton
import triton.language as tl

import tessera


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


n = 1000
x = tessera.DeviceArray(np.arange(n, dtype=np.float32))  # shares the array's memory; a CPU tensor of torch does as well
y = tessera.DeviceArray(np.ones(n, np.float32))
out = tessera.DeviceArray.empty(n)
with tessera.simulate_triton(device="h100") as report:
    add[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
print("right:", np.array_equal(out.array, x.array + 1))
print("read", report.hbm_read_bytes, "bytes, wrote", report.hbm_write_bytes)

# expected output
# right: True
# read 8000 bytes, wrote 4000
