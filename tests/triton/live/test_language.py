"""What kernels of the tutorials and of libraries say, as whole programs beside NumPy."""
import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor


@pytest.fixture(autouse=True)
def simulation():
    with tessera.simulate_triton() as report:
        yield report


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def f32(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@triton.jit
def softmax_kernel(out_ptr, x_ptr, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        j = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + j, mask=j < columns, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * columns + j, e / tl.sum(e, axis=0), mask=j < columns)


def test_softmax_of_persistent_programs(rng):
    x, out = f32(rng, 37, 781), DeviceArray.empty((37, 781))
    softmax_kernel[(8,)](out, DeviceArray(x), 37, 781, BLOCK=1024, STAGES=4)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out.array, e / e.sum(1, keepdims=True), rtol=1e-5)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.where(tl.rand(seed, i) > p, x / (1 - p), 0.0), mask=i < n)


def philox(key, counter):
    """The first word of philox4x32 of ten rounds."""
    c, k = [counter, 0, 0, 0], [key, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


def test_dropout_is_philox(rng):
    x, out = f32(rng, 1000), DeviceArray.empty(1000)
    dropout_kernel[(4,)](DeviceArray(x), out, 1000, 0.5, 123, BLOCK=256)
    words = np.array([philox(123, i) for i in range(1000)], np.uint32).view(np.int32)
    drawn = np.where(words < 0, -words - 1, words) * np.float32(4.6566127342e-10)
    np.testing.assert_array_equal(out.array, np.where(drawn > 0.5, x / np.float32(0.5), 0))


@triton.jit
def norm_backward(dw_ptr, dy_ptr, x_ptr, lock_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    part = tl.load(dy_ptr + row * n + j, mask=j < n, other=0) * tl.load(x_ptr + row * n + j, mask=j < n, other=0)
    lock_ptr += row % GROUP
    count_ptr = lock_ptr + GROUP
    dw_ptr += row % GROUP * n + j
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(count_ptr) == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        part += tl.load(dw_ptr, mask=j < n)
    tl.store(dw_ptr, part, mask=j < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def test_partial_sums_under_locks(rng):
    x, dy, dw = f32(rng, 16, 100), f32(rng, 16, 100), DeviceArray.empty((4, 100))
    norm_backward[(16,)](dw, DeviceArray(dy), DeviceArray(x), DeviceArray(np.zeros(8, np.int32)), 100, GROUP=4, BLOCK=128)
    np.testing.assert_allclose(dw.array.sum(0), (x * dy).sum(0), rtol=1e-4, atol=1e-5)


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, D: tl.constexpr, BLOCK: tl.constexpr, STAGE: tl.constexpr):
    base = tl.program_id(1) * length * D
    start = tl.program_id(0) * BLOCK
    rows = start + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :])
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    end = start + BLOCK if STAGE == 3 else length
    for j in range(0, end, BLOCK):
        columns = j + tl.arange(0, BLOCK)
        z = tl.dot(q, tl.load(k_ptr + base + columns[None, :] * D + d[:, None])) * scale
        if STAGE == 3:
            z = tl.where(rows[:, None] >= columns[None, :], z, -1e6)
        new = tl.maximum(top, tl.max(z, 1))
        p = tl.math.exp2(z - new[:, None])
        f = tl.math.exp2(top - new)
        total = total * f + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + base + columns[:, None] * D + d[None, :]), acc * f[:, None])
        top = new
    tl.store(out_ptr + base + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16))


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention(rng, causal):
    q, k, v = (f32(rng, 2, 128, 64).astype(np.float16) for _ in range(3))
    out = DeviceArray.empty(q.shape, np.float16)
    attention_kernel[(4, 2)](*map(DeviceArray, (q, k, v)), out, 128, 0.125 * 1.44269504, D=64, BLOCK=32, STAGE=3 if causal else 1)
    z = q.astype(float) @ k.astype(float).swapaxes(1, 2) / 8
    if causal:
        z = np.where(np.tri(128, dtype=bool), z, -np.inf)
    p = np.exp(z - z.max(-1, keepdims=True))
    np.testing.assert_allclose(out.array, p / p.sum(-1, keepdims=True) @ v.astype(float), atol=2e-3)


@triton.jit
def asin_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, libdevice.asin(tl.load(x_ptr + i)))


