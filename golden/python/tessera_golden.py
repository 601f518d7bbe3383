"""Holds the outputs of any build to a golden of tessera's, with NumPy and ml_dtypes alone.

In a pytest on a TPU or a GPU:

    from tessera_golden import assert_golden, load

    def test_matmul():
        golden = load("goldens/matmul")
        assert_golden(golden, {"o": my_matmul(*golden.inputs.values())})

An element passes if it has the golden's bits, or lies within its bound: how far any conforming
build may be (manifest.json, error_model). Everything else is wrong, and the message says where.
From a shell: python -m tessera_golden GOLDEN OUTPUTS, a folder of .npy files. The golden of a module made with --accumulate real
is itself judged by a naive function in f64: python -m tessera_golden GOLDEN --reference FILE.py:FUNCTION.

The format is that of golden/golden.hpp, schema tessera.golden/1. A golden that was touched or
truncated, or is of another schema or of other parameters than expected, is refused: GoldenError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import pathlib
import sys
from typing import Any, Mapping

import ml_dtypes
import numpy as np

SCHEMA = "tessera.golden/1"

_DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i4": ml_dtypes.int4,
    "i2": ml_dtypes.int2,
    "u32": np.uint32,
    "u8": np.uint8,
    "u4": ml_dtypes.uint4,
    "u2": ml_dtypes.uint2,
    "bool": np.bool_,
}
_FLOATS = {np.dtype(dtype) for name, dtype in _DTYPES.items() if name[0] == "f" or name == "bf16"}


class GoldenError(ValueError):
    """The golden, or what is compared with it, cannot be used."""


class GoldenMismatch(AssertionError):
    """Outputs that no conforming build makes."""


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of a golden; `bound` is f32, `block` empty where the grid's steps write no blocks."""

    value: np.ndarray
    bound: np.ndarray
    block: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Golden:
    path: pathlib.Path
    manifest: dict[str, Any]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, Output]
    steps: np.ndarray  # i64[n, dims + 4]: device, ids, ref, block, checksum

    @property
    def params(self) -> dict[str, Any]:
        return self.manifest["kernel"]["params"]

    def describe(self) -> str:
        kernel = self.manifest["kernel"]
        words = [f"{k}={v}" for k, v in {**kernel["params"], **kernel["tiles"]}.items()]
        return " ".join([kernel["name"], *words, kernel["dtype"]])


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Of one output: how many elements have the golden's bits, are within the bound, are wrong."""

    name: str
    elems: int
    exact: int
    within: int
    unbounded: int
    wrong: int
    worst_of_bound: float
    message: str = ""

    @property
    def verdict(self) -> str:
        return "wrong" if self.wrong else "bit-exact" if self.exact == self.elems else "within the bound"

    def __str__(self) -> str:
        parts = [f"{self.exact:,} bit-exact"]
        if self.within:
            percent = 100 * self.worst_of_bound
            text = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
            parts.append(f"{self.within:,} within the bound (at most {text} % of it)")
        if self.unbounded:
            parts.append(f"{self.unbounded:,} of them without a bound")
        if self.wrong:
            parts.append(f"{self.wrong:,} wrong")
        return f"{self.name}: {self.elems:,} elements: " + ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class RealVerdict:
    """Of one output beside its reference in f64. Elements are bit-exact (the reference, rounded), within the bound, or wrong; `without_bound`: of
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
    worst: tuple[int, ...] | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.wrong == 0 and self.without_bound < max(self.elems, 1)

    def __str__(self) -> str:
        parts = [f"{self.exact:,} bit-exact"]
        if self.within:
            parts.append(f"{self.within:,} within the bound (at most {100 * self.of_bound:.2g} % of it)")
        if self.without_bound:
            parts.append(f"{self.without_bound:,} without a bound" + ("" if self.ok or self.wrong else ": nothing was judged"))
        if self.wrong:
            apart = [f"{count:,} {what} on one side alone" for count, what in ((self.nan, "NaN"), (self.inf, "infinite")) if count]
            parts.append(f"{self.wrong:,} wrong" + (f" ({', '.join(apart)})" if apart else ""))
        return f"{self.name}: {self.elems:,} elements: {', '.join(parts)}" + self.detail


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _check_manifest(text: bytes) -> None:
    key = b'"manifest_sha256": "'
    at = text.find(key)
    if at >= 0:
        at += len(key)
        own = text[at : at + 64]
        if _sha256(text[:at] + b"0" * 64 + text[at + 64 :]).encode() == own:
            return
    raise GoldenError("manifest.json was changed since the golden was made: its own SHA-256 disagrees")


def _typed(array: np.ndarray, dtype: str, what: str) -> np.ndarray:
    """`array` as the golden's type: what NumPy's files cannot name comes as void or unsigned."""
    wanted = np.dtype(_DTYPES[dtype])
    if array.dtype == wanted:
        return array
    same_width = array.dtype.itemsize == wanted.itemsize
    if same_width and (array.dtype.kind == "V" or (array.dtype.kind == "u" and wanted.kind not in "iub")):
        return array.view(wanted)
    raise GoldenError(f"{what} is {array.dtype}; the golden's is {dtype}")


def _check_file(folder: pathlib.Path, entry: Mapping[str, Any]) -> pathlib.Path:
    """The path of a file that is the one the manifest speaks of."""
    file = entry["file"]
    path = folder / file
    if not path.exists():
        raise GoldenError(f"{path} is missing")
    data = path.read_bytes()
    if len(data) < entry["bytes"]:
        raise GoldenError(f"{file} is truncated: {len(data)} of {entry['bytes']} bytes")
    if _sha256(data) != entry["sha256"]:
        raise GoldenError(f"{file} was changed since the golden was made: its SHA-256 is not the manifest's")
    return path


def _read(folder: pathlib.Path, entry: Mapping[str, Any]) -> np.ndarray:
    return _typed(np.load(_check_file(folder, entry)), entry["dtype"], entry["file"])


def load(path: str | pathlib.Path, *, kernel: str | None = None, params: Mapping[str, Any] | None = None) -> Golden:
    """The golden in a folder. `kernel` and `params`, if given, are what it must be of."""
    folder = pathlib.Path(path)
    manifest_path = folder / "manifest.json"
    if not manifest_path.exists():
        raise GoldenError(f"{folder} is no golden: it has no manifest.json")
    text = manifest_path.read_bytes()
    try:
        manifest = json.loads(text)
    except ValueError as error:
        raise GoldenError("manifest.json is truncated, or no JSON") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise GoldenError(f"the golden's schema is {schema!r}; this module reads {SCHEMA}")
    _check_manifest(text)
    if kernel is not None and manifest["kernel"]["name"] != kernel:
        raise GoldenError(f"the golden is of {manifest['kernel']['name']}, not of {kernel}")
    has = {**manifest["kernel"]["params"], **manifest["kernel"]["tiles"], "dtype": manifest["kernel"]["dtype"]}
    for name, value in (params or {}).items():
        if name not in has:
            raise GoldenError(f"{manifest['kernel']['name']} has no parameter {name!r}; it has {', '.join(has)}")
        if has[name] != value:
            raise GoldenError(f"the golden was made with {name}={has[name]}, not {value}")
    inputs = {entry["name"]: _read(folder, entry) for entry in manifest["inputs"]}
    for entry in manifest.get("files", []):  # of a Mosaic module: its call
        _check_file(folder, entry)
    outputs = {
        entry["name"]: Output(_read(folder, entry), _read(folder, entry["bound"]), tuple(entry["block"]))
        for entry in manifest["outputs"]
    }
    return Golden(folder, manifest, inputs, outputs, _read(folder, manifest["steps"]))


def _step_that_wrote(golden: Golden, name: str, index: tuple[int, ...]) -> str:
    out = golden.outputs[name]
    steps = golden.manifest["steps"]
    if name not in steps["refs"]:
        return ""
    linear = 0
    for i, size, extent in zip(index, out.block, out.value.shape):
        linear = linear * -(-extent // size) + i // size
    dims = len(steps["dims"])
    rows = golden.steps
    found = np.flatnonzero((rows[:, dims + 1] == steps["refs"].index(name)) & (rows[:, dims + 2] == linear))
    if found.size == 0 or dims == 0:
        return ""
    ids = rows[found[0], 1 : dims + 1]
    return "; written at grid step (" + ", ".join(f"{d}={i}" for d, i in zip(steps["dims"], ids)) + ")"


def _text(array: np.ndarray, index: tuple[int, ...]) -> str:
    element = array[index]
    bits = np.frombuffer(element.tobytes(), dtype=np.uint8)[::-1]
    return f"{float(element):.9g} (0x{bits.tobytes().hex()})"


def _mismatch(golden: Golden, name: str, theirs: np.ndarray, wrong: np.ndarray, off: np.ndarray) -> str:
    out = golden.outputs[name]
    bound = out.bound.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(np.isfinite(off), np.where(bound > 0, off / bound, 1e300), np.inf)
    worst = np.unravel_index(int(np.argmax(np.where(wrong, excess, -1.0))), theirs.shape)
    worst = tuple(int(i) for i in worst)
    lines = [
        f"{int(wrong.sum()):,} of {wrong.size:,} elements of {name} are farther from the golden than any "
        "conforming build",
        f"  golden  {golden.describe()}",
        f"  worst   {name}{list(worst)} = {_text(theirs, worst)}, golden {_text(out.value, worst)}: "
        f"{off[worst]:.3g} off, {bound[worst]:.3g} allowed",
    ]
    if out.block:
        block = tuple(i // b for i, b in zip(worst, out.block))
        within = [i % b for i, b in zip(worst, out.block)]
        lines.append(f"  where   block {block}, element {within} of the block" + _step_that_wrote(golden, name, worst))
    return "\n".join(lines)


def judge(golden: Golden, name: str, theirs: Any) -> Verdict:
    """The verdict on one output; `theirs` is anything that np.asarray takes."""
    if name not in golden.outputs:
        raise GoldenError(f"the golden has no output {name!r}; it has {', '.join(golden.outputs)}")
    out = golden.outputs[name]
    theirs = _typed(np.asarray(theirs), golden_dtype(golden, name), name)
    if theirs.shape != out.value.shape:
        raise GoldenError(f"{name} has shape {theirs.shape}; the golden's is {out.value.shape}")
    width = f"u{theirs.dtype.itemsize}"
    same = np.ascontiguousarray(theirs).view(width) == np.ascontiguousarray(out.value).view(width)
    a = theirs.astype(np.float64)
    b = out.value.astype(np.float64)
    exact = same | (np.isnan(a) & np.isnan(b))
    bound = out.bound.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where(a == b, 0.0, np.abs(a - b))
    unbounded = ~exact & np.isinf(bound)
    within = ~exact & (unbounded | (off <= bound))
    wrong = ~exact & ~within
    judged = within & ~unbounded & (bound > 0)
    worst = float(np.max(off[judged] / bound[judged])) if judged.any() else 0.0
    message = _mismatch(golden, name, theirs, wrong, off) if wrong.any() else ""
    return Verdict(
        name, a.size, int(exact.sum()), int(within.sum()), int(unbounded.sum()), int(wrong.sum()), worst, message
    )


def widened(array: Any) -> Any:
    """An argument of a reference: floats as f64."""
    if not hasattr(array, "dtype"):
        return array
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype in _FLOATS else array


def real_results(results: Any) -> list[np.ndarray]:
    """What a reference gave, which must be f64 where it is float."""
    arrays = [np.asarray(result) for result in results]
    for array in arrays:
        if array.dtype in _FLOATS and array.dtype != np.float64:
            raise GoldenError(f"the reference gave {array.dtype}: its arguments are float64, and so must be what it computes. "
                              "Drop its casts (astype, dtype=)")
    return arrays


def place(golden: Golden, name: str, flat: int) -> str:
    """The block that element `flat` of an output lies in, and the step that wrote it; "" where steps write no blocks."""
    out = golden.outputs[name]
    if not out.block:
        return ""
    index = tuple(int(i) for i in np.unravel_index(flat, out.value.shape))
    block = [i // b for i, b in zip(index, out.block)]
    return f"block {block} of {golden.manifest['kernel']['name']}'s {name}" + _step_that_wrote(golden, name, index)


def judge_real(name: str, ours: np.ndarray, bound: np.ndarray, real: np.ndarray, place: Any) -> RealVerdict:
    """The verdict on one output of a golden whose other side rounds nothing. place(index): what is said of an element."""
    if real.shape != ours.shape:
        raise GoldenError(f"the reference's {name} has shape {real.shape}, the kernel's {ours.shape}")
    a, b, e = ours.astype(np.float64), real.astype(np.float64), bound.astype(np.float64) * (1 + 2.0**-20)
    narrow = ours.dtype in _FLOATS and ours.dtype.itemsize < 4
    with np.errstate(all="ignore"):
        if narrow:  # what is stored may be rounded
            info = ml_dtypes.finfo(ours.dtype)
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
    return RealVerdict(name, ours.size, int(exact.sum()), int(within.sum()), int(without.sum()), int(wrong.sum()), int(one_nan.sum()),
                   int(one_inf.sum()), float(part[within].max()) if within.any() else 0.0, worst, detail)

def _function(named: str) -> Any:
    """FILE.py:FUNCTION."""
    file, _, function = named.rpartition(":")
    if not file or not function or not pathlib.Path(file).exists():
        raise GoldenError(f"--reference {named}: FILE.py:FUNCTION, of a file that there is")
    sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        raise GoldenError(f"{file} has no function {function}")
    return getattr(module, function)


def judge_by_reference(golden: Golden, named: str) -> list[RealVerdict]:
    """The golden's own outputs beside those of a function of its inputs, naive, in f64: NumPy's or jax.numpy's."""
    reference = _function(named)
    jax = sys.modules.get("jax")
    with jax.enable_x64(True) if jax else contextlib.nullcontext(), np.errstate(all="ignore"):
        results = reference(*map(widened, golden.inputs.values()))
        wanted = real_results(results if isinstance(results, (tuple, list)) else [results])
    if len(wanted) != len(golden.outputs):
        raise GoldenError(f"{named} gave {len(wanted)} arrays, the kernel {len(golden.outputs)}")
    verdicts = []
    for (name, out), real in zip(golden.outputs.items(), wanted):

        def where(index: tuple[int, ...], name: str = name, shape: tuple[int, ...] = real.shape) -> str:
            return place(golden, name, int(np.ravel_multi_index(index, shape)))

        verdicts.append(judge_real(name, out.value, out.bound, real, where))
    return verdicts


