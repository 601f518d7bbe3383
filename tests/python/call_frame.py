"""A handler of XLA's typed FFI called as XLA:GPU does (call_frame.cpp), on anybody's memory and stream."""
import ctypes

DTYPES = {"f32": 11, "bf16": 16, "f16": 10, "i32": 4}  # XLA_FFI_DataType


class _Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("data", ctypes.c_void_p), ("dims", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int64)]


def _arrays(given):
    return (_Array * len(given))(*(_Array(DTYPES[dtype], address, (ctypes.c_int64 * len(shape))(*shape), len(shape))
                                   for dtype, shape, address in given))


def call(library, handler, kernel, stream, operands, results):
    """operands and results: (dtype, shape, address). The error's words, or None."""
    words = ctypes.create_string_buffer(4096)
    failed = library.call_in_frame(ctypes.cast(handler, ctypes.c_void_p), kernel.encode(), ctypes.c_void_p(stream), _arrays(operands),
                                   len(operands), _arrays(results), len(results), words, len(words))
    return words.value.decode() if failed else None
