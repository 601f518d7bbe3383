"""simulate(check_compiles=True): what the TPU's compiler says of each call, from an interpreter that a script plays."""
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
