"""Undefined values that reach a result, and what parallel steps share: each wrong kernel has a right one a line away."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tessera

ARBITRARY = ("parallel", "arbitrary")
X = np.random.default_rng(0).integers(-9, 9, (64, 256)).astype(np.float32)


def row_blocks(i, k):
    return i, k


def call(kernel, x, *, scratch, out=None, semantics=ARBITRARY, out_index=lambda i, k: (i, 0), **rest):
    """Blocks of 16 x 128 of x (64 x 256), grid (4, 2); results of 16 x 128 each."""
    return pl.pallas_call(
        kernel, grid=(4, 2), in_specs=[pl.BlockSpec((16, 128), row_blocks)],
        out_specs=pl.BlockSpec((16, 128), out_index), out_shape=out or jax.ShapeDtypeStruct((64, 128), x.dtype),
        scratch_shapes=scratch, compiler_params=pltpu.CompilerParams(dimension_semantics=semantics), **rest)(x)


def line_of(error, text):
    """Whether the error's line is the one with this text."""
    return any(text in line and line.lstrip().startswith(">") for line in str(error.value).splitlines()) or text in str(error.value)


def fails(slug, text, f):
    with tessera.simulate(), pytest.raises(tessera.KernelError) as error:
        f()
    assert error.value.slug == slug, str(error.value)
    assert text in str(error.value), str(error.value)


def passes(f, wanted):
    with tessera.simulate():
        np.testing.assert_array_equal(np.asarray(f()), wanted)


def sums(clears, dtype=np.float32):
    x = jnp.asarray(X.astype(dtype))

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(clears())
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]  # the sum
        o_ref[...] = acc_ref[...]

    return call(kernel, x, scratch=[pltpu.VMEM((16, 128), x.dtype)])


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_an_accumulator_that_is_never_cleared(dtype):
    fails("uninit-read", "# the sum", lambda: sums(lambda: pl.program_id(1) < 0, dtype))
    passes(lambda: sums(lambda: pl.program_id(1) == 0, dtype),
           (X[:, :128] + X[:, 128:]).astype(dtype))


def test_an_accumulator_that_the_first_cell_alone_clears():
    fails("parallel-dependence", "# the sum", lambda: sums(lambda: (pl.program_id(0) == 0) & (pl.program_id(1) == 0)))


def test_a_result_that_is_added_to():
    def kernel(clears, x_ref, o_ref):
        if clears:
            @pl.when(pl.program_id(1) == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]  # added

    def f(clears):
        return call(lambda *refs: kernel(clears, *refs), jnp.asarray(X), scratch=[])

    fails("uninit-read", "# added", lambda: f(False))
    passes(lambda: f(True), X[:, :128] + X[:, 128:])


def test_a_maximum_that_starts_nowhere():
    def kernel(starts, x_ref, o_ref, m_ref):
        if starts:
            @pl.when(pl.program_id(1) == 0)
            def _():
                m_ref[...] = jnp.full_like(m_ref, -jnp.inf)

        m_ref[...] = jnp.maximum(m_ref[...], jnp.max(x_ref[...], axis=1, keepdims=True))  # the maximum
        o_ref[...] = x_ref[...] - m_ref[...]

    def f(starts):
        return call(lambda *refs: kernel(starts, *refs), jnp.asarray(X), scratch=[pltpu.VMEM((16, 1), jnp.float32)])

    fails("uninit-read", "# the maximum", lambda: f(False))
    passes(lambda: f(True), X[:, 128:] - X.max(axis=1, keepdims=True))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_ragged_edge(dtype):
    x = jnp.asarray(X[:, :200].astype(dtype))

    def kernel(limit, x_ref, o_ref):
        column = jax.lax.broadcasted_iota(jnp.int32, (64, 256), 1)
        x = x_ref[...]  # the block
        if limit is not None:
            x = jnp.where(column < limit, x, jnp.zeros_like(x))
        o_ref[...] = jnp.sum(x, axis=1, keepdims=True)

    def f(limit):
        return pl.pallas_call(lambda *refs: kernel(limit, *refs), grid=(1,),
                              in_specs=[pl.BlockSpec((64, 256), lambda i: (0, 0))],
                              out_specs=pl.BlockSpec((64, 1), lambda i: (0, 0)),
                              out_shape=jax.ShapeDtypeStruct((64, 1), x.dtype))(x)

    fails("uninit-read", "# the block", lambda: f(None))
    fails("uninit-read", "# the block", lambda: f(201))
    passes(lambda: f(200), np.asarray(x).sum(axis=1, keepdims=True))


