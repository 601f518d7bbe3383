"""shard_map over virtual CPU devices: remote copies, barriers, devices that differ."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import tessera

ANY = pl.BlockSpec(memory_space=pl.ANY)


def mesh_of(*shape, names=("x", "y"), order=None):
    devices = np.asarray(jax.devices()[: int(np.prod(shape))])
    if order is not None:
        devices = devices[order]
    return Mesh(devices.reshape(shape), names[: len(shape)])


def rows(n, cols=128):
    return jnp.arange(n * cols, dtype=jnp.float32).reshape(n, cols)


def shift_kernel(axis, x_ref, o_ref, sent, landed):
    """Each device's block goes to its right neighbour."""
    me, n = jax.lax.axis_index(axis), jax.lax.axis_size(axis)
    right = jax.lax.rem(me + 1, n)
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 1, device_id={axis: jax.lax.rem(me + n - 1, n)}, device_id_type=pl.DeviceIdType.MESH)
    pl.semaphore_wait(barrier, 1)  # the right neighbour's output exists
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, landed, device_id={axis: right},
                                        device_id_type=pl.DeviceIdType.MESH)
    copy.start()
    copy.wait()


def shift(x, axis="x"):
    return pl.pallas_call(
        functools.partial(shift_kernel, axis), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[ANY],
        out_specs=ANY, scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
        compiler_params=pltpu.CompilerParams(collective_id=0))(x)


def sharded(f, mesh, spec):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("schedule", ["eager", "on_wait", "random:5"])
def test_ring_shift(devices, schedule):
    x = rows(8 * devices)
    with tessera.simulate(schedule=schedule) as report:
        got = sharded(shift, mesh_of(devices), P("x"))(x)
    np.testing.assert_array_equal(got, np.roll(x, 8, axis=0))
    (call,) = report.calls
    assert call.json["mesh"] == [devices] and report.remote_bytes == x.nbytes


def test_a_shard_map_whose_axis_vmap_takes():
    def add_one(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] + 1

        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    everywhere = jax.shard_map(jax.jit(add_one), mesh=mesh, in_specs=P(None, None), out_specs=P(None, None), check_vma=False)
    batch = jax.device_put(np.ones((4, 8, 128), np.float32), NamedSharding(mesh, P("x")))
    with tessera.simulate() as report, jax.set_mesh(mesh):
        got = jax.jit(jax.vmap(lambda x: 2 * everywhere(jnp.ones((8, 128), out_sharding=P()))))(batch)
    np.testing.assert_array_equal(got, np.full((4, 8, 128), 4))
    assert [call.json["mesh"] for call in report.calls] == [[1]] * 4  # each device did all of it, alone


def test_devices_of_a_shard_map_that_shards_nothing_reach_each_other():
    program = sharded(lambda x: shift(x) + jax.lax.axis_index("x"), mesh_of(4), P(None, None))
    x = rows(8)
    with tessera.simulate() as report:
        got = program(x)
    np.testing.assert_array_equal([shard.data for shard in got.addressable_shards], [x + i for i in range(4)])
    assert report.remote_bytes == 4 * x.nbytes


def test_a_loop_of_shifts():
    x = rows(64)
    with tessera.simulate() as report:
        f = sharded(lambda x: jax.lax.fori_loop(0, 8, lambda _, x: shift(x), x), mesh_of(8), P("x"))
        np.testing.assert_array_equal(f(x), x)
    assert len(report.calls) == 8


def test_two_calls_of_one_function_are_not_confused():
    x = rows(32)
    with tessera.simulate() as report:
        one = jax.jit(shift)
        a, b = sharded(lambda x: (one(x), one(x + 1000)), mesh_of(4), P("x"))(x)
    np.testing.assert_array_equal(a, np.roll(x, 8, axis=0))
    np.testing.assert_array_equal(b, np.roll(x, 8, axis=0) + 1000)
    assert len(report.calls) == 2


def hears_kernel(wrong, x_ref, o_ref, sent, landed):
    me, n = jax.lax.axis_index("x"), jax.lax.axis_size("x")
    right, left = jax.lax.rem(me + 1, n), jax.lax.rem(me + n - 1, n)
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 1, device_id={"x": right if wrong else left})
    pl.semaphore_wait(barrier, 1)
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, landed, device_id={"x": right})
    copy.start()  # to the right
    copy.wait()


