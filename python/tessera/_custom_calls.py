"""Programs as JAX lowers them for a TPU: their Mosaic calls become ours before XLA compiles them for the CPU.

A tpu_custom_call has the module in its backend_config. tessera_mosaic_call has the same operands and results, after the
operands the logical id of its device (python/xla_bridge.cpp).
"""
import jax
import numpy as np

from tessera import _xla

_THEIRS = "tpu_custom_call"
_OURS = "tessera_mosaic_call"


def register():
    jax.ffi.register_ffi_type("tessera_site", _xla.site_type(), platform="cpu")
    jax.ffi.register_ffi_target(_OURS, _xla.registrations(), platform="cpu")


def replace(program):
    """All of a module of StableHLO, in place."""
    from jaxlib.mlir import ir

    found = []

    def visit(op):
        operation = op.operation
        if (operation.name == "stablehlo.custom_call"
                and ir.StringAttr(operation.attributes["call_target_name"]).value == _THEIRS):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    program.operation.walk(visit)
    if not found:
        return
    partitions = program.operation.attributes["mhlo.num_partitions"]
    with program.context:
        for theirs in found:
            _replace_one(theirs, ir.IntegerAttr(partitions).value)


def _replace_one(theirs, devices):
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    attributes = theirs.attributes
    aliases = {}
    if "output_operand_aliases" in attributes:
        for alias in map(stablehlo.OutputOperandAlias, attributes["output_operand_aliases"]):
            aliases[alias.operand_index] = (list(alias.output_tuple_indices) or [0])[0]
    name = attributes["kernel_name"] if "kernel_name" in attributes else ir.StringAttr.get("")
    types = [result.type for result in theirs.results]
    i64 = ir.IntegerType.get_signless(64)
    with theirs.location, ir.InsertionPoint(theirs):
        device = stablehlo.PartitionIdOp().result if devices > 1 else mlir.ir_constant(np.uint32(0))
        operands = [*theirs.operands, device]
        ours = mlir.custom_call(
            _OURS,
            result_types=types,
            operands=operands,
            backend_config={
                "name": name,
                "config": attributes["backend_config"],
                "devices": ir.IntegerAttr.get(i64, devices),
                "aliases": ir.DenseI64ArrayAttr.get([i for pair in aliases.items() for i in pair]),
            },
            api_version=4,
            has_side_effect=ir.BoolAttr(attributes["has_side_effect"]).value,
            operand_output_aliases=aliases,
            operand_layouts=_row_major(operand.type for operand in operands),
            result_layouts=_row_major(types),
        )
    for before, after in zip(theirs.results, ours.results, strict=True):
        before.replace_all_uses_with(after)
    theirs.erase()


def _row_major(types):
    from jaxlib.mlir import ir

    return [list(reversed(range(len(ir.RankedTensorType(t).shape)))) for t in types]
