"""stale-alias: a step adds to an aliased input's block, which keeps what it held before the step before it wrote. Each wrong
kernel loses updates in JAX's own TPU interpreter too; each right one is one line away."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

SHAPE = (32, 128)
rng = np.random.default_rng(5)
X = rng.standard_normal(SHAPE).astype(np.float32)
TERMS = rng.standard_normal((4, *SHAPE)).astype(np.float32)


def call(kernel, block=lambda i: (0, 0), steps=4, **more):
    """kernel(terms of this step, aliased x, o), whose x and o have the same block of 8 rows."""
    of_array = pl.BlockSpec((8, 128), block)
    return pl.pallas_call(
        kernel, grid=(steps,), in_specs=[pl.BlockSpec((None, 8, 128), lambda i: (i, 0, 0)), of_array], out_specs=of_array,
        out_shape=jax.ShapeDtypeStruct(SHAPE, jnp.float32), input_output_aliases={1: 0}, **more)(TERMS, X)


def warnings(kernel, **more):
    with tessera.simulate() as report:
        got = np.asarray(call(kernel, **more))
    assert report.warnings == [line for line in report.calls[0].json.get("notes", []) if line.startswith("stale-alias")]
    return got, report


def sums_from_the_input(t, x, o):
    o[...] = x[...] + t[...]


def sums_from_the_output(t, x, o):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = x[...]

    o[...] += t[...]


def test_a_sum_over_heads():
    got, report = warnings(sums_from_the_input)
    np.testing.assert_array_equal(got[:8], X[:8] + TERMS[3, :8])  # as on a TPU: three terms are lost
    said, = report.warnings
    assert said.startswith("stale-alias: out0 overwrites in1, and 3 steps lose what earlier ones wrote, 3,072 elements in all; "
                           "first in block (0, 0): grid (0) wrote it ("), said
    assert said.count("test_stale_alias.py:") == 2 and said.count("o[...] = x[...] + t[...]") == 2, said
    assert "and grid (1) anew, from what in1 held before (" in said and said in str(report), said
    got, report = warnings(sums_from_the_output)
    np.testing.assert_allclose(got[:8], X[:8] + TERMS[:, :8].sum(0), rtol=1e-5, atol=1e-5)
    assert report.warnings == []


def test_the_tpu_interpreter_loses_them_too():
    interpreted = call(sums_from_the_input, interpret=pltpu.InterpretParams()) if hasattr(pltpu, "InterpretParams") else None
    if interpreted is None:
        pytest.skip("this JAX has no interpreter of TPUs")
    np.testing.assert_array_equal(np.asarray(interpreted)[:8], X[:8] + TERMS[3, :8])


def test_rows_of_one_page():
    """A page's rows, put in one a step: the rest of the page is copied from where the row before is not."""
    def put(from_input):
        def kernel(t, x, o):
            i = pl.program_id(0)
            rows = jax.lax.broadcasted_iota(jnp.int32, (8, 128), 0)
            if from_input:
                rest = x[...]
            else:
                @pl.when(i == 0)
                def _():
                    o[...] = x[...]
                rest = o[...]
            o[...] = jnp.where(rows == i, t[...], rest)
        return kernel

    _, report = warnings(put(True))
    said, = report.warnings
    assert "3 steps lose what earlier ones wrote, 384 elements in all" in said, said
    got, report = warnings(put(False))
    want = X[:8].copy()
    for i in range(4):
        want[i] = TERMS[i, i]
    np.testing.assert_array_equal(got[:8], want)
    assert report.warnings == []


def other_block_each_step(t, x, o):
    o[...] = x[...] + t[...]


def residual_last(t, x, o):
    """The input as it was, on purpose: the output's sum is read."""
    i = pl.program_id(0)

    @pl.when(i == 0)
    def _():
        o[...] = t[...]

    @pl.when(i > 0)
    def _():
        o[...] += t[...]

    @pl.when(i == pl.num_programs(0) - 1)
    def _():
        o[...] += x[...]


def the_same_again(t, x, o):
    o[...] = x[...] * 2


def nothing_of_the_input(t, x, o):
    o[...] = t[...]


def other_rows_each_step(t, x, o):
    i = pl.program_id(0)

    @pl.when(i == 0)
    def _():
        o[...] = x[...]

    o[pl.ds(i, 1), :] = x[pl.ds(i, 1), :] + t[pl.ds(i, 1), :]


def once_at_the_end(t, x, o):
    @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
    def _():
        o[...] = x[...] + t[...]


@pytest.mark.parametrize("kernel, block", [
    (other_block_each_step, lambda i: (i, 0)), (residual_last, lambda i: (0, 0)), (the_same_again, lambda i: (0, 0)),
    (nothing_of_the_input, lambda i: (0, 0)), (other_rows_each_step, lambda i: (0, 0)), (once_at_the_end, lambda i: (0, 0))],
    ids=lambda of: of.__name__)
def test_nothing_is_lost(kernel, block):
    assert warnings(kernel, block=block)[1].warnings == []
