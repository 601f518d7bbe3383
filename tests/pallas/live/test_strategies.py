"""tessera.strategies: what is drawn is legal and runs, and shrinks to the smallest case."""
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import tessera


def test_without_hypothesis_the_error_says_what_to_install():
    code = ("import sys; sys.modules['hypothesis'] = None; sys.path[:0] = " + repr([p for p in sys.path if p])
            + "; import tessera.strategies")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "tessera.strategies needs hypothesis: pip install hypothesis" in done.stderr


hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402

import tessera.strategies as tpu  # noqa: E402

few = settings(max_examples=12, deadline=None, database=None, derandomize=True)


def doubled(problem, x):
    def body(x_ref, o_ref):
        o_ref[...] = (x_ref[...].astype(jnp.float32) * 2).astype(o_ref.dtype)

    spec = pl.BlockSpec(problem.block, lambda i, j: (i, j))
    return pl.pallas_call(body, grid=problem.grid, in_specs=[spec], out_specs=spec,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@few
@given(tpu.problems(most=300, dtypes=(np.float32, jnp.bfloat16)), tpu.inputs())
def test_what_is_drawn_runs(problem, drawn):
    x = jax.ShapeDtypeStruct(problem.shape, problem.dtype)
    assert tessera.check(lambda x: doubled(problem, x), lambda x: 2 * x, x, **drawn).ok


def test_what_fails_shrinks_to_the_smallest_grid():
    problem = hypothesis.find(tpu.problems(most=256), lambda problem: problem.grid[0] > 1, settings=settings(few, max_examples=100))
    assert problem.shape == (9, 1) and problem.block == (8, 1)


@given(tpu.problems(rank=3, most=4096, dtypes=(np.float32, jnp.bfloat16, np.int8), most_bytes=1 << 20))
@settings(max_examples=50, deadline=None, database=None, derandomize=True)
def test_blocks_are_of_whole_tiles_or_of_the_array_and_fit(problem):
    rows, cols = problem.block[-2:]
    assert rows == problem.shape[-2] or rows % (32 // problem.dtype.itemsize) == 0
    assert cols == problem.shape[-1] or cols % 128 == 0
    assert all(0 < b <= max(size, 1) for b, size in zip(problem.block, problem.shape))
    smallest = min(problem.shape[-2], 32 // problem.dtype.itemsize) * min(problem.shape[-1], 128) * problem.dtype.itemsize
    assert np.prod(problem.block) * problem.dtype.itemsize <= max(1 << 20, smallest)


def test_arrays_of_one_dim_are_refused():
    with pytest.raises(ValueError, match="two dims and more"):
        hypothesis.find(tpu.blocks((128,)), lambda block: True)
