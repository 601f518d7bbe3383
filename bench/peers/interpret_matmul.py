"""tessera against JAX's TPU interpret mode: one matmul, 8 x 8 x 8 blocks of 128, f32.

usage: interpret_matmul.py [--rounds N] [--tessera build/release/cli/tessera]

Both run the same grid with the same blocks, in turns. JAX's time is that of a compiled call
(jit, warmed once) of pallas_call under pltpu.InterpretParams; ours is the `seconds` of --json, on
the asynchronous machine. Both results are compared with numpy's.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from interpret_kernels import BLOCK, matmul_kernel

N = 1024


def pallas_matmul(detect_races):
    return jax.jit(
        pl.pallas_call(
            matmul_kernel,
            out_shape=jax.ShapeDtypeStruct((N, N), jnp.float32),
            grid=(N // BLOCK,) * 3,
            in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
                      pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
            scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=("arbitrary", "arbitrary", "arbitrary")),
            interpret=pltpu.InterpretParams(detect_races=detect_races)))


def tessera(program, folder, races):
    words = [program, "run", "matmul", f"m={N}", f"n={N}", f"k={N}", f"bm={BLOCK}", f"bn={BLOCK}",
             f"bk={BLOCK}", "--no-check", "--schedule", "eager", "--json", f"{folder}/r.json",
             "--input", f"x={folder}/x.npy", "--input", f"y={folder}/y.npy", "--output", folder]
    subprocess.run(words + ([] if races else ["--no-races"]), check=True, stdout=subprocess.DEVNULL)
    return json.load(open(f"{folder}/r.json"))["seconds"]


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tessera", default=str(root / "build/release/cli/tessera"))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-1, 1, (N, N)).astype(np.float32) for _ in range(2))
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x)
        np.save(f"{folder}/y.npy", y)
        for races in (False, True):
            f = pallas_matmul(races)
            jax.block_until_ready(f(x, y))
            tessera(options.tessera, folder, races)
            theirs, ours = [], []
            for _ in range(options.rounds):
                start = time.perf_counter()
                got = jax.block_until_ready(f(x, y))
                theirs.append(time.perf_counter() - start)
                ours.append(tessera(options.tessera, folder, races))
            assert np.allclose(got, wanted, atol=1e-3)
            assert np.allclose(np.load(f"{folder}/o.npy"), wanted, atol=1e-3)
            a, b = statistics.median(theirs), statistics.median(ours)
            print(f"race detection {'on' if races else 'off'}: JAX {jax.__version__} {a:.3f} s, "
                  f"tessera {b:.4f} s, {a / b:.0f} x", flush=True)


if __name__ == "__main__":
    main()
