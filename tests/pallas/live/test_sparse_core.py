"""Kernels for the vector subcores of SparseCores: rows that indices name, by gather and scatter."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

if jax.__version_info__ < (0, 10):
    pytest.skip("JAX lowers other programs for SparseCores before 0.10", allow_module_level=True)
plsc = pytest.importorskip("jax.experimental.pallas.tpu_sc")

CORES, SUBCORES, ROWS, COLS = 2, 16, 16, 128
TOTAL = CORES * SUBCORES * ROWS


def data():
    rng = np.random.default_rng(0)
    return (jnp.asarray(rng.integers(-9, 9, (1000, COLS)), jnp.int32),
            jnp.asarray(rng.permutation(1000)[:TOTAL], jnp.int32))


def on_subcores(kernel, rows):
    """kernel(x, indices, o, indices in VMEM, rows in VMEM, semaphore, this subcore's slice)"""

    def body(x_hbm, i_hbm, o_hbm, i_vmem, rows_vmem, sem):
        mine = pl.ds((jax.lax.axis_index("core") * SUBCORES + jax.lax.axis_index("subcore")) * ROWS, ROWS)
        pltpu.sync_copy(i_hbm.at[mine], i_vmem)
        kernel(x_hbm, o_hbm, i_vmem, rows_vmem, sem, mine)

    return jax.jit(pl.kernel(
        body, out_type=jax.ShapeDtypeStruct((rows, COLS), jnp.int32),
        mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore"),
        scratch_types=[pltpu.VMEM((ROWS,), jnp.int32), pltpu.VMEM((ROWS, COLS), jnp.int32),
                       pltpu.SemaphoreType.DMA]))


def gather(x_hbm, o_hbm, i_vmem, rows_vmem, sem, mine):
    pltpu.async_copy(x_hbm.at[i_vmem], rows_vmem, sem).wait()
    pltpu.sync_copy(rows_vmem, o_hbm.at[mine])


def scatter(x_hbm, o_hbm, i_vmem, rows_vmem, sem, mine):
    pltpu.sync_copy(x_hbm.at[mine], rows_vmem)
    pltpu.async_copy(rows_vmem, o_hbm.at[i_vmem], sem).wait()


def not_awaited(x_hbm, o_hbm, i_vmem, rows_vmem, sem, mine):
    copy = pltpu.async_copy(x_hbm.at[i_vmem], rows_vmem, sem)
    pltpu.sync_copy(rows_vmem, o_hbm.at[mine])
    copy.wait()


@pytest.mark.parametrize("schedule", ["eager", "on_wait", "random:3"])
def test_gather(schedule):
    x, i = data()
    with tessera.simulate("tpu-v7x", schedule=schedule) as report:
        np.testing.assert_array_equal(on_subcores(gather, TOTAL)(x, i), x[i])
    assert report.hbm_read_bytes == TOTAL * (COLS + 1) * 4
    assert report.hbm_write_bytes == TOTAL * COLS * 4


def test_scatter():
    x, i = data()
    with tessera.simulate("tpu-v7x") as report:
        got = np.asarray(on_subcores(scatter, 1000)(x, i))
    np.testing.assert_array_equal(got[i], x[:TOTAL])
    assert report.hbm_write_bytes == TOTAL * COLS * 4


def test_rows_before_they_landed():
    x, i = data()
    with pytest.raises(tessera.KernelError) as error, tessera.simulate("tpu-v7x"):
        on_subcores(not_awaited, TOTAL)(x, i)
    assert error.value.slug == "race"
    assert "copy = pltpu.async_copy(x_hbm.at[i_vmem], rows_vmem, sem)" in str(error.value)
    assert "pltpu.sync_copy(rows_vmem, o_hbm.at[mine])" in str(error.value)  # which has no line in the module


def test_two_subcores_write_one_row():
    x, i = data()
    with pytest.raises(tessera.KernelError) as error, tessera.simulate("tpu-v7x"):
        on_subcores(scatter, 1000)(x, i.at[-1].set(i[0]))
    assert error.value.slug == "race"


def test_no_such_row():
    x, i = data()
    with pytest.raises(tessera.KernelError) as error, tessera.simulate("tpu-v7x"):
        on_subcores(gather, TOTAL)(x, i.at[5].set(1000))
    assert error.value.slug == "oob-index"


def test_a_chip_without_sparse_cores():
    x, i = data()
    with pytest.raises(RuntimeError, match="does not have SparseCores"), tessera.simulate("tpu-v5e"):
        on_subcores(gather, TOTAL)(x, i)


def on_one_subcore(kernel):
    """kernel(x in VMEM, rows in VMEM, even lanes); what it leaves in rows is the result."""

    def body(x_hbm, o_hbm, x_vmem, rows_vmem):
        pltpu.sync_copy(x_hbm, x_vmem)
        kernel(x_vmem, rows_vmem, jax.lax.iota(jnp.int32, 8) % 2 == 0)
        pltpu.sync_copy(rows_vmem, o_hbm)

    with tessera.simulate("tpu-v6e"):
        call = pl.kernel(
            body, out_type=jax.ShapeDtypeStruct((8,), jnp.int32), scratch_types=[pltpu.VMEM((8,), jnp.int32)] * 2,
            mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1),
            compiler_params=pltpu.CompilerParams(needs_layout_passes=False))
        return np.asarray(jax.jit(call)(jnp.arange(8, dtype=jnp.int32)))


def test_lanes_that_an_expanding_load_leaves_out_are_undefined():
    def loaded(x, rows, even):
        rows[...] = plsc.load_expanded(x.at[...], mask=even)

    def chosen(x, rows, even):
        rows[...] = jnp.where(even, plsc.load_expanded(x.at[...], mask=even), 9)

    with pytest.raises(tessera.KernelError, match="output-not-covered.*: 4 of 8 elements"):
        on_one_subcore(loaded)
    np.testing.assert_array_equal(on_one_subcore(chosen), [0, 9, 1, 9, 2, 9, 3, 9])


def test_a_result_that_a_subcore_leaves_unwritten():
    def nothing(x, rows, even):
        pass

    def half(x, rows, even):
        plsc.store_compressed(rows.at[...], x[...], mask=even)

    def as_data_says(x, rows, even):
        plsc.store_compressed(rows.at[...], x[...], mask=x[...] < 4)

    with pytest.raises(tessera.KernelError, match="output-not-covered.*: 8 of 8 elements"):
        on_one_subcore(nothing)
    with pytest.raises(tessera.KernelError, match="output-not-covered.*: 4 of 8 elements"):
        on_one_subcore(half)
    np.testing.assert_array_equal(on_one_subcore(as_data_says)[:4], [0, 1, 2, 3])
