"""tessera.simulate() around JAX's transformations; reports, errors, captures."""
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[3]


def scale_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


@jax.jit
def twice(x):
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 8,),
                          in_specs=[block], out_specs=block)(x)


def matrix(rows=16, cols=128, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(rows, cols)), jnp.float32)


# Transformations


def test_jit_with_xla_around_it():
    x = matrix()
    with tessera.simulate() as report:
        got = jax.jit(lambda x: jnp.sin(twice(x)) + 1)(x)
    np.testing.assert_allclose(got, np.sin(2 * np.asarray(x)) + 1, rtol=1e-5, atol=1e-6)
    assert len(report.calls) == 1


def test_without_jit():
    x = matrix()
    with tessera.simulate() as report, jax.disable_jit():
        np.testing.assert_array_equal(twice(x), 2 * x)
    assert len(report.calls) == 1


def test_vmap():
    x = jnp.stack([matrix(seed=i) for i in range(3)])
    with tessera.simulate() as report:
        np.testing.assert_array_equal(jax.vmap(twice)(x), 2 * x)
    assert [call.json["grid"] for call in report.calls] == [[3, 2]]


def test_scan_calls_once_per_iteration():
    x = matrix()
    with tessera.simulate() as report:
        got, _ = jax.jit(lambda x: jax.lax.scan(lambda c, _: (twice(c), None), x, length=5))(x)
    np.testing.assert_array_equal(got, 32 * x)
    assert len(report.calls) == 5


def test_grad_of_custom_vjp():
    @jax.custom_vjp
    def f(x):
        return twice(x)

    f.defvjp(lambda x: (twice(x), None), lambda _, g: (twice(g),))
    x = matrix()
    with tessera.simulate() as report:
        got = jax.grad(lambda x: jnp.sum(f(x) ** 2))(x)
    np.testing.assert_allclose(got, 8 * x, rtol=1e-6)
    assert len(report.calls) == 2


def test_cond_runs_the_branch_that_is_taken():
    x = matrix()
    with tessera.simulate() as report:
        f = jax.jit(lambda p, x: jax.lax.cond(p, twice, lambda x: x, x))
        np.testing.assert_array_equal(f(False, x), x)
        assert not report.calls
        np.testing.assert_array_equal(f(True, x), 2 * x)
    assert len(report.calls) == 1


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def test_donated_and_aliased_operands():
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))

    @functools.partial(jax.jit, donate_argnums=0)
    def add(x, y):
        return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(2,),
                              in_specs=[block, block], out_specs=block, input_output_aliases={0: 0})(x, y)

    x, y = matrix(seed=0), matrix(seed=1)
    wanted = np.asarray(x) + np.asarray(y)
    kept = matrix(seed=0)
    with tessera.simulate():
        np.testing.assert_array_equal(add(kept + 0, y), wanted)
        # Not donated: the alias must not reach the caller's array.
        np.testing.assert_array_equal(jax.jit(add)(x, y), wanted)
        np.testing.assert_array_equal(x, kept)


def test_dynamic_grid():
    @jax.jit
    def some(n, x):
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(n,),
                              in_specs=[block], out_specs=block)(x)

    x = matrix(32)
    with tessera.simulate() as report:
        got = np.asarray(some(jnp.asarray(3, jnp.int32), x))
    np.testing.assert_array_equal(got[:24], 2 * x[:24])
    assert np.isnan(got[24:]).all()  # nobody wrote it
    assert report.calls[0].json["steps"] == 3


def test_scalar_prefetch():
    def kernel(order_ref, x_ref, o_ref):
        del order_ref
        o_ref[...] = x_ref[...]

    x, order = matrix(32), jnp.asarray([3, 1, 0, 2], jnp.int32)
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, order: (i, 0)))
    with tessera.simulate():
        got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid_spec=spec)(order, x)
    np.testing.assert_array_equal(got, np.asarray(x).reshape(4, 8, 128)[np.asarray(order)].reshape(32, 128))


def test_what_a_kernel_writes_to_an_input_stays_in_its_memory():
    def kernel(x_ref, o_ref):
        x_ref[...] = x_ref[...] + 4
        o_ref[...] = x_ref[...]

    x = jnp.ones((8, 128), jnp.float32)
    with tessera.simulate():
        got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)
    np.testing.assert_array_equal(got, np.full((8, 128), 5))
    np.testing.assert_array_equal(x, np.ones((8, 128)))


