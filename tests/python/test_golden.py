"""Goldens from Python: other libraries stay within the bounds, wrong programs and touched files do not."""
import json
import pathlib
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "golden/python"))

from tessera_golden import GoldenError, GoldenMismatch, assert_golden, check, load  # noqa: E402


def save(folder, outputs):
    folder.mkdir()
    for name, array in outputs.items():
        np.save(folder / f"{name}.npy", array)


def softmax(x):
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm_gelu(x, w, gamma, beta):
    h = x @ w
    z = (h - h.mean(axis=1, keepdims=True)) * jax.lax.rsqrt(h.var(axis=1, keepdims=True) + 1e-5) * gamma + beta
    return z * (1 + jax.lax.erf(z * np.float32(0.5**0.5))) / 2


KERNELS = {
    "matmul": ([], lambda i: jnp.dot(i["x"], i["y"], precision="highest")),
    "softmax_rows": (["--ulp", "div=2"], lambda i: softmax(i["x"])),
    "matmul_relu": ([], lambda i: jax.nn.relu(jnp.dot(i["x"], i["w"], precision="highest"))),
    "matmul_layernorm_gelu": (["--ulp", "erf=8"], lambda i: layernorm_gelu(i["x"], i["w"], i["gamma"], i["beta"])),
}


@pytest.mark.parametrize("kind", ["uniform", "integers", "binary", "cancellation"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_xla_computes_is_within_the_bound(tessera, tmp_path, kernel, kind):
    options, xla = KERNELS[kernel]
    tessera("golden", "make", kernel, "--case", "1", "--inputs", kind, "--out", "g", *options)
    golden = load(tmp_path / "g")
    name = next(iter(golden.outputs))
    verdicts = assert_golden(golden, {name: jax.jit(xla)(golden.inputs)})
    if kernel == "matmul" and kind in ("integers", "binary"):
        assert verdicts[0].verdict == "bit-exact"
        assert not golden.outputs[name].bound.any()


@pytest.mark.parametrize("kind", ["uniform", "cancellation", "wide"])
def test_what_openblas_computes_is_within_the_bound(tessera, tmp_path, kind):
    tessera("golden", "make", "matmul", "m=300", "n=200", "k=1000", "--inputs", kind, "--out", "g")
    golden = load(tmp_path / "g")
    x, y = golden.inputs["x"], golden.inputs["y"]
    assert_golden(golden, x @ y)
    # A sum in f64 is better than any in f32: within the bound, but for its own rounding.
    out = golden.outputs["o"]
    exact = x.astype(np.float64) @ y.astype(np.float64)
    assert (np.abs(exact - out.value) <= out.bound).all()
    # Any order of theirs: half of Higham's bound of a sum of k terms; what ours missed comes on top.
    if kind == "wide":
        return  # a few terms decide: ours misses by as much
    magnitude = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
    assert (out.bound < 1.3 * 1000 * 2.0**-24 * (magnitude + np.abs(exact)) / 2).all()


def test_bf16_operands_of_an_mxu_need_a_bound_that_says_so(tessera, tmp_path):
    def one_pass(i):
        return i["x"].astype(ml_dtypes.bfloat16).astype(np.float32) @ i["y"].astype(ml_dtypes.bfloat16).astype(np.float32)

    tessera("golden", "make", "matmul", "--out", "f32")
    golden = load(tmp_path / "f32")
    with pytest.raises(GoldenMismatch):
        assert_golden(golden, one_pass(golden.inputs))
    tessera("golden", "make", "matmul", "--operands", "bf16", "--out", "bf16")
    golden = load(tmp_path / "bf16")
    assert_golden(golden, one_pass(golden.inputs))


def test_both_readers_give_the_same_verdict(tessera, tmp_path):
    tessera("golden", "make", "flash_attention", "--dtype", "bf16", "--case", "1", "--out", "g")
    golden = load(tmp_path / "g")
    value = golden.outputs["o"].value
    assert value.dtype == ml_dtypes.bfloat16
    off = value.copy()
    off[0, 0, 3, 7] += ml_dtypes.bfloat16(0.5)
    save(tmp_path / "off", {"o": off})
    said = tessera("golden", "check", "g", "--outputs", "off", status=1)
    assert "1 wrong" in said and "o[0, 0, 3, 7]" in said and "written at grid step" in said
    (verdict,) = check(golden, {"o": off})
    assert verdict.wrong == 1 and verdict.exact == value.size - 1
    where = next(line for line in said.splitlines() if line.startswith("  where"))
    assert where.split(";")[1] in verdict.message
    with pytest.raises(GoldenMismatch, match="o\\[0, 0, 3, 7\\]"):
        assert_golden(golden, off)
    module = [sys.executable, str(ROOT / "golden/python/tessera_golden.py"), str(tmp_path / "g")]
    assert subprocess.run([*module, str(tmp_path / "off")], capture_output=True).returncode == 1
    assert subprocess.run([*module, str(tmp_path / "g/outputs")], capture_output=True).returncode == 0
    assert "bit-exact" in tessera("golden", "check", "g", "--outputs", "g/outputs")


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def edit(path, change):
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


FAULTS = {
    "a touched output": (lambda g: flip(g / "outputs/o.npy"), "outputs/o.npy was changed since"),
    "a touched bound": (lambda g: flip(g / "bounds/o.npy"), "bounds/o.npy was changed since"),
    "a truncated input": (
        lambda g: (g / "inputs/x.npy").write_bytes((g / "inputs/x.npy").read_bytes()[:100]),
        "inputs/x.npy is truncated",
    ),
    "a missing input": (lambda g: (g / "inputs/x.npy").unlink(), "inputs/x.npy is missing"),
    "a truncated manifest": (
        lambda g: (g / "manifest.json").write_text((g / "manifest.json").read_text()[:200]),
        "manifest.json is truncated",
    ),
    "no manifest": (lambda g: (g / "manifest.json").unlink(), "no manifest.json"),
    "another schema": (
        lambda g: edit(g / "manifest.json", lambda m: m.update(schema="tessera.golden/9")),
        "tessera.golden/9",
    ),
    "a looser error model": (
        lambda g: edit(g / "manifest.json", lambda m: m["error_model"].update(accumulate="bf16")),
        "its own SHA-256 disagrees",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_golden_is_refused_with_the_reason(tessera, tmp_path, fault):
    tessera("golden", "make", "matmul", "--case", "1", "--out", "g")
    shutil.copytree(tmp_path / "g", tmp_path / "outputs")
    harm, reason = FAULTS[fault]
    harm(tmp_path / "g")
    said = tessera("golden", "check", "g", "--outputs", "outputs/outputs", status=2)
    assert "bad-golden" in said and reason in said
    with pytest.raises(GoldenError, match=reason):
        load(tmp_path / "g")


def test_other_parameters_shapes_and_types_are_refused(tessera, tmp_path):
    tessera("golden", "make", "matmul", "--case", "1", "--out", "g")
    golden = load(tmp_path / "g", kernel="matmul", params={"m": 200})
    with pytest.raises(GoldenError, match="made with m=200, not 512"):
        load(tmp_path / "g", params={"m": 512})
    with pytest.raises(GoldenError, match="not of flash_attention"):
        load(tmp_path / "g", kernel="flash_attention")
    value = golden.outputs["o"].value
    for other, reason in ((value[1:], "shape"), (value.astype(np.float64), "float64")):
        with pytest.raises(GoldenError, match=reason):
            assert_golden(golden, other)
    with pytest.raises(GoldenError, match="no output o"):
        assert_golden(golden, {"y": value})
    save(tmp_path / "short", {"o": value[1:]})
    assert "golden's is f32[200, 300]" in tessera("golden", "check", "g", "--outputs", "short", status=2)


def test_nan_and_infinity_must_be_where_the_golden_has_them(tessera, tmp_path):
    tessera("golden", "make", "add_vectors", "--case", "1", "--inputs", "special", "--out", "g")
    golden = load(tmp_path / "g")
    x, y = golden.inputs["x"], golden.inputs["y"]
    with np.errstate(invalid="ignore"):
        total = x + y
    assert np.isnan(total).any() and np.isinf(total).any()
    assert_golden(golden, total)
    at = int(np.flatnonzero(np.isnan(total))[0])
    total[at] = 0
    with pytest.raises(GoldenMismatch, match=f"o\\[{at}\\]"):
        assert_golden(golden, total)


def test_bisect_names_the_first_step_that_differs(tessera, tmp_path):
    tessera("golden", "make", "matmul", "--dtype", "bf16", "--out", "exact")
    tessera("golden", "make", "matmul", "--dtype", "bf16", "--profile", "tensorcore:hopper", "--out", "hopper")
    assert "all agree" in tessera("golden", "bisect", "exact", "--outputs", "exact")
    said = tessera("golden", "bisect", "exact", "--outputs", "hopper", status=1)
    assert "first at grid step (i=0, j=0, k=0): acc" in said
    steps = np.load(tmp_path / "exact/steps.npy")
    steps[7, -1] ^= 1
    np.save(tmp_path / "steps.npy", steps)
    manifest = json.loads((tmp_path / "exact/manifest.json").read_text())
    i, j, k = steps[7, 1:4]
    said = tessera("golden", "bisect", "exact", "--outputs", "steps.npy", status=1)
    assert f"first at grid step (i={i}, j={j}, k={k}): {manifest['steps']['refs'][steps[7, 4]]}" in said
    np.save(tmp_path / "steps.npy", steps[:, 1:])
    assert "columns" in tessera("golden", "bisect", "exact", "--outputs", "steps.npy", status=2)
