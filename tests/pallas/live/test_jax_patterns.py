"""What JAX's own tests and guides do with a TensorCore, and what its compiler refuses there."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
SEMAPHORE = pl.BlockSpec(memory_space=pltpu.SEMAPHORE)
X = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)

since_0_10 = pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="JAX 0.9 itself drops or refuses such calls")


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def under_schedules(function, *args, device="tpu-v6e"):
    for schedule in ("eager", "on_wait", "adversarial", "random:1", "random:2"):
        with tessera.simulate(device=device, schedule=schedule):
            yield jax.tree.map(np.asarray, function(*args))


def test_nan_is_not_equal_to_itself():
    x = X.at[0, 5].set(jnp.nan).at[3, 7].set(jnp.inf)

    def kernel(x_ref, is_nan_ref, differs_ref):
        x = x_ref[...]
        is_nan_ref[...] = jnp.isnan(x).astype(jnp.float32)
        differs_ref[...] = jnp.where(x != x, 1.0, 0.0)

    with tessera.simulate(device="tpu-v6e"):
        for result in pl.pallas_call(kernel, out_shape=(like(X), like(X)))(x):
            np.testing.assert_array_equal(result, np.isnan(x))


@since_0_10
def test_a_block_that_comes_back_is_fetched_again():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    x = jnp.arange(24 * 384, dtype=jnp.float32).reshape(24, 384)

    def total(mode):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 384), jnp.float32),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j: (0, j), pipeline_mode=mode),
            grid=(3, 3),
        )(x)

    with tessera.simulate(device="tpu-v6e") as report:
        np.testing.assert_array_equal(total(pl.Buffered(1, revisit=pl.RevisitMode.ANY)),
                                      np.asarray(x).reshape(3, 8, 384).sum(0))
    # Two of the three visits of each of three blocks bring it back.
    assert report.hbm_read_bytes == x.nbytes + 6 * 8 * 128 * 4
    with pytest.raises(tessera.KernelError) as e, tessera.simulate(device="tpu-v6e"):
        total(pl.Buffered(1))
    assert e.value.slug in ("output-revisit", "uninit-read")


def test_a_signal_of_nothing():
    def kernel(o_ref, sem):
        pl.semaphore_signal(sem, 0)
        pl.semaphore_wait(sem, 0)
        pl.semaphore_signal(sem, 3)
        o_ref[0] = pl.semaphore_read(sem)
        pl.semaphore_wait(sem, 3)

    with tessera.simulate(device="tpu-v6e"):
        got = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1,), jnp.int32), out_specs=SMEM,
                             scratch_shapes=[pltpu.SemaphoreType.REGULAR])()
    assert got[0] == 3


@since_0_10
def test_a_copy_counts_once_on_a_semaphore_of_signals():
    def kernel(x_ref, o_ref):
        def body(buffer, sem):
            pltpu.make_async_copy(x_ref, buffer, sem).start()
            pl.semaphore_wait(sem)
            pltpu.make_async_copy(buffer, o_ref, sem).start()
            pl.semaphore_wait(sem)

        pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.REGULAR)

    for got in under_schedules(pl.pallas_call(kernel, in_specs=[ANY], out_specs=ANY, out_shape=like(X)), X):
        np.testing.assert_array_equal(got, X)


@pytest.mark.parametrize("space", [pl.ANY, pltpu.VMEM])
def test_a_copy_that_another_kernel_waits_for(space):
    def start(x_ref, aliased_ref, o_ref, sem):
        del aliased_ref
        pltpu.make_async_copy(x_ref, o_ref, sem).start()

    def done(x_ref, o_ref, sem, aliased_ref):
        del aliased_ref
        pltpu.make_async_copy(x_ref, o_ref, sem).wait()

    spec = pl.BlockSpec(memory_space=space)

    def copy(x):
        x, out, sem = pl.pallas_call(start, out_shape=(like(x), like(x), pltpu.SemaphoreType.DMA(())), in_specs=[ANY],
                                     out_specs=(ANY, spec, SEMAPHORE), input_output_aliases={0: 0})(x)
        return pl.pallas_call(done, out_shape=like(x), in_specs=[ANY, spec, SEMAPHORE], out_specs=spec,
                              input_output_aliases={1: 0})(x, out, sem)

    for got in under_schedules(jax.jit(copy), X):
        np.testing.assert_array_equal(got, X)


@pytest.mark.parametrize("waits", [True, False])
def test_a_copy_that_no_kernel_waits_for(waits, caplog):
    def start(x_ref, o_ref, sem):
        pltpu.make_async_copy(x_ref, o_ref, sem).start()

    def done(x_ref, o_ref, sem, aliased_ref):
        del aliased_ref
        pltpu.make_async_copy(x_ref, o_ref, sem).wait()

    def program(x):
        out, sem = pl.pallas_call(start, out_shape=(like(x), pltpu.SemaphoreType.DMA(())), in_specs=[ANY],
                                  out_specs=(ANY, SEMAPHORE))(x)
        return pl.pallas_call(done, out_shape=like(x), in_specs=[ANY, ANY, SEMAPHORE], out_specs=ANY,
                              input_output_aliases={1: 0})(x, out, sem) if waits else out

    with tessera.simulate(device="tpu-v6e", schedule="on_wait") as report:
        np.testing.assert_array_equal(jax.jit(program)(X), X)
    said = "" if waits else "4,096 bytes of copies that start started were never waited for by any kernel of this simulation"
    assert report.not_awaited == said and said in report.note and caplog.messages == [said] * (not waits)


def test_a_semaphore_that_is_given_must_be_taken():
    def start(x_ref, o_ref, sem):
        pltpu.make_async_copy(x_ref, o_ref, sem).start()

    def forget(sem, o_ref):
        del sem
        o_ref[...] = jnp.zeros_like(o_ref)

    def program(x):
        _, sem = pl.pallas_call(start, out_shape=(like(x), pltpu.SemaphoreType.DMA(())), in_specs=[ANY],
                                out_specs=(ANY, SEMAPHORE))(x)
        return pl.pallas_call(forget, out_shape=like(x), in_specs=[SEMAPHORE])(sem)

    with pytest.raises(tessera.KernelError) as e, tessera.simulate(device="tpu-v6e"):
        jax.jit(program)(X)
    assert e.value.slug == "dma-size-mismatch"


@since_0_10
def test_a_scalar_from_around_a_core_map():
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

    def add(x, amount):
        @pl.kernel(out_type=like(x), mesh=mesh)
        def kernel(x_ref, o_ref):
            def body(buffer):
                pltpu.sync_copy(x_ref, buffer)
                buffer[...] += amount
                pltpu.sync_copy(buffer, o_ref)

            pl.run_scoped(body, pltpu.VMEM(x.shape, x.dtype))

        return kernel(x)

    with tessera.simulate(device="tpu-v6e"):
        np.testing.assert_array_equal(jax.jit(add)(X, jnp.float32(3)), X + 3)


@since_0_10
@pytest.mark.parametrize("space", [pltpu.SMEM, pltpu.VMEM])
def test_memory_that_two_core_maps_share(space):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

    @jax.jit
    def program():
        y_ref = pl.empty_ref_like(space((8,) if space is pltpu.SMEM else (8, 128), jnp.int32))

        @pl.core_map(mesh=mesh)
        def _():
            for i in range(8):
                y_ref[i] = jnp.full(y_ref.shape[1:], i)

        @pl.core_map(mesh=mesh)
        def _():
            for i in range(8):
                y_ref[i] += 1

        return y_ref[...]

    with tessera.simulate(device="tpu-v6e"):
        got = np.asarray(program())
    np.testing.assert_array_equal(got.reshape(8, -1)[:, 0], np.arange(8) + 1)


WIDE = np.arange(16 * 256, dtype=np.float32).reshape(16, 256)


def at_tile(i, tile):
    """The second tile, at an offset that the compiler knows to be aligned."""
    return pl.multiple_of(i * tile + tile, tile)


def masked_store(columns):
    """Stores 256 columns from column 128 on where the mask holds: the first `columns`."""
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
        lane = jax.lax.broadcasted_iota(jnp.int32, WIDE.shape, 1)
        pltpu.store(o_ref.at[:, pl.ds(at_tile(pl.program_id(0), 128), 256)], x_ref[...], mask=lane < columns)

    return pl.pallas_call(kernel, out_shape=like(WIDE), grid=(1,))(WIDE)


def test_lanes_that_a_mask_keeps_from_leaving():
    with tessera.simulate(device="tpu-v6e"):
        got = masked_store(124)
    wanted = np.zeros_like(WIDE)
    wanted[:, 128:252] = WIDE[:, :124]
    np.testing.assert_array_equal(got, wanted)
    with pytest.raises(tessera.KernelError) as e, tessera.simulate(device="tpu-v6e"):
        masked_store(129)
    assert e.value.slug == "oob-index"


@pytest.mark.parametrize("unchecked", [True, False])
def test_a_load_that_leaves_by_two_dims(unchecked):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        part = x_ref[pl.ds(at_tile(i, 8), 16), pl.ds(at_tile(i, 128), 256)]
        row = jax.lax.broadcasted_iota(jnp.int32, WIDE.shape, 0)
        lane = jax.lax.broadcasted_iota(jnp.int32, WIDE.shape, 1)
        o_ref[...] = jnp.where((row < 8) & (lane < 128), part, 0)

    def call():
        return pl.pallas_call(kernel, out_shape=like(WIDE), grid=(1,),
                              compiler_params=pltpu.CompilerParams(disable_bounds_checks=unchecked))(WIDE)

    if unchecked:
        with tessera.simulate(device="tpu-v6e"):
            np.testing.assert_array_equal(call()[:8, :128], WIDE[8:, 128:])
    else:
        with pytest.raises(tessera.KernelError) as e, tessera.simulate(device="tpu-v6e"):
            call()
        assert e.value.slug == "oob-index"


def test_results_without_dims():
    def kernel(x_ref, a_ref, b_ref):
        a_ref[...] = x_ref[0]
        b_ref[...] = x_ref[1]

    with tessera.simulate(device="tpu-v6e"):
        a, b = pl.pallas_call(kernel, in_specs=[SMEM], out_specs=(SMEM, SMEM),
                              out_shape=(jax.ShapeDtypeStruct((), jnp.float32),) * 2)(jnp.array([1.0, 2.0]))
    assert (a, b) == (1, 2)


def test_the_author_s_limit_of_vmem():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def call(limit):
        return pl.pallas_call(kernel, out_shape=like(X),
                              compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit))(X)

    with tessera.simulate(device="tpu-v6e"):
        np.testing.assert_array_equal(call(8192), X)
    with pytest.raises(tessera.KernelError) as e, tessera.simulate(device="tpu-v6e"):
        call(8191)
    assert e.value.slug == "vmem-capacity"
    for words in ("vmem_limit_bytes", "input window allocation for operator input 0", "This allocation is single buffered",
                  "The window shape is f32[8,128], while the full shape is f32[8,128]."):
        assert words in str(e.value)


@pytest.mark.parametrize("device, most", [("tpu-v4", 7), ("tpu-v5e", 7), ("tpu-v5p", 7), ("tpu-v6e", 15)])
def test_the_compiler_s_limit_of_vmem(device, most):
    """Two buffers of so many MiB compile, two of one more and its neighbour's bytes do not: asked of libtpu 0.0.42."""
    def call(mib, **params):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[:8]

        rows = mib << 11
        return pl.pallas_call(kernel, grid=(2,), in_specs=[pl.BlockSpec((rows, 128), lambda i: (i, 0))],
                              out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
                              out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
                              compiler_params=pltpu.CompilerParams(**params))(jnp.zeros((2 * rows, 128), jnp.float32))

    with tessera.simulate(device=device, dry=True):
        call(most)
        if device != "tpu-v4":  # which has no more
            call(most + 2, vmem_limit_bytes=64 << 20)
    with pytest.raises(tessera.KernelError, match="vmem_limit_bytes" if device != "tpu-v4" else "VMEM") as e, \
            tessera.simulate(device=device, dry=True):
        call(most + 2)
    assert e.value.slug == "vmem-capacity"
    if device == "tpu-v5e":  # XLA may keep what it makes in VMEM
        with tessera.simulate(device=device, dry=True) as report:
            jax.jit(lambda: call(most + 2) + 1)()
        assert "compiles only where XLA keeps operands of it in VMEM" in report.calls[0].json["notes"][0]


