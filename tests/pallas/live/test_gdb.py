"""tessera run MODULE --at i,j --break: gdb stops in a module's body, prints what its Python lines read and made."""
import os
import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import tessera
from tessera import _program

PROGRAM = os.environ.get("TESSERA")


def body(x_ref, y_ref, o_ref):
    twice = x_ref[...] * 2.0
    total = twice + y_ref[...]
    o_ref[...] = jnp.exp(total)


def line_of(text):
    """The number of the line of `body` that has this text."""
    lines = open(__file__).read().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line == "    " + text)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128) / 1024
    y = -x[::-1].copy()
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(body, grid=(2,), in_specs=[block, block], out_specs=block, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32))
    folder = tmp_path_factory.mktemp("calls")
    tessera.capture(call, x, y, folder=folder)
    return next(folder.iterdir()), x, y


def commands_of_gdb():
    """The package's own, else those of the source tree."""
    here = os.path.join(os.path.dirname(__file__), "../../../scripts/tessera_gdb.py")
    return next(path for path in (*(f"{place}/share/tessera/tessera_gdb.py" for place in tessera.__path__), here) if os.path.exists(path))


def gdb_says(folder, *commands):
    if PROGRAM is None or shutil.which("gdb") is None:
        pytest.skip("no TESSERA, or no gdb")
    with open(PROGRAM, "rb") as file:
        program = PROGRAM if file.read(4) == b"\x7fELF" else _program._own()  # a package's command is a script
    words = ["gdb", "-q", "-batch", "-x", commands_of_gdb(), "-ex", "run", *(word for c in commands for word in ("-ex", c)),
             "--args", program, "run", str(folder), "--at", "0", "--break"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    if "ptrace: Operation not permitted" in done.stdout + done.stderr:
        pytest.skip("no ptrace here")
    return done.stdout + done.stderr


def tables(text):
    """The rows of numbers that were printed, in order, as arrays of 8 x 8."""
    rows = [[float(n) for n in line.removesuffix("...").split()] for line in text.splitlines() if re.fullmatch(r"(?: +[-\d.e+]+){8} \.\.\.", line)]
    return [np.array(rows[i:i + 8]) for i in range(0, len(rows), 8)]


def test_a_line_says_what_it_read_and_made(recorded):
    folder, x, y = recorded
    total = line_of("total = twice + y_ref[...]")
    said = gdb_says(folder, "tessera-body", f"tessera-line {total}", "tessera-vectors", "kill")
    assert re.search(rf"grid \(0\), after .*test_gdb\.py:{total}  total = twice \+ y_ref", said), said
    shown = tables(said)
    twice, added = (2 * x)[:8, :8], (2 * x + y)[:8, :8]
    assert any(np.allclose(t, twice, rtol=1e-4, atol=1e-5) for t in shown), said
    assert any(np.allclose(t, added, rtol=1e-4, atol=1e-5) for t in shown), said
    assert not any(np.allclose(t, np.exp(added), rtol=1e-4) for t in shown), said  # the next line's
    assert "arith.addf: v" in said and "f32[8, 128]" in said


def test_the_next_cell_has_its_own_blocks(recorded):
    folder, x, y = recorded
    last = line_of("o_ref[...] = jnp.exp(total)")
    said = gdb_says(folder, "tessera-body", "tessera-cell", f"tessera-line {last}", "tessera-vectors", "kill")
    assert "grid (0), before" in said and "grid (1), before" in said and re.search(r"grid \(1\), after .*test_gdb\.py", said), said
    assert any(np.allclose(t, np.exp(2 * x + y)[8:16, :8], rtol=1e-4) for t in tables(said)), said


def test_without_a_module_the_commands_say_so(recorded):
    if PROGRAM is None or shutil.which("gdb") is None:
        pytest.skip("no TESSERA, or no gdb")
    done = subprocess.run(["gdb", "-q", "-batch", "-x", commands_of_gdb(), "-ex", "tessera-vectors"], capture_output=True, text=True, timeout=60)
    assert "no module runs here" in done.stdout + done.stderr
