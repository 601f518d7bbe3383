"""A program and the libraries that it loads must be made of the same headers: others' structs have another layout."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

PROGRAM = pathlib.Path(os.environ.get("TESSERA", pathlib.Path(__file__).resolve().parents[2] / "build/release/cli/tessera"))
HASH = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
MODULE = pathlib.Path(__file__).resolve().parents[1] / "fuzz/call"
COMMANDS = {
    "libtessera_kernel_add_vectors.so": ("run", "add_vectors", "n=2048"),
    "libtessera_mosaic_add_vectors.so": ("build", "add_vectors", "n=2048", "--target", "tpu", "--out", "built"),
    "libtessera_modules.so": ("show", str(MODULE)),
}


@pytest.fixture
def run(tmp_path):
    """The program in a folder of its own, with the libraries that are put there."""
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}: ./tessera test builds it")
    shutil.copy(PROGRAM, tmp_path / "tessera")
    for name in ("libtessera_kernel_add_vectors.so", "libtessera_mosaic_add_vectors.so", "libtessera_modules.so"):
        shutil.copy(PROGRAM.parent / name, tmp_path / name)
    if (importer := PROGRAM.parents[1] / "program/tessera-import").exists():
        shutil.copy(importer, tmp_path / "tessera-import")

    def command(words, status):
        done = subprocess.run([tmp_path / "tessera", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return command


def interface(library):
    """The hash that a library was built with, and where it lies."""
    ours = {m.group() for m in HASH.finditer(PROGRAM.read_bytes())}
    found = [m for m in HASH.finditer(library.read_bytes()) if m.group() in ours]
    assert found, f"{library} says no hash of the program's"
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_library_of_other_headers_is_refused(run, tmp_path, name):
    library = tmp_path / name
    if name == "libtessera_modules.so" and not (tmp_path / "tessera-import").exists():
        pytest.skip("built without MLIR")
    text = bytearray(library.read_bytes())
    for m in interface(library):
        text[m.start()] = ord("0") if text[m.start()] != ord("0") else ord("1")
    right = library.read_bytes()
    library.write_bytes(text)
    said = run(COMMANDS[name], 2)
    assert f"{name} was built of other sources than this program" in said
    assert "build both again from one commit" in said
    library.write_bytes(right)
    run(COMMANDS[name], 0)


def test_a_module_of_cuda_kernels_of_other_headers_is_refused(run, tmp_path):
    made_up = PROGRAM.parents[1] / "tests/libmade_up_gpu.so"
    if not made_up.exists():
        pytest.skip(f"no {made_up}")
    module = tmp_path / "libtessera_cuda.so"
    shutil.copy(made_up, module)
    words = ("tune", "add_vectors", "n=2048", "--backend", "cuda", "--cache", "c.sqlite")
    assert "add_vectors is not built for CUDA" in run(words, 1)
    text = bytearray(module.read_bytes())
    for m in interface(module):
        text[m.start()] = ord("0") if text[m.start()] != ord("0") else ord("1")
    module.write_bytes(text)
    said = run(words, 2)
    assert "libtessera_cuda.so was built of other sources than this program" in said
    assert "build both again from one commit" in said
    module.write_bytes(bytes(text).replace(b"tessera_cuda_interface", b"tessera_cuda_intorface"))
    assert "was built of other sources" in run(words, 2)


def test_a_library_from_before_hashes_is_refused(run, tmp_path):
    library = tmp_path / "libtessera_kernel_add_vectors.so"
    library.write_bytes(library.read_bytes().replace(b"tessera_interface", b"tessera_intorface"))
    assert "was built of other sources than this program" in run(COMMANDS[library.name], 2)


@pytest.mark.parametrize("name", ["libtessera_mosaic_add_vectors.so", "libtessera_modules.so"])
def test_a_run_without_its_tpu_build_says_what_makes_it(run, tmp_path, name):
    words = ("run", "add_vectors", "n=2048", "--dry", "--device", "tpu-v5e")
    assert "by the units of a v5e core" in run(words, 0)
    (tmp_path / name).unlink()
    why = "its TPU build, whose units are counted, is not compiled: ./tessera run add_vectors --timing units"
    assert f"by published rates: {why}" in run(words, 0)
    assert f"by published rates, the least that it can take: {why}" in run(("sweep", *words[1:3], "bn=256,512", "--device", "tpu-v5e"), 0)
