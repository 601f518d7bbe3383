"""check(): a kernel against a naive function in f64, element by element, by a bound instead of a tolerance."""
import dataclasses
import tempfile

import numpy as np

from tessera import _golden

INPUTS = ("uniform", "binary", "integers", "cancellation", "wide", "special")

# What moves elements, of one array alone: bounds move with them.
_MOVES = ("reshape", "transpose", "slice", "squeeze", "broadcast_in_dim", "expand_dims", "copy", "rev")
# What makes an operand of arguments and rounds nothing.
_EXACT = (*_MOVES, "concatenate", "pad", "dynamic_slice", "gather", "select_n", "iota", "neg", "abs", "stop_gradient",
          "optimization_barrier", "sharding_constraint")
_KERNELS = ("pallas_call", "mpmd_map")


class ReferenceMismatch(AssertionError):
    """A kernel is farther from its reference than its arithmetic explains. `check`: all that was judged."""

    def __init__(self, check):
        super().__init__(f"\n{check}")
        self.check = check


@dataclasses.dataclass(frozen=True)
class Check:
    """What tessera.check() found: a verdict per output (_golden.RealVerdict), and the Report of the run."""

    kernel: str
    inputs: str
    verdicts: tuple
    report: object

    @property
    def ok(self):
        return all(verdict.ok for verdict in self.verdicts)

    def __str__(self):
        head = f"{self.kernel} against its reference, inputs {self.inputs}"
        return "\n".join([head, *(f"  {verdict}" for verdict in self.verdicts)])


def check(kernel, reference, *args, dtype="f64", inputs=None, seed=0, error_model=None, **settings):
    """Runs kernel(*args) in the simulator and reference(*args) in f64, and judges every element of the outputs.

    An element passes if it is the reference's, rounded, or if it lies within a bound that is computed along with the kernel:
    how far its additions, products and functions in f32 may be from real numbers. There is no tolerance to choose. A type
    narrower than f32 is allowed for where a result is stored and where a product reads what was computed: who accumulates
    in bf16, or rounds f32 arguments to bf16, is wrong. Raises ReferenceMismatch; gives a Check. What the simulator finds
    by itself (races, undefined elements, ...) raises KernelError first.

    kernel: a function that calls one Pallas kernel; around it elements may be moved, not computed with.
    reference: the same mathematics, naively: NumPy or jax.numpy. Float arguments arrive as f64 arrays of NumPy.
    args: arrays, or jax.ShapeDtypeStruct for one to be drawn.
    inputs: draws every float array anew: "uniform" in [-1, 1), "binary", "integers" (-2 to 2: bounds are 0),
      "cancellation" (pairs that cancel in sums), "wide" (exponents over what products allow) or "special" (NaN,
      infinities, zeros, subnormal and large numbers among others). Integers stay as given; None: all do. `seed`: of what is drawn.
    error_model: {"ulp": {"reciprocal": 4096}}, where the kernel asks for an approximation.
    settings: those of simulate(): device, schedule, profile, ...
    """
    import jax

    from tessera._session import simulate

    if dtype != "f64":
        raise ValueError(f"dtype={dtype!r}: references are computed in 'f64'")
    for taken in ("golden", "dry", "checks"):
        if taken in settings:
            raise ValueError(f"check() has no {taken}: it runs with checks='all' and compares at once")
    args = drawn(args, inputs, seed)
    model = {"accumulate": "real", **(error_model or {})}
    if str(settings.get("profile", "exact")).startswith("mxu"):
        model.setdefault("operands", "f32")  # who reads f32 has more than what an MXU leaves of it
    with tempfile.TemporaryDirectory(prefix="tessera_check_") as folder:
        with simulate(golden=folder, error_model=model, **settings) as report:
            outputs = list(map(np.asarray, jax.tree.leaves(jax.block_until_ready(kernel(*args)))))
            traced = jax.make_jaxpr(kernel)(*args)
        if not report.calls:
            raise ValueError(f"check: {report.note}")
        made = _Made(report, traced)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        wanted = _golden.real_results(jax.tree.leaves(reference(*jax.tree.map(_golden.widened, args))))
    names = ["output"] if len(outputs) == 1 else [f"output {i}" for i in range(len(outputs))]
    if len(wanted) != len(outputs):
        raise ValueError(f"the reference gave {len(wanted)} arrays, the kernel {len(outputs)}")
    verdicts = tuple(_golden.judge_real(name, ours, bound, real, place)
                     for name, ours, real, (bound, place) in zip(names, outputs, wanted, made.bounds()))
    found = Check(made.name, inputs or "as given", verdicts, report)
    if not found.ok:
        raise ReferenceMismatch(found)
    return found


