"""Kernels that are wrong with BAD=True, right without, and the arrays that they take."""
import inspect

import numpy as np

import tessera
from tessera import DeviceArray

N = 64


def array(kind):
    """"x" of numbers 0 to N - 1, "i" of those as int32, "z" of zeros, "l" a zero of int32, "u" of nothing yet."""
    if kind == "u":
        return DeviceArray.empty(N)
    made = {"x": np.arange(N, dtype=np.float32), "i": np.arange(N, dtype=np.int32), "z": np.zeros(N, np.float32),
            "l": np.zeros(1, np.int32)}[kind]
    return DeviceArray(made)


class Twins(dict):
    """By name."""

    def twin(self, slug, grid, arrays, *scalars):
        def keep(kernel):
            self[kernel.__name__] = (kernel, slug, grid, arrays, scalars)
            return kernel
        return keep

    def launch(self, name, bad):
        kernel, slug, grid, kinds, scalars = self[name]
        with tessera.simulate_triton("h100"):
            kernel[(grid,)](*map(array, kinds), *scalars, BAD=bad)

    def slug_and_place(self, name):
        """What is wrong, and where: "file:line" of the line marked found."""
        kernel, slug, *_ = self[name]
        lines, first = inspect.getsourcelines(kernel.fn)
        line, = (first + i for i, text in enumerate(lines) if text.endswith("# found\n"))
        return slug, f"{kernel.fn.__module__}.py:{line}"
