"""Triton kernels with atomics, measured on a GPU and predicted anywhere: each at some sizes, or, with SEED, launches drawn at random.

    python predict/triton_atomics.py gpu OUT.jsonl [SEED]
    python predict/triton_atomics.py here FILE.jsonl [SEED]
"""
import json
import math
import random
import statistics
import sys

import triton
import triton.language as tl

from triton_accuracy import seconds


@triton.jit
def spread(p, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p + i, (i + 1).to(p.dtype.element_ty), mask=i < n, sem=SEM)


@triton.jit
def taken(p, o, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.atomic_add(p + i, (i + 1).to(p.dtype.element_ty), mask=i < n, sem=SEM), mask=i < n)


@triton.jit
def histogram(ids, p, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p + tl.load(ids + i, mask=i < n, other=0), 1, mask=i < n, sem=SEM)


@triton.jit
def index_add(ids, x, p, rows, cols, BLOCK: tl.constexpr, SEM: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p + tl.load(ids + r) * cols + c, tl.load(x + r * cols + c, mask=c < cols, other=0), mask=c < cols, sem=SEM)


@triton.jit
def column_sums(x, p, rows, COLS: tl.constexpr, ROWS: tl.constexpr, SEM: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    v = tl.load(x + r[:, None] * COLS + c[None, :], mask=(r < rows)[:, None], other=0.)
    tl.atomic_add(p + c, tl.sum(v, 0), sem=SEM)


@triton.jit
def total(x, p, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p, tl.sum(tl.load(x + i, mask=i < n, other=0.), 0), sem=SEM)


@triton.jit
def split_product(a, b, c, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SEM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.program_id(2), K // BK, SPLIT):
        acc = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :]), acc)
        k += SPLIT * BK
    tl.atomic_add(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), sem=SEM)


