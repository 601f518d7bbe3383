"""Triton's driver of a simulated GPU: launches go to tessera._triton, on the caller's own memory.

Devices have numbers that no GPU has, so that nothing compiled for a simulation serves a GPU, or the other way.
"""
import functools
import json
import os
import re

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase, decompose_descriptor

from tessera import _triton, _triton_report
from tessera.triton_backend import resources

_ARCHES = {"a100": 80, "b200": 100, "h100": 90, "h200": 90, "l4": 89, "rtx-4090": 89}
_FIRST_DEVICE = 1000


class Launcher:
    """A kernel of Triton's, ready to be launched."""

    def __init__(self, src, metadata):
        self._src = src
        self._metadata = metadata
        self._fresh = None
        self.paths = []
        self.descriptors = set()  # those of the paths at which one is
        types = []
        for i, type_ in enumerate(src.signature.values()):
            self._add((i,), type_, types)
        plain = not self.descriptors and all(len(path) == 1 for path in self.paths)
        self.flat = [path[0] for path in self.paths] if plain else None
        self.signature = _triton.Signature(types)

    def _add(self, path, type_, types):
        if isinstance(type_, (tuple, list)):
            for i, each in enumerate(type_):
                self._add((*path, i), each, types)
        elif type_.startswith("tensordesc"):
            dtype, block = re.match(r"tensordesc\w*<([^[>]*)\[([^\]]*)\]", type_).groups()
            rank = re.search(r",input_rank=(\d+)", type_)
            rank = int(rank[1]) if rank else block.count(",") + 1
            self.descriptors.add(path)
            self.paths.append(path)
            types += [f"*{dtype}", *["i64"] * (2 * rank), "i1", "i1", *["i32"] * rank, *["i64"] * rank]
        elif type_ != "constexpr":
            self.paths.append(path)
            types.append(type_)

    def __call__(self, x, y, z, stream, function, packed, launch_metadata, enter, exit_, *args):
        __tracebackhide__ = True  # of pytest, which then ends nearer to the user's launch
        if self._fresh is None:
            self._fresh = self._with_lines_of_today(function)
        if enter is not None:
            enter(launch_metadata)
        given = [args[i] for i in self.flat] if self.flat is not None else self._given(args)
        _triton_report.current().launch(self.signature, self._fresh, x, y, z, given)
        if exit_ is not None:
            exit_(launch_metadata)

    def _given(self, args):
        given = []
        for path in self.paths:
            value = args
            for i in path:
                value = value[i]
            if path in self.descriptors:
                given += decompose_descriptor(value)
            else:
                given.append(value)
        return given

    def _with_lines_of_today(self, specialisation):
        """Triton's cache goes by a function's text and line, and may give what was compiled from a file of another name, by another
        environment's Triton."""
        fn = getattr(self._src, "fn", None)
        files = set(re.findall(r'loc\("([^"]+)":\d', specialisation.ttir))
        if fn is None or (fn.fn.__code__.co_filename in files and all(map(os.path.exists, files))):
            return specialisation
        options = self._metadata._asdict()
        options["extern_libs"] = {name: path for name, path in dict(options["extern_libs"]).items() if os.path.exists(path)}
        with knobs.compilation.scope():
            knobs.compilation.always_compile = True
            compiled = triton.compile(self._src, target=self._metadata.target, options=options)
        return _specialisation(compiled.name, compiled.kernel)


def _launcher(src, metadata):
    """Triton asks again before each launch: what it is told to unload later, which nobody could do then, is None."""
    launcher = vars(src).get("_tessera_launcher")
    if launcher is None:
        launcher = src._tessera_launcher = Launcher(src, metadata)
    return launcher


def _heard(hook):
    """Whether anybody listens: Triton's own hooks are chains, empty mostly."""
    return bool(getattr(hook, "calls", hook))


@functools.cache
def loaded_once(triton_s):
    """In place of Triton's class of compiled kernels in a simulation. Triton goes by the module that it is to unload, which is None
    here, and would load the kernel before each launch; what hooks are told is made where there are any."""
    class CompiledKernel(triton_s):
        def _init_handles(self):
            if self.function is None:
                super()._init_handles()

        def launch_metadata(self, grid, stream, *args):
            if _heard(knobs.runtime.launch_enter_hook) or _heard(knobs.runtime.launch_exit_hook):
                return super().launch_metadata(grid, stream, *args)
            return None

    return CompiledKernel


_specialisations = {}  # by what the last stage made


def _specialisation(name, kernel):
    found = _specialisations.get(kernel)
    if found is None:
        first, module = kernel.decode().split("\n", 1)
        settings = json.loads(first)
        options, taken = settings["options"], settings.get("resources")
        found = _specialisations[kernel] = _triton.Specialisation(
            module, name, settings["fusion"], settings.get("layouts") or "", options["num_warps"], options["num_stages"],
            *((taken["registers"], taken["shared"]) if taken else ()))
    return found


class _Utils:
    """What Triton asks of a driver besides."""

    def __init__(self, driver):
        self._driver = driver

    def load_binary(self, name, kernel, shared, device):
        taken = json.loads(kernel[:kernel.index(b"\n")]).get("resources") or {"registers": 0, "spills": 0}
        registers = taken["registers"]
        return None, _specialisation(name, kernel), registers, taken["spills"], resources.most_threads(registers)

    def get_device_properties(self, device):
        _, _, cores, shared, hbm = self._driver.gpu
        return {"max_shared_mem": shared, "max_num_regs": 65536, "multiprocessor_count": cores, "warpSize": 32,
                "sm_clock_rate": 0, "mem_clock_rate": 0, "mem_bus_width": 0, "total_memory": hbm}


class TesseraDriver(DriverBase):
    """`device`: a GPU that tessera knows."""

    answers_for_cuda = False  # a simulation that does is on

    def __init__(self, device=None, cuda=False, sectors=False, resources=False):
        self.gpu = _triton.gpu(device or os.environ.get("TESSERA_TRITON_DEVICE", "h100"))
        self.utils = _Utils(self)
        self.launcher_cls = _launcher
        name = self.gpu[0]
        self._target = GPUTarget("cuda" if cuda else "tessera", _ARCHES.get(name, 90), 32)
        self._number = _FIRST_DEVICE + 8 * _triton.device_names().index(name) + 4 * resources + 2 * sectors + cuda

    @staticmethod
    def is_active():
        return TesseraDriver.answers_for_cuda or os.environ.get("TRITON_DEFAULT_BACKEND") == "tessera"

    def map_python_to_cpp_type(self, ty):
        raise NotImplementedError("tessera compiles no launchers")

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return self._number

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device=None):
        return 0

    def get_device_capability(self, device=None):
        return divmod(self._target.arch, 10)

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")

    def get_device_interface(self):
        from tessera import _triton_clock

        return _triton_clock

    def get_benchmarker(self):
        from tessera import _triton_clock

        return _triton_clock.do_bench

    def get_empty_cache_for_benchmark(self):
        return None

    def clear_cache(self, cache):
        pass

    def assemble_tensormap_to_arg(self, tensormaps_info, args):
        return args
