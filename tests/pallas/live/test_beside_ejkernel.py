"""Our kernels beside ejKernel's on the same inputs: values, and bytes of HBM, of which ours move no more.

Needs the package ejkernel (an oracle that is run, nothing of it is here): pip install ejkernel==0.0.80.3. Prints the table of
docs/beside_ejkernel.md with -s."""
import json
import os
import pathlib
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

import tessera

pytest.importorskip("ejkernel")
if not hasattr(pltpu, "repeat"):  # a name that JAX has dropped: copies of the whole, one after the other
    pltpu.repeat = lambda x, copies, axis: jnp.concatenate([x] * copies, axis)
from ejkernel.kernels._pallas import tpu as theirs  # noqa: E402
from ejkernel.kernels._pallas.tpu.grouped_matmul import _pallas_impl as grouped  # noqa: E402
from ejkernel.kernels._xla.native_sparse_attention import native_sparse_attention  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
D = 128  # columns of a head, as a TPU tiles them


def uniform(seed, *shape):
    return np.random.default_rng(seed).uniform(-1, 1, size=shape).astype(np.float32)


def ours(folder, kernel, inputs, **sizes):
    """The outputs by name, and the bytes that were read and written."""
    words = [PROGRAM, "run", kernel, *(f"{name}={value}" for name, value in sizes.items())]
    words += ["--no-check", "--json", "run.json", "--output", "out"]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}={name}.npy"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    traffic = json.loads((folder / "run.json").read_text())["traffic"]
    outputs = {file.stem: np.load(file) for file in (folder / "out").glob("*.npy")}
    return outputs, traffic["hbm_read_bytes"], traffic["hbm_write_bytes"]


def simulated(function, *args):
    with tessera.simulate(device="tpu-v5e") as report:
        result = jax.tree.map(np.asarray, function(*[jnp.asarray(a) for a in args]))
    assert report.calls and not report.errors
    return result, report.hbm_read_bytes, report.hbm_write_bytes


def heads_first(x):
    """(batch, len, heads, d) to (batch, heads, len, d)."""
    return np.ascontiguousarray(np.swapaxes(x, 1, 2))


def compare(system, mine, peers, rtol=2e-5, lists=0):
    """`lists`: bytes of prefetched arrays that they have no use for."""
    (value, read, written), (wanted, peer_read, peer_written) = mine, peers
    np.testing.assert_allclose(value, wanted, rtol=rtol, atol=rtol)
    print(f"\n| {system} | {read + written:,} | {peer_read + peer_written:,} |")
    assert read + written <= peer_read + peer_written + lists


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, kv_heads, length", [(2, 2, 512), (4, 1, 1024)])
def test_flash_attention(tmp_path, heads, kv_heads, length, causal):
    q, k, v = uniform(0, 1, length, heads, D), uniform(1, 1, length, kv_heads, D), uniform(2, 1, length, kv_heads, D)
    peers = simulated(lambda *a: theirs.flash_attention(*a, causal=causal), q, k, v)
    out, *bytes_ = ours(
        tmp_path, "flash_attention", {"q": heads_first(q), "k": heads_first(k), "v": heads_first(v)}, batch=1, heads=heads,
        kv_heads=kv_heads, q_len=length, kv_len=length, head_dim=D, bd=D, bq=512, bk=length, causal=int(causal))
    name = f"flash_attention, {heads} heads of {kv_heads}, {length}{', causal' if causal else ''}"
    compare(name, (heads_first(out["o"]), *bytes_), peers, lists=4)


@pytest.mark.parametrize("window", [0, 128])
def test_blocksparse_attention(tmp_path, window):
    heads, length = 2, 1024
    q, k, v = (uniform(seed, 1, heads, length, D) for seed in range(3))
    # Theirs keeps `window` keys before a query, and the query's own.
    peers = simulated(
        lambda *a: theirs.blocksparse_attention(*a, causal=True, softmax_scale=D**-0.5, sliding_window=(window, 0) if window else None),
        q, k, v)
    out, *bytes_ = ours(
        tmp_path, "splash_attention", {"q": q, "k": k, "v": v}, batch=1, heads=heads, kv_heads=heads, q_len=length, kv_len=length,
        head_dim=D, bd=D, bq=512, bk=512, mask=3 if window else 1, window=window + 1)
    compare(f"blocksparse_attention, causal{f', window of {window}' if window else ''}, {length}", (out["o"], *bytes_), peers)


def paged(seed, batch, kv_heads, page, pages):
    """Caches as ours (pages, kv_heads, page, d) and as theirs, and a table that is no identity."""
    k, v = uniform(seed, batch * pages, kv_heads, page, D), uniform(seed + 1, batch * pages, kv_heads, page, D)
    table = np.random.default_rng(seed).permutation(batch * pages).astype(np.int32)
    return k, v, np.swapaxes(k, 0, 1), np.swapaxes(v, 0, 1), table


