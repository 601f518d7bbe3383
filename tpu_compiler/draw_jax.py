"""Draws shapes, types, masks and blocks of the TPU kernels that JAX ships at random, and captures their calls, each as a folder with arrays.

    PYTHONPATH=build/release/python python tpu_compiler/draw_jax.py FOLDER --seed 1 --count 30

Flash and splash attention with their gradients, paged and ragged paged attention, grouped products (megablox) and a product: nobody at tessera
wrote them. What JAX refuses is drawn again. XLA is asked to leave operands in HBM, where it leaves larger ones by itself. The same seed draws the
same calls. For tpu_compiler/judge_units.py. Needs jax and tessera's Python package.
"""
import argparse
import collections
import os
import pathlib
import random
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import tpu
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import matmul, megablox
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as ragged
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jaxlib.mlir import ir, passmanager

import tessera
from hbm_operands import leave_folder_in_hbm

FAMILIES = {}  # name: a function of a random.Random, which gives a function and its arguments


def family(draw):
    FAMILIES[draw.__name__] = draw
    return draw


def normal(r, shape, dtype):
    return jnp.asarray(np.random.default_rng(r.getrandbits(32)).standard_normal(shape, np.float32), dtype)


def float_type(r):
    return r.choice(["float32", "bfloat16"])


def with_gradient(r, function):
    """The function, or its gradient in all that it takes."""
    if r.random() < 0.5:
        return function
    return jax.grad(lambda *arguments: function(*arguments).astype(jnp.float32).sum(), argnums=(0, 1, 2))


@family
def flash_attention(r):
    dtype, block = float_type(r), r.choice([128, 256, 512])
    queries, keys = (block * r.choice([1, 2, 3]) for _ in range(2))
    heads, depth = r.choice([1, 2, 3]), r.choice([64, 128, 256])
    causal = queries == keys and r.random() < 0.5
    sizes = flash.BlockSizes(
        block_q=block, block_k_major=block, block_k=r.choice([128, block]), block_b=1, block_q_major_dkv=block, block_k_major_dkv=block,
        block_k_dkv=block, block_q_dkv=block, block_k_major_dq=block, block_k_dq=block, block_q_dq=block)
    attend = lambda q, k, v: flash.flash_attention(q, k, v, causal=causal, sm_scale=depth ** -0.5, block_sizes=sizes)
    return with_gradient(r, attend), [normal(r, (1, heads, n, depth), dtype) for n in (queries, keys, keys)]


@family
def splash_attention(r):
    dtype, block = float_type(r), r.choice([128, 256, 384, 512])
    length, heads, depth = block * r.choice([1, 2, 3]), r.choice([1, 2, 4]), r.choice([64, 128, 256])
    one = r.choice([masks.CausalMask((length, length)), masks.FullMask((length, length)), masks.LocalMask((length, length), (r.choice([64, 160, 300]), 0), 0)])
    sizes = splash.BlockSizes(
        block_q=block, block_kv=block, block_kv_compute=r.choice([128, block]), block_q_dkv=block, block_kv_dkv=block, block_kv_dkv_compute=block,
        block_q_dq=block, block_kv_dq=block)
    of_one_head = r.random() < 0.3
    make = splash.make_splash_mqa_single_device if of_one_head else splash.make_splash_mha_single_device
    attend = make(masks.MultiHeadMask([one] * heads), block_sizes=sizes, attn_logits_soft_cap=r.choice([None, None, 30.0]))
    keys = (length, depth) if of_one_head else (heads, length, depth)
    return with_gradient(r, attend), [normal(r, shape, dtype) for shape in ((heads, length, depth), keys, keys)]


@family
def paged(r):
    dtype, sequences, page = float_type(r), r.choice([1, 2, 4]), r.choice([16, 32, 64])
    heads_of_keys, together, depth = r.choice([1, 2, 4]), r.choice([1, 4, 8]), 128
    pages, at_once = r.choice([2, 4, 8]), r.choice([1, 2, 4])
    lengths = jnp.asarray([r.randint(1, pages * page) for _ in range(sequences)], jnp.int32)
    table = jnp.asarray(np.random.default_rng(r.getrandbits(32)).permutation(sequences * pages).reshape(sequences, pages), jnp.int32)
    stored = (heads_of_keys, sequences * pages, page, depth)
    attend = lambda q, k, v: paged_attention(q, k, v, lengths, table, pages_per_compute_block=min(at_once, pages))
    return attend, [normal(r, (sequences, heads_of_keys * together, depth), dtype), normal(r, stored, dtype), normal(r, stored, dtype)]


