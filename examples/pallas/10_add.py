"""Adds two vectors on a simulated TPU: the first kernel of Keras's guide to Pallas."""
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

import tessera


def add_vectors_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


@jax.jit
def add_vectors(x, y):
    return pl.pallas_call(add_vectors_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


with tessera.simulate(device="tpu-v5e") as report:
    print(add_vectors(jnp.arange(8), jnp.arange(8)))

(call,) = report.calls
print(f"{call.kernel}: read {report.hbm_read_bytes} bytes, wrote {report.hbm_write_bytes}")

# expected output
# [ 0  2  4  6  8 10 12 14]
# add_vectors_kernel: read 64 bytes, wrote 32
