"""Which implementation of an operation serves a call: those that were registered, by platform and priority.

    @tessera.registry.register("softmax", "reference")
    def softmax_reference(x, *, axis=-1): ...

    tessera.registry.register("softmax", "tpu", softmax_pallas, when=lambda x, *, axis=-1: x.shape[axis] % 128 == 0 or "rows of whole tiles")

    softmax = tessera.registry.operation("softmax")
    softmax(x)                                          # the highest priority that may serve
    softmax.on("tpu")(x)                                # this one, or an error that says why not
    softmax.on("tpu", fallback="reference")(x)          # this one, else that one
    print(softmax.why(x))                               # what serves, and why the others do not: no call is made
    with tessera.registry.receipts() as said: ...       # of the calls inside

Nothing falls back unasked: one that is named serves, or its reason why not is raised; one that serves and fails, fails.
"""
import contextlib
import contextvars
import difflib
import inspect
import os
import sys
import threading

__all__ = ["Implementation", "NotServed", "Operation", "Receipt", "SignatureError", "operation", "operations", "receipts", "register",
           "unregister"]

# By the highest priority first, as `tessera registry` has them; 0: never unasked.
PLATFORMS = {"tpu": 3, "cuda": 2, "interpret": 1, "reference": 0}

_lock = threading.Lock()
_operations = {}  # name: Operation, whose implementations are a tuple that is replaced, never changed
_receipts = contextvars.ContextVar("tessera_receipts", default=None)


class SignatureError(TypeError):
    """An implementation that cannot be called as its operation is."""


class NotServed(RuntimeError):
    """No implementation may serve a call. receipt: why not."""

    def __init__(self, receipt):
        super().__init__(str(receipt))
        self.receipt = receipt


def register(operation, platform, function=None, *, priority=None, when=None):
    """Adds an implementation of an operation; as a decorator if no function is given. Gives the function.

    operation: its name. The first that is registered says the signature: others have the same parameters, by name, kind and
      default, and may have keyword arguments more that have defaults.
    platform: "tpu" (one that JAX has, or that is simulated), "cuda" (one that there is, or that is simulated),
      "interpret" (a Pallas kernel, in a simulation of its own if none is on) or "reference" (anywhere).
    priority: of those that may serve a call the highest does; 0: this one does only if it is named. None: 3, 2, 1 and 0.
    when: takes what a call is given; True if this one may serve it, else False or the reason as a text.
    """
    if function is None:
        return lambda f: register(operation, platform, f, priority=priority, when=when)
    if platform not in PLATFORMS:
        near = difflib.get_close_matches(str(platform), PLATFORMS, 1)
        raise ValueError(f"no platform {platform!r}" + (f"; did you mean {near[0]!r}?" if near else f": one of {', '.join(map(repr, PLATFORMS))}"))
    priority = PLATFORMS[platform] if priority is None else priority
    if isinstance(priority, bool) or not isinstance(priority, int) or priority < 0:
        raise ValueError(f"priority={priority!r}: a whole number, 0 or more")
    if not callable(function):
        raise TypeError(f"{function!r} is no function")
    made = Implementation(operation, platform, priority, function, when)
    with _lock:
        of = _operations.get(operation)
        signature = made.signature if of is None else of.signature
        made.check(signature)
        there = () if of is None else of.implementations
        for other in there:
            if (other.platform, other.priority) == (platform, priority):
                raise ValueError(f"{operation} has {other.name} on {platform} with priority {priority}: unregister() it, or give another priority")
        if of is None:
            of = _operations[operation] = Operation(operation, signature)
        of.implementations = tuple(sorted((*there, made), key=lambda i: -i.priority))
    return function


def unregister(operation, function):
    """Takes an implementation away; the operation with its last one."""
    with _lock:
        of = _known(operation)
        left = tuple(i for i in of.implementations if i.function is not function)
        if len(left) == len(of.implementations):
            raise ValueError(f"{operation} has no implementation {getattr(function, '__name__', function)!r}")
        of.implementations = left
        if not left:
            del _operations[operation]


def operation(name):
    """The Operation of this name."""
    with _lock:
        return _known(name)


def operations():
    """Their names."""
    with _lock:
        return sorted(_operations)


