"""tessera.check: kernels against naive functions in f64. Twenty wrong ones are found, their right twins pass, and nobody
chose a tolerance."""
import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

F32, BF16 = jnp.float32, jnp.bfloat16


def arg(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def whole(body, *args, out=None, dtype=None):
    shape = jax.ShapeDtypeStruct(out or args[0].shape, dtype or args[0].dtype)
    return pl.pallas_call(body, out_shape=shape)(*args)


# A matrix product with an accumulator over blocks of k.

def matmul(wrong, x, y):
    acc_dtype = BF16 if wrong == "bf16 accumulator" else F32
    steps = x.shape[1] // 128

    def body(x_ref, y_ref, o_ref, acc):
        k = pl.program_id(2)

        @pl.when(k == (1 if wrong == "dropped k" else 0))
        def _():
            acc[...] = jnp.zeros_like(acc)

        a, b = x_ref[...], y_ref[...]
        if wrong == "bf16 operands":
            a, b = a.astype(BF16), b.astype(BF16)
        acc[...] = (acc[...].astype(F32) + jnp.dot(a, b, preferred_element_type=F32)).astype(acc_dtype)
        if wrong == "a step twice":
            @pl.when(k == 1)
            def _():
                acc[...] = (acc[...] + jnp.dot(a, b, preferred_element_type=F32))

        @pl.when(k == steps - 1)
        def _():
            o_ref[...] = acc[...].astype(o_ref.dtype)

    swapped = wrong == "transposed blocks"
    return pl.pallas_call(
        body, grid=(x.shape[0] // 128, y.shape[1] // 128, steps),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
                  pl.BlockSpec((128, 128), (lambda i, j, k: (j, k)) if swapped else (lambda i, j, k: (k, j)))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)), out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        scratch_shapes=[pltpu.VMEM((128, 128), acc_dtype)])(x, y)


def product(x, y):
    return x @ y


# Attention with an online softmax over blocks of keys.

