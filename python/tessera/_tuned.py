"""autotune() and overlay(): which configuration a function takes, by the tiers of docs/tuning.md."""
import contextlib
import contextvars
import functools
import hashlib
import inspect
import itertools
import json
import os
import sys
import threading
import time

from tessera import _record, _tuning

_overlays = contextvars.ContextVar("tessera_overlays", default=())


@functools.cache
def _configurations(path):
    return _tuning.Configurations(path)


@contextlib.contextmanager
def overlay(*sources, **configuration):
    """Configurations that functions of autotune() take inside, in this thread or task alone.

        with tessera.overlay(bm=256, bn=128): ...                 # every function with these parameters
        with tessera.overlay({matmul: {"bm": 256, "bn": 128}}): ...
        with tessera.overlay("tuned.json"): ...                   # of `tessera tune --export`, Autotuned.export()

    Of several the last holds first; of nested ones the innermost.
    """
    made = [_overlay(source) for source in sources]
    if configuration:
        made.append(_tuning.overlay_of("overlay()", [("", _packed(configuration))]))
    if not made:
        raise ValueError("overlay() of nothing: give a file, {function: {...}}, or values by name")
    token = _overlays.set(_overlays.get() + tuple(made))
    try:
        yield
    finally:
        _overlays.reset(token)


def _overlay(source):
    if isinstance(source, (str, os.PathLike)):
        return _tuning.overlay_of_file(os.fspath(source))
    return _tuning.overlay_of("overlay()", [(getattr(function, "operation", function), _packed(configuration))
                                            for function, configuration in source.items()])


def _packed(configuration):
    return [(name, json.dumps(value)) for name, value in configuration.items()]


def autotune(function=None, *, device=None, cores=1, budget=None, name=None, cache=None, timing="model", compiled=8, **candidates):
    """A function of JAX whose keyword arguments are chosen: the fastest combination, by the predicted device time.

        @tessera.autotune(bm=[128, 256, 512], bn=[128, 256])
        def matmul(x, y, *, bm, bn): ...                 # calls pl.pallas_call

        matmul(x, y)                    # the first call for such shapes counts the candidates, dry; later ones look up
        matmul(x, y, bm=128, bn=128)    # as given
        matmul.why(x, y)                # which tier chose, what each said, what else was on the table

    device: that is tuned for. None: the one that is simulated; else the TPU that JAX has; else tpu-v5e. cores: as in simulate().
    budget: seconds of counting for a call; what is left then is counted by a later process, or by tune().
    name: of the operation, in the cache. cache: its file; the user's if None.
    timing: "compiler": of the fastest as predicted, candidates are compiled by libtpu till `compiled` of them have a schedule, and
      ranked by what it takes, as `tessera tune --timing compiler` does. One that the compiler refuses is not chosen.
    """
    if function is None:
        return functools.partial(autotune, device=device, cores=cores, budget=budget, name=name, cache=cache, timing=timing,
                                 compiled=compiled, **candidates)
    return Autotuned(function, candidates, device, cores, budget, name, cache, timing, compiled)


class Why:
    """tier: that chose `configuration`. said: by each tier that was asked. candidates: dicts, the fastest first. how: they were
    judged, "predicted" or "compiled"."""

    def __init__(self, operation, configuration, tier, seconds, said, candidates, how="predicted"):
        self.operation = operation
        self.how = how
        self.configuration = configuration
        self.tier = tier
        self.seconds = seconds
        self.said = said
        self.candidates = candidates

    def __str__(self):
        text = f"{self.operation}: {_shown(self.configuration)} by the {self.tier} tier\n"
        text += "".join(f"  {tier:<10} {what}\n" for tier, what in self.said)
        for each in self.candidates:
            shape = _shown(each["configuration"])
            text += (f"  {shape}  no: {each['reason']}\n" if "reason" in each else
                     f"  {shape}  {each['seconds'] * 1e6:,.1f} us {self.how}, {each['binds']}\n")
        return text

    __repr__ = __str__


def _shown(configuration):
    return " ".join(f"{name}={value}" for name, value in configuration.items())


