"""What a program asks, lowers, exports and compiles inside a simulation is as on a TPU."""
import traceback

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

import tessera


def add_one(x, **params):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **params)(x)


x = np.ones((8, 128), np.float32)
since_0_10 = pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="JAX 0.9 itself drops or refuses such calls")


def test_backends_by_name():
    with tessera.simulate():
        assert jax.devices("tpu") == jax.devices("cpu") and jax.local_devices(backend="tpu")
        assert jax.extend.backend.get_backend().platform == "tpu"
        assert list(jax.extend.backend.backends()) == ["tpu", "cpu"]
    assert list(jax.extend.backend.backends()) == ["cpu"]
    with pytest.raises(RuntimeError, match="tpu"):
        jax.devices("tpu")
    assert jax.extend.backend.get_backend().platform == "cpu"


def test_a_program_for_several_platforms_takes_its_branch_for_tpus():
    def f(x):
        y = jax.lax.platform_dependent(x, tpu=add_one, default=lambda x: x)
        return jax.lax.platform_dependent(y, cpu=lambda x: x, default=lambda x: 2 * x)

    for run in (f, jax.jit(f)):
        with tessera.simulate() as report:
            np.testing.assert_array_equal(run(x), 2 * (x + 1))
        assert len(report.calls) == 1
        np.testing.assert_array_equal(run(x), x)


def test_queries_inside_shard_map_answer_for_this_simulation():
    mesh = Mesh(np.asarray(jax.devices()[:2]), "x")
    f = jax.shard_map(add_one, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    jax.jit(jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(x)  # the mesh was used before
    seen = []

    def ask(x):
        seen.append((pltpu.get_tpu_info().generation, pltpu.create_tensorcore_mesh("core").shape["core"]))
        return x

    for device, cores in [("tpu-v5e", 1), ("tpu-v6e", 1), ("tpu-v5p", 2)]:
        with tessera.simulate(device=device, cores=cores):
            jax.jit(jax.shard_map(ask, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(x)
            np.testing.assert_array_equal(jax.jit(f)(x), x + 1)
    assert seen == [(5, 1), (6, 1), (5, 2)]


def test_a_device_that_the_program_describes_is_that_one():
    with tessera.simulate(device="tpu-v5e"):
        kinds = {"device_kind": "TPU v6 lite", "num_cores": 1}
        if "platform" in jax.sharding.AbstractDevice.__dataclass_fields__:
            kinds["platform"] = "tpu"
        assert jax.sharding.AbstractDevice(**kinds).device_kind == "TPU v6 lite"


def test_lowered_text_has_the_tpus_call_also_after_it_was_compiled():
    with tessera.simulate():
        lowered = jax.jit(add_one).lower(x)
        compiled = lowered.compile()
        assert "@tpu_custom_call" in lowered.as_text()
        np.testing.assert_array_equal(compiled(x), x + 1)


def test_metadata_of_a_kernel_reaches_the_compiled_program():
    with tessera.simulate():
        text = jax.jit(lambda x: add_one(x, metadata={"tiles": "128"})).lower(x).compile().as_text()
    assert '"tiles":"128"' in text.replace("\\", "")


def test_exported_programs_run():
    with tessera.simulate() as report:
        exported = export.export(jax.jit(add_one))(x)
        assert exported.platforms == ("tpu",)
        np.testing.assert_array_equal(jax.jit(exported.call)(x), x + 1)
        assert len(report.calls) == 1


@since_0_10
def test_exported_programs_of_any_size_run():
    with tessera.simulate():
        batch = jax.ShapeDtypeStruct(export.symbolic_shape("n, 8, 128"), np.float32)
        exported = export.export(jax.jit(jax.vmap(add_one)))(batch)
        np.testing.assert_array_equal(exported.call(np.stack([x, 3 * x])), np.stack([x, 3 * x]) + 1)


@since_0_10
def test_exported_grids_of_any_size_run():
    from jax._src.pallas import core as pallas_core

    def add(x, y):
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] + y_ref[...]

        block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[block, block],
                              grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(x.shape[1], 128)), out_specs=block)(x, y)

    batch = jax.ShapeDtypeStruct(export.symbolic_shape("b, m, n"), np.float32)
    with tessera.simulate() as report, pallas_core.pallas_export_experimental(dynamic_shapes=True):
        exported = export.export(jax.jit(jax.vmap(add)))(batch, batch)
        some = np.arange(2 * 20 * 300, dtype=np.float32).reshape(2, 20, 300)
        np.testing.assert_array_equal(exported.call(some, some), 2 * some)
    assert report.calls[0].json["grid"] == [2, 3, 3]


@since_0_10
def test_blocks_of_any_size_are_refused():
    from jax._src.pallas import core as pallas_core

    of_any_size = jax.ShapeDtypeStruct(export.symbolic_shape("m, 128"), np.float32)
    with tessera.simulate(), pallas_core.pallas_export_experimental(dynamic_shapes=True):
        exported = export.export(jax.jit(add_one))(of_any_size)
        with pytest.raises(tessera.KernelError, match="unsupported.*extents are symbols"):
            exported.call(x)


def test_options_of_a_tpus_compiler_are_taken():
    options = {"xla_tpu_enable_log_recorder": "true", "xla_sc_assert_level": "all-loads-stores",
               "xla_enable_async_all_gather": "true", "xla_latency_hiding_scheduler_rerun": "1",
               "xla_all_reduce_latency_bound_threshold_in_bytes": "1024"}
    with tessera.simulate():
        np.testing.assert_array_equal(jax.jit(add_one, compiler_options=options)(x), x + 1)
        np.testing.assert_array_equal(jax.jit(add_one).lower(x).compile(options)(x), x + 1)
        with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such"):
            jax.jit(add_one, compiler_options={"xla_no_such": "true"})(x)


@pytest.mark.parametrize("said", ["options", "environment", "kernel", "nowhere"])
def test_scoped_vmem(said, monkeypatch):
    """30 MiB of windows and scratch on a v5e, whose compiler gives a kernel 16."""
    many = np.ones((5 << 9, 1024), np.float32)

    def kernel(x_ref, o_ref, rows_ref):
        rows_ref[...] = x_ref[...]
        o_ref[...] = rows_ref[...] + 1

    params = pltpu.CompilerParams(vmem_limit_bytes=64 << 20 if said == "kernel" else None)
    options = {"options": {"xla_tpu_scoped_vmem_limit_kib": "65536"}, "kernel": {"xla_tpu_scoped_vmem_limit_kib": 1024}}
    if said == "environment":
        monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_enable_log_recorder --xla_tpu_scoped_vmem_limit_kib=65536")
    call = jax.jit(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(many.shape, many.dtype), compiler_params=params,
                                  scratch_shapes=[pltpu.VMEM(many.shape, many.dtype)]), compiler_options=options.get(said))
    with tessera.simulate(device="tpu-v5e"):
        if said == "nowhere":
            with pytest.raises(jax.errors.JaxRuntimeError, match="vmem-capacity"):
                call(many)
        else:
            np.testing.assert_array_equal(call(many), many + 1)


