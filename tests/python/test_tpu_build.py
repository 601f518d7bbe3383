"""tessera build --target tpu: JAX reads and verifies every kernel's module, and names the C++ line where it does not."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import ROOT

jax = pytest.importorskip("jax", minversion="0.10")
KERNELS = sorted(path.stem for path in (ROOT / "kernels/entries").glob("*.hpp"))


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def body_of(kernel):
    """The header that has it: a kernel may be another's body by another policy."""
    header = f"kernels/{kernel}.hpp"
    text = (ROOT / header).read_text()
    return header if "operator()" in text else re.search(r'#include "(kernels/.*)"', text)[1]


@pytest.mark.parametrize("kernel", KERNELS)
def test_jax_verifies_every_case(tessera, tmp_path, kernel):
    cases = len(re.findall(r"^  +\d+ +", tessera("show", kernel).split("cases")[1], re.M))
    assert cases >= 3
    for case in range(cases):
        for dtype in ("f32", "bf16") if case == 0 else ("f32",):
            folder = tmp_path / f"{case}_{dtype}"
            tessera("build", kernel, "--case", str(case), "--dtype", dtype, "--target", "tpu", "--out", str(folder))
            module = load(folder, kernel).module()  # parses and verifies
            text = module.operation.get_asm(enable_debug_info=True)
            assert body_of(kernel) in text


@pytest.mark.skipif(not os.environ.get("TESSERA_TPU_PYTHON"), reason="TESSERA_TPU_PYTHON names no interpreter with libtpu")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_libtpu_compiles_every_kernel(tessera, tmp_path, kernel, dtype):
    tessera("build", kernel, "--dtype", dtype, "--target", "tpu", "--out", "b")
    text = tessera("check", "b", "--device", "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x")
    assert text.count("accepted") == 5


@pytest.mark.skipif(not os.environ.get("TESSERA_TPU_PYTHON"), reason="TESSERA_TPU_PYTHON names no interpreter with libtpu")
def test_libtpu_compiles_every_construct(tessera, tmp_path):
    program = pathlib.Path(os.environ.get("TESSERA", ROOT / "build/release/cli/tessera"))
    subprocess.run([program.parents[1] / "tests/language_modules", tmp_path / "cases"], check=True)
    cases = len(os.listdir(tmp_path / "cases"))
    assert cases >= 48
    text = tessera("check", str(tmp_path / "cases"), "--brief", "--device", "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x", status=1)
    # A TPU v4 multiplies neither i8 nor fp8 (three cases), and its compiler ends at integers of two bits (two).
    assert text.count("accepted") == 5 * cases - 5
    assert text.count("Unsupported matmul RHS type on target: vector") == 3


def test_what_is_asked_amiss(tessera):
    assert "no target 'gpu'" in tessera("build", "matmul", "--target", "gpu", "--out", "b", status=2)
    assert "h100 is no TPU" in tessera("build", "matmul", "--device", "h100", "--target", "tpu", "--out", "b", status=2)
    assert not os.path.exists("b")


@pytest.mark.parametrize("kernel", ["matmul_relu", "flash_attention", "softmax_rows", "dma_matmul", "paged_attention", "ring_all_gather"])
def test_units_predict_a_kernel_as_its_module(tessera, tmp_path, kernel):
    tessera("build", kernel, "--target", "tpu", "--out", "b")
    tessera("run", "b", "--dry", "--json", "module.json")
    tessera("run", kernel, "--dry", "--timing", "units", "--json", "kernel.json")
    tessera("run", kernel, "--dry", "--timing", "model", "--json", "rates.json")
    tessera("run", kernel, "--dry", "--json", "best.json")
    module, units, rates, best = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("module", "kernel", "rates", "best"))
    for key in ("seconds", "least_seconds", "most_seconds", "binds"):
        assert units["timeline"][key] == module["timeline"][key]
    assert units["timeline"]["model"].startswith("units of a v5e core")
    assert rates["timeline"]["model"] == "published rates"
    # Units are what a run takes that asks for nothing.
    assert best["timeline"] == units["timeline"] and best["lines"] == units["lines"]
    assert not best["timeline"]["why_model"]
    # Its own refs are named, and its own lines.
    refs = {ref["name"] for ref in units["traffic"]["refs"]}
    lines = [cost for cost in units["lines"] if cost["file"] and cost["compute_seconds"] > 0]
    assert all(stall["ref"] in refs for cost in units["lines"] for stall in cost["stalls"] if stall["why"] in ("block", "buffer"))
    assert any(cost["file"] == body_of(kernel) for cost in lines) and not any("cli/" in cost["file"] for cost in lines)


def test_units_that_nobody_measured_are_told(tessera, tmp_path):
    text = tessera("run", "matmul_relu", "--dry", "--timing", "units", "--device", "h100")
    assert "nobody measured the units of h100" in text


def test_why_a_run_is_not_by_units_is_told(tessera, tmp_path):
    spec = json.loads((ROOT / "memory_model/devices/tpu-v5e.json").read_text())
    (tmp_path / "own.json").write_text(json.dumps({**spec, "name": "own", "jax": {**spec["jax"], "chip": "own"}}))
    for device, why in ("own.json", "nobody measured the units of own"), ("tpu-v5e", ""):
        text = tessera("run", "matmul_relu", "--dry", "--device", device, "--json", "run.json")
        timeline = json.loads((tmp_path / "run.json").read_text())["timeline"]
        assert timeline["why_model"] == why and (f"by published rates: {why}" in text) == bool(why)
        assert timeline["model"].startswith("published rates" if why else "units of a v5e core")
    # What is kept of a run is the model's.
    assert "by published rates: a record keeps that" in tessera("run", "matmul_relu", "--dry", "--record", "calls")


