"""Double-buffers by hand, and finds the bug that a TPU may hide: one semaphore for both slots."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

BLOCKS, ROWS = 8, 16


def sum_blocks_kernel(one_semaphore, x_hbm, o_ref, slots, sems):
    def copy(i):
        slot = jax.lax.rem(i, 2)
        sem = sems.at[0 if one_semaphore else slot]
        return pltpu.make_async_copy(x_hbm.at[pl.ds(i * ROWS, ROWS)], slots.at[slot], sem)

    copy(0).start()
    o_ref[...] = jnp.zeros_like(o_ref)

    def step(i, _):
        @pl.when(i + 1 < BLOCKS)
        def _():
            copy(i + 1).start()

        copy(i).wait()
        o_ref[...] += slots[jax.lax.rem(i, 2)]

    jax.lax.fori_loop(0, BLOCKS, step, None)


def sum_blocks(x, one_semaphore=False):
    return pl.pallas_call(
        functools.partial(sum_blocks_kernel, one_semaphore), out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, ROWS, 128), x.dtype), pltpu.SemaphoreType.DMA((2,))])(x)


x = np.random.default_rng(0).integers(0, 9, (BLOCKS * ROWS, 128)).astype(np.float32)
with tessera.simulate(schedule="on_wait"):
    right = sum_blocks(x)
print("right:", np.array_equal(right, x.reshape(BLOCKS, ROWS, 128).sum(0)))
try:
    with tessera.simulate(schedule="on_wait"):
        sum_blocks(x, one_semaphore=True)
except tessera.KernelError as error:
    print(error, end="")

# expected output
# right: True
# error[race]: scratch0 is read while a DMA may still be writing it
#   kernel  sum_blocks_kernel, grid ()
#   read    examples/pallas/40_double_buffer.py:30  o_ref[...] += slots[jax.lax.rem(i, 2)]
#   write   examples/pallas/40_double_buffer.py:21  copy(0).start()   DMA 0
#   ref     scratch0: VMEM f32[2, 16, 128]
#   bytes   both touch [0, 8192)
#   help    several transfers share scratch1[0], and a wait does not tell which of them is complete: give each its own