def test_scalars_without_dims():
    def kernel(n_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * n_ref[...]

    with tessera.simulate():
        got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
                             in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec((8, 128), lambda: (0, 0))])(
            jnp.float32(3), jnp.ones((8, 128)))
    np.testing.assert_array_equal(got, np.full((8, 128), 3))


def test_scratch_of_few_rows_is_compact():
    def kernel(x_ref, o_ref, big):
        big[0, 0] = x_ref[0]
        o_ref[0] = big[0, 0]

    rows = 1 << 16  # 33 MB as it is; 268 with rows padded to 16
    with tessera.simulate(device="tpu-v5e") as report:
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1, 128), jnp.bfloat16),
                       scratch_shapes=[pltpu.VMEM((rows, 2, 128), jnp.bfloat16)],
                       compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20))(jnp.ones((1, 128), jnp.bfloat16))
    assert rows * 2 * 128 * 2 <= report.calls[0].json["memory"]["vmem_peak_bytes"] < rows * 2 * 128 * 2 + 8192


def test_emit_pipeline():
    def kernel(x_hbm, o_hbm):
        def step(x_ref, o_ref):
            o_ref[...] = x_ref[...] + 1

        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(step, grid=(4,), in_specs=[block], out_specs=[block])(x_hbm, o_hbm)

    x = matrix(32)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    for schedule in ["eager", "on_wait", "random:3", "adversarial"]:
        with tessera.simulate(schedule=schedule) as report:
            got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere],
                                 out_specs=anywhere)(x)
        np.testing.assert_array_equal(got, x + 1)
        assert report.hbm_read_bytes == x.nbytes and report.hbm_write_bytes == x.nbytes


def test_a_pipeline_whose_blocks_end_in_the_tiles_of_its_arrays():
    """Pallas copies whole tiles of the last block; what pads an array to tiles is undefined, and counts as no byte of it."""
    x = matrix(19, 200)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)

    def pipelined(step):
        def kernel(x_hbm, o_hbm):
            block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
            pltpu.emit_pipeline(step, grid=(3, 2), in_specs=[block], out_specs=[block])(x_hbm, o_hbm)

        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere], out_specs=anywhere)(x)

    def plus_one(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def row_sums(x_ref, o_ref):  # the padding too
        o_ref[...] = jnp.broadcast_to(x_ref[...].sum(axis=1, keepdims=True), x_ref.shape)

    for schedule in ["eager", "on_wait", "random:3", "adversarial"]:
        with tessera.simulate(schedule=schedule) as report:
            got = pipelined(plus_one)
        np.testing.assert_array_equal(got, x + 1)
        assert report.hbm_read_bytes == x.nbytes and report.hbm_write_bytes == x.nbytes
        with pytest.raises(tessera.KernelError) as error, tessera.simulate(schedule=schedule):
            pipelined(row_sums)
        assert error.value.slug == "uninit-read"


@pytest.mark.parametrize("rows", [8, 16])
def test_a_copy_that_ends_beyond_the_tiles_of_its_array(rows):
    def kernel(x_hbm, o_ref, sem):
        start = 16 + 0 * pl.program_id(0)  # unknown to JAX
        pltpu.async_copy(x_hbm.at[pl.ds(start, rows)], o_ref.at[pl.ds(0, rows)], sem).wait()
        o_ref[3:] = jnp.zeros((13, 128), jnp.float32)

    x = matrix(19, 128)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), x.dtype), grid=(1,),
                          in_specs=[pl.BlockSpec(memory_space=pl.ANY)], scratch_shapes=[pltpu.SemaphoreType.DMA])
    with tessera.simulate():
        if rows == 16:
            with pytest.raises(tessera.KernelError, match=r"indices \[16, 32\) of dim 0 are outside the 19"):
                call(x)
        else:
            np.testing.assert_array_equal(call(x)[:3], x[16:])


