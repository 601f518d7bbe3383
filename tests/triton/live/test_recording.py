"""tessera.record(): launches of Triton kernels are written down; `tessera replay` runs them again."""
import pathlib
import sys

import numpy as np
import tessera
import triton
import triton.language as tl

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from recordings import lines, replay, sha256  # noqa: E402, F401


@triton.jit
def scale(x, out, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0.0) * factor, mask=i < n)


@triton.jit
def in_place(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def follow(table, out):
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(x))


def test_launches_are_written_down_and_replayed(tmp_path, replay):
    folder = tmp_path / "calls"
    x = np.arange(300, dtype=np.float32)
    with tessera.record(folder), tessera.simulate_triton("h200") as report:
        for factor in (2.5, 2.5, float("inf")):
            out = tessera.DeviceArray.empty(512, np.float32) if factor == float("inf") else tessera.DeviceArray(np.zeros(512, np.float32))
            scale[(5,)](tessera.DeviceArray(x), out, factor, 300, BLOCK=64)
    first, same, other = lines(folder)
    assert first["operation"] == "scale" and first["frontend"] == "triton" and first["device"] == "h200"
    assert first["arguments"] == same["arguments"] != other["arguments"]
    assert [each["sha256"] for each in first["inputs"]] == [sha256(x), sha256(np.zeros(512, np.float32))]
    expected = np.zeros(512, np.float32)
    expected[:300] = x * np.float32(2.5)
    assert [each["sha256"] for each in first["outputs"]] == [sha256(x), sha256(expected)]
    assert first["bytes"]["hbm_read"] == report[0].json["traffic"]["hbm_read_bytes"] == 1200
    assert first["predicted_seconds"] == report[0].predicted_seconds
    said = replay(folder)
    assert said.count("same bits; bytes equal") == 3 and said.endswith("3 the same\n")
    assert "scale" in replay(folder / first["arguments"][0], command="run")
    assert "now interpret on h100" in replay(folder, "--device", "h100")


def test_arrays_are_as_they_were_before_the_launch(tmp_path, replay):
    folder = tmp_path / "calls"
    x = tessera.DeviceArray(np.zeros(64, np.int32))
    with tessera.record(folder), tessera.simulate_triton():
        for _ in range(3):
            in_place[(1,)](x, BLOCK=64)
    found = lines(folder)
    assert [line["inputs"][0]["sha256"] for line in found] == [sha256(np.full(64, n, np.int32)) for n in range(3)]
    assert [line["outputs"][0]["sha256"] for line in found] == [sha256(np.full(64, n, np.int32)) for n in (1, 2, 3)]
    assert replay(folder).endswith("3 the same\n")


def test_what_was_undefined_is_undefined_again(tmp_path, replay):
    folder = tmp_path / "calls"
    x = tessera.DeviceArray.empty(128, np.float32)
    with tessera.record(folder), tessera.simulate_triton(checks="report"):
        scale[(1,)](tessera.DeviceArray(np.ones(64, np.float32)), x, 1., 64, BLOCK=64)  # half of it
        in_place[(1,)](x, BLOCK=64)
        in_place[(1,)](x, BLOCK=128)
    written, defined, undefined = lines(folder)
    assert written["diagnostics"] == defined["diagnostics"] == [] and undefined["diagnostics"] == ["uninit-read"]
    said = replay(folder)
    assert said.count("same bits") == 2 and "the same uninit-read" in said and said.endswith("3 the same\n")


def test_what_follows_pointers_is_written_down_alone(tmp_path, replay):
    x, out = (tessera.DeviceArray(np.ones(1, np.float32)) for _ in range(2))
    folder = tmp_path / "calls"
    with tessera.record(folder), tessera.simulate_triton():
        table = tessera.DeviceArray(np.array([x.data_ptr()], np.int64))
        follow[(1,)](table, out)
    [line] = lines(folder)
    assert line["arguments"] == [] and line["bytes"]["hbm_write"] == 4
    assert "not replayed: what it takes to run it again was not kept" in replay(folder, status=3)