class Autotuned:
    """What autotune() makes of a function."""

    def __init__(self, function, candidates, device, cores, budget, name, cache, timing, compiled):
        functools.update_wrapper(self, function)
        if timing not in ("model", "compiler"):
            raise ValueError(f"timing={timing!r}: 'model' or 'compiler'")
        if compiled < 1:
            raise ValueError(f"compiled={compiled}: 1 or more")
        self._compiled = compiled if timing == "compiler" else 0
        if not candidates:
            raise ValueError("nothing to choose: give a keyword argument several values, as in bm=[64, 128]")
        self.function = function
        self.operation = name or f"{function.__module__}.{function.__qualname__}"
        self._candidates = {name: list(values) for name, values in candidates.items()}
        self._parameters = list(candidates)
        self._device = device
        self._cores = cores
        self._budget = budget
        self._configurations = _configurations(os.fspath(cache) if cache is not None else _tuning.default_store())
        self._fingerprints = {}

    def __call__(self, *args, **kwargs):
        if _record.on():
            return self._recorded(args, kwargs)
        if any(name in kwargs for name in self._parameters):
            return self.function(*args, **kwargs)
        return self.function(*args, **kwargs, **self.configuration(*args, **kwargs))

    def configuration(self, *args, **kwargs):
        """The keyword arguments that a call takes."""
        return _unpacked(self._resolve(args, kwargs)[0])

    def why(self, *args, **kwargs):
        given = {name: kwargs.pop(name) for name in self._parameters if name in kwargs}
        configuration, tier, seconds, said = self._resolve(args, kwargs, _packed(given))
        key = self._key(args, kwargs)[0]
        return Why(self.operation, _unpacked(configuration), tier, seconds, said,
                   [_row(each) for each in self._configurations.candidates(key)], "compiled" if self._compiled else "predicted")

    def tune(self, *args, budget=None, **kwargs):
        """Counts what is left of the candidates; gives why()."""
        self._evaluate(args, kwargs, budget)
        self._configurations.forget()
        return self.why(*args, **kwargs)

    def export(self, path):
        """Every choice of the cache, for overlay() or `tessera tune --import`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._configurations.exported())

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def _recorded(self, args, kwargs):
        given = {name: kwargs[name] for name in self._parameters if name in kwargs}
        rest = {name: value for name, value in kwargs.items() if name not in given}
        configuration, tier, said = _packed(given), "explicit", [("explicit", "given")]
        if not given:
            configuration, tier, _, said = self._resolve(args, rest)
        key, (_, cores) = self._key(args, rest)
        invocation = _record.Invocation(self.operation, key, args, rest, configuration=configuration, tier=tier, said=said, cores=cores)
        return invocation.run(lambda: self.function(*args, **rest, **_unpacked(configuration)))

    def _resolve(self, args, kwargs, given=()):
        key, where = self._key(args, kwargs)
        return self._configurations.resolve(key, self._parameters, given, _overlays.get(),
                                            lambda: self._evaluate(args, kwargs, self._budget), "")

    def _evaluate(self, args, kwargs, budget):
        """An Entry, or None if no candidate runs."""
        until = None if budget is None else time.monotonic() + budget
        key, where = self._key(args, kwargs, by_schedule=False)
        predicted = self._count_all(key, where, args, kwargs, until)
        if not self._compiled:
            return predicted
        ranked = [each.configuration for each in self._configurations.candidates(key) if not each.reason]
        return self._compile_first(self._key(args, kwargs)[0], where, args, kwargs, until, ranked)

    def _key(self, args, kwargs, by_schedule=True):
        device, cores = self._where()
        by_schedule = by_schedule and bool(self._compiled)
        name, fingerprint = self._fingerprints.get((device, by_schedule)) or self._fingerprint(device, by_schedule)
        sizes, kinds = [], []
        for n, value in enumerate((*args, *kwargs.values()) if kwargs else args):
            shape = getattr(value, "shape", None)
            if shape is None:
                _describe(value, str(n), sizes, kinds)
            else:
                sizes += [(f"{n}.{i}", extent) for i, extent in enumerate(shape)]
                kinds.append(str(value.dtype))
        if kwargs:
            kinds += kwargs
        return _tuning.key(self.operation, name, fingerprint, sizes, ",".join(kinds), cores), (device, cores)

    def _where(self):
        hooks = sys.modules.get("tessera._jax")
        if hooks is not None and hooks.simulating():
            return hooks.simulated()
        return self._device or _tpu_here(), self._cores

    def _fingerprint(self, device, by_schedule):
        import jax
        import tessera

        name, spec = _tuning.device(device)
        version = f"{tessera.__version__}, jax {jax.__version__}"
        if by_schedule:
            from tessera import _session, _xla

            version += ", compiled by " + _xla.compiler_version(_session.python_that_compiles())
        known = name, _tuning.fingerprint(spec, version, _source(self.function))
        self._fingerprints[device, by_schedule] = known
        return known

    def _compile_first(self, key, where, args, kwargs, until, ranked):
        """Down the ranking, till so many candidates have a schedule; three times so many are tried."""
        from tessera import _sweep

        args, kwargs = _zeros(args), _zeros(kwargs)
        scheduled = 0
        first_error = None
        for configuration in ranked[:3 * self._compiled]:
            known = self._configurations.candidate(key, configuration)
            if known is None:
                if scheduled and until is not None and time.monotonic() > until:
                    break
                if sys.stderr.isatty():
                    print(f"\r{self.operation}: {scheduled} of {self._compiled} are compiled", end="", file=sys.stderr, flush=True)
                shape = _unpacked(configuration)
                row, error = _apart(lambda shape=shape: _sweep.counted(functools.partial(self.function, **kwargs), args, shape, *where,
                                                                       "compiler"))
                first_error = first_error or error
                reason = row.get("reason") or ("unmodelled: " + row["note"] if row["predicted_seconds"] is None else "")
                self._configurations.keep(key, configuration, row.get("rank_seconds", 0.), row.get("binds") or "", reason)
            else:
                reason = known.reason
            scheduled += not reason
            if scheduled == self._compiled:
                break
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        entry = self._configurations.choose(key, "by the compiler's schedule")
        if entry is None and first_error is not None:
            raise first_error
        return entry

    def _count_all(self, key, where, args, kwargs, until):
        """An Entry, or None if no candidate runs."""
        from tessera import _sweep

        args, kwargs = _zeros(args), _zeros(kwargs)
        combinations = [dict(zip(self._parameters, values)) for values in itertools.product(*self._candidates.values())]
        first_error = None
        for n, shape in enumerate(combinations):
            if self._configurations.candidate(key, _packed(shape)) is not None:
                continue
            if until is not None and time.monotonic() > until:
                break
            if sys.stderr.isatty():
                print(f"\r{self.operation}: {n} of {len(combinations)} candidates", end="", file=sys.stderr, flush=True)
            row, error = _apart(lambda shape=shape: _sweep.counted(functools.partial(self.function, **kwargs), args, shape, *where))
            first_error = first_error or error
            self._configurations.keep(key, _packed(shape), row.get("rank_seconds", 0.), row.get("binds") or "bytes alone",
                                      row.get("reason", ""))
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        entry = self._configurations.choose(key, "predicted")
        if entry is None and first_error is not None:
            raise first_error
        return entry


def _row(evaluated):
    row = {"configuration": _unpacked(evaluated.configuration)}
    if evaluated.reason:
        return row | {"reason": evaluated.reason}
    return row | {"seconds": evaluated.seconds, "binds": evaluated.binds}


def _unpacked(configuration):
    return {name: json.loads(text) for name, text in configuration}


def _describe(value, at, sizes, kinds):
    """What is no array: a tree of arrays, or a value that the function is specialised on."""
    import jax

    for n, leaf in enumerate(jax.tree_util.tree_leaves(value)):
        shape = getattr(leaf, "shape", None)
        if shape is None:
            kinds.append(repr(leaf))
        else:
            sizes += [(f"{at}.{n}.{i}", extent) for i, extent in enumerate(shape)]
            kinds.append(str(leaf.dtype))


def _source(function):
    """The file of a function: what it calls is likely there too."""
    try:
        with open(inspect.getsourcefile(function), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, TypeError):
        try:
            return inspect.getsource(function)
        except (OSError, TypeError):
            return function.__code__.co_code.hex()


@functools.cache
def _tpu_here():
    """By JAX's name of it."""
    import jax
    from tessera import _xla

    if jax.default_backend() == "tpu":
        kind = jax.devices()[0].device_kind
        for name in _xla.device_names():
            if name.startswith("tpu") and _xla.device_kind(name) == kind:
                return name
    return "tpu-v5e"


def _zeros(tree):
    """Arrays of the same shapes: what a trace has in their place cannot be counted."""
    import jax
    import numpy as np

    def zeros(leaf):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        return leaf if isinstance(leaf, np.ndarray) else np.zeros(leaf.shape, leaf.dtype)

    return jax.tree_util.tree_map(zeros, tree)


def _apart(count):
    """Runs in a thread of its own, which no trace of JAX's is under way in."""
    found = []
    thread = threading.Thread(target=lambda: found.append(count()))
    thread.start()
    thread.join()
    return found[0]
