"""Functions whose block shapes tessera chooses."""
import json
import os
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tessera
from jax.experimental import pallas as pl

X = np.arange(512 * 256, dtype=np.float32).reshape(512, 256)


def double(x, *, rows, columns=128):
    """The factors come anew for every block of rows: the larger it is, the faster."""
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = x_ref[...] * w_ref[0, 0]

    block = pl.BlockSpec((rows, columns), lambda i, j: (i, j))
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[block, pl.BlockSpec((256, columns), lambda i, j: (0, j))],
        out_specs=block, grid=(x.shape[0] // rows, x.shape[1] // columns))(x, jnp.full((256, x.shape[1]), 2, x.dtype))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache.sqlite"


def tuned(cache, function=double, **settings):
    return tessera.autotune(function, cache=cache, **({"rows": [8, 64, 256], "columns": [128, 100]} | settings))


def predicted(rows, columns=128):
    with tessera.simulate(dry=True) as report:
        jax.block_until_ready(double(X, rows=rows, columns=columns))
    return report.calls[0].json["rank_seconds"]


def test_the_fastest_candidate_is_taken_and_kept(cache):
    assert predicted(8) > 1.5 * predicted(64) > 2 * predicted(256)
    fastest = 256
    autotuned = tuned(cache)
    why = autotuned.why(X)
    assert why.tier == "autotune" and why.configuration == {"rows": fastest, "columns": 128}
    assert why.seconds == predicted(fastest) == why.candidates[0]["seconds"]
    assert [row["configuration"]["columns"] for row in why.candidates[3:]] == [100] * 3
    assert all("reason" in row for row in why.candidates[3:])
    assert autotuned.why(X).tier == "memory"
    assert f"rows={fastest} columns=128 by the memory tier" in str(autotuned.why(X))
    with tessera.simulate() as report:
        assert np.array_equal(autotuned(X), 2 * X)
    assert report.calls[0].json["grid"] == [512 // fastest, 2]


def test_another_process_finds_what_was_kept(cache):
    autotuned = tuned(cache)
    fastest = autotuned.configuration(X)
    program = ("import sys; sys.path.insert(0, sys.argv[1])\nimport test_tuning as t\n"
               "why = t.tuned(sys.argv[2]).why(t.X)\nprint(why.tier, why.configuration)")
    said = subprocess.run([sys.executable, "-c", program, str(__file__).rpartition("/")[0], str(cache)],
                          capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout
    assert said.strip() == f"persistent {fastest}"


def test_what_the_caller_gives_comes_first_then_the_innermost_overlay(cache, tmp_path):
    autotuned = tuned(cache)
    assert autotuned.why(X, rows=8, columns=128).tier == "explicit"
    with tessera.overlay(rows=8, columns=128):
        assert autotuned.why(X).tier == "overlay"
        with tessera.overlay({autotuned: {"rows": 64, "columns": 128}, "other": {"rows": 1, "columns": 128}}):
            assert autotuned.configuration(X)["rows"] == 64
            found = []
            thread = threading.Thread(target=lambda: found.append(autotuned.why(X).tier))
            thread.start()
            thread.join()
            assert found == ["autotune"]  # overlays are of a thread
        assert autotuned.configuration(X)["rows"] == 8
        with tessera.overlay(rows=8):
            assert autotuned.why(X).said[1] == ("overlay", "overlay()")  # the outer one
    with tessera.overlay(rows=8):
        why = autotuned.why(X)
        assert why.tier == "memory" and "its parameters are rows, columns" in why.said[1][1]
    exported = tmp_path / "tuned.json"
    autotuned.export(exported)
    assert json.loads(exported.read_text())["schema"] == "tessera.tuning/1"
    elsewhere = tuned(tmp_path / "other.sqlite")
    with tessera.overlay(exported):
        assert elsewhere.why(X).tier == "overlay"
        assert elsewhere.configuration(X) == autotuned.configuration(X)


def test_a_simulation_hears_of_the_chosen_call_alone(cache):
    autotuned = tuned(cache)
    with tessera.simulate("tpu-v6e") as report:
        y = jax.jit(lambda x: autotuned(x) + 1)(jnp.asarray(X))  # traced: the candidates are counted apart
        assert np.array_equal(y, 2 * X + 1)
        assert autotuned.why(X).tier == "memory"
    assert len(report.calls) == 1 and report.calls[0].json["device"] == "tpu-v6e"
    assert not report.calls[0].json["dry"]
    assert autotuned.why(X).tier == "autotune"  # on the device that is tuned for by default, another one


def test_shapes_dtypes_and_values_are_told_apart(cache):
    calls = []

    def function(x, flag, *, rows):
        calls.append(rows)
        return double(x, rows=rows)

    autotuned = tessera.autotune(function, cache=cache, rows=[64, 256])
    for x, flag in ((X, 1), (X, 2), (X[:256], 1), (jnp.asarray(X, jnp.bfloat16), 1)):
        assert autotuned.why(x, flag).tier == "autotune"
        assert autotuned.why(x, flag).tier == "memory"
    assert calls == [64, 256] * 4


def test_a_budget_leaves_candidates_for_later(cache):
    calls = []

    def slow(x, *, rows):
        calls.append(rows)
        time.sleep(0.05)
        return double(x, rows=rows)

    rows = [8, 16, 32, 64, 128]
    first = tessera.autotune(slow, cache=cache, budget=1e-3, rows=rows)
    first.configuration(X)
    assert calls == [8]
    assert [row["configuration"]["rows"] for row in first.tune(X).candidates] == sorted(rows, key=predicted)
    assert calls == rows


def test_candidates_that_all_fail_raise_the_first_error(cache):
    with pytest.raises(Exception, match="unexpected keyword"):
        tessera.autotune(double, cache=cache, lines=[1, 2])(X)
    with pytest.raises(ValueError, match="nothing to choose"):
        tessera.autotune(double)
    with pytest.raises(ValueError, match="overlay.. of nothing"), tessera.overlay():
        pass


def test_a_warm_look_up_takes_microseconds(cache):
    autotuned = tuned(cache)
    autotuned.configuration(X)
    start = time.thread_time()
    for _ in range(2000):
        autotuned.configuration(X)
    assert (time.thread_time() - start) / 2000 < 100e-6  # 20 on a machine of its own: docs/tuning.md


def librarys_autotuner(x):
    """As libraries have them: the fastest of several by the clock."""
    seconds = {}
    for rows in (8, 64, 256):
        jax.block_until_ready(double(x, rows=rows))  # compiles it
        start = time.perf_counter()
        for _ in range(3):
            jax.block_until_ready(double(x, rows=rows))
        seconds[rows] = (time.perf_counter() - start) / 3
    return seconds


@pytest.mark.parametrize("dry", [False, True])
def test_a_librarys_autotuner_times_the_device(dry):
    real = time.perf_counter
    with tessera.simulate(dry=dry, clock="device") as report:
        seconds = librarys_autotuner(X)
        stands = time.perf_counter()
        time.sleep(0.01)
        assert time.perf_counter() == stands and abs(time.perf_counter_ns() - stands * 1e9) <= 1e3
    assert time.perf_counter is real and len(report.calls) == 12
    assert seconds == {rows: pytest.approx(predicted(rows), rel=1e-4) for rows in seconds}


def test_by_default_a_librarys_autotuner_times_the_host():
    with tessera.simulate(dry=True):
        seconds = librarys_autotuner(X)
    assert seconds[256] > 10 * predicted(256)
    with pytest.raises(ValueError, match="clock='tpu'"), tessera.simulate(clock="tpu"):
        pass


def test_what_autotune_counts_takes_no_time_of_the_device(cache):
    with tessera.simulate(dry=True, clock="device"):
        start = time.perf_counter()
        tuned(cache).configuration(X)
        assert time.perf_counter() == start
