"""tessera.report.compare(): what changed between two reports or recordings."""
import json
import os
import pathlib
import subprocess

import jax
import numpy as np
import pytest
import tessera
from jax.experimental import pallas as pl

ROOT = pathlib.Path(__file__).resolve().parents[3]
X = np.ones((64, 128), np.float32)


def scaled(x, rows=8, factor=2):
    def scale_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * factor

    block = pl.BlockSpec((rows, 128), lambda i: (i, 0))
    return pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // rows,),
                          in_specs=[block], out_specs=block)(x)


def run(*rows, device="tpu-v5e", **settings):
    with tessera.simulate(device, **settings) as report:
        for each in rows:
            scaled(X, each)
    return report


def recorded(folder, **settings):
    with tessera.record(folder), tessera.simulate():
        scaled(X, **settings)
    return folder


def test_the_same_is_the_same():
    compared = tessera.report.compare(run(8, 16), run(8, 16))
    assert compared.same and compared.changes == [] and str(compared) == "2 calls: nothing changed; bits of 0 compared"


def test_what_changed_is_named_with_both_sides(tmp_path):
    a, b = run(8), run(16, device="tpu-v6e")
    compared = tessera.report.compare(a, b)
    assert {change["what"] for change in compared.changes} == {"device", "sizes", "predicted"}
    assert all(change["kernel"] == "scale_kernel" and change["call"] == 0 for change in compared.changes)
    [time] = [change for change in compared.changes if change["what"] == "predicted"]
    assert (time["a"], time["b"]) == (a[0].predicted_seconds, b[0].predicted_seconds)
    as_dict = compared.to_dict()
    assert json.loads(json.dumps(as_dict)) == as_dict and as_dict["totals"][0]["HBM read"] == a.hbm_read_bytes
    head, *rows = str(compared).splitlines()[1:]
    assert head.split() == ["kernel", "what", "a", "b", "calls"]
    change = 100 * (b[0].predicted_seconds / a[0].predicted_seconds - 1)
    assert any(row.startswith("scale_kernel  predicted") and f"{change:+.1f} %" in row for row in rows)
    # Sums that are rounded elsewhere are no change: where bytes alone are predicted, larger blocks are.
    spec = json.loads((ROOT / "memory_model/devices/tpu-v7x.json").read_text())
    spec["jax"]["chip"] = "of my own"
    file = tmp_path / "bytes_alone.json"
    file.write_text(json.dumps(spec))
    assert {change["what"] for change in tessera.report.compare(run(16, device=str(file)), run(32, device=str(file))).changes} == {"sizes"}
    assert any(row.startswith("all ") and "predicted" in row for row in rows)


def test_alike_changes_are_a_row():
    text = str(tessera.report.compare(run(8, 8, 8), run(8, 8, 8, device="tpu-v6e")))
    rows = [row for row in text.splitlines() if row.startswith("scale_kernel  device")]
    assert len(rows) == 1 and rows[0].split() == ["scale_kernel", "device", "tpu-v5e", "tpu-v6e", "3"]


def test_calls_that_are_missing_are_changes():
    compared = tessera.report.compare(run(8, 8), run(8))
    assert compared.changes == [{"kernel": "scale_kernel", "call": None, "what": "calls", "a": 2, "b": 1}] and not compared.same
    assert tessera.report.compare([], run(8)).changes[0] == {"kernel": "scale_kernel", "call": None, "what": "calls", "a": 0, "b": 1}


def test_bits_are_those_of_recordings(tmp_path):
    a, same, other = recorded(tmp_path / "a"), recorded(tmp_path / "same"), recorded(tmp_path / "other", factor=3)
    compared = tessera.report.compare(a, same)
    assert compared.same and compared.bits_known == 1
    compared = tessera.report.compare(a, other)
    assert compared.changes == [{"kernel": "scale_kernel", "call": 0, "what": "bits", "a": "", "b": "out0 differ"}]
    # A report knows no bits, and names sizes otherwise: what both know is the same.
    compared = tessera.report.compare(run(8), a)
    assert compared.same and compared.bits_known == 0


def test_choices_are_compared(tmp_path):
    tuned = tessera.autotune(scaled, rows=[32], cache=tmp_path / "cache.sqlite")
    for folder, rows in (("a", {}), ("b", {"rows": 8})):
        with tessera.record(tmp_path / folder), tessera.simulate():
            tuned(X, **rows)
    changes = tessera.report.compare(tmp_path / "a", tmp_path / "b").changes
    for kernel in ("scale_kernel", tuned.operation):
        assert {"kernel": kernel, "call": 0, "what": "configuration", "a": "rows=32", "b": "rows=8"} in changes
        assert {"kernel": kernel, "call": 0, "what": "chosen by", "a": "autotune", "b": "explicit"} in changes
    assert not any(change["what"] == "bits" for change in changes)


def test_files_are_read(tmp_path):
    report = run(8)
    report.to_json(tmp_path / "report.json")
    assert tessera.report.compare(report, tmp_path / "report.json").same
    assert tessera.report.compare(report[0], report[0].json).same
    program = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
    if os.path.exists(program):
        for name, bm in (("a", 64), ("b", 128)):
            subprocess.run([program, "run", "matmul", f"bm={bm}", "--backend", "interpret", "--json", tmp_path / f"{name}.json", "--record",
                            tmp_path / name], check=True, capture_output=True)
        of_reports = tessera.report.compare(tmp_path / "a.json", tmp_path / "b.json")
        of_records = tessera.report.compare(tmp_path / "a", tmp_path / "b")
        for compared in (of_reports, of_records):
            assert any(change["what"] == "HBM read" for change in compared.changes)
        assert of_records.bits_known == 1 and not any(change["what"] == "bits" for change in of_records.changes)
    (tmp_path / "other.json").write_text('{"schema": "tessera.sweep/1"}')
    with pytest.raises(ValueError, match="not a report"):
        tessera.report.compare(report, tmp_path / "other.json")
    with pytest.raises(TypeError, match="a folder of tessera.record"):
        tessera.report.compare(report, 7)