def drawn(args, inputs, seed):
    import jax

    if inputs is not None and inputs not in INPUTS:
        raise ValueError(f"inputs={inputs!r}: one of {', '.join(INPUTS)}, or None")
    rng = np.random.default_rng(seed)

    def array(leaf):
        given = not isinstance(leaf, jax.ShapeDtypeStruct)
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
            return leaf if given else rng.integers(0, 2 if leaf.dtype == bool else 8, leaf.shape).astype(leaf.dtype)
        return leaf if given and inputs is None else _floats(rng, inputs or "uniform", leaf.shape, np.dtype(leaf.dtype))

    return jax.tree.map(array, args)


def _floats(rng, inputs, shape, dtype):
    value = rng.uniform(-1, 1, shape)
    if inputs == "binary":
        value = rng.integers(0, 2, shape)
    elif inputs == "integers":
        value = rng.integers(-2, 3, shape)
    elif inputs == "cancellation":
        pairs = rng.uniform(-1, 1, [size // 2 + 1 for size in shape])
        for axis, size in enumerate(shape):
            pairs = np.take(pairs, np.arange(size) // 2, axis)
        sign = 1 - 2 * (np.arange(shape[-1]) % 2) if shape else 1
        value = sign * pairs + value * 2.0**-12
    elif inputs == "wide":
        most = 4 if dtype == np.float16 else 2 if dtype.itemsize == 1 else 30
        value = np.ldexp(value, rng.integers(-most, most + 1, shape))
    elif inputs == "special":
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5 * 2.0**-130, -(2.0**-149), 2.0**60], shape)
        value = np.where(rng.integers(0, 64, shape) == 0, odd, value)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


class _Made:
    """The golden of the one kernel that ran, and where its outputs went."""

    def __init__(self, report, traced):
        self._traced = traced
        self._kernels = 0
        if len(report.calls) != 1:
            raise ValueError(f"check: {len(report.calls)} kernels ran ({', '.join(call.kernel for call in report.calls)}); bounds "
                             "do not go from one to the next: check each by itself")
        self.name = report.calls[0].kernel
        self._golden = _golden.load(report.calls[0].golden)

    def bounds(self):
        """Per output: bounds, and where in the kernel's own output an element lies: a function of its index."""
        outs = list(self._golden.outputs.items())
        shaped = [(out.bound, np.arange(out.bound.size).reshape(out.bound.shape)) for _, out in outs]
        found = []
        for k, ends in enumerate(self._moved(self._traced.jaxpr, {}, shaped)):
            if ends is None:
                raise ValueError("check: an output of the function is none of its kernel's")
            bound, flat, which = ends
            name = outs[which][0]
            found.append((bound, lambda index, flat=flat, name=name: _golden.place(self._golden, name, int(flat[index]))))
        return found

    def _moved(self, jaxpr, known, outs):
        """known: (bound, place, which output) of variables that hold what the kernel made."""
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            touched = [v for v in eqn.invars if not hasattr(v, "val") and v in known]
            inner = next((eqn.params[p] for p in ("jaxpr", "call_jaxpr", "fun_jaxpr") if p in eqn.params), None)
            if name in _KERNELS:
                self._kernels += 1
                known.update((v, (*shaped, which)) for which, (v, shaped) in enumerate(zip(eqn.outvars, outs)))
            elif inner is not None and name not in ("scan", "while", "cond"):
                inner = getattr(inner, "jaxpr", inner)
                given = {v: known[outer] for v, outer in zip(inner.invars, eqn.invars)
                         if not hasattr(outer, "val") and outer in known}
                known.update((v, ends) for v, ends in zip(eqn.outvars, self._moved(inner, given, outs)) if ends is not None)
            elif touched:
                if name not in _MOVES:
                    raise ValueError(f"check: {name} computes with what the kernel made: its bounds end there. Let the function "
                                     "return the kernel's output")
                bound, place, which = known[touched[0]]
                known[eqn.outvars[0]] = (*(np.asarray(eqn.primitive.bind(x, **eqn.params)) for x in (bound, place)), which)
            elif name not in _EXACT and any(_rounds(eqn, v) for v in eqn.outvars):
                raise ValueError(f"check: {name} rounds before the kernel, where nothing is bounded: give the kernel its operands "
                                 "as arguments")
        return [None if hasattr(v, "val") else known.get(v) for v in jaxpr.outvars]


def _rounds(eqn, result):
    import jax

    if not jax.numpy.issubdtype(getattr(result.aval, "dtype", np.int32), jax.numpy.floating):
        return False
    if eqn.primitive.name != "convert_element_type":
        return True
    before, after = eqn.invars[0].aval.dtype, result.aval.dtype
    return jax.numpy.promote_types(before, after) != after
