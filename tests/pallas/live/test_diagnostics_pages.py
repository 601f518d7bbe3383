"""docs/diagnostics: the program of each page is wrong as its title says, in these words, and right with the page's change."""
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
# What takes more than one kernel on one device, or is not of kernels of Pallas.
ELSEWHERE = {
    "illegal-block-shape", "misaligned-slice", "smem-capacity", "does-not-compile", "semaphore-underflow", "barrier-divergence",
    "bad-device-id", "use-after-scope", "alias-hazard", "output-revisit", "nan-born", "mismatch", "closed-form", "shape-mismatch",
    "check", "check-failed", "interrupted", "crash", "golden-mismatch", "matrix-unit", "late-device",
}


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


def as_shown(message, folder):
    """Without this machine's folders."""
    text = str(message).split("\n\n")[0].replace(f"{folder}/", "").replace(f"{os.path.relpath(folder)}/", "")
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if not line.startswith("  replay"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_wrong_and_right(path, tmp_path):
    settings = {"time_limit": 2} if path.stem == "time-limit" else {}
    (program,), (diff,), (shown,) = blocks(path, "python"), blocks(path, "diff"), blocks(path, "text")
    with pytest.raises(tessera.KernelError) as raised:
        run(program, tmp_path, **settings)
    assert raised.value.slug == path.stem
    message = as_shown(raised.value, tmp_path)
    if os.environ.get("TESSERA_BLESS"):
        path.write_text(path.read_text().replace(shown, message + "\n"))
    else:
        assert shown.strip() == message
    assert len(run(changed(program, diff), tmp_path)) == 1


def test_every_diagnostic_has_a_page_or_is_none_of_one_kernels():
    readme = (ROOT / "README.md").read_text()
    table = readme[readme.index("| diagnostic |"):].split("\n\n")[0]
    named = {slug for row in table.splitlines()[2:] for slug in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", row.split("|")[1])}
    assert {path.stem for path in PAGES} == named - ELSEWHERE
    index = (ROOT / "docs/diagnostics/README.md").read_text()
    assert all(f"]({path.name})" in index for path in PAGES)
