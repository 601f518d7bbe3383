"""`tessera bless`, in the layout of a library that checks its goldens in (examples/blessed)."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def library(tessera, tmp_path):
    shutil.copytree(ROOT / "examples/blessed", tmp_path, dirs_exist_ok=True)
    said = tessera("bless", "softmax_rows", "--device", "h100", "--ulp", "div=2")
    assert "10 goldens" in said
    return tmp_path


def run_tests(library, bug=""):
    environment = dict(os.environ, KERNEL_BUG=bug)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, cwd=library, env=environment, capture_output=True, text=True)


def test_the_library_passes_and_each_bug_is_caught(library):
    done = run_tests(library)
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout
    for bug in ("last column", "no rescale", "f16 sums"):
        done = run_tests(library, bug)
        assert done.returncode == 1, bug
        assert "farther from the golden than any conforming build" in done.stdout


def test_a_blessed_set_is_small_and_says_how_it_is_used(library):
    folder = library / "goldens/softmax_rows"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < 3 << 20
    readme = (folder / "README.md").read_text()
    for golden in folder.glob("*/manifest.json"):
        assert f"| {golden.parent.name} |" in readme
    assert (folder / "tessera_golden.py").read_text() == (ROOT / "golden/python/tessera_golden.py").read_text()


def test_a_manifest_holds_the_command_that_makes_its_golden_again(library, tessera):
    folder = library / "goldens/softmax_rows/bf16-ragged"
    command = json.loads((folder / "manifest.json").read_text())["command"].split()
    tessera(*command[1:], "--out", "again")
    assert (library / "again/outputs/y.npy").read_bytes() == (folder / "outputs/y.npy").read_bytes()
    assert (library / "again/bounds/y.npy").read_bytes() == (folder / "bounds/y.npy").read_bytes()