@pytest.mark.parametrize("lengths", [(256, 256, 256), (1, 256, 70)])
def test_page_attention(tmp_path, lengths):
    batch, kv_heads, group, page, pages = len(lengths), 2, 8, 32, 8
    k, v, their_k, their_v, table = paged(0, batch, kv_heads, page, pages)
    q = uniform(2, batch, kv_heads * group, D)
    lengths = np.asarray(lengths, np.int32)
    peers = simulated(
        lambda *a: theirs.page_attention(*a, attn_scale=D**-0.5, pages_per_compute_block=1), q, their_k, their_v, lengths,
        table.reshape(batch, pages))
    out, *bytes_ = ours(
        tmp_path, "paged_attention", {"q": q.reshape(batch, kv_heads, group, D), "k": k, "v": v, "lengths": lengths, "table": table},
        batch=batch, kv_heads=kv_heads, group=group, head_dim=D, page=page, pages=pages, bg=group, bp=page, bd=D)
    compare(f"page_attention, lengths {lengths.tolist()}", (out["o"].reshape(q.shape), *bytes_), peers, 2e-2)


def test_ragged_decode_attention(tmp_path):
    batch, kv_heads, group, length, page = 3, 2, 8, 512, 128
    lengths = np.asarray([512, 40, 300], np.int32)
    q, k, v = uniform(0, batch, kv_heads * group, D), uniform(1, batch, length, kv_heads, D), uniform(2, batch, length, kv_heads, D)
    peers = simulated(
        lambda *a: theirs.ragged_decode_attention(*a, jnp.zeros(batch, jnp.int32), jnp.asarray(lengths), softmax_scale=D**-0.5), q, k, v)

    def pages(x):  # (batch, len, heads, d) to pages of it, in order
        return np.ascontiguousarray(np.swapaxes(x.reshape(-1, page, kv_heads, D), 1, 2))

    out, *bytes_ = ours(
        tmp_path, "paged_attention",
        {"q": q.reshape(batch, kv_heads, group, D), "k": pages(k), "v": pages(v), "lengths": lengths,
         "table": np.arange(batch * length // page, dtype=np.int32)},
        batch=batch, kv_heads=kv_heads, group=group, head_dim=D, page=page, pages=length // page, bg=group, bp=page, bd=D)
    compare(f"ragged_decode_attention, lengths {lengths.tolist()}", (out["o"].reshape(q.shape), *bytes_), peers, 2e-2)


def test_ragged_page_attention(tmp_path):
    """Ours also writes the keys and values of new tokens into their pages, which theirs finds there."""
    kv_heads, group, page, pages = 2, 4, 16, 4
    lengths, starts = np.asarray([33, 16, 40], np.int32), np.asarray([0, 1, 17, 48], np.int32)
    sequences, tokens = len(lengths), int(starts[-1])
    k, v, _, _, table = paged(0, sequences, kv_heads, page, pages)
    q = uniform(2, tokens, kv_heads * group, D)
    combined = np.empty((sequences * pages, page, 2 * kv_heads, D), np.float32)
    combined[:, :, 0::2], combined[:, :, 1::2] = np.swapaxes(k, 1, 2), np.swapaxes(v, 1, 2)
    peers = simulated(
        lambda *a: theirs.ragged_page_attention_v2(*a, jnp.asarray([sequences], jnp.int32), softmax_scale=D**-0.5), q, combined, lengths,
        table.reshape(sequences, pages), starts)
    places = [(b, lengths[b] - (starts[b + 1] - starts[b]) + i) for b in range(sequences) for i in range(starts[b + 1] - starts[b])]
    new = [np.stack([x[table[b * pages + j // page], :, j % page] for b, j in places]).reshape(-1, 1, D) for x in (k, v)]
    out, *bytes_ = ours(
        tmp_path, "ragged_paged_attention",
        {"q": q.reshape(-1, group, D), "k_new": new[0], "v_new": new[1], "k_cache": k.reshape(-1, page, D),
         "v_cache": v.reshape(-1, page, D), "lengths": lengths, "starts": starts, "table": table},
        sequences=sequences, kv_heads=kv_heads, group=group, head_dim=D, page=page, pages=pages, tokens=tokens, bt=32, bg=group, bp=page,
        bd=D)
    np.testing.assert_array_equal(out["k"], k.reshape(-1, page, D))
    # What they would take to write them: each new row read, and written.
    update = 2 * 2 * tokens * kv_heads * D * 4
    (value, read, written) = (peers[0], peers[1] + update // 2, peers[2] + update // 2)
    compare("ragged_page_attention_v2 and an update of the cache", (out["o"].reshape(q.shape), *bytes_), (value, read, written), 2e-2)


@pytest.mark.parametrize("sizes", [(128, 128, 128, 128), (100, 156, 0, 256), (1, 2, 3, 506)])
def test_grouped_matmul(tmp_path, sizes):
    x, w, sizes = uniform(0, 512, 256), uniform(1, 4, 256, 384), np.asarray(sizes, np.int32)
    peers = simulated(lambda *a: theirs.grouped_matmul(*a, precision=jax.lax.Precision.HIGHEST), x, w, sizes)
    out, *bytes_ = ours(
        tmp_path, "grouped_matmul", {"x": x, "w": w, "group_sizes": sizes}, m=512, n=384, k=256, groups=4, bm=128, bn=128, bk=128)
    compare(f"grouped_matmul, groups of {sizes.tolist()}", (out["o"], *bytes_), peers, 1e-4)


@pytest.mark.parametrize("sizes", [(128, 128, 128, 128), (100, 156, 0, 256), (1, 2, 3, 506)])
def test_transposed_grouped_matmul(tmp_path, sizes):
    x, y, sizes = uniform(0, 512, 256), uniform(1, 512, 384), np.asarray(sizes, np.int32)
    peers = simulated(lambda x, *a: grouped.transposed_grouped_matmul(x.T, *a), x, y, sizes)
    out, *bytes_ = ours(tmp_path, "tgmm", {"x": x, "y": y, "group_sizes": sizes}, m=512, n=384, k=256, groups=4, bm=128, bn=128, bk=128)
    compare(f"tgmm, groups of {sizes.tolist()}", (out["o"], *bytes_), peers, 1e-4)


def test_a_shard_of_groups_into_an_existing_output(tmp_path):
    x, w, there, sizes = uniform(0, 512, 256), uniform(1, 2, 256, 384), uniform(2, 512, 384), np.asarray((100, 30, 150, 232), np.int32)
    peers = simulated(lambda x, w, sizes, there: grouped.grouped_matmul(x, w, sizes, group_offset=jnp.asarray(1, jnp.int32), existing_out=there), x, w, sizes, there)
    out, *bytes_ = ours(
        tmp_path, "grouped_matmul", {"x": x, "w": w, "group_sizes": sizes, "existing": there}, m=512, n=384, k=256, groups=2, before=1,
        all_groups=4, existing=1, bm=128, bn=128, bk=128)
    compare("grouped_matmul, groups 1 and 2 of [100, 30, 150, 232] into what is there", (out["o"], *bytes_), peers, 1e-4)


def test_native_sparse_attention_is_that_of_their_xla_module(tmp_path):
    """They have no Pallas kernel of it: values alone. Ours select, then attend, from the means of blocks."""
    length, kv_heads, group, block, top, share = 160, 2, 8, 16, 3, 1
    blocks, heads, rows = length // block, kv_heads * group, share * group
    q, k, v = uniform(0, 1, length, heads, D), uniform(1, 1, length, kv_heads, D), uniform(2, 1, length, kv_heads, D)
    g_cmp, g_slc = (abs(uniform(s, 1, length, heads)) for s in (3, 4))
    with jax.default_matmul_precision("float32"):
        wanted = np.asarray(native_sparse_attention(
            jnp.asarray(q), jnp.asarray(k), jnp.asarray(v), jnp.asarray(g_cmp), jnp.asarray(g_slc), block_counts=top, block_size=block))

    def by_rows(x):  # (1, len, heads, c) to (1, kv_heads, len group, c)
        x = x.reshape(1, length, kv_heads, group, -1)
        return np.ascontiguousarray(np.moveaxis(x, 2, 1).reshape(1, kv_heads, length * group, -1))

    queries = by_rows(q)
    keys, values = heads_first(k), heads_first(v)
    means = [x.reshape(1, kv_heads, blocks, block, D).mean(axis=3) for x in (keys, values)]
    common = dict(batch=1, kv_heads=kv_heads, group=group, len=length, head_dim=D, top=top, br=rows, bd=D)
    (tmp_path / "select").mkdir()
    first, *_ = ours(
        tmp_path / "select", "native_sparse_select", {"q": queries, "k_cmp": means[0], "v_cmp": means[1]}, block=block, blocks=blocks,
        bn=blocks, bt=top, **common)
    (tmp_path / "attend").mkdir()
    out, *_ = ours(
        tmp_path / "attend", "native_sparse_attention",
        {"q": queries, "k": keys, "v": values, "part": first["o"], "ids": first["ids"].reshape(-1), "g_slc": by_rows(g_slc),
         "g_cmp": by_rows(g_cmp)}, window=0, compressed=1, gated=1, bk=block, **common)
    np.testing.assert_allclose(out["o"], by_rows(wanted), rtol=2e-5, atol=2e-5)