@family
def ragged_paged(r):
    dtype, sequences, page, pages = float_type(r), r.choice([1, 2, 4]), 16, r.choice([4, 8])
    heads_of_keys, together, depth = r.choice([1, 2]), r.choice([1, 2, 4]), 128
    new = [r.choice([1, 1, 8, 30]) for _ in range(sequences)]
    lengths = [r.randint(n, pages * page) for n in new]
    table = jnp.arange(sequences * pages, dtype=jnp.int32).reshape(sequences, pages)
    starts = jnp.asarray(np.cumsum([0, *new]), jnp.int32)
    queries, at_once = r.choice([8, 16, 32]), r.choice([2, 4])
    attend = lambda q, stored: ragged.ragged_paged_attention(
        q, stored, jnp.asarray(lengths, jnp.int32), table, starts, jnp.asarray([sequences], jnp.int32), sm_scale=depth ** -0.5,
        num_kv_pages_per_block=at_once, num_queries_per_block=queries)
    return attend, [normal(r, (sum(new), heads_of_keys * together, depth), dtype), normal(r, (sequences * pages, page, 2 * heads_of_keys, depth), dtype)]


@family
def grouped_matmul(r):
    dtype, groups = float_type(r), r.choice([2, 3, 4, 8])
    tiles = [r.choice([128, 256, 512]) for _ in range(3)]
    m, k, n = tiles[0] * r.choice([1, 2, 4]), tiles[1] * r.choice([1, 2]), tiles[2] * r.choice([1, 2])
    k += r.choice([0, 0, 64])
    ends = sorted(r.randint(0, m) for _ in range(groups - 1))
    sizes = jnp.asarray(np.diff([0, *ends, m]), jnp.int32)
    multiply = lambda a, b: megablox.gmm(a, b, sizes, preferred_element_type=jnp.float32, tiling=tuple(tiles))
    return multiply, [normal(r, (m, k), dtype), normal(r, (groups, k, n), dtype)]


@family
def product(r):
    dtype, (m, n, k) = float_type(r), (r.choice([128, 256, 512]) for _ in range(3))
    multiply = lambda a, b: matmul.matmul(a, b, block_shape=(m, n), block_k=k)
    columns, depth = n * r.choice([1, 2]), k * r.choice([1, 2, 3])
    return multiply, [normal(r, (m * r.choice([1, 2]), depth), dtype), normal(r, (depth, columns), dtype)]


def write_text(call):
    """The module as text, beside its bytecode."""
    with ir.Context() as context:
        tpu.register_dialect(context)
        context.allow_unregistered_dialects = True
        module = ir.Module.parse((call / "kernel.mlirbc").read_bytes())
        passmanager.PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)
        (call / "kernel.mlir").write_text(str(module))


def draw(r, name, folder, refused):
    """The folders of the calls that one drawn program makes; what is refused is counted."""
    at = folder / f"of_{name}"
    try:
        function, arguments = FAMILIES[name](r)
        tessera.capture(jax.jit(function), *arguments, folder=str(at), device="tpu-v6e")
    except Exception as error:  # JAX's own verdict, or tessera's
        refused[f"{name}: {type(error).__name__}"] += 1
        if os.environ.get("DRAW_VERBOSE"):
            print(name, str(error)[:300])
    calls = sorted(at.iterdir()) if at.exists() else []
    for call in calls:
        write_text(call)
        leave_folder_in_hbm(call)
    return calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=30, help="at least so many calls; a gradient makes several")
    arguments = parser.parse_args()
    r = random.Random(arguments.seed)
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    names, made, tried, refused = list(FAMILIES), 0, 0, collections.Counter()
    while made < arguments.count and tried < 4 * arguments.count:
        name = names[tried % len(names)]
        tried += 1
        for call in draw(r, name, arguments.folder, refused):
            call.rename(arguments.folder / f"{made:03}_{call.name.partition('_')[2]}")
            made += 1
        shutil.rmtree(arguments.folder / f"of_{name}", ignore_errors=True)
    print(f"{made} calls of {tried} programs; refused: {', '.join(f'{n} {what}' for what, n in refused.items()) or 'none'}")


if __name__ == "__main__":
    main()
