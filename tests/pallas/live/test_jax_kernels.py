"""Every public kernel of jax.experimental.pallas.ops.tpu against the package's own references."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessera

RNG = np.random.default_rng


def normal(seed, *shape, dtype=jnp.float32, scale=1.0):
    return jnp.asarray(RNG(seed).normal(size=shape) * scale, dtype)


def simulated(function, *args, schedule="on_wait", device="tpu-v5e", **settings):
    """The results under each schedule and thread count, which must have the same bits."""
    with tessera.simulate(device=device, schedule=schedule, **settings) as report:
        result = jax.tree.map(np.asarray, function(*args))
    assert report.calls and not report.errors
    assert report.hbm_read_bytes > 0 and report.hbm_write_bytes > 0
    with tessera.simulate(device=device, schedule="random:1", threads=2, **settings):
        again = jax.tree.map(np.asarray, function(*args))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8)), result, again)
    return result


def close(got, wanted, rtol=1e-3, atol=1e-3):
    def one(g, w):
        np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), rtol=rtol, atol=atol)

    jax.tree.map(one, got, wanted)


# matmul, double


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "int4"])
def test_matmul(dtype):
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    x, y = normal(0, 256, 256, scale=3), normal(1, 256, 256, scale=3)
    x, y = (jnp.asarray(jnp.round(a) if "int" in dtype else a, dtype) for a in (x, y))
    out = jnp.int32 if "int" in dtype else x.dtype
    got = simulated(lambda: matmul(x, y, block_shape=(128, 128), block_k=128, out_dtype=out))
    wanted = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    if "int" in dtype:
        np.testing.assert_array_equal(got, wanted)
    else:
        close(got, wanted, *((1e-5, 1e-3) if dtype == "float32" else (1e-2, 1e-2)))


def test_double():
    from jax.experimental.pallas.ops.tpu.example_kernel import double

    x = normal(0, 8, 128)
    np.testing.assert_array_equal(simulated(double, x), np.asarray(x) * 2)


# flash attention


def flash_case(causal, segments, bias, dtype, seq=256):
    from jax.experimental.pallas.ops.tpu import flash_attention as fa

    q, k, v = (normal(i, 1, 2, seq, 128, dtype=dtype) for i in range(3))
    ab = normal(3, 1, 2, seq, seq) if bias else None
    ids = jnp.asarray(np.repeat([[0, 1, 2, 2]], seq // 4, axis=1).reshape(1, 4, -1).swapaxes(1, 2).reshape(1, seq))
    ids = jnp.sort(ids, axis=1)
    seg = fa.SegmentIds(q=ids, kv=ids) if segments else None
    blocks = fa.BlockSizes(
        block_q=128, block_k_major=128, block_k=128, block_b=1, block_q_major_dkv=128, block_k_major_dkv=128,
        block_k_dkv=128, block_q_dkv=128, block_k_major_dq=128, block_k_dq=128, block_q_dq=128)
    kernel = functools.partial(fa.flash_attention, causal=causal, sm_scale=0.088, block_sizes=blocks)
    reference = functools.partial(fa.mha_reference_no_custom_vjp, causal=causal, sm_scale=0.088)
    return (q, k, v, ab, seg), kernel, reference


@pytest.mark.parametrize("causal,segments,bias,dtype", [
    (False, False, False, "float32"), (True, False, False, "float32"), (True, True, True, "float32"),
    (True, False, False, "bfloat16")])
def test_flash_attention(causal, segments, bias, dtype):
    args, kernel, reference = flash_case(causal, segments, bias, dtype)
    close(simulated(kernel, *args), reference(*args), *((1e-3, 1e-3) if dtype == "float32" else (3e-2, 3e-2)))


@pytest.mark.parametrize("causal,segments,bias", [(True, False, False), (False, True, True)])
def test_flash_attention_backward(causal, segments, bias):
    (q, k, v, ab, seg), kernel, reference = flash_case(causal, segments, bias, "float32")

    def grads(f):
        return jax.jit(jax.grad(lambda q, k, v: (f(q, k, v, ab, seg) * jnp.sin(q)).sum(), argnums=(0, 1, 2)))

    close(simulated(grads(kernel), q, k, v), grads(reference)(q, k, v), 1e-3, 5e-3)


# splash attention


def splash_case(mask, heads=2, kv_heads=2, soft_cap=None, segments=False, seq=256, fused=False, seq_minor=False,
                residuals=False):
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as sk
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as sm

    shape = (seq, seq)
    custom = RNG(9).random(shape) < 0.5
    np.fill_diagonal(custom, True)
    masks = {"causal": sm.CausalMask(shape), "local": sm.LocalMask(shape, (64, 32), 0), "full": sm.FullMask(shape),
             "chunked": sm.ChunkedCausalMask(shape, 64), "custom": sm.NumpyMask(custom)}
    mask = sm.MultiHeadMask([masks[mask]] * heads)
    mqa = kv_heads == 0
    layout = sk.QKVLayout.SEQ_MINOR if seq_minor else sk.QKVLayout.HEAD_DIM_MINOR
    unfused = {} if fused else {"block_q_dq": 128, "block_kv_dq": 128}
    blocks = sk.BlockSizes(
        block_q=128, block_kv=128, block_kv_compute=128, block_q_dkv=128, block_kv_dkv=128, block_kv_dkv_compute=128,
        use_fused_bwd_kernel=fused, q_layout=layout, k_layout=layout, v_layout=layout, **unfused)
    make = sk.make_splash_mqa_single_device if mqa else sk.make_splash_mha_single_device
    kernel = make(mask, block_sizes=blocks, attn_logits_soft_cap=soft_cap, save_residuals=residuals)
    reference = (sk.make_masked_mqa_reference if mqa else sk.make_masked_mha_reference)(mask)
    reference = functools.partial(reference, attn_logits_soft_cap=soft_cap, save_residuals=residuals)
    q = normal(0, heads, seq, 128, scale=0.3)
    k, v = (normal(i, *([] if mqa else [kv_heads]), seq, 128) for i in (1, 2))
    ids = jnp.asarray(np.sort(RNG(5).integers(0, 3, seq)), jnp.int32)
    return (q, k, v, sk.SegmentIds(q=ids, kv=ids) if segments else None), kernel, reference


@pytest.mark.parametrize("settings", [
    {"mask": "causal"}, {"mask": "full", "seq_minor": True}, {"mask": "custom", "kv_heads": 0},
    {"mask": "local", "soft_cap": 20.0, "segments": True}, {"mask": "causal", "heads": 4, "residuals": True},
    {"mask": "chunked", "kv_heads": 0}], ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()))
def test_splash_attention(settings):
    args, kernel, reference = splash_case(**settings)
    close(simulated(kernel, *args), reference(*args), 1e-3, 2e-3)


@pytest.mark.parametrize("settings", [
    {"mask": "causal"}, {"mask": "local", "segments": True, "fused": True},
    {"mask": "chunked", "kv_heads": 0, "soft_cap": 30.0}, {"mask": "custom", "heads": 4},
    {"mask": "causal", "fused": True, "heads": 4}], ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()))
def test_splash_attention_backward(settings):
    (q, k, v, seg), kernel, reference = splash_case(**settings)

    def grads(f):
        return jax.jit(jax.grad(lambda q, k, v: (f(q, k, v, seg) * jnp.sin(q)).sum(), argnums=(0, 1, 2)))

    close(simulated(grads(kernel), q, k, v), grads(reference)(q, k, v), 1e-3, 5e-3)


# paged attention


@pytest.mark.parametrize("quantized,megacore,inline,soft_cap", [
    (False, None, True, None), (True, None, True, None), (False, None, False, 5.0),
    (False, "batch", True, None), (True, "kv_head", False, None)])
def test_paged_attention(quantized, megacore, inline, soft_cap):
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention, quantization_utils
    from jax.experimental.pallas.ops.tpu.paged_attention.util import grouped_query_attention_reference

    batch, heads, kv_heads, dim, page, pages = 4, 8, 2, 128, 16, 8
    q = normal(0, batch, heads, dim, scale=0.1)
    k, v = (normal(i, kv_heads, batch * pages, page, dim) for i in (1, 2))
    lengths = jnp.asarray([3, 128, 17, 90], jnp.int32)
    indices = jnp.asarray(RNG(3).permutation(batch * pages).reshape(batch, pages), jnp.int32)

    def sequences(x):  # [batch, kv_heads, pages * page, dim]
        return x[:, indices].swapaxes(0, 1).reshape(batch, kv_heads, pages * page, dim)

    wanted = grouped_query_attention_reference(q, sequences(k), sequences(v), lengths, soft_cap=soft_cap)
    if quantized:
        k, v = (quantization_utils.quantize_to_int8(x) for x in (k, v))
        k, v = (quantization_utils.QuantizedTensor(*x) for x in (k, v))
    kernel = jax.jit(functools.partial(paged_attention, pages_per_compute_block=4, megacore_mode=megacore,
                                       inline_seq_dim=inline, attn_logits_soft_cap=soft_cap))
    device = {"device": "tpu-v5p", "cores": 2} if megacore else {}
    close(simulated(kernel, q, k, v, lengths, indices, **device), wanted, 2e-2, 3e-2)


@pytest.mark.parametrize("kv_dtype,settings", [
    ("float32", {"sliding_window": 12, "soft_cap": 30.0}), ("bfloat16", {}),
    ("float8_e4m3fn", {"k_scale": 1.0, "v_scale": 1.0}), ("int8", {"k_scale": 0.05, "v_scale": 0.05})])
def test_ragged_paged_attention(kv_dtype, settings):
    from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (ragged_paged_attention,
                                                                        ref_ragged_paged_attention)

    dtype = jnp.float32 if kv_dtype == "float32" else jnp.bfloat16
    q_lens, kv_lens = [5, 1, 18], [20, 33, 50]
    tokens, pages_per_seq, page, combined = 32, 4, 16, 4
    q = normal(0, tokens, 8, 128, dtype=dtype)
    kv = normal(1, 16, page, combined, 128, scale=20 if kv_dtype == "int8" else 1).astype(kv_dtype)
    indices = jnp.asarray(RNG(2).permutation(16)[:12].reshape(3, pages_per_seq), jnp.int32)
    starts = jnp.asarray(np.concatenate([[0], np.cumsum(q_lens)]), jnp.int32)
    args = (q, kv, jnp.asarray(kv_lens, jnp.int32), indices, starts, jnp.asarray([3], jnp.int32))
    settings = {"sm_scale": 0.088, **settings}
    wanted = ref_ragged_paged_attention(*args, **settings)
    kernel = functools.partial(ragged_paged_attention, num_kv_pages_per_block=2, num_queries_per_block=8, **settings)
    got = simulated(kernel, *args)[: sum(q_lens)]
    close(got, wanted, *((1e-2, 1e-2) if kv_dtype == "float32" else (3e-2, 5e-2)))


# grouped products


def grouped(x, w, sizes, offset=0):
    out = np.zeros((x.shape[0], w.shape[2]))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for g in range(w.shape[0]):
        rows = slice(starts[g + offset], starts[g + offset + 1])
        out[rows] = np.asarray(x, np.float64)[rows] @ np.asarray(w, np.float64)[g]
    return out


@pytest.mark.parametrize("dtype,transposed,k", [("float32", False, 256), ("bfloat16", True, 256),
                                                ("float32", False, 200)])
def test_gmm(dtype, transposed, k):
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    sizes = [100, 0, 28, 128]
    x, w = normal(0, 256, k, dtype=dtype), normal(1, 4, k, 256, dtype=dtype)
    call = jax.jit(lambda x, w, s: gmm(x, w, s, jnp.float32, transpose_rhs=transposed))
    got = simulated(call, x, w.swapaxes(1, 2) if transposed else w, jnp.asarray(sizes, jnp.int32))
    close(got, grouped(x, w, sizes), 1e-4, 1e-2)


def test_gmm_on_a_shard_into_an_existing_output():
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    sizes = [100, 0, 28, 128]
    x, w, old = normal(0, 256, 256), normal(1, 2, 256, 256), normal(2, 256, 256)
    got = simulated(jax.jit(lambda x, w, s, old: gmm(
        x, w, s, group_offset=jnp.asarray(1, jnp.int32), existing_out=old)), x, w, jnp.asarray(sizes, jnp.int32), old)
    wanted = np.asarray(old, np.float64)
    wanted[100:128] = grouped(x, w, sizes, offset=1)[100:128]
    close(got, wanted, 1e-4, 1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tgmm(dtype):
    from jax.experimental.pallas.ops.tpu.megablox.gmm import tgmm

    sizes = [100, 0, 28, 128]
    x, dy = normal(0, 256, 256, dtype=dtype), normal(1, 256, 128, dtype=dtype)
    got = simulated(jax.jit(lambda x, dy, s: tgmm(x.T, dy, s, jnp.float32)), x, dy, jnp.asarray(sizes, jnp.int32))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    wanted = np.stack([np.asarray(x, np.float64)[a:b].T @ np.asarray(dy, np.float64)[a:b]
                       for a, b in zip(starts, starts[1:])])
    close(got, wanted, 1e-4, 1e-2)


def test_gmm_differentiated():
    from jax.experimental.pallas.ops.tpu.megablox import ops

    sizes = jnp.asarray([100, 0, 28, 128], jnp.int32)
    x, w = normal(0, 256, 128), normal(1, 4, 128, 128)

    def plain(x, w):
        group = jnp.repeat(jnp.arange(4), sizes, total_repeat_length=256)
        return jnp.einsum("mk,mkn->mn", x, w[group])

    def loss(f):
        return jax.jit(jax.grad(lambda x, w: jnp.sin(f(x, w)).sum(), argnums=(0, 1)))

    close(simulated(loss(lambda x, w: ops.gmm(x, w, sizes)), x, w), loss(plain)(x, w), 1e-3, 1e-2)


# random bits, to the bit


@pytest.mark.parametrize("shape", [(512, 512), (300, 260), (7,)], ids=str)
def test_threefry(shape):
    import jax.experimental.pallas.ops.tpu.random.threefry  # noqa: F401 (registers the implementation)

    got = simulated(jax.jit(lambda: jax.random.bits(jax.random.key(42, impl="pallas_threefry2x32"), shape)))
    with jax.threefry_partitionable(True):  # the kernel's counters
        wanted = jax.random.bits(jax.random.key(42, impl="threefry2x32"), shape)
    np.testing.assert_array_equal(got, wanted)


def philox(counts, k0, k1):
    """Philox-4x32-10 of the counters (0, count, 0, 0): Salmon et al., doi:10.1145/2063384.2063405."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    zero = np.zeros_like(counts)
    c, k0, k1 = [zero, counts, zero, zero], np.uint64(k0), np.uint64(k1)
    for _ in range(10):
        a, b = c[2] * np.uint64(0xCD9E8D57), c[0] * np.uint64(0xD2511F53)
        c = [(a >> half) ^ c[1] ^ k0, a & low, (b >> half) ^ c[3] ^ k1, b & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c


def test_philox():
    from jax.experimental.pallas.ops.tpu.random import philox as kernel

    # Test vector of Random123 (kat_vectors, philox4x32 10): counter and key zero.
    assert [int(w[0]) for w in philox(np.zeros(1, np.uint64), 0, 0)] == [
        0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    key = [0x12345678, 0x9ABCDEF0]
    got = simulated(jax.jit(lambda k: kernel.philox_4x32_count(k, (256, 384), offset=7, fuse_output=False)),
                    jnp.asarray(key, jnp.uint32))
    wanted = philox(np.arange(7, 7 + 256 * 384, dtype=np.uint64).reshape(256, 384), *key)
    np.testing.assert_array_equal(got, np.stack(wanted[:2]))
