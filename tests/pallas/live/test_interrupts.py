"""What ends a kernel from outside: Ctrl-C within a second, a limit of time; either says where it was."""
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

LIMIT = 3  # seconds, after which the kernel has been read and runs
X = np.ones((16, 128), np.float32)
OUT = jax.ShapeDtypeStruct((16, 128), jnp.float32)


def counts(steps):
    """A loop of its own that ends after so many steps; -1: never."""
    def kernel(x_ref, o_ref):
        n = jax.lax.while_loop(lambda n: n != steps, lambda n: jax.lax.rem(n + 1, 1000), jnp.int32(0))  # the loop
        o_ref[...] = x_ref[...] + n.astype(jnp.float32)

    return pl.pallas_call(kernel, out_shape=OUT)(X)


def copies_for_ever():
    def kernel(x_ref, o_ref, buf_ref, sem):
        @pl.loop(0, 1 << 30)
        def _(_):
            copy = pltpu.make_async_copy(x_ref, buf_ref, sem)
            copy.start()
            copy.wait()

        o_ref[...] = buf_ref[...]

    return pl.pallas_call(kernel, out_shape=OUT, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                          scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])(X)


def takes_steps_for_ever():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((16, 128), lambda i, j: (0, 0))
    return pl.pallas_call(kernel, out_shape=OUT, grid=(1 << 20, 1 << 10), in_specs=[block], out_specs=block)(X)


def is_called_for_ever():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, out_shape=OUT)
    return jax.jit(lambda x: jax.lax.while_loop(lambda x: x[0, 0] > 0, f, x))(X)


ENDLESS = {"counts": lambda: counts(-1), "copies": copies_for_ever, "steps": takes_steps_for_ever, "calls": is_called_for_ever}


@pytest.mark.parametrize("program", ENDLESS)
@pytest.mark.parametrize("checks", ["all", "report"])
def test_a_limit_of_time(program, checks):
    start = time.monotonic()
    with pytest.raises(tessera.KernelError, match="the run took longer than its limit of time") as error, \
            tessera.simulate(time_limit=LIMIT, checks=checks):
        ENDLESS[program]()
    assert error.value.slug == "time-limit"
    assert time.monotonic() - start < LIMIT + 10
    if program == "counts":
        assert "# the loop" in str(error.value)


@pytest.mark.parametrize("extents", [(1 << 30, 1 << 30), (1 << 30, 1 << 10)])
def test_a_limit_of_what_is_counted_alone(extents):
    """No step runs, and no trace takes the memory of a billion of them."""
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((16, 128), lambda i, j: (0, 0))
    start = time.monotonic()
    with pytest.raises(tessera.KernelError) as error, tessera.simulate(time_limit=LIMIT, dry=True):
        pl.pallas_call(kernel, out_shape=OUT, grid=extents, in_specs=[block], out_specs=block)(X)
    assert error.value.slug == "time-limit"
    assert time.monotonic() - start < LIMIT + 10


def test_a_limit_in_the_midst_of_a_product():
    def kernel(x_ref, o_ref):
        for _ in range(4):
            o_ref[...] = jnp.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.int32)  # the product

    n = 4096  # seconds each
    start = time.monotonic()
    with pytest.raises(tessera.KernelError) as error, tessera.simulate(time_limit=LIMIT):
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((n, n), jnp.int32),
                       compiler_params=pltpu.CompilerParams(vmem_limit_bytes=126 << 20))(np.ones((n, n), np.int8))
    assert error.value.slug == "time-limit" and "# the product" in str(error.value)
    assert time.monotonic() - start < LIMIT + 2


def test_a_loop_of_calls_keeps_so_many_reports(monkeypatch):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    f = pl.pallas_call(kernel, out_shape=OUT)
    many = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, x: f(x), x))
    with tessera.simulate() as report:
        many(X)
    assert len(report.calls) == 50 and report.left_out == 0 and report.note == ""
    monkeypatch.setattr(tessera._session, "_MOST_REPORT_BYTES", 20_000)
    with tessera.simulate() as report:
        np.testing.assert_array_equal(many(X), X + 50)
    assert 2 <= len(report.calls) < 10
    assert report.left_out == 50 - len(report.calls)
    assert report.note == f"{report.left_out} calls more ran, of which this report has no room: they are in no total of it"
    with tessera.simulate() as report, pytest.raises(tessera.KernelError):  # what is wrong is kept
        many(X)
        pl.pallas_call(lambda x_ref, o_ref: None, out_shape=OUT)(X)
    assert [e.slug for e in report.errors] == ["output-not-covered"]


def test_a_limit_that_is_not_reached():
    with tessera.simulate(time_limit=100):
        np.testing.assert_array_equal(counts(3), X + 3)
    with tessera.simulate():  # has none, whatever the one before had
        np.testing.assert_array_equal(counts(3), X + 3)
    for limit in (0, -1):
        with pytest.raises(ValueError, match="time_limit"), tessera.simulate(time_limit=limit):
            pass


def test_what_comes_after_the_limit_ends_too():
    with tessera.simulate(time_limit=0.5):
        np.testing.assert_array_equal(counts(3), X + 3)
        time.sleep(0.7)
        with pytest.raises(tessera.KernelError) as error:
            counts(3)
    assert error.value.slug == "time-limit"


def main(program):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    jax.block_until_ready(jnp.ones(3) + 1)
    print("ready", flush=True)
    try:
        with tessera.simulate(time_limit=60):
            ENDLESS[program]()
    except KeyboardInterrupt as e:
        print("interrupted:", e, flush=True)
    with tessera.simulate():  # as if nothing had been
        np.testing.assert_array_equal(counts(3), X + 3)
    print("went on", time.process_time(), flush=True)


@pytest.mark.parametrize("program", ENDLESS)
def test_ctrl_c(program):
    run = subprocess.Popen([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; import test_interrupts; "
                            f"test_interrupts.main({program!r})"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert run.stdout.readline() == "ready\n"
        time.sleep(2 * LIMIT)
        run.send_signal(signal.SIGINT)
        sent = time.monotonic()
        said = run.stdout.readline()
        waited = time.monotonic() - sent
        rest = run.stdout.read()
        _, run.returncode, used = os.wait4(run.pid, 0)
    finally:
        run.kill()
        run.communicate()
    assert said == "interrupted: error[interrupted]: the run was interrupted\n", said + rest
    assert waited < 1
    *lines, last = rest.splitlines()
    assert last.startswith("went on ") and run.returncode == 0, rest
    assert used.ru_utime + used.ru_stime - float(last.split()[-1]) < 0.15, "Python's end takes 0.3 s for JAX's objects"
    if program == "counts":
        assert any("# the loop" in line for line in lines)