def _known(name):
    if name not in _operations:
        near = difflib.get_close_matches(str(name), _operations, 1)
        raise ValueError(f"no operation {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return _operations[name]


@contextlib.contextmanager
def receipts():
    """A list that gets a Receipt of each call inside, in this thread or task."""
    said = []
    token = _receipts.set(said)
    try:
        yield said
    finally:
        _receipts.reset(token)


class Implementation:
    """platform, priority, function, name; `when` it may serve."""

    def __init__(self, operation, platform, priority, function, when):
        self.operation, self.platform, self.priority, self.function, self.when = operation, platform, priority, function, when
        self.name = getattr(function, "__name__", type(function).__name__)
        self.signature = _signature(function)

    def check(self, wanted):
        """Throws SignatureError, with all that is otherwise."""
        faults = _faults(wanted, self.signature)
        if self.when is not None:
            faults += [f"when: {fault}" for fault in _faults(wanted, inspect.signature(self.when))]
        if faults:
            raise SignatureError(f"{self.name}{self.signature} on {self.platform} is not called as {self.operation}{wanted} is: "
                                 + "; ".join(faults))

    def why_not(self, args, kwargs):
        """"" if it may serve."""
        why = _why_not_here(self.platform)
        if why or self.when is None:
            return why
        said = self.when(*args, **kwargs)
        return "" if said is True else said if isinstance(said, str) else "its condition does not hold"

    def __repr__(self):
        return f"<{self.operation} on {self.platform}: {self.name}>"


class Receipt:
    """Of a call: operation; requested, "auto" or a platform; fallback, the platform that was to stand in, or None; served,
    the Implementation, None if there is none; said: pairs of an implementation that was asked and why it did not serve, or ""."""

    def __init__(self, operation, requested, fallback, served, said):
        self.operation, self.requested, self.fallback, self.served, self.said = operation, requested, fallback, served, said

    def to_dict(self):
        return {"operation": self.operation, "requested": self.requested, "fallback": self.fallback,
                "served": self.served and {"platform": self.served.platform, "name": self.served.name},
                "said": [{"platform": i.platform, "name": i.name, "why_not": why} for i, why in self.said]}

    @property
    def why(self):
        """Why those that were asked before did not serve, in a line."""
        return "; ".join(f"{i.platform}: {why}" for i, why in self.said if why)

    def __str__(self):
        asked = self.requested + (f", else {self.fallback}" if self.fallback else "")
        served = f"{self.served.name} on {self.served.platform}" if self.served else "nothing serves"
        lines = [f"{self.operation}: asked for {asked}; {served}"]
        lines += [f"  {i.platform:<10} {i.name:<24} {why or 'serves'}" for i, why in self.said]
        return "\n".join(lines if self.said else [*lines, f"  it is not registered for {self.requested}"])

    __repr__ = __str__


class Operation:
    """A name with its implementations, the highest priority first; what is called."""

    def __init__(self, name, signature):
        self.name, self.signature, self.implementations = name, signature, ()

    def __call__(self, *args, **kwargs):
        return self._call("auto", None, args, kwargs)

    def why(self, *args, **kwargs):
        """The Receipt that a call would have."""
        return self._choose("auto", None, args, kwargs)

    def on(self, platform, fallback=None):
        """The operation on a platform; `fallback`: another one that serves if that does not."""
        for each in filter(None, (platform, fallback)):
            if each != "auto" and each not in PLATFORMS:
                raise ValueError(f"no platform {each!r}: 'auto' or one of {', '.join(map(repr, PLATFORMS))}")
        return Named(self, platform, fallback)

    def _choose(self, requested, fallback, args, kwargs):
        self.signature.bind(*args, **kwargs)  # the caller's TypeError, before anybody's
        said, served = [], None
        for asked in filter(None, (requested, fallback)):
            for each in self.implementations:
                if served is None and (each.priority > 0 if asked == "auto" else each.platform == asked):
                    why = each.why_not(args, kwargs)
                    said.append((each, why))
                    served = None if why else each
        return Receipt(self.name, requested, fallback, served, said)

    def _call(self, requested, fallback, args, kwargs):
        receipt = self._choose(requested, fallback, args, kwargs)
        heard = _receipts.get()
        if heard is not None:
            heard.append(receipt)
        if receipt.served is None:
            raise NotServed(receipt)
        return _run(receipt, args, kwargs)

    def __str__(self):
        lines = [f"{self.name}{self.signature}"]
        for each in self.implementations:
            why = _why_not_here(each.platform)
            lines.append(f"  {each.platform:<10} {each.priority:>3}  {each.name:<24} {why and 'no: ' + why}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__


class Named:
    """An operation on a platform."""

    def __init__(self, of, platform, fallback):
        self._of, self._platform, self._fallback = of, platform, fallback

    def __call__(self, *args, **kwargs):
        return self._of._call(self._platform, self._fallback, args, kwargs)

    def why(self, *args, **kwargs):
        return self._of._choose(self._platform, self._fallback, args, kwargs)


def _run(receipt, args, kwargs):
    from tessera import _record

    served = receipt.served
    with _simulated() if served.platform == "interpret" else contextlib.nullcontext():
        if not _record.on():
            return served.function(*args, **kwargs)
        invocation = _record.Invocation(receipt.operation, _record.key_of(receipt.operation, served.function, args, kwargs), args, kwargs,
                                        requested=receipt.requested, ran=served.platform, why=receipt.why)
        return invocation.run(lambda: served.function(*args, **kwargs))


def _simulated():
    from tessera import _jax, simulate

    return contextlib.nullcontext() if _jax.simulating() else simulate()


def _why_not_here(platform):
    """"" if there is such a platform."""
    if platform == "reference":
        return ""
    if platform == "cuda":
        triton = _loaded("_triton_report")
        if triton is not None and triton.running() is not None:
            return ""
        return "" if os.path.exists("/proc/driver/nvidia/version") else "no CUDA device, and no simulate_triton() is on"
    try:
        import jax

        if platform == "interpret":
            from tessera import _xla  # noqa: F401

            return ""
    except ImportError as e:
        return str(e)
    return "" if jax.default_backend() == "tpu" else "JAX has no TPU, and no simulate() is on"


def _loaded(name):
    return sys.modules.get(f"tessera.{name}")


def _signature(function):
    """Without the keyword arguments that autotune() chooses."""
    signature = inspect.signature(function)
    chosen = getattr(function, "_parameters", ()) if type(function).__name__ == "Autotuned" else ()
    return signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in chosen],
                             return_annotation=inspect.Signature.empty)


