"""torch in a simulation: which of its memory is undefined, and what its device "cuda" is.

Memory of torch.empty and its kin is undefined until a kernel writes it, or torch does: then the tensor's version has
changed. Where that cannot be seen (.data, .numpy(), DLPack), it is taken to be defined.
"""
import contextlib
import functools
import sys
import types
import weakref

from tessera import _triton


class _Tensors:
    def __init__(self):
        self._pointers = {}  # what data_ptr() gave: its allocation
        self._versions = {}  # by the address of an allocation that is undefined

    def note_empty(self, tensor):
        """The tensor's memory is fresh."""
        if type(tensor).__module__ != "torch" or tensor.device.type != "cpu" or tensor.is_inference():
            return
        storage = tensor.untyped_storage()
        base, size = storage.data_ptr(), storage.nbytes()
        if size == 0:
            return
        _triton.declare_undefined(base, size)
        self._versions[base] = tensor._version
        weakref.finalize(tensor, self.forget, base)

    def forget(self, base):
        if self._versions.pop(base, None) is not None:
            _triton.declare_defined(base)

    def forget_tensor(self, tensor):
        if not self._versions:
            return
        try:
            self.forget(tensor.untyped_storage().data_ptr())
        except (RuntimeError, NotImplementedError):  # it has no memory
            pass

    def data_ptr(self, data_ptr):
        """The address may be stored, for a kernel to load."""
        @functools.wraps(data_ptr)
        def noting(tensor):
            at = data_ptr(tensor)
            if at != 0 and at not in self._pointers:
                storage = tensor.untyped_storage()
                base = storage.data_ptr()
                self._pointers[at] = base
                _triton.note_allocation(base, storage.nbytes())
                weakref.finalize(tensor, self._forget_pointer, at)
            return at

        return noting

    def _forget_pointer(self, at):
        base = self._pointers.pop(at, None)
        if base is not None and base not in self._pointers.values():
            _triton.forget_allocation(base)

    def forget_allocations(self):
        for at in list(self._pointers):
            self._forget_pointer(at)

    def note_what_is_written(self, arguments):
        """Before a launch."""
        if not self._versions:
            return
        for argument in arguments:
            if not hasattr(argument, "untyped_storage"):
                continue
            base = argument.untyped_storage().data_ptr()
            version = self._versions.get(base)
            if version is None:
                continue
            if argument.is_inference() or argument._version != version:
                self.forget(base)


