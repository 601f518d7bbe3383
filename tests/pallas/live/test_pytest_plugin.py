"""The pytest plugin, on a kernel library of one file."""
import os
import subprocess
import sys

import pytest

LIBRARY = '''
import unittest
import jax, jax.numpy as jnp, numpy as np, pytest, tessera
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1

def add_one(x, shift=0):
    assert jax.default_backend() == "tpu"
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(2,),
                          in_specs=[pl.BlockSpec((8, 128), lambda i: (i + shift, 0))],
                          out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))(x)

x = np.ones((16, 128), np.float32)

def test_plain():
    np.testing.assert_array_equal(add_one(x), x + 1)

@pytest.mark.tessera(device="tpu-v6e", schedule="random:1")
def test_marked(tessera_report):
    add_one(x)
    assert tessera_report.calls[0].json["device"] == "tpu-v6e"

def test_report(tessera_report):
    add_one(x)
    assert tessera_report.hbm_read_bytes == x.nbytes

def test_wrong():
    add_one(x, shift=1)

@pytest.mark.skipif(jax.default_backend() != "tpu", reason="needs a TPU")
def test_that_needs_a_tpu():
    add_one(x)

def test_endless():
    def endless(x_ref, o_ref):
        n = jax.lax.while_loop(lambda n: n >= 0, lambda n: jax.lax.rem(n + 1, 9), jnp.int32(0))  # for ever
        o_ref[...] = x_ref[...] + n

    pl.pallas_call(endless, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

def test_devices():
    assert jax.device_count() == 3

def write_half(x):
    def kernel(x_ref, o_ref):
        o_ref[:8] = x_ref[:8]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

def test_that_looks_at_what_is_written():
    np.testing.assert_array_equal(write_half(x)[:8], x[:8])

def test_that_looks_at_all():
    np.testing.assert_array_equal(write_half(x), x)

def copy_halves(x):
    def kernel(x_ref, o_ref, rows, sem):
        first = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) < 8
        rows[...] = jnp.where(first, x_ref[...], jnp.where(rows[...] > 0, 1., 2.))  # the others are made of nothing
        pltpu.async_copy(rows, o_ref, sem).wait()
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          out_specs=pl.BlockSpec(memory_space=pl.ANY),
                          scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA])(x)

def test_that_looks_at_what_is_copied():
    np.testing.assert_array_equal(copy_halves(x)[:8], x[:8])

def test_that_looks_at_all_copies():
    np.testing.assert_array_equal(copy_halves(x), x)

def test_that_branches_on_what_is_undefined_and_looks_at_nothing():
    def kernel(x_ref, o_ref, rows):
        @pl.when(rows[0, 0] > 0)
        def _():
            o_ref[...] = x_ref[...]
    pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                   scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)])(x)

def test_that_leaves_what_data_says():
    def some(n_ref, x_ref, o_ref):
        @pl.when(pl.program_id(0) < n_ref[0])
        def _():
            o_ref[...] = x_ref[...]
    block = pl.BlockSpec((8, 128), lambda i, n: (i, 0))
    pl.pallas_call(some, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[block], out_specs=block))(jnp.asarray([1], jnp.int32), x)

at_import = jax.devices("tpu") if jax.default_backend() == "tpu" else []

class OnATpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.info = pltpu.get_tpu_info()

    def test_asked_before(self):
        self.assertEqual((self.info.generation, self.info.num_cores, len(at_import)), (5, 2, 3))
'''

