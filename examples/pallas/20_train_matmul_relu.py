"""Trains a small model whose layers are a fused matmul and ReLU, as in Keras's guide to Pallas.

The kernel never writes the product before the ReLU to HBM. Autodiff cannot look inside a kernel: custom_vjp says how.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import tessera


def matmul_relu_kernel(x_ref, w_ref, o_ref):
    o_ref[...] = jnp.maximum(x_ref[...] @ w_ref[...], 0)


@jax.custom_vjp
def matmul_relu(x, w):
    (m, k), n = x.shape, w.shape[1]
    return pl.pallas_call(
        matmul_relu_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(2, 2),
        in_specs=[pl.BlockSpec((m // 2, k), lambda i, j: (i, 0)), pl.BlockSpec((k, n // 2), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((m // 2, n // 2), lambda i, j: (i, j)))(x, w)


def forward(x, w):
    z = matmul_relu(x, w)
    return z, (x, w, z)


def backward(saved, g):
    x, w, z = saved
    g = jnp.where(z > 0, g, 0)
    return g @ w.T, x.T @ g


matmul_relu.defvjp(forward, backward)


def loss(weights, x, labels):
    first, second = weights
    logits = matmul_relu(x, first) @ second
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()


@jax.jit
def train_step(weights, x, labels):
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, jax.grad(loss)(weights, x, labels))


# Points inside and outside a circle, which no line separates.
rng = np.random.default_rng(0)
points = rng.uniform(-1, 1, (256, 2)).astype(np.float32)
labels = (np.hypot(*points.T) < 0.7).astype(np.int32)
x = np.zeros((256, 128), np.float32)
x[:, :2], x[:, 2] = points, 1  # and a bias
weights = (rng.normal(size=(128, 256)).astype(np.float32), rng.normal(size=(256, 2)).astype(np.float32) * 0.1)

with tessera.simulate(device="tpu-v5e") as report:
    for _ in range(100):
        weights = train_step(weights, x, labels)
    correct = (jnp.argmax(matmul_relu(x, weights[0]) @ weights[1], axis=1) == labels).mean()

print(f"more than 95 % correct: {bool(correct > 0.95)}")
print(f"{len(report.calls)} calls of {report.calls[0].kernel}, {report.calls[0].traffic['hbm_read_bytes']:,} bytes read by each")
# w's halves come twice, once for each half of x.
print(f"that is x once and w twice: {x.nbytes + 2 * weights[0].nbytes:,} bytes")

# expected output
# more than 95 % correct: True
# 101 calls of matmul_relu_kernel, 393,216 bytes read by each
# that is x once and w twice: 393,216 bytes
