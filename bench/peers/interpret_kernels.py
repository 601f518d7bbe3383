"""tessera against JAX's interpret modes on the same Mosaic kernels.

usage: PYTHONPATH=build/release/python .venv/bin/python bench/peers/interpret_kernels.py [--rounds N]
                                                                          [--skip-tpu-interpret] [--busy N]

Each kernel runs in one process as JAX's users run it: jitted and called once before it is timed; by
tessera with all checks (`tessera.simulate`), by the HLO interpreter (interpret=True), and by the TPU
interpret mode (pltpu.InterpretParams, one call, for it takes seconds). Times are medians of calls, of
tessera and the HLO interpreter in turns, each after a call that is not timed. All results are compared.
--busy: once more beside N processes that count, as on a machine that is used for something else too.
"""
import argparse
import importlib
import statistics
import subprocess
import sys
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
import tessera

# The package has a function of the module's name.
megablox = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
BLOCK = 128
DEVICE = "tpu-v6e"
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


def timed(function, arrays):
    start = time.perf_counter()
    result = jax.block_until_ready(function(*arrays))
    return time.perf_counter() - start, jax.tree.leaves(result)


def tessera_and_hlo(call, rounds):
    """Medians of calls, and the results."""
    ours, hlo = call.function(), call.function(interpret=True)
    times = {ours: [], hlo: []}
    results = {}
    with tessera.simulate(DEVICE):
        for _ in range(rounds):
            for function in (ours, hlo):
                timed(function, call.arrays)  # the other's threads come to rest
                seconds, results[function] = timed(function, call.arrays)
                times[function].append(seconds)
    return [(statistics.median(times[f]), results[f]) for f in (ours, hlo)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skip-tpu-interpret", action="store_true")
    parser.add_argument("--busy", type=int, default=0)
    options = parser.parse_args()
    compare(options)
    if options.busy == 0:
        return
    print(f"beside {options.busy} that count:")
    counting = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    try:
        compare(options)
    finally:
        for process in counting:
            process.kill()


def compare(options):
    tpu_info.get_device_kind = lambda: "TPU v6 lite"
    tpu_info.get_num_device_cores = lambda: 1
    print(f"{'kernel':<20} {'tessera':>10} {'TPU interpret':>14} {'ratio':>7} {'HLO interpret':>14} {'ratio':>7}")
    for name, program, arguments in programs():
        call = capture(program, arguments)
        (ours, got), (hlo, wanted) = tessera_and_hlo(call, options.rounds)
        tpu = float("nan")
        if not options.skip_tpu_interpret:
            function = call.function(interpret=pltpu.InterpretParams())
            timed(function, call.arrays)
            tpu, _ = timed(function, call.arrays)
        for mine, theirs in zip(got, wanted, strict=True):
            mine, theirs = np.asarray(mine), np.asarray(theirs)
            defined = ~np.isnan(mine) & ~np.isnan(theirs)
            np.testing.assert_allclose(mine[defined], theirs[defined], rtol=2e-3, atol=2e-3)
        print(f"{name:<20} {ours:>9.4f}s {tpu:>13.3f}s {tpu / ours:>7.1f} {hlo:>13.4f}s {hlo / ours:>7.1f}", flush=True)


if __name__ == "__main__":
    main()
