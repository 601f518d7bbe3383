"""A Triton launch on the command line: y = x + scale in blocks of 16, against NumPy."""
import json
import os

import numpy as np
import pytest

from conftest import ROOT

if not os.path.exists(ROOT / "build/release/program/tessera-import"):
    pytest.skip("no tessera-import: built with MLIR 22 only", allow_module_level=True)

T = "tensor<16x{}>"
F, I, B, P = T.format("f32"), T.format("i32"), T.format("i1"), T.format("!tt.ptr<f32>")
KERNEL = f"""
"builtin.module"() ({{
  "tt.func"() <{{sym_name = "add_scale", sym_visibility = "public"}}> ({{
  ^bb0(%x: !tt.ptr<f32> loc("x"("add.py":3:0)), %y: !tt.ptr<f32> loc("y"("add.py":3:0)), %n: i32 loc("n"("add.py":3:0)), %s: f32 loc("scale"("add.py":3:0))):
    %c = "arith.constant"() <{{value = 16 : i32}}> : () -> i32 loc("add.py":4:8)
    %p = "tt.get_program_id"() <{{axis = 0 : i32}}> : () -> i32 loc("add.py":4:8)
    %f = "arith.muli"(%p, %c) : (i32, i32) -> i32 loc("add.py":4:8)
    %r = "tt.make_range"() <{{start = 0 : i32, end = 16 : i32}}> : () -> {I} loc("add.py":4:8)
    %fs = "tt.splat"(%f) : (i32) -> {I} loc("add.py":4:8)
    %i = "arith.addi"(%fs, %r) : ({I}, {I}) -> {I} loc("add.py":4:8)
    %ns = "tt.splat"(%n) : (i32) -> {I} loc("add.py":5:8)
    %m = "arith.cmpi"(%i, %ns) <{{predicate = 2 : i64}}> : ({I}, {I}) -> {B} loc("add.py":5:8)
    %xs = "tt.splat"(%x) : (!tt.ptr<f32>) -> {P} loc("add.py":6:12)
    %xp = "tt.addptr"(%xs, %i) : ({P}, {I}) -> {P} loc("add.py":6:12)
    %v = "tt.load"(%xp, %m) <{{operandSegmentSizes = array<i32: 1, 1, 0>}}> : ({P}, {B}) -> {F} loc("add.py":6:12)
    %ss = "tt.splat"(%s) : (f32) -> {F} loc("add.py":7:12)
    %w = "arith.addf"(%v, %ss) : ({F}, {F}) -> {F} loc("add.py":7:12)
    %ys = "tt.splat"(%y) : (!tt.ptr<f32>) -> {P} loc("add.py":7:4)
    %yp = "tt.addptr"(%ys, %i) : ({P}, {I}) -> {P} loc("add.py":7:4)
    "tt.store"(%yp, %w, %m) : ({P}, {F}, {B}) -> () loc("add.py":7:4)
    "tt.return"() : () -> () loc("add.py":7:4)
  }}) : () -> ()
}}) : () -> ()
"""


@pytest.fixture
def launch(tmp_path):
    """Makes the folder of a launch on x of 100 elements."""
    def make(n=100, expected=None, kernel=KERNEL, **said):
        folder = tmp_path / "launch"
        folder.mkdir(exist_ok=True)
        (folder / "kernel.generic.mlir").write_text(kernel)
        x = np.arange(100, dtype=np.float32)
        np.save(folder / "in0.npy", x)
        meta = {"kernel": "add_scale", "grid": [7], "target": "cuda:90",
                "args": {"x": {"pointer": "*fp32", "storage": 0}, "y": {"pointer": "*fp32", "storage": 1},
                         "n": {"scalar": "i32", "value": n}, "scale": {"scalar": "fp32", "value": 0.5},
                         "BLOCK": {"constexpr": 16}},
                "storages": [{"dtype": "fp32", "elements": 100}, {"dtype": "fp32", "elements": 100}], **said}
        (folder / "meta.json").write_text(json.dumps(meta))
        np.save(folder / "out1.npy", x + np.float32(0.5) if expected is None else expected)
        return str(folder)
    return make


