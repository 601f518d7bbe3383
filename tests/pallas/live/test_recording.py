"""tessera.record(): Pallas calls and functions of Python are written down; `tessera replay` runs the calls again."""
import json
import pathlib
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tessera
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from recordings import lines, replay, sha256  # noqa: E402, F401

X = np.arange(64 * 256, dtype=np.float32).reshape(64, 256) % 31 - 9


def double(x, *, rows=8):
    def double_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((rows, 128), lambda i, j: (i, j))
    return pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[block], out_specs=block,
                          grid=(x.shape[0] // rows, x.shape[1] // 128))(x)


@pytest.mark.parametrize("outside", [False, True])
def test_a_call_is_written_down_and_replayed(tmp_path, replay, outside):
    folder = tmp_path / "calls"
    if outside:
        with tessera.record(folder), tessera.simulate("tpu-v6e") as report:
            y = double(X)
    else:
        with tessera.simulate("tpu-v6e") as report:
            with tessera.record(folder):
                y = double(X)
            double(X)  # no longer
    [line] = lines(folder)
    call = report[0].json
    assert line["operation"] == "double_kernel" and line["frontend"] == "mosaic" and line["device"] == "tpu-v6e"
    assert line["bytes"] == {"hbm_read": call["traffic"]["hbm_read_bytes"], "hbm_write": call["traffic"]["hbm_write_bytes"], "remote": 0}
    assert line["predicted_seconds"] == call["timeline"]["seconds"]
    assert line["key"]["sizes"] == "0.0=64 0.1=256" and line["key"]["dtype"] == "f32"
    assert [(each["name"], each["sha256"]) for each in line["inputs"]] == [("in0", sha256(X))]
    assert [(each["name"], each["sha256"]) for each in line["outputs"]] == [("out0", sha256(np.asarray(y)))]
    assert line["choice"] is None and line["within"] is None
    said = replay(folder)
    assert "same bits; bytes equal; predicted" in said and said.endswith("1 the same\n")
    assert "now interpret on tpu-v5e" in replay(folder, "--device", "tpu-v5e")


def test_a_module_and_its_arrays_are_kept_once(tmp_path, replay):
    folder = tmp_path / "calls"
    twice = jax.jit(double)
    with tessera.record(folder), tessera.simulate():
        for _ in range(3):
            twice(twice(X))
    assert len(lines(folder)) == 6
    assert len(list((folder / "calls").iterdir())) == 2  # of X, and of 2 X
    assert len(list((folder / "arrays").rglob("*.npy"))) == 3
    assert len(list((folder / "files").glob("*.mlirbc"))) == 1
    assert replay(folder).endswith("6 the same\n")


def test_settings_are_replayed(tmp_path, replay):
    def racy(x):
        def racy_kernel(x_ref, o_ref, buf, sem):
            copy = pltpu.make_async_copy(x_ref, buf, sem)
            copy.start()
            o_ref[...] = buf[...]
            copy.wait()

        return pl.pallas_call(
            racy_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA])(x)

    folder = tmp_path / "calls"
    with tessera.record(folder), tessera.simulate(schedule="random:7", checks="report", profile="mxu"):
        racy(X)
    with tessera.record(folder), tessera.simulate(dry=True):
        double(X)
    with tessera.record(folder), pytest.raises(tessera.KernelError, match="race"), tessera.simulate():
        racy(X)
    first, dry, refused = lines(folder)
    assert first["schedule"] == "random:7" and first["numerics"] == "mxu" and "race" in first["diagnostics"]
    assert dry["dry"] and dry["outputs"] == [] and dry["predicted_seconds"] > 0
    assert "race" in refused["diagnostics"] and refused["outputs"] == []
    said = replay(folder)
    assert "the same " in said and "counted alone; bytes equal" in said and said.endswith("3 the same\n")


def test_other_bits_are_found(tmp_path, replay):
    folder = tmp_path / "calls"
    with tessera.record(folder), tessera.simulate():
        y = np.array(double(X))
    [line] = lines(folder)
    y[3, 200] += 1
    noted = line["outputs"][0]
    changed = noted["file"].replace(noted["sha256"], sha256(y))
    (folder / changed).parent.mkdir(exist_ok=True)
    np.save(folder / changed, y)
    noted.update(sha256=sha256(y), file=changed)
    (folder / "records.jsonl").write_text(json.dumps(line) + "\n")
    said = replay(folder, status=1)
    assert "different bits; bytes equal" in said and "1 of 16,384 elements of out0, worst out0[3, 200] = " in said


