"""Kernels that tessera built for a TPU, called from JAX on tessera's machine."""
import importlib.util
import os
import pathlib
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
if jax.__version_info__ < (0, 10):
    pytest.skip("the files call JAX 0.10", allow_module_level=True)


def built(folder, kernel, *words):
    subprocess.run([PROGRAM, "build", kernel, *words, "--target", "tpu", "--out", str(folder)], check=True,
                   capture_output=True)
    spec = importlib.util.spec_from_file_location(kernel, folder / f"{kernel}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kernel)


def test_a_product_inside_of_a_program(tmp_path):
    matmul = built(tmp_path, "matmul", "m=200", "n=300", "k=260")
    x, y = (jnp.asarray(np.load(tmp_path / f"in{i}.npy")) for i in range(2))
    with tessera.simulate("tpu-v5e") as report:
        z = jax.jit(lambda a, b: matmul(a, b) + 1)(x, y)
    np.testing.assert_allclose(z, np.asarray(x) @ np.asarray(y) + 1, rtol=1e-4, atol=1e-4)
    (call,) = report.calls
    assert call.json["grid"] == [2, 3, 3]
    assert call.json["traffic"]["hbm_write_bytes"] == 200 * 300 * 4


def test_prefetched_arrays_are_those_of_the_build(tmp_path):
    grouped = built(tmp_path, "grouped_matmul", "--case", "1")
    offsets = np.load(tmp_path / "in0.npy")
    x, w = (jnp.asarray(np.load(tmp_path / f"in{i}.npy")) for i in (3, 4))
    with tessera.simulate("tpu-v5e"):
        o = jax.jit(grouped)(x, w)
    for g in range(len(offsets) - 1):
        rows = slice(offsets[g], offsets[g + 1])
        np.testing.assert_allclose(o[rows], np.asarray(x)[rows] @ np.asarray(w)[g], rtol=1e-4, atol=1e-4)


def test_other_shapes_are_refused(tmp_path):
    matmul = built(tmp_path, "matmul", "--case", "2")
    with pytest.raises(TypeError, match=r"y is float32\[128, 384\] in this build, not float32\[128, 128\]"):
        matmul(jnp.zeros((256, 128)), jnp.zeros((128, 128)))


def test_a_kernel_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA", PROGRAM)
    matmul = tessera.kernel("matmul", m=64, n=128, k=128, bm=64, folder=tmp_path / "mm")
    x, y = (jnp.asarray(np.load(tmp_path / f"mm/in{i}.npy")) for i in range(2))
    with tessera.simulate("tpu-v5e") as report:
        z = jax.jit(matmul)(x, y)
    np.testing.assert_allclose(z, np.asarray(x) @ np.asarray(y), rtol=1e-4, atol=1e-4)
    assert report.calls[0].json["grid"] == [1, 1, 1]
    with pytest.raises(RuntimeError, match="matmul runs on a TPU, or inside of .* here is cpu"):
        matmul(x, y)
    with pytest.raises(ValueError, match="no size 'mm'|mm"):
        tessera.kernel("matmul", mm=64)
    monkeypatch.setenv("TESSERA", "/nowhere/tessera")
    with pytest.raises(FileNotFoundError, match="no program `tessera`"):
        tessera.kernel("softmax_rows")


def test_a_ring(tmp_path):
    gather = built(tmp_path, "ring_all_gather", "devices=4", "rows=16", "cols=128")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    x = jnp.arange(64 * 128, dtype=jnp.float32).reshape(64, 128)
    with tessera.simulate("tpu-v5e"):
        out = jax.jit(jax.shard_map(gather, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))(x)
    np.testing.assert_array_equal(out, np.tile(np.asarray(x), (4, 1)))
