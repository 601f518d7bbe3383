"""The examples print what they say."""
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("triton")

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize("example", sorted(p.name for p in (EXAMPLES / "triton").glob("[0-9]*.py")))
def test_example(example):
    done = subprocess.run([sys.executable, EXAMPLES / "check.py", EXAMPLES / "triton" / example], capture_output=True, text=True,
                          timeout=300, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stdout + done.stderr
