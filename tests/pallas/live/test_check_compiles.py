"""simulate(check_compiles=True): what the TPU's compiler says of each call, from an interpreter that a script plays."""
import os

import jax
import jax.numpy as jnp
import pytest
import tessera
from jax.experimental import pallas as pl


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a script that gives one answer to every question; says how often it was asked."""
    def make(answer):
        script = tmp_path / "python"
        script.write_text(f"""#!/bin/bash
echo '{{"libtpu": "1", "jax": "2", "library": "'$0'", "terms": "T"}}'
while read -r line; do echo asked >>{tmp_path}/asked; echo '{answer}'; done
""")
        script.chmod(0o755)
        monkeypatch.setenv("TESSERA_TPU_PYTHON", str(script))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return lambda: len((tmp_path / "asked").read_text().splitlines()) if (tmp_path / "asked").exists() else 0
    return make


def double(x):
    def kernel(x, o):
        o[...] = x[...] * 2
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_a_kernel_that_compiles_runs_and_has_the_verdict(compiler):
    asked = compiler('{"accepted": true, "message": "", "seconds": 0.1, "vmem_bytes": 8192, "spilled_bytes": 0}')
    with tessera.simulate(check_compiles=True) as report:
        for _ in range(2):  # on one line: JAX 0.9 writes the caller's into the module
            y = double(jnp.ones((8, 128)))
    assert float(y[0, 0]) == 2
    assert report.calls[0].compiler["verdict"] == "accepted" and report.calls[0].compiler["vmem_bytes"] == 8192
    assert report.calls[1].compiler["cached"] and asked() == 1


def test_one_that_does_not_raises(compiler):
    compiler('{"accepted": false, "message": "INTERNAL: Mosaic failed to compile TPU kernel: E2001: CompileTimeX: no such type"}')
    with pytest.raises(tessera.KernelError, match="refuses it: no such type") as error, tessera.simulate(check_compiles=True):
        double(jnp.ones((8, 128)))
    assert error.value.slug == "does-not-compile"
    with tessera.simulate(check_compiles=True, checks="report") as report:
        y = double(jnp.ones((8, 128)))
    assert float(y[0, 0]) == 2 and report.errors[0].slug == "does-not-compile"


def test_without_a_compiler_the_simulation_does_not_begin(monkeypatch, tmp_path):
    monkeypatch.setenv("TESSERA_TPU_PYTHON", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="no-tpu-compiler"), tessera.simulate(check_compiles=True):
        pass
    with tessera.simulate() as report:
        double(jnp.ones((8, 128)))
    assert report.calls[0].compiler is None


REFUSES = '{"accepted": false, "message": "INTERNAL: Mosaic failed to compile TPU kernel: E2001: CompileTimeX: no such type"}'
asks = pytest.mark.skipif(not os.environ.get("TESSERA_TPU_PYTHON"), reason="TESSERA_TPU_PYTHON names no interpreter with libtpu")


def in_blocks(x, *, rows):
    def kernel(x, o):
        o[...] = jnp.exp(x[...])
    block = pl.BlockSpec((rows, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // rows,), in_specs=[block],
                          out_specs=block)(x)


def test_times_without_a_schedule_say_why(compiler):
    compiler('{"accepted": true, "message": "", "seconds": 0.1, "bundles": "", "utilization": ""}')
    with tessera.simulate(timing="compiler") as report:
        double(jnp.ones((8, 128)))
    assert "libtpu 1" in report.calls[0].json["timeline"]["unmodelled"]
    with pytest.raises(ValueError, match="'model' or 'compiler'"), tessera.simulate(timing="compile"):
        pass


def test_what_the_compiler_refuses_is_not_chosen(compiler, tmp_path):
    compiler(REFUSES)
    x = jnp.ones((64, 128))
    tuned = tessera.autotune(in_blocks, rows=[8, 16, 32], timing="compiler", compiled=2, cache=tmp_path / "cache.sqlite")
    with pytest.raises(tessera.KernelError, match="refuses it: no such type"):
        tuned(x)
    predicted = tessera.autotune(in_blocks, rows=[8, 16, 32], cache=tmp_path / "cache.sqlite")
    assert predicted.why(x).candidates[0]["seconds"] > 0


@asks
def test_candidates_are_ranked_by_the_compilers_schedule(tmp_path):
    x = jnp.ones((512, 128))
    tuned = tessera.autotune(in_blocks, rows=[8, 32, 128, 512], timing="compiler", compiled=3, cache=tmp_path / "cache.sqlite")
    why = tuned.why(x)
    assert why.how == "compiled" and len(why.candidates) == 3 and " us compiled, " in str(why)
    for row in why.candidates:
        with tessera.simulate(dry=True, timing="compiler") as report:
            jax.block_until_ready(in_blocks(x, **row["configuration"]))
        made = report.calls[0].json
        assert made["compiled_schedule"]["compiler"].startswith("libtpu ")
        assert row["seconds"] == made["timeline"]["seconds"] == made["rank_seconds"]
    assert why.configuration == why.candidates[0]["configuration"]
    with tessera.simulate() as report:  # within a simulation the cache's choice holds, and others are compiled apart
        assert float(tuned(x)[0, 0]) == pytest.approx(jnp.e)
        tuned(jnp.ones((1024, 128)))
    assert len(report.calls) == 2
