"""tessera's own kernels, C++ bodies, as functions of JAX arrays: their TPU build."""
import functools
import importlib.util
import os
import pathlib
import subprocess
import tempfile

from tessera import _jax, _program


def kernel(name, *, dtype="f32", device="tpu-v5e", folder=None, **sizes):
    """The TPU build of a kernel of `tessera list`, as a function of JAX arrays.

        matmul = tessera.kernel("matmul", m=512, n=512, k=512, dtype="bf16")
        with tessera.simulate("tpu-v5e"):
            z = jax.jit(matmul)(x, y)       # here, on tessera's machine; without simulate, on a TPU

    sizes: problem and tile sizes by their names, and case=N for a case of the kernel's; what is not said is the case's.
    It takes arrays of these shapes and no others, and prefetched arrays are those that it was built with.
    device: the TPU that sizes are checked for. folder: where the build is kept; by default one that goes with the process.

    Needs the program `tessera` (on PATH, or named by the environment variable TESSERA) and JAX 0.10. Raises ValueError
    for what the program refuses, in its words; RuntimeError where there is neither a TPU nor a simulation.
    """
    _jax.install()
    words = [f"--case={sizes.pop('case')}"] if "case" in sizes else []
    words += [f"{size}={value}" for size, value in sizes.items()]
    build = _build(name, tuple(words), dtype, device, None if folder is None else os.path.abspath(folder))

    @functools.wraps(build)
    def call(*arrays):
        import jax

        if not _jax.simulating() and jax.default_backend() != "tpu":
            raise RuntimeError(f"{name} runs on a TPU, or inside of `with tessera.simulate():`; JAX's backend here is {jax.default_backend()}")
        return build(*arrays)

    return call


@functools.cache
def _build(name, words, dtype, device, folder):
    folder = folder or os.path.join(_scratch().name, f"{len(os.listdir(_scratch().name))}_{name}")
    program = _program.path()
    if program is None:
        raise FileNotFoundError("no program `tessera` on PATH, nor one that TESSERA names: it builds kernels")
    done = subprocess.run([program, "build", name, *words, "--dtype", dtype, "--device", device, "--target", "tpu",
                           "--out", folder], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError((done.stderr or done.stdout).strip())
    spec = importlib.util.spec_from_file_location(f"tessera_kernel_{name}", pathlib.Path(folder) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@functools.cache
def _scratch():
    return tempfile.TemporaryDirectory(prefix="tessera_kernels_")
