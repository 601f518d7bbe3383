"""Runs the Pallas TPU kernels of JAX programs and Triton kernels on a laptop, and finds what is wrong with them.

    with tessera.simulate(device="tpu-v5e", schedule="on_wait") as report:
        y = model(x)                # jitted or not; each pallas_call runs in the simulator
    print(report)                   # bytes moved, VMEM, steps of each call
    tessera.check(kernel, naive, x, y)      # against a function of f64 arrays, by bounds and no tolerance
    print(tessera.sweep(kernel, x, y, bm=[64, 128, 256], device=["tpu-v5e", "tpu-v6e"]))
    tessera.autotune(kernel, bm=[64, 128, 256])(x, y)       # with the fastest of them, by the predicted time

    with tessera.simulate_triton(device="h100") as report:
        add[grid](x, y, out, n, BLOCK=1024)     # x, y, out: CPU tensors of torch, or tessera.DeviceArray(array)
    print(report)

What is executed of a Pallas kernel is the Mosaic module that a TPU build hands to its compiler, of a Triton kernel the
TTIR of Triton's own front end; everything else of the program stays as it is. A kernel that is wrong raises KernelError
with the line of its source. JAX, Triton and torch are imported when what needs them is used.
"""
import importlib

from tessera import _processor

_PLACES = {
    "KernelError": "_report", "Report": "_report", "capture": "_session", "make_goldens": "_session", "simulate": "_session",
    "Check": "_check", "ReferenceMismatch": "_check", "check": "_check",
    "Sweep": "_sweep", "sweep": "_sweep", "autotune": "_tuned", "overlay": "_tuned", "record": "_record", "kernel": "_kernel", "devices": "_devices",
    "DeviceArray": "_device_array", "TritonReport": "_triton_report", "simulate_triton": "_triton_session",
}
_MODULES = ("registry", "report")
__all__ = sorted((*_PLACES, *_MODULES))
__version__ = "0.1.0"
__path__ += filter(None, [_processor.folder(__path__[0])])  # where a wheel has its compiled modules


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"tessera.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'tessera' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tessera.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *__all__]
