"""42 kernels that are wrong, each found at its line, and 42 that are right: one choice apart (BAD)."""
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from twins import Twins

TWINS = Twins()
twin = TWINS.twin


# Races: programs, and lanes, that meet.


@twin("race", 4, "xz")
@triton.jit
def blocks_that_overlap(x, o, BAD: tl.constexpr):
    r = tl.arange(0, 16)
    tl.store(o + tl.program_id(0) * (8 if BAD else 16) + r, tl.load(x + tl.program_id(0) * 16 + r))  # found


@twin("race", 3, "xz")
@triton.jit
def a_shift_in_place(x, o, BAD: tl.constexpr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    v = tl.load(x + i + 16)
    tl.store((x if BAD else o) + i, v)  # found


@twin("race", 4, "xz")
@triton.jit
def sums_in_one_place(x, o, BAD: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * 16 + tl.arange(0, 16))
    tl.store(o + (0 if BAD else tl.program_id(0)), tl.sum(v))  # found


@twin("race", 4, "xz")
@triton.jit
def a_sum_without_atomics(x, o, BAD: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * 16 + tl.arange(0, 16)))
    if BAD:
        tl.store(o, tl.load(o) + v)  # found
    else:
        tl.atomic_add(o, v)


@twin("race", 1, "xz")
@triton.jit
def lanes_that_meet(x, o, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(o + (i // 2 if BAD else i), tl.load(x + i))  # found


@twin("race", 4, "iz")
@triton.jit
def a_histogram(x, o, BAD: tl.constexpr):
    bins = tl.load(x + tl.program_id(0) * 16 + tl.arange(0, 16)) // 32
    if BAD:
        tl.store(o + bins, tl.load(o + bins) + 1.0)  # found
    else:
        tl.atomic_add(o + bins, 1.0)


@twin("race", 2, "xz")
@triton.jit
def a_tile_with_the_stride_of_the_other_dim(x, o, BAD: tl.constexpr):
    r = tl.program_id(0) * 4 + tl.arange(0, 4)
    c = tl.arange(0, 8)
    v = tl.load(x + r[:, None] * 8 + c[None, :])
    tl.store(o + r[:, None] * (4 if BAD else 8) + c[None, :], v)  # found


@twin("race", 4, "xz")
@triton.jit
def a_flag_read_as_it_is_written(x, o, BAD: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o, 1.0)
    tl.store(o + 1 + tl.program_id(0), tl.load(o if BAD else x))  # found


@twin("race", 4, "xz")
@triton.jit
def a_sum_cleared_beside_atomics(x, o, BAD: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(o + (0 if BAD else 1), 5.0)
    tl.atomic_add(o, tl.load(x + tl.program_id(0)), sem="relaxed")  # found


# Outside of an allocation.


@twin("oob-index", 4, "xz", 60)
@triton.jit
def a_last_block_without_mask(x, o, n, BAD: tl.constexpr):
    i = tl.program_id(0) * 20 + tl.arange(0, 32)
    v = tl.load(x + i, mask=i < (100 if BAD else n), other=0.0)  # found
    tl.store(o + i, v, mask=(i < n) & (tl.arange(0, 32) < 20))


@twin("oob-index", 4, "xz", 64)
@triton.jit
def a_store_without_mask(x, o, n, BAD: tl.constexpr):
    i = tl.program_id(0) * 17 + tl.arange(0, 16)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(o + i, v, mask=i < (n + 16 if BAD else n))  # found


@twin("oob-index", 1, "xz", 64)
@triton.jit
def one_too_many(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 128)
    m = (i <= n) if BAD else (i < n)
    tl.store(o + i, tl.load(x + i, mask=m), mask=m)  # found


@twin("oob-index", 1, "xz", 4, 16)
@triton.jit
def rows_masked_as_columns(x, o, rows, columns, BAD: tl.constexpr):
    r = tl.arange(0, 8)
    c = tl.arange(0, 16)
    m = (r[:, None] < (columns if BAD else rows)) & (c[None, :] < columns)
    v = tl.load(x + r[:, None] * columns + c[None, :], mask=m, other=0.0)  # found
    tl.store(o + r[:, None] * columns + c[None, :], v, mask=m)


@twin("oob-index", 1, "xz")
@triton.jit
def the_left_neighbour(x, o, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i - 1, mask=i >= (0 if BAD else 1), other=0.0)  # found
    tl.store(o + i, v)


@twin("oob-index", 1, "xz")
@triton.jit
def a_row_stride_too_large(x, o, BAD: tl.constexpr):
    r = tl.arange(0, 8)
    v = tl.load(x + r[:, None] * (9 if BAD else 8) + r[None, :])  # found
    tl.store(o + r[:, None] * 8 + r[None, :], v)


@twin("oob-index", 1, "ixz")
@triton.jit
def an_index_past_the_table(index, x, o, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    at = tl.load(index + i) * 2
    v = tl.load(x + (at if BAD else at % 64))  # found
    tl.store(o + i, v)


@twin("oob-index", 1, "xz", 50)
@triton.jit
def a_loop_with_a_remainder(x, o, n, BAD: tl.constexpr):
    total = tl.zeros((16,), tl.float32)
    for k in range(0, n + 32, 16):
        i = k + tl.arange(0, 16)
        total += tl.load(x + i, mask=i < (1000 if BAD else n), other=0.0)  # found
    tl.store(o + tl.arange(0, 16), total)


# Undefined values that reach memory, or decide where it is.


@twin("uninit-read", 1, "xz", 50)
@triton.jit
def a_sum_of_lanes_left_out(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n) if BAD else tl.load(x + i, mask=i < n, other=0.0)  # found
    tl.store(o, tl.sum(v))


@twin("uninit-read", 1, "xuz")
@triton.jit
def a_sum_into_nothing(x, u, z, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    before = tl.load((u if BAD else z) + i)  # found
    tl.store(u + i, before + tl.load(x + i))


@twin("uninit-read", 1, "xz", 50)
@triton.jit
def a_maximum_of_lanes_left_out(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n) if BAD else tl.load(x + i, mask=i < n, other=float("-inf"))  # found
    tl.store(o, tl.max(v))


@twin("uninit-read", 1, "xz", 3)
@triton.jit
def a_product_of_lanes_left_out(x, o, k, BAD: tl.constexpr):
    r = tl.arange(0, 16)
    m = (r[None, :] < k) & (r[:, None] < 4)
    a = tl.load(x + r[:, None] * 4 + r[None, :], mask=m, other=0.0)
    b = tl.load(x + r[:, None] * 4 + r[None, :], mask=m) if BAD else a  # found
    tl.store(o + r[:, None] * 4 + r[None, :], tl.dot(a, b), mask=(r[:, None] < 4) & (r[None, :] < 4))


@twin("uninit-read", 1, "xzi")
@triton.jit
def an_index_of_nothing(x, o, index, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    at = tl.load(index + i, mask=i < 32) if BAD else tl.load(index + i, mask=i < 32, other=0)
    tl.store(o + i, tl.load(x + at))  # found


@twin("uninit-read", 1, "xz", 32)
@triton.jit
def a_mask_of_nothing(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n) if BAD else tl.load(x + i, mask=i < n, other=0.0)
    tl.store(o + i, v, mask=v > 3)  # found


@twin("uninit-read", 4, "xz", 10)
@triton.jit
def a_softmax_of_lanes_left_out(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    at = x + tl.program_id(0) * n + i
    v = tl.load(at, mask=i < n) if BAD else tl.load(at, mask=i < n, other=float("-inf"))  # found
    e = tl.exp(v - tl.max(v))
    tl.store(o + tl.program_id(0) * n + i, e / tl.sum(e), mask=i < n)


# Masks that are another access's.


@twin("oob-index", 4, "xz", 60)
@triton.jit
def a_mask_of_the_block(x, o, n, BAD: tl.constexpr):
    r = tl.arange(0, 32)
    i = tl.program_id(0) * 20 + r
    m = (r < 20) & ((r if BAD else i) < n)
    tl.store(o + i, tl.load(x + i, mask=m), mask=m)  # found


@twin("oob-index", 1, "xz", 50)
@triton.jit
def a_mask_before_the_step(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    at = x + i
    total = tl.zeros((16,), tl.float32)
    for k in range(0, 5):
        m = (i if BAD else i + k * 16) < n
        total += tl.load(at, mask=m, other=0.0)  # found
        at += 16
    tl.store(o + i, total)


@twin("race", 1, "xz", 7)
@triton.jit
def columns_without_mask(x, o, n, BAD: tl.constexpr):
    r = tl.arange(0, 8)
    both = (r[:, None] < n) & (r[None, :] < n)
    rows = (r[:, None] < 8) & (r[None, :] < 8)
    v = tl.load(x + r[:, None] * n + r[None, :], mask=both, other=0.0)
    tl.store(o + r[:, None] * n + r[None, :], v, mask=rows if BAD else both)  # found


@twin("oob-index", 1, "xz", 64)
@triton.jit
def a_mask_turned_round(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 128)
    m = (i >= n) if BAD else (i < n)
    tl.store(o + i, tl.load(x + i, mask=m), mask=m)  # found


@twin("uninit-read", 1, "xz", 50)
@triton.jit
def a_store_of_more_than_was_loaded(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n)  # found
    tl.store(o + i, v * 2, mask=i < (64 if BAD else n))


# Locks.


@triton.jit
def lock(at):
    while tl.atomic_cas(at, 0, 1) == 1:
        pass


@twin("race", 4, "xzl")
@triton.jit
def given_back_without_a_release(x, o, at, BAD: tl.constexpr):
    lock(at)
    tl.store(o, tl.load(o) + tl.load(x + tl.program_id(0)) + 1)  # found
    tl.atomic_xchg(at, 0, sem="relaxed" if BAD else "release")


@twin("race", 4, "xzl")
@triton.jit
def a_store_behind_the_lock(x, o, at, BAD: tl.constexpr):
    lock(at)
    v = tl.load(o) + tl.load(x + tl.program_id(0)) + 1  # found
    if BAD:
        tl.atomic_xchg(at, 0)
        tl.store(o, v)
    else:
        tl.store(o, v)
        tl.atomic_xchg(at, 0)


@twin("race", 4, "xzl")
@triton.jit
def a_load_before_the_lock(x, o, at, BAD: tl.constexpr):
    before = tl.load(o if BAD else x)  # found
    lock(at)
    if not BAD:
        before = tl.load(o)
    tl.store(o, before + tl.program_id(0) + 1)
    tl.atomic_xchg(at, 0)


@twin("race", 4, "xzl")
@triton.jit
def taken_without_an_acquire(x, o, at, BAD: tl.constexpr):
    while tl.atomic_cas(at, 0, 1, sem="relaxed" if BAD else "acquire") == 1:
        pass
    tl.store(o, tl.load(o) + tl.load(x + tl.program_id(0)) + 1)  # found
    tl.atomic_xchg(at, 0, sem="release")


@twin("race", 4, "xzi")
@triton.jit
def two_locks_for_one(x, o, locks, BAD: tl.constexpr):
    at = locks + 64 - 64 + (tl.program_id(0) % 2 if BAD else 0)
    while tl.atomic_cas(at, tl.program_id(0) % 2 if BAD else 0, 9) == 9:
        pass
    tl.store(o, tl.load(o) + tl.load(x + tl.program_id(0)) + 1)  # found
    tl.atomic_xchg(at, tl.program_id(0) % 2 if BAD else 0)


# Offsets that wrap.


@twin("oob-index", 4, "xz", 1 << 30)
@triton.jit
def a_product_of_32_bits(x, o, stride, BAD: tl.constexpr):
    first = tl.program_id(0) * stride if BAD else tl.program_id(0).to(tl.int64) * stride
    tl.store(o + tl.program_id(0), tl.load(x + first // stride))  # found


@twin("oob-index", 1, "xz", 1 << 27)
@triton.jit
def rows_of_32_bits(x, o, stride, BAD: tl.constexpr):
    r = tl.arange(0, 32)
    at = (r if BAD else r.to(tl.int64)) * stride
    tl.store(o + r, tl.load(x + at // stride))  # found


@twin("oob-index", 1, "xz")
@triton.jit
def an_index_of_8_bits(x, o, BAD: tl.constexpr):
    i = tl.arange(0, 64)
    at = i.to(tl.int8 if BAD else tl.int16) * 3
    tl.store(o + i, tl.load(x + at // 3))  # found


# Programs that wait for ever.


@twin("deadlock", 4, "l", 4)
@triton.jit
def a_barrier_that_counts_one_more(at, n, BAD: tl.constexpr):
    tl.atomic_add(at, 1)
    while tl.atomic_add(at, 0) < (n + 1 if BAD else n):  # found
        pass


@twin("deadlock", 4, "l")
@triton.jit
def a_flag_that_nobody_sets(at, BAD: tl.constexpr):
    if tl.program_id(0) == (4 if BAD else 3):
        tl.atomic_xchg(at, 1)
    while tl.atomic_add(at, 0) == 0:  # found
        pass


@twin("deadlock", 3, "zl")
@triton.jit
def a_lock_that_is_kept(o, at, BAD: tl.constexpr):
    while tl.atomic_cas(at, 0, 1) == 1:  # found
        pass
    tl.store(o, tl.load(o) + 1)
    if not BAD:
        tl.atomic_xchg(at, 0)


@twin("deadlock", 2, "i")
@triton.jit
def two_that_wait_for_one_another(at, BAD: tl.constexpr):
    me = tl.program_id(0)
    if not BAD:
        tl.atomic_xchg(at + 10 + me, 99)
    while tl.atomic_add(at + 11 - me, 0) != 99:  # found
        pass
    tl.atomic_xchg(at + 10 + me, 99)


@twin("deadlock", 2, "l")
@triton.jit
def a_flag_that_is_read_for_ever(at, BAD: tl.constexpr):
    while tl.load(at, volatile=True) == (0 if BAD else 1):  # found
        pass


def test_as_many():
    assert len(TWINS) == 42


@pytest.mark.parametrize("name", TWINS)
def test_found_at_its_line(name):
    slug, place = TWINS.slug_and_place(name)
    with pytest.raises(tessera.KernelError) as wrong:
        TWINS.launch(name, True)
    assert wrong.value.slug == slug
    assert place.startswith("test_twins.py:") and f"{place}  " in str(wrong.value)


@pytest.mark.parametrize("name", TWINS)
def test_its_twin_is_right(name):
    TWINS.launch(name, False)