def double_scalars(dtype):
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[0] + x_ref[0]

    return pl.pallas_call(kernel, in_specs=[SMEM], out_specs=SMEM, out_shape=jax.ShapeDtypeStruct((1,), dtype)), \
        jnp.asarray([3], dtype)


def double_vectors(dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + x_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((128, 128), dtype)), jnp.full((128, 128), 3, dtype)


def rolled(shape, by=None):
    """By what an operand holds, unless it is given."""
    def kernel(by_ref, x_ref, o_ref):
        o_ref[...] = pltpu.roll(x_ref[...], by_ref[0] if by is None else by, 1)

    call = pl.pallas_call(kernel, in_specs=[SMEM, pl.BlockSpec()], out_shape=jax.ShapeDtypeStruct(shape, jnp.float32))
    return functools.partial(call, jnp.array([0])), jnp.full(shape, 6.0)


def strided(stride):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(0, 8, stride=stride[0]), pl.ds(0, 16, stride=stride[1])] * 2

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 16), jnp.float32)), jnp.full((16, 128), 3.0)


@pytest.mark.parametrize("wrong, right, words", [
    (double_scalars(jnp.int8), double_scalars(jnp.int32), "Not implemented: Only i32 arith.addi is supported"),
    (double_vectors(jnp.int8), double_vectors(jnp.int16), "Not implemented: Only vector<i16> and vector<i32>"),
    (double_vectors(jnp.float16), double_vectors(jnp.bfloat16), "Invalid vector type for load"),
    (rolled((8, 64)), rolled((8, 128)), "unsupported unaligned shape"),
    (rolled((8, 64)), rolled((8, 64), by=0), "unsupported unaligned shape"),
    (strided((1, 8)), strided((2, 1)), "Stride on last dim is not 1"),
])
def test_what_the_compiler_has_no_code_for(wrong, right, words):
    with pytest.raises(tessera.KernelError, match=words) as e, tessera.simulate(device="tpu-v6e"):
        wrong[0](wrong[1])
    assert e.value.slug == "unsupported"
    with tessera.simulate(device="tpu-v6e"):
        assert (right[0](right[1]) == 6).all()


@pytest.mark.parametrize("unpacked,packed", [("int8", "int4"), ("int4", "int2")])
def test_halves_packed_side_by_side(unpacked, packed):
    """Also of 2 bits, of which nothing else is made."""
    bits = 4 if packed == "int4" else 2
    sources = np.random.default_rng(0).integers(-(1 << bits - 1), 1 << bits - 1, (2, 128, 128)).astype(np.int8)

    def pack(x_ref, o_ref):
        o_ref[...] = pltpu.pack_elementwise([x_ref[0], x_ref[1]], packed_dtype=jnp.dtype(packed))

    with tessera.simulate("tpu-v6e"):
        words = pl.pallas_call(pack, out_shape=jax.ShapeDtypeStruct((128, 128), "u" + unpacked))(
            jnp.asarray(sources, unpacked))
    fields = sources.astype(np.uint8) & ((1 << bits) - 1)
    np.testing.assert_array_equal(np.asarray(words.astype("uint8")), fields[0] | fields[1] << bits)