def test_an_edge_that_never_leaves_the_array():
    x = jnp.asarray(X[:50])

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((16, 256), lambda i: (i, 0))
    passes(lambda: pl.pallas_call(kernel, grid=(4,), in_specs=[block], out_specs=block,
                                  out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x), 2 * X[:50])


def test_results_that_are_not_written():
    x = jnp.asarray(X)

    def f(columns, **aliases):
        def kernel(x_ref, o_ref):
            if columns > 0:
                o_ref[:, :columns] = x_ref[:, :columns]

        block = pl.BlockSpec((16, 256), lambda i: (i, 0))
        return pl.pallas_call(kernel, grid=(4,), in_specs=[block], out_specs=block,
                              out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **aliases)(x)

    fails("output-not-covered", "16,384 of 16,384 elements", lambda: f(0))
    fails("output-not-covered", "8,192 of 16,384 elements", lambda: f(128))
    fails("output-not-covered", "8,192 of 16,384 elements", lambda: f(128, input_output_aliases={0: 0}))
    passes(lambda: f(256), X)


def test_rows_that_data_chooses(caplog):
    """What a kernel writes where data says is for its callers to know: a grouped product leaves rows of no group."""
    x = jnp.asarray(X)

    def f(steps, stores=True, n=3):
        def kernel(n_ref, x_ref, o_ref):
            @pl.when(pl.program_id(0) < n_ref[0])
            def _():
                if stores:
                    o_ref[...] = x_ref[...]

        spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(steps,),
                                            in_specs=[pl.BlockSpec((16, 256), lambda i, n: (i, 0))],
                                            out_specs=pl.BlockSpec((16, 256), lambda i, n: (jnp.minimum(i, n[0]), 0)))
        return pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(
            jnp.asarray([n], jnp.int32), x)

    with tessera.simulate() as report:
        got = np.asarray(f(4))
        f(4)
    np.testing.assert_array_equal(got[:48], X[:48])
    assert np.isnan(got[48:]).all()
    assert report.calls[0].json["undefined"] == [16 * 256]
    said, = report.left_unwritten  # once
    assert said.startswith("output-not-covered: 4,096 of 16,384 elements of out0 were never written"), said
    assert "test_undefined.py:" in said and "o_ref[...] = x_ref[...]" in said, said
    assert said in str(report) and said in report.calls[0].json["notes"] and said in caplog.text
    assert caplog.text.count(said) == 1
    with tessera.simulate() as report:
        f(4, n=4)
    assert report.left_unwritten == [] and "never written" not in str(report)
    for nobody_chooses in (lambda: f(4, False), lambda: jax.jit(lambda steps: f(steps, False))(4)):
        fails("output-not-covered", "16,384 of 16,384 elements", nobody_chooses)