def _say_reference(golden: Golden, named: str) -> int:
    verdicts = judge_by_reference(golden, named)
    print(f"reference   {named}, in f64")
    for verdict in verdicts:
        print(f"            {str(verdict).splitlines()[0]}")
    sys.stdout.flush()
    for verdict in verdicts:
        if not verdict.ok:
            what = f"{verdict.wrong:,} of {verdict.elems:,} elements of {verdict.name} are" if verdict.wrong else f"nothing of {verdict.name} is known not to be"
            print(f"error[mismatch]: {what} farther from {named} than the kernel's arithmetic explains\n"
                  f"  kernel  {golden.manifest['kernel']['name']}" + verdict.detail.replace("\n    ", "\n  "), file=sys.stderr)
    return 0 if all(verdict.ok for verdict in verdicts) else 1


def golden_dtype(golden: Golden, name: str) -> str:
    return next(entry["dtype"] for entry in golden.manifest["outputs"] if entry["name"] == name)


def check(golden: Golden | str | pathlib.Path, outputs: Mapping[str, Any]) -> list[Verdict]:
    """Verdicts on all outputs of the golden, in its order."""
    if not isinstance(golden, Golden):
        golden = load(golden)
    missing = [name for name in golden.outputs if name not in outputs]
    if missing:
        raise GoldenError(f"no output {', '.join(missing)}: the golden has {', '.join(golden.outputs)}")
    return [judge(golden, name, outputs[name]) for name in golden.outputs]


