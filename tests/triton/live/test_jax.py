"""jax_triton.triton_call on JAX's CPU devices; where jax_triton is not installed this is skipped."""
import importlib.util
import os

import numpy as np
import pytest

jax = pytest.importorskip("jax")
if importlib.util.find_spec("jax_triton") is None:
    pytest.skip("jax_triton is not installed", allow_module_level=True)

import jax.numpy as jnp  # noqa: E402
import tessera  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

with tessera.simulate_triton():
    import jax_triton as jt

    HAS_A_CACHE = os.environ.get("TRITON_CACHE_DIR") != ""


@triton.jit
def scale(x_ptr, n, factor, out_ptr, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n if MASKED else i >= 0
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) * factor, mask=mask)


@triton.jit
def add_at(x_ptr, into_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(into_ptr + i) + tl.load(x_ptr + i))


def scaled(x, factor, masked=True):
    return jt.triton_call(x, x.size, factor, kernel=scale, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          grid=lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),), BLOCK=64, MASKED=masked, num_warps=2)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_calls_in_programs(dtype):
    x = jnp.arange(100, dtype=dtype)
    with tessera.simulate_triton() as report:
        y = jax.jit(lambda x: scaled(scaled(x, 2.0) + 1, 3.0))(x)
    np.testing.assert_array_equal(np.asarray(y, np.float32), np.asarray((x * 2 + 1) * 3, np.float32))
    assert [call.kernel for call in report.calls] == ["scale"] * 2


def test_aliases_and_zeroes():
    x = jnp.arange(64.0)
    with tessera.simulate_triton():
        y = jt.triton_call(x, x + 1, kernel=add_at, out_shape=jax.ShapeDtypeStruct((64,), jnp.float32), grid=1, BLOCK=64,
                           input_output_aliases={1: 0})
        z = jt.triton_call(x, 32, 2.0, kernel=scale, out_shape=jax.ShapeDtypeStruct((64,), jnp.float32), grid=1, BLOCK=64,
                           MASKED=True, zeroed_outputs=(0,))
    np.testing.assert_array_equal(y, 2 * np.arange(64) + 1)
    np.testing.assert_array_equal(z, np.where(np.arange(64) < 32, 2 * np.arange(64), 0))
    np.testing.assert_array_equal(x, np.arange(64))


def test_what_is_wrong_has_its_line():
    x = jnp.arange(100.0)
    with pytest.raises(tessera.KernelError, match="oob-index") as error:
        with tessera.simulate_triton():
            scaled(x, 2.0, masked=False)
    assert "test_jax.py" in str(error.value) and "x_ptr" in str(error.value)


def test_triton_keeps_its_cache():
    assert HAS_A_CACHE


def test_outside_of_a_simulation():
    x = jnp.arange(64.0)
    with tessera.simulate_triton():
        scaled(x, 2.0)
    with pytest.raises(Exception, match="outside of tessera.simulate_triton"):
        jax.block_until_ready(scaled(x, 2.0))
