"""Draws small Pallas TPU kernels at random, lowers them as JAX does for a TPU, and writes each as the folder of a call.

    python tpu_compiler/draw_kernels.py --seed 1 --count 320 FOLDER

FOLDER/000_family/ holds kernel.mlirbc, config.json and meta.json (no arrays: nothing runs them). What JAX's lowering
refuses by itself is drawn again: a TPU's compiler never sees it. The same seed draws the same kernels. Needs jax alone.
--few-rows draws other kernels, which move windows and slices of arrays of 1 to 20 rows, and writes their arrays: for
predict/tpu_bytes.py. --lines draws copies of parts of arrays of one dim,
--pipelines kernels that do next to nothing in several steps, with arrays: for tpu_compiler/unit_costs.py.
"""
import argparse
import base64
import collections
import json
import os
import pathlib
import random
import re
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.pallas.mosaic import tpu_info
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hbm_operands import leave_in_hbm

CHIPS = {"v4": "TPU v4", "v5e": "TPU v5 lite", "v5p": "TPU v5p", "v6e": "TPU v6 lite", "tpu7x": "TPU7x"}
FLOATS = ["float32", "bfloat16", "float16"]
INTEGERS = ["int32", "int16", "int8", "uint32", "uint16", "uint8"]
NARROW = ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"]
ROWS = [1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 40, 64]
COLUMNS = [1, 8, 64, 100, 128, 130, 192, 256, 384]
FAMILIES = {}  # name: a function of a random.Random, which gives a call and its operands
FEW_ROWS = {}
LINES = {}
PIPELINES = {}


def family(draw):
    FAMILIES[draw.__name__] = draw
    return draw


def few_rows(draw):
    FEW_ROWS[draw.__name__] = draw
    return draw


def lines(draw):
    LINES[draw.__name__] = draw
    return draw


def pipelines(draw):
    PIPELINES[draw.__name__] = draw
    return draw


def shape_of(r, rank=None):
    """Mostly whole tiles; else anything."""
    rank = rank or r.choice([2, 2, 2, 3])
    if r.random() < 0.5:
        return tuple([2] * (rank - 2) + [r.choice([8, 16, 32, 64]), r.choice([128, 256])])
    return tuple([r.choice([2, 3])] * (rank - 2) + [r.choice(ROWS), r.choice(COLUMNS)])


def struct(shape, dtype):
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def whole(body, inputs, output, **settings):
    """Operands whole in VMEM; `body` of values."""
    def kernel(*refs):
        refs[-1][...] = body(*(x[...] for x in refs[:-1]))
    return pl.pallas_call(kernel, out_shape=output, **settings), inputs


def mapped(body, *inputs):
    """The same, with the result that the body gives."""
    return whole(body, inputs, jax.eval_shape(body, *inputs))


@family
def unary(r):
    op = r.choice([jnp.exp, jnp.exp2, jnp.log, jnp.log1p, jnp.tanh, jnp.sin, jnp.cos, lax.rsqrt, jnp.sqrt, jnp.abs, jnp.negative,
                   jnp.floor, jnp.ceil, jnp.round, jnp.sign, jax.nn.sigmoid, lax.erf, jnp.isnan, jnp.square, jnp.reciprocal])
    dtype = r.choice(FLOATS + FLOATS[:2] * 2 + (INTEGERS if op in (jnp.abs, jnp.negative, jnp.sign, jnp.square) else []))
    x = struct(shape_of(r), dtype)
    return mapped(lambda x: op(x).astype(jnp.int32 if op is jnp.isnan else dtype), x)


@family
def binary(r):
    dtype = r.choice(FLOATS + INTEGERS * 2)
    ops = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum]
    if dtype in FLOATS:
        ops += [jnp.divide, jnp.arctan2, jnp.power]
    else:
        ops += [lax.div, lax.rem, jnp.bitwise_and, jnp.bitwise_or, jnp.bitwise_xor, lax.shift_left,
                lax.shift_right_logical, lax.shift_right_arithmetic]
    op = r.choice(ops)
    x = struct(shape_of(r), dtype)
    return mapped(op, x, x)


