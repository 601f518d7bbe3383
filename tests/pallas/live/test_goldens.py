"""Goldens of kernels in JAX programs: what XLA makes of the same mathematics is within their bounds."""
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "golden/python"))

from tessera_golden import GoldenError, GoldenMismatch, assert_golden, load  # noqa: E402


def matmul_gelu_kernel(x, y, o, acc):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o[...] = jax.nn.gelu(acc[...]).astype(o.dtype)


@jax.jit
def matmul_gelu(x, y):
    m, k = x.shape
    n = y.shape[1]
    return pl.pallas_call(
        matmul_gelu_kernel, grid=(m // 128, n // 128, k // 128),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")))(x, y)


def operands(dtype=np.float32, scale=0.1):
    rng = np.random.default_rng(3)
    return [(scale * rng.normal(size=shape)).astype(dtype) for shape in ((256, 512), (512, 128))]


def by_xla(x, y):
    dot = jnp.dot(x, y, preferred_element_type=jnp.float32, precision="highest")
    return np.asarray(jax.nn.gelu(dot).astype(x.dtype))


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_xla_stays_within_and_wrong_ones_do_not(tmp_path, dtype):
    x, y = operands(dtype)
    report = tessera.make_goldens(matmul_gelu, x, y, folder=tmp_path / "g")
    golden = load(report.calls[0].golden)
    assert golden.manifest["kernel"]["frontend"] == "mosaic"
    assert golden.steps.shape[0] == 8 + 2  # scratch at every step, each output block once
    right = by_xla(x, y)
    (verdict,) = assert_golden(golden, {"out0": right})
    assert verdict.within > 0
    dropped = by_xla(x[:, :-1], y[:-1])
    with pytest.raises(GoldenMismatch, match="out0"):
        assert_golden(golden, {"out0": dropped})


def test_a_tpus_default_precision_is_said_or_computed(tmp_path):
    x, y = operands()
    rounded = by_xla(x.astype(jnp.bfloat16).astype(np.float32), y.astype(jnp.bfloat16).astype(np.float32))
    exact = tessera.make_goldens(matmul_gelu, x, y, folder=tmp_path / "exact").calls[0].golden
    with pytest.raises(GoldenMismatch):
        assert_golden(exact, {"out0": rounded})
    said = tessera.make_goldens(matmul_gelu, x, y, folder=tmp_path / "said", error_model={"operands": "bf16"})
    assert_golden(said.calls[0].golden, {"out0": rounded})
    computed = tessera.make_goldens(matmul_gelu, x, y, folder=tmp_path / "mxu", profile="mxu").calls[0].golden
    assert_golden(computed, {"out0": rounded})
    assert load(computed).outputs["out0"].bound.max() < load(said.calls[0].golden).outputs["out0"].bound.max() / 10


def test_more_passes_are_nearer():
    x, y = operands()
    exact = by_xla(x, y).astype(np.float64)
    errors = []
    for profile in ("mxu", "mxu:x3", "mxu:x6"):
        with tessera.simulate(profile=profile):
            errors.append(np.abs(np.asarray(matmul_gelu(x, y)) - exact).max())
    assert errors[0] > 100 * errors[1] > 100 * errors[2] / 10
    with pytest.raises(ValueError, match="no profile 'mxv'; did you mean 'mxu'"):
        with tessera.simulate(profile="mxv"):
            pass


def test_highest_precision_takes_six_passes():
    def kernel(x, y, o):
        o[...] = jnp.dot(x[...], y[...], precision=jax.lax.Precision.HIGHEST)

    x, y = operands()
    f = jax.jit(lambda a, b: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((256, 128), jnp.float32))(a, b))
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    with tessera.simulate(profile="mxu"):
        assert np.abs(np.asarray(f(x, y)) - wanted).max() < 1e-5


def test_what_cannot_be_bounded_is_refused(tmp_path):
    def kernel(x, o):
        o[...] = jnp.tan(x[...])

    x = operands()[0]
    f = jax.jit(lambda a: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype))(a))
    with pytest.raises(Exception, match="error bounds of math.tan"):
        tessera.make_goldens(f, x, folder=tmp_path / "g")
    with pytest.raises(ValueError, match="no function 'expp'; did you mean 'exp'"):
        tessera.make_goldens(f, x, folder=tmp_path / "g", error_model={"ulp": {"expp": 2}})
    with pytest.raises(ValueError, match="say golden=FOLDER"):
        with tessera.simulate(error_model={}):
            pass


def test_a_touched_module_is_refused(tmp_path):
    x, y = operands()
    path = pathlib.Path(tessera.make_goldens(matmul_gelu, x, y, folder=tmp_path / "g").calls[0].golden)
    with open(path / "inputs/kernel.mlirbc", "ab") as module:
        module.write(b"x")
    with pytest.raises(GoldenError, match="kernel.mlirbc"):
        load(path)
