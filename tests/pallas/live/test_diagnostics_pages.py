"""docs/diagnostics: the program of each page is wrong as its title says, in these words, and right with the page's change; one
in C++ is a test's, with the words that the test holds it to."""
import os
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = sorted(path for path in (ROOT / "docs/diagnostics").glob("*.md") if path.stem != "README")
SETTINGS = {"time-limit": {"time_limit": 2}, "late-device": {"patience": 0.5}}
# Their commands are run by tests/python/test_readme.py, a compiler by test_check_compiles.py.
NO_PROGRAM = {"golden-mismatch", "interrupted", "does-not-compile"}
WARNINGS = {"stale-alias"}
IN_CPP = [path for path in PAGES if "```cpp" in path.read_text()]
IN_PYTHON = [path for path in PAGES if path not in IN_CPP and path.stem not in NO_PROGRAM | WARNINGS]


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def changed(program, diff):
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if line[0] in " -") + "\n"
    after = "\n".join(line[1:] for line in lines if line[0] in " +") + "\n"
    assert program.count(before) == 1
    return program.replace(before, after)


def run(program, folder, **settings):
    file = folder / "kernel.py"
    file.write_text(program)
    names = {"jax": jax, "jnp": jnp, "np": np, "pl": pl, "pltpu": pltpu}
    with tessera.simulate(device="tpu-v5e", **settings) as report:
        exec(compile(program, str(file), "exec"), names)
    return report


def without_replay(text):
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if not line.startswith("  replay"))


def as_shown(message, folder):
    """Without this machine's folders."""
    text = str(message).split("\n\n")[0].replace(f"{folder}/", "").replace(f"{os.path.relpath(folder)}/", "")
    return without_replay(text)


def shows(path, shown, message):
    if os.environ.get("TESSERA_BLESS"):
        path.write_text(path.read_text().replace(shown, message + "\n"))
    else:
        assert shown.strip() == message


@pytest.mark.parametrize("path", IN_PYTHON, ids=lambda path: path.stem)
def test_wrong_and_right(path, tmp_path):
    if path.stem == "matrix-unit" and not hasattr(pltpu, "matmul_pop"):
        pytest.skip("this JAX has no primitives of an MXU")
    if path.stem == "late-device" and jax.__version_info__ < (0, 10):
        pytest.skip("this JAX calls the module main")
    settings = SETTINGS.get(path.stem, {})
    (program,), (diff,), (shown,) = blocks(path, "python"), blocks(path, "diff"), blocks(path, "text")
    with pytest.raises(tessera.KernelError) as raised:
        run(program, tmp_path, **settings)
    assert raised.value.slug == path.stem
    shows(path, shown, as_shown(raised.value, tmp_path))
    assert len(run(changed(program, diff), tmp_path)) == 1


@pytest.mark.parametrize("path", [path for path in PAGES if path.stem in WARNINGS], ids=lambda path: path.stem)
def test_warns(path, tmp_path):
    (program,), (diff,), (shown,) = blocks(path, "python"), blocks(path, "diff"), blocks(path, "text")
    said, = run(program, tmp_path).warnings
    assert said.startswith(path.stem)
    shows(path, shown, as_shown(said, tmp_path))
    assert run(changed(program, diff), tmp_path).warnings == []


@pytest.mark.parametrize("path", IN_CPP, ids=lambda path: path.stem)
def test_a_program_in_cpp_is_one_of_the_tests(path):
    """Which run it, and hold what is said of it to the words in the other file."""
    (program,), (shown,) = blocks(path, "cpp"), blocks(path, "text")
    source, words = ((ROOT / file).read_text() for file in re.findall(r"\]\(\.\./\.\./(tests/[^)]*)\)", path.read_text()))
    assert program in source
    assert f"error[{path.stem}]" in words
    if words.startswith("error["):
        shows(path, shown, without_replay(words))
    else:
        assert shown.strip() in words


def test_every_diagnostic_has_a_page():
    readme = (ROOT / "README.md").read_text()
    table = readme[readme.index("| diagnostic |"):].split("\n\n")[0]
    named = {slug for row in table.splitlines()[2:] for slug in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", row.split("|")[1])}
    assert {path.stem for path in PAGES} == named | {"check-failed"}
    index = (ROOT / "docs/diagnostics/README.md").read_text()
    assert all(f"]({path.name})" in index for path in PAGES)