@pytest.mark.parametrize("view, start, says", [
    (lambda x: x.at[1], 9, r"indices \[9, 17\) of dim 1 are outside the 16 of in0\n"),
    (lambda x: x.at[1, pl.ds(0, 16)], 9, r"indices \[9, 17\) of dim 1 are outside the 16 of in0\n"),
    (lambda x: x.at[0, pl.ds(8, 8)], 9,
     r"of dim 1 are outside the 8 of a slice of in0\n(.*\n)*.*the slice is \[8, 16\) of dim 1"),
    (lambda x: x.reshape(32, 128), 25, r"indices \[25, 33\) of dim 0 are outside the 32 of in0, seen as \[32, 128\]\n"),
])
def test_a_message_names_the_dim_of_the_array(view, start, says):
    def kernel(x_ref, o_ref):
        o_ref[...] = view(x_ref)[pl.ds(pl.program_id(0) + start, 8), :]

    block = pl.BlockSpec((2, 16, 128), lambda i: (0, 0, 0))
    call = pl.pallas_call(kernel, grid=(1,), in_specs=[block], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
                          out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
    with tessera.simulate(), pytest.raises(tessera.KernelError, match=says):
        call(jnp.ones((2, 16, 128), jnp.float32))


@pytest.mark.parametrize("cores", [1, 2])
def test_core_map_and_kernel(cores):
    x = matrix(8 * cores, seed=4)
    device = {"device": "tpu-v5p", "cores": 2} if cores == 2 else {}
    with tessera.simulate(**device) as report:
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=cores)

        def copy(x_hbm, o_hbm):
            def inner(buffer, sem):
                rows = pl.ds(jax.lax.axis_index("core") * 8, 8)
                pltpu.async_copy(x_hbm.at[rows], buffer, sem).wait()
                buffer[...] = buffer[...] * 3
                pltpu.async_copy(buffer, o_hbm.at[rows], sem).wait()

            pl.run_scoped(inner, pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA)

        @jax.jit
        def with_kernel(x):
            return pl.kernel(copy, jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=mesh)(x)

        @jax.jit
        def with_core_map(x):
            def stateful(refs):
                x_ref, o_ref = refs
                pl.core_map(mesh)(lambda: copy(x_ref, o_ref))

            return pl.run_state(stateful)((x, jnp.zeros_like(x)))[1]

        np.testing.assert_array_equal(with_kernel(x), 3 * x)
        np.testing.assert_array_equal(with_core_map(x), 3 * x)
    assert len(report.calls) == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint32", "int16", "int8", "uint8", "int4", "uint4",
                                   "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu", "float4_e2m1fn",
                                   "bool"])
def test_dtypes_survive_the_trip(dtype):
    values = np.random.default_rng(0).integers(1, 7, (64, 256))
    x = jnp.asarray(jnp.asarray(values, jnp.float32), dtype)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((32, 256) if dtype != "bool" else (64, 256), lambda i: (i, 0))
    with tessera.simulate(device="tpu-v5e"):
        got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                             grid=(x.shape[0] // block.block_shape[0],), in_specs=[block], out_specs=block)(x)
    np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(x, np.float32))


# Reports


def test_report(tmp_path):
    x = matrix()
    with tessera.simulate(device="tpu-v6e") as report:
        twice(x)
        twice(x)
    first = report.calls[0].json
    assert first["schema"] == "tessera.run/1" and first["kernel"]["frontend"] == "mosaic"
    assert first["device"] == "tpu-v6e" and first["grid"] == [2] and first["diagnostics"] == []
    assert report.calls[0].kernel == "scale_kernel"
    assert report.hbm_read_bytes == 2 * x.nbytes == report.hbm_write_bytes
    assert report.seconds > 0 and report.diagnostics == []
    assert "scale_kernel" in str(report)
    assert "HBM" in report.calls[0].text
    report.to_json(tmp_path / "runs.json")
    assert json.loads((tmp_path / "runs.json").read_text()) == [call.json for call in report.calls]


def test_prints_go_to_python(capsys):
    def kernel(x_ref, o_ref):
        pl.debug_print("step {}", pl.program_id(0))
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    with tessera.simulate():
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32), grid=(2,), in_specs=[block],
                       out_specs=block)(matrix())
    assert capsys.readouterr().err == "step 0\nstep 1\n"