def _faults(wanted, has):
    """Why what is called as `wanted` says cannot be called so: texts."""
    any_name, any_place = (any(p.kind is kind for p in has.parameters.values()) for kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL))
    given = {name: p for name, p in has.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    positional = [[p.name for p in s.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)] for s in (wanted, has)]
    faults = []
    for name, p in wanted.parameters.items():
        q = given.get(name)
        by_name = p.kind is p.KEYWORD_ONLY
        if q is None:
            if not (any_name and (by_name or any_place)):
                faults.append(f"{name} is missing")
        elif by_name and q.kind is q.POSITIONAL_ONLY:
            faults.append(f"{name} is no keyword argument")
        elif p.kind is p.POSITIONAL_OR_KEYWORD and q.kind is not p.kind:
            faults.append(f"{name} is {q.kind.description}, not {p.kind.description}")
        elif not _same_default(p, q):
            faults.append(f"{name} is by default {_default(q)}, not {_default(p)}")
    common = [[name for name in names if name in positional[1 - i]] for i, names in enumerate(positional)]
    if common[0] != common[1]:
        faults.append(f"the order is {', '.join(common[1])}")
    for name, q in given.items():
        if name not in wanted.parameters and q.default is q.empty:
            faults.append(f"{name} is required, and no call gives it")
        elif name not in wanted.parameters and q.kind is q.POSITIONAL_OR_KEYWORD and positional[1].index(name) < len(common[1]):
            faults.append(f"{name} stands before what calls give by position")
    return faults


def _same_default(p, q):
    return p.default is q.default or (type(p.default) is type(q.default) and bool(p.default == q.default))


def _default(p):
    return "required" if p.default is p.empty else repr(p.default)
