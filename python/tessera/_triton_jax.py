"""jax_triton.triton_call in a simulation: on JAX's CPU devices a kernel is launched in a callback of the compiled program.

Libraries carry copies of jax_triton's module: whatever is imported and has its primitive counts.
"""
import contextlib
import importlib
import importlib.util
import os
import sys

from tessera import _triton_report
from tessera._device_array import DeviceArray
from tessera._report import KernelError

_PRIMITIVE = "triton_kernel_call_p"
_OF_A_GPUS_COMPILER = ("name", "custom_call_target_name", "device", "compute_capability", "enable_fp_fusion", "debug",
                       "serialized_metadata")
_OF_A_LAUNCH = ("num_warps", "num_stages", "num_ctas")
_lowered = set()
_wrong = []  # KernelErrors of launches, in the simulation that is on


@contextlib.contextmanager
def answering():
    """Programs that are lowered for the CPU launch what triton_call names. What is wrong with a kernel, which JAX wraps in an error of
    its own, leaves the simulation as KernelError."""
    import jax

    _import_without_a_gpu()
    if os.environ.get("TRITON_CACHE_DIR") == "":  # jax_triton's doing, which keeps what it compiles by itself
        del os.environ["TRITON_CACHE_DIR"]
    for module in list(sys.modules.values()):
        primitive = getattr(module, "__dict__", {}).get(_PRIMITIVE)
        if primitive is not None and primitive not in _lowered:
            from jax.interpreters import mlir

            _lowered.add(primitive)
            mlir.register_lowering(primitive, _lower, platform="cpu")
    _wrong.clear()
    try:
        yield
        if _lowered:
            for array in jax.live_arrays():  # programs run behind Python's back: those that were started here end here
                array.block_until_ready()
    except jax.errors.JaxRuntimeError:
        if not _wrong:
            raise
        raise _wrong[0] from None


def _import_without_a_gpu():
    """jax_triton asks JAX's library of GPUs as it is imported."""
    if "jax_triton" in sys.modules or importlib.util.find_spec("jax_triton") is None:
        return
    from jaxlib import gpu_triton

    for name in ("get_compute_capability", "get_serialized_metadata"):
        if not hasattr(gpu_triton, name):
            setattr(gpu_triton, name, _of_no_gpu)
    cache = os.environ.get("TRITON_CACHE_DIR", "")
    with contextlib.suppress(ImportError):  # who imports it gets that
        importlib.import_module("jax_triton")
        os.environ["TRITON_CACHE_DIR"] = cache


def _of_no_gpu(*_):
    raise RuntimeError("here is no GPU: tessera.simulate_triton() answers for triton_call, not for JAX's GPU plugin")


def _lower(ctx, *operands, out_shapes, **call):
    import jax
    from jax.interpreters import mlir

    def program(*arrays):
        return jax.pure_callback(lambda *values: _launch(values, out_shapes, **call), list(out_shapes), *arrays)

    return mlir.lower_fun(program, multiple_results=True)(ctx, *operands)


def _launch(values, out_shapes, *, fn, scalar_args, grid, input_output_aliases, zeroed_outputs, **others):
    import numpy as np

    if _triton_report.running() is None:
        raise RuntimeError(f"{getattr(fn, '__name__', fn)} was called by triton_call outside of tessera.simulate_triton(), and here "
                           "is no GPU")
    options = {name: others.pop(name) for name in _OF_A_LAUNCH if others.get(name) is not None}
    constants = {name: value for name, value in others.items() if name not in _OF_A_GPUS_COMPILER + _OF_A_LAUNCH}
    values = [np.asarray(value) for value in values]
    held = {output: values[operand] for operand, output in input_output_aliases}
    zeroed = zeroed_outputs(constants) if callable(zeroed_outputs) else zeroed_outputs
    results = []
    for i, shape in enumerate(out_shapes):
        if i in held:
            results.append(DeviceArray(held[i].copy()))
        elif i in zeroed:
            results.append(DeviceArray(np.zeros(shape.shape, shape.dtype)))
        else:
            results.append(DeviceArray.empty(shape.shape, shape.dtype))
    arguments = list(map(DeviceArray, values))
    for operand, output in input_output_aliases:
        arguments[operand] = results[output]
    for place, _, scalar in scalar_args:
        arguments.insert(place, scalar)

    def extents(meta):
        asked = grid({**constants, **meta}) if callable(grid) else grid
        return (asked,) if isinstance(asked, int) else tuple(asked)

    try:
        fn[extents](*arguments, *results, **constants, **options)
    except KernelError as e:
        _wrong.append(e)
        raise
    return [result.array for result in results]
