"""tessera's kernels on an NVIDIA GPU, called with the arrays of torch, of JAX, and of any library that speaks DLPack.

    matmul = tessera.cuda.kernel("matmul", m=4096, n=4096, k=4096, dtype="bf16")
    z = matmul(x, y)                # torch tensors on a GPU; on torch's current stream, nothing is copied
    matmul(x, y, out=z)             # into an array that is there
    z = jax.jit(matmul)(x, y)       # arrays of JAX, in jit or without: a custom call on XLA's stream and memory

The program `tessera` compiles the kernel for these tiles once (nvcc, seconds) and its cache keeps it. After the first call on
a stream nothing is allocated but the outputs, and with out= not those: torch.cuda.graph may capture it. What is behind it is
the C interface of cuda/c_api.h.
"""
import ctypes
import functools
import hashlib
import math
import re
import subprocess
import sys

from tessera import _program

_CUDA, _CUDA_HOST, _CUDA_MANAGED = 2, 3, 13  # DLDeviceType
_CODES = {"i": 0, "u": 1, "f": 2, "bf": 4, "b": 6}  # DLDataTypeCode
_DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn",
           "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u32": "uint32",
           "u16": "uint16", "u8": "uint8"}  # as torch and JAX name them


class _Prefetched(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class _Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_int), ("read", ctypes.c_int), ("written", ctypes.c_int)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Operand:
    """An array that a kernel takes: its name, element type ("bf16"), shape, and whether the kernel reads and writes it."""

    def __init__(self, array):
        self.name, self.dtype = array.name.decode(), array.dtype.decode()
        self.shape = tuple(array.shape[:array.rank])
        self.read, self.written = bool(array.read), bool(array.written)

    def __repr__(self):
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    @functools.cached_property
    def torch_dtype(self):
        return _torch_dtypes()[self.dtype]

    @property
    def dtype_name(self):
        """"bfloat16" of "bf16"."""
        return _DTYPES[self.dtype]

    @staticmethod
    def name_of(dtype_name):
        """"bf16" of "bfloat16"."""
        return next((ours for ours, theirs in _DTYPES.items() if theirs == dtype_name), dtype_name)

    def check(self, kernel, dtype, shape, contiguous, on_gpu):
        """Raises ValueError unless an array with these is one of it."""
        if dtype != self.dtype or tuple(shape) != self.shape:
            raise ValueError(f"{kernel}: {self.name} is {self.dtype}{list(self.shape)}, not {dtype}{list(shape)}")
        if not contiguous:
            raise ValueError(f"{kernel}: the rows of {self.name} lie apart: .contiguous() puts them one after the other")
        if not on_gpu:
            raise ValueError(f"{kernel}: {self.name} lies in the host's memory: move it to the GPU (tensor.cuda(), jax.device_put)")