@pytest.mark.parametrize("schedule", ["eager", "on_wait", "random:5"])
def test_a_barrier_that_hears_the_wrong_neighbour(schedule):
    def run(wrong):
        def f(x):
            return pl.pallas_call(functools.partial(hears_kernel, wrong), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                                  in_specs=[ANY], out_specs=ANY, scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
                                  compiler_params=pltpu.CompilerParams(collective_id=0))(x)

        with tessera.simulate(schedule=schedule):
            return np.asarray(sharded(f, mesh_of(4), P("x"))(rows(32)))

    with pytest.raises(tessera.KernelError, match="may not have entered the kernel yet") as error:
        run(True)
    assert error.value.slug == "race" and "# to the right" in str(error.value)
    np.testing.assert_array_equal(run(False), np.roll(rows(32), 8, axis=0))


def meets_kernel(x_ref, o_ref, sent, landed):
    """Meets both neighbours, then hears from the left one alone."""
    me, n = jax.lax.axis_index("x"), jax.lax.axis_size("x")
    right, left = jax.lax.rem(me + 1, n), jax.lax.rem(me + n - 1, n)
    barrier = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(barrier, 1, device_id={"x": neighbour})  # signals
    pl.semaphore_wait(barrier, 2)
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, landed, device_id={"x": right})
    copy.start()
    copy.wait()


def test_one_collective_id_for_two_calls():
    def f(second, between, x):
        for collective_id in (1, second):
            x = pl.pallas_call(meets_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                               in_specs=[ANY], out_specs=ANY, scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
                               compiler_params=pltpu.CompilerParams(collective_id=collective_id))(x)
            if between:
                x = x + 0 * jax.lax.psum(x, "x")  # devices meet here
        return x

    def run(second, between):
        with tessera.simulate():
            return np.asarray(sharded(functools.partial(f, second, between), mesh_of(4), P("x"))(rows(32)))

    with pytest.raises(tessera.KernelError, match="both have collective_id 1") as error:
        run(1, False)
    assert error.value.slug == "race" and "# signals" in str(error.value)
    for second, between in [(2, False), (1, True)]:
        np.testing.assert_array_equal(run(second, between), np.roll(rows(32), 16, axis=0))


@pytest.mark.parametrize("axis", ["x", "y"])
def test_two_axes(axis):
    x = jnp.arange(4 * 8 * 2 * 128, dtype=jnp.float32).reshape(4 * 8, 2 * 128)
    with tessera.simulate():
        got = sharded(functools.partial(shift, axis=axis), mesh_of(4, 2), P("x", "y"))(x)
    np.testing.assert_array_equal(got, np.roll(x, *((8, 0) if axis == "x" else (128, 1))))


def test_devices_in_another_order():
    x = rows(32)
    mesh = mesh_of(4, order=[2, 0, 3, 1])
    with tessera.simulate():
        got = sharded(shift, mesh, P("x"))(jax.device_put(x, NamedSharding(mesh, P("x"))))
    np.testing.assert_array_equal(got, np.roll(x, 8, axis=0))


def test_each_device_alone():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def add_one(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    x = rows(64)
    with tessera.simulate() as report:
        np.testing.assert_array_equal(sharded(add_one, mesh_of(8), P("x"))(x), x + 1)
    assert len(report.calls) == 8  # no need to meet

    def some(x):  # control flow that differs between devices
        return jax.lax.cond(jax.lax.axis_index("x") % 2 == 0, add_one, lambda x: x, x)

    with tessera.simulate() as report:
        got = np.asarray(sharded(some, mesh_of(8), P("x"))(x)).reshape(8, 8, 128)
    np.testing.assert_array_equal(got, np.asarray(x).reshape(8, 8, 128) + (np.arange(8) % 2 == 0)[:, None, None])
    assert len(report.calls) == 4


def test_a_scalar_of_each_device():
    def kernel(n_ref, x_ref, o_ref, sent, landed):
        shift_kernel("x", x_ref, o_ref, sent, landed)
        o_ref[...] = o_ref[...] + n_ref[...]

    def f(x):
        return pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
            scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
            compiler_params=pltpu.CompilerParams(collective_id=0))(jax.lax.axis_index("x").astype(jnp.float32), x)

    x = rows(32)
    with tessera.simulate():
        got = sharded(f, mesh_of(4), P("x"))(x)
    np.testing.assert_array_equal(got, np.roll(x, 8, axis=0) + np.repeat(np.arange(4), 8)[:, None])


def test_with_xla_collectives_around():
    x = rows(32)
    with tessera.simulate():
        got = sharded(lambda x: jax.lax.ppermute(shift(jax.lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)])),
                                                 "x", [(i, (i + 2) % 4) for i in range(4)]), mesh_of(4), P("x"))(x)
    np.testing.assert_array_equal(got, x)


