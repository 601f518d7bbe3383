"""Programs as JAX lowers them for a TPU: their Mosaic calls become ours before XLA compiles them for the CPU.

A tpu_custom_call has the module in its backend_config. tessera_mosaic_call has the same operands and results, after the
operands the logical id of its device (python/xla_bridge.cpp).
"""
import functools
import json

import jax
import numpy as np

from tessera import _xla

_THEIRS = "tpu_custom_call"
_OURS = "tessera_mosaic_call"
_VMEM = 1  # a memory space, in a kernel's configuration
_NO_OPS = {"builtin.module", "func.func", "func.return", "func.call", "sdy.mesh"}
_COLLECTIVES = {"stablehlo." + name for name in (
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "reduce_scatter")}


@functools.cache
def _register():
    """Once the backend is there: what is registered before is so in the wrong order."""
    jax.ffi.register_ffi_type("tessera_site", _xla.site_type(), platform="cpu")
    jax.ffi.register_ffi_target(_OURS, _xla.registrations(), platform="cpu")


def replaced(program, vmem_limit=None):
    """A module of StableHLO with our calls; itself if it has none of theirs. `vmem_limit`: bytes for kernels that name none."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    if not _calls_of(program):
        return program
    _register()
    ours = ir.Module.parse(mlir.module_to_bytecode(program), context=program.context)
    around = _around(ours)
    with ours.context:
        partitions = ours.operation.attributes.get("mhlo.num_partitions")
        devices = 1 if partitions is None else ir.IntegerAttr(partitions).value
        per_device = _per_device(ours)
        for theirs in reversed(_calls_of(ours)):
            if _may_go(theirs):
                theirs.erase()
            else:
                _replace_one(theirs, devices if per_device(theirs) else 1, around, vmem_limit)
    return ours


def _per_device(program):
    """A function of an operation: whether it runs in a shard_map, where devices tell each other apart.

    JAX leaves a shard_map out whose axes are of size 1 or vmap's: its kernels do the same on each device, as one alone.
    """
    from jaxlib.mlir import ir

    by_partitioner = False  # what JAX emits when it does without Shardy
    sites = []

    def visit(op):
        nonlocal by_partitioner
        operation = op.operation
        if operation.name == "func.call":
            sites.append((ir.FlatSymbolRefAttr(operation.attributes["callee"]).value, operation))
        elif operation.name == "stablehlo.custom_call":
            by_partitioner |= ir.StringAttr(operation.attributes["call_target_name"]).value == "SPMDFullToShardShape"
        return ir.WalkResult.ADVANCE

    program.operation.walk(visit)
    functions = set()  # that are called from a shard_map

    def inside(operation):
        while operation is not None and operation.name != "func.func":
            if operation.name == "sdy.manual_computation":
                return True
            operation = operation.parent and operation.parent.operation
        return operation is not None and ir.StringAttr(operation.attributes["sym_name"]).value in functions

    while more := {callee for callee, site in sites if callee not in functions and inside(site)}:
        functions |= more
    return lambda operation: by_partitioner or inside(operation)


def _around(program):
    """What a kernel's call must know of the program around it.

    alone: the kernel is all that it is made of: then its arrays come from HBM and go there.
    synchronised: it has collectives, where devices meet.
    """
    from jaxlib.mlir import ir

    names = []

    def visit(op):
        names.append(op.operation.name)
        return ir.WalkResult.ADVANCE

    program.operation.walk(visit)
    return {"alone": ir.BoolAttr.get(len([name for name in names if name not in _NO_OPS]) == 1, program.context),
            "synchronised": ir.BoolAttr.get(any(name in _COLLECTIVES for name in names), program.context)}


def _calls_of(program):
    from jaxlib.mlir import ir

    found = []

    def visit(op):
        operation = op.operation
        if (operation.name == "stablehlo.custom_call"
                and ir.StringAttr(operation.attributes["call_target_name"]).value == _THEIRS):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    program.operation.walk(visit)
    return found


def _may_go(theirs):
    """Only what uses its results needs it: XLA drops such calls on a TPU alone."""
    from jaxlib.mlir import ir

    noted = theirs.attributes.get("mhlo.frontend_attributes")
    droppable = noted is not None and "xla_allow_dce_side_effecting_op" in ir.DictAttr(noted)
    return droppable and not any(True for result in theirs.results for _ in result.uses)


def _config(text, vmem_limit):
    """What a kernel was compiled with, as JAX says it."""
    config = json.loads(text)
    if vmem_limit is None or config.get("scoped_memory_configs"):
        return text
    return json.dumps({**config, "scoped_memory_configs": [{"memory_space": _VMEM, "offset": 0, "size": vmem_limit}]})


def _replace_one(theirs, devices, around, vmem_limit):
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    attributes = theirs.attributes
    aliases = {}
    if "output_operand_aliases" in attributes:
        for alias in map(stablehlo.OutputOperandAlias, attributes["output_operand_aliases"]):
            aliases[alias.operand_index] = (list(alias.output_tuple_indices) or [0])[0]
    name = attributes.get("kernel_name", ir.StringAttr.get(""))
    has_side_effect = attributes.get("has_side_effect")
    shapes = [int(i) for i in attributes.get("indices_of_shape_operands", ())]  # of results whose extents were symbols
    types = [result.type for result in theirs.results]
    i64 = ir.IntegerType.get_signless(64)
    with theirs.location, ir.InsertionPoint(theirs):
        device = stablehlo.PartitionIdOp().result if devices > 1 else mlir.ir_constant(np.uint32(0))
        operands = [operand for i, operand in enumerate(theirs.operands) if i not in shapes]
        operands.append(device)
        ours = mlir.custom_call(
            _OURS,
            result_types=types,
            operands=operands,
            backend_config={
                "name": name,
                "config": ir.StringAttr.get(_config(ir.StringAttr(attributes["backend_config"]).value, vmem_limit)),
                "devices": ir.IntegerAttr.get(i64, devices),
                **around,
                "aliases": ir.DenseI64ArrayAttr.get([i for pair in aliases.items() for i in pair]),
            },
            api_version=4,
            has_side_effect=has_side_effect is not None and ir.BoolAttr(has_side_effect).value,
            operand_output_aliases=aliases,
            operand_layouts=_row_major(operand.type for operand in operands),
            result_layouts=_row_major(types),
            extra_attributes={kept: attributes[kept] for kept in ("mhlo.frontend_attributes",) if kept in attributes},
        )
    for before, after in zip(theirs.results, ours.results, strict=True):
        before.replace_all_uses_with(after)
    theirs.erase()


def _row_major(types):
    from jaxlib.mlir import ir

    return [list(reversed(range(ir.ShapedType(t).rank))) for t in types]
