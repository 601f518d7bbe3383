"""What README, ARCHITECTURE and docs tell people to type: commands, flags, devices and kernels that there are, and each command
runs. What cannot here is in BY_HAND, with what it needs and who runs it."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT
from test_modules import IMPORTER, MODULE

DOCS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = re.compile(r"^(?:\$ )?((?:\./)?(?:tessera|pytest|pip|mpirun|timeout|python|cmake|ctest|cd|scripts/\w+|build/\w+/bin/\w+|\./build/\w+) .*|"
                   r"TESSERA_\w+=.*)$", re.MULTILINE)
SPAN = re.compile(r"`((?:\./)?(?:tessera|pytest|pip|mpirun) [^`]*)`")
BY_HAND = {
    r"--backend cuda|--target cuda": "a GPU, or nvcc: build/release/cuda's tests",
    r"--device h100 --timing compiler": "nvcc: cuda/one_instance.sh",
    r"tessera check|--timing compiler": "libtpu: tests/python/test_check.py",
    r"pip install": "the network: scripts/wheel",
    r"(\./)?tessera (test|bench|install)|tessera --preset": "a build: .ci/run, tests/gdb",
    r"tessera new|cmake|\./build/": "a project of one's own: tests/install/check.sh",
    r"tessera run .*--break": "gdb in a terminal: tests/gdb, tests/pallas/live/test_gdb.py",
    r"pytest --tessera-triton": "tests of a library of Triton kernels: tests/triton/live",
}
# What stands for something of the reader's own.
MEANT = {
    r"^pytest ": "pytest -p tessera.pytest -p no:cacheprovider ", r"\./tessera |build/release/cli/tessera ": "tessera ", r"\bKERNEL\b": "matmul_relu", r"\bMODULE\b": "kernel.mlirbc",
    r"(?<=--dry )script\.py": "without_values.py", r"calls/000_name|mm(?= |$)": "call", r"\bFOLDER\b": "launch", r"mpirun -n 4": "mpirun --oversubscribe -n 4",
    r"8192": "512", r"--budget \d+s": "--budget 1s",
    r"^tessera tune (?=--import tuned.json)": "tessera tune matmul --budget 1s --export tuned.json && tessera tune ",
    r"(kernel\.mlirbc)(?= --input 0=x\.npy)": r"\1 --input 1=y.npy",
}


def blocks(text):
    """Fenced ones that show commands: those, in order."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        commands = [re.sub(r"\s+#.*", "", command).strip() for command in SHOWN.findall(block)]
        if commands and language in ("", "console", "sh"):
            yield commands


def told():
    """Lists of commands that follow on one another, of a block, or a `span` alone; and of a diagnostic's page the slug that the
    last of a block ends with."""
    found = set()
    for path in DOCS:
        text = path.read_text()
        slug = path.stem if path.parent.name == "diagnostics" else None
        found |= {(slug, *commands) for commands in blocks(text)}
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).replace("\n", " ")
        found |= {(None, " ".join(span.split())) for span in SPAN.findall(prose) if "..." not in span}
    return sorted(found, key=str)


TOLD = told()
ALONE = sorted({command for _, *commands in TOLD for command in commands})
CALLED = re.compile(r"(?:\./)?tessera ([a-z].*)")
# Of the script ./tessera, and what hands its words on to Python.
OF_PROGRAM = sorted({words[1] for words in map(CALLED.fullmatch, ALONE) if words and words[1].split()[0] not in
                     ("test", "install", "bench", "new", "triton")})


def by_hand(command):
    return next((why for what, why in BY_HAND.items() if re.match(f".*?(?:{what})", command)), None)


def test_the_docs_tell_enough_to_be_worth_the_test():
    assert len(OF_PROGRAM) > 25 and sum(by_hand(command) is None for command in ALONE) > 25
    assert [what for what, why in BY_HAND.items() if why not in map(by_hand, ALONE)] == []


