"""tessera run MODULE --reference FILE.py:FUNCTION: every element by a bound, no tolerance."""
import inspect
import os
import sys

import pytest

from test_modules import IMPORTER, MODULE, inputs, rich  # noqa: F401  (inputs: a fixture)

if not os.path.exists(IMPORTER):
    pytest.skip(f"no {IMPORTER}: built with MLIR 22 only", allow_module_level=True)

FUNCTIONS = f"""
import numpy as np

{inspect.getsource(rich)}

def right(x, y):
    assert x.dtype == y.dtype == np.float64
    return rich(x, y)

def scaled(x, y):
    return 1.00005 * rich(x, y)

def one_element(x, y):
    o = rich(x, y)
    o[20, 200] *= 1.0001
    return o

def narrow(x, y):
    return rich(x, y).astype(np.float32)

def two(x, y):
    return x, y
"""


@pytest.fixture
def judged(tessera, tmp_path, inputs, monkeypatch):  # noqa: F811
    monkeypatch.setenv("TESSERA_PYTHON", sys.executable)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "naive.py").write_text(FUNCTIONS)

    def run(function, *words, status=0):
        said = tessera("run", MODULE, "--input", "0=x.npy", "--input", "1=y.npy", "--reference", f"naive.py:{function}", *words, status=status)
        assert not list(tmp_path.glob("tessera-reference-*"))
        return said

    return run


def test_a_kernel_is_within_its_bounds_of_its_reference(judged):
    said = judged("right")
    assert "traffic" in said and "reference   naive.py:right, in f64\n            out0: 8,192 elements: " in said
    assert " wrong" not in said
    assert "within the bound" in judged("right", "--profile", "mxu")


def test_what_no_rounding_explains_is_wrong(judged):
    assert "error[mismatch]: 8,192 of 8,192 elements of out0 are farther from naive.py:scaled" in judged("scaled", status=1)
    said = judged("one_element", status=1)
    assert "8,191 " not in said and "error[mismatch]: 1 of 8,192 elements of out0" in said
    assert "  worst   [20, 200] = " in said and " allowed\n" in said
    assert "  where   block [1, 1] of kernel's out0; written at grid step (d0=1, d1=1)" in said


def test_what_cannot_be_judged_is_refused(judged, tessera):
    assert "the reference gave float32" in judged("narrow", status=2)
    assert "gave 2 arrays, the kernel 1" in judged("two", status=2)
    assert "naive.py has no function other" in judged("other", status=2)
    assert judged("right", "--json", "-", status=2) == ""  # standard output is the JSON's alone
    assert "--dry computes none" in judged("right", "--dry", status=2)
    assert "a kernel of C++ has an oracle" in tessera("run", "matmul", "--reference", "naive.py:right", status=2)
