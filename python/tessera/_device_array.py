"""NumPy arrays as arguments of Triton kernels."""
import math
import mmap
import weakref

import numpy as np

_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python does not name


class DeviceArray:
    """What a Triton kernel takes for a tensor: a NumPy array, whose memory it shares.

        x = tessera.DeviceArray(np.arange(1000, dtype=np.float32))
        out = tessera.DeviceArray.empty(1000, np.float32)       # undefined, until a kernel writes it

    bf16 and fp8 are ml_dtypes'. `array` is the array; what a kernel reads or writes outside of the allocation that it is
    a part of is an error; simulate_triton(views=True): outside of the array, if it is a view of less (before its first
    element in memory, or behind its last).
    """

    __slots__ = ("_array", "dtype", "_tessera_base", "_tessera_bytes", "_tessera_view", "_owner", "_address", "_noted", "__weakref__")

    def __init__(self, array):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"DeviceArray takes a numpy.ndarray, not {type(array).__name__}")
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        low, high = np.lib.array_utils.byte_bounds(owner)
        self._array = array
        self.dtype = array.dtype
        self._owner = owner
        self._tessera_base = low
        self._tessera_bytes = high - low
        self._tessera_view = None  # all of it
        if array is not owner and array.size > 0:
            first, last = np.lib.array_utils.byte_bounds(array)
            if (first, last) != (low, high):
                self._tessera_view = first - low, last - low
        self._address = array.__array_interface__["data"][0]
        self._noted = False

    @classmethod
    def empty(cls, shape, dtype=np.float32):
        """Of undefined elements: a kernel that makes a result of them is wrong (uninit-read). They are until a kernel writes
        them, or the program looks at `array`."""
        from tessera import _triton

        made = cls(np.empty(shape, dtype))
        _triton.declare_undefined(made._tessera_base, made._tessera_bytes)
        weakref.finalize(made._owner, _triton.declare_defined, made._tessera_base)
        return made

    @classmethod
    def reserved(cls, shape, dtype=np.float32):
        """As `empty`, of addresses that have no memory until somebody touches them: for simulate_triton(dry=True), as large
        as an array of a real model."""
        from tessera import _triton

        dtype = np.dtype(dtype)
        elements = math.prod(shape) if isinstance(shape, (tuple, list)) else shape
        memory = mmap.mmap(-1, max(1, elements * dtype.itemsize), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        made = cls(np.frombuffer(memory, dtype, elements).reshape(shape))
        _triton.declare_undefined(made._tessera_base, made._tessera_bytes)
        weakref.finalize(made._owner, _triton.declare_defined, made._tessera_base)
        return made

    @property
    def array(self):
        from tessera import _triton

        if _triton.any_undefined():
            _triton.declare_defined(self._tessera_base)
        return self._array

    @property
    def writable(self):
        return self._array.flags.writeable

    def data_ptr(self):
        if not self._noted:  # the address may be stored, for a kernel to load
            from tessera import _triton

            self._noted = True
            _triton.note_allocation(self._tessera_base, self._tessera_bytes)
            weakref.finalize(self._owner, _triton.forget_allocation, self._tessera_base)
        return self._address

    @property
    def data(self):
        return self._array.data

    @property
    def device(self):
        return "cpu"

    @property
    def shape(self):
        return self._array.shape

    @property
    def ndim(self):
        return self._array.ndim

    def stride(self, dim=None):
        """In elements, as torch has it."""
        strides = tuple(s // self._array.itemsize for s in self._array.strides)
        return strides if dim is None else strides[dim]

    def numel(self):
        return self._array.size

    def element_size(self):
        return self._array.itemsize

    # What triton.autotune does to arguments named by reset_to_zero and restore_value.
    def zero_(self):
        self.array[...] = 0
        return self

    def clone(self):
        return DeviceArray(self.array.copy())

    def copy_(self, other):
        self.array[...] = other.array if isinstance(other, DeviceArray) else other
        return self

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype, copy=copy)

    def __len__(self):
        return len(self._array)

    def __getitem__(self, index):
        """A view, of the same allocation."""
        return DeviceArray(self._array[index])

    def __repr__(self):
        return f"DeviceArray({self._array!r})"