def test_a_table_of_costs_that_is_tried_is_told(tessera, tmp_path, monkeypatch):
    table = json.loads((ROOT / "program/unit_costs/v5e.json").read_text())
    table["cycles"]["step"] += 1000
    (tmp_path / "tried.json").write_text(json.dumps(table))
    own = tessera("run", "matmul_relu", "--dry", "--json", "own.json")
    monkeypatch.setenv("TESSERA_UNIT_COSTS", "tried.json")
    text = tessera("run", "matmul_relu", "--dry", "--json", "tried_run.json")
    assert "TESSERA_UNIT_COSTS=tried.json" in text and "TESSERA_UNIT_COSTS" not in own
    seconds = [json.loads((tmp_path / name).read_text())["timeline"]["seconds"] for name in ("own.json", "tried_run.json")]
    assert seconds[1] > 2 * seconds[0]
    # Of another version, or none at all.
    for text, why in ((json.dumps({**table, "cycles": {}}), "key 'launch' not found"), (json.dumps({**table, "held_out": {}}), "key 'stretch copies' not found"), ("a note", "parse error")):
        (tmp_path / "tried.json").write_text(text)
        said = tessera("run", "matmul_relu", "--dry", status=2)
        assert f"TESSERA_UNIT_COSTS=tried.json is no table of costs of this tessera: {why}" in said
        assert "program/unit_costs" in said and "internal" not in said


def test_block_shapes_are_compared_as_runs_are_timed(tessera, tmp_path):
    sizes, tiles = ("m=512", "n=512", "k=1024"), ("bm=128,256", "bn=128,256", "bk=256,512")
    for timing in "best", "model":
        asked = ("matmul", *sizes, "--timing", timing)
        printed = tessera("sweep", *asked, *tiles, "--json", "sweep.json")
        rows = json.loads((tmp_path / "sweep.json").read_text())["rows"]
        for row in rows:
            tessera("run", *asked, *(f"{tile}={row['shape'][tile]}" for tile in ("bm", "bn", "bk")), "--dry", "--json", "run.json")
            run = json.loads((tmp_path / "run.json").read_text())["timeline"]
            assert (row["predicted_seconds"], row["model"], row["binds"]) == (run["seconds"], run["model"], run["binds"])
        assert len(rows) == 8 and rows == sorted(rows, key=lambda row: row["predicted_seconds"])
        assert f"tpu-v5e: by {rows[0]['model']}" in printed
        # What is tuned is the first of the sweep, and is known again.
        store = ("--cache", f"{timing}.sqlite")
        best = " ".join(f"{tile}={rows[0]['shape'][tile]}" for tile in ("bm", "bn", "bk"))
        for known in 0, 8:
            tuned = tessera("tune", *asked, *tiles, *store)
            assert f"8 candidates, {known} known from before" in tuned and f"by {rows[0]['model']}" in tuned or timing == "model"
            assert re.search(rf"{best} .*1.00x .*<- chosen", tuned)
        assert re.search(f"^tiles +by the persistent tier", tessera("run", *asked, "--dry", "--tuned", *store), re.M)
    # By which a choice is kept it is found.
    assert "by the heuristic tier" in tessera("run", "matmul", *sizes, "--dry", "--tuned", "--cache", "model.sqlite")


def test_a_shape_that_has_no_units_does_not_compete(tessera, tmp_path):
    """The least that one can take is no time beside those of others."""
    spec = json.loads((ROOT / "memory_model/devices/tpu-v5e.json").read_text())
    (tmp_path / "own.json").write_text(json.dumps({**spec, "name": "own", "jax": {**spec["jax"], "chip": "own"}}))
    printed = tessera("sweep", "flash_attention", "bq=128,256", "--device", "own.json,tpu-v5e", "--json", "sweep.json")
    rows = json.loads((tmp_path / "sweep.json").read_text())["rows"]
    assert [bool(row["why_model"]) for row in rows] == [False, False, True, True]
    assert rows[2]["predicted_seconds"] < rows[0]["predicted_seconds"]
    assert "by published rates, the least that it can take: nobody measured the units of own" in printed


def test_lines_of_a_library_are_looked_up_once(tessera, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def files():
        tessera("run", "softmax_rows", "--dry", "--json", "run.json")
        return [line["file"] for line in json.loads((tmp_path / "run.json").read_text())["lines"]]

    found = files()
    assert files() == found and "kernels/softmax_rows.hpp" in found
    kept, = (file for file in (tmp_path / "cache/tessera/lines").iterdir() if "libtessera_mosaic_softmax_rows.so" in file.read_text())
    # What the file says is believed: it is of the library's time and size.
    kept.write_text(kept.read_text().replace("kernels/softmax_rows.hpp", "kernels/elsewhere.hpp"))
    assert "kernels/elsewhere.hpp" in files()
    # Of another library nothing.
    kept.write_text("another " + kept.read_text())
    assert files() == found
