"""The examples print what they say."""
import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples/pallas"


@pytest.mark.parametrize("example", sorted(p.name for p in EXAMPLES.glob("[0-9]*.py")))
def test_example(example):
    done = subprocess.run(
        [sys.executable, EXAMPLES.parent / "check.py", EXAMPLES / example], capture_output=True, text=True, timeout=300,
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stdout + done.stderr
