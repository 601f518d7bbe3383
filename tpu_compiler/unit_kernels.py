"""Small Pallas TPU kernels of one operation each, and what of each unit the TPU's compiler uses for them.

    python tpu_compiler/unit_kernels.py FOLDER [--chip v5e] [--only WORD]
    python tpu_compiler/unit_kernels.py FOLDER --calls CALL...

FOLDER/0000_name/ holds the call (kernel.mlirbc, config.json, meta.json, zeros as inputs) and schedule.json: bundles of the kernel and
the slots of each unit in them. Kernels have neither grid nor loop: every bundle runs once, so that bundles are cycles but for
waits. With --calls, kernels that draw_kernels.py drew are measured instead, those without a branch. What was asked is not asked again, and
the compiler aborts on some, or never ends: start it again until it ends. Needs jax and libtpu; what of a listing is read is its columns of slots and its branches.
"""
import argparse
import base64
import faulthandler
import functools
import itertools
import json
import pathlib
import random
import re
import sys
import tempfile

import ask

LISTINGS = tempfile.mkdtemp(prefix="tessera-units-")
ask.prepare(LISTINGS, schedule=True)  # before jax is imported

import draw_kernels as draw  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

F32, BF16, I32, I16, I8 = "float32", "bfloat16", "int32", "int16", "int8"
SHAPES = [(8, 128), (64, 256), (96, 512)]
NARROW_SHAPES = [(32, 128), (64, 256), (192, 512)]
KERNELS = []


def add(name, body, *inputs):
    KERNELS.append((name, body, [draw.struct(shape, dtype) for shape, dtype in inputs]))


def shapes_of(dtype):
    return SHAPES if jnp.dtype(dtype).itemsize == 4 else NARROW_SHAPES


def elementwise():
    unary = {"exp": jnp.exp, "exp2": jnp.exp2, "log": jnp.log, "log1p": jnp.log1p, "tanh": jnp.tanh, "rsqrt": lax.rsqrt,
             "sqrt": jnp.sqrt, "abs": jnp.abs, "neg": jnp.negative, "floor": jnp.floor, "ceil": jnp.ceil, "round": jnp.round,
             "logistic": jax.nn.sigmoid, "erf": lax.erf, "sin": jnp.sin, "cos": jnp.cos,
             "reciprocal": lambda x: pl.reciprocal(x, approx=False), "approximate": lambda x: pl.reciprocal(x, approx=True)}
    for name, op in unary.items():
        for dtype in (F32, BF16):
            for shape in shapes_of(dtype):
                add(f"{name}_{dtype}", op, (shape, dtype))
    for shape in SHAPES:
        add("abs_int32", jnp.abs, (shape, I32))
    binary = {"add": lax.add, "sub": lax.sub, "mul": lax.mul, "max": lax.max, "min": lax.min}
    for name, op in binary.items():
        for dtype in (F32, BF16, I32, I16, I8):
            for shape in shapes_of(dtype):
                add(f"{name}_{dtype}", op, (shape, dtype), (shape, dtype))
    for name, op in {"div": lax.div, "pow": jnp.power}.items():
        for dtype in (F32, BF16):
            for shape in shapes_of(dtype):
                add(f"{name}_{dtype}", op, (shape, dtype), (shape, dtype))
    for name, op in {"div": lax.div, "rem": lax.rem}.items():
        for shape in SHAPES:
            add(f"{name}_int32", op, (shape, I32), (shape, I32))
            add(f"{name}_uint32", op, (shape, "uint32"), (shape, "uint32"))
    bits = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "shl": lax.shift_left,
            "shrl": lax.shift_right_logical, "shra": lax.shift_right_arithmetic}
    for name, op in bits.items():
        for dtype in (I32, I16, I8):
            for shape in shapes_of(dtype):
                add(f"{name}_{dtype}", op, (shape, dtype), (shape, dtype))
    for by in (3, 13, 16, 29):
        for shape in SHAPES:
            add(f"shl_constant{by}", lambda x, by=by: lax.shift_left(x, jnp.int32(by)), (shape, I32))
            add(f"shrl_constant{by}", lambda x, by=by: lax.shift_right_logical(x, jnp.int32(by)), (shape, I32))
    for shape in SHAPES:
        add("mul_constant", lambda x: x * jnp.int32(-766435501), (shape, I32))
        add("xor_constant", lambda x: x ^ jnp.int32(-766435501), (shape, I32))
        add("add_constant", lambda x: x + jnp.int32(466688986), (shape, I32))
        add("mul_constant_float32", lambda x: x * 1.375, (shape, F32))
        for factor in (8, 81, 8019, 0xd251):
            add(f"mul_constant{factor}", lambda x, factor=factor: x * jnp.int32(factor), (shape, I32))
    # Chains as of a generator of random numbers.
    def rounds(n):
        def body(x, y):
            for i in range(n):
                x = x + y
                r = (13, 15, 26, 6)[i % 4]
                y = lax.shift_left(y, jnp.int32(r)) | lax.shift_right_logical(y, jnp.int32(32 - r))
                y = x ^ y
            return x ^ y
        return body
    for n in (1, 4, 12):
        for shape in SHAPES[:2]:
            add(f"rounds{n}", rounds(n), (shape, I32), (shape, I32))
    def high(x, y):
        a, b = lax.shift_right_logical(x, jnp.int32(16)), x & 0xffff
        c, d = lax.shift_right_logical(y, jnp.int32(16)), y & 0xffff
        return a * c + lax.shift_right_logical(b * d + a * d + b * c, jnp.int32(16))
    for shape in SHAPES:
        add("high", high, (shape, I32), (shape, I32))
    compares = {"lt": lax.lt, "eq": lax.eq, "ge": lax.ge, "ne": lax.ne}
    for name, op in compares.items():
        for dtype in (F32, BF16, I32, I16, I8):
            for shape in shapes_of(dtype):
                add(f"{name}_select_{dtype}", lambda x, y, op=op: jnp.where(op(x, y), x, y), (shape, dtype), (shape, dtype))
    for dtype in (F32, I32):
        for shape in SHAPES:
            add(f"mask_and_{dtype}", lambda x, y: jnp.where((x < y) & (y > 3), x, y), (shape, dtype), (shape, dtype))
            add(f"mask_or_{dtype}", lambda x, y: jnp.where((x < y) | (y > 3), x, y), (shape, dtype), (shape, dtype))
            add(f"mask_cast_{dtype}", lambda x, y: (x < y).astype(x.dtype), (shape, dtype), (shape, dtype))
    for source in (F32, BF16, I32, I16, I8):
        for to in (F32, BF16, I32, I16, I8):
            if source == to:
                continue
            for shape in NARROW_SHAPES:
                add(f"cast_{source}_{to}", lambda x, to=to: x.astype(to), (shape, source))
    for dtype in (F32, BF16, I32, I8):
        for shape in shapes_of(dtype) + [(256, 512)]:
            add(f"copy_{dtype}", lambda x: x, (shape, dtype))
    for source, to in ((F32, I32), (BF16, I16), (BF16, F32), (F32, BF16)):
        for shape in NARROW_SHAPES:
            add(f"bitcast_{source}_{to}", lambda x, to=to: pltpu.bitcast(x, jnp.dtype(to)), (shape, source))
    for shape in SHAPES:
        for dim in (0, 1):
            add(f"iota{dim}", lambda x, shape=shape, dim=dim: x + lax.broadcasted_iota(jnp.int32, shape, dim), (shape, I32))
            add(f"causal{dim}", lambda x, shape=shape: jnp.where(
                lax.broadcasted_iota(jnp.int32, shape, 0) >= lax.broadcasted_iota(jnp.int32, shape, 1), x, -1e30), (shape, F32))