def attention(wrong, q, k, v):
    heads, n, d = q.shape
    block = 128

    def body(q_ref, k_ref, v_ref, o_ref, m, l, acc):
        i, j = pl.program_id(1), pl.program_id(2)

        @pl.when(j == 0)
        def _():
            m[...] = jnp.full_like(m, -1e30)
            l[...] = jnp.zeros_like(l)
            acc[...] = jnp.zeros_like(acc)

        scale = d**-0.5 if wrong != "wrong scale" else 1 / d
        s = jax.lax.dot_general(q_ref[0], k_ref[0], (((1,), (1,)), ((), ())), preferred_element_type=F32) * scale
        row = i * block + jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        col = j * block + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)
        s = jnp.where(row > col if wrong == "off-by-one mask" else row >= col, s, -1e30)
        top = jnp.maximum(m[...], s.max(1, keepdims=True))
        alpha = jnp.exp(m[...] - top)
        p = jnp.exp(s - top)
        l[...] = l[...] * alpha + p.sum(1, keepdims=True)
        kept = acc[...] if wrong == "no rescaling" else acc[...] * alpha
        acc[...] = kept + jnp.dot(p.astype(v_ref.dtype), v_ref[0], preferred_element_type=F32)
        m[...] = top

        @pl.when(j == pl.num_programs(2) - 1)
        def _():
            o_ref[0] = (acc[...] if wrong == "not normalised" else acc[...] / l[...]).astype(o_ref.dtype)

    head = (lambda h: heads - 1 - h) if wrong == "swapped heads" else (lambda h: h)
    of_query = pl.BlockSpec((1, block, d), lambda h, i, j: (h, i, 0))
    of_key = pl.BlockSpec((1, block, d), lambda h, i, j: (h, j, 0))
    of_value = pl.BlockSpec((1, block, d), lambda h, i, j: (head(h), j, 0))
    return pl.pallas_call(
        body, grid=(heads, n // block, n // block), in_specs=[of_query, of_key, of_value], out_specs=of_query,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((block, 1), F32), pltpu.VMEM((block, 1), F32), pltpu.VMEM((block, d), F32)])(q, k, v)


def softmax_of_scores(q, k, v):
    s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[2])
    s = np.where(np.tri(q.shape[1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,hjd->hid", p / p.sum(-1, keepdims=True), v)


# Rows.

def layer_norm(wrong, x, w):
    def body(x_ref, w_ref, o_ref):
        x = x_ref[...]
        n = x.shape[1]
        centred = x - x.mean(1, keepdims=True)
        var = (centred * centred).sum(1, keepdims=True) / (n - 1 if wrong == "n - 1" else n)
        if wrong == "epsilon outside":
            y = centred / (jnp.sqrt(var) + 1e-6)
        else:
            y = centred * jax.lax.rsqrt(var + (0 if wrong == "no epsilon" else 1e-6))
        if wrong == "rounded on the way":
            y = y.astype(BF16).astype(F32)
        o_ref[...] = y * w_ref[...]

    return whole(body, x, w)


def normalised(x, w):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-6) * w


def log_sum_exp(wrong, x):
    def body(x_ref, o_ref):
        x = x_ref[...]
        top = x.max(1, keepdims=True)
        total = jnp.exp(x - top).sum(1, keepdims=True)
        log = jnp.log1p(total) if wrong == "log1p" else jnp.log(total)
        o_ref[...] = log if wrong == "forgotten maximum" else log + top

    return whole(body, x, out=(x.shape[0], 1))


def log_of_sum(x):
    top = x.max(1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(1, keepdims=True))


def ragged_sum(wrong, x):
    rows, cols = x.shape
    block = 128

    def body(x_ref, o_ref, acc):
        j = pl.program_id(0)

        @pl.when(j == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        col = j * block + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = col < (cols - 1 if wrong == "last column lost" else cols)
        acc[...] += jnp.where(inside, x_ref[...], 0).sum(1, keepdims=True)
        o_ref[...] = acc[...]

    return pl.pallas_call(
        body, grid=(pl.cdiv(cols, block),), in_specs=[pl.BlockSpec((rows, block), lambda j: (0, j))],
        out_specs=pl.BlockSpec((rows, 1), lambda j: (0, 0)), out_shape=jax.ShapeDtypeStruct((rows, 1), F32),
        scratch_shapes=[pltpu.VMEM((rows, 1), F32)])(x)


# Elements.

def rope(wrong, x, cos, sin):
    def body(x_ref, cos_ref, sin_ref, o_ref):
        half = x_ref.shape[1] // 2
        a, b = x_ref[:, :half], x_ref[:, half:]
        c, s = cos_ref[...], sin_ref[...]
        o_ref[:, :half] = a * c + b * s if wrong == "sign" else a * c - b * s
        o_ref[:, half:] = b * c + a * s

    return whole(body, x, cos, sin)


def rotated(x, cos, sin):
    a, b = np.split(x, 2, 1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)


def silu(wrong, x):
    def body(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = x * jax.nn.sigmoid(1.702 * x if wrong == "another slope" else x)

    return whole(body, x)


def scaled(wrong, x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * (0.0999 if wrong == "scale" else 0.1)

    return whole(body, x)


def axpy(wrong, x, y):
    def body(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        o_ref[...] = (y - x if wrong == "swapped" else x - y) * 3

    return whole(body, x, y)


MATMUL = (matmul, product, (arg(128, 384), arg(384, 128)))
SQUARE = (matmul, product, (arg(256, 256),) * 2)
NARROW = (matmul, product, (arg(128, 384, dtype=BF16), arg(384, 128, dtype=BF16)))
ATTENTION = (attention, softmax_of_scores, (arg(2, 256, 96),) * 3)
NORM = (layer_norm, normalised, (arg(16, 256), arg(1, 256)))
FLAT = (layer_norm, normalised, (np.random.default_rng(1).normal(size=(16, 256)).astype(np.float32) / 256, np.ones((1, 256), np.float32)))
LSE = (log_sum_exp, log_of_sum, (arg(16, 256),))
SEEDED = {
    "dropped k": MATMUL, "a step twice": MATMUL, "transposed blocks": SQUARE, "bf16 operands": MATMUL, "bf16 accumulator": NARROW,
    "wrong scale": ATTENTION, "off-by-one mask": ATTENTION, "no rescaling": ATTENTION, "not normalised": ATTENTION,
    "swapped heads": ATTENTION,
    "n - 1": NORM, "epsilon outside": FLAT, "no epsilon": FLAT, "rounded on the way": NORM,
    "log1p": LSE, "forgotten maximum": LSE,
    "last column lost": (ragged_sum, lambda x: x.sum(1, keepdims=True), (arg(8, 300),)),
    "sign": (rope, rotated, (arg(16, 256), arg(16, 128), arg(16, 128))),
    "another slope": (silu, lambda x: x / (1 + np.exp(-x)), (arg(16, 128),)),
    "scale": (scaled, lambda x: x * 0.1, (arg(16, 128),)),
    "swapped": (axpy, lambda x, y: 3 * (x - y), (arg(16, 128),) * 2),
}
RIGHT = {f"{kernel.__name__}-{args[0].dtype}": (kernel, reference, args) for kernel, reference, args in SEEDED.values()}


@pytest.mark.parametrize("wrong", SEEDED)
def test_wrong_kernels_are_found(wrong):
    kernel, reference, args = SEEDED[wrong]
    with pytest.raises(tessera.ReferenceMismatch) as raised:
        tessera.check(functools.partial(kernel, wrong), reference, *args)
    assert sum(verdict.wrong for verdict in raised.value.check.verdicts) > 0


@pytest.mark.parametrize("inputs", ["uniform", "cancellation", "integers", "wide", "special"])
@pytest.mark.parametrize("right", RIGHT)
def test_right_twins_pass(right, inputs):
    kernel, reference, args = RIGHT[right]
    if inputs == "special" and kernel is attention:
        pytest.skip("an infinite score is NaN in the naive softmax alone")
    found = tessera.check(functools.partial(kernel, None), reference, *args, inputs=inputs, seed=5)
    assert found.ok and found.verdicts[0].elems > 0


def add_one(x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return whole(body, x)


def test_the_worst_element_its_bound_and_the_step_that_wrote_it():
    with pytest.raises(tessera.ReferenceMismatch) as raised:
        tessera.check(functools.partial(matmul, "a step twice"), product, arg(256, 256), arg(256, 128))
    (verdict,) = raised.value.check.verdicts
    assert verdict.worst[0] >= 0 and verdict.wrong + verdict.within + verdict.exact == verdict.elems
    i = verdict.worst[0] // 128
    assert f"written at grid step (d0={i}, d1=0, d2=1)" in str(raised.value)
    assert " off, " in str(raised.value) and " allowed" in str(raised.value)


def test_nan_and_infinities_are_told_apart():
    def body(x_ref, o_ref):
        o_ref[...] = jnp.log(x_ref[...])

    x = np.full((8, 128), 2, np.float32)
    x[0, :3] = -1  # NaN on both sides below, on one side alone here
    x[1, :2] = 0
    with pytest.raises(tessera.ReferenceMismatch) as raised:
        tessera.check(lambda x: whole(body, x), lambda x: np.log(np.maximum(x, 1)), x)
    (verdict,) = raised.value.check.verdicts
    assert (verdict.nan, verdict.inf, verdict.wrong) == (3, 2, 5)
    assert "5 wrong (3 NaN on one side alone, 2 infinite on one side alone)" in str(raised.value)
    assert tessera.check(lambda x: whole(body, x), np.log, x).ok


def test_elements_may_be_moved_around_the_kernel():
    def moved(x):
        return add_one(jnp.pad(x.T, ((0, 4), (0, 0)))).T[:, :4].reshape(-1)

    x = np.random.default_rng(0).normal(size=(128, 4)).astype(np.float32)
    assert tessera.check(jax.jit(moved), lambda x: (x + 1).reshape(-1), x).verdicts[0].elems == 512
    with pytest.raises(tessera.ReferenceMismatch) as raised:
        tessera.check(moved, lambda x: (x + np.eye(128, 4)).reshape(-1), x)
    flat = raised.value.check.verdicts[0].worst[0]
    assert f"block [0, 0] of body's out0" in str(raised.value) and 0 <= flat < 512


def test_a_constant_stands_for_the_number_that_it_was_rounded_from():
    x = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    assert tessera.check(functools.partial(scaled, None), lambda x: x * 0.1, x).ok
    with pytest.raises(tessera.ReferenceMismatch):
        tessera.check(functools.partial(scaled, None), lambda x: x * 0.1000001, x)


def test_an_mxus_rounding_is_no_excuse_unless_it_is_asked_for():
    args = (np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32),) * 2
    assert tessera.check(functools.partial(matmul, None), product, *args).ok
    assert tessera.check(functools.partial(matmul, None), product, *args, profile="mxu").verdicts[0].within > 0


def test_what_cannot_be_judged_is_refused():
    x = np.ones((8, 128), np.float32)

    def refused(words, kernel, reference=lambda x: x + 1, *args, **settings):
        with pytest.raises(ValueError, match=words):
            tessera.check(kernel, reference, *(args or (x,)), **settings)

    refused("mul computes with what the kernel made", lambda x: 2 * add_one(x))
    refused("mul rounds before the kernel", lambda x: add_one(2 * x))
    refused("2 kernels ran", lambda x: add_one(add_one(x)))
    refused("no TPU kernel ran", lambda x: x + 1)
    refused("the reference gave float32", add_one, lambda x: (x + 1).astype(np.float32))
    refused("has shape", add_one, lambda x: x[0])
    refused("gave 2 arrays, the kernel 1", add_one, lambda x: (x, x))
    refused("inputs='gauss': one of uniform", add_one, inputs="gauss")
    refused("references are computed in 'f64'", add_one, dtype="f32")
    refused("check\\(\\) has no golden", add_one, golden="g")


def test_inputs_are_drawn_by_seed_and_integers_stay():
    def gathered(x, n):
        def body(n_ref, x_ref, o_ref):
            o_ref[...] = x_ref[...] + n_ref[0]

        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()])(n, x)

    seen = []

    def reference(x, n):
        seen.append((x, n))
        return x + n[0]

    x, n = np.zeros((8, 128), np.float32), np.array([3], np.int32)
    for seed in (1, 1, 2):
        assert tessera.check(gathered, reference, x, n, inputs="cancellation", seed=seed).ok
    (a, of_a), (b, _), (c, _) = seen
    assert np.array_equal(a, b) and not np.array_equal(a, c) and of_a.tolist() == [3]
    assert a.dtype == np.float64 and abs(a[:, ::2] + a[:, 1::2]).max() < 2**-11 < abs(a).max()


PLUGIN = """
import jax, numpy as np, pytest
from jax.experimental import pallas as pl

def add_one(x):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

x = np.ones((8, 128), np.float32)

@pytest.mark.tessera_reference(lambda x: x + 1)
def test_right(tessera_check):
    assert tessera_check(add_one, x, inputs="integers").verdicts[0].exact == x.size

@pytest.mark.tessera_reference(lambda x: x + 2)
@pytest.mark.tessera(device="tpu-v6e")
def test_wrong(tessera_check):
    tessera_check(add_one, x)

def test_without_a_mark(tessera_check):
    pass
"""


@pytest.mark.parametrize("options", [[], ["--tessera=tpu-v5e"]])
def test_the_mark_of_the_plugin(tmp_path, options):
    (tmp_path / "test_library.py").write_text(PLUGIN)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "tessera.pytest", "-q", *options, str(tmp_path)], cwd=tmp_path, env=env,
                          capture_output=True, text=True)
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout
    assert "1,024 wrong" in done.stdout and "tessera_check needs @pytest.mark.tessera_reference(function)" in done.stdout


def of_numpy(f):
    return lambda x, y: f(x)


# What kernels say, and what is meant.
FUNCTIONS = {
    "exp": (lambda x, y: jnp.exp(x), of_numpy(np.exp)),
    "exp of a sum": (lambda x, y: jnp.exp(x + y), lambda x, y: np.exp(x + y)),
    "exp2": (lambda x, y: jnp.exp2(x), of_numpy(np.exp2)),
    "log": (lambda x, y: jnp.log(jnp.abs(x) + 0.3), of_numpy(lambda x: np.log(np.abs(x) + 0.3))),
    "log1p": (lambda x, y: jnp.log1p(jnp.abs(x)), of_numpy(lambda x: np.log1p(np.abs(x)))),
    "sqrt": (lambda x, y: jnp.sqrt(jnp.abs(x)), of_numpy(lambda x: np.sqrt(np.abs(x)))),
    "rsqrt": (lambda x, y: jax.lax.rsqrt(x * x + 0.7), of_numpy(lambda x: 1 / np.sqrt(x * x + 0.7))),
    "tanh": (lambda x, y: jnp.tanh(x), of_numpy(np.tanh)),
    "logistic": (lambda x, y: jax.lax.logistic(x), of_numpy(lambda x: 1 / (1 + np.exp(-x)))),
    "division": (lambda x, y: x / (jnp.abs(y) + 0.1), lambda x, y: x / (np.abs(y) + 0.1)),
    "product of sums": (lambda x, y: (x + y) * (x - y), lambda x, y: (x + y) * (x - y)),
    "square": (lambda x, y: x * x * x, of_numpy(lambda x: x**3)),
    "greater": (lambda x, y: jnp.where(x > y, x, y), np.maximum),
    "largest of products": (lambda x, y: jnp.maximum(x * y, x * 0.3), lambda x, y: np.maximum(x * y, x * 0.3)),
    "row sums": (lambda x, y: (x * y).sum(1, keepdims=True) + x, lambda x, y: (x * y).sum(1, keepdims=True) + x),
    "rows less their maximum": (lambda x, y: x * 0.7 - (x * 0.7).max(1, keepdims=True), of_numpy(lambda x: 0.7 * (x - x.max(1, keepdims=True)))),
    "floor": (lambda x, y: x - jnp.floor(x), of_numpy(lambda x: x - np.floor(x))),
    "wide constant": (lambda x, y: x + 12345.678, of_numpy(lambda x: x + 12345.678)),
}


@pytest.mark.parametrize("inputs", ["uniform", "integers", "cancellation", "wide"])
def test_every_function_is_within_its_bound_of_the_real_one(inputs):
    def body(x_ref, y_ref, *o_refs):
        for (function, _), o_ref in zip(FUNCTIONS.values(), o_refs):
            o_ref[...] = function(x_ref[...], y_ref[...])

    def kernel(x, y):
        return pl.pallas_call(body, out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * len(FUNCTIONS))(x, y)

    def naive(x, y):
        return [reference(x, y) for _, reference in FUNCTIONS.values()]

    found = tessera.check(kernel, naive, arg(16, 128), arg(16, 128), inputs=inputs, seed=11)
    judged = dict(zip(FUNCTIONS, found.verdicts))
    assert [name for name, verdict in judged.items() if verdict.without_bound] == []