class Kernel:
    """A kernel with its sizes. Called with its inputs, in the order of `operands`; gives its output, or a tuple of them."""

    def __init__(self, path, name, dtype, tiles, sizes, prefetched=None):
        self._library, self._call = _library(path)
        self.name = name
        kept = {key: _in_host_memory(value) for key, value in (prefetched or {}).items()}
        given = (_Prefetched * len(kept))(*((key.encode(), value.ctypes.data, value.nbytes) for key, value in kept.items()))
        self._handle = self._library.tessera_cuda_bind(
            name.encode(), dtype.encode(), (ctypes.c_int * len(tiles))(*tiles), len(tiles),
            (ctypes.c_double * len(sizes))(*sizes), len(sizes), given, len(kept))
        if not self._handle:
            raise ValueError(self._error())
        arrays = self._library.tessera_cuda_arrays(self._handle)
        self.operands = [Operand(arrays[i]) for i in range(self._library.tessera_cuda_array_count(self._handle))]
        self._inputs = [(i, o) for i, o in enumerate(self.operands) if o.read]
        self._outputs = [(i, o) for i, o in enumerate(self.operands) if o.written]
        self._fresh = [(i, o) for i, o in self._outputs if not o.read]
        self._arguments = self._inputs + self._fresh
        self._pointers = (ctypes.c_void_p * len(self.operands))()  # filled and read while the interpreter's lock is held
        self._said = " ".join([name, dtype, *map(str, tiles), "of", *(f"{size:g}" for size in sizes)])
        if kept:
            self._said += " " + hashlib.sha256(repr([(k, v.tobytes()) for k, v in sorted(kept.items())]).encode()).hexdigest()[:16]

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.tessera_cuda_release(self._handle)

    def __repr__(self):
        return f"<tessera kernel {self.name}: {', '.join(map(repr, self.operands))}>"

    def _error(self):
        return self._library.tessera_cuda_error().decode()

    def keep(self, keep, name):
        """Hands it to `keep` (python/cuda_calls.cpp), which calls it from now on."""
        functions = (ctypes.cast(f, ctypes.c_void_p) for f in (self._library.tessera_cuda_call, self._library.tessera_cuda_error))
        keep(name.encode(), self._handle, self._library.tessera_cuda_arrays(self._handle), len(self.operands), *functions)

    def __call__(self, *inputs, out=None, stream=None):
        """out: the array, or the tuple of arrays, to write, where no input is written in place. stream: a cudaStream_t as an
        integer; by default torch's current one, or the legacy stream where no argument is a torch tensor. Arrays of JAX take
        neither: XLA says where and when."""
        if len(inputs) != len(self._inputs):
            raise TypeError(f"{self.name} takes {', '.join(o.name for _, o in self._inputs)}, not {len(inputs)} arrays")
        jax = sys.modules.get("jax")
        if jax is not None and any(isinstance(array, jax.Array) for array in inputs):
            if out is not None or stream is not None:
                raise TypeError(f"{self.name}: out= and stream= are not for arrays of JAX, which are made anew on XLA's stream")
            from tessera import _cuda_jax

            return _cuda_jax.call(self, self._said, inputs)
        outs = () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if out is not None and len(outs) != len(self._fresh):
            raise TypeError(f"{self.name} writes {', '.join(o.name for _, o in self._fresh)}, not {len(outs)} arrays")
        torch = sys.modules.get("torch")
        tensor = torch.Tensor if torch is not None else ()
        pointers = self._pointers
        arrays = [None] * len(self.operands)
        device, lent = None, []
        for (i, operand), array in zip(self._arguments, inputs + outs):
            if isinstance(array, tensor):
                device = array.get_device()
                if (array.dtype is not operand.torch_dtype or array.shape != operand.shape or device < 0 or
                        not array.is_contiguous()):
                    operand.check(self.name, _name_of(array.dtype), array.shape, array.is_contiguous(), device >= 0)
                pointers[i] = array.data_ptr()
            else:
                lent.append(_lend(self.name, operand, array, stream))
                pointers[i] = lent[-1].address
            arrays[i] = array
        if out is None and self._fresh:
            if device is None:
                raise TypeError(f"{self.name}: out= says where to write: no argument is a torch tensor")
            for i, operand in self._fresh:
                arrays[i] = torch.empty(operand.shape, dtype=operand.torch_dtype, device=device)
                pointers[i] = arrays[i].data_ptr()
        if stream is None:
            stream = 0 if device is None else torch._C._cuda_getCurrentRawStream(device)
        if self._call(self._handle, pointers, stream):
            raise RuntimeError(self._error())
        if lent and self._library.tessera_cuda_wait(stream):  # until then their memory is theirs
            raise RuntimeError(self._error())
        if len(self._outputs) == 1:
            return arrays[self._outputs[0][0]]
        return tuple(arrays[i] for i, _ in self._outputs)


