"""tessera against JAX's interpret modes on the same Mosaic kernels.

usage: interpret_kernels.py [--rounds N] [--skip-tpu-interpret] [--tessera build/release/cli/tessera]

Each kernel is lowered once for a TPU; `tessera extract` takes the module out of the program, and
`tessera run` executes it with all checks on the arrays that JAX gives its own interpreters: the TPU
interpret mode (pltpu.InterpretParams) and the HLO interpreter (interpret=True), both jitted and
warmed once. JAX's time is the median of a call, ours the `seconds` of --json. All three results are
compared.
"""
import argparse
import importlib
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic import tpu_info
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

# The package has a function of the module's name.
megablox = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
BLOCK = 128
PALLAS_CALL = pl.pallas_call


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...]


def matmul(x, y):
    n = x.shape[0]
    return pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((n, n), jnp.float32),
        grid=(n // BLOCK,) * 3,
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
                  pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")))(x, y)


def flash(q, k, v):
    sizes = flash_attention.BlockSizes(block_q=BLOCK, block_k_major=BLOCK, block_k=BLOCK, block_b=1)
    return flash_attention.flash_attention(q, k, v, causal=True, block_sizes=sizes)


def splash_mha(q, k, v):
    heads, length, _ = q.shape
    mask = masks.MultiHeadMask([masks.CausalMask((length, length))] * heads)
    sizes = splash.BlockSizes(block_q=BLOCK, block_kv=BLOCK, block_kv_compute=BLOCK)
    return splash.make_splash_mha_single_device(mask, block_sizes=sizes)(q, k, v)


def gmm(lhs, rhs):
    sizes = jnp.array([300, 212, 0, 512], jnp.int32)
    return megablox.gmm(lhs, rhs, sizes, tiling=(BLOCK, BLOCK, BLOCK))


def programs():
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    yield "matmul, 64 steps", matmul, (normal(512, 512), normal(512, 512))
    yield "matmul, 512 steps", matmul, (normal(1024, 1024), normal(1024, 1024))
    yield "flash attention", flash, tuple(normal(1, 2, 1024, BLOCK) for _ in range(3))
    yield "splash attention", splash_mha, tuple(normal(2, 1024, BLOCK) for _ in range(3))
    yield "gmm", gmm, (normal(1024, 512), normal(4, 512, 512))


class Capture:
    """The last pallas_call that a program makes, with its arrays."""

    def __call__(self, *words, **options):
        def call(*arrays):
            self.words, self.options, self.arrays = words, options, arrays
            return PALLAS_CALL(*words, **{**options, "interpret": True})(*arrays)

        return call

    def function(self, **more):
        return jax.jit(PALLAS_CALL(*self.words, **{**self.options, **more}))


def capture(program, arguments):
    call = Capture()
    pl.pallas_call = call
    try:
        with jax.disable_jit():
            program(*arguments)
    finally:
        pl.pallas_call = PALLAS_CALL
    return call


def median_time(function, arrays, rounds):
    result = jax.block_until_ready(function(*arrays))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(function(*arrays))
        times.append(time.perf_counter() - start)
    return statistics.median(times), jax.tree.leaves(result)


def write_call(call, folder, tessera):
    text = call.function().trace(*call.arrays).lower(lowering_platforms=("tpu",)).as_text()
    (folder / "program.mlir").write_text(text)
    subprocess.run([tessera, "extract", folder / "program.mlir", "--output", folder], check=True,
                   stdout=subprocess.DEVNULL)
    to = next(path for path in folder.iterdir() if path.is_dir())
    shown = subprocess.run([tessera, "show", to], check=True, capture_output=True, text=True).stdout
    prefetched = sum(" prefetched " in line for line in shown.splitlines())
    grid = getattr(call.options.get("grid_spec"), "grid", ())
    bounds = [np.asarray(extent, np.int32) for extent in grid if not isinstance(extent, int)]
    arrays = bounds + jax.tree.leaves(call.arrays)
    for i, array in enumerate(arrays):
        array = np.asarray(array)
        np.save(to / f"in{i}.npy", array.astype(np.int32) if array.dtype == bool else array)
    shapes = [{"shape": list(s.shape)} for s in jax.tree.leaves(call.options["out_shape"])]
    (to / "meta.json").write_text(json.dumps({
        "num_dynamic_grid_bounds": len(bounds), "num_inputs": len(arrays) - len(bounds) - prefetched,
        "operands": [{}] * len(arrays), "results": shapes}))
    return to


def run_tessera(tessera, folder, rounds):
    times = []
    for _ in range(rounds):
        subprocess.run([tessera, "run", folder, "--json", folder / "run.json", "--output", folder],
                       check=True, stdout=subprocess.DEVNULL)
        times.append(json.loads((folder / "run.json").read_text())["seconds"])
    return statistics.median(times)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-tpu-interpret", action="store_true")
    parser.add_argument("--tessera", default=str(root / "build/release/cli/tessera"))
    options = parser.parse_args()
    tpu_info.get_device_kind = lambda: "TPU v6 lite"
    tpu_info.get_num_device_cores = lambda: 1
    print(f"{'kernel':<20} {'tessera':>10} {'TPU interpret':>14} {'ratio':>7} {'HLO interpret':>14} {'ratio':>7}")
    for name, program, arguments in programs():
        call = capture(program, arguments)
        arrays = call.arrays
        with tempfile.TemporaryDirectory() as scratch:
            folder = write_call(call, pathlib.Path(scratch), options.tessera)
            ours = run_tessera(options.tessera, folder, options.rounds)
            hlo, wanted = median_time(call.function(interpret=True), arrays, options.rounds)
            tpu = float("nan")
            if not options.skip_tpu_interpret:
                tpu, _ = median_time(call.function(interpret=pltpu.InterpretParams()), arrays, 1)
            for i, result in enumerate(wanted):
                got = np.load(folder / f"out{i}.npy")
                defined = ~np.isnan(got) & ~np.isnan(np.asarray(result))
                np.testing.assert_allclose(got[defined], np.asarray(result)[defined], rtol=2e-3, atol=2e-3)
        print(f"{name:<20} {ours:>9.4f}s {tpu:>13.3f}s {tpu / ours:>7.1f} {hlo:>13.4f}s {hlo / ours:>7.1f}", flush=True)


if __name__ == "__main__":
    main()
