"""The hooks in JAX: a CPU lowering for Pallas calls that takes the TPU's, and a wait after programs that have them.

What tessera touches in JAX's internals is here (and in _chip.py, what answers queries). JAX 0.9 and 0.10.
"""
import contextlib
import functools
import threading

import jax
import numpy as np

from tessera import _xla

_TARGET = "tessera_mosaic_call"
_context = None  # a part of JAX's cache keys: what the running simulation lowers for
_session = None
_lowering = threading.local()  # .for_us: a kernel is being lowered to run here


class _Marker:
    """Kept alive by an executable that has calls of ours."""


_marker = _Marker()


def _has_kernels(executable):
    return any(kept is _marker for kept in executable.keepalive or ())


class Moved(ImportError):
    """This JAX is not one that tessera knows."""


@functools.cache
def install():
    """Once for a process. The hooks do nothing while no simulation is on."""
    global _context
    try:
        _install()
        _context = jax.make_user_context(None)
    except (ImportError, AttributeError, KeyError, TypeError) as e:
        raise Moved(f"tessera knows JAX 0.9 and 0.10; in this one ({jax.__version__}) something moved: {e}. "
                    "pip install 'jax>=0.9,<0.11'") from e


@contextlib.contextmanager
def active(session):
    global _session
    _session = session
    try:
        with _context((session.device, session.cores)):
            yield
    finally:
        _session = None


def _install():
    from jax._src import tpu_custom_call
    from jax._src.interpreters import mlir, pxla
    from jax._src.pallas import pallas_call

    jax.devices("cpu")  # registrations before the backend is there are made in the wrong order
    jax.ffi.register_ffi_type("tessera_site", _xla.site_type(), platform="cpu")
    jax.ffi.register_ffi_target(_TARGET, _xla.registrations(), platform="cpu")

    primitives = [pallas_call.pallas_call_p]
    try:
        from jax._src.pallas import mpmd  # since 0.10
        primitives.append(mpmd.mpmd_map_p)
    except ImportError:
        pass
    for primitive in primitives:
        _lower_as_for_a_tpu(mlir, primitive)
    _call_us_for_custom_calls(tpu_custom_call)
    _wait_after_programs(pxla)


def _lower_as_for_a_tpu(mlir, primitive):
    entry = mlir._lowerings[primitive]
    rule = getattr(entry, "rule", entry)

    def lower(ctx, *operands, **params):
        if _session is None or params.get("interpret"):
            return rule(ctx, *operands, **params)
        _lowering.for_us = True
        try:
            as_tpu = ctx.replace(module_context=ctx.module_context.replace(platforms=("tpu",)), platforms=None)
            return rule(as_tpu, *operands, **params)
        finally:
            _lowering.for_us = False

    mlir.register_lowering(primitive, lower, platform="cpu")


def _call_us_for_custom_calls(tpu_custom_call):
    from jax._src import sharding_impls
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    original = tpu_custom_call._tpu_custom_call_lowering

    def partition(ctx):
        """How many devices run this, and the number of this one."""
        axes = ctx.module_context.axis_context
        if isinstance(axes, sharding_impls.SPMDAxisContext) and axes.mesh.size > 1:
            return axes.mesh.size, stablehlo.PartitionIdOp().result
        return 1, mlir.ir_constant(np.uint32(0))

    def row_major(types):
        return [list(reversed(range(len(ir.RankedTensorType(t).shape)))) for t in types]

    def lower(ctx, *operands, config, input_output_aliases, **params):
        # JAX's own rule checks what a TPU would refuse; its op is then replaced by ours.
        results = original(ctx, *operands, config=config, input_output_aliases=input_output_aliases, **params)
        if not getattr(_lowering, "for_us", False):
            return results
        block = ir.InsertionPoint.current.block
        theirs = next(op for op in reversed(list(block.operations))
                      if op.name == "stablehlo.custom_call")
        i64 = ir.IntegerType.get_signless(64)
        devices, device = partition(ctx)
        types = [value.type for value in results]
        ours = mlir.custom_call(
            _TARGET,
            result_types=types,
            operands=[*theirs.operands, device],
            backend_config={
                "name": ir.StringAttr.get(params.get("kernel_name") or ""),
                "config": ir.StringAttr.get(config.to_json().decode()),
                "devices": ir.IntegerAttr.get(i64, devices),
                "aliases": ir.DenseI64ArrayAttr.get([i for pair in input_output_aliases for i in pair]),
            },
            api_version=4,
            has_side_effect=ir.BoolAttr(theirs.attributes["has_side_effect"]).value,
            operand_output_aliases=dict(input_output_aliases),
            operand_layouts=row_major([*(o.type for o in theirs.operands), device.type]),
            result_layouts=row_major(types),
        )
        theirs.erase()
        ctx.module_context.add_keepalive(_marker)
        return ours.results

    tpu_custom_call._tpu_custom_call_lowering = lower


def _wait_after_programs(pxla):
    """Programs with kernels end before their call returns: what is wrong is raised there."""
    from jax._src import dispatch

    executable = pxla.ExecuteReplicated
    init, call = executable.__init__, executable.__call__

    @functools.wraps(init)
    def init_marked(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if _has_kernels(self):
            self.has_unordered_effects = True  # never called past our __call__

    @functools.wraps(call)
    def call_and_wait(self, *args, **kwargs):
        if not _has_kernels(self):
            return call(self, *args, **kwargs)
        session = _session
        failure = None
        try:
            results = call(self, *args, **kwargs)
            jax.block_until_ready(results)
            dispatch.runtime_tokens.block_until_ready()
        except jax.errors.JaxRuntimeError as e:
            failure = e
            dispatch.runtime_tokens.clear()  # they would raise it again
        if session is not None:
            session.collect()
        if failure is not None:
            raise failure
        return results

    executable.__init__ = init_marked
    executable.__call__ = call_and_wait