@family
def compare(r):
    dtype = r.choice(FLOATS + INTEGERS)
    op = r.choice([jnp.less, jnp.equal, jnp.greater_equal, jnp.not_equal])
    x = struct(shape_of(r), dtype)
    how = r.choice(["select", "cast", "and"])
    if how == "cast":
        to = r.choice(["int32", "float32", "bfloat16", "int8"])
        return mapped(lambda x, y: op(x, y).astype(to), x, x)
    if how == "and":
        return mapped(lambda x, y: jnp.where(op(x, y) & (x == x), x, y), x, x)
    return mapped(lambda x, y: jnp.where(op(x, y), x, y), x, x)


@family
def cast(r):
    kinds = FLOATS + INTEGERS + NARROW
    source, to = r.sample(kinds, 2)
    return mapped(lambda x: x.astype(to), struct(shape_of(r, 2), source))


@family
def reduce(r):
    dtype = r.choice(FLOATS[:2] * 2 + FLOATS + INTEGERS[:3])
    op = r.choice([jnp.sum, jnp.max, jnp.min, jnp.sum, jnp.max, jnp.argmax, jnp.argmin, jnp.prod])
    shape = shape_of(r)
    axis = r.randrange(len(shape))
    keep = r.random() < 0.7
    return mapped(lambda x: op(x, axis=axis, keepdims=keep).astype(jnp.int32 if op in (jnp.argmax, jnp.argmin) else dtype),
                  struct(shape, dtype))


@family
def transpose(r):
    dtype = r.choice(FLOATS[:2] * 2 + INTEGERS[:3] + ["float8_e4m3fn"])
    shape = shape_of(r)
    axes = list(range(len(shape)))
    r.shuffle(axes)
    if len(shape) == 2:
        axes = [1, 0]
    return mapped(lambda x: jnp.transpose(x, axes), struct(shape, dtype))


