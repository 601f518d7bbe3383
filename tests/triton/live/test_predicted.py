"""What launches at real sizes are predicted to take, beside what an H200 measured (predict/ACCURACY.md): a draw that nothing was
fitted to."""
import json
import pathlib
import statistics
import sys

import numpy as np
import pytest

pytest.importorskip("triton")

from tessera import DeviceArray
import tessera
import triton
import triton.language as tl

PREDICT = pathlib.Path(__file__).resolve().parents[3] / "predict"
sys.path.insert(0, str(PREDICT))
import triton_accuracy  # noqa: E402

LINES = [json.loads(line) for line in (PREDICT / "measured/h200_triton_303.jsonl").read_text().splitlines()]


def test_half_of_a_draw_is_near_what_was_measured():
    drawn = [line for line in LINES if not line["sweep"]][::2]
    times, reads = [], []
    for line in drawn:
        seconds, dram = triton_accuracy.predicted(line)
        times.append(abs(seconds / line["cold"] - 1))
        if dram and "dram" in line:
            reads.append(abs(dram[0] / line["dram"][0] - 1))
    assert len(times) > 12 and len(reads) > 8
    assert statistics.median(times) < 0.25
    assert statistics.median(reads) < 0.05


@triton.jit
def rows_again(x, o, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + at), 0)
    for _ in range(8):
        total += tl.sum(tl.load(x + at), 0)
    tl.store(o + tl.program_id(0), total)


@pytest.mark.parametrize("rows", [4096, 40960])
def test_a_row_that_is_read_again_at_once_comes_from_dram_once(rows):
    x, o = DeviceArray.reserved((rows, 2048)), DeviceArray.reserved((rows,))
    with tessera.simulate_triton(dry=True) as report:
        rows_again[(rows,)](x, o, 2048, BLOCK=2048)
    call = report.calls[0]
    assert call.json["traffic"]["hbm_read_bytes"] == 9 * rows * 8192
    read, written = call.predicted_dram_bytes
    assert abs(read / (rows * 8192) - 1) < 0.01
    assert 0 <= written <= 64 * rows


def test_threads_predict_the_same():
    line = next(line for line in LINES if line["kernel"] == "column_sums")
    both = set()
    for threads in (1, 2):
        shape = line["settings"]["M"] // 8, line["settings"]["N"]
        x, o = DeviceArray.reserved(shape), DeviceArray.reserved((shape[1],))
        with tessera.simulate_triton(dry=True, threads=threads) as report:
            triton_accuracy.launches.column_sums[(-(-shape[1] // 32),)](x, o, *shape, BM=32, BN=32)
        both.add((report.calls[0].predicted_seconds, report.calls[0].predicted_dram_bytes))
    assert len(both) == 1


@triton.jit
def add_ones(o, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if ATOMIC:
        tl.atomic_add(o + i, 1.0, sem="relaxed")
    else:
        tl.store(o + i, 1.0)


def test_lanes_of_an_atomic_go_together():
    seconds = []
    for atomic in (False, True):
        with tessera.simulate_triton("h100", dry=True) as report:
            add_ones[(1024,)](DeviceArray.reserved(1 << 20), BLOCK=1024, ATOMIC=atomic)
        seconds.append(report.predicted_seconds)
    assert seconds[0] <= seconds[1] < 2 * seconds[0]


@triton.jit
def take_and_give_back(lock, o, LOCK: tl.constexpr):
    if LOCK:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    tl.store(o + tl.program_id(0), 1.0)
    if LOCK:
        tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("lock", [False, True])
def test_what_a_time_is_without_is_said_below_the_table(lock):
    with tessera.simulate_triton("h100") as report:
        take_and_give_back[(4,)](DeviceArray(np.zeros(1, np.int32)), DeviceArray(np.zeros(4, np.float32)), LOCK=lock)
    assert ("take_and_give_back: predicted without what programs wait for one another" in str(report)) == lock
    assert (report.calls[0].left_out_of_time != "") == lock


@triton.jit
def count_ids(ids, o, BLOCK: tl.constexpr):
    tl.atomic_add(o + tl.load(ids + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 1, sem="relaxed")


# What an H100 took: predict/measured/h100_triton_atomics.jsonl.
@pytest.mark.parametrize("places,us", [(1, 51.8), (45, 20.8), (1024, 10.3)])
def test_atomics_that_meet_wait(places, us):
    ids = np.random.default_rng(1).integers(0, places, 1 << 16).astype(np.int32)
    with tessera.simulate_triton("h100") as report:
        count_ids[(256,)](DeviceArray(ids), DeviceArray(np.zeros(places, np.int32)), BLOCK=256)
    assert abs(report.predicted_seconds * 1e6 / us - 1) < 0.25
