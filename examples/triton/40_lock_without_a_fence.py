"""Finds a lock that excludes and orders nothing: with sem="relaxed" what it protects may be seen late by the next program."""
import numpy as np
import triton
import triton.language as tl

import tessera


@triton.jit
def sum_rows(x_ptr, total_ptr, lock_ptr, BLOCK: tl.constexpr, SEM: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    while tl.atomic_cas(lock_ptr, 0, 1, sem=SEM) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + tl.sum(x, 0))
    tl.atomic_xchg(lock_ptr, 0, sem=SEM)


def total(sem):
    out, lock = np.zeros(1, np.float32), np.zeros(1, np.int32)
    x = np.arange(256, dtype=np.float32)
    with tessera.simulate_triton():
        sum_rows[(8,)](*map(tessera.DeviceArray, (x, out, lock)), BLOCK=32, SEM=sem)
    return out[0]


print("acquire and release:", total("acq_rel"))
try:
    total("relaxed")
except tessera.KernelError as error:
    print(error, end="")

# expected output
# acquire and release: 32640.0
# error[race]: two programs access element 0 of total_ptr, and one of them changes it
#   kernel  sum_rows, grid (x=1, y=0, z=0)
#   write   examples/triton/40_lock_without_a_fence.py:14  tl.store(total_ptr, tl.load(total_ptr) + tl.sum(x, 0))   program 0
#   read    examples/triton/40_lock_without_a_fence.py:14  tl.store(total_ptr, tl.load(total_ptr) + tl.sum(x, 0))   program 1
#   bytes   both touch [0, 4) of total_ptr: f32[1]
#   help    programs of a grid run in any order, and at the same time: give each its own elements, or use atomics