def shared(kernel, cores=1, semantics="parallel"):
    """A result of blocks of their own, and one of a single block that all 8 steps have."""
    x = jnp.asarray(X[:, :128])
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    f = pl.pallas_call(
        kernel, grid=(8,), in_specs=[block], out_specs=[block, pl.BlockSpec((8, 128), lambda i: (0, 0))],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((8, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))
    with tessera.simulate(device="tpu-v4", cores=cores):
        return [np.asarray(a) for a in f(x)]


def adds_up(x_ref, o_ref, sum_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    o_ref[...] = x_ref[...] + 1
    sum_ref[...] += x_ref[...]  # added


def leaves_the_last(x_ref, o_ref, sum_ref):
    o_ref[...] = x_ref[...] + 1
    sum_ref[...] = x_ref[...]


def leaves_a_row_each(x_ref, o_ref, sum_ref):
    o_ref[...] = x_ref[...] + 1
    sum_ref[pl.ds(pl.program_id(0), 1), :] = x_ref[:1, :]  # added


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("kernel", [adds_up, leaves_a_row_each])
def test_a_result_that_parallel_steps_share(kernel, cores):
    with pytest.raises(tessera.KernelError) as error:
        shared(kernel, cores)
    assert error.value.slug == "parallel-dependence"
    assert "out1" in str(error.value) and "# added" in str(error.value), str(error.value)
    x = X[:, :128]
    plus_one, both = shared(kernel, semantics="arbitrary")
    np.testing.assert_array_equal(plus_one, x + 1)
    np.testing.assert_array_equal(both, x.reshape(8, 8, 128).sum(axis=0) if kernel is adds_up else x[::8])


@pytest.mark.parametrize("cores", [1, 2])
def test_a_result_that_is_scratch(cores):
    """Real kernels pass scratch as a result of one block: each cell writes it anew, the last one's stays."""
    plus_one, last = shared(leaves_the_last, cores)
    np.testing.assert_array_equal(plus_one, X[:, :128] + 1)
    np.testing.assert_array_equal(last, X[56:, :128])


@pytest.mark.parametrize("cores", [1, 2])
def test_a_sum_over_a_parallel_dim(cores):
    x = jnp.asarray(X[:, :128])

    def f(semantics):
        def kernel(x_ref, o_ref):
            @pl.when(pl.program_id(0) == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += x_ref[...]

        return pl.pallas_call(kernel, grid=(8,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
                              out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
                              out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
                              compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))(x)

    with tessera.simulate(device="tpu-v5p", cores=cores):
        with pytest.raises(tessera.KernelError) as error:
            f("parallel")
        assert error.value.slug == "parallel-dependence"
    passes(lambda: f("arbitrary"), X[:, :128].reshape(8, 8, 128).sum(axis=0))


def copied(semantics, cores, rows, carries=False):
    """Each of 8 steps copies a block to rows(i) of a result in HBM, after what the step before it has left there."""
    x = jnp.asarray(X)

    def kernel(x_ref, o_ref, block_ref, sem):
        i = pl.program_id(0)
        block_ref[...] = jnp.zeros_like(block_ref)
        if carries:
            @pl.when(i > 0)
            def _():
                left = pltpu.make_async_copy(o_ref.at[pl.ds(rows(jnp.maximum(i - 1, 0)), 8)], block_ref, sem)
                left.start()  # read back
                left.wait()
        block_ref[...] += x_ref[...]
        made = pltpu.make_async_copy(block_ref, o_ref.at[pl.ds(rows(i), 8)], sem)
        made.start()  # written
        made.wait()

    with tessera.simulate(device="tpu-v5p", cores=cores):
        return np.asarray(pl.pallas_call(
            kernel, grid=(8,), in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
            out_specs=pl.BlockSpec(memory_space=pl.ANY), out_shape=jax.ShapeDtypeStruct((rows(7) + 8, 256), x.dtype),
            scratch_shapes=[pltpu.VMEM((8, 256), x.dtype), pltpu.SemaphoreType.DMA],
            compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))(x))


@pytest.mark.parametrize("cores", [1, 2])
def test_arrays_in_hbm_that_parallel_steps_share(cores):
    slug = "parallel-dependence" if cores == 1 else "race"  # two cores show which accesses collide
    for rows, carries, text in [(lambda i: 0 * i, False, "# written"), (lambda i: 8 * i, True, "# read back")]:
        with pytest.raises(tessera.KernelError) as error:
            copied("parallel", cores, rows, carries)
        assert error.value.slug == slug and text in str(error.value) and "# written" in str(error.value), str(error.value)
    np.testing.assert_array_equal(copied("parallel", cores, lambda i: 8 * i), X)
    if cores == 1:
        np.testing.assert_array_equal(copied("arbitrary", cores, lambda i: 0 * i), X[56:])
        np.testing.assert_array_equal(copied("arbitrary", cores, lambda i: 8 * i, True),
                                      np.cumsum(X.reshape(8, 8, 256), axis=0).reshape(64, 256))


@pytest.mark.parametrize("cores", [1, 2])
def test_a_semaphore_that_one_parallel_step_signals_for_another(cores):
    x = jnp.asarray(X)

    def f(semantics):
        def kernel(x_ref, o_ref, sem):
            @pl.when(pl.program_id(0) < 7)
            def _():
                pl.semaphore_signal(sem, 1)  # for the next

            @pl.when(pl.program_id(0) > 0)
            def _():
                pl.semaphore_wait(sem, 1)

            o_ref[...] = x_ref[...]

        block = pl.BlockSpec((8, 256), lambda i: (i, 0))
        return pl.pallas_call(kernel, grid=(8,), in_specs=[block], out_specs=block,
                              out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_shapes=[pltpu.SemaphoreType.REGULAR],
                              compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))(x)

    with tessera.simulate(device="tpu-v5p", cores=cores), pytest.raises(tessera.KernelError) as error:
        f("parallel")
    if cores == 1:
        assert error.value.slug == "parallel-dependence" and "# for the next" in str(error.value), str(error.value)
        with tessera.simulate():
            np.testing.assert_array_equal(f("arbitrary"), x)
    else:
        assert error.value.slug == "deadlock"


def takes_turns(semantics, kernel, out_index, scratch=(), columns=256):
    """Steps of a dim behind an arbitrary one, on blocks of 16 x 128: grid (4, 2)."""
    return call(kernel, jnp.asarray(X), scratch=list(scratch), semantics=("arbitrary", semantics), out_index=out_index,
                out=jax.ShapeDtypeStruct((16 if out_index(1, 0)[0] == 0 else 64, columns), jnp.float32))


def sums_all(x_ref, o_ref):
    @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def sums_columns(x_ref, o_ref, acc_ref):
    """A part of scratch for each step of the inner dim: nobody shares it."""
    mine = acc_ref.at[pl.program_id(1)]

    @pl.when(pl.program_id(0) == 0)
    def _():
        mine[...] = jnp.zeros_like(mine)

    mine[...] += x_ref[...]
    o_ref[...] = mine[...]


def sums_rows(x_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += x_ref[...]  # carried
    o_ref[...] = acc_ref[...]


@pytest.mark.parametrize("cores", [1, 2])
def test_parallel_steps_behind_an_arbitrary_dim(cores):
    scratch = [pltpu.VMEM((16, 128), jnp.float32)]

    def own(i, k):
        return i, k

    for wrong, text in [
            (lambda semantics: takes_turns(semantics, sums_all, lambda i, k: (0, 0), columns=128), "two parallel cells write block (0, 0)"),
            (lambda semantics: takes_turns(semantics, sums_rows, own, scratch), "# carried")]:
        with tessera.simulate(device="tpu-v5p", cores=cores), pytest.raises(tessera.KernelError) as error:
            wrong("parallel")
        assert error.value.slug == "parallel-dependence" and text in str(error.value)
        with tessera.simulate(device="tpu-v5p", cores=cores):
            wrong("arbitrary")
    with tessera.simulate(device="tpu-v5p", cores=cores):
        got = takes_turns("parallel", sums_columns, own, [pltpu.VMEM((2, 16, 128), jnp.float32)])
    np.testing.assert_array_equal(got, np.cumsum(X.reshape(4, 16, 256), axis=0).reshape(64, 256))


def adds_to_an_input(where, semantics, anew=False, cores=1):
    """Each of 8 steps adds its block to an input (one block, or a scalar), and writes what is there then: sums, unless
    each step writes the input anew."""
    x = jnp.asarray(X[:, :128])
    row = pl.BlockSpec((8, 128), lambda i, *_: (i, 0))
    prefetches = int(where == "prefetched")
    spec = {"block": pl.BlockSpec((8, 128), lambda i: (0, 0)), "whole": pl.BlockSpec(memory_space=pltpu.VMEM),
            "scalar": pl.BlockSpec(memory_space=pltpu.SMEM), "prefetched": None,
            "HBM": pl.BlockSpec(memory_space=pl.ANY)}[where]

    def kernel(a_ref, x_ref, o_ref, v_ref, sem):
        def copy(a, b):
            copied = pltpu.make_async_copy(a, b, sem)
            copied.start()  # copied
            copied.wait()

        if where == "HBM":
            if not anew:
                copy(a_ref, v_ref)
            v_ref[...] = x_ref[...] + (0 if anew else v_ref[...])
            copy(v_ref, a_ref)
            o_ref[...] = v_ref[...]
        elif where in ("block", "whole"):
            a_ref[...] = x_ref[...] + (0 if anew else a_ref[...])  # added
            o_ref[...] = a_ref[...]
        else:
            a_ref[0] = pl.program_id(0) + 1 if anew else a_ref[0] + 1  # added
            o_ref[...] = x_ref[...] * a_ref[0].astype(jnp.float32)

    given = jnp.zeros(1, jnp.int32) if where in ("scalar", "prefetched") else jnp.zeros((8, 128), jnp.float32)
    with tessera.simulate(device="tpu-v5p", cores=cores):
        return np.asarray(pl.pallas_call(
            kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=prefetches, grid=(8,), in_specs=[row] if prefetches else [spec, row], out_specs=row,
                scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA]),
            compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))(given, x))


