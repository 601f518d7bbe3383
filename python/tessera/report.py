"""compare(): what changed from one report, or recording, to another."""
import collections
import json
import math
import os

from tessera._report import Call, Report
from tessera._show import duration, html_table, text_table

__all__ = ["Comparison", "compare"]

_FIELDS = ("device", "backend", "numerics", "dtype", "sizes", "configuration", "chosen by", "HBM read", "HBM written", "remote",
           "predicted", "bits", "diagnostics")
_OF_BOTH = ("device", "backend", "numerics", "HBM read", "HBM written", "remote", "predicted", "diagnostics")  # a report, and a recording
_COUNTS = ("HBM read", "HBM written", "remote", "predicted")


def compare(a, b):
    """A Comparison of two of these, each: a Report, a Call or a list of them; tessera.run/1 as dicts, or a file with them
    (Report.to_json(), tessera run --json); the folder of tessera.record() or tessera run --record.

        print(tessera.report.compare("before", "after"))        # bytes, predicted time, choice, bits: a table of what changed

    The k-th call of a kernel in `a` is held to the k-th of that kernel in `b`. Bits are known of recordings alone, by
    their hashes.
    """
    return Comparison(_calls_of(a), _calls_of(b))


class Comparison:
    """changes: a dict per field of a call that changed: kernel, call (the k-th of its kernel), what, a, b. A call that
    is missing on one side is a change too, of "calls". same: nothing changed that both sides know. bits_known: calls
    whose outputs' hashes both have."""

    def __init__(self, a, b):
        self.calls = (len(a), len(b))
        self.changes = []
        self.bits_known = 0
        self._totals = [_totals(a), _totals(b)]
        after = _by_kernel(b)
        for kernel, calls in _by_kernel(a).items():
            others = after.pop(kernel, [])
            if len(calls) != len(others):
                self._change(kernel, None, "calls", len(calls), len(others))
            for n, (before, now) in enumerate(zip(calls, others)):
                self._compare(kernel, n, before, now)
        for kernel, calls in after.items():
            self._change(kernel, None, "calls", 0, len(calls))

    def _compare(self, kernel, n, before, now):
        known = before["bits"] is not None and now["bits"] is not None
        self.bits_known += known
        for what in _FIELDS if before["from"] == now["from"] else _OF_BOTH:
            if what == "bits":
                if known and before[what] != now[what]:
                    names = [name for name in sorted({*before[what], *now[what]}) if before[what].get(name) != now[what].get(name)]
                    self._change(kernel, n, what, "", ", ".join(names) + " differ")
            elif not _alike(before[what], now[what]):
                self._change(kernel, n, what, before[what], now[what])

    def _change(self, kernel, n, what, a, b):
        self.changes.append({"kernel": kernel, "call": n, "what": what, "a": a, "b": b})

    @property
    def same(self):
        return not self.changes

    def to_dict(self):
        return {"calls": list(self.calls), "same": self.same, "bits_known": self.bits_known, "totals": self._totals,
                "changes": self.changes}

    def _rows(self):
        alike = collections.Counter((c["kernel"], c["what"], _text(c["what"], c["a"]), _text(c["what"], c["b"]),
                                     _percent(c["a"], c["b"]) if c["what"] in _COUNTS else "") for c in self.changes)
        yield "kernel", "what", "a", "b", "", "calls"
        for row, count in alike.items():
            yield *row, f"{count:,}"
        for what in _COUNTS:
            a, b = (total[what] for total in self._totals)
            if not _alike(a, b):
                yield "all", what, _text(what, a), _text(what, b), _percent(a, b), ""

    def _headline(self):
        a, b = self.calls
        calls = f"{a:,} calls" if a == b else f"{a:,} calls and {b:,}"
        changed = f"{len(self.changes):,} changes" if self.changes else "nothing changed"
        return f"{calls}: {changed}; bits of {self.bits_known:,} compared"

    def __str__(self):
        return self._headline() + ("\n" + text_table(list(self._rows()), left=(0, 1)) if self.changes else "")

    def __repr__(self):
        return f"<Comparison: {self._headline()}>"

    def _repr_html_(self):
        return f"<p>{self._headline()}</p>" + (html_table(list(self._rows()), left=(0, 1)) if self.changes else "")


def _alike(a, b):
    """Times are sums that are rounded."""
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b


def _text(what, value):
    if value is None:
        return "not known"
    if what == "predicted":
        return duration(value)
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else " ".join(map(str, value))


def _percent(a, b):
    return f"{100 * (b / a - 1):+.1f} %" if a and b is not None else ""


def _by_kernel(calls):
    kernels = {}
    for call in calls:
        kernels.setdefault(call["kernel"], []).append(call)
    return kernels


def _totals(calls):
    totals = {}
    for what in _COUNTS:
        values = [call[what] for call in calls if call[what] is not None or call["counts"]]
        totals[what] = None if None in values else sum(values)
    return totals


def _calls_of(source):
    if isinstance(source, (str, os.PathLike)):
        return _read(os.fspath(source))
    if isinstance(source, (Call, dict)):
        source = [source]
    if isinstance(source, (Report, list, tuple)):
        return [_of_run(call.json if isinstance(call, Call) else call) for call in source
                if not isinstance(call, Call) or call.json]
    raise TypeError(f"{source!r}: a Report, tessera.run/1, a file of it, or a folder of tessera.record()")


def _read(path):
    if os.path.isdir(path):
        from tessera import _tuning

        return [_of_record(json.loads(line)) for line in _tuning.read_records(path)]
    with open(path, encoding="utf-8") as file:
        runs = json.load(file)
    return [_of_run(run) for run in (runs if isinstance(runs, list) else [runs])]


def _of_run(run):
    if not isinstance(run, dict) or run.get("schema") != "tessera.run/1":
        raise ValueError("not a report: tessera.run/1 is what `tessera run --json` and Report.to_json() write")
    traffic, kernel = run["traffic"], run["kernel"]
    return {"kernel": kernel["name"], "device": run["device"], "backend": run["backend"]["ran"], "numerics": run["numerics"],
            "dtype": kernel["dtype"], "sizes": "x".join(map(str, run["grid"])), "configuration": _pairs(kernel["params"]),
            "chosen by": (run.get("choice") or {}).get("tier", ""), "HBM read": traffic["hbm_read_bytes"],
            "HBM written": traffic["hbm_write_bytes"], "remote": traffic["remote_bytes"],
            "predicted": (run["timeline"] or {}).get("seconds"), "bits": None,
            "diagnostics": ", ".join(d["slug"] for d in run["diagnostics"]), "counts": True, "from": "report"}


def _of_record(record):
    counted = record["frontend"] != "python"  # whose kernels have lines of their own
    read, written, remote = (record["bytes"][name] if counted else None for name in ("hbm_read", "hbm_write", "remote"))
    return {"kernel": record["operation"], "device": record["device"], "backend": record["backend"]["ran"],
            "numerics": record["numerics"], "dtype": record["key"]["dtype"], "sizes": record["key"]["sizes"],
            "configuration": _pairs(record["configuration"]), "chosen by": (record["choice"] or {}).get("tier", ""),
            "HBM read": read, "HBM written": written, "remote": remote, "predicted": record["predicted_seconds"],
            "bits": {out["name"]: out["sha256"] for out in record["outputs"]} if record["outputs"] else None,
            "diagnostics": ", ".join(record["diagnostics"]), "counts": counted, "from": "recording"}


def _pairs(values):
    return " ".join(f"{name}={value}" for name, value in values.items())
