"""tessera.cuda's kernels as custom calls of XLA (python/cuda_calls.cpp), so that jax.jit takes them."""
import ctypes
import functools
import pathlib

import jax

import tessera

_TARGET = "tessera_cuda_call"
_kept = {}  # by name: what a compiled program calls lives as long as the process


def call(kernel, name, inputs):
    """The outputs of a tessera.cuda.Kernel for arrays of JAX or tracers of them; `name` says what it is in any process."""
    for operand, array in zip((o for o in kernel.operands if o.read), inputs):
        if not isinstance(array, jax.Array):
            raise TypeError(f"{kernel.name}: {operand.name} is no array of JAX, but {type(array).__name__}")
        on_gpu = isinstance(array, jax.core.Tracer) or all(d.platform in ("cuda", "gpu") for d in array.devices())
        operand.check(kernel.name, operand.name_of(array.dtype.name), array.shape, True, on_gpu)
    library = _registered()
    if name not in _kept:
        _kept[name] = kernel
        kernel.keep(library.tessera_cuda_xla_keep, name)
    read = [o for o in kernel.operands if o.read]
    written = [o for o in kernel.operands if o.written]
    results = [jax.ShapeDtypeStruct(o.shape, jax.numpy.dtype(o.dtype_name)) for o in written]
    aliases = {read.index(o): i for i, o in enumerate(written) if o.read}
    made = jax.ffi.ffi_call(_TARGET, results, vmap_method="sequential", input_output_aliases=aliases)(*inputs, kernel=name)
    return made[0] if len(made) == 1 else tuple(made)


@functools.cache
def _registered():
    there = [path for folder in tessera.__path__ if (path := pathlib.Path(folder) / "_cuda_calls.so").exists()]
    if not there:
        raise ImportError("tessera was built without its calls from JAX: _cuda_calls.so is not beside its modules")
    library = ctypes.CDLL(str(there[0]))
    library.tessera_cuda_xla_keep.restype = None
    library.tessera_cuda_xla_keep.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                                              ctypes.c_void_p]
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(library.tessera_cuda_xla_call), platform="CUDA")
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(library.tessera_cuda_xla_on_host), platform="cpu")
    return library
