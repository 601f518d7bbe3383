"""What tests of tessera.record() share: the lines of a record, hashes, `tessera replay`."""
import hashlib
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from run_schema import complaints

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = json.loads((ROOT / "docs/record.schema.json").read_text())


def lines(folder):
    """Of its records.jsonl, each as the schema has it."""
    found = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for line in found:
        assert complaints(line, SCHEMA, "record") == []
    return found


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


@pytest.fixture
def replay(tmp_path):
    """Runs `tessera replay` in the test's folder, or another command, and gives what it printed."""
    program = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
    if not os.path.exists(program):
        pytest.skip(f"no {program}: ./tessera test builds it")

    def run(*words, command="replay", status=0):
        done = subprocess.run([program, command, *map(str, words)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
