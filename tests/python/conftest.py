import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def tessera(tmp_path):
    """Runs the built program in an empty folder."""
    program = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
    if not os.path.exists(program):
        pytest.skip(f"no {program}: ./tessera test builds it")

    def run(*words, status=0):
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if "-" in words else done.stdout + done.stderr  # --json -: text goes to standard error

    return run