@pytest.mark.parametrize("dtype,shape", [("float32", (3,)), ("int32", (2, 3)), ("uint32", (2, 3, 4)), ("float32", (2, 9, 129))])
def test_prints_are_xlas_literals(capsys, dtype, shape):
    x = jnp.arange(np.prod(shape), dtype=dtype).reshape(shape)

    def kernel(s_ref, x_ref, o_ref):
        pl.debug_print("x[1] == ", s_ref[1])
        pl.debug_print("x is {}", x_ref[...])
        o_ref[...] = x_ref[...]

    with tessera.simulate():
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, dtype),
                       in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)])(
                           jnp.asarray([24, 42], dtype), x)
    text = capsys.readouterr().err
    name = "f32" if dtype == "float32" else "s32"
    assert text.startswith(f"x[1] == {name}[] 42\nx is {name}[{','.join(map(str, shape))}] {{")
    lines = [line.partition("{")[2] for line in text.splitlines()[1:]]
    assert [int(n) for line in lines for n in re.findall(r"\d+", line)] == list(range(x.size))


def test_a_capture_carries_its_device(tmp_path):
    program = os.environ.get("TESSERA", "")
    if not program:
        pytest.skip("TESSERA names no program: ./tessera test sets it")
    spec = json.loads((ROOT / "memory_model/devices/tpu-v6e.json").read_text())
    spec["figures"]["hbm_bandwidth"]["value"] *= 2
    file = tmp_path / "what we are sold.json"
    file.write_text(json.dumps(spec | {"name": "tpu-next"}))
    x = matrix(64)
    report = tessera.capture(lambda x: race_or_not(False, twice(x)[:16]), x, folder=tmp_path / "the calls", device=str(file),
                             profile="mxu")
    file.unlink()
    for call in report.calls:
        assert call.json["device"] == "tpu-next"
        done = subprocess.run([program, "run", call.folder, "--json", "-"], capture_output=True, text=True, timeout=120,
                              check=False)
        assert '"device": "tpu-next"' in done.stdout
    # What the race says is a command.
    replay = re.search(r"replay  (tessera run .*)", str(report.errors[0]))[1]
    assert "--profile mxu" in replay
    done = subprocess.run([program, *shlex.split(replay)[1:]], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "error[race]" in done.stderr


def test_a_step_of_a_capture_is_run_again(tmp_path):
    program = os.environ.get("TESSERA", "")
    if not program:
        pytest.skip("TESSERA names no program: ./tessera test sets it")

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(8 * pl.program_id(0), 8)]

    x = matrix()
    f = pl.pallas_call(kernel, grid=(3,), in_specs=[pl.BlockSpec(x.shape, lambda i: (0, 0))],
                       out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((24, 128), x.dtype))
    report = tessera.capture(f, x, folder=tmp_path / "calls")
    replay = re.search(r"replay  tessera (run .*)", str(report.errors[0]))[1]
    assert replay.endswith(" --at 2")  # gdb has nothing to stop in
    done = subprocess.run([program, *shlex.split(replay)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "error[oob-index]" in done.stderr


@pytest.mark.parametrize("name,values", [
    ("cores", [10**9, 2**31, 10**30, -1, 0, 1.5, "2", True, None]), ("threads", [-5, 10**9, 2**40, "a", 1.5]),
    ("device", [5, None, [], b"tpu-v5e"]), ("schedule", ["", "x", "random:-1", "explore:0", 5]),
    ("checks", ["", None, ["report"]]), ("time_limit", [0, -1, float("nan"), "3"]), ("patience", [0, float("nan"), None])])
def test_settings_that_make_no_sense(name, values):
    for value in values:
        with pytest.raises(ValueError, match=name), tessera.simulate(**{name: value}):
            pass
    good = {"cores": 2, "threads": np.int64(3), "device": pathlib.PurePath("tpu-v5e"), "schedule": "random:1", "checks": "all",
            "time_limit": np.float32(300), "patience": 5}[name]
    with tessera.simulate(**{name: good}):
        np.testing.assert_array_equal(twice(matrix()), 2 * matrix())


def test_a_device_that_jax_does_not_know(tmp_path):
    spec = json.loads((ROOT / "memory_model/devices/tpu-v6e.json").read_text())
    del spec["jax"]
    (tmp_path / "tpu-v6e.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match="JAX must know which TPU it is(?s:.*)device_kind"):
        with tessera.simulate(device=str(tmp_path / "tpu-v6e.json")):
            pass
    with pytest.raises(ValueError, match="h100"):
        with tessera.simulate(device="h100"):
            pass


def test_chip_queries_answer_for_the_device():
    before = jax.devices()[0].device_kind, jax.devices()[0].platform, jax.default_backend()
    generations = {}
    for device in ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"]:
        with tessera.simulate(device=device):
            generations[device] = pltpu.get_tpu_info().generation
            assert pltpu.is_tpu_device()
            assert "TPU" in jax.devices()[0].device_kind and jax.default_backend() == "tpu"
            assert jax.devices()[0].platform == "tpu"
    assert generations == {"tpu-v4": 4, "tpu-v5e": 5, "tpu-v5p": 5, "tpu-v6e": 6}
    assert before == (jax.devices()[0].device_kind, jax.devices()[0].platform, jax.default_backend())


def test_a_jitted_function_is_lowered_for_each_device():
    seen = []

    @jax.jit
    def f(x):
        seen.append(pltpu.get_tpu_info().generation)
        return twice(x)

    for device in ["tpu-v5e", "tpu-v6e", "tpu-v5e"]:
        with tessera.simulate(device=device) as report:
            f(matrix())
            assert report.calls[-1].json["device"] == device
    assert seen == [5, 6]


# What is wrong


def racy_kernel(wait, x_hbm, o_ref, buffer, sem):
    copy = pltpu.make_async_copy(x_hbm, buffer, sem)
    copy.start()
    if wait:
        copy.wait()
    o_ref[...] = buffer[...]  # the line of the race
    if not wait:
        copy.wait()


def race_or_not(wait, x):
    return pl.pallas_call(
        functools.partial(racy_kernel, wait), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])(x)


def test_a_hazard_raises_with_the_python_line():
    x = matrix()
    with tessera.simulate() as report:
        np.testing.assert_array_equal(race_or_not(True, x), x)
        with pytest.raises(tessera.KernelError) as error:
            race_or_not(False, x)
        # The simulation goes on.
        np.testing.assert_array_equal(race_or_not(True, x), x)
    assert error.value.slug == "race" and error.value.kind == "kernel"
    assert error.value.__context__ is None  # XLA's own words are not repeated
    assert "test_simulate.py" in str(error.value) and "# the line of the race" in str(error.value)
    assert [d["slug"] for d in report.diagnostics] == ["race"]


def test_copies_alike_have_lines_of_their_own():
    def kernel(x_hbm, o_ref, buffer, sem):
        def copy():
            return pltpu.make_async_copy(x_hbm, buffer, sem)

        copy().start()  # the first
        copy().wait()
        o_ref[...] = buffer[...]
        copy().start()  # the second
        o_ref[...] += buffer[...]
        copy().wait()

    with tessera.simulate(), pytest.raises(tessera.KernelError) as error:
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
                       in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                       scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])(matrix())
    assert "# the second" in str(error.value) and "# the first" not in str(error.value)


