"""15 more kernels that are wrong, and 15 that are right: of those who hand values on to one another, of scans, sorts and products
of lanes that a mask left out, of barriers, of what is rounded on the way."""
import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray
from twins import Twins, array

TWINS = Twins()
twin = TWINS.twin


@twin("race", 4, "xzl")
@triton.jit
def partial_sums_added_by_the_last(x, parts, count, BAD: tl.constexpr):
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * 16 + tl.arange(0, 16))))
    before = tl.atomic_add(count, 1, sem="relaxed" if BAD else "acq_rel")
    if before == 3:
        all = tl.sum(tl.load(parts + tl.arange(0, 4)))  # found
        tl.store(parts + 8, all)


@twin("race", 4, "xzl")
@triton.jit
def a_value_handed_on(x, o, flag, BAD: tl.constexpr):
    me = tl.program_id(0)
    if me == 0:
        tl.store(o, 7.)
        tl.atomic_xchg(flag, 1, sem="relaxed" if BAD else "release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
        tl.store(o + me, tl.load(o))  # found


@twin("race", 4, "x")
@triton.jit
def rows_turned_in_place(x, BAD: tl.constexpr):
    me = tl.program_id(0)
    i = tl.arange(0, 16)
    v = tl.load(x + me * 16 + i)
    tl.store(x + (3 - me if BAD else me) * 16 + 15 - i, v)  # found


@twin("race", 2, "xz")
@triton.jit
def atomics_beside_a_store(x, o, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    if tl.program_id(0) == 0:
        tl.atomic_add(o + i, tl.load(x + i))
    else:
        tl.store(o + i + (0 if BAD else 16), tl.load(x + i))  # found


@twin("race", 2, "xz")
@triton.jit
def tiles_of_a_descriptor_that_overlap(x, o, BAD: tl.constexpr):
    to = tl.make_tensor_descriptor(o, [8, 8], [8, 1], [4, 8])
    i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    v = tl.load(x + tl.program_id(0) * 32 + i) + 1
    to.store([tl.program_id(0) * (2 if BAD else 4), 0], v)  # found


@twin("oob-index", 4, "xz", 64)
@triton.jit
def turned_round_by_one_too_many(x, o, n, BAD: tl.constexpr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(o + i, tl.load(x + (n if BAD else n - 1) - i))  # found


@twin("oob-index", 1, "xz", 6)
@triton.jit
def a_product_whose_mask_has_the_other_dim(x, o, n, BAD: tl.constexpr):
    k = tl.arange(0, 16)
    a = tl.load(x + k[:, None] * 5 + k[None, :], mask=((k[None, :] if BAD else k[:, None]) < n) & (k[None, :] < 4), other=0.)  # found
    tl.store(o + k, tl.sum(tl.dot(a, a, input_precision="ieee"), 0))


@twin("uninit-read", 1, "xz", 10)
@triton.jit
def the_largest_of_lanes_left_out(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    v = tl.load(x + i, mask=i < n, other=float("-inf")) if not BAD else tl.load(x + i, mask=i < n)  # found
    tl.store(o, tl.argmax(v, 0).to(tl.float32))


@twin("uninit-read", 1, "xz", 10)
@triton.jit
def a_scan_from_the_end(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    v = tl.load(x + i, mask=i < n)  # found
    s = tl.cumsum(v, 0, reverse=BAD)
    tl.store(o + i, s, mask=i < n)


@twin("uninit-read", 1, "xz", 10)
@triton.jit
def a_sort_of_lanes_left_out(x, o, n, BAD: tl.constexpr):
    i = tl.arange(0, 16)
    v = tl.load(x + i, mask=i < n, other=float("inf")) if not BAD else tl.load(x + i, mask=i < n)  # found
    tl.store(o + i, tl.sort(v), mask=i < n)


@twin("uninit-read", 1, "xz", 10)
@triton.jit
def zeros_times_lanes_left_out(x, o, n, BAD: tl.constexpr):
    k = tl.arange(0, 16)
    a = tl.load(x + k[:, None] + k[None, :], mask=k[None, :] < n, other=0.)
    b = tl.load(x + k[:, None] + k[None, :], mask=k[:, None] < n, other=0.) if not BAD else tl.load(x + k[:, None] + k[None, :], mask=k[:, None] < n)  # found
    tl.store(o + k, tl.sum(tl.dot(a, b, input_precision="ieee"), 0))


@twin("deadlock", 4, "l")
@triton.jit
def a_barrier_of_the_other_axis(at, BAD: tl.constexpr):
    tl.atomic_add(at, 1)
    while tl.atomic_add(at, 0) < (tl.num_programs(0) * 2 if BAD else tl.num_programs(0) * tl.num_programs(1)):  # found
        pass


@twin("deadlock", 4, "l")
@triton.jit
def turns_taken_backwards(at, BAD: tl.constexpr):
    turn = 4 - tl.program_id(0) if BAD else tl.program_id(0)
    while tl.atomic_add(at, 0) != turn:  # found
        pass
    tl.atomic_add(at, 1)


@pytest.mark.parametrize("name", TWINS)
def test_found_at_its_line(name):
    slug, place = TWINS.slug_and_place(name)
    with pytest.raises(tessera.KernelError) as wrong:
        TWINS.launch(name, True)
    assert wrong.value.slug == slug
    assert place.startswith("test_more_twins.py:") and f"{place}  " in str(wrong.value)


@pytest.mark.parametrize("name", TWINS)
def test_its_twin_is_right(name):
    TWINS.launch(name, False)


# What is rounded on the way: nothing is wrong but the number, which is the GPU's.


@triton.jit
def count_ones(o, n, WIDE: tl.constexpr):
    total = tl.full((), 0, tl.float32 if WIDE else tl.bfloat16)
    for _ in range(n):
        total += tl.full((), 1, tl.float32 if WIDE else tl.bfloat16)
    tl.store(o, total.to(tl.float32))


@triton.jit
def scaled_products(x, o, EARLY: tl.constexpr):
    k = tl.arange(0, 16)
    a = tl.load(x + k[:, None] * 0 + k[None, :])
    if EARLY:
        a = a * 1e-6  # small numbers of f16 are multiples of 2^-24
    c = tl.dot(a.to(tl.float16), (k[:, None] == k[None, :]).to(tl.float16))
    if not EARLY:
        c = c * 1e-6
    tl.store(o + k, tl.sum(c, 0))


@pytest.mark.parametrize("wide, counted", [(True, 1000.), (False, 256.)])
def test_ones_are_lost_where_sums_are_of_bf16(wide, counted):
    o = DeviceArray(np.zeros(1, np.float32))
    with tessera.simulate_triton("h100"):
        count_ones[(1,)](o, 1000, WIDE=wide)
    assert o.array[0] == counted


@pytest.mark.parametrize("early", [False, True])
def test_what_is_scaled_before_it_is_rounded_to_f16(early):
    o = DeviceArray(np.zeros(16, np.float32))
    with tessera.simulate_triton("h100"):
        scaled_products[(1,)](array("x"), o, EARLY=early)
    right = 16 * np.arange(16) * 1e-6
    error = np.abs(o.array - right).max() / right.max()
    assert (error > 1e-3) == early
