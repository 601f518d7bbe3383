"""Sectors that warps ask for, with the layouts that Triton's compiler chooses: where the count is plain, and beside an H200."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray
from tessera.triton_backend import warp_layouts

ROOT = pathlib.Path(__file__).resolve().parents[3]
CORPUS = ROOT.parent / "shared" / "triton-corpus"


@triton.jit
def copy(x_ptr, out_ptr, scale_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * STEP, mask=i < n)
    tl.store(out_ptr + i, x * tl.load(scale_ptr), mask=i < n)


def sectors(n, step, first=0):
    """(requests, sectors) of the load, the scalar's load and the store."""
    x = DeviceArray(np.ones(4096 * 8 + 1, np.float32))
    out = DeviceArray.empty(n)
    with tessera.simulate_triton(sectors=True) as report:
        copy[((n + 1023) // 1024,)](x[first:] if first else x, out, DeviceArray(np.ones(1, np.float32)), n, STEP=step, BLOCK=1024)
    assert (out.array == 1).all()
    lines = report.calls[0].json["traffic"]["lines"]
    return [(line["requests"], line["sectors"]) for line in sorted(lines, key=lambda line: line["ref"], reverse=True)]


def test_what_follows_one_another_costs_its_bytes():
    # 4,096 elements of 16 bytes a lane: 32 requests. Each of 4 x 4 warps loads the scalar.
    assert sectors(4096, 1) == [(32, 4096 * 4 // 32), (16, 16), (32, 512)]


def test_what_is_spread_costs_a_sector_each():
    assert sectors(4096, 8)[0] == (128, 4096)


def test_what_is_not_aligned_costs_more():
    # Element by element, for lanes that lie 16 bytes apart, as the store has them: each group of four requests touches 16, 16, 16
    # and 17 sectors.
    assert sectors(4096, 1, first=1)[0] == (128, 32 * (3 * 16 + 17))


def test_what_a_mask_leaves_out_costs_nothing():
    # n is no multiple of 16, so that no four elements are taken at once: of the last 105 a request has 27 or 26, two in a sector.
    assert sectors(1001, 1)[2] == (32, 4 * 7 * 16 + 14 + 3 * 13)


def test_nothing_is_said_unasked():
    out = DeviceArray.empty(1024)
    x = DeviceArray(np.ones(1024, np.float32))
    with tessera.simulate_triton() as report:
        copy[(1,)](x, out, x, 1024, STEP=1, BLOCK=1024)
    assert "sectors" not in report.calls[0].json["traffic"]["lines"][0]
    assert " a request" not in report.calls[0].text


@triton.jit
def again(x, out, count, SEM: tl.constexpr):
    i = tl.arange(0, 128)
    v = tl.load(x + i)
    tl.atomic_add(count, 1, sem=SEM)
    tl.store(out + i, v + tl.load(x + i))


@pytest.mark.parametrize("sem, times", [("acq_rel", 2), ("acquire", 2), ("release", 1), ("relaxed", 1)])
def test_an_atomic_that_acquires_empties_the_l1(sem, times):
    x, out, count = (tessera.DeviceArray(np.zeros(128, dtype)) for dtype in (np.float32, np.float32, np.int32))
    with tessera.simulate_triton(sectors=True) as report:
        again[(1,)](x, out, count, SEM=sem)
    loads = [line for line in report.calls[0].json["traffic"]["lines"] if line["read_bytes"] == 512]
    assert len(loads) == 2
    assert [line["sectors"] for line in loads] == [16, 16]
    assert sum(line["l2_sectors"] for line in loads) == 16 * times


@pytest.mark.parametrize("kernel, at_l2", [
    ("fla_core__chunk__chunk_abc_bwd_kernel_intra_K", True),  # a load in two layouts
    ("fla_core__chunk_delta_h__chunk_gated_delta_rule_fwd_kernel_h_blockdim64", True),  # a pipelined loop that copies to shared memory
    ("flag_gems__softmax__softmax_kernel_inner", True),  # rows that begin anywhere, read twice
    ("liger_kernel__group_norm___group_norm_backward_kernel", False),  # scalars
])
def test_beside_an_h200(kernel, at_l2, tmp_path):
    if not CORPUS.exists():
        pytest.skip(f"no {CORPUS}")
    counted = json.loads((CORPUS / "h200_counters.json").read_text())[kernel]
    subprocess.run([sys.executable, warp_layouts.__file__, tmp_path, CORPUS / kernel], check=True)
    program = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
    subprocess.run([program, "run", tmp_path / kernel, "--json", tmp_path / "run.json"], check=True, capture_output=True)
    lines = json.loads((tmp_path / "run.json").read_text())["traffic"]["lines"]
    assert sum(line.get("sectors", 0) for line in lines if line["read_bytes"]) == counted["load_sectors"]
    assert sum(line.get("sectors", 0) for line in lines if line["write_bytes"]) == counted["store_sectors"]
    if at_l2:
        assert 32 * sum(line.get("l2_sectors", 0) for line in lines if line["read_bytes"]) == counted["l2_to_sm_bytes"]
        assert sum(line.get("l2_sectors", 0) for line in lines if line["write_bytes"]) == counted["l2_write_sectors"]
