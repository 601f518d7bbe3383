"""simulate_triton(dry=True): arrays of a real model's size, of which no element is touched."""
import re

import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray

COLUMNS = 1 << 14


@triton.jit
def scale_rows(x, out, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0) * stride
    i = tl.arange(0, BLOCK)
    tl.store(out + row + i, tl.load(x + row + i) * 2)


@triton.jit
def scale_wide_rows(x, out, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    i = tl.arange(0, BLOCK)
    tl.store(out + row + i, tl.load(x + row + i) * 2)


@triton.jit
def gather(index, x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + tl.load(index + i)))


@triton.jit
def rows_of_a_table(index, table, out, columns, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * columns + i, tl.load(table + row * columns + i))


@triton.jit
def log_sums_of_products(x, w, out, V, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for j in range(0, V, BLOCK):
        acc = tl.zeros((ROWS, BLOCK), tl.float32)
        for k in range(0, K, BLOCK):
            acc = tl.dot(tl.load(x + r[:, None] * K + (k + i)[None, :]), tl.load(w + (j + i)[None, :] * K + (k + i)[:, None]), acc)
        new = tl.maximum(top, tl.max(acc, 1))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(acc - new[:, None]), 1)
        top = new
    tl.store(out + r, top + tl.log(total))


@triton.jit
def scale_rows_by_pointers(x, out, stride, out_stride, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    i = tl.arange(0, BLOCK)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    x += row * stride
    out += row * out_stride
    tl.store(out + i, tl.load(x + i) * 2)


def dry_rows(kernel, rows):
    x, out = (DeviceArray.reserved((rows, COLUMNS)) for _ in range(2))
    with tessera.simulate_triton(dry=True) as report:
        kernel[(rows,)](x, out, COLUMNS, BLOCK=1024)
    return report.calls[0]


def line_of(text):
    return next(i for i, line in enumerate(open(__file__).read().splitlines(), 1) if text in line)


def test_two_to_the_31_elements_are_counted():
    rows = 1 << 17
    call = dry_rows(scale_rows, rows)
    assert call.json["dry"]
    assert {line["ref"]: (line["read_bytes"], line["write_bytes"]) for line in call.json["traffic"]["lines"]} == {
        "x": (rows * 4096, 0), "out": (0, rows * 4096)}
    assert call.predicted_seconds > 0


def test_a_row_more_wraps_and_is_told_with_its_line():
    rows = (1 << 17) + 1
    with pytest.raises(tessera.KernelError) as wrong:
        dry_rows(scale_rows, rows)
    text = str(wrong.value)
    assert "does not fit its type, and wraps" in text
    assert "grid (x=131072, y=0, z=0)" in text
    assert f"test_dry.py:{line_of('row = tl.program_id(0) * stride')}" in text
    dry_rows(scale_wide_rows, rows)


@pytest.mark.parametrize("tile", [1, 4])
@pytest.mark.parametrize("bad", ["x", "out"])
def test_of_two_offsets_that_wrap_the_one_that_is_accessed_is_told(bad, tile):
    rows = (1 << 17) + 4
    x, out = (DeviceArray.reserved((rows, COLUMNS)) for _ in range(2))
    stride = COLUMNS if bad == "x" else 64
    with pytest.raises(tessera.KernelError) as wrong, tessera.simulate_triton(dry=True):
        scale_rows_by_pointers[(rows // tile,)](x, out, stride, COLUMNS, BLOCK=64, ROWS=tile)
    wraps = line_of("    x += row * stride" if bad == "x" else "    out += row * out_stride")
    assert re.search(rf"wraps +\S*test_dry\.py:{wraps} ", str(wrong.value))


def test_memory_is_left_alone():
    x = np.ones((4, COLUMNS), np.float32)
    out = np.zeros((4, COLUMNS), np.float32)
    with tessera.simulate_triton(dry=True):
        scale_rows[(4,)](DeviceArray(x), DeviceArray(out), COLUMNS, BLOCK=1024)
    assert (out == 0).all() and (x == 1).all()


def test_an_index_that_is_loaded_is_read():
    index = DeviceArray(np.array([5, 5, 0, (1 << 31) + 7] * 256, np.int64))
    x = DeviceArray.reserved((1 << 31) + 8)
    with tessera.simulate_triton(dry=True):
        gather[(4,)](index, x, DeviceArray.empty(1024), BLOCK=256)
    short = DeviceArray.reserved((1 << 31) + 7)
    with pytest.raises(tessera.KernelError, match="reads element 2147483655 of x"), tessera.simulate_triton(dry=True):
        gather[(4,)](index, short, DeviceArray.empty(1024), BLOCK=256)


def test_an_index_that_is_not_there_is_asked_for():
    with pytest.raises(tessera.KernelError, match="decides by values") as wrong, tessera.simulate_triton(dry=True):
        gather[(4,)](DeviceArray.reserved(1024, np.int64), DeviceArray.reserved(1024), DeviceArray.empty(1024), BLOCK=256)
    assert wrong.value.kind == "unsupported"
    assert f"test_dry.py:{line_of('tl.store(out + i, tl.load(x + tl.load(index + i)))')}" in str(wrong.value)


def test_a_row_whose_number_is_loaded_is_read_in_a_dry_run():
    index = DeviceArray(np.array([5, 1 << 16, 3], np.int64))
    table, out = DeviceArray.reserved(((1 << 16) + 1, COLUMNS)), DeviceArray.reserved((3, COLUMNS))
    with tessera.simulate_triton(dry=True) as report:
        rows_of_a_table[(3,)](index, table, out, COLUMNS, BLOCK=1024)
    lines = {line["ref"]: line["read_bytes"] for line in report.calls[0].json["traffic"]["lines"] if line["read_bytes"]}
    assert lines == {"index": 3 * 8, "table": 3 * 4096}
    index.array[1] += 1
    with pytest.raises(tessera.KernelError, match="reads element .* of table"):
        with tessera.simulate_triton(dry=True):
            rows_of_a_table[(3,)](index, table, out, COLUMNS, BLOCK=1024)


def test_what_loops_in_loops_hand_on_is_not_computed():
    # w is stored to, so that none of its values are there; out is a row of it.
    x, w = DeviceArray.reserved((16, 64)), DeviceArray.reserved((128, 64))
    with tessera.simulate_triton(dry=True) as report:
        log_sums_of_products[(1,)](x, w, w, 128, 64, ROWS=16, BLOCK=32)
    read = sum(line["read_bytes"] for line in report.calls[0].json["traffic"]["lines"])
    assert read == 4 * (16 * 64 * 4 + 128 * 64)
