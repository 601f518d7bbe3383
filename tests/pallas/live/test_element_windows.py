"""Windows counted in elements (pl.Element): halos, padding, and what their bytes are."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import tessera

ROWS, HALO = 8, 8


def rows(n):
    return jnp.asarray(np.random.default_rng(n).integers(-9, 9, (n, 128)), jnp.float32)


def around(n):
    """The sum of a row and its neighbours, 0 outside: a window overlaps those beside it."""

    def kernel(x_ref, o_ref):
        at = pl.program_id(0) * ROWS - HALO + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        x = jnp.where((at >= 0) & (at < n), x_ref[...], 0)
        o_ref[...] = x[HALO - 1:HALO - 1 + ROWS] + x[HALO:HALO + ROWS] + x[HALO + 1:HALO + 1 + ROWS]

    block = (pl.Element(ROWS + 2 * HALO, (HALO, HALO)), pl.Element(128))
    return dict(kernel=kernel, out_shape=jax.ShapeDtypeStruct((n, 128), jnp.float32), grid=(n // ROWS,),
                in_specs=[pl.BlockSpec(block, lambda i: (i * ROWS, 0))],
                out_specs=pl.BlockSpec((ROWS, 128), lambda i: (i, 0)))


@pytest.mark.parametrize("schedule", [None, "on_wait"])
def test_halos(schedule):
    x = rows(32)
    padded = np.pad(x, ((1, 1), (0, 0)))
    with tessera.simulate(schedule=schedule) as report:
        got = pl.pallas_call(**around(32))(x)
    np.testing.assert_array_equal(got, padded[:-2] + padded[1:-1] + padded[2:])
    np.testing.assert_array_equal(got, pl.pallas_call(**around(32), interpret=True)(x))
    # Padding is not moved: 24 rows for each of 4 steps, but 8 before the first and 8 after the last.
    assert report.hbm_read_bytes == (4 * 24 - 16) * 128 * 4


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def copy(x, to, place, grid=(4,)):
    window = (pl.Element(8), pl.Element(128))
    return pl.pallas_call(copy_kernel, out_shape=jax.ShapeDtypeStruct((to, 128), x.dtype), grid=grid,
                          in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
                          out_specs=pl.BlockSpec(window, lambda i: (place(i), 0)))(x)


def test_results_in_elements():
    x = rows(32)
    with tessera.simulate(checks="report") as report:
        got = copy(x, 40, lambda i: 32 - 8 * i)
    assert [d["slug"] for d in report.diagnostics] == ["output-not-covered"]
    np.testing.assert_array_equal(got[8:], np.asarray(x).reshape(4, 8, 128)[::-1].reshape(32, 128))
    assert np.isnan(got[:8]).all()  # which no window writes
    assert report.hbm_write_bytes == x.nbytes


def test_results_that_overlap():
    with pytest.raises(tessera.KernelError, match="overlaps one that has already been written back") as error, \
            tessera.simulate():
        copy(rows(32), 32, lambda i: 7 * i)
    assert error.value.slug == "output-revisit"


def test_outside():
    with pytest.raises(tessera.KernelError, match=r"has no window at \(24, 0\); its last is \(23, 0\)"), \
            tessera.simulate():
        copy(rows(32), 31, lambda i: 8 * i)