def kernel(name, *, dtype="f32", prefetched=None, **sizes):
    """A kernel of `tessera list`, compiled for NVIDIA GPUs.

    sizes: problem and tile sizes by their names, and case=N for a case of the kernel's; what is not said is the case's.
    prefetched: what the kernel prepares on the host, by name (kv_lengths=[...]): lists of int, or arrays in host memory.

    Needs the program `tessera` (on PATH, or named by the environment variable TESSERA), built with nvcc. Raises ValueError for
    what it, or nvcc, refuses, in its words. A GPU is needed at the first call alone.
    """
    words = [f"--case={sizes.pop('case')}"] if "case" in sizes else []
    words += [f"{size}={value}" for size, value in sizes.items()]
    path, tiles, values = _compiled(name, tuple(words), dtype)
    return Kernel(path, name, dtype, tiles, values, prefetched)


@functools.cache
def _compiled(name, words, dtype):
    program = _program.path()
    if program is None:
        raise FileNotFoundError("no program `tessera` on PATH, nor one that TESSERA names: it builds kernels")
    done = subprocess.run([program, "build", name, *words, "--dtype", dtype, "--target", "cuda"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError((done.stderr or done.stdout).strip())
    said = re.match(r"\S+ \S+((?: \w+=\S+?)*),((?: \w+=\d+)*): .*\n(.*)\n", done.stdout)
    values = [[float(word.split("=")[1]) for word in part.split()] for part in said.group(1, 2)]
    return said[3], [int(tile) for tile in values[1]], values[0]


@functools.cache
def _library(path):
    library = ctypes.CDLL(path)
    library.tessera_cuda_bind.restype = ctypes.c_void_p
    library.tessera_cuda_bind.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                                          ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    library.tessera_cuda_release.argtypes = [ctypes.c_void_p]
    library.tessera_cuda_release.restype = None
    library.tessera_cuda_array_count.argtypes = [ctypes.c_void_p]
    library.tessera_cuda_arrays.argtypes = [ctypes.c_void_p]
    library.tessera_cuda_arrays.restype = ctypes.POINTER(_Array)
    library.tessera_cuda_wait.argtypes = [ctypes.c_void_p]
    library.tessera_cuda_error.restype = ctypes.c_char_p
    call = ctypes.PyDLL(path).tessera_cuda_call  # keeps the interpreter's lock: it starts a kernel, no more
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return library, call


@functools.cache
def _torch_dtypes():
    import torch

    return {ours: getattr(torch, theirs) for ours, theirs in _DTYPES.items() if hasattr(torch, theirs)}


def _name_of(dtype):
    return next((ours for ours, theirs in _torch_dtypes().items() if theirs is dtype), str(dtype))


class _lend:
    """An array of DLPack, held while it lives."""

    def __init__(self, kernel, operand, array, stream):
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"{kernel}: {operand.name} is no array on a GPU, but {type(array).__name__}")
        on_gpu = array.__dlpack_device__()[0] in (_CUDA, _CUDA_HOST, _CUDA_MANAGED)
        # 1 is the legacy stream, which CUDA's calls name 0.
        self._capsule = array.__dlpack__(stream=stream or 1) if on_gpu else array.__dlpack__()
        tensor = _capsule_pointer(self._capsule, b"dltensor")
        shape = tuple(tensor.shape[:tensor.ndim])
        rows = [math.prod(shape[d + 1:]) for d in range(tensor.ndim)]
        packed = not tensor.strides or all(n == 1 or tensor.strides[d] == rows[d] for d, n in enumerate(shape))
        code = {number: letters for letters, number in _CODES.items()}.get(tensor.code, f"code {tensor.code} of ")
        operand.check(kernel, f"{code}{tensor.bits}", shape, packed, on_gpu)
        self.address = tensor.data + tensor.byte_offset


def _capsule_pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(capsule, name), ctypes.POINTER(_DLTensor)).contents


def _in_host_memory(values):
    import numpy as np

    return np.ascontiguousarray(values, dtype=np.int32 if isinstance(values, (list, tuple)) else None)
