"""examples/ci/kernels.yml as GitHub would run it: every job of its matrix, each step's `run` by its shell. Only the installation
is what this build has instead."""
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

yaml = pytest.importorskip("yaml")
pytest.importorskip("jax")
FILE = ROOT / "examples/ci/kernels.yml"
WORKFLOW = yaml.safe_load(FILE.read_text())
JOB = WORKFLOW["jobs"]["simulated"]
JOBS = [dict(zip(JOB["strategy"]["matrix"], values)) for values in itertools.product(*JOB["strategy"]["matrix"].values())]


def filled(text, job):
    def value(found):
        name = found[1].strip()
        known = {f"matrix.{key}": value for key, value in job.items()} | {"vars.TESSERA_WHEEL": "tessera_sim.whl", "strategy.job-index": "0"}
        return known[name]  # nothing else is defined

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def steps(job):
    return [filled(step["run"], job) for step in JOB["steps"] if "run" in step]


@pytest.fixture
def library(tessera, tmp_path, monkeypatch):
    if not list((ROOT / "build/release/python/tessera").glob("_xla*")):
        pytest.skip("no Python package in this build")
    program = pathlib.Path(os.environ.get("TESSERA", ROOT / "build/release/cli/tessera")).resolve()
    monkeypatch.setenv("PATH", f"{program.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "build/release/python"))
    monkeypatch.setenv("PYTEST_PLUGINS", "tessera.pytest")  # which pip registers
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return shutil.copytree(ROOT / "examples/ci", tmp_path / "library", ignore=shutil.ignore_patterns("__pycache__"))


def run(command, library):
    """As a runner does by default."""
    return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command], cwd=library, capture_output=True, text=True, timeout=300)


def test_it_is_a_workflow():
    assert set(WORKFLOW) == {"name", True, "jobs"} and set(WORKFLOW[True]) == {"push", "pull_request"}  # YAML 1.1: `on` is true
    assert set(JOB) == {"runs-on", "strategy", "steps"} and len(JOBS) == 4
    for step in JOB["steps"]:
        assert ("run" in step) != ("uses" in step) and set(step) <= {"name", "run", "uses", "with", "if"}
    assert [step["uses"].split("@")[0] for step in JOB["steps"] if "uses" in step] == [
        "actions/checkout", "actions/setup-python", "actions/upload-artifact"]


def test_what_it_installs_is_what_the_next_steps_need():
    install, *_ = steps(JOBS[0])
    assert install == 'pip install "tessera_sim.whl" pytest'  # JAX and NumPy are what the wheel depends on
    needs = (ROOT / "python/pyproject.toml").read_text()
    assert re.search(r'dependencies = \[[^\]]*"jax', needs)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: "-".join(job.values()))
def test_every_step_runs(library, job):
    _, *commands = steps(job)
    assert len(commands) == 3
    for command in commands:
        done = run(command, library)
        assert done.returncode == 0, command + done.stdout + done.stderr
    assert "row_sums" in done.stdout
    artifact = library / JOB["steps"][-1]["with"]["path"]
    assert {path.suffix for path in artifact.iterdir()} == {".html", ".json"}


def test_a_wrong_kernel_fails_the_job(library):
    """Cleared in the first step of the grid alone: right on a TPU with one core."""
    kernels = library / "kernels.py"
    right = kernels.read_text()
    kernels.write_text(right.replace("j == 0", "(pl.program_id(0) == 0) & (j == 0)"))
    assert kernels.read_text() != right
    done = run(steps(JOBS[0])[1], library)
    assert done.returncode == 1 and "error[parallel-dependence]" in done.stdout
