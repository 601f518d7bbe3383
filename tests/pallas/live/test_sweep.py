"""Counting without computing, and block shapes of live kernels."""
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tessera
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROOT = pathlib.Path(__file__).resolve().parents[3]


def matmul(x, y, bm=128, bn=128, bk=128):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    (m, k), (_, n) = x.shape, y.shape
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32), grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)])(x, y)


X = np.ones((512, 256), np.float32)
Y = np.ones((256, 384), np.float32)


def test_a_dry_simulation_counts_what_a_full_one_counts():
    with tessera.simulate() as full:
        assert np.array_equal(matmul(X, Y), X @ Y)
    with tessera.simulate(dry=True) as dry:
        assert np.isnan(matmul(X, Y)).all()
    for part in ("traffic", "memory", "ops", "grid", "timeline"):
        assert dry.calls[0].json[part] == full.calls[0].json[part]


def test_a_dry_simulation_of_a_model_size_takes_no_arithmetic():
    x = jax.ShapeDtypeStruct((4096, 8192), jnp.bfloat16)
    with tessera.simulate(dry=True) as report:
        matmul(jnp.zeros(x.shape, x.dtype), jnp.zeros((8192, 4096), x.dtype), 1024, 1024, 512)
    assert report.calls[0].json["ops"]["flops"] >= 2 * 4096 * 4096 * 8192
    assert report.hbm_read_bytes == 2 * 4 * 4096 * 8192 * 2
    assert report.seconds < 60


def test_a_dry_simulation_has_nothing_to_capture(tmp_path):
    with pytest.raises(ValueError, match="dry=True computes nothing"):
        with tessera.simulate(dry=True, capture=str(tmp_path)):
            pass


def test_sweep_ranks_shapes_and_keeps_the_reasons(tmp_path):
    table = tessera.sweep(matmul, X, Y, bm=[128, 256, 512], bn=[128, 100], device=["tpu-v5e", "tpu-v6e"])
    runs = [row for row in table.rows if "reason" not in row]
    assert len(table.rows) == 12 and len(runs) == 6
    assert all(row["shape"]["bn"] == 100 for row in table.rows[6:])
    seconds = [row["predicted_seconds"] for row in runs]
    assert seconds == sorted(seconds) and seconds[0] > 0
    # y comes once for every block of rows.
    for row in runs:
        assert row["hbm_read_bytes"] == X.nbytes * 3 + Y.nbytes * 512 // row["shape"]["bm"]
    assert table.best == runs[0]["shape"]
    assert "bm=512" in str(table) and "<table>" in table._repr_html_()
    rows = json.loads(table.to_json())
    assert rows["schema"] == "tessera.sweep/1" and len(rows["rows"]) == 12
    table.save_html(tmp_path / "sweep.html")
    assert "bm" in (tmp_path / "sweep.html").read_text() and "/*DATA*/" not in (tmp_path / "sweep.html").read_text()


def test_sweep_ranks_what_is_not_modelled_by_the_time_of_its_bytes(tmp_path):
    """As the command line does."""
    files = []
    for name, bandwidth in ("fast", 1e14), ("slow", 1e9):
        spec = json.loads((ROOT / "memory_model/devices/tpu-v5e.json").read_text())
        spec["figures"]["hbm_bandwidth"]["value"] = bandwidth
        for figure in "peak_flops_f32", "model_clock":  # of published rates, and of costs of units
            del spec["figures"][figure]
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(spec | {"name": name}))
    fast, slow = map(str, files)
    rows = tessera.sweep(matmul, X, Y, bm=[128, 512], device=[slow, "tpu-v5e", fast]).rows
    assert [row["device"] for row in rows] == [fast] * 2 + ["tpu-v5e"] * 2 + [slow] * 2
    assert [row["predicted_seconds"] is None for row in rows] == [True] * 2 + [False] * 2 + [True] * 2
    assert [row["shape"]["bm"] for row in rows] == [512, 128] * 3
    tiled = rows[-1]["hbm_read_bytes"] + rows[-1]["hbm_write_bytes"]  # all blocks are whole tiles
    assert rows[-1]["rank_seconds"] == pytest.approx(tiled / 1e9)


def test_sweep_of_a_function_that_computes():
    def twice(x, y, bm):
        return matmul(matmul(x, y, bm), jnp.ones((384, 128), jnp.float32), bm)

    dry = tessera.sweep(twice, X, Y, bm=[128, 256])
    full = tessera.sweep(twice, X, Y, bm=[128, 256], dry=False)
    assert dry.rows == full.rows


def test_sweep_that_cannot_run_raises_the_first_error():
    with pytest.raises(Exception, match="unexpected keyword"):
        tessera.sweep(matmul, X, Y, rows=[1, 2])
    with pytest.raises(ValueError, match="nothing to sweep"):
        tessera.sweep(matmul, X, Y)
    with pytest.raises(ValueError, match="no pallas_call ran"):
        tessera.sweep(functools.partial(lambda x, bm: x, X), bm=[1, 2])


@pytest.mark.parametrize("by_data", [True, False])
def test_work_that_data_decides_is_not_known(by_data):
    def raised(x, bm=8):
        def kernel(x_ref, o_ref):
            most = x_ref[0, 0] if by_data else 4.
            o_ref[...] = x_ref[...] + jax.lax.while_loop(lambda v: v < most, lambda v: v + 1., 0.)

        block = pl.BlockSpec((bm, 128), lambda i: (i, 0))
        return pl.pallas_call(kernel, grid=(x.shape[0] // bm,), in_specs=[block], out_specs=block,
                              out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    rows = tessera.sweep(raised, np.ones((64, 128), np.float32), bm=[8, 16]).rows
    assert [row["flops"] for row in rows] == [None if by_data else 64 * 128] * 2
    assert [row["predicted_seconds"] is None for row in rows] == [by_data] * 2
    assert [row["hbm_read_bytes"] for row in rows] == [64 * 128 * 4] * 2