@pytest.mark.parametrize("where", ["block", "whole", "scalar", "prefetched", "HBM"])
@pytest.mark.parametrize("cores", [1, 2])
def test_what_parallel_steps_leave_in_an_input(where, cores):
    with pytest.raises(tessera.KernelError) as error:
        adds_to_an_input(where, "parallel", cores=cores)
    assert error.value.slug == ("race" if where == "HBM" and cores == 2 else "parallel-dependence"), str(error.value)
    assert ("# copied" if where == "HBM" else "# added") in str(error.value), str(error.value)
    blocks = X[:, :128].reshape(8, 8, 128)
    if where in ("scalar", "prefetched"):
        anew = sums = blocks * np.arange(1, 9)[:, None, None]
    else:
        anew, sums = blocks, np.cumsum(blocks, axis=0)
    np.testing.assert_array_equal(adds_to_an_input(where, "arbitrary", cores=cores), sums.reshape(64, 128))
    if where != "HBM":  # where two cores would have one array for both
        np.testing.assert_array_equal(adds_to_an_input(where, "parallel", True, cores), anew.reshape(64, 128))


def test_a_race_in_an_input_that_copies_write():
    x = jnp.asarray(X[:16, :128])

    def f(waits):
        def kernel(x_ref, o_ref, v_ref, sems):
            v_ref[...] = jnp.ones_like(v_ref)
            there = pltpu.make_async_copy(v_ref, x_ref, sems.at[0])
            back = pltpu.make_async_copy(x_ref, o_ref, sems.at[1])
            there.start()
            if waits:
                there.wait()
            back.start()  # back
            back.wait()
            if not waits:
                there.wait()

        return pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                              scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA((2,))])(x)

    fails("race", "# back", lambda: f(False))
    passes(lambda: f(True), np.ones_like(x))


