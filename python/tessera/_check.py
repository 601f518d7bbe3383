"""check(): a kernel against a naive function in f64, element by element, by a bound instead of a tolerance."""
import dataclasses
import tempfile

import numpy as np

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
class Verdict:
    """Of one output. Elements are bit-exact (the reference, rounded), within the bound, or wrong; `without_bound`: of
    which nothing can be said, as an overflow may or may not happen; `nan`, `inf`: of the wrong ones, those that are NaN or
    infinite on one side alone. `worst`: the index of the one farthest beyond its bound; None if none is wrong."""

    name: str
    elems: int
    exact: int
    within: int
    without_bound: int
    wrong: int
    nan: int
    inf: int
    of_bound: float  # the largest error among those within, as a part of its bound
    worst: tuple | None = None
    detail: str = ""

    @property
    def ok(self):
        return self.wrong == 0 and self.without_bound < max(self.elems, 1)

    def __str__(self):
        parts = [f"{self.exact:,} bit-exact"]
        if self.within:
            parts.append(f"{self.within:,} within the bound (at most {100 * self.of_bound:.2g} % of it)")
        if self.without_bound:
            parts.append(f"{self.without_bound:,} without a bound" + ("" if self.ok or self.wrong else ": nothing was judged"))
        if self.wrong:
            apart = [f"{count:,} {what} on one side alone" for count, what in ((self.nan, "NaN"), (self.inf, "infinite")) if count]
            parts.append(f"{self.wrong:,} wrong" + (f" ({', '.join(apart)})" if apart else ""))
        return f"{self.name}: {self.elems:,} elements: {', '.join(parts)}" + self.detail


@dataclasses.dataclass(frozen=True)
class Check:
    """What tessera.check() found: a Verdict per output, and the Report of the run."""

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
    wanted = _computed(reference, args)
    names = ["output"] if len(outputs) == 1 else [f"output {i}" for i in range(len(outputs))]
    if len(wanted) != len(outputs):
        raise ValueError(f"the reference gave {len(wanted)} arrays, the kernel {len(outputs)}")
    verdicts = tuple(_judged(name, ours, bound, real, place)
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


def _is_float(dtype):
    import jax

    return jax.numpy.issubdtype(dtype, jax.numpy.floating)


def _computed(reference, args):
    import jax

    def wide(leaf):
        if not hasattr(leaf, "dtype"):
            return leaf
        array = np.asarray(leaf)
        return array.astype(np.float64) if _is_float(array.dtype) else array

    with jax.enable_x64(True), np.errstate(all="ignore"):
        results = [np.asarray(leaf) for leaf in jax.tree.leaves(reference(*jax.tree.map(wide, args)))]
    for result in results:
        if _is_float(result.dtype) and result.dtype != np.float64:
            raise ValueError(f"the reference gave {result.dtype}: its arguments are float64, and so must be what it computes. "
                             "Drop its casts (astype, dtype=)")
    return results


class _Made:
    """The golden of the one kernel that ran, and where its outputs went."""

    def __init__(self, report, traced):
        from tessera import _golden

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
            name, out = outs[which]
            found.append((bound, lambda index, flat=flat, name=name, out=out: self._place(name, out, int(flat[index]))))
        return found

    def _place(self, name, out, flat):
        from tessera import _golden

        index = tuple(int(i) for i in np.unravel_index(flat, out.value.shape))
        if not out.block:
            return ""
        block = tuple(i // b for i, b in zip(index, out.block))
        return f"block {list(block)} of {self.name}'s {name}" + _golden._step_that_wrote(self._golden, name, index)

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
    if not _is_float(getattr(result.aval, "dtype", np.int32)):
        return False
    if eqn.primitive.name != "convert_element_type":
        return True
    import jax

    before, after = eqn.invars[0].aval.dtype, result.aval.dtype
    return jax.numpy.promote_types(before, after) != after


def _judged(name, ours, bound, real, place):
    import jax

    if real.shape != ours.shape:
        raise ValueError(f"the reference's {name} has shape {real.shape}, the kernel's {ours.shape}")
    a, b, e = ours.astype(np.float64), real.astype(np.float64), bound.astype(np.float64) * (1 + 2.0**-20)
    narrow = _is_float(ours.dtype) and ours.dtype.itemsize < 4
    with np.errstate(all="ignore"):
        if narrow:  # what is stored may be rounded
            info = jax.numpy.finfo(ours.dtype)
            e = e + np.maximum(np.abs(a), np.abs(b)) * float(info.eps) / 2 + float(info.smallest_subnormal) / 2
        rounded = real.astype(ours.dtype)
        exact = (rounded == ours) | (np.isnan(a) & np.isnan(b))
        off = np.where(a == b, 0.0, np.abs(a - b))
        numbers = np.isfinite(a) & np.isfinite(b)  # what is none on one side alone is wrong, whatever the bound
        without = ~exact & numbers & np.isinf(bound)
        within = ~exact & numbers & (off <= e) & ~without
        wrong = ~exact & ~within & ~without
        one_nan = wrong & (np.isnan(a) != np.isnan(b))
        one_inf = wrong & ~one_nan & (np.isinf(a) | np.isinf(b))
        part = off / e
    worst, detail = None, ""
    if wrong.any():
        beyond = np.where(np.isfinite(off), np.where(e > 0, part, 1e300), np.inf)
        worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(wrong, beyond, -1.0))), ours.shape))
        detail = (f"\n    worst   [{', '.join(map(str, worst))}] = {a[worst]:.9g}, the reference {b[worst]:.17g}: "
                  f"{off[worst]:.3g} off, {e[worst]:.3g} allowed")
        if place(worst):
            detail += f"\n    where   {place(worst)}"
    return Verdict(name, ours.size, int(exact.sum()), int(within.sum()), int(without.sum()), int(wrong.sum()), int(one_nan.sum()),
                   int(one_inf.sum()), float(part[within].max()) if within.any() else 0.0, worst, detail)