def cases():
    """Name, kernel, grid, arrays of (elements, type, numbers below this or zeros), numbers, constants, warps."""
    both = ("relaxed", "acq_rel")
    for n, block, warps in ((1024, 1024, 4), (1 << 16, 256, 1), (1 << 16, 1024, 4), (1 << 20, 1024, 4), (1 << 20, 4096, 8), (1 << 24, 1024, 4)):
        for dtype in ("f32", "f16", "i32", "bf16"):
            for sem in both if dtype in ("f32", "f16") else both[:1]:
                yield "spread", spread, (triton.cdiv(n, block),), [(n, dtype, 0)], (n,), dict(BLOCK=block, SEM=sem), warps
        yield "taken", taken, (triton.cdiv(n, block),), [(n, "i32", 0), (n, "i32", 0)], (n,), dict(BLOCK=block, SEM="relaxed"), warps
    for n in (1000, 1 << 16, 1 << 20):
        for places in (1, 45, 1024, 100_000):
            for sem in both:
                yield "histogram", histogram, (triton.cdiv(n, 256),), [(n, "i32", places), (places, "i32", 0)], (n,), dict(BLOCK=256, SEM=sem), 4
    for rows in (512, 8192, 65536):
        for cols in (256, 1024):
            for sem in both:
                yield "column_sums", column_sums, (triton.cdiv(rows, 16),), [(rows * cols, "f32", 0), (cols, "f32", 0)], (rows,), dict(COLS=cols, ROWS=16, SEM=sem), 4
    for n in (1 << 16, 1 << 20, 1 << 24):
        for sem in both:
            yield "total", total, (n // 1024,), [(n, "f32", 0), (1, "f32", 0)], (n,), dict(BLOCK=1024, SEM=sem), 4
    for M, N, K, split in ((64, 512, 4096, 8), (512, 512, 2048, 4), (1024, 1024, 4096, 2)):
        for dtype in ("f32", "f16"):
            for sem in both:
                yield "split_product", split_product, (M // 64, N // 64, split), [(M * K, "f16", 0), (K * N, "f16", 0), (M * N, dtype, 0)], (M, N, K), dict(SPLIT=split, BM=64, BN=64, BK=64, SEM=sem), 4


def drawn(seed, count=40):
    """Places that launches meet at, sizes and types at random."""
    rng = random.Random(seed)

    def between(least, most):
        return round(math.exp(rng.uniform(math.log(least), math.log(most))))

    for _ in range(count):
        dtype, sem = rng.choice(("f32", "i32")), rng.choice(("relaxed", "acq_rel"))
        places, kind = between(1, 1 << 17), rng.choice(("histogram", "histogram", "index_add", "column_sums"))
        if kind == "histogram":
            n, block = between(1 << 12, 1 << 22), rng.choice((128, 256, 1024))
            yield kind, histogram, (triton.cdiv(n, block),), [(n, "i32", places), (places, dtype, 0)], (n,), dict(BLOCK=block, SEM=sem), rng.choice((2, 4, 8))
        elif kind == "index_add":
            rows, cols, block = between(256, 1 << 15), between(16, 2048), rng.choice((64, 256, 1024))
            places = min(places, 1 << 13)
            yield (kind, index_add, (rows, triton.cdiv(cols, block)), [(rows, "i32", places), (rows * cols, dtype, 0), (places * cols, dtype, 0)],
                   (rows, cols), dict(BLOCK=block, SEM=sem), 4)
        else:
            rows, cols, each = between(512, 1 << 16), rng.choice((32, 64, 128, 512, 2048)), rng.choice((4, 8, 16))
            yield kind, column_sums, (triton.cdiv(rows, each),), [(rows * cols, "f32", 0), (cols, "f32", 0)], (rows,), dict(COLS=cols, ROWS=each, SEM=sem), 4


def on_gpu(path, which):
    import torch

    types = dict(f32=torch.float32, f16=torch.float16, bf16=torch.bfloat16, i32=torch.int32)
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    with open(path, "w") as f:
        for i, (name, kernel, grid, arrays, numbers, constants, warps) in enumerate(which):
            made = [torch.randint(v, (n,), device="cuda", dtype=torch.int32) if v else torch.zeros(n, dtype=types[t], device="cuda") for n, t, v in arrays]

            def run():
                return kernel[grid](*made, *numbers, **constants, num_warps=warps)

            seconds(run, flush.zero_, 3)
            cold = seconds(run, flush.zero_, 11)
            warm = seconds(run, lambda: torch.cuda._sleep(200000), 11)
            ptx = sorted({word for word in run().asm["ptx"].split() if word.startswith(("atom.", "red."))})
            f.write(json.dumps(dict(i=i, kernel=name, cold=cold, warm=warm, ptx=ptx)) + "\n")


def here(path, which):
    import ml_dtypes
    import numpy as np

    import tessera

    types = dict(f32=np.float32, f16=np.float16, bf16=ml_dtypes.bfloat16, i32=np.int32)
    measured = {line["i"]: line for line in map(json.loads, open(path))}
    ratios = {}
    for i, (name, kernel, grid, arrays, numbers, constants, warps) in enumerate(which):
        line = measured[i]
        made = [tessera.DeviceArray(np.random.default_rng(1).integers(0, v, n).astype(np.int32)) if v else tessera.DeviceArray.reserved(n, types[t]) for n, t, v in arrays]
        with tessera.simulate_triton("h100", dry=True) as report:
            kernel[grid](*made, *numbers, **constants, num_warps=warps)
        ratio = report.predicted_seconds / line["cold"]
        ratios.setdefault(name, []).append(ratio)
        print(f"{name:14} {str(grid):12} {arrays[-1][1]:4} {arrays[-1][0]:8} {numbers} {constants} {warps} warps: {line['cold'] * 1e6:.1f} us, predicted {report.predicted_seconds * 1e6:.1f}, {ratio:.2f} x")
    for name, all_of in ratios.items():
        print(f"{name:14} {len(all_of):3}: {min(all_of):.2f} to {max(all_of):.2f} x, median {statistics.median(all_of):.2f}")


if __name__ == "__main__":
    (on_gpu if sys.argv[1] == "gpu" else here)(sys.argv[2], drawn(int(sys.argv[3])) if len(sys.argv) > 3 else cases())
