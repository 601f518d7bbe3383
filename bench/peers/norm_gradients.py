#!/usr/bin/env python3
"""norm_rows_grad of the library, with the gradients of its weights, beside torch: cuda/RESULTS.md.

    python bench/peers/norm_gradients.py PROGRAM [--json FILE]

PROGRAM is a tessera whose CUDA build has the tile sizes of TILES (or compiles them). 2^25 elements; the median of 21 runs, caches warm.
torch: the better of native_layer_norm_backward, or _fused_rms_norm_backward, and of the formulas through torch.compile.
"""
import argparse
import json
import sys

from timing import median_us, tessera_us

ELEMS, ROUNDS, PARTS = 2**25, 21, 264
TILES = {1024: (4, 8), 2048: (2, 4), 4096: (1, 2), 8192: (1,), 16384: (1,)}


def ours(program, n, bm, rms, dtype):
    return tessera_us(program, f"norm_rows_grad m={ELEMS // n} n={n} parts={PARTS} rms={rms} bm={bm} bn={n} --dtype {dtype}", ROUNDS)


def peers(torch, n, rms, dtype):
    """Microseconds by name."""
    aten = torch.ops.aten
    x, dy = (torch.randn(ELEMS // n, n, device="cuda", dtype=dtype) for _ in range(2))
    w, b = (torch.randn(n, device="cuda", dtype=dtype) for _ in range(2))

    def formula(x, dy, w):
        v, g = x.float(), dy.float() * w.float()
        d = v if rms else v - v.mean(-1, keepdim=True)
        r = torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5)
        z = d * r
        dx = r * (g - z * (g * z).mean(-1, keepdim=True) - (0 if rms else g.mean(-1, keepdim=True)))
        sums = ((dy.float() * z).sum(0), dy.float().sum(0)) if not rms else ((dy.float() * z).sum(0),)
        return dx.to(dtype), *sums

    found = {"compiled": median_us(torch, lambda f=torch.compile(formula): f(x, dy, w), ROUNDS)}
    if rms and hasattr(aten, "_fused_rms_norm_backward"):
        r = torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + 1e-5)
        found["eager"] = median_us(torch, lambda: aten._fused_rms_norm_backward(dy, x, [n], r, w, [True, True]), ROUNDS)
    elif not rms:
        _, mean, rstd = aten.native_layer_norm(x, [n], w, b, 1e-5)
        found["eager"] = median_us(torch, lambda: aten.native_layer_norm_backward(dy, x, [n], mean, rstd, w, b, [True] * 3), ROUNDS)
    out = torch.empty_like(x)
    found["copy"] = median_us(torch, lambda: out.copy_(x), ROUNDS) * 1.5  # of three arrays, not two
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--json")
    options = parser.parse_args()
    import torch
    rows = []
    for dtype in ("bf16", "f32"):
        for rms in (1, 0):
            for n, blocks in TILES.items():
                there = peers(torch, n, rms, torch.bfloat16 if dtype == "bf16" else torch.float32)
                us = {bm: ours(options.program, n, bm, rms, dtype) for bm in blocks}
                timed_blocks = {bm: t for bm, (t, _) in us.items() if t is not None}
                row = {"dtype": dtype, "rms": rms, "columns": n, "torch": there, "ours": us}
                rows.append(row)
                if not timed_blocks:
                    print(f"{'rms' if rms else 'layer'} {dtype} {n}: {us}")
                    continue
                best = min(timed_blocks, key=timed_blocks.get)
                t, peer = timed_blocks[best], min(v for k, v in there.items() if k != "copy")
                print(f"{'rms' if rms else 'layer'} {dtype} {n}: bm={best} {t:.1f} us, {peer / t:.2f} of torch's speed, {there['copy'] / t:.2f} of a copy's bandwidth; "
                      f"{ {k: round(v, 1) for k, v in there.items()} } {us[best][1][:110]}", flush=True)
    if options.json:
        json.dump(rows, open(options.json, "w"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