def missing(tessera, command):
    words = shlex.split(re.sub(r"[<>|]\S*", "", command))
    commands = words[:2] if words[0] == "golden" else words[:1]
    told_by_help = tessera(*commands, "--help")
    flags = {word.split("=")[0] for word in words if word.startswith("--")}
    found = [flag for flag in sorted(flags) if not re.search(rf"(?<![\w-]){flag}(?![\w-])", told_by_help)]
    known = re.findall(r"^(\S+)", tessera("devices"), re.MULTILINE)
    named = [name for flag, names in zip(words, words[1:]) if flag == "--device" for name in names.split(",")]
    return found + [name for name in named if name not in known]


@pytest.mark.parametrize("command", OF_PROGRAM)
def test_what_is_told_is_there(tessera, command):
    assert missing(tessera, command) == []


def test_what_is_not_there_is_found(tessera):
    assert missing(tessera, "run matmul --devices 2 --drie --device h100,h101") == ["--drie", "h101"]


PALLAS_TEST = """
import jax, numpy as np
from jax.experimental import pallas as pl

def test_add_one(tessera_report):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1
    x = np.ones((8, 128), np.float32)
    assert (pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x) == 2).all()
"""

TRITON_SCRIPT = """
import numpy as np, tessera, triton, triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i))

x = tessera.DeviceArray(np.ones(64, np.float32))
double[(1,)](x, BLOCK=64)
assert (x.array == 2).all()
"""


@pytest.fixture
def desk(tessera, tmp_path, monkeypatch):
    """A folder with what the commands speak of, and the program on PATH."""
    if not os.path.exists(IMPORTER):
        pytest.skip(f"no {IMPORTER}: built with MLIR 22 only")
    program = pathlib.Path(os.environ.get("TESSERA", ROOT / "build/release/cli/tessera")).resolve()
    monkeypatch.setenv("PATH", f"{program.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "build/release/python"))
    monkeypatch.setenv("TESSERA_TUNING_CACHE", str(tmp_path / "tuned"))
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    rng = np.random.default_rng(5)
    np.save(tmp_path / "x.npy", rng.uniform(-1, 1, (32, 256)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.uniform(-1, 1, (8, 16)).astype(np.float32))
    shutil.copy(MODULE, tmp_path / "kernel.mlirbc")
    for name in ("call", "launch"):
        shutil.copytree(ROOT / "tests/fuzz" / name, tmp_path / name)
    for name in ("a", "b"):
        tessera("run", "matmul_relu", "--json", f"{name}.json")
    (tmp_path / "script.py").write_text(TRITON_SCRIPT)
    (tmp_path / "without_values.py").write_text(TRITON_SCRIPT[:TRITON_SCRIPT.rindex("assert")])
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_add.py").write_text(PALLAS_TEST)
    return tmp_path


def run(command, desk):
    for what, meant in MEANT.items():
        command = re.sub(what, meant, command)
    words = shlex.split(command)
    if words[0] == "tessera" and len(words) == 2 and words[1] not in ("list", "ops", "devices", "--version"):
        command += " --help"  # the name of a command
    return subprocess.run(command, shell=True, cwd=desk, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("slug, commands", [(slug, commands) for slug, *commands in TOLD], ids=[" && ".join(told[1:]) for told in TOLD])
def test_what_is_told_runs(desk, slug, commands, monkeypatch):
    if all(map(by_hand, commands)):
        pytest.skip("; ".join(sorted({by_hand(command) for command in commands})))
    if any("triton" in command for command in commands):
        interpreter = ROOT / ".venv-triton/bin/python"
        if not interpreter.exists():
            pytest.skip("no .venv-triton: ./tessera test makes it")
        monkeypatch.setenv("TESSERA_PYTHON", str(interpreter))
    for command in commands:
        if by_hand(command):
            continue
        done = run(command, desk)
        if slug is not None and command == commands[-1]:
            assert f"error[{slug}]" in done.stderr, f"{command}\n{done.stdout}{done.stderr}"
        else:
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_what_does_not_run_is_found(desk):
    assert run("tessera run matmul_relo", desk).returncode == 2
    assert run("tessera run call --schedule never", desk).returncode == 2
