"""Products that wait for the next ones (triton/running_sums.hpp): the bits are those of a loop that looks at its sum."""
import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray


@triton.jit
def product(a, b, c, M, N, K, first, step, LOOKS: tl.constexpr, MASKED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    s = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.load(c + r[:, None] * N + s[None, :])
    for i in range(0, tl.cdiv(K, BK)):
        at = (first + i * step) * BK
        if MASKED:
            x = tl.load(a + r[:, None] * K + (at + k)[None, :], mask=(at + k)[None, :] < K, other=0)
            y = tl.load(b + (at + k)[:, None] * N + s[None, :], mask=(at + k)[:, None] < K, other=0)
        else:
            x = tl.load(a + r[:, None] * K + (at + k)[None, :])
            y = tl.load(b + (at + k)[:, None] * N + s[None, :])
        acc = tl.dot(x, y, acc, input_precision="ieee")
        if LOOKS:
            acc = tl.where(i >= 0, acc, 0.0)
    tl.store(c + r[:, None] * N + s[None, :], acc)


@triton.jit
def gated(a, b, d, c, N, K, LOOKS: tl.constexpr, B: tl.constexpr, BK: tl.constexpr):
    """Two sums in one loop, which is in another; one begins where the other one's tiles are."""
    r, k = tl.arange(0, B), tl.arange(0, BK)
    for n in range(0, N, B):
        s = n + tl.arange(0, B)
        up = tl.zeros((B, B), tl.float32)
        gate = tl.full((B, B), 0.25, tl.float32)
        for i in range(0, K, BK):
            x = tl.load(a + r[:, None] * K + (i + k)[None, :])
            u = tl.load(a + r[:, None] * K + (i + k)[None, :])
            up = tl.dot(x, tl.load(b + (i + k)[:, None] * N + s[None, :]), up, input_precision="ieee")
            gate = tl.dot(u, tl.load(d + (i + k)[:, None] * N + s[None, :]), gate, input_precision="ieee")
            if LOOKS:
                up, gate = tl.where(i >= 0, up, 0.0), tl.where(i >= 0, gate, 0.0)
        tl.store(c + r[:, None] * N + s[None, :], up * gate)


def operands(m, n, k, dtype=np.float32):
    rng = np.random.default_rng(k)
    return [rng.standard_normal(shape, np.float32).astype(dtype) for shape in ((m, k), (k, n), (k, n))], rng.standard_normal((m, n), np.float32)


def run(launch, result, looks):
    out = result.copy()
    launch(DeviceArray(out), looks)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("k, first, step, masked", [
    (256, 0, 1, False),
    (256, 7, -1, False),  # no tile continues the one before
    (32, 0, 1, False),
    (0, 0, 1, False),
    (200, 0, 1, True),  # the last tiles are copies
])
def test_bits_are_of_a_loop_that_looks_at_its_sum(k, first, step, masked, dtype):
    (a, b, _), start = operands(64, 96, k, dtype)
    x, y = DeviceArray(a), DeviceArray(b)

    def launch(c, looks):
        product[(2, 3)](x, y, c, 64, 96, k, first, step, LOOKS=looks, MASKED=masked, BM=32, BN=32, BK=32)

    with tessera.simulate_triton("h100"):
        got, wanted = run(launch, start, False), run(launch, start, True)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_allclose(got, start + a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


def test_two_sums_of_one_loop_in_another():
    (a, b, d), start = operands(32, 96, 128)
    x, y, z = map(DeviceArray, (a, b, d))
    with tessera.simulate_triton("h100"):
        got, wanted = (run(lambda c, looks: gated[(1,)](x, y, z, c, 96, 128, LOOKS=looks, B=32, BK=32), start, looks) for looks in (False, True))
    np.testing.assert_array_equal(got, wanted)
    a, b, d = (v.astype(np.float64) for v in (a, b, d))
    np.testing.assert_allclose(got, (a @ b) * (a @ d + 0.25), atol=1e-2)


def test_a_sum_of_what_is_written_is_of_what_is_there():
    """Tiles of memory that the launch writes do not wait: each turn's are as they are then."""
    @triton.jit
    def doubled(a, b, c, BM: tl.constexpr, BK: tl.constexpr):
        r, k = tl.arange(0, BM), tl.arange(0, BK)
        acc = tl.zeros((BM, BM), tl.float32)
        for i in range(0, 2):
            x = tl.load(a + r[:, None] * BK + k[None, :])
            y = tl.load(b + k[:, None] * BM + r[None, :])
            acc = tl.dot(x, y, acc, input_precision="ieee")
            tl.store(a + r[:, None] * BK + k[None, :], x * 2)
        tl.store(c + r[:, None] * BM + r[None, :], acc)

    a, b = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    c = np.zeros((32, 32), np.float32)
    with tessera.simulate_triton("h100"):
        doubled[(1,)](DeviceArray(a), DeviceArray(b), DeviceArray(c), BM=32, BK=32)
    assert (c == 32 + 64).all()
