"""Runs the Pallas TPU kernels of JAX programs on a laptop, and finds what is wrong with them.

    with tessera.simulate(device="tpu-v5e", schedule="on_wait") as report:
        y = model(x)                # jitted or not; each pallas_call runs in the simulator
    print(report)                   # bytes moved, VMEM, steps of each call
    print(tessera.sweep(kernel, x, y, bm=[64, 128, 256], device=["tpu-v5e", "tpu-v6e"]))

What is executed is the Mosaic module that a TPU build hands to its compiler; everything else of the
program stays XLA's. A kernel that is wrong raises KernelError with the line of its source.
"""
from tessera._kernel import kernel
from tessera._report import KernelError, Report
from tessera._session import capture, make_goldens, simulate
from tessera._sweep import Sweep, sweep
from tessera._xla import device_names as devices

__all__ = ["KernelError", "Report", "Sweep", "capture", "devices", "kernel", "make_goldens", "simulate", "sweep"]
