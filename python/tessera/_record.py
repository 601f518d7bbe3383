"""record(): each invocation is written down, for `tessera replay` and tessera.report.compare()."""
import contextlib
import contextvars
import hashlib
import os
import sys
import threading
import time

from tessera import _tuning

_TOLD = ("tessera._xla", "tessera._triton")  # what runs kernels, and writes down those that it runs
_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn",
           "float8_e5m2": "f8e5m2", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint32": "u32",
           "uint8": "u8", "bool": "bool"}

_lock = threading.Lock()
_path = None
_folder = None
_paused = contextvars.ContextVar("tessera_recording_paused", default=False)
_caller = contextvars.ContextVar("tessera_caller", default=("", "", []))


@contextlib.contextmanager
def record(folder):
    """Writes down each invocation inside, of any thread, in a folder.

        with tessera.record("calls"), tessera.simulate():
            model(x)                    # tessera replay calls
        tessera.report.compare("calls", "other")

    Those are Pallas kernels that a simulation runs, launches of Triton kernels in simulate_triton(), functions of
    autotune() and implementations of tessera.registry. A line of calls/records.jsonl (tessera.record/1) has the
    operation, its tuning key, the configuration and the tier that chose it, bytes, predicted time, and SHA-256 of what
    went in and came out; kernels are kept with their arrays, each once. More processes may record into one folder.
    """
    global _path, _folder
    path = os.path.abspath(os.fspath(folder))
    with _lock:
        if _path is not None:
            raise ValueError(f"{_path} is being recorded into already: recordings do not nest")
        _folder = _tuning.RecordFolder(path)
        _path = path
        _tell_all()
    try:
        yield path
    finally:
        with _lock:
            _path = _folder = None
            _tell_all()


def on():
    return _path is not None and not _paused.get()


@contextlib.contextmanager
def paused():
    """For what is counted on the way to a choice, in this thread: that is no invocation."""
    token = _paused.set(True)
    try:
        yield
    finally:
        _paused.reset(token)


def tell(bridge):
    """Says to what runs kernels where it writes them down; bridges that are imported later ask."""
    bridge.record_in(_path or "")


def _tell_all():
    for name in _TOLD:
        if name in sys.modules:
            tell(sys.modules[name])


def caller():
    """Operation, tier and configuration of the function of Python that runs in this thread or task."""
    return _caller.get()


class Invocation:
    """One of a function of Python: noted before it runs, written down after it."""

    def __init__(self, operation, key, args, kwargs, *, configuration=(), tier="", said=(), cores=1, requested="auto", ran="python", why=""):
        self._record = record = _tuning.Record()
        record.operation, record.frontend, record.key = operation, "python", key
        record.configuration, record.tier, record.said, record.cores = list(configuration), tier, list(said), cores
        record.requested, record.ran, record.why = requested, ran, why
        record.device = key.device
        record.within = _caller.get()[0]
        record.inputs = _noted("in", (args, kwargs))
        self._within = (operation, tier, list(configuration))

    def run(self, function):
        record, folder = self._record, _folder
        token = _caller.set(self._within)
        start = time.perf_counter()
        try:
            result = function()
        except Exception as error:
            record.diagnostics = [getattr(error, "slug", type(error).__name__)]
            raise
        else:
            record.outputs = _noted("out", result)
            return result
        finally:
            _caller.reset(token)
            record.seconds = time.perf_counter() - start
            if folder is not None:
                folder.append(record)


def _noted(name, tree):
    import jax
    import numpy as np

    noted = []
    for n, leaf in enumerate(jax.tree_util.tree_leaves(tree)):
        dtype = _DTYPES.get(str(getattr(leaf, "dtype", "")))
        if dtype is None or not hasattr(leaf, "shape"):
            continue
        traced = isinstance(leaf, jax.core.Tracer)
        sha256 = "" if traced else hashlib.sha256(np.ascontiguousarray(leaf).tobytes()).hexdigest()
        noted.append(_tuning.noted(f"{name}{n}", dtype, list(leaf.shape), sha256))
    return noted


def key_of(operation, function, args, kwargs):
    """The tuning key of a function that nothing tunes: no device, shapes and dtypes of its arrays."""
    import jax

    sizes, kinds = [], []
    for n, leaf in enumerate(jax.tree_util.tree_leaves((args, kwargs))):
        shape = getattr(leaf, "shape", None)
        if shape is None:
            kinds.append(repr(leaf))
        else:
            sizes += [(f"{n}.{i}", extent) for i, extent in enumerate(shape)]
            kinds.append(str(getattr(leaf, "dtype", type(leaf).__name__)))
    source = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    return _tuning.key(operation, "", _tuning.fingerprint("", "", source), sizes, ",".join(kinds), 1)
