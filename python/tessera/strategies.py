"""Strategies of hypothesis for kernels: shapes, and block shapes that a TPU takes, which shrink to the smallest wrong case.

    from hypothesis import given
    from tessera import strategies as tpu

    @given(tpu.problems(rank=2), tpu.inputs())
    def test_scale(problem, drawn):
        x = jax.ShapeDtypeStruct(problem.shape, problem.dtype)
        tessera.check(lambda x: scale(x, block=problem.block), lambda x: 2 * x, x, **drawn)

A block is legal if each of its last two dims is a whole number of a register's tiles (8 x 128 of f32, 16 x 128 of bf16, ...) or
all of the array's, and if two of it, which the pipeline holds, leave room for other operands.
"""
import dataclasses

import numpy as np

from tessera._check import INPUTS

try:
    from hypothesis import strategies as st
except ImportError as e:
    raise ImportError("tessera.strategies needs hypothesis: pip install hypothesis") from e

__all__ = ["Problem", "blocks", "inputs", "problems", "shapes"]

_LANES = 128
_SUBLANE_BYTES = 32  # 8 rows of f32
_MOST_BYTES = 2 << 20  # of a block: two each of four operands fill the 16 MiB that kernels get unless they ask


@dataclasses.dataclass(frozen=True)
class Problem:
    """An array's shape and dtype, and the block that a kernel takes of it at a time."""

    shape: tuple
    block: tuple
    dtype: np.dtype

    @property
    def grid(self):
        return tuple(-(-size // b) for size, b in zip(self.shape, self.block))


def shapes(rank=2, most=512, multiple_of=1):
    """Tuples of `rank` sizes up to `most`. multiple_of=128: whole tiles alone."""
    return st.tuples(*[st.integers(1, most // multiple_of).map(lambda n: n * multiple_of)] * rank)


@st.composite
def blocks(draw, shape, dtype=np.float32, most_bytes=_MOST_BYTES):
    """Legal blocks of an array, at most `most_bytes` large where one of a single tile's rows is not larger."""
    dtype = np.dtype(dtype)
    if len(shape) < 2:
        raise ValueError(f"blocks of {shape}: the rules are those of arrays of two dims and more")
    units = [1] * (len(shape) - 2) + [_SUBLANE_BYTES // dtype.itemsize, _LANES]
    left = most_bytes // dtype.itemsize
    block = []
    for size, unit in reversed(list(zip(shape, units))):
        fits = max(1, min(size, left) // unit)
        choices = sorted({*(n * unit for n in range(1, fits + 1) if n * unit < size), *([size] if size <= max(left, unit) else [])})
        block.insert(0, draw(st.sampled_from(choices or [size])))
        left = max(1, left // block[0])
    return tuple(block)


@st.composite
def problems(draw, rank=2, most=512, dtypes=(np.float32,), multiple_of=1, most_bytes=_MOST_BYTES):
    dtype = np.dtype(draw(st.sampled_from(list(dtypes))))
    shape = draw(shapes(rank, most, multiple_of))
    return Problem(shape, draw(blocks(shape, dtype, most_bytes)), dtype)


def inputs(kinds=INPUTS[:4]):
    """Keyword arguments of tessera.check(): what is drawn, and its seed. By default what no kernel overflows from."""
    return st.fixed_dictionaries({"inputs": st.sampled_from(list(kinds)), "seed": st.integers(0, 2**16)})
