"""Mosaic modules on the command line: the kernel of tests/pallas/make_rich.py against numpy."""
import base64
import json
import os
import re
import shlex

import numpy as np
import pytest

from conftest import ROOT

MODULE = str(ROOT / "tests/pallas/rich.mlirbc")
IMPORTER = ROOT / "build/release/program/tessera-import"
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
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert sorted(row["device"] for row in rows) == ["tpu-v5e", "tpu-v6e"]
    assert [line.split()[0] for line in printed.splitlines()[1:3]] == [row["device"] for row in rows]
    assert rows[1]["predicted_seconds"] > rows[0]["predicted_seconds"]  # the fastest first
    tessera("run", MODULE, *given, "--device", rows[0]["device"], "--json", str(tmp_path / "run.json"))
    run = json.loads((tmp_path / "run.json").read_text())
    assert rows[0]["hbm_read_bytes"] == run["traffic"]["hbm_read_bytes"]
    assert rows[0]["predicted_seconds"] == run["timeline"]["seconds"]
    assert "shapes are fixed" in tessera("sweep", MODULE, "bm=1,2", *given, status=2)
    assert "--device tpu-v5e,tpu-v6e" in tessera("sweep", MODULE, *given, status=2)


@pytest.fixture
def call(tmp_path, inputs):
    """Makes the folder of a recorded call; what its meta.json says besides."""
    def make(name="call", **said):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kernel.mlirbc").write_bytes(open(MODULE, "rb").read())
        for i, x in enumerate(inputs):
            np.save(folder / f"in{i}.npy", x)
        meta = {"num_inputs": 2, "operands": [{}, {}], "results": [{"shape": [32, 256]}], **said}
        (folder / "meta.json").write_text(json.dumps(meta))
        return folder
    return make


def device_of(printed):
    return json.loads(printed[printed.index("{"):])["device"]


@pytest.mark.parametrize("chip, device", [("v6e", "tpu-v6e"), ("v5p-8", "tpu-v5p"), ("v7x", "tpu-v7x"), ("7x", "tpu-v7x"),
                                          ("v2", "tpu-v5e"), ("", "tpu-v5e")])
def test_a_call_runs_on_the_chip_that_it_names(tessera, call, chip, device):
    folder = call(chip=chip)
    assert device_of(tessera("run", str(folder), "--json", "-")) == device
    assert device_of(tessera("run", str(folder), "--json", "-", "--device", "tpu-v4")) == "tpu-v4"
    assert f" on {device}\n" in tessera("show", str(folder))


def own_device(tmp_path, name, device="tpu-v6e", **figures):
    """A device of one's own: a file."""
    spec = json.loads((ROOT / f"memory_model/devices/{device}.json").read_text())
    for figure, value in figures.items():
        spec["figures"][figure]["value"] = value
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(spec | {"name": name}))
    return file


def test_a_call_carries_its_device(tessera, tmp_path, call):
    folder = call(chip="v5e")
    own_device(tmp_path, "small").rename(folder / "device.json")
    assert device_of(tessera("run", str(folder), "--json", "-")) == "small"
    (folder / "device.json").write_text("{}")
    assert "call/device.json: needs a string" in tessera("run", str(folder), status=2)


def test_a_result_that_no_machine_holds_is_refused(tessera, call):
    said = tessera("run", str(call(results=[{"shape": [16 * 10**9, 128]}])), status=2)
    assert "meta.json: f32[16000000000, 128] takes 7.63e+03 GiB, more than this machine's memory" in said


def test_a_golden_is_run_again_on_its_device(tessera, tmp_path, call):
    own = str(own_device(tmp_path, "small"))
    for what, folder in [(MODULE, "of module"), (str(call()), "of call"), ("matmul", "of kernel")]:
        given = ("--input", "0=x.npy", "--input", "1=y.npy") if what == MODULE else ()
        tessera("golden", "make", what, *given, "--device", own, "--out", folder)
        (tmp_path / "small.json").rename(tmp_path / "away.json")  # the golden has it
        assert "bit-exact" in tessera("golden", "check", folder, "--backend", "interpret")
        (tmp_path / "away.json").rename(tmp_path / "small.json")
    assert device_of(tessera("run", "of module/inputs", "--json", "-")) == "small"


def test_what_runs_again_is_said_as_a_shell_takes_it(tessera, tmp_path, call):
    folder = call("a call", chip="v6e")
    own_device(tmp_path, "tiny", vmem_capacity=1024)
    said = tessera("run", str(folder), "--device", "tiny.json", "--profile", "mxu", status=1)
    replay = re.search(r"replay  tessera (.*)", said)[1]
    assert replay == f"run '{folder}' --device tiny.json --profile mxu"
    assert "error[vmem-capacity]" in tessera(*shlex.split(replay), status=1)
    # A default that the call's own device is not.
    own_device(tmp_path, "tiny", vmem_capacity=1024).rename(folder / "device.json")
    assert f"replay  tessera run '{folder}'\n" in tessera("run", str(folder), status=1)


def test_commands_are_for_modules_or_say_why_not(tessera, call):
    assert "golden make" in tessera("bless", MODULE, status=2)
    assert "runs in the interpreter alone" in tessera("compare", str(call()), "--backend", "cuda", status=2)


def test_sweep_ranks_what_is_not_modelled_by_its_bytes(tessera, tmp_path, call):
    fast, slow = (own_device(tmp_path, name, "tpu-v7x", hbm_bandwidth=rate) for name, rate in [("fast", 1e13), ("slow", 1e10)])
    for file in fast, slow:  # no peak rate, no costs of units: no timeline
        spec = json.loads(file.read_text())
        spec["figures"].pop("peak_flops_f32")
        spec["jax"]["chip"] = "of my own"
        file.write_text(json.dumps(spec))
    tessera("sweep", str(call()), "--device", f"{slow},tpu-v6e,{fast}", "--json", "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["device"] for row in rows] == ["fast", "tpu-v6e", "slow"]
    assert [row["predicted_seconds"] is None for row in rows] == [True, False, True]
    assert rows[1]["rank_seconds"] == rows[1]["predicted_seconds"]
    assert rows[2]["rank_seconds"] == pytest.approx(1000 * rows[0]["rank_seconds"])


def test_advise(tessera, tmp_path, inputs):
    given = ("--input", f"0={tmp_path / 'x.npy'}", "--input", f"1={tmp_path / 'y.npy'}")
    printed = tessera("advise", MODULE, *given)
    assert "bound by compute" in printed and "1 times over" in printed and "tessera.sweep(" in printed


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
    assert "none.mlirbc: cannot be read" in tessera("run", "none.mlirbc", status=2)


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