def assert_golden(golden: Golden | str | pathlib.Path, outputs: Any) -> list[Verdict]:
    """Raises GoldenMismatch unless every element is bit-exact or within its bound.

    `outputs`: a mapping by name, a sequence in the golden's order, or the one output itself.
    """
    if not isinstance(golden, Golden):
        golden = load(golden)
    if not isinstance(outputs, Mapping):
        arrays = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        if len(arrays) != len(golden.outputs):
            raise GoldenError(f"{len(arrays)} outputs; the golden has {', '.join(golden.outputs)}")
        outputs = dict(zip(golden.outputs, arrays))
    verdicts = check(golden, outputs)
    wrong = [v.message for v in verdicts if v.wrong]
    if wrong:
        raise GoldenMismatch("\n".join(wrong))
    return verdicts


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 and (len(arguments) != 3 or arguments[1] != "--reference"):
        print("usage: python -m tessera_golden GOLDEN OUTPUTS, or GOLDEN --reference FILE.py:FUNCTION", file=sys.stderr)
        return 2
    try:
        golden = load(arguments[0])
        if len(arguments) == 3:
            return _say_reference(golden, arguments[2])
        folder = pathlib.Path(arguments[1])
        outputs = {}
        for name in golden.outputs:
            path = folder / f"{name}.npy"
            if not path.exists():
                raise GoldenError(f"{path} is missing: the golden has an output {name}")
            outputs[name] = np.load(path)
        verdicts = check(golden, outputs)
    except GoldenError as error:
        print(f"error[bad-golden]: {error}", file=sys.stderr)
        return 2
    print("golden", golden.describe())
    for verdict in verdicts:
        print("  " + str(verdict))
        if verdict.wrong:
            print(verdict.message, file=sys.stderr)
    return 1 if any(v.wrong for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