def test_libdevice(rng):
    x, out = rng.uniform(-1, 1, 256).astype(np.float32), DeviceArray.empty(256)
    asin_kernel[(1,)](DeviceArray(x), out, BLOCK=256)
    np.testing.assert_allclose(out.array, np.arcsin(x), rtol=1e-6)


@triton.jit
def descriptor_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.float16))


def test_descriptors_made_on_the_device(rng, simulation):
    """Blocks reach beyond the arrays; what is outside is no access."""
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((96, 64), (80, 64)))
    c = DeviceArray.empty((96, 80), np.float16)
    descriptor_matmul[(2, 2)](DeviceArray(a), DeviceArray(b), c, 96, 80, 64, BM=64, BN=64, BK=32)
    np.testing.assert_array_equal(c.array, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    assert simulation.hbm_read_bytes == 2 * (a.nbytes + b.nbytes) and simulation.hbm_write_bytes == c.array.nbytes


@triton.jit
def descriptor_copy(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [8, N], [N, 1], [8, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [8, BLOCK], [BLOCK, 1], [8, BLOCK])
    out.store([0, 0], x.load([0, 0]))


@pytest.mark.parametrize("columns, skipped, aligned", [(40, 0, True), (40, 4, True), (42, 0, False), (40, 1, False)])
def test_descriptors_begin_where_tma_can(columns, skipped, aligned):
    x = np.arange(8 * columns + 4, dtype=np.float32)[skipped:]
    out = DeviceArray.empty((8, 32))
    if aligned:
        descriptor_copy[(1,)](DeviceArray(x), out, columns, BLOCK=32)
        np.testing.assert_array_equal(out.array, x[:8 * columns].reshape(8, columns)[:, :32])
        return
    with pytest.raises(tessera.KernelError, match=r"check-failed.*TMA refuses(.|\n)*make_tensor_descriptor\(x_ptr"):
        descriptor_copy[(1,)](DeviceArray(x), out, columns, BLOCK=32)


@triton.jit
def descriptor_twice(x, out, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK
    out.store([m, 0], 2 * x.load([m, 0]))


def test_descriptors_made_on_the_host(rng):
    x, out = f32(rng, 20, 32), DeviceArray.empty((20, 32))
    descriptor_twice[(3,)](*(TensorDescriptor(t, [20, 32], [32, 1], [8, 32]) for t in (DeviceArray(x), out)), BLOCK=8)
    np.testing.assert_array_equal(out.array, 2 * x)


@triton.jit
def sum_of_each(pointers_ptr, sizes_ptr, out_ptr, groups, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for g in range(groups):
        x_ptr = tl.load(pointers_ptr + g).to(tl.pointer_type(tl.float32))
        tl.store(out_ptr + g, tl.sum(tl.load(x_ptr + i, mask=i < tl.load(sizes_ptr + g), other=0)))


def test_pointers_in_memory(rng):
    arrays, out = [DeviceArray(f32(rng, n)) for n in (10, 20, 30)], DeviceArray.empty(3)
    pointers = DeviceArray(np.array([x.data_ptr() for x in arrays], np.int64))
    sum_of_each[(1,)](pointers, DeviceArray(np.array([10, 20, 30], np.int32)), out, 3, BLOCK=32)
    np.testing.assert_allclose(out.array, [x.array.sum() for x in arrays], rtol=1e-5)
    with pytest.raises(tessera.KernelError, match="oob-index") as wrong:
        sum_of_each[(1,)](pointers, DeviceArray(np.array([10, 21, 30], np.int32)), out, 3, BLOCK=32)
    assert "an allocation that pointers in memory point to ends at 80" in str(wrong.value)


@triton.jit
def order_kernel(x_ptr, j_ptr, sorted_ptr, top_ptr, gathered_ptr, sums_ptr, counts_ptr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    x, j = tl.load(x_ptr + i), tl.load(j_ptr + i)
    tl.store(sorted_ptr + i, tl.sort(x))
    tl.store(top_ptr + tl.arange(0, K), tl.topk(x, K))
    tl.store(gathered_ptr + i, tl.gather(x, j, 0))
    tl.store(sums_ptr + i, tl.cumsum(j, 0))
    tl.store(counts_ptr + i, tl.histogram(j, N))


def test_sort_topk_gather_scan_and_histogram(rng):
    x, j = f32(rng, 64), rng.integers(0, 64, 64).astype(np.int32)
    outs = [DeviceArray.empty(n, t) for n, t in ((64, np.float32), (8, np.float32), (64, np.float32), (64, np.int32), (64, np.int32))]
    order_kernel[(1,)](DeviceArray(x), DeviceArray(j), *outs, N=64, K=8)
    wanted = np.sort(x), np.sort(x)[::-1][:8], x[j], np.cumsum(j), np.bincount(j, minlength=64)
    for out, right in zip(outs, wanted):
        np.testing.assert_array_equal(out.array, right)


@triton.jit
def gather_kernel(x_ptr, j_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(j_ptr + i), 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
def test_gather_by_narrow_and_wide_indices(rng, dtype):
    x, j, out = f32(rng, 256), rng.integers(0, 256, 256).astype(dtype), DeviceArray.empty(256)
    gather_kernel[(1,)](DeviceArray(x), DeviceArray(j), out, N=256)
    np.testing.assert_array_equal(out.array, x[j])
    if dtype != np.uint8:
        j[7] = 256
        with pytest.raises(tessera.KernelError, match=r"oob-index\]: tt.gather with index 256 along an axis of 256"):
            gather_kernel[(1,)](DeviceArray(x), DeviceArray(j), out, N=256)


@triton.jit
def larger_magnitude(a, b):
    a, b = tl.abs(a), tl.abs(b)
    if a >= b:
        return a
    else:
        return b


@triton.jit
def run_of_ones(length_a, ones_a, length_b, ones_b):
    """How many ones end a stretch."""
    if ones_b == length_b:
        ones = ones_a + ones_b
        if ones_a > 100:
            ones = ones_b // length_b
    else:
        ones = ones_b
    return length_a + length_b, ones


@triton.jit
def combine_kernel(x_ptr, bits_ptr, most_ptr, ones_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(most_ptr, tl.reduce(tl.load(x_ptr + i), 0, larger_magnitude))
    length, ones = tl.associative_scan((tl.full((N,), 1, tl.int32), tl.load(bits_ptr + i)), 0, run_of_ones)
    tl.store(ones_ptr + i, ones)


def test_combine_functions_that_return_early_and_branch(rng):
    x, bits = f32(rng, 64), (rng.random(64) < 0.7).astype(np.int32)
    most, ones = DeviceArray.empty(1, np.float32), DeviceArray.empty(64, np.int32)
    combine_kernel[(1,)](DeviceArray(x), DeviceArray(bits), most, ones, N=64)
    run, wanted = 0, []
    for bit in bits:
        run = run + 1 if bit else 0
        wanted.append(run)
    assert most.array[0] == np.abs(x).max() and wanted == ones.array.tolist()


@triton.jit
def many_dims_kernel(x_ptr, sorted_ptr, flipped_ptr, top_ptr, N: tl.constexpr, M: tl.constexpr, DESCENDING: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    x = tl.load(x_ptr + rows * N + tl.arange(0, N)[None, :])
    tl.store(sorted_ptr + rows * N + tl.arange(0, N)[None, :], tl.sort(x, descending=DESCENDING))
    tl.store(flipped_ptr + rows * N + tl.arange(0, N)[None, :], tl.flip(x, 1))
    tl.store(top_ptr + rows * K + tl.arange(0, K)[None, :], tl.topk(x, K))


@pytest.mark.parametrize(("rows", "columns", "descending"), [(8, 512, False), (2, 1024, True), (1, 2048, False)])
def test_tensors_of_more_than_eight_dims(rng, rows, columns, descending):
    """tl.sort takes an axis apart into dims of 2."""
    x = f32(rng, rows, columns)
    ordered, flipped, top = DeviceArray.empty(x.shape), DeviceArray.empty(x.shape), DeviceArray.empty((rows, 16))
    many_dims_kernel[(1,)](DeviceArray(x), ordered, flipped, top, N=columns, M=rows, DESCENDING=descending, K=16)
    wanted = np.sort(x, axis=1)
    np.testing.assert_array_equal(ordered.array, wanted[:, ::-1] if descending else wanted)
    np.testing.assert_array_equal(flipped.array, x[:, ::-1])
    np.testing.assert_array_equal(top.array, wanted[:, ::-1][:, :16])


@triton.jit
def nine_dims_kernel(x_ptr, out_ptr, half_ptr):
    i = tl.arange(0, 1024)
    x = tl.reshape(tl.load(x_ptr + i), (2, 2, 2, 2, 2, 2, 2, 2, 4))
    tl.store(out_ptr + tl.arange(0, 512), tl.reshape(tl.sum(tl.reshape(x, (2, 2, 2, 2, 2, 2, 2, 2, 2, 2)), 3), (512,)))
    even, odd = tl.split(tl.reshape(tl.cumsum(x, 4), (2, 2, 2, 2, 2, 2, 2, 2, 2, 2)))
    tl.store(half_ptr + tl.arange(0, 512), tl.reshape(even - odd, (512,)))


def test_reductions_scans_and_halves_of_many_dims(rng):
    x, out, half = rng.integers(-99, 99, 1024).astype(np.int32), DeviceArray.empty(512, np.int32), DeviceArray.empty(512, np.int32)
    nine_dims_kernel[(1,)](DeviceArray(x), out, half)
    np.testing.assert_array_equal(out.array, x.reshape(8, 2, 64).sum(1).ravel())
    sums = np.cumsum(x.reshape(16, 2, 32), 1).ravel()
    np.testing.assert_array_equal(half.array, sums[::2] - sums[1::2])


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, out_ptr, PRECISION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    tl.store(out_ptr + ij, tl.dot(tl.load(a_ptr + ij), tl.load(b_ptr + ij), tl.load(c_ptr + ij), input_precision=PRECISION))


@pytest.mark.parametrize(("precision", "most", "least"), [("tf32", 2e-2, 1e-4), ("tf32x3", 4e-5, 0), ("bf16x3", 1e-3, 1e-6),
                                                          ("bf16x6", 2e-5, 0), ("ieee", 1e-5, 0)])
def test_input_precision(rng, precision, most, least):
    a, b, c = (f32(rng, 32, 32) for _ in range(3))
    out = DeviceArray.empty((32, 32))
    dot_kernel[(1,)](*map(DeviceArray, (a, b, c)), out, PRECISION=precision, N=32)
    off = np.abs(out.array - (a.astype(float) @ b.astype(float) + c)).max()
    assert least <= off <= most


def test_sums_of_bf16_are_exact_where_their_parts_are(rng):
    """Integers of 16 bits are two numbers of bf16."""
    a, b = rng.integers(-32768, 32768, (32, 32)).astype(np.float32), rng.integers(-4, 5, (32, 32)).astype(np.float32)
    for precision in ("bf16x3", "bf16x6"):
        out = DeviceArray.empty((32, 32))
        dot_kernel[(1,)](DeviceArray(a), DeviceArray(b), DeviceArray(b), out, PRECISION=precision, N=32)
        np.testing.assert_array_equal(out.array, a @ b + b)


@triton.jit
def assert_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.device_assert(tl.load(x_ptr + tl.arange(0, BLOCK)) < 100, "too large")


def test_device_assert(rng):
    x = f32(rng, 64)
    assert_kernel[(1,)](DeviceArray(x), BLOCK=64, debug=True)
    x[3] = 1000
    with pytest.raises(tessera.KernelError, match="too large"):
        assert_kernel[(1,)](DeviceArray(x), BLOCK=64, debug=True)


@triton.jit
def pass_on(flag_ptr, cell_ptr, FIRST: tl.constexpr, SEM: tl.constexpr):
    """Programs hand a number on, the last one first."""
    me = tl.program_id(0)
    last = tl.num_programs(0) - 1
    if me < last or FIRST:
        while tl.atomic_add(flag_ptr + me + 1, 0, sem=SEM) == 0:
            pass
    tl.store(cell_ptr + me, tl.load(cell_ptr + me + 1) + 1)
    tl.atomic_xchg(flag_ptr + me, 1, sem=SEM)


def test_programs_that_wait_for_later_ones():
    def launch(first, sem):
        cells = np.zeros(9, np.int32)
        pass_on[(8,)](DeviceArray(np.zeros(9, np.int32)), DeviceArray(cells), FIRST=first, SEM=sem)
        return cells.tolist()

    assert launch(False, "acq_rel") == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(tessera.KernelError) as race:
        launch(False, "relaxed")
    assert race.value.slug == "race" and "tl.store(cell_ptr + me, tl.load(cell_ptr + me + 1) + 1)   program 7" in str(race.value)
    with pytest.raises(tessera.KernelError) as dead:
        launch(True, "acq_rel")
    assert dead.value.slug == "deadlock" and "8 of 8 programs wait" in str(dead.value)
    assert "while tl.atomic_add(flag_ptr + me + 1, 0, sem=SEM) == 0:   program (x=0, y=0, z=0), element 1 of flag_ptr" in str(dead.value)


@triton.jit
def early_return(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) * BLOCK >= n:
        return
    a, b = tl.split(tl.reshape(tl.load(x_ptr + i, mask=i < n, other=0), (BLOCK // 2, 2)))
    tl.store(out_ptr + i, tl.interleave(b, a), mask=i < n)


def test_early_return_split_and_interleave(rng):
    x, out = f32(rng, 40), DeviceArray.empty(40)
    early_return[(9,)](DeviceArray(x), out, 40, BLOCK=16)
    np.testing.assert_array_equal(out.array, x.reshape(-1, 2)[:, ::-1].ravel())


@triton.jit(noinline=True)
def half(x):
    return x * 0.5


@triton.jit
def in_f64(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.exp(x) + half(tl.sum(x)))


def test_f64_and_what_the_compiler_makes_of_it(rng):
    x, out = rng.standard_normal(128), DeviceArray.empty(128, np.float64)
    kernel = in_f64[(1,)](DeviceArray(x), out, N=128)
    np.testing.assert_allclose(out.array, np.exp(x) + x.sum() / 2, rtol=1e-13)
    assert "tt.func public @in_f64(" in kernel.asm["ttir"] and "#ttg.blocked" in kernel.asm["ttgir"]
    assert ".visible .entry in_f64(" in kernel.asm["ptx"] and ".target sm_90" in kernel.asm["ptx"]


@triton.jit
def majority(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    bits = tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, $3, 0xe8;", "=r,r,r,r",
                                     [tl.load(a_ptr + i), tl.load(b_ptr + i), tl.load(c_ptr + i)], dtype=tl.int8,
                                     is_pure=True, pack=4)
    tl.store(out_ptr + i, bits)


def test_inline_assembly(rng):
    a, b, c = (rng.integers(-128, 128, 256).astype(np.int8) for _ in range(3))
    out = DeviceArray.empty(256, np.int8)
    majority[(1,)](*map(DeviceArray, (a, b, c)), out, N=256)
    np.testing.assert_array_equal(out.array, (a & b) | (a & c) | (b & c))


@triton.jit
def scaled_product(a_ptr, s_ptr, b_ptr, out_ptr):
    r, k, j = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 2)
    a = tl.load(a_ptr + r[:, None] * 32 + tl.arange(0, 32)[None, :])
    s = tl.load(s_ptr + r[:, None] * 2 + j[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + r[None, :])
    tl.store(out_ptr + r[:, None] * 16 + r[None, :], tl.dot_scaled(a, s, "e2m1", b, None, "bf16"))


def test_scaled_products(rng):
    import ml_dtypes

    codes = rng.integers(0, 16, (16, 64)).astype(np.uint8)
    scales = rng.integers(118, 130, (16, 2)).astype(np.uint8)
    b = rng.standard_normal((64, 16)).astype(ml_dtypes.bfloat16)
    out = DeviceArray.empty((16, 16))
    scaled_product[(1,)](DeviceArray(codes[:, ::2] | codes[:, 1::2] << 4), DeviceArray(scales), DeviceArray(b), out)
    a = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64) * np.repeat(2.0 ** (scales.astype(int) - 127), 32, axis=1)
    np.testing.assert_allclose(out.array, a @ b.astype(np.float64), rtol=1e-5, atol=1e-6)


@triton.jit
def words(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, libdevice.clz(x) * 100 + libdevice.popc(x) + libdevice.float2int_rd(libdevice.erfinv(x / 1e10) * 1e4))


def test_libdevice_of_integers(rng):
    import math

    x = rng.integers(1, 2**31, 128).astype(np.int32)
    out = DeviceArray.empty(128, np.int32)
    words[(1,)](DeviceArray(x), out, N=128)

    def inverse_erf(y):
        low, high = -1.0, 1.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if math.erf(middle) < y else (low, middle)
        return low

    for got, v in zip(out.array, x):
        exact = inverse_erf(float(np.float32(v) / np.float32(1e10))) * 1e4
        bits = (32 - int(v).bit_length()) * 100 + int(v).bit_count()
        assert got - bits in (math.floor(exact - 1e-2), math.floor(exact + 1e-2))