def test_a_hazard_under_jit_that_nobody_looks_at():
    with pytest.raises(tessera.KernelError):
        with tessera.simulate():
            jax.jit(functools.partial(race_or_not, False))(matrix())  # the result is dropped


def oob_kernel(shift, x_ref, o_ref):
    del shift
    o_ref[...] = x_ref[...]


def out_of_bounds(shift, x):
    return pl.pallas_call(functools.partial(oob_kernel, shift), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          grid=(2,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i + shift, 0))],
                          out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))(x)


def test_checks_report_collects_and_goes_on():
    x = matrix()
    with tessera.simulate(checks="report") as report:
        got = jax.jit(lambda x: out_of_bounds(1, x) + 1)(x)
        race = race_or_not(False, x)
        fine = out_of_bounds(0, x)
    np.testing.assert_array_equal(got[:8], x[8:] + 1)
    assert np.isnan(got[8:]).all()  # of the step that had to end, and what was computed with it
    np.testing.assert_array_equal(race, x)  # the values of this schedule
    np.testing.assert_array_equal(fine, x)
    assert [d["slug"] for d in report.diagnostics] == ["oob-block", "race"]
    assert "test_simulate.py" in report.diagnostics[0]["message"]


def test_checks_report_keeps_all_findings_of_a_call():
    def kernel(wrong, x_ref, o_ref, p_ref, a_ref, b_ref, sem):
        copy = pltpu.make_async_copy(x_ref, a_ref, sem)
        copy.start()
        if not wrong:
            copy.wait()
        o_ref[...] = a_ref[...]  # one race
        a_ref[...] = b_ref[...] if wrong else o_ref[...]  # another
        if wrong:
            copy.wait()
        p_ref[...] = a_ref[...]

    def run(wrong):
        out = jax.ShapeDtypeStruct((16, 128), jnp.float32)
        return pl.pallas_call(functools.partial(kernel, wrong), out_shape=[out, out],
                              in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                              scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)] * 2 + [pltpu.SemaphoreType.DMA])(matrix())

    with tessera.simulate(checks="report") as report:
        run(False)
        run(True)
    right, wrong = report.calls
    assert not right.errors and right.error is None
    assert [e.slug for e in wrong.errors] == ["race", "race", "uninit-read"]
    for error, line in zip(wrong.errors, ["# one race", "# another", "# another"], strict=True):
        assert line in str(error)
    assert [d["slug"] for d in wrong.json["diagnostics"]] == [e.slug for e in wrong.errors]
    with tessera.simulate(), pytest.raises(tessera.KernelError, match="# one race") as error:
        run(True)
    assert str(error.value) == str(wrong.error)