@contextlib.contextmanager
def tensors(driver, cuda):
    """cuda: the device "cuda" is this machine's memory."""
    import torch

    noted = _Tensors()
    with contextlib.ExitStack() as undo:
        for place, name in ((torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty")):
            _replace(undo, place, name, _noting(getattr(place, name), noted.note_empty))
        _replace(undo, torch.Tensor, "data_ptr", noted.data_ptr(torch.Tensor.data_ptr))
        undo.callback(noted.forget_allocations)
        for name in ("numpy", "__dlpack__", "__array__"):
            _replace(undo, torch.Tensor, name, _forgetting(getattr(torch.Tensor, name), noted))
        data = torch.Tensor.data
        _replace(undo, torch.Tensor, "data", property(_forgetting(data.__get__, noted), data.__set__))
        if cuda:
            _answer_for_cuda(undo, torch, driver.gpu, driver.get_device_capability())
        yield noted


def _replace(undo, place, name, value):
    if name in vars(place):
        undo.callback(setattr, place, name, vars(place)[name])
    else:
        undo.callback(delattr, place, name)  # a base has it
    setattr(place, name, value)


def _noting(make, note):
    @functools.wraps(make)
    def made(*args, **kwargs):
        tensor = make(*args, **kwargs)
        if kwargs.get("out") is None:
            note(tensor)
        return tensor

    return made


def _forgetting(look, noted):
    @functools.wraps(look)
    def looked(tensor, *args, **kwargs):
        noted.forget_tensor(tensor)
        return look(tensor, *args, **kwargs)

    return looked


class _Properties(types.SimpleNamespace):
    def __getattr__(self, name):
        raise AttributeError(f"of {vars(self).get('name')} tessera knows no {name}", name=name, obj=self)


def _answer_for_cuda(undo, torch, gpu, capability):
    from torch.overrides import TorchFunctionMode

    from tessera import _triton_clock

    device = torch.device("cuda", 0)
    is_cuda, device_of, get_device = torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__, torch.Tensor.get_device

    def on_host(value):
        if isinstance(value, str) and value.split(":")[0] == "cuda":
            return "cpu"
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        return value

    class Cuda(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
                return args[0]
            if func is is_cuda or func == is_cuda:
                return args[0].device.type == "cpu"
            if func is get_device:
                return 0
            if func in (torch.histc, torch.Tensor.histc) and not args[0].is_floating_point():  # torch has it on GPUs alone
                return func(args[0].double(), *args[1:], **(kwargs or {})).to(args[0].dtype)
            if isinstance(func, operators):
                own_operators.reach(func)
            result = func(*map(on_host, args), **{k: on_host(v) for k, v in (kwargs or {}).items() if k != "pin_memory"})
            if (func is device_of or func == device_of) and result.type == "cpu":
                return device
            return result

    operators = torch._ops.OpOverload, torch._ops.OpOverloadPacket
    own_operators = _Operators(torch, undo, Cuda)

    class Generator(torch.Generator):
        """A GPU's: libraries take (seed, offset) of it for random numbers of their kernels."""

        _offset = 0

        def get_offset(self):
            return self._offset

        def set_offset(self, offset):
            self._offset = offset

    class Stream:
        cuda_stream = 0
        device_index = 0
        stream_id = 0

        def __init__(self, *_, **__):
            pass

        def synchronize(self):
            pass

        def wait_stream(self, stream):
            pass

        wait_event = wait_stream

    Stream.device = device
    _, title, cores, shared, hbm = gpu
    properties = _Properties(name=title, multi_processor_count=cores, total_memory=hbm, warp_size=32,
                             major=capability[0], minor=capability[1], shared_memory_per_block=48 << 10,
                             shared_memory_per_block_optin=shared, shared_memory_per_multiprocessor=shared,
                             regs_per_multiprocessor=65536, max_threads_per_block=1024,
                             max_threads_per_multi_processor=2048 if capability in ((8, 0), (9, 0), (10, 0)) else 1536)
    stream = Stream()
    answers = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0, "is_initialized": lambda: True,
        "synchronize": _triton_clock.synchronize, "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_name": lambda device=None: title, "get_device_properties": lambda device=None: properties,
        "set_device": lambda device: None, "device": lambda device=None: contextlib.nullcontext(),
        "device_of": lambda tensor: contextlib.nullcontext(), "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream, "stream": lambda stream: contextlib.nullcontext(), "Stream": Stream,
        "Event": _triton_clock.Event, "empty_cache": lambda: None, "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None, "init": lambda: None, "_lazy_init": lambda: None,
        "reset_peak_memory_stats": lambda device=None: None, "is_bf16_supported": lambda *_, **__: True,
        "is_current_stream_capturing": lambda: False, "mem_get_info": lambda device=None: (hbm, hbm),
        "default_generators": (Generator(device="cpu"),),
        "get_rng_state": lambda device=None: torch.get_rng_state(), "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()], "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
    }
    nothing_held = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    answers |= {name: lambda device=None: 0 for name in nothing_held}  # this machine's memory is nobody's count
    for name, answer in answers.items():
        _replace(undo, torch.cuda, name, answer)
    accelerator = getattr(torch, "accelerator", None)  # torch 2.6 and newer: the same by other names
    if accelerator is not None:
        other_names = {
            "is_available": lambda: True, "device_count": lambda: 1, "current_accelerator": lambda check_available=False: device,
            "current_device_index": lambda: 0, "current_device_idx": lambda: 0, "set_device_index": lambda device: None,
            "set_device_idx": lambda device: None, "device_index": lambda device=None: contextlib.nullcontext(),
            "current_stream": lambda device=None: stream, "set_stream": lambda stream: None,
            "synchronize": lambda device=None: _triton_clock.synchronize(), "empty_cache": lambda: None,
        }
        for name, answer in other_names.items():
            if hasattr(accelerator, name):
                _replace(undo, accelerator, name, answer)
    _autocast_on_host(undo, torch)
    _compile_nothing(undo, torch)
    _have_triton(undo)
    run_backward = getattr(torch.autograd, "_engine_run_backward", None)
    if run_backward is not None:  # torch leaves a mode while it handles Tensor.backward
        def in_mode(*args, **kwargs):
            with Cuda():
                return run_backward(*args, **kwargs)

        _replace(undo, torch.autograd, "_engine_run_backward", in_mode)
    undo.enter_context(Cuda())


class _Operators:
    """Libraries' own: what they register for "cuda" alone serves tensors of this machine's memory, too."""

    def __init__(self, torch, undo, mode):
        self._torch = torch
        self._undo = undo
        self._mode = mode
        self._reached = set()

    def reach(self, operator):
        if operator in self._reached:
            return
        self._reached.add(operator)
        if isinstance(operator, self._torch._ops.OpOverloadPacket):
            for name in operator.overloads():
                self.reach(getattr(operator, name))
            return
        has_kernel = self._torch._C._dispatch_has_kernel_for_dispatch_key
        name = operator.name()
        if operator.namespace in ("aten", "prim", "prims") or has_kernel(name, "CPU") or not has_kernel(name, "CUDA"):
            return
        cuda = self._torch._C.DispatchKeySet(self._torch._C.DispatchKey.CUDA)

        def kernel(*args, **kwargs):
            with self._mode():  # torch has left it for this call
                return operator.redispatch(cuda, *args, **kwargs)

        library = self._torch.library.Library(operator.namespace, "IMPL")
        self._undo.callback(library._destroy)
        library.impl(operator, kernel, "CPU")


def _have_triton(undo):
    """Libraries ask as they are imported, by names of their own for the function, which asks what Dynamo noted before."""
    from torch.utils import _triton as asked

    has_triton = getattr(asked, "has_triton", None)
    function = getattr(has_triton, "__wrapped__", None)
    if function is None:
        return
    undo.callback(has_triton.cache_clear)
    undo.callback(setattr, function, "__code__", function.__code__)
    function.__code__ = (lambda: True).__code__
    has_triton.cache_clear()


@functools.cache
def _say_what_is_eager():
    sys.stderr.write("tessera: what torch.compile would compile for \"cuda\" runs eagerly in simulations\n")


def _compile_nothing(undo, torch):
    """What torch.compile compiles for a GPU asks what no simulation answers: it runs as it is written. Looking for Dynamo would take
    seconds, so that the stance waits for it."""
    @functools.cache
    def be_eager():
        _say_what_is_eager()
        undo.enter_context(torch.compiler.set_stance("force_eager"))

    compile_ = torch.compile

    @functools.wraps(compile_)
    def compiled(*args, **kwargs):
        be_eager()
        return compile_(*args, **kwargs)

    if hasattr(torch.compiler, "set_stance"):  # torch 2.6 and newer
        _replace(undo, torch, "compile", compiled)
        if "torch._dynamo" in sys.modules:
            be_eager()


def _autocast_on_host(undo, torch):
    """What "cuda" computes in under torch.autocast, this machine's memory does."""
    init, enabled, dtype_of = torch.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype

    def on_host(autocast, device_type, dtype=None, *args, **kwargs):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or dtype_of("cuda")
        init(autocast, device_type, dtype, *args, **kwargs)

    def of_host(ask):
        return lambda device_type="cuda": ask("cpu" if device_type == "cuda" else device_type)

    _replace(undo, torch.autocast, "__init__", on_host)
    _replace(undo, torch, "is_autocast_enabled", of_host(enabled))
    _replace(undo, torch, "get_autocast_dtype", of_host(dtype_of))
    _replace(undo, torch, "get_autocast_gpu_dtype", lambda: dtype_of("cpu"))