@pytest.mark.skipif(jax.device_count() < 2, reason="one device")
def test_calls_of_a_mesh_are_replayed(tmp_path, replay):
    from jax.sharding import Mesh, PartitionSpec

    def shift(x):
        def shift_kernel(x_ref, o_ref, sent, received):
            me = jax.lax.axis_index("x")
            barrier = pltpu.get_barrier_semaphore()
            pltpu.semaphore_signal(barrier, device_id=1 - me, device_id_type=pltpu.DeviceIdType.LOGICAL)
            pltpu.semaphore_wait(barrier, 1)
            copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, received, device_id=1 - me, device_id_type=pltpu.DeviceIdType.LOGICAL)
            copy.start()
            copy.wait()

        params = getattr(pltpu, "CompilerParams", None) or pltpu.TPUCompilerParams
        return pl.pallas_call(shift_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                              in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pl.ANY),
                              scratch_shapes=[pltpu.SemaphoreType.DMA] * 2, compiler_params=params(collective_id=0))(x)

    mesh = Mesh(np.array(jax.devices()[:2]), "x")
    program = jax.jit(jax.shard_map(shift, mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"), check_vma=False))
    folder = tmp_path / "calls"
    with tessera.record(folder), tessera.simulate():
        y = program(X)
    assert np.array_equal(y, np.concatenate([X[32:], X[:32]]))
    [line] = lines(folder)
    assert line["mesh"] == [2] and [each["name"] for each in line["inputs"]] == ["dev0_in0", "dev1_in0"]
    assert line["bytes"]["remote"] == X.nbytes and line["outputs"][0]["sha256"] == sha256(np.asarray(y))
    assert "same bits; bytes equal" in replay(folder)


def autotuned(tmp_path, **settings):
    return tessera.autotune(double, rows=[8, 32], cache=tmp_path / "cache.sqlite", **settings)


def test_functions_of_autotune_say_what_chose(tmp_path, replay):
    tuned = autotuned(tmp_path)
    folder = tmp_path / "calls"
    with tessera.record(folder), tessera.simulate():
        y = tuned(X)
        tuned(X, rows=8)
        with tessera.overlay(rows=8):
            tuned(X)
        double(X)
    # Candidates that were counted on the way are no invocations.
    found = lines(folder)
    assert [line["frontend"] for line in found] == ["mosaic", "python"] * 3 + ["mosaic"]
    kernels, functions = found[:6:2], found[1:6:2]
    assert [line["choice"]["tier"] for line in functions] == ["autotune", "explicit", "overlay"]
    assert [line["configuration"] for line in functions] == [{"rows": "32"}, {"rows": "8"}, {"rows": "8"}]
    for kernel, function in zip(kernels, functions):
        assert kernel["within"] == function["operation"] == tuned.operation
        assert kernel["choice"]["tier"] == function["choice"]["tier"] and kernel["configuration"] == function["configuration"]
    assert found[6]["within"] is None and found[6]["choice"] is None
    first = functions[0]
    assert [tier["tier"] for tier in first["choice"]["tiers"]] == ["explicit", "overlay", "memory", "persistent", "autotune"]
    assert [each["sha256"] for each in first["inputs"] + first["outputs"]] == [sha256(X), sha256(np.asarray(y))]
    assert first["device"] == "tpu-v5e" and first["key"]["sizes"] == "0.0=64 0.1=256"
    said = replay(folder)
    assert said.count("a function of Python, whose kernels have lines of their own") == 3 and said.endswith("4 the same\n")


def test_what_is_traced_has_no_hashes(tmp_path):
    tuned = autotuned(tmp_path)
    folder = tmp_path / "calls"
    with tessera.record(folder), tessera.simulate():
        jax.jit(lambda x: tuned(x) + 1)(X)
    function, kernel = lines(folder)
    assert function["frontend"] == "python" and function["inputs"][0]["sha256"] is None
    assert kernel["within"] is None  # it ran when the function was long over
    assert kernel["inputs"][0]["sha256"] == sha256(X)


def test_a_function_that_raises_is_written_down(tmp_path):
    def refused(x, *, rows):
        if rows == 32:
            raise ValueError("not 32")
        return double(x, rows=rows)

    tuned = tessera.autotune(refused, rows=[8, 32], cache=tmp_path / "cache.sqlite")
    with tessera.record(tmp_path / "calls"), tessera.simulate(), pytest.raises(ValueError, match="not 32"):
        tuned(X, rows=32)
    [line] = lines(tmp_path / "calls")
    assert line["diagnostics"] == ["ValueError"] and line["outputs"] == []


def test_recordings_do_not_nest_and_end(tmp_path):
    with tessera.record(tmp_path / "calls"):
        with pytest.raises(ValueError, match="do not nest"), tessera.record(tmp_path / "other"):
            pass
        with tessera.simulate():
            double(X)
    with tessera.simulate():
        double(X)
    assert len(lines(tmp_path / "calls")) == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds something else"), tessera.record(tmp_path / "mine"):
        pass


def test_threads_record_into_one_folder(tmp_path):
    folder = tmp_path / "calls"
    tuned = autotuned(tmp_path)
    with tessera.simulate():
        tuned(X)
    barrier = threading.Barrier(4)

    def work(k):
        barrier.wait()
        for n in range(5):
            double(jnp.asarray(X) + (10 * k + n))

    with tessera.record(folder), tessera.simulate():
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {line["inputs"][0]["sha256"] for line in lines(folder)} == {sha256(X + n) for k in range(4) for n in range(10 * k, 10 * k + 5)}