def test_a_simulation_without_kernels_says_so():
    x = matrix()
    with tessera.simulate() as report:
        jnp.sin(x)
    assert str(report).startswith("no TPU kernel ran in this simulation") and "no TPU kernel ran" in report._repr_html_()
    with tessera.simulate() as report:
        pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), interpret=True,
                       out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    assert "no TPU kernel ran in this simulation: 1 pallas_call(s) with interpret=True" in str(report)
    with tessera.simulate() as report:
        twice(x)
    assert report.note == ""


def test_races_can_be_let_through():
    x = matrix()
    with tessera.simulate(checks="no-races"):
        np.testing.assert_array_equal(race_or_not(False, x), x)
        with pytest.raises(tessera.KernelError):
            out_of_bounds(1, x)


def test_outside_of_an_array():
    x = matrix(16)
    i = jnp.asarray(12, jnp.int32)

    def dynamic(x, i, **params):
        def kernel(i_ref, x_hbm, o_ref, sem):
            pltpu.async_copy(x_hbm.at[pl.ds(i_ref[0], 8)], o_ref, sem).wait()

        return pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.SemaphoreType.DMA], compiler_params=pltpu.CompilerParams(**params))(i[None], x)

    with tessera.simulate():
        with pytest.raises(tessera.KernelError) as error:
            dynamic(x, i)
        assert error.value.slug == "oob-index" and "[12, 20) of dim 0" in str(error.value)
        # The author says that it is meant: what is there comes, the rest is undefined.
        got = np.asarray(dynamic(x, i, disable_bounds_checks=True))
        np.testing.assert_array_equal(got[:4], x[12:])
        assert np.isnan(got[4:]).all()
        assert np.isnan(np.asarray(dynamic(x, i + 8, disable_bounds_checks=True))).all()
        np.testing.assert_array_equal(dynamic(x, i - 4), x[8:])


def test_a_wait_needs_no_place_for_its_bytes():
    x = matrix(16)

    def kernel(size_ref, x_hbm, o_ref, sem):
        pltpu.make_async_copy(x_hbm.at[pl.ds(0, 8)], o_ref, sem).start()
        rows = o_ref.at[pl.ds(4, size_ref[0])]  # as many bytes, but four rows too far
        pltpu.make_async_copy(rows, rows, sem).wait()

    with tessera.simulate():
        got = pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.SemaphoreType.DMA])(jnp.asarray([8], jnp.int32), x)
    np.testing.assert_array_equal(got, x[:8])


@pytest.mark.parametrize("rows,slug", [(8, "dma-not-awaited"), (0, None)])
def test_a_copy_that_is_not_waited_for(rows, slug):
    def kernel(rows_ref, x_hbm, o_ref):
        def scope(buffer, sem):
            pltpu.make_async_copy(x_hbm.at[pl.ds(0, rows_ref[0])], buffer.at[pl.ds(0, rows_ref[0])], sem).start()
            o_ref[...] = jnp.zeros_like(o_ref)

        pl.run_scoped(scope, pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA)

    def run():
        return pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)])(
            jnp.asarray([rows], jnp.int32), matrix(16))

    for schedule in ["eager", "on_wait"]:
        with tessera.simulate(schedule=schedule, checks="report") as report:
            run()
        assert [d["slug"] for d in report.diagnostics] == ([slug] if slug else [])  # nothing moves: nothing to wait for


