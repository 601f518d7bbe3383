"""Lets Pallas pipeline: blocks of HBM come and go while the kernel works on the one before."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

x = np.random.default_rng(0).normal(size=(1024, 512)).astype(np.float32)
block = pl.BlockSpec((256, 512), lambda i: (i, 0))


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def by_grid(x):
    return pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(4,), in_specs=[block],
                          out_specs=block)(x)


def by_emit_pipeline(x):
    """The same from inside a kernel that sees all of HBM: its copies are real ones, checked for races."""

    def kernel(x_hbm, o_hbm):
        pltpu.emit_pipeline(double, grid=(4,), in_specs=[block], out_specs=[block])(x_hbm, o_hbm)

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[hbm], out_specs=hbm)(x)


for f in (by_grid, by_emit_pipeline):
    for schedule in ("eager", "on_wait", "random:7"):  # copies land early, late, or whenever
        with tessera.simulate(schedule=schedule) as report:
            np.testing.assert_array_equal(f(x), 2 * x)
    memory = report.calls[0].json["memory"]
    print(f"{f.__name__}: {report.hbm_read_bytes + report.hbm_write_bytes:,} bytes moved, "
          f"{memory['vmem_peak_bytes']:,} of VMEM")
print(f"x twice: {2 * x.nbytes:,}; two buffers for a block in and out: {4 * 256 * 512 * 4:,}")

# expected output
# by_grid: 4,194,304 bytes moved, 2,097,152 of VMEM
# by_emit_pipeline: 4,194,304 bytes moved, 2,097,152 of VMEM
# x twice: 4,194,304; two buffers for a block in and out: 2,097,152