def draws(seeds, semantics="parallel", cores=1, device="tpu-v5e"):
    def kernel(o_ref):
        @pl.when(seeds(pl.program_id(0)))
        def _():
            pltpu.prng_seed(7, pl.program_id(0))

        o_ref[...] = pltpu.prng_random_bits((8, 128)).astype(jnp.int32)  # drawn

    with tessera.simulate(device=device, cores=cores):
        return np.asarray(pl.pallas_call(
            kernel, grid=(4,), out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((32, 128), jnp.int32),
            compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))())


def test_random_bits_of_a_generator_that_is_not_seeded():
    for seeds, slug in [(lambda i: i < 0, "uninit-read"), (lambda i: i == 0, "parallel-dependence")]:
        with pytest.raises(tessera.KernelError) as error:
            draws(seeds)
        assert error.value.slug == slug and "# drawn" in str(error.value), str(error.value)
    with pytest.raises(tessera.KernelError) as error:
        draws(lambda i: i < 2, cores=2, device="tpu-v5p")  # the other core has a generator of its own
    assert error.value.slug == "uninit-read"
    one, two = draws(lambda i: i >= 0), draws(lambda i: i >= 0, cores=2, device="tpu-v5p")
    np.testing.assert_array_equal(one, two)
    assert len(np.unique(one)) > 4000
    assert len(np.unique(draws(lambda i: i == 0, "arbitrary"))) > 4000  # goes on from step to step


