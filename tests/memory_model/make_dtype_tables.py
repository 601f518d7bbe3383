"""Writes what ml_dtypes and numpy convert to what: the oracle of dtype_tables_test.cpp.

usage: make_dtype_tables.py FOLDER. For every pair of types, FOLDER/SRC.DST.in.npy and .out.npy hold bit
patterns (of packed integers: values), one per element.
"""
import sys
import warnings

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
folder = sys.argv[1]

TYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn, "i64": np.int64, "i32": np.int32,
    "i16": np.int16, "i8": np.int8, "i4": ml_dtypes.int4, "i2": ml_dtypes.int2, "u32": np.uint32, "u8": np.uint8,
    "u4": ml_dtypes.uint4, "u2": ml_dtypes.uint2, "bool": np.bool_,
}
FLOATS = ["f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e8m0fnu", "f4e2m1fn"]
RANGE = {"i64": 2.0**62, "i32": 2.0**31, "i16": 2.0**15, "i8": 2.0**7, "i4": 2.0**3, "i2": 2.0, "u32": 2.0**32, "u8": 2.0**8,
         "u4": 2.0**4, "u2": 2.0**2}
# Integers of less than a byte: their least, and how many there are.
PACKED = {"i4": (-8, 16), "u4": (0, 16), "i2": (-2, 4), "u2": (0, 4)}
rng = np.random.default_rng(7)


def bits(a):
    for name, (_, count) in PACKED.items():
        if a.dtype == TYPES[name]:
            return a.astype(np.int64).astype(np.uint8) & (count - 1)
    return a.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize])


def source(name):
    t = TYPES[name]
    size = np.dtype(t).itemsize
    if name in PACKED:
        least, count = PACKED[name]
        return np.arange(least, least + count).astype(t)
    if name == "f4e2m1fn":
        return np.arange(16, dtype=np.uint8).view(t)
    if name == "bool":
        return np.array([False, True])
    if size == 1:
        return np.arange(256, dtype=np.uint8).view(t)
    if size == 2:
        return np.arange(65536, dtype=np.uint16).view(t)  # every pattern
    if name == "f32":
        high = np.arange(65536, dtype=np.uint32) << 16
        low = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
        return (high[:, None] | low[None, :]).reshape(-1).view(np.float32)
    if name == "f64":
        mantissa = rng.integers(0, 2**52, 100_000, dtype=np.uint64)
        exponent = rng.integers(1023 - 160, 1023 + 140, 100_000, dtype=np.uint64)
        a = ((exponent << np.uint64(52)) | mantissa).view(np.float64)
        # Midpoints of the narrower types and their neighbours.
        f = source("f16")[: 0x7C00].astype(np.float64)
        mid = (f[:-1] + f[1:]) / 2
        g = source("bf16")[: 0x7F80].astype(np.float64)
        mid2 = (g[:-1] + g[1:]) / 2
        parts = [a, -a] + [np.nextafter(m, w) for m in (mid, mid2) for w in (-np.inf, np.inf)] + [mid, mid2]
        return np.concatenate(parts + [np.array([0.0, -0.0, np.inf, -np.inf, np.nan])])
    info = np.iinfo(t)
    a = rng.integers(info.min, info.max, 100_000, dtype=t, endpoint=True)
    small = (a >> (a % 61 if size == 8 else a % 31)).astype(t)
    return np.concatenate([a, small, np.array([info.min, info.max, 0, 1], dtype=t)])


for src in TYPES:
    for dst in TYPES:
        a = source(src)
        if src in FLOATS and dst in RANGE:  # out of range is undefined in numpy, defined in tessera
            v = a.astype(np.float64)
            inside = np.isfinite(v) & (v < RANGE[dst]) & (v > (-RANGE[dst] if dst[0] == "i" else -1.0))
            a = a[inside]
        given = a
        with np.errstate(all="ignore"):
            try:
                # ml_dtypes 0.6 takes subnormals for zeros between float8_e8m0fnu and the narrow types:
                # 2^-9 becomes 0 in float8_e4m3fn, which has it. Through f32, where all of them are exact.
                if "f8e8m0fnu" in (src, dst) and src in FLOATS and src not in ("f64", "f32"):
                    a = a.astype(np.float32)
                b = a.astype(TYPES[dst])
            except TypeError:  # packed integers know each other through int64 only
                b = a.astype(np.int64).astype(TYPES[dst])
        np.save(f"{folder}/{src}.{dst}.in.npy", bits(given))
        np.save(f"{folder}/{src}.{dst}.out.npy", bits(b))