def test_all_gather_of_jax():
    """It takes for granted that copies land in the order of their starts: a race, and right if they do."""
    from jax.experimental.pallas.ops.tpu.all_gather import all_gather

    mesh = mesh_of(4)
    x = jax.device_put(rows(64), NamedSharding(mesh, P("x")))
    with tessera.simulate(schedule="eager", checks="no-races"):
        np.testing.assert_array_equal(all_gather(x, mesh=mesh, axis_name="x"), rows(64))
    with tessera.simulate(schedule="on_wait"), pytest.raises(tessera.KernelError) as error:
        all_gather(x, mesh=mesh, axis_name="x")
    assert error.value.slug == "race" and "all_gather.py" in str(error.value)


def test_a_barrier_that_is_missing():
    def kernel(x_ref, o_ref, sent, landed):
        me, n = jax.lax.axis_index("x"), jax.lax.axis_size("x")
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id={"x": jax.lax.rem(me + 1, n)},
                            device_id_type=pl.DeviceIdType.MESH)
        pl.semaphore_wait(barrier, 2)  # nobody gives the second
        pltpu.async_copy(x_ref, o_ref, sent).wait()
        del landed

    def f(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[ANY], out_specs=ANY,
                              scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
                              compiler_params=pltpu.CompilerParams(collective_id=0))(x)

    with tessera.simulate() as report, pytest.raises(tessera.KernelError) as error:
        sharded(f, mesh_of(4), P("x"))(rows(32))
    assert error.value.slug == "barrier-divergence" and "# nobody gives the second" in str(error.value)
    assert len(report.errors) == 1


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("own_barrier", [False, True])
def test_devices_meet_before_a_kernel_that_has_no_barrier(skip, own_barrier):
    """The right neighbour's scratch is written: it has to be in the kernel. Pallas sees to that, unless it is told not
    to, or the kernel has a barrier of its own; this one hears from the left neighbour alone."""

    def kernel(x_ref, o_ref, sent, landed):
        me, n = jax.lax.axis_index("x"), jax.lax.axis_size("x")
        right = {"x": jax.lax.rem(me + 1, n)}
        if own_barrier:
            pl.semaphore_signal(pltpu.get_barrier_semaphore(), 1, device_id=right, device_id_type=pl.DeviceIdType.MESH)
            pl.semaphore_wait(pltpu.get_barrier_semaphore(), 1)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, landed, device_id=right,
                                            device_id_type=pl.DeviceIdType.MESH)
        copy.start()
        copy.wait()

    def f(x):
        vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
        params = {"skip_device_barrier": skip, **({"collective_id": 0} if own_barrier else {})}
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[vmem], out_specs=vmem,
                              scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
                              compiler_params=pltpu.CompilerParams(**params))(x)

    x = rows(32)
    with tessera.simulate(schedule="random:1"):
        if not skip and not own_barrier:
            np.testing.assert_array_equal(sharded(f, mesh_of(4), P("x"))(x), np.roll(x, 8, axis=0))
            return
        with pytest.raises(tessera.KernelError) as error:
            sharded(f, mesh_of(4), P("x"))(x)
    assert error.value.slug == "race" and ("may not have entered the kernel" if own_barrier else "while") in str(error.value)


def test_a_device_that_never_comes():
    def f(x):
        return jax.lax.cond(jax.lax.axis_index("x") < 3, shift, lambda x: x, x)

    with tessera.simulate(patience=0.5), pytest.raises(tessera.KernelError) as error:
        sharded(f, mesh_of(4), P("x"))(rows(32))
    assert error.value.slug == "late-device"
    assert "waits on devices 0, 1, 2 for devices 3" in str(error.value)


def test_capture_of_a_mesh(tmp_path):
    x = rows(32)
    report = tessera.capture(sharded(shift, mesh_of(4), P("x")), x, folder=tmp_path, device="tpu-v6e")
    (call,) = report.calls
    third = np.load(f"{call.folder}/dev2_in0.npy")
    np.testing.assert_array_equal(third, x[16:24])


def test_automatic_partitioning_is_refused_as_on_a_tpu():
    mesh = mesh_of(4)
    x = jax.device_put(rows(32), NamedSharding(mesh, P("x")))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    with tessera.simulate(), pytest.raises(NotImplementedError, match="shard_map"):
        jax.jit(lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))(x)