OUTSIDE_OF_TESTS = {
    "conftest.py": '''
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"  # before anything asks for a device
import jax, pytest
from kernels import three_times
if jax.default_backend() != "tpu" or len(jax.devices("tpu")) != 4:
    collect_ignore = ["test_outside.py"]

@pytest.fixture(scope="session")
def threes():
    return three_times()
''',
    "kernels.py": '''
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl

def three_times(scale=3):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(jnp.ones((8, 128)))
''',
    "test_outside.py": '''
import unittest
import jax, numpy as np, pytest
from kernels import three_times

at_import = three_times()

class InClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.threes = three_times()

    def setUp(self):
        self.sixes = three_times(6)

    def test_all(self):
        np.testing.assert_array_equal(self.sixes, self.threes + at_import)

def test_of_a_session(threes):
    np.testing.assert_array_equal(threes, at_import)

@pytest.mark.tessera(device="tpu-v6e")
def test_elsewhere(threes):
    assert jax.devices()[0].device_kind == "TPU v6 lite"
    np.testing.assert_array_equal(three_times(), threes)

def test_back_again():
    assert jax.devices()[0].device_kind == "TPU v5p"
'''}


@pytest.fixture
def library(tmp_path):
    (tmp_path / "test_library.py").write_text(LIBRARY)

    return lambda *options: pytest_of(tmp_path, *options)


def pytest_of(folder, *options, platforms="cpu"):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tessera.pytest", "-p", "no:cacheprovider", *options], cwd=folder,
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": platforms})
    return done.stdout + done.stderr


def test_all_tests_on_a_device(library):
    out = library("--tessera=tpu-v5p", "--tessera-devices=3", "--tessera-cores=2", "-k", "not endless")
    assert "6 failed, 7 passed" in out, out
    assert "_session.py" not in out, out  # tessera's own code is not shown
    assert "tessera._report.KernelError: error[oob-block]" in out and "test_library.py" in out
    assert "KernelError: error[output-not-covered]: 1,024 of 2,048 elements" in out, out


def test_what_data_leaves_unwritten_is_in_the_summary(library):
    out = library("--tessera=tpu-v5p", "-k", "leaves_what_data_says")
    assert "1 passed" in out and "warning: output-not-covered: 1,024 of 2,048 elements of out0 were never written" in out, out
    assert "never written" not in library("--tessera=tpu-v5p", "-k", "test_plain")


def test_outputs_may_be_left_unwritten_where_one_says_so(library):
    out = library("--tessera=tpu-v5p", "--tessera-checks=tests", "-k", "looks_at")
    # Counted where the failures are shown: pytest repeats them whole in its summary where $CI is set.
    assert "3 failed, 2 passed" in out and out.count("E       nan location") == 2, out
    assert "error[output-not-covered]: 1,024 of 2,048 elements" in out, out
    assert "error[uninit-read]: 1,024 of 2,048 elements of out0 depend on scratch0" in out, out
    assert "KernelError: error[uninit-read]: a branch depends on memory that nothing has written" in out, out


def test_tests_without_kernels_are_named(library):
    out = library("--tessera=tpu-v5p", "--tessera-devices=3", "--tessera-cores=2", "-k", "not endless")
    assert "no TPU kernel ran in 2 of 13 simulated tests:\n  test_library.py::test_devices\n" in out, out
    out = library("--tessera=tpu-v5p", "-k", "plain")
    assert "no TPU kernel ran" not in out, out


def test_a_test_that_never_ends(library):
    out = library("--tessera=tpu-v5e", "--tessera-time-limit=2", "-k", "endless or plain")
    assert "1 failed, 1 passed" in out and "KernelError: error[time-limit]" in out and "# for ever" in out, out


def test_only_marked_ones(library):
    out = library("-k", "marked or report or plain")
    assert "1 failed, 2 passed" in out, out  # the plain one finds no TPU


@pytest.mark.parametrize("platforms", ["cpu", "tpu,cpu"])
def test_what_is_asked_and_run_outside_of_tests(tmp_path, platforms):
    """In conftest.py, when a module is imported, for a class, for all tests: on the device of the command line."""
    for name, text in OUTSIDE_OF_TESTS.items():
        (tmp_path / name).write_text(text)
    out = pytest_of(tmp_path, "--tessera=tpu-v5p", platforms=platforms)
    assert "4 passed" in out, out


def test_a_device_that_there_is_not(library):
    assert library("--tessera=tpu-v9").strip() == "ERROR: no device 'tpu-v9'"