def reductions():
    for name, op in {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}.items():
        for dtype in (F32, BF16, I32):
            for shape in shapes_of(dtype) + [(256, 128), (128, 1024)]:
                for axis in (0, 1):
                    if dtype == I32 and name == "sum" and axis == 1:
                        continue
                    add(f"{name}{axis}_{dtype}", lambda x, op=op, axis=axis: op(x, axis=axis, keepdims=True).astype(x.dtype),
                        (shape, dtype))
    for shape in SHAPES:
        add("argmax1", lambda x: jnp.argmax(x, axis=1, keepdims=True).astype(jnp.int32), (shape, F32))
        add("argmax0", lambda x: jnp.argmax(x, axis=0, keepdims=True).astype(jnp.int32), (shape, F32))
        add("leading_sum", lambda x: jnp.sum(x, axis=0), ((4, *shape), F32))
        add("leading_max", lambda x: jnp.max(x, axis=0), ((4, *shape), F32))
        add("sum_to_one", lambda x: jnp.sum(x).reshape(1, 1), (shape, F32))


def moves():
    for dtype in (F32, BF16, I32, I8):
        for shape in shapes_of(dtype):
            add(f"broadcast_rows_{dtype}", lambda x, y: x + y, (shape, dtype), ((1, shape[1]), dtype))
            add(f"broadcast_columns_{dtype}", lambda x, y: x + y, (shape, dtype), ((shape[0], 1), dtype))
            add(f"broadcast_leading_{dtype}", lambda x, y: x + y, ((3, *shape), dtype), ((1, *shape), dtype))
    for dtype in (F32, BF16, I32, I8):
        for shape in [(8, 128), (32, 128), (128, 128), (128, 256), (256, 256), (64, 512), (128, 64)]:
            add(f"transpose_{dtype}", jnp.transpose, (shape, dtype))
    for dtype in (F32, BF16):
        for shape in [(2, 32, 128), (4, 128, 128), (8, 16, 256)]:
            add(f"transpose_batch_{dtype}", lambda x: jnp.transpose(x, (0, 2, 1)), (shape, dtype))
            add(f"transpose_leading_{dtype}", lambda x: jnp.transpose(x, (1, 0, 2)), (shape, dtype))
    for dtype in (F32, I32, BF16):
        for shape in shapes_of(dtype):
            for axis in (0, 1):
                for by in (1, 8):
                    add(f"roll{axis}_{by}_{dtype}", lambda x, by=by, axis=axis: pltpu.roll(x, by, axis), (shape, dtype))
    for dtype in (F32, BF16, I8):
        for shape in shapes_of(dtype):
            r, c = shape
            add(f"slice_half_{dtype}", lambda x: x[: x.shape[0] // 2], (shape, dtype))
            add(f"slice_rows1_{dtype}", lambda x: x[1:], (shape, dtype))
            add(f"slice_lanes1_{dtype}", lambda x: x[:, 1:], (shape, dtype))
            add(f"slice_lanes64_{dtype}", lambda x: x[:, 64:], (shape, dtype))
            add(f"concatenate0_{dtype}", lambda x, y: jnp.concatenate([x, y], 0), (shape, dtype), (shape, dtype))
            add(f"concatenate1_{dtype}", lambda x, y: jnp.concatenate([x, y], 1), (shape, dtype), (shape, dtype))
            add(f"concatenate1_64_{dtype}", lambda x, y: jnp.concatenate([x, y], 1), ((r, 64), dtype), ((r, 64), dtype))
            add(f"concatenate0_odd_{dtype}", lambda x, y: jnp.concatenate([x, y], 0), ((r - 3, c), dtype), ((r, c), dtype))
            add(f"repeat0_{dtype}", lambda x: jnp.tile(x, (2, 1)), (shape, dtype))
            add(f"repeat1_{dtype}", lambda x: jnp.tile(x, (1, 3)), (shape, dtype))
            add(f"repeat_elements0_{dtype}", lambda x: jnp.repeat(x, 2, 0), (shape, dtype))
            add(f"repeat_elements1_{dtype}", lambda x: jnp.repeat(x, 2, 1), ((r, 128), dtype))
            add(f"flat_{dtype}", lambda x: x.reshape(1, -1), ((r, 128), dtype))
            add(f"column_to_row_{dtype}", lambda x: x.reshape(1, -1), ((r, 1), dtype))
            add(f"row_to_column_{dtype}", lambda x: x.reshape(-1, 1), ((1, r), dtype))
            add(f"split_rows_{dtype}", lambda x: x.reshape(x.shape[0] // 8, 8, x.shape[1]), (shape, dtype))
            add(f"split_rows4_{dtype}", lambda x: x.reshape(x.shape[0] // 4, 4, x.shape[1]), (shape, dtype))
            add(f"merge_lanes_{dtype}", lambda x: x.reshape(x.shape[0] // 2, -1), ((r, 128), dtype))
            add(f"split_lanes_{dtype}", lambda x: x.reshape(x.shape[0], 2, -1), ((r, 256), dtype))
            add(f"row_of_one_{dtype}", lambda x: x.reshape(x.shape[0], 1, x.shape[1]), (shape, dtype))
    for shape in [(8, 128), (16, 128), (32, 128), (8, 256)]:
        for axis in (0, 1):
            add(f"gather{axis}", lambda x, i, axis=axis: jnp.take_along_axis(x, i, axis, mode="promise_in_bounds"),
                (shape, F32), (shape, I32))
    for shape in SHAPES:
        for axis in (0, 1):
            add(f"cumsum{axis}", lambda x, axis=axis: jnp.cumsum(x, axis), (shape, F32))


def refs():
    """Slices of refs: aligned to tiles or not."""
    def of(kernel, name, inputs, output):
        KERNELS.append((name, kernel, [draw.struct(s, d) for s, d in inputs], draw.struct(*output)))
    for dtype in (F32, BF16, I8):
        for rows, columns in [(32, 128), (64, 256), (128, 512)]:
            for first, lane in ((0, 0), (1, 0), (8, 0), (0, 128), (0, 64), (3, 64)):
                def load(x, o, first=first, lane=lane):
                    o[...] = x[first:first + o.shape[0], lane:lane + o.shape[1]]

                def store(x, o, first=first, lane=lane):
                    o[first:first + x.shape[0], lane:lane + x.shape[1]] = x[...]
                large = ((rows + 16, columns + 128), dtype)
                small = ((rows, columns), dtype)
                of(load, f"load_{first}_{lane}_{dtype}", [large], small)
                of(store, f"store_{first}_{lane}_{dtype}", [small], large)
    for rows in (8, 64):
        for stride in (2, 4):
            def strided(x, o, stride=stride):
                o[...] = x[pl.ds(0, o.shape[0], stride), :]
            of(strided, f"strided{stride}", [((rows * stride, 128), F32)], ((rows, 128), F32))
    for n in (1, 16, 64):
        def accumulate(x, o, n=n):
            for _ in range(4):
                o[...] += x[...]
        of(accumulate, "accumulate", [((8 * n, 128), F32)], ((8 * n, 128), F32))

        def filled(x, o):
            o[...] = jnp.full(o.shape, x[0, 0])
        of(filled, "filled", [((8, 128), F32)], ((8 * n, 128), F32))

        def zeros(x, o):
            o[...] = jnp.zeros_like(o)
        of(zeros, "zeros", [((8, 128), F32)], ((8 * n, 128), F32))


def more():
    """What real kernels have besides."""
    for shape in SHAPES:
        add("more_div", lambda x: lax.div(x, jnp.int32(7)), (shape, I32))
        add("more_rem", lambda x: lax.rem(x, jnp.int32(7)), (shape, I32))
        add("more_floor_div", lambda x: x // 8, (shape, I32))
    for m, k, n in [(8, 128, 128), (64, 128, 128), (128, 128, 128), (128, 256, 128), (128, 128, 256), (256, 256, 256), (512, 128, 128)]:
        for rhs, numbers in (((k, n), (((1,), (0,)), ((), ()))), ((n, k), (((1,), (1,)), ((), ())))):
            add("more_dot", lambda x, y, numbers=numbers: lax.dot_general(x, y, numbers, preferred_element_type=jnp.float32),
                ((m, k), F32), (rhs, BF16))
    for dtype in (I16, "float8_e4m3fn"):
        for shape in [(32, 128), (128, 128), (128, 256), (64, 512)]:
            add(f"more_transpose_{dtype}", jnp.transpose, (shape, dtype))
    for shape in NARROW_SHAPES:
        add("more_f8", lambda x: x.astype(jnp.float32), (shape, "float8_e4m3fn"))
        add("more_f8", lambda x: x.astype(jnp.bfloat16), (shape, "float8_e4m3fn"))
        for dtype in (F32, BF16):
            add("more_line", lambda x: jnp.sum(x.astype(jnp.float32), 1), (shape, dtype))
            add("more_line", lambda x: jnp.max(x, 0), (shape, dtype))


def rare():
    """What few kernels have, or only in a type or a shape that few have."""
    for dtype in (F32, BF16):
        for shape in shapes_of(dtype):
            add(f"rare_atan2_{dtype}", jnp.arctan2, (shape, dtype), (shape, dtype))
            add(f"rare_sign_{dtype}", jnp.sign, (shape, dtype))
            add(f"rare_nan_{dtype}", lambda x: jnp.isnan(x).astype(jnp.int32), (shape, dtype))
            add(f"rare_tan_{dtype}", lambda x: jnp.sin(x) / jnp.cos(x), (shape, dtype))
    for left, right in (("float8_e4m3fn",) * 2, ("float8_e5m2",) * 2, ("int4",) * 2, (BF16, I8), (BF16, "float8_e4m3fn"), (BF16, F32)):
        out = "int32" if left == "int4" else F32
        for m, k, n in [(16, 128, 128), (64, 128, 128), (128, 256, 128), (128, 128, 256), (256, 256, 256), (512, 128, 128)]:
            for rhs, numbers in (((k, n), (((1,), (0,)), ((), ()))), ((n, k), (((1,), (1,)), ((), ())))):
                add(f"rare_dot_{left}_{right}", lambda x, y, numbers=numbers, out=out: lax.dot_general(
                    x, y, numbers, preferred_element_type=out), ((m, k), left), (rhs, right))
    for dtype in (F32, BF16, I8):
        for m, k, n in [(64, 128, 128), (128, 256, 128), (128, 128, 256)]:
            out = "int32" if dtype == I8 else F32
            add(f"rare_dot_left_{dtype}", lambda x, y, out=out: lax.dot_general(
                x, y, (((0,), (0,)), ((), ())), preferred_element_type=out), ((k, m), dtype), ((k, n), dtype))
            add(f"rare_dot_batch_{dtype}", lambda x, y, out=out: lax.dot_general(
                x, y, (((2,), (1,)), ((0,), (0,))), preferred_element_type=out), ((2, m, k), dtype), ((2, k, n), dtype))
    for source, to in (("int4", I8), ("int4", I32), ("int4", BF16), ("int4", F32), (I8, "int4"), (I32, "int4"), ("float16", F32), (F32, "float16"),
                       ("float8_e5m2", F32), (F32, "float8_e5m2"), ("float8_e5m2", BF16), (BF16, "float8_e4m3fn"), (F32, "float8_e4m3fn"),
                       ("uint8", F32), ("uint16", F32), ("uint32", F32), (F32, "uint32"), ("uint8", I32)):
        for shape in [(64, 128), (64, 256), (192, 512)]:
            add(f"rare_cast_{source}_{to}", lambda x, to=to: x.astype(to), (shape, source))
    # To and from one dim.
    for dtype in (F32, I32, BF16):
        for rows, columns in [(8, 128), (40, 128), (64, 256), (128, 512)]:
            for name, op in {"sum": jnp.sum, "max": jnp.max}.items():
                if dtype == I32 and name == "sum":
                    continue
                add(f"rare_line_{name}1_{dtype}", lambda x, op=op: op(x, axis=1).astype(x.dtype), ((rows, columns), dtype))
                add(f"rare_line_{name}0_{dtype}", lambda x, op=op: op(x, axis=0).astype(x.dtype), ((rows, columns), dtype))
        for n in (128, 256, 1024, 2048):
            add(f"rare_line_column_{dtype}", lambda x: x.reshape(-1, 1), ((n,), dtype))
            add(f"rare_line_row_{dtype}", lambda x: x.reshape(1, -1), ((n,), dtype))
            add(f"rare_line_add_{dtype}", lambda x: x + x, ((n,), dtype))
            add(f"rare_line_total_{dtype}", lambda x: jnp.max(x, keepdims=True), ((n,), dtype))
    for dtype in (F32, BF16, I8):
        for shape in [(2, 16, 128), (3, 24, 256), (8, 8, 128)]:
            for order in ((1, 0, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)):
                add(f"rare_transpose_{dtype}", lambda x, order=order: jnp.transpose(x, order), (shape, dtype))
        for shape, to in [((4, 8, 128), (32, 1, 128)), ((32, 1, 128), (4, 8, 128)), ((4, 8, 128), (4, 1024)), ((8, 256), (8, 4, 64)),
                          ((16, 4, 64), (16, 256)), ((32, 128), (4, 1024)), ((4, 1024), (32, 128)), ((1, 32, 128), (1, 4096)),
                          ((64, 64), (32, 128)), ((32, 128), (64, 64)), ((8, 16, 64), (64, 128)), ((64, 128), (8, 16, 64))]:
            add(f"rare_reshape_{dtype}", lambda x, to=to: x.reshape(to), (shape, dtype))
        for rows, columns in [(8, 128), (16, 256), (64, 384)]:
            for axis, times in ((0, 2), (0, 3), (1, 2), (1, 3)):
                add(f"rare_repeat{axis}_{dtype}", lambda x, axis=axis, times=times: jnp.repeat(x, times, axis), ((rows, columns), dtype))
                add(f"rare_tile{axis}_{dtype}", lambda x, axis=axis, times=times: jnp.tile(x, [times, 1] if axis == 0 else [1, times]),
                    ((rows + 4, columns // 2 + 36), dtype))
        for rows, columns in [(5, 100), (12, 64), (24, 130), (40, 192)]:
            add(f"rare_ragged_add_{dtype}", lambda x: x + x, ((rows, columns), dtype))
            for axis in (0, 1):
                add(f"rare_ragged_sum{axis}_{dtype}", lambda x, axis=axis: jnp.max(x, axis, keepdims=True), ((rows, columns), dtype))
                add(f"rare_ragged_softmax{axis}_{dtype}", lambda x, axis=axis: jax.nn.softmax(x.astype(jnp.float32), axis), ((rows, columns), dtype))
                add(f"rare_concatenate{axis}_{dtype}", lambda x, y, axis=axis: jnp.concatenate([x, y], axis), ((rows, columns), dtype),
                    ((rows, columns), dtype))
            add(f"rare_broadcast_{dtype}", lambda x, y: x + y, ((rows, columns), dtype), ((1, columns), dtype))
            add(f"rare_broadcast_{dtype}", lambda x, y: x + y, ((rows, columns), dtype), ((rows, 1), dtype))
            add(f"rare_broadcast_{dtype}", lambda x, y: x + y, ((2, rows, columns), dtype), ((2, 1, columns), dtype))
            add(f"rare_slice_{dtype}", lambda x: x[1:, 1:], ((rows, columns), dtype))
            add(f"rare_slice_{dtype}", lambda x: x[x.shape[0] // 2:, x.shape[1] // 2:], ((rows, columns), dtype))
    for dtype in (F32, BF16, I32):
        for shape in [(8, 128), (16, 128), (8, 256)]:
            for axis in (0, 1):
                add(f"rare_gather{axis}_{dtype}", lambda x, i, axis=axis: jnp.take_along_axis(x, i, axis, mode="promise_in_bounds"),
                    (shape, dtype), (shape, I32))
                add(f"rare_flip{axis}_{dtype}", lambda x, axis=axis: jnp.flip(x, axis), (shape, dtype))
                add(f"rare_cumsum{axis}_{dtype}", lambda x, axis=axis: jnp.cumsum(x, axis).astype(x.dtype), (shape, dtype))
                add(f"rare_arg{axis}_{dtype}", lambda x, axis=axis: jnp.argmin(x, axis, keepdims=True).astype(jnp.int32), (shape, dtype))
                add(f"rare_roll{axis}_{dtype}", lambda x, axis=axis: pltpu.roll(x, 5, axis), (shape, dtype))
    for source, to in ((I8, I32), (I32, I8), (I16, I8), (F32, I8)):
        for shape in NARROW_SHAPES:
            add(f"rare_bitcast_{source}_{to}", lambda x, to=to: pltpu.bitcast(x, jnp.dtype(to)), (shape, source))
    for dtype in (F32, I32, I16, I8):
        for shape in shapes_of(dtype):
            for axis in (0, 1):
                add(f"rare_iota_{dtype}", lambda x, shape=shape, axis=axis: x + lax.broadcasted_iota(x.dtype, shape, axis), (shape, dtype))


def seldom():
    """What held-out kernels had and these had not: casts of fp8, turned left operands, repeated elements, one dim."""
    for eight in ("float8_e4m3fn", "float8_e5m2"):
        for other in ("int4", I8, I16, I32, "uint4", "uint8", "uint16", "uint32", "float16", BF16, F32):
            for shape in [(32, 128), (64, 256), (192, 512)]:
                add(f"seldom_cast_{eight}_{other}", lambda x, other=other: x.astype(other), (shape, eight))
                add(f"seldom_cast_{other}_{eight}", lambda x, eight=eight: x.astype(eight), (shape, other))
    for source in ("uint8", "uint16", "uint32", "int4", "uint4", I8, I16):
        for to in (I8, I16, I32, F32, BF16, "float16", "int4", "uint8"):
            if source != to:
                for shape in [(32, 128), (64, 256)]:
                    add(f"seldom_cast_{source}_{to}", lambda x, to=to: x.astype(to), (shape, source))
    for dtype in ("float8_e4m3fn", "float8_e5m2", "int4", I8, BF16, F32):
        out = "int32" if "int" in dtype else F32
        for m, k, n in [(128, 64, 128), (128, 128, 128), (128, 256, 128), (256, 128, 256)]:
            for right, b in (((k, n), 0), ((n, k), 1)):
                add(f"seldom_dot_{dtype}", lambda x, y, b=b, out=out: lax.dot_general(
                    x, y, (((0,), (b,)), ((), ())), preferred_element_type=out), ((k, m), dtype), (right, dtype))
            if k % 128:
                add(f"seldom_dot_{dtype}", lambda x, y, out=out: lax.dot_general(
                    x, y, (((1,), (0,)), ((), ())), preferred_element_type=out), ((m, k), dtype), ((k, n), dtype))
    for highest in (False, True):
        for m, k, n in [(64, 64, 128), (128, 64, 256), (128, 128, 64), (128, 128, 128)]:
            for right, b in (((k, n), 0), ((n, k), 1)):
                add("seldom_dot_precise", lambda x, y, b=b, highest=highest: lax.dot_general(
                    x, y, (((1,), (b,)), ((), ())), precision=lax.Precision.HIGHEST if highest else None, preferred_element_type=F32),
                    ((m, k), F32), (right, F32))
    for shape in SHAPES:
        for by in (2, 4, 8, 128):
            add("seldom_div_power", lambda x, by=by: lax.div(x, jnp.int32(by)), (shape, I32))
            add("seldom_rem_power", lambda x, by=by: lax.rem(x, jnp.int32(by)), (shape, I32))
            add("seldom_floor_div_power", lambda x, by=by: x // by, (shape, I32))
            add("seldom_mod_power", lambda x, by=by: x % by, (shape, I32))
    for dtype in (F32, I32):
        for shape in [(8, 128), (24, 128), (16, 256), (4, 128), (16, 64)]:
            for times in (2, 4):
                add(f"seldom_repeat_{dtype}", lambda x, times=times: jnp.repeat(x, times, 1), (shape, dtype))
    for dtype in (F32, BF16, I32):
        for n in (512, 1024, 2048, 4096):
            for name, op in {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}.items():
                add(f"seldom_line_{name}_{dtype}", lambda x, op=op: op(x, keepdims=True).astype(x.dtype), ((n,), dtype))
            add(f"seldom_line_{dtype}", lambda x: x * x + x, ((n,), dtype))


def precise():
    """Products of f32 in the highest precision, which our own kernels ask for: either side turned, ragged inner extents, as parts of sums."""
    sizes = [(8, 128, 128), (32, 128, 128), (128, 128, 128), (256, 128, 128), (128, 256, 128), (128, 128, 256), (256, 256, 256), (64, 512, 128),
             (64, 128, 512), (512, 128, 64), (128, 64, 128), (64, 48, 128), (16, 32, 64), (64, 64, 64), (40, 96, 96), (24, 200, 128)]
    for m, k, n in sizes:
        for left, a in (((m, k), 1), ((k, m), 0)):
            for right, b in (((k, n), 0), ((n, k), 1)):
                if a == 0 and b == 1:
                    continue
                def dot(x, y, a=a, b=b):
                    return lax.dot_general(x, y, (((a,), (b,)), ((), ())), precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32)
                add("precise_dot", dot, (left, F32), (right, F32))
                if m >= 64:
                    add("precise_dot_add", lambda x, y, z, dot=dot: z + dot(x, y), (left, F32), (right, F32), ((m, n), F32))


def thin():
    """Products of few rows, whose weights take longer to get into the matrix units than to be used."""
    sizes = [(1, 128, 128), (1, 256, 128), (1, 512, 256), (8, 256, 128), (8, 512, 128), (8, 128, 512), (8, 256, 256), (8, 512, 512), (16, 512, 128), (16, 256, 512), (24, 384, 128), (4, 64, 256)]
    for m, k, n in sizes:
        for dtype, precision in ((F32, lax.Precision.HIGHEST), (BF16, None)):
            for right, b in (((k, n), 0), ((n, k), 1)):
                add(f"thin_dot_{dtype}", lambda x, y, b=b, precision=precision: lax.dot_general(
                    x, y, (((1,), (b,)), ((), ())), precision=precision, preferred_element_type=jnp.float32), ((m, k), dtype), (right, dtype))


def chains():
    """Products of what products made: how long one takes until the next one begins, and what of a matrix unit's time one alone shares with others."""
    for m, k in [(8, 128), (32, 128), (128, 128), (32, 256), (64, 64)]:
        for dtype, precision in ((F32, lax.Precision.HIGHEST), (BF16, None), (F32, None)):
            for b in (0, 1):
                for n in (2, 3, 4):
                    def chain(x, w, b=b, n=n, dtype=dtype, precision=precision):
                        for _ in range(n):
                            x = lax.dot_general(x.astype(dtype), w, (((1,), (b,)), ((), ())), precision=precision, preferred_element_type=jnp.float32)
                        return x
                    add(f"chained_dot_{dtype}" if dtype == BF16 or precision else "chained_default_dot", chain, ((m, k), dtype), ((k, k), dtype))


def beside():
    """Products that need not wait for one another, of other weights each."""
    for m, k, n in [(8, 128, 128), (32, 128, 128), (128, 128, 128), (64, 64, 64), (128, 64, 64), (32, 128, 256), (64, 256, 256)]:
        for b in (0, 1):
            for count, precision in itertools.product((2, 3, 4), (lax.Precision.HIGHEST, None)):
                def kernel(*refs, b=b, count=count, m=m, precision=precision):
                    for i in range(count):
                        refs[-1][i * m:(i + 1) * m] = lax.dot_general(refs[2 * i][...], refs[2 * i + 1][...], (((1,), (b,)), ((), ())),
                                                                      precision=precision, preferred_element_type=jnp.float32)
                sides = [draw.struct((m, k), F32), draw.struct((k, n) if b == 0 else (n, k), F32)]
                KERNELS.append(("beside_dots" if precision else "beside_default_dots", kernel, sides * count, draw.struct((count * m, n), F32)))


def turned():
    """Products whose left factor is turned, of bf16, alone and added to sums."""
    for m, k, n in [(128, 32, 128), (128, 96, 128), (128, 128, 128), (64, 128, 64), (256, 128, 128), (128, 256, 128), (128, 128, 256), (256, 256, 256), (64, 64, 64), (256, 64, 128), (384, 128, 128)]:
        def dot(x, y):
            return lax.dot_general(x, y, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32)
        add("turned_dot", dot, ((k, m), BF16), ((k, n), BF16))
        add("turned_dot_add", lambda x, y, z, dot=dot: z + dot(x, y), ((k, m), BF16), ((k, n), BF16), ((m, n), F32))


def lines():
    """Vectors of one dim in halves, as rows of words and back: sums of one, two and four."""
    def sums(*rows):
        total = functools.reduce(jnp.add, [x.reshape(1, -1).astype(jnp.float32) for x in rows], 1.0)
        return total.astype(jnp.bfloat16).reshape(-1)
    for n in (512, 1024, 2048, 4096, 8192):
        for inputs in (1, 2, 4):
            add("lines_summed", sums, *[((n,), BF16)] * inputs)


def few():
    """Ops one after another on 1 to 16 registers: where latencies decide, not slots."""
    def along(reduce, axis, then):
        return lambda x: then(x, reduce(x, axis=axis, keepdims=True))
    ops = {"scale": lambda x: x * 1.5, "add": lambda x: x + x, "square": lambda x: x * x, "exp": jnp.exp, "rsqrt": lax.rsqrt, "tanh": jnp.tanh,
           "over": lambda x: 1 / x, "positive": lambda x: jnp.where(x > 0, x, 0.5), "less_max": along(jnp.max, 1, lax.sub), "over_sum": along(jnp.sum, 1, lax.div),
           "less_mean": along(jnp.mean, 0, lax.sub), "times_max": along(jnp.max, 0, lax.mul), "times_lane": lambda x: x * x[:, 3:4], "times_row": lambda x: x * x[3:4, :],
           "turned": lambda x: pltpu.roll(x, 3, 1), "narrow": lambda x: x.astype(BF16).astype(F32)}
    drawn = random.Random(1)
    for _ in range(72):
        shape = drawn.choice([8, 16, 24, 32]), drawn.choice([128, 128, 256, 512])
        dtype = drawn.choice([F32, F32, BF16])
        names = [drawn.choice(list(ops)) for _ in range(drawn.randint(2, 6))]

        def body(x, names=names, dtype=dtype):
            x = x.astype(F32)
            for name in names:
                x = ops[name](x)
            return x.astype(dtype)
        add("few_" + "_".join(names), body, (shape, dtype))


def wide():
    """Products of several tiles of a matrix unit that is 256 wide, and of parts of one."""
    sizes = [(256, 256, 128), (256, 128, 256), (128, 256, 256), (512, 256, 256), (256, 512, 256), (256, 256, 512), (512, 512, 256), (512, 512, 512),
             (128, 512, 512), (64, 512, 512), (32, 256, 1024), (64, 1024, 128)]
    for m, k, n in sizes:
        for dtype, precision in ((F32, lax.Precision.HIGHEST), (F32, None), (BF16, None)):
            for right, b in (((k, n), 0), ((n, k), 1)):
                def dot(x, y, b=b, precision=precision):
                    return lax.dot_general(x, y, (((1,), (b,)), ((), ())), precision=precision, preferred_element_type=jnp.float32)
                add(f"wide_dot_{dtype}", dot, ((m, k), dtype), (right, dtype))
                add(f"wide_dot_add_{dtype}", lambda x, y, z, dot=dot: z + dot(x, y), ((m, k), dtype), (right, dtype), ((m, n), F32))
    for left, right in ((F32, BF16), (BF16, F32), (F32, I8), (BF16, I8), (BF16, "float8_e4m3fn")):
        for m, k, n in [(64, 64, 128), (128, 192, 128), (32, 96, 256), (64, 200, 128), (16, 32, 64)]:
            for shape, b in (((k, n), 0), ((n, k), 1)):
                add(f"wide_dot_ragged_{left}_{right}", lambda x, y, b=b: lax.dot_general(
                    x, y, (((1,), (b,)), ((), ())), preferred_element_type=jnp.float32), ((m, k), left), (shape, right))


def halves():
    """Rows in two halves, taken apart and put together, as rotary embeddings do."""
    def apart(x):
        h = x.shape[1] // 2
        return x[:, :h] * 2 + x[:, h:]

    def turned(x, c, s):
        h = x.shape[1] // 2
        a, b = x[:, :h].astype(jnp.float32), x[:, h:].astype(jnp.float32)
        return jnp.concatenate([a * c - b * s, b * c + a * s], 1).astype(x.dtype)
    for dtype in (F32, BF16):
        for rows in (8, 48, 128):
            for half in (16, 20, 32, 40, 64, 96, 128):
                add(f"halves_apart_{dtype}", apart, ((rows, 2 * half), dtype))
                add(f"halves_together_{dtype}", lambda x: jnp.concatenate([x + x, x * x], 1), ((rows, half), dtype))
                add(f"halves_turned_{dtype}", turned, ((rows, 2 * half), dtype), ((rows, half), F32), ((rows, half), F32))


def scalars():
    """Quotients of numbers in SMEM, beside one another and one after the other."""
    for name, op in {"div": lax.div, "rem": lax.rem}.items():
        for by in (None, 7, 24, 8, 128):
            for n in (1, 3, 6):
                for chained in (False, True):
                    def kernel(x, o, op=op, by=by, n=n, chained=chained):
                        y = x[0]
                        for i in range(n):
                            y = op((y if chained else x[i]) + i, x[i + 1] if by is None else jnp.int32(by))
                            o[i] = y
                    KERNELS.append((f"scalar_{name}_{by}", kernel, [draw.struct((8,), I32)], draw.struct((8,), I32), pltpu.SMEM))


def selects():
    """Comparisons that select among other values: what they compare itself would be a minimum, a maximum, or nothing."""
    ops = {"lt": lax.lt, "eq": lax.eq, "ge": lax.ge, "ne": lax.ne}
    for name, op in ops.items():
        for compared, dtype in ((I32, F32), (I32, I32), (F32, I32), (F32, F32), (I32, BF16), (BF16, BF16), (I16, I16), (I8, I8)):
            for shape in shapes_of(dtype if jnp.dtype(dtype).itemsize < jnp.dtype(compared).itemsize else compared)[:2]:
                add(f"selects_{name}_{compared}_{dtype}", lambda x, y, z, w, op=op: jnp.where(op(x, y), z, w),
                    (shape, compared), (shape, compared), (shape, dtype), (shape, dtype))
    masks = {"and": jnp.logical_and, "or": jnp.logical_or, "xor": jnp.logical_xor}
    for name, op in masks.items():
        for dtype in (F32, I32):
            for shape in SHAPES[:2]:
                add(f"selects_{name}_{dtype}", lambda x, y, z, w, op=op: jnp.where(op(x < y, x + 3 < z), z, w),
                    (shape, dtype), (shape, dtype), (shape, dtype), (shape, dtype))
    for dtype in (I8, "float8_e4m3fn", BF16):
        for shape in [(32, 128), (64, 256), (128, 256)]:
            add(f"selects_of_mask_{dtype}", lambda x, y: jnp.where(y < 5, x, jnp.zeros_like(x)), (shape, dtype), (shape, I32))
            add(f"selects_of_masks_{dtype}", lambda x, y: jnp.where(y > 1, jnp.where(y < 5, x, jnp.zeros_like(x)), jnp.zeros_like(x)),
                (shape, dtype), (shape, I32))
    for n in (2, 5, 9):
        def chain(x, y, z, w, n=n):
            for i in range(n):
                z = jnp.where((x & (1 << i)) != 0, lax.shift_right_logical(z, i + 1) + w, z - y)
            return z
        for shape in SHAPES[:2]:
            add(f"selects_chain{n}", chain, (shape, I32), (shape, I32), (shape, I32), (shape, I32))


def products():
    sizes = [(8, 128, 128), (64, 128, 128), (128, 128, 128), (128, 256, 128), (128, 128, 256), (256, 256, 256), (512, 128, 128),
             (128, 512, 128), (128, 128, 512), (512, 512, 512), (16, 512, 512), (128, 64, 128), (128, 128, 64), (32, 64, 32)]
    for left, out in ((F32, F32), (BF16, F32), (BF16, BF16), (I8, I32)):
        for m, k, n in sizes:
            for rhs, numbers in (((k, n), (((1,), (0,)), ((), ()))), ((n, k), (((1,), (1,)), ((), ())))):
                name = f"dot{'t' if rhs != (k, n) or numbers[0][1] == (1,) else ''}_{left}_{out}"
                add(name, lambda x, y, numbers=numbers, out=out: lax.dot_general(x, y, numbers, preferred_element_type=out),
                    ((m, k), left), (rhs, left))
    for m, k, n in sizes[:8]:
        add("dot_highest", lambda x, y: lax.dot(x, y, precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32),
            ((m, k), F32), ((k, n), F32))
        add("dot_left_transposed", lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32),
            ((k, m), BF16), ((k, n), BF16))
    for m, k, n in [(8, 128, 128), (128, 128, 128), (256, 256, 256), (512, 512, 512)]:
        add("dot_add", lambda x, y, z: z + lax.dot(x, y, preferred_element_type=jnp.float32),
            ((m, k), BF16), ((k, n), BF16), ((m, n), F32))
        add("dot_int8_in_bf16", lambda x, y: lax.dot(x, y.astype(jnp.bfloat16), preferred_element_type=jnp.float32),
            ((m, k), BF16), ((k, n), I8))


def compounds():
    """Several operations together, as kernels have them."""
    for dtype in (F32, BF16):
        for shape in [(8, 128), (64, 256), (128, 512), (256, 1024)]:
            add(f"softmax_{dtype}", lambda x: jax.nn.softmax(x.astype(jnp.float32), 1).astype(x.dtype), (shape, dtype))
            add(f"norm_{dtype}", lambda x: (x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), 1, keepdims=True) + 1e-6)
                                            ).astype(x.dtype), (shape, dtype))
            add(f"gelu_{dtype}", jax.nn.gelu, (shape, dtype))
            add(f"silu_{dtype}", jax.nn.silu, (shape, dtype))
    for dtype in (F32, BF16):
        for q, k, d in [(128, 128, 64), (128, 128, 128), (128, 512, 128), (256, 256, 128)]:
            def attention(x, y, z):
                s = lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
                s = jnp.where(lax.broadcasted_iota(jnp.int32, s.shape, 0) >= lax.broadcasted_iota(jnp.int32, s.shape, 1), s, -1e30)
                m = jnp.max(s, 1, keepdims=True)
                p = jnp.exp(s - m)
                return lax.dot(p.astype(z.dtype), z, preferred_element_type=jnp.float32) / jnp.sum(p, 1, keepdims=True)
            add(f"attention_{dtype}", attention, ((q, d), dtype), ((k, d), dtype), ((k, d), dtype))


def measured(compiler, chip, kernel, name):
    """Bundles and slots; None where a bundle may run more or less than once. Raises what the compiler says."""
    body, config, operands, results, aliases = kernel

    def typed(values):
        return [[v["dtype"], v["shape"]] for v in values]
    request = {"chip": ask.generation(chip), "name": name, "body": base64.b64encode(body).decode(), "config": config, "operands": typed(operands),
               "results": typed(results), "aliases": [[a["operand"], a["result"]] for a in aliases]}
    said = ask.answer(compiler, request, LISTINGS, schedule=True)
    if said["message"]:
        raise ValueError(said["message"])
    branches = len(re.findall(r"\b(?:sbr\.rel|sbr\.abs)\b", said["bundles"]))
    if branches > ("/* core id */" in said["bundles"]):  # a v5p's second core goes to the end
        return None
    rows = [list(map(int, line.split())) for line in said["utilization"].split("\n") if re.fullmatch(r"[\d ]*\d[\d ]*", line)]
    # XLA keeps some operands in VMEM, which the kernel then need not copy.
    copies = len(re.findall(r"(?<!for )%\w+ = dma\.(?!done)", said["bundles"]))
    return {"capacity": rows[0], "bundles": len(rows) - 1, "copies": copies, "slots": [sum(column) for column in zip(*rows[1:])]}


def call_of(kernel):
    """A kernel of refs has its output's type, and where they are if not in VMEM."""
    name, body, inputs, *output = kernel
    if not output:
        return draw.mapped(body, *inputs)
    specs = [pl.BlockSpec(memory_space=space) for space in output[1:]]
    more = {"in_specs": specs * len(inputs), "out_specs": specs[0]} if specs else {}
    return pl.pallas_call(body, out_shape=output[0], **more), inputs


def recorded(folder):
    meta = json.loads((folder / "meta.json").read_text())
    return ((folder / "kernel.mlirbc").read_bytes(), json.loads((folder / "config.json").read_text()), meta["operands"],
            meta["results"], meta["custom_call"]["aliases"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--chip", default="v5e", choices=list(draw.CHIPS))
    parser.add_argument("--only", default="")
    parser.add_argument("--calls", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    draw.tpu_info.get_device_kind = lambda: draw.CHIPS[arguments.chip]
    draw.tpu_info.get_num_device_cores = lambda: 1
    compiler = ask.Compiler()
    refused = looped = 0
    if arguments.calls:
        for at in arguments.calls:
            if (at / "asked").exists():
                continue
            (at / "asked").touch()  # the compiler aborts on some, or never ends: the next process leaves those out
            faulthandler.dump_traceback_later(40, exit=True)
            try:
                found = measured(compiler, arguments.chip, recorded(at), at.name)
            except ValueError:
                refused += 1
                continue
            looped += found is None
            if found:
                (at / "schedule.json").write_text(json.dumps(found) + "\n")
        print(f"{len(arguments.calls)} calls, of which the compiler refuses {refused} and {looped} branch", file=sys.stderr)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for group in (elementwise, reductions, moves, refs, products, compounds, more, rare, seldom, precise, wide, scalars, halves, selects, thin, lines, chains, beside, turned,
                  few):
        group()
    for number, kernel in enumerate(KERNELS):
        name = kernel[0]
        at = arguments.folder / f"{number:04}_{name}"
        asked = arguments.folder / f"{at.name}.asked"
        if arguments.only not in name or asked.exists():
            continue
        asked.touch()
        try:
            call, inputs = call_of(kernel)
            lowered = draw.lowered(call, inputs)
            found = measured(compiler, arguments.chip, lowered, name)
        except Exception as error:  # JAX's verdict, or the compiler's
            refused += 1
            print(f"{name}: {str(error).strip().split(chr(10))[0][:150]}", file=sys.stderr)
            continue
        looped += found is None
        if found is None:
            continue
        draw.write(at, arguments.chip, lowered)
        for i, x in enumerate(inputs):
            np.save(at / f"in{i}.npy", np.zeros(x.shape, x.dtype))
        (at / "schedule.json").write_text(json.dumps(found) + "\n")
    print(f"{len(KERNELS)} kernels, of which {refused} are refused and {looped} branch", file=sys.stderr)


if __name__ == "__main__":
    main()