def test_run(tessera, tmp_path, launch):
    text = tessera("run", launch(), "--output", "out", "--json", "run.json")
    assert "h100 (NVIDIA H100 SXM)" in text
    assert "add.py:6  x " in text
    np.testing.assert_array_equal(np.load(tmp_path / "out/out1.npy"), np.arange(100, dtype=np.float32) + 0.5)
    assert not (tmp_path / "out/out0.npy").exists()  # nothing wrote it
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["schema"] == "tessera.run/1"
    assert run["kernel"]["frontend"] == "triton"
    assert run["grid"] == [7, 1, 1]
    assert run["traffic"]["hbm_read_bytes"] == run["traffic"]["hbm_write_bytes"] == 400
    assert run["traffic"]["lines"] == [
        {"file": "add.py", "line": 6, "column": 12, "ref": "x", "times": 7, "read_bytes": 400, "write_bytes": 0},
        {"file": "add.py", "line": 7, "column": 4, "ref": "y", "times": 7, "read_bytes": 0, "write_bytes": 400}]
    assert run["ops"]["flops"] == 7 * 16


def test_what_is_wrong(tessera, launch):
    wrong = tessera("run", launch(n=101), status=1)
    assert "error[oob-index]: it reads element 100 of x, which has 100" in wrong
    assert "line    add.py:6" in wrong
    assert "grid (x=6, y=0, z=0)" in wrong
    assert "error[mismatch]" in tessera("run", launch(expected=np.zeros(100, np.float32)), status=1)


def test_goldens(tessera, tmp_path, launch):
    x = np.arange(100, dtype=np.float32)
    (tmp_path / "theirs").mkdir()

    def check(golden, theirs, status=0):
        np.save(tmp_path / "theirs/out1.npy", theirs)
        return tessera("golden", "check", golden, "--outputs", "theirs", status=status)

    assert "100 of 100 must be bit-exact" in tessera("golden", "make", launch(), "--out", "sum")
    assert "bit-exact" in check("sum", x + np.float32(0.5))
    assert "golden-mismatch" in check("sum", np.nextafter(x + np.float32(0.5), np.float32(1e9)), 1)
    assert "bit-exact" in tessera("golden", "check", "sum", "--backend", "interpret")
    assert "no checksums of its programs" in tessera("golden", "bisect", "sum", "--backend", "interpret", status=2)

    power = KERNEL.replace(f'"arith.addf"(%v, %ss) : ({F}, {F})', f'"math.exp2"(%v) : ({F})')
    assert power != KERNEL and "0 of 100 must be bit-exact" in tessera("golden", "make", launch(kernel=power), "--out", "power")
    y = np.exp2(x)
    assert "within the bound" in check("power", np.nextafter(y, np.float32(np.inf)))
    assert "golden-mismatch" in check("power", y * np.float32(1 + 2**-18), 1)


def test_a_dry_run_computes_nothing(tessera, launch):
    text = tessera("run", launch(expected=np.zeros(100, np.float32)), "--dry")
    assert "--dry computes nothing" in text
    assert "error[oob-index]: it reads element 100 of x, which has 100" in tessera("run", launch(n=101), "--dry", status=1)


def test_what_there_is_not(tessera, launch):
    assert "--profile mxu is not built for Triton launches" in tessera("run", launch(), "--profile", "mxu", status=2)
    assert "--profile gpu:hopper is one GPU's" in tessera("golden", "make", launch(), "--profile", "gpu:hopper", "--out", "g", status=2)
    assert "args are 3 without constexprs; add_scale takes 4" in tessera(
        "run", launch(args={"x": {"pointer": "*fp32", "storage": 0}, "y": {"pointer": "*fp32", "storage": 1},
                            "n": {"scalar": "i32", "value": 100}}), status=2)
    assert "x points into a storage that there is not" in tessera(
        "run", launch(args={"x": {"pointer": "*fp32", "storage": 2}}), status=2)


def test_show(tessera, launch):
    assert "storage 1, f32[100]" in tessera("show", launch())
    steps = tessera("show", launch(), "--steps")
    assert "tt.load" in steps and "add.py:6" in steps