@family
def reshape(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    a, b, c = r.choice([2, 4, 8]), r.choice([4, 8, 16]), r.choice([64, 128, 256])
    shapes = [(a, b, c), (a * b, c), (a, b * c), (b, a, c), (a * b * c // 128, 128), (1, a * b, c), (a * b, 1, c)]
    source, to = r.sample(shapes, 2)
    return mapped(lambda x: x.reshape(to), struct(source, dtype))


@family
def value_slice(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = shape_of(r)
    starts = [r.choice([0, 0, 1, 2, 3, n // 2]) % n for n in shape]
    limits = [s + r.randint(1, n - s) for s, n in zip(starts, shape)]
    return mapped(lambda x: lax.slice(x, starts, limits), struct(shape, dtype))


def extents(r, shape, aligned):
    """A static window in a shape: starts and sizes."""
    starts, sizes = [], []
    for n in shape:
        size = r.choice([n, n, max(1, n // 2), max(1, n - 3), 1])
        size = min(size, n)
        start = r.randint(0, n - size)
        if aligned:
            start -= start % (128 if n is shape[-1] else 8)
        starts.append(start)
        sizes.append(size)
    return starts, sizes


@family
def static_load(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = shape_of(r)
    starts, sizes = extents(r, shape, r.random() < 0.4)

    def kernel(x, o):
        o[...] = x[tuple(pl.ds(s, n) for s, n in zip(starts, sizes))]
    return pl.pallas_call(kernel, out_shape=struct(sizes, dtype)), (struct(shape, dtype),)


@family
def static_store(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = shape_of(r)
    starts, sizes = extents(r, shape, r.random() < 0.4)

    def kernel(x, o):
        o[...] = jnp.zeros(shape, dtype)
        o[tuple(pl.ds(s, n) for s, n in zip(starts, sizes))] = x[...]
    return pl.pallas_call(kernel, out_shape=struct(shape, dtype)), (struct(sizes, dtype),)


@family
def dynamic_slice(r):
    """Loads or stores at an offset from the grid: along rows, columns or the leading dim."""
    dtype = r.choice(["float32", "float32", "bfloat16", "int32", "int8"])
    rank = r.choice([2, 2, 3])
    axis = r.randrange(rank)
    step = r.choice([1, 2, 4, 8, 16, 32, 100, 128, 256])
    size = r.choice([step, step, 8, 16, 1, 128])
    steps = 3
    shape = [2, r.choice([8, 16, 32]), r.choice([128, 256])][3 - rank:]
    block = list(shape)
    shape[axis] = step * (steps - 1) + size
    block[axis] = size
    hint = r.random() < 0.6
    store = r.random() < 0.4

    def at(i):
        offset = i * step
        return tuple(pl.ds(pl.multiple_of(offset, step) if hint else offset, size) if d == axis else slice(None)
                     for d in range(rank))

    def load(x, o):
        o[...] = x[at(pl.program_id(0))]

    def keep(x, o):
        o[at(pl.program_id(0))] = x[...]
    inputs, output = (shape, block) if not store else (block, shape)
    every = [pl.BlockSpec(s, lambda i, n=len(s): (0,) * n) for s in (inputs, output)]
    return (pl.pallas_call(keep if store else load, grid=(steps,), in_specs=every[:1], out_specs=every[1],
                           out_shape=struct(output, dtype)), (struct(inputs, dtype),))


@family
def strided(r):
    dtype = r.choice(["float32", "float32", "int32", "bfloat16", "int8"])
    columns = r.choice([128, 128, 64, 256, 384])
    stride, size = r.choice([2, 3, 4, 8]), r.choice([4, 8, 16])
    start = r.choice([0, 1])
    store = r.random() < 0.4
    rows = stride * size + start

    def load(x, o):
        o[...] = x[pl.ds(start, size, stride), :]

    def keep(x, o):
        o[...] = jnp.zeros((rows, columns), dtype)
        o[pl.ds(start, size, stride), :] = x[...]
    wide, narrow = struct((rows, columns), dtype), struct((size, columns), dtype)
    return (pl.pallas_call(keep, out_shape=wide), (narrow,)) if store else (pl.pallas_call(load, out_shape=narrow), (wide,))


@family
def roll(r):
    dtype = r.choice(["float32", "float32", "int32", "bfloat16", "int8"])
    shape = shape_of(r)
    axis = r.randrange(len(shape))
    stride = r.choice([None, None, None, 1, 2])
    settings = {} if stride is None else {"stride": stride, "stride_axis": (axis + 1) % len(shape)}
    if r.random() < 0.5:
        by = r.choice([1, 2, 5, 8, 127])
        return mapped(lambda x: pltpu.roll(x, by, axis, **settings), struct(shape, dtype))

    def kernel(by, x, o):
        o[...] = pltpu.roll(x[...], by[0], axis, **settings)
    spec = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    return pl.pallas_call(kernel, in_specs=spec, out_shape=struct(shape, dtype)), (struct((1,), "int32"), struct(shape, dtype))


@family
def concatenate(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = list(shape_of(r))
    axis = r.randrange(len(shape))
    other = list(shape)
    other[axis] = r.choice([1, 8, 16, 100, 128])
    return mapped(lambda x, y: jnp.concatenate([x, y], axis), struct(shape, dtype), struct(other, dtype))


@family
def broadcast(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = list(shape_of(r))
    small = list(shape)
    for d in r.sample(range(len(shape)), r.choice([1, 1, 2])):
        small[d] = 1
    return mapped(lambda x, y: x + y, struct(shape, dtype), struct(small, dtype))


@family
def iota(r):
    dtype = r.choice(["int32", "int32", "float32", "int16", "int8", "uint32"])
    shape = shape_of(r)
    axis = r.randrange(len(shape))
    return mapped(lambda x: x + lax.broadcasted_iota(x.dtype, shape, axis), struct(shape, dtype))


@family
def product(r):
    left = r.choice(["float32", "bfloat16", "bfloat16", "int8", "int4", "float8_e4m3fn", "float8_e5m2", "float16", "uint8", "int16"])
    right = left if r.random() < 0.8 else r.choice(["float32", "bfloat16", "int8", "float8_e4m3fn", "int4"])
    m, k, n = r.choice([8, 16, 32, 100, 128]), r.choice([64, 128, 200, 256]), r.choice([64, 128, 130, 256])
    batch = r.choice([(), (), (), (2,)])
    a, b = r.choice([0, 1, 1, 1]), r.choice([0, 0, 1])
    x = batch + ((m, k) if a == 1 else (k, m))
    y = batch + ((k, n) if b == 0 else (n, k))
    dims = tuple(range(len(batch)))
    numbers = (((a + len(batch),), (b + len(batch),)), (dims, dims))
    out = r.choice(["float32", "float32", "bfloat16"]) if "int" not in left else "int32"
    precision = r.choice([None, None, lax.Precision.HIGHEST])
    return mapped(lambda x, y: lax.dot_general(x, y, numbers, precision=precision, preferred_element_type=out),
                  struct(x, left), struct(y, right))


@family
def gather(r):
    dtype = r.choice(["float32", "int32", "bfloat16"])
    shape = r.choice([(8, 128), (8, 128), (16, 128), (8, 256), (4, 128), (32, 128)])
    axis = r.randrange(2)
    return mapped(lambda x, i: jnp.take_along_axis(x, i, axis, mode="promise_in_bounds"), struct(shape, dtype), struct(shape, "int32"))


@family
def blocks(r):
    """Windows of a grid: their shapes against the array's tiles."""
    dtype = r.choice(["float32", "bfloat16", "int32", "int16", "int8", "uint8", "float8_e4m3fn", "int4"])
    rows, columns = r.choice([8, 16, 24, 32, 40, 64, 128]), r.choice([128, 256, 384])
    steps = r.choice([1, 2, 3, 4])
    rank3 = r.random() < 0.3
    how = r.choice(["rows", "columns", "whole rows"])
    array = {"rows": (rows * steps, columns), "columns": (rows, columns * steps), "whole rows": (steps * 2, rows, columns)}[how]
    block = {"rows": (rows, columns), "columns": (rows, columns), "whole rows": (2, rows, columns)}[how]
    if rank3 and how != "whole rows":
        array, block = (2, *array), (2, *block)
    at = {"rows": lambda i: (i, 0), "columns": lambda i: (0, i), "whole rows": lambda i: (i, 0, 0)}[how]
    index = (lambda i: (0, *at(i))) if len(block) > 2 and how != "whole rows" else at

    def kernel(x, o):
        o[...] = x[...]
    return (pl.pallas_call(kernel, grid=(steps,), in_specs=[pl.BlockSpec(block, index)], out_specs=pl.BlockSpec(block, index),
                           out_shape=struct(array, dtype)), (struct(array, dtype),))


@family
def vmem(r):
    """Windows and scratch about the limits."""
    MiB = 1 << 20
    limit = r.choice([None, None, 4 * MiB, 24 * MiB, 100 * MiB])
    total = r.choice([1, 3, 7, 10, 15, 17, 20, 30, 36, 60, 70]) * MiB
    scratch = int(total * r.choice([0, 0, 0.5, 0.9])) // 4096 * 4096
    buffered = r.choice([2, 2, 1])
    moves = r.random() < 0.7
    rows = max(8, (total - scratch) // (buffered if moves else 1) // 512 // 8 * 8)
    steps = 3

    def kernel(x, o, *scratches):
        for s in scratches:
            s[pl.ds(pl.multiple_of(pl.program_id(0) * 8, 8), 8), :] = x[0:8, :]
        o[...] = x[0:8, :]
        for s in scratches:
            o[...] += s[pl.ds(pl.multiple_of(pl.program_id(0) * 16, 8), 8), :]
    mode = {} if buffered == 2 else {"pipeline_mode": pl.Buffered(1)}
    spec = pl.BlockSpec((rows, 128), (lambda i: (i, 0)) if moves else (lambda i: (0, 0)), **mode)
    return (pl.pallas_call(kernel, grid=(steps,), in_specs=[spec], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
                           out_shape=struct((8 * steps, 128), "float32"),
                           scratch_shapes=[pltpu.VMEM((scratch // 512, 128), jnp.float32)] if scratch else [],
                           compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit)),
            (struct((rows * steps if moves else rows, 128), "float32"),))


@family
def copies(r):
    """DMA of a slice, static or by the grid."""
    dtype = r.choice(["float32", "float32", "bfloat16", "int32", "int8"])
    rank = r.choice([2, 2, 3])
    shape = [4, r.choice([16, 32, 64, 20]), r.choice([128, 256, 384, 200])][3 - rank:]
    axis = r.randrange(rank)
    size = r.choice([1, 2, 4, 8, 16, 128, shape[axis]])
    size = min(size, shape[axis])
    dynamic = r.random() < 0.5
    out = r.random() < 0.3
    start = r.choice([0, 0, 1, 4, 8, 128])
    start = min(start, shape[axis] - size)
    part = list(shape)
    part[axis] = size
    hint = r.random() < 0.5

    def kernel(x, o, buffer, semaphore):
        offset = start
        if dynamic:
            offset = pl.program_id(0) * size
            offset = pl.multiple_of(offset, size) if hint else offset
        where = tuple(pl.ds(offset, size) if d == axis else slice(None) for d in range(rank))
        if out:
            buffer[...] = jnp.zeros(part, dtype)
            copy = pltpu.make_async_copy(buffer, o.at[where], semaphore)
        else:
            copy = pltpu.make_async_copy(x.at[where], buffer, semaphore)
        copy.start()
        copy.wait()
    any_space = pl.BlockSpec(memory_space=pl.ANY)
    return (pl.pallas_call(kernel, grid=(1,), in_specs=[any_space], out_specs=any_space, out_shape=struct(shape, dtype),
                           scratch_shapes=[pltpu.VMEM(part, jnp.dtype(dtype)), pltpu.SemaphoreType.DMA]),
            (struct(shape, dtype),))


@family
def one_dim(r):
    dtype = r.choice(["float32", "float32", "int32", "bfloat16"])
    n = r.choice([128, 256, 1024, 100, 2048])
    op = r.choice(["add", "sum", "max", "row", "column"])
    x = struct((n,), dtype)
    if op == "add":
        return mapped(lambda x: x + x, x)
    if op == "row":
        return mapped(lambda x: x.reshape(1, n), x)
    if op == "column":
        return mapped(lambda x: x.reshape(n, 1), x)
    return mapped(lambda x: (jnp.sum if op == "sum" else jnp.max)(x, keepdims=True), x)


@family
def scalars(r):
    """Arithmetic on elements of SMEM."""
    dtype = r.choice(["float32", "int32", "int32", "bfloat16", "int8", "int16", "uint32"])
    ops = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum]
    ops += [jnp.exp, jnp.divide] if dtype in FLOATS else [lax.div, lax.rem, jnp.bitwise_and, lax.shift_left]
    op = r.choice(ops)

    def kernel(s, o):
        value = op(s[0]) if op is jnp.exp else op(s[0], s[1])
        o[...] = jnp.full((8, 128), value.astype(jnp.float32))
    return (pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)], out_shape=struct((8, 128), "float32")),
            (struct((4,), dtype),))


@family
def bitcast(r):
    source, to = r.choice([("float32", "int32"), ("bfloat16", "int16"), ("float32", "bfloat16"), ("bfloat16", "float32"),
                           ("int8", "int32"), ("int32", "int8"), ("int16", "int8"), ("float32", "uint32")])
    return mapped(lambda x: pltpu.bitcast(x, jnp.dtype(to)), struct(shape_of(r, 2), source))


@family
def repeat(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = shape_of(r)
    axis, times = r.randrange(len(shape)), r.choice([2, 3, 4])
    tile = r.random() < 0.5
    reps = [times if d == axis else 1 for d in range(len(shape))]
    return mapped(lambda x: jnp.tile(x, reps) if tile else jnp.repeat(x, times, axis), struct(shape, dtype))


@family
def loop(r):
    dtype = r.choice(["float32", "bfloat16", "int32", "int8"])
    shape = shape_of(r, 2)

    def kernel(n, x, o):
        o[...] = lax.fori_loop(0, n[0], lambda i, a: jnp.where(i > 2, a + x[...], a), x[...])
    spec = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    return pl.pallas_call(kernel, in_specs=spec, out_shape=struct(shape, dtype)), (struct((1,), "int32"), struct(shape, dtype))


@family
def running(r):
    dtype = r.choice(["float32", "int32", "bfloat16"])
    shape = shape_of(r, 2)
    axis = r.randrange(2)
    op = r.choice(["cumsum", "cumsum", "flip", "softmax", "norm"])
    if op == "cumsum":
        return mapped(lambda x: jnp.cumsum(x, axis).astype(dtype), struct(shape, dtype))
    if op == "flip":
        return mapped(lambda x: jnp.flip(x, axis), struct(shape, dtype))
    if op == "softmax":
        return mapped(lambda x: jax.nn.softmax(x.astype(jnp.float32), axis).astype(dtype), struct(shape, dtype))
    return mapped(lambda x: (x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), axis, keepdims=True))).astype(dtype),
                  struct(shape, dtype))


def array_of_few_rows(r):
    leading = [r.choice([2, 3, 4])] if r.random() < 0.4 else []
    return leading + [r.randint(1, 20), r.choice([100, 128, 200, 256, 384])], r.choice(["float32", "bfloat16", "int8"])


@few_rows
def windows(r):
    shape, dtype = array_of_few_rows(r)
    *leading, rows, columns = shape
    block = [r.choice([None, 1, n]) for n in leading] + [r.choice([rows, rows, 8, 16]), r.choice([columns, columns, 128, 256])]

    def kernel(x, o):
        o[...] = x[...]
    every = pl.BlockSpec(block, lambda *i: i)
    grid = [-(-n // (b or 1)) for n, b in zip(shape, block)]
    return pl.pallas_call(kernel, grid=grid, in_specs=[every], out_specs=every, out_shape=struct(shape, dtype)), (struct(shape, dtype),)


@few_rows
def slices(r):
    shape, dtype = array_of_few_rows(r)
    part, where = [], []
    for n, unit in zip(shape, [1] * (len(shape) - 2) + [4 // jnp.dtype(dtype).itemsize, 128]):
        size = n if r.random() < 0.5 else min(n, r.randint(1, n) // unit * unit or unit)
        start = r.randint(0, n - size) // unit * unit
        part.append(size)
        where.append(pl.ds(start, size))
    out = r.random() < 0.4

    def kernel(x, o, buffer, semaphore):
        if out:
            buffer[...] = jnp.zeros(part, dtype)
        ends = (buffer, o.at[tuple(where)]) if out else (x.at[tuple(where)], buffer)
        copy = pltpu.make_async_copy(*ends, semaphore)
        copy.start()
        copy.wait()
        if not out:
            o[...] = buffer[...]
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return (pl.pallas_call(kernel, grid=(1,), in_specs=[hbm], out_specs=hbm if out else pl.BlockSpec(part, lambda _: [0] * len(part)),
                           out_shape=struct(shape if out else part, dtype), input_output_aliases={0: 0} if out else {},
                           scratch_shapes=[pltpu.VMEM(part, jnp.dtype(dtype)), pltpu.SemaphoreType.DMA]), (struct(shape, dtype),))


@lines
def part(r):
    """A DMA of a part of an array of one dim, from or to VMEM or SMEM, of HBM's end or the other."""
    dtype = r.choice(["float32", "float32", "int32", "uint32", "bfloat16", "int16", "int8", "uint8"])
    tile = 512 // jnp.dtype(dtype).itemsize
    n = r.choice([r.randint(1, 5) * tile, r.randint(1, 12) * 100, r.choice([8, 32, 64, 96, 100, 1000, 2000])])
    size = min(n, r.choice([r.randint(1, n), r.randint(1, 4) * tile, r.choice([1, 8, 64, 128, 256]), n]))
    start = r.choice([0, n - size, (n - size) // tile * tile, r.randint(0, n - size)])
    dynamic, out, in_hbm = r.random() < 0.4, r.random() < 0.4, r.random() < 0.7
    multiple = r.choice([1, 8, 64, tile // 2, tile, tile, 2 * tile])
    space = r.choice([pltpu.VMEM, pltpu.VMEM, pltpu.SMEM])

    def kernel(at, x, o, buffer, semaphore):
        where = pl.ds(pl.multiple_of(at[0] * multiple, multiple) if dynamic else start, size)
        hbm = o if out else x
        ends = (hbm.at[where], buffer) if in_hbm else (hbm, buffer.at[where])
        copy = pltpu.make_async_copy(*(reversed(ends) if out else ends), semaphore)
        copy.start()
        copy.wait()
    hbm, smem = pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.SMEM)
    array = struct((n if in_hbm else size,), dtype)
    return (pl.pallas_call(kernel, grid=(1,), in_specs=[smem, hbm], out_specs=hbm, out_shape=array,
                           scratch_shapes=[space((size if in_hbm else n,), jnp.dtype(dtype)), pltpu.SemaphoreType.DMA]),
            (struct((1,), "int32"), array))


@lines
def scalars_of_part(r):
    """What is read of a part of SMEM, or of VMEM, is not copied."""
    n, size = r.choice([64, 128, 1000]), r.choice([8, 16, 32])
    start, smem = r.randint(0, n - size), r.random() < 0.7

    def kernel(x, o):
        part = x.at[pl.ds(start, size)]
        o[...] = jnp.full((8, 128), part[size // 2].astype(jnp.float32)) if smem else jnp.broadcast_to(part[...][:1], (8, 128))
    return (pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM if smem else pltpu.VMEM)],
                           out_shape=struct((8, 128), "float32")), (struct((n,), "int32" if smem else "float32"),))


@pipelines
def grid(r):
    """Windows that move by what program ids or prefetched arrays say, or stay."""
    steps = r.choice([(6,), (12,), (2, 4), (3, 3), (4, 4), (2, 2, 3), (1, 2, 5), (2, 2, 2, 2), (1, 3, 1, 4)])
    prefetched = r.choice([0, 0, 1, 2, 3])
    blocks = max(steps) * 2

    rows = r.choice([8, 8, 16])

    def window(reads):
        dims = [(r.choice(["id", "id", "id", "sum", "quotient", "minimum", "0"]) if not reads or r.random() < 0.4 else "load", r.randrange(len(steps)),
                 r.randrange(len(steps)), r.randrange(max(1, reads)), r.randint(2, 4)) for _ in range(r.choice([1, 1, 2, 2, 3]))]
        leading = [r.choice([None, 1]) for _ in dims[1:]]

        def index(*at):
            ids, refs = at[:len(steps)], at[len(steps):]
            where = []
            for kind, a, b, which, n in dims:
                where.append({"id": lambda: ids[a], "sum": lambda: ids[a] + ids[b], "quotient": lambda: ids[a] // n,
                              "minimum": lambda: jnp.minimum(ids[a] + 1, n), "0": lambda: 0,
                              "load": lambda: refs[which][ids[a] * (b + 1)].astype(jnp.int32)}[kind]())
            return (*where, 0)
        spec = pl.BlockSpec([*leading, rows, 128], index)
        return spec, struct([blocks] * len(leading) + [rows * blocks - r.choice([0, 0, 8]) * (rows > 8), 128], "float32"), leading, any(kind == "load" for kind, *_ in dims)
    # Queries, gradients and what follows from them often move alike.
    inputs = []
    for _ in range(r.choice([1, 2, 3, 4, 6, 8])):
        inputs.append(r.choice(inputs) if inputs and r.random() < 0.4 else window(prefetched))
    alike = [w for w in inputs if not w[3]]
    output = r.choice(alike) if alike and r.random() < 0.4 else window(0)

    def kernel(*refs):
        o = refs[-1]
        total = sum(x[tuple([0] * sum(n == 1 for n in leading) + [slice(None)] * 2)] for x, (_, _, leading, _) in zip(refs[prefetched:], inputs))
        o[...] = jnp.broadcast_to(total, o.shape)
    tables = [struct((blocks * 4,), r.choice(["int32", "int32", "int8"]))] * prefetched
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=prefetched, grid=steps, in_specs=[spec for spec, *_ in inputs], out_specs=output[0])
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=output[1]), (*tables, *(array for _, array, *_ in inputs))


@pipelines
def many_windows(r):
    """Up to 14 windows, several of them results; as many indices, or one for all."""
    steps = r.choice([(12,), (2, 6), (3, 4), (2, 2, 3), (1, 8), (2, 2, 2, 2)])
    prefetched = r.choice([0, 0, 1, 2])
    tables = [struct(r.choice([(16,), (steps[0], 16), (1, steps[0], 16)]), r.choice(["int32", "int8"])) for _ in range(prefetched)]

    def index(loads):
        kind = r.choice(["load"] * 2 * loads + ["id", "id", "pair", "behind", "behind", "first", "half"])
        by, which, table = r.randint(1, 5), r.randrange(len(steps)), r.randrange(max(1, prefetched))

        def at(*given):
            ids, refs = given[:len(steps)], given[len(steps):]
            if kind == "load":
                last = ids[-1] % 16 if len(steps) == 1 else ids[-1]
                return (refs[table][(0, ids[0], last)[3 - len(tables[table].shape):]].astype(jnp.int32), 0)
            return ({"id": lambda: ids[which], "pair": lambda: ids[0] * by + ids[-1], "behind": lambda: ids[-1] + by, "first": lambda: ids[0],
                     "half": lambda: ids[-1] // 2}[kind](), 0)
        return at
    inputs, results = r.randint(1, 11), r.choice([1, 1, 2, 3])
    indices = [index(prefetched) for _ in range(r.randint(1, inputs))]
    of_inputs = indices + [r.choice(indices) for _ in range(inputs - len(indices))]
    of_results = [index(0) for _ in range(r.randint(1, results))]
    of_results += [r.choice(of_results) for _ in range(results - len(of_results))]
    array = struct((8 * 80, 128), "float32")

    def kernel(*refs):
        total = sum(x[...] for x in refs[prefetched:-results])
        for o in refs[-results:]:
            o[...] = total
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=prefetched, grid=steps, in_specs=[pl.BlockSpec((8, 128), at) for at in of_inputs],
                                        out_specs=[pl.BlockSpec((8, 128), at) for at in of_results])
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=[array] * results), (*tables, *([array] * inputs))


def lowered(call, operands):
    """The custom call's module, its configuration, what it takes and gives, and where; what JAX refuses is raised."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo as hlo
    module = jax.jit(call).trace(*operands).lower(lowering_platforms=("tpu",)).compiler_ir()
    found = []

    def visit(op):
        if op.operation.name == "stablehlo.custom_call":
            found.append(op.operation)
        return ir.WalkResult.ADVANCE
    module.operation.walk(visit)
    (call,) = found
    config = json.loads(ir.StringAttr(call.attributes["backend_config"]).value)
    body = base64.b64decode(config["custom_call_config"].pop("body"))

    def described(values):
        types = [ir.RankedTensorType(v.type) for v in values]
        return [{"dtype": str(t.element_type), "shape": list(t.shape)} for t in types]
    aliases = [{"operand": a.operand_index, "result": (a.output_tuple_indices or [0])[0]}
               for a in map(hlo.OutputOperandAlias, call.attributes["output_operand_aliases"])]
    return body, config, described(call.operands), described(call.results), aliases


def write(folder, chip, kernel, prefetched=0):
    body, config, operands, results, aliases = kernel
    folder.mkdir(parents=True)
    (folder / "kernel.mlirbc").write_bytes(body)
    (folder / "config.json").write_text(json.dumps(config) + "\n")
    (folder / "meta.json").write_text(json.dumps({
        "num_devices": 1, "cores": 1, "chip": chip, "num_dynamic_grid_bounds": 0, "num_inputs": len(operands) - prefetched,
        "operands": operands, "results": results, "custom_call": {"aliases": aliases}}) + "\n")


def draw(seed, count, folder, families, arrays):
    r = random.Random(seed)
    refused = collections.Counter()
    chip = None
    tpu_info.get_device_kind = lambda: CHIPS[chip]
    tpu_info.get_num_device_cores = lambda: 1
    if folder.exists():
        shutil.rmtree(folder)
    drawn = 0
    names = list(families)
    while drawn < count:
        name = names[drawn % len(names)]
        chip = r.choice(list(CHIPS))
        try:
            call, operands = families[name](r)
            kernel = lowered(call, operands)
        except Exception as error:  # JAX's own verdict
            refused[f"{name}: {type(error).__name__}"] += 1
            if os.environ.get("DRAW_VERBOSE"):
                print(name, re.sub(r"\s+", " ", str(error))[:200])
            continue
        prefetched = sum(o.dtype != np.float32 for o in operands) if families is PIPELINES else 0
        if families is PIPELINES:
            leave_in_hbm(kernel[1], len(operands), len(kernel[3]), prefetched)
        write(folder / f"{drawn:03}_{name}", chip, kernel, prefetched)
        for i, operand in enumerate(operands if arrays else []):
            values = np.zeros(operand.shape, operand.dtype)
            if families is PIPELINES and operand.dtype != np.float32:
                values.flat = np.arange(values.size) // r.randint(1, 4) % 4  # blocks that stay for some steps
            np.save(folder / f"{drawn:03}_{name}" / f"in{i}.npy", values)
        drawn += 1
    print(f"{drawn} kernels of {len(names)} families; JAX's lowering refused {sum(refused.values())} more")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--few-rows", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--pipelines", action="store_true")
    arguments = parser.parse_args()
    families = FEW_ROWS if arguments.few_rows else LINES if arguments.lines else PIPELINES if arguments.pipelines else FAMILIES
    draw(arguments.seed, arguments.count, arguments.folder, families, arguments.few_rows or arguments.pipelines)


if __name__ == "__main__":
    main()
