"""Goldens of Mosaic modules on the command line."""
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

from conftest import ROOT
from test_modules import IMPORTER, MODULE, rich

sys.path.insert(0, str(ROOT / "golden/python"))

from tessera_golden import assert_golden, load  # noqa: E402

if not os.path.exists(IMPORTER):
    pytest.skip(f"no {IMPORTER}: built with MLIR 22 only", allow_module_level=True)


@pytest.fixture
def golden(tessera, tmp_path):
    rng = np.random.default_rng(5)
    np.save(tmp_path / "x.npy", rng.uniform(-1, 1, (32, 256)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.uniform(-1, 1, (8, 16)).astype(np.float32))
    text = tessera("golden", "make", MODULE, "--input", "0=x.npy", "--input", "1=y.npy", "--out", "g")
    assert "out0       f32[32, 256]" in text
    return tmp_path / "g"


def test_f64_sums_are_within_and_wrong_ones_are_not(golden):
    made = load(golden)
    x, y = made.inputs["in0"], made.inputs["in1"]
    (verdict,) = assert_golden(made, {"out0": rich(x, y)})
    assert verdict.within > 0
    with pytest.raises(AssertionError, match="farther from the golden"):
        assert_golden(made, {"out0": rich(x * 1.0005, y)})


def test_it_runs_again_without_the_module_it_was_made_of(tessera, golden):
    assert "8,192 bit-exact" in tessera("golden", "check", "g", "--backend", "interpret")
    assert "all agree" in tessera("golden", "bisect", "g", "--backend", "interpret")
    assert "agree" not in tessera("run", "g/inputs")
    assert "a Mosaic module runs in the interpreter alone" in tessera(
        "golden", "check", "g", "--backend", "cuda", status=2)


def test_bisect_names_the_step(tessera, golden, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(golden / "outputs", other)
    out = np.load(other / "out0.npy")
    out[20, 200] += 1
    np.save(other / "out0.npy", out)
    text = tessera("golden", "check", "g", "--outputs", "other", status=1)
    assert "block (1, 1), element [4, 72] of the block; written at grid step (d0=1, d1=1)" in text
    assert "first at grid step" in tessera("golden", "bisect", "g", "--outputs", "other", status=1)


def test_refusals(tessera, golden, tmp_path):
    with open(golden / "inputs/kernel.mlirbc", "ab") as module:
        module.write(b"x")
    assert "inputs/kernel.mlirbc was changed" in tessera("golden", "check", "g", "--backend", "interpret", status=2)
    assert "has no parameters" in tessera("golden", "make", MODULE, "m=3", "--out", "h", status=2)
    assert not pathlib.Path(tmp_path / "h").exists()


def test_profiles(tessera, golden):
    run = ("golden", "make", MODULE, "--input", "0=x.npy", "--input", "1=y.npy")
    tessera(*run, "--profile", "mxu", "--out", "mxu")
    assert "profile mxu" in tessera("golden", "check", "mxu", "--backend", "interpret")
    assert "wrong" in tessera("golden", "check", "g", "--outputs", "mxu/outputs", status=1)
    tessera(*run, "--operands", "bf16", "--out", "said")
    assert "within the bound" in tessera("golden", "check", "said", "--outputs", "mxu/outputs")