def test_what_a_tpu_refuses_is_refused():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((3, 5), lambda i: (i, 0))
    with tessera.simulate(), pytest.raises(ValueError, match="divisible by"):
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32), grid=(2,), in_specs=[block],
                       out_specs=block)(matrix())


def test_wrong_settings():
    for settings, message in [({"device": "tpu-v9"}, "tpu-v9"), ({"device": "h100"}, "no TPU"),
                              ({"schedule": "sometimes"}, "sometimes"), ({"checks": "some"}, "checks")]:
        with pytest.raises(ValueError, match=message), tessera.simulate(**settings):
            pass
    with tessera.simulate(), pytest.raises(ValueError, match="do not nest"), tessera.simulate():
        pass


def test_outside_a_simulation():
    x = matrix()
    with tessera.simulate():
        compiled = jax.jit(twice).lower(x).compile()
        np.testing.assert_array_equal(compiled(x), 2 * x)
    with pytest.raises(Exception, match="with tessera.simulate"):
        jax.block_until_ready(compiled(x))
    with pytest.raises(ValueError, match="Only interpret mode is supported on CPU backend"):
        twice(x)


def test_an_export_for_a_tpu_stays_one():
    with tessera.simulate():
        exported = jax.export.export(jax.jit(twice), platforms=["tpu"])(matrix())
    assert set(re.findall(r"custom_call @(\w+)", exported.mlir_module())) == {"tpu_custom_call"}


def test_interpret_mode_stays_jax_s():
    x = matrix()
    with tessera.simulate() as report:
        got = pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)
    np.testing.assert_array_equal(got, 2 * x)
    assert not report.calls


def test_a_jax_that_moved_gives_one_error():
    program = ("import jax, jax._src.compiler as c; del c.compile_or_get_cached\n"
               "import tessera\n"
               "try:\n  tessera.simulate().__enter__()\n"
               "except ImportError as e: print(e)")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True).stdout
    assert "something moved" in out and "pip install" in out and jax.__version__ in out


def test_a_jax_that_nobody_tried_is_named(monkeypatch):
    from tessera import _jax

    def pretend(version):
        monkeypatch.setattr(jax, "__version__", version)
        monkeypatch.setattr(jax, "__version_info__", tuple(map(int, version.split("."))))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _jax.check_version()
        pretend("0.12.7")
        _jax.check_version()
    pretend("0.13.0")
    with pytest.warns(UserWarning, match="0.9 to 0.12: this is 0.13.0"):
        _jax.check_version()
    pretend("0.8.2")
    with pytest.raises(_jax.Moved, match="not 0.8.2. pip install"):
        _jax.check_version()


def test_the_range_of_jax_is_stated_once():
    from tessera import _jax

    assert f'"{_jax.requirement()}"' in (ROOT / "python/pyproject.toml").read_text()
    newest = ".".join(map(str, _jax.NEWEST))
    assert (ROOT / "README.md").read_text().count(f"JAX 0.9 to {newest}") == 2


# Captures


def test_a_capture_says_what_it_replaces(tmp_path, capsys):
    for before in (0, 1):
        tessera.capture(twice, matrix(), folder=tmp_path)
        replaced = f"tessera: {tmp_path}/000_scale_kernel: what was there from an earlier call is replaced\n"
        assert capsys.readouterr().err == before * replaced


def test_capture_is_replayed_without_python(tmp_path):
    program = os.environ.get("TESSERA", "")
    if not program:
        pytest.skip("TESSERA names no program: ./tessera test sets it")
    x = matrix(64)
    report = tessera.capture(lambda x: race_or_not(False, twice(x)[:16]), x, folder=tmp_path / "calls", device="tpu-v6e")
    folders = [call.folder for call in report.calls]
    assert [os.path.basename(f) for f in folders] == ["000_scale_kernel", "001_racy_kernel"]
    done = subprocess.run([program, "run", folders[0], "--output", str(tmp_path), "--json", "-"], capture_output=True,
                          text=True, timeout=120, check=True)
    assert '"tpu-v6e"' in done.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "out0.npy"), 2 * x)
    done = subprocess.run([program, "run", folders[1]], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "error[race]" in done.stderr and "# the line of the race" in done.stderr