def test_checks_report_keeps_the_values():
    with tessera.simulate(checks="report") as report:
        got = np.asarray(sums(lambda: (pl.program_id(0) == 0) & (pl.program_id(1) == 0)))
    np.testing.assert_array_equal(got[:16], X[:16, :128] + X[:16, 128:])
    assert np.isnan(got[16:]).all()
    assert [d["slug"] for d in report.diagnostics] == ["parallel-dependence"]


def test_indices_that_the_body_changes():
    x = jnp.asarray(X)

    def f(changes):
        def kernel(n_ref, x_ref, o_ref, mine_ref):
            place = n_ref if changes else mine_ref
            place[pl.program_id(0)] = 0  # changed
            o_ref[...] = x_ref[...]

        spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,),
                                            in_specs=[pl.BlockSpec((16, 256), lambda i, n: (n[i], 0))],
                                            out_specs=pl.BlockSpec((16, 256), lambda i, n: (i, 0)),
                                            scratch_shapes=[pltpu.SMEM((4,), jnp.int32)])
        return pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(
            jnp.asarray([3, 2, 1, 0], jnp.int32), x)

    fails("race", "# changed", lambda: f(True))
    passes(lambda: f(False), X.reshape(4, 16, 256)[::-1].reshape(64, 256))


def test_an_aliased_output_that_a_copy_overwrites_with_undefined_memory():
    def f(filled):
        def kernel(x_ref, o_ref, block_ref, sem):
            if filled:
                pltpu.make_async_copy(x_ref, block_ref, sem).start()
                pltpu.make_async_copy(x_ref, block_ref, sem).wait()
            block_ref[:8] = jnp.ones((8, 128), jnp.float32)
            back = pltpu.make_async_copy(block_ref, o_ref, sem)
            back.start()
            back.wait()

        return pl.pallas_call(
            kernel, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pl.ANY),
            out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32), input_output_aliases={0: 0},
            scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])(X[:16, :128])

    with pytest.raises(tessera.KernelError) as error, tessera.simulate():
        f(False)
    assert error.value.slug == "uninit-read"
    assert "1,024 of 2,048 elements of out0 were overwritten by memory that nothing had written" in str(error.value), str(error.value)
    assert "[8, 0]" in str(error.value)
    passes(lambda: f(True), np.concatenate([np.ones((8, 128), np.float32), X[8:16, :128]]))
