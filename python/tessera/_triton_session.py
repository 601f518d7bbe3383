"""simulate_triton()."""
import contextlib
import functools
import importlib.util
import os
import re
import sys

from tessera import _triton, _triton_report
from tessera._settings import device_named, host_threads, seconds

_MOST_CALLS = 20_000
_CHECKS = ("all", "report")


@contextlib.contextmanager
def simulate_triton(device="h100", checks="all", *, threads=0, profile="exact", time_limit=None, cuda=False,
                    sectors=False, views=False, dry=False, resources=False):
    """Runs each Triton kernel launched inside on a simulated GPU, on the caller's memory; gives a TritonReport.

    Arguments of kernels are torch's CPU tensors, or DeviceArrays around NumPy's arrays. No GPU is needed, and no torch.
    What jax_triton.triton_call names runs too, on JAX's CPU devices; without JAX's GPU plugin jax_triton is imported inside.

    device: a GPU of `tessera.devices()`, or a file like those of memory_model/devices.
    checks: "all" raises KernelError at the first thing that is wrong; "report" notes what is wrong with each launch in
      the report and goes on: memory is then as it was before the launch, or, where a result is undefined, as the launch
      left it.
    threads: of the host; 0: what OpenMP offers. Results are the same bits for every number.
    profile: "exact"; "gpu:hopper" with a Hopper's functions, products and fused multiply-adds; "tensorcore:hopper" its
      products alone.
    time_limit: seconds for the whole simulation; a kernel that runs then ends with KernelError[time-limit] and the line
      it was in, as it ends with KeyboardInterrupt after Ctrl-C. None: as long as it takes.
    cuda: True: the simulation answers for "cuda", too: Triton's target is CUDA's, and torch's device "cuda" means this
      machine's memory. It says so on standard error.

    sectors: True: the report's lines also say which sectors of 32 bytes the warps ask of the L1, for the layouts that Triton's
      compiler chooses for the GPU (about a second more per kernel that is compiled). Of kernels with descriptors: what
      they are without TMA.
    views: True: an argument that is a view (x[3], x[:, 0]) ends where the view ends, not where its allocation does. Not
      the default: programs give a slice to say where to begin.

    dry: True: no element of a tensor is read, computed or written: what programs access is counted from addresses and masks,
      and checked, so that shapes may be a real model's (DeviceArray.reserved: arrays without memory). Races are not looked for.
      A load that decides where another access is, or which way a program goes, reads its elements.

    resources: True: what a kernel takes of an SM is what Triton's compiler and ptxas make of it for the GPU (some seconds more per
      kernel that is compiled): Triton raises OutOfResources where its shared memory is more than the device's, and autotuning
      leaves such configurations out, as on a GPU; n_regs and n_spills of a compiled kernel are the GPU's.

    Autotuning, triton.testing.do_bench and torch.cuda.Event read the device's predicted time (predict/grid_time.hpp).
    """
    import triton
    from triton import testing
    from triton.backends import Backend, backends

    from tessera.triton_backend import assembly, compiler, driver

    device = device_named(device)
    if checks not in _CHECKS:
        raise ValueError(f"checks={checks!r}: one of {', '.join(map(repr, _CHECKS))}")
    threads = host_threads(threads)
    if time_limit is not None:
        time_limit = seconds("time_limit", time_limit)
    compiler.printer()
    if "tessera" not in backends:  # not installed: run from a build folder
        backends["tessera"] = Backend(compiler.TesseraBackend, driver.TesseraDriver)
    whole = _triton_report.running()
    if whole is not None and not whole.report.calls and os.environ.get("TRITON_DEFAULT_BACKEND") == "tessera":
        _triton_report.stop()
    _triton.start(device=device, threads=threads, profile=profile, time_limit=time_limit or 0.,
                  most_launched=_MOST_CALLS, views=views, dry=dry)
    with contextlib.ExitStack() as undo:
        undo.callback(_triton_report.stop)
        simulated = driver.TesseraDriver(device, cuda, sectors, resources)
        undo.callback(setattr, compiler.TesseraBackend, "sectors", compiler.TesseraBackend.sectors)
        compiler.TesseraBackend.sectors = sectors
        undo.callback(setattr, compiler.TesseraBackend, "resources", compiler.TesseraBackend.resources)
        compiler.TesseraBackend.resources = resources
        tensors = None
        if "torch" in sys.modules or (cuda and importlib.util.find_spec("torch") is not None):
            from tessera import _torch

            tensors = undo.enter_context(_torch.tensors(simulated, cuda))
        session = _triton_report.Session(checks == "report", tensors)
        _triton_report.begin(session)
        undo.callback(session.report._close)
        config = triton.runtime.driver
        before = config._active
        config.set_active(simulated)
        undo.callback(setattr, config, "_active", before)
        if cuda:
            undo.enter_context(_answer_for_cuda(backends, compiler.TesseraBackend, driver.TesseraDriver))
        compiled = triton.compiler.compiler
        undo.callback(setattr, compiled, "AsmDict", compiled.AsmDict)
        compiled.AsmDict = assembly.made_when_asked(compiled.AsmDict)
        undo.callback(setattr, compiled, "CompiledKernel", compiled.CompiledKernel)
        compiled.CompiledKernel = driver.loaded_once(compiled.CompiledKernel)
        do_bench = testing.do_bench
        from tessera import _triton_clock

        testing.do_bench = _triton_clock.do_bench
        undo.callback(setattr, testing, "do_bench", do_bench)
        if "jax" in sys.modules or importlib.util.find_spec("jax_triton") is not None:
            from tessera import _triton_jax

            undo.enter_context(_triton_jax.answering())
        try:
            yield session.report
        except TypeError as e:
            _say_what_arguments_are(e)
            raise


def _say_what_arguments_are(error):
    """Triton names the type alone."""
    if re.search(r"specialize argument of type: (ndarray|ArrayImpl)$", str(error)):
        error.add_note("tessera: a NumPy array is an argument as tessera.DeviceArray(array), a JAX array through jax_triton.triton_call")


@functools.cache
def _say_what_cuda_is():
    sys.stderr.write("tessera: this simulation answers for \"cuda\": what says so runs on this machine's memory, not on a GPU\n")


@contextlib.contextmanager
def _answer_for_cuda(backends, ours, driver):
    """Libraries look for the one active driver among Triton's backends."""
    _say_what_cuda_is()
    nvidia = backends.pop("nvidia", None)
    ours.targets.add("cuda")
    before, driver.answers_for_cuda = driver.answers_for_cuda, True
    try:
        yield
    finally:
        driver.answers_for_cuda = before
        ours.targets.discard("cuda")
        if nvidia is not None:
            backends["nvidia"] = nvidia
