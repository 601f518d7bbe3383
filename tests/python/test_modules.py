"""Mosaic modules on the command line: the kernel of tests/pallas/make_rich.py against numpy."""
import base64
import json
import os

import numpy as np
import pytest

from conftest import ROOT

MODULE = str(ROOT / "tests/pallas/rich.mlirbc")
IMPORTER = ROOT / "build/release/pallas/tessera-mosaic-import"
if not os.path.exists(IMPORTER):
    pytest.skip(f"no {IMPORTER}: built with MLIR 22 only", allow_module_level=True)


def rich(x, y):
    out = np.zeros_like(x)
    acc = np.zeros((16, 16), np.float64)
    for i in range(2):
        for j in range(2):
            if j == 0:
                acc[:] = 0
            acc[8:16] = y
            block = np.s_[16 * i:16 * i + 16, 128 * j:128 * j + 128]
            total = x[block].astype(np.float64) + 3 * np.exp(x[block].astype(np.float64))
            acc += total @ total.T
            out[block] = acc.max(axis=1, keepdims=True) * total
    return out


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (32, 256)).astype(np.float32)
    y = rng.uniform(-1, 1, (8, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return x, y


@pytest.mark.parametrize("schedule", ["eager", "on_wait", "random:3", "adversarial"])
def test_run(tessera, tmp_path, inputs, schedule):
    text = tessera("run", MODULE, "--input", "0=x.npy", "--input", "1=y.npy", "--output", "out",
                   "--json", "run.json", "--schedule", schedule)
    assert f"schedule {schedule}" in text
    got = np.load(tmp_path / "out/out0.npy")
    np.testing.assert_allclose(got, rich(*inputs), rtol=1e-5)
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["kernel"]["frontend"] == "mosaic"
    assert run["grid"] == [2, 2]
    # x comes once block by block, y once a step, o goes once.
    assert run["traffic"]["hbm_read_bytes"] == 32 * 256 * 4 + 4 * 8 * 16 * 4
    assert run["traffic"]["hbm_write_bytes"] == 32 * 256 * 4


def test_sweep_over_devices(tessera, tmp_path, inputs):
    given = ("--input", f"0={tmp_path / 'x.npy'}", "--input", f"1={tmp_path / 'y.npy'}")
    printed = tessera("sweep", MODULE, *given, "--device", "tpu-v5e,tpu-v6e", "--json", str(tmp_path / "rows.json"))
    assert printed.splitlines()[1].startswith("tpu-v6e")  # twice the bandwidth
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["device"] for row in rows] == ["tpu-v6e", "tpu-v5e"]
    assert rows[1]["predicted_seconds"] == pytest.approx(2 * rows[0]["predicted_seconds"], rel=0.2)
    tessera("run", MODULE, *given, "--device", "tpu-v6e", "--json", str(tmp_path / "run.json"))
    run = json.loads((tmp_path / "run.json").read_text())
    assert rows[0]["hbm_read_bytes"] == run["traffic"]["hbm_read_bytes"]
    assert rows[0]["predicted_seconds"] == run["timeline"]["seconds"]
    assert "shapes are fixed" in tessera("sweep", MODULE, "bm=1,2", *given, status=2)
    assert "--device tpu-v5e,tpu-v6e" in tessera("sweep", MODULE, *given, status=2)


def test_advise(tessera, tmp_path, inputs):
    given = ("--input", f"0={tmp_path / 'x.npy'}", "--input", f"1={tmp_path / 'y.npy'}")
    printed = tessera("advise", MODULE, *given)
    assert "bound by HBM" in printed and "1 times over" in printed and "tessera.sweep(" in printed


def test_show(tessera):
    text = tessera("show", MODULE)
    assert "grid        2, 2" in text
    assert "tpu.enqueue_dma" in text
    assert "make_rich.py:1" in text


def test_errors(tessera, tmp_path, inputs):
    assert "takes 2 operands, and 0 are given" in tessera("run", MODULE, status=2)
    np.save(tmp_path / "z.npy", np.zeros((32, 256), np.int16))
    assert "error[bad-input]" in tessera("run", MODULE, "--input", "0=z.npy", "--input", "1=y.npy", status=2)
    (tmp_path / "cut.mlirbc").write_bytes(open(MODULE, "rb").read()[:2000])
    assert "error[bad-module]: cut.mlirbc is no Mosaic module" in tessera("run", "cut.mlirbc", status=2)
    assert "cannot read none.mlirbc" in tessera("run", "none.mlirbc", status=2)


def test_extract(tessera, tmp_path):
    body = base64.b64encode(open(MODULE, "rb").read()).decode()
    config = json.dumps({"custom_call_config": {"body": body, "needs_layout_passes": True}})
    quoted = config.replace('"', '\\22')
    (tmp_path / "program.mlir").write_text(
        f'%0 = stablehlo.custom_call @tpu_custom_call(%arg0) {{backend_config = "{quoted}"}}\n' * 2)
    (tmp_path / "artefact.bin").write_bytes(b"ML\xefR..." + config.encode() + b"\0...")
    for name, calls in (("program.mlir", "2 calls"), ("artefact.bin", "1 call")):
        text = tessera("extract", name, "--output", "kernels")
        assert "grid 2 x 2" in text and calls in text
        assert (tmp_path / "kernels/0_kernel/kernel.mlirbc").read_bytes() == open(MODULE, "rb").read()
        assert json.loads((tmp_path / "kernels/0_kernel/config.json").read_text()) == {
            "custom_call_config": {"needs_layout_passes": True}}
    (tmp_path / "none.mlir").write_text("module {}")
    assert "holds no tpu_custom_call" in tessera("extract", "none.mlir", status=2)