def test_kernels_are_lowered_for_a_libtpu_of_today():
    """fuse_transposed_lhs_in_matmul and newer bytecode are for those alone."""
    from jax._src import tpu_custom_call

    versions = []
    asked = tpu_custom_call.get_ir_version

    def ask(ctx):
        versions.append(asked(ctx))
        return versions[-1]

    tpu_custom_call.get_ir_version = ask
    try:
        with tessera.simulate():
            jax.jit(lambda x: add_one(x * 1)).lower(x)
    finally:
        tpu_custom_call.get_ir_version = asked
    assert versions and set(versions) == {None}


@since_0_10
def test_an_unused_result_of_a_call_that_may_be_dropped_drops_it():
    def run(effect):
        with tessera.simulate() as report:
            params = pltpu.CompilerParams(has_side_effects=effect)
            jax.jit(lambda x: (add_one(x, compiler_params=params), x)[1])(x)
        return len(report.calls)

    assert run(pltpu.SideEffectType.DATAFLOW_SIDE_EFFECTING) == 0
    assert run(pltpu.SideEffectType.SIDE_EFFECTING) == 1


def test_a_kernel_error_is_what_jax_raises():
    with tessera.simulate(), pytest.raises(jax.errors.JaxRuntimeError, match="oob-block") as caught:
        add_one(jnp.asarray(x), grid=(1,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i + 1, 0))])
    assert isinstance(caught.value, tessera.KernelError)


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_what_the_compiler_refuses_is_a_mosaic_error(dtype):
    from jax._src.pallas.mosaic.error_handling import MosaicError

    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[0] + x_ref[1]

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    call = jax.jit(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1,), dtype), in_specs=[smem], out_specs=smem))
    with tessera.simulate():
        if dtype == "int32":
            np.testing.assert_array_equal(call(jnp.arange(1, 3, dtype=dtype)), [3])
            return
        with pytest.raises(MosaicError, match="Only i32 arith.addi is supported") as caught:
            call(jnp.arange(1, 3, dtype=dtype))
    assert isinstance(caught.value, tessera.KernelError) and caught.value.slug == "unsupported"
    assert traceback.format_tb(caught.value.__traceback__)[-1].endswith("o_ref[0] = x_ref[0] + x_ref[1]\n")


def test_what_is_not_built_is_no_mosaic_error():
    from jax._src.pallas.mosaic.error_handling import MosaicError

    with tessera.simulate(), pytest.raises(tessera.KernelError) as caught:
        add_one(jnp.asarray(x), grid=(1,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i + 1, 0))])
    assert not isinstance(caught.value, MosaicError)
