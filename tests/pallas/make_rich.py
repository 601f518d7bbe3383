"""Writes rich.mlirbc, the module that loader_test.cpp mutates: usage: python make_rich.py (jax 0.10)."""
import base64
import json
import pathlib
import re

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


def kernel(x_ref, hbm_ref, o_ref, acc_ref, sem):
    @pl.when(pl.program_id(1) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    copy = pltpu.make_async_copy(hbm_ref.at[pl.ds(0, 8)], acc_ref.at[pl.ds(8, 8)], sem)
    copy.start()
    copy.wait()

    def body(i, carry):
        return carry + jnp.exp(x_ref[...]) * i.astype(jnp.float32)

    total = jax.lax.fori_loop(0, 3, body, x_ref[...])
    acc_ref[...] += jnp.dot(total, total.T, preferred_element_type=jnp.float32)
    o_ref[...] = jnp.max(acc_ref[...], axis=1, keepdims=True).astype(o_ref.dtype) * total


def call(x, y):
    return pl.pallas_call(
        kernel,
        grid=(2, 2),
        in_specs=[pl.BlockSpec((16, 128), lambda i, j: (i, j)), pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((16, 128), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((32, 256), jnp.float32),
        scratch_shapes=[pltpu.VMEM((16, 16), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x, y)


x = jnp.zeros((32, 256), jnp.float32)
y = jnp.zeros((8, 16), jnp.float32)
text = jax.jit(call).trace(x, y).lower(lowering_platforms=("tpu",)).as_text()
config = json.loads(re.search(r'backend_config = "(.*?)(?<!\\)"', text).group(1).replace('\\22', '"').replace('\\"', '"'))
body = base64.b64decode(config["custom_call_config"]["body"])
pathlib.Path(__file__).with_name("rich.mlirbc").write_bytes(body)
print(len(body), "bytes")
