"""What a simulation says: a ledger per call, totals, diagnostics, pages and figures."""
import functools
import html
import json
import pathlib

from tessera._show import duration, filled, html_table, text_table


class KernelError(RuntimeError):
    """A kernel is wrong, or does what tessera cannot run. In a program of JAX it is a JaxRuntimeError too, which is what
    a TPU's compiler or runtime raises.

    slug: "race", "oob-block", "unsupported", ...; kind: "kernel", "unsupported", "unmodelled",
    "internal" or "input". The text names the line of the kernel's source.
    """

    def __init__(self, message, slug, kind):
        super().__init__(message)
        self.slug = slug
        self.kind = kind


def kernel_error(finding):
    return KernelError(finding.text, finding.slug, finding.kind)


class Call:
    """One call of a kernel. `json` is what `tessera run --json` writes (schema tessera.run/1); `compiler`, of
    simulate(check_compiles=True), what the TPU's compiler says: verdict, sentence, file, line, vmem_bytes, ..."""

    def __init__(self, finished, error=kernel_error):
        self._finished = finished
        self.printed = finished.printed
        self.note = getattr(finished, "note", "")
        self.warnings = getattr(finished, "warnings", "").splitlines()
        self.folder = getattr(finished, "folder", None) or None
        self.golden = getattr(finished, "golden", None) or None
        compiler = getattr(finished, "compiler", None)
        self.compiler = json.loads(compiler) if compiler else None
        self.errors = list(map(error, finished.findings))

    @functools.cached_property
    def json(self):
        text = self._finished.json
        return json.loads(text) if text else None

    @property
    def text(self):
        return self._finished.text

    @property
    def error(self):
        """The first thing that is wrong; None: nothing is."""
        return self.errors[0] if self.errors else None

    @property
    def kernel(self):
        return self.json["kernel"]["name"] if self.json else None

    @property
    def traffic(self):
        """Bytes moved: hbm_read_bytes, hbm_write_bytes, remote_bytes, refs, ..."""
        return self.json["traffic"]

    @property
    def predicted_seconds(self):
        """What the device is predicted to take; None: not known."""
        return self._timeline.get("seconds")

    @property
    def binds(self):
        """What the predicted time is spent on: "HBM", "MXU", ...; "" if it is not known."""
        return self._timeline.get("binds") or ""

    @property
    def _timeline(self):
        return (self.json or {}).get("timeline") or {}

    def record(self):
        """The call as one flat dict, a row of to_dataframe()."""
        slugs = ", ".join(dict.fromkeys(error.slug for error in self.errors))
        j = self.json
        if j is None:
            return {"kernel": self.kernel or "?", "grid": "", "predicted_seconds": None, "binds": "", "hbm_read_bytes": 0,
                    "hbm_write_bytes": 0, "remote_bytes": 0, "vmem_bytes": 0, "undefined": 0, "errors": slugs, "device": "",
                    "steps": 0, "simulator_seconds": 0.0}
        return {"kernel": self.kernel, "grid": "x".join(map(str, j["grid"])) or "1", "predicted_seconds": self.predicted_seconds,
                "binds": self.binds, **{name: self.traffic[name] for name in ("hbm_read_bytes", "hbm_write_bytes", "remote_bytes")},
                "vmem_bytes": j["memory"]["vmem_peak_bytes"], "undefined": sum(j["undefined"]), "errors": slugs, "device": j["device"],
                "steps": j["steps"], "simulator_seconds": j["seconds"]}

    def __repr__(self):
        return f"<{type(self).__name__} {self.kernel or '?'}{_predicted(', predicted ', self.predicted_seconds)}>"

    def to_html(self):
        """The call as a page of its own, that needs nothing else: numbers, pictures, the predicted timeline."""
        shown = {"run": dict(self.json), **json.loads(self._finished.page)}
        if self.errors:
            shown["run"]["diagnostics"] = list(map(_diagnostic, self.errors))
        return filled("page.html", json.dumps(shown), self.kernel)

    def save_html(self, path):
        pathlib.Path(path).write_text(self.to_html(), encoding="utf-8")

    def __str__(self):
        return self.text + "".join(map(str, self.errors))


def _predicted(words, seconds):
    return "" if seconds is None else words + duration(seconds)


def _diagnostic(error):
    """As in tessera.run/1."""
    return {"slug": error.slug, "kind": error.kind, "message": str(error)}


class Report:
    """A sequence of calls: len(report), report[0], for call in report.

    calls: in the order in which they ran, up to 128 MiB of them. interpreted: pallas_calls that were lowered for JAX's
    own interpreter. left_out: calls that ran, of which nothing is kept here. not_awaited: once the simulation is over, says
    which copies a kernel handed on that no other waited for."""

    def __init__(self):
        self.calls = []
        self.interpreted = 0
        self.left_out = 0
        self.not_awaited = ""

    def __len__(self):
        return len(self.calls)

    def __getitem__(self, index):
        return self.calls[index]

    def __iter__(self):
        return iter(self.calls)

    @property
    def errors(self):
        return [error for call in self.calls for error in call.errors]

    @property
    def diagnostics(self):
        """As in tessera.run/1: slug, kind, message."""
        return list(map(_diagnostic, self.errors))

    @property
    def warnings(self):
        """What may be wrong with kernels and is no error, a sentence each that begins with its diagnostic: `output-not-covered`
        where data decided what was left unwritten, `stale-alias`."""
        return list(dict.fromkeys(line for call in self.calls for line in getattr(call, "warnings", ())))

    @property
    def left_unwritten(self):
        """Of the warnings: what kernels left of their outputs because data decided so, no error as long as nobody reads it."""
        return [line for line in self.warnings if line.startswith("output-not-covered")]

    @property
    def note(self):
        """What a reader of the table might miss: kernels that did not run here, warnings. "" if there is nothing."""
        interpreted = f"{self.interpreted} pallas_call(s) with interpret=True ran in JAX's interpreter, unchecked"
        if self.calls:
            left_out = f"{self.left_out:,} calls more ran, of which this report has no room: they are in no total of it"
            return "\n".join((interpreted,) * (self.interpreted > 0) + (left_out,) * (self.left_out > 0)
                             + (self.not_awaited,) * (self.not_awaited != "")
                             + tuple(f"warning: {line}" for line in self.warnings))
        why = interpreted if self.interpreted else (
            "the program took another path, or was compiled before and outside of a simulation")
        return f"no TPU kernel ran in this simulation: {why}"

    def _total(self, name):
        return sum(call.traffic[name] for call in self.calls if call.json)

    @property
    def hbm_read_bytes(self):
        return self._total("hbm_read_bytes")

    @property
    def hbm_write_bytes(self):
        return self._total("hbm_write_bytes")

    @property
    def remote_bytes(self):
        return self._total("remote_bytes")

    @property
    def predicted_seconds(self):
        """What the device is predicted to take for the kernels, one after the other; None: of some it is not known."""
        times = [call.predicted_seconds for call in self.calls]
        return None if None in times else sum(times)

    @property
    def seconds(self):
        """Spent in the simulator, which says nothing of the device."""
        return sum(call.json["seconds"] for call in self.calls if call.json)

    def records(self):
        """A dict per call: kernel, predicted_seconds, hbm_read_bytes, ..."""
        return [call.record() for call in self.calls]

    def to_dataframe(self):
        """records() as a pandas.DataFrame. pandas has to be installed."""
        try:
            import pandas
        except ImportError as e:
            raise ImportError("to_dataframe() needs pandas: pip install pandas. records() is the same without it") from e
        return pandas.DataFrame(self.records())

    def to_json(self, path=None):
        """A list with a tessera.run/1 object per call; written to `path`, if one is given."""
        text = json.dumps([call.json for call in self.calls if call.json], indent=1)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        return text

    def save_html(self, path):
        """A page with every call, that needs nothing else."""
        folded = self._folded()
        shown = " open" if len(folded) == 1 else ""
        calls = "".join(f"<details{shown}><summary>{html.escape(call.kernel)}, {call.json['steps']:,} steps"
                        f"{f', the first of {len(alike):,} alike' if len(alike) > 1 else ''}</summary>"
                        f'<iframe loading="lazy" title="{html.escape(call.kernel)}" '
                        f'srcdoc="{html.escape(call.to_html())}"></iframe></details>\n'
                        for alike in folded for call in alike[:1] if call.json)
        pathlib.Path(path).write_text(_PAGE.format(table=self._repr_html_(), calls=calls), encoding="utf-8")

    def _repr_html_(self):
        return f"<p>{html.escape(self._headline())}</p>" + html_table(self._rows(), left=self._LEFT) + (f"<p>{html.escape(self.note)}</p>" if self.note else "")

    def roofline(self, ax=None):
        """Each call under the roofs of its device, as a matplotlib figure (or drawn into `ax`): FLOP per byte of
        HBM traffic, and FLOP per predicted second (the most that the roofs allow, where no time is predicted). matplotlib has to be installed."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots()
        drawn = set()
        for call in self.calls:
            if not call.json or not call.json["roofline"]["intensity"] or not call.json["roofline"]["ridge"]:
                continue
            roof = call.json["roofline"]
            peak, bandwidth = roof["peak_flops"], roof["hbm_bytes_per_s"]
            if (peak, bandwidth) not in drawn:
                drawn.add((peak, bandwidth))
                ends = [roof["ridge"] / 1e3, roof["ridge"], roof["ridge"] * 1e2]
                ax.plot(ends, [min(peak, bandwidth * x) for x in ends],
                        label=f"{call.json['device']}, {call.json['kernel']['dtype']}")
            reached = min(peak, bandwidth * roof["intensity"])
            if call.predicted_seconds:
                reached = call.json["ops"]["flops"] / call.predicted_seconds
            ax.plot(roof["intensity"], reached, "o", label=call.kernel)
        ax.set(xscale="log", yscale="log", xlabel="FLOP per HBM byte", ylabel="FLOP/s")
        if drawn:
            ax.legend()
        return ax.figure

    @staticmethod
    def _alike(record):
        """What calls have in common that are one row."""
        return tuple(value for name, value in record.items() if name != "simulator_seconds")

    def _folded(self):
        folded = {}
        for call in self.calls:
            folded.setdefault(self._alike(call.record()), []).append(call)
        return list(folded.values())

    def _headline(self):
        if not self.calls:
            return ""
        devices = ", ".join(dict.fromkeys(call.json["device"] for call in self.calls if call.json))
        calls = f"{len(self.calls):,} {self._CALL if len(self.calls) == 1 else self._CALLS}"
        predicted = self.predicted_seconds
        time = "no time is predicted for all of them" if predicted is None else f"predicted {duration(predicted)}"
        return f"{calls}{devices and ' on ' + devices}: {time}"

    def _rows(self):
        rows = [("kernel", "grid", self._CALLS, "predicted", "bound by", "HBM read", "HBM written", "remote", "VMEM", "undefined",
                 "simulated in", "")]
        for calls in self._folded():
            records = [call.record() for call in calls]
            first, times = records[0], [record["predicted_seconds"] for record in records]
            rows.append((first["kernel"], first["grid"], f"{len(calls):,}", "" if None in times else duration(sum(times)), first["binds"],
                         *(f"{sum(record[name] for record in records):,}" for name in ("hbm_read_bytes", "hbm_write_bytes", "remote_bytes")),
                         f"{first['vmem_bytes']:,}", f"{sum(record['undefined'] for record in records):,}",
                         duration(sum(record["simulator_seconds"] for record in records)), first["errors"]))
        return rows

    _LEFT = (0, 4, 11)  # columns of words
    _CALL, _CALLS = "call", "calls"

    def __str__(self):
        table = text_table(self._rows(), left=self._LEFT) if self.calls else ""
        return "\n".join(filter(None, (self._headline(), table, self.note)))

    def __repr__(self):
        return f"<{type(self).__name__}: {self._headline() or self.note}>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>tessera report</title><style>
:root {{ color-scheme: light dark; --ink: #1b1f24; --line: #d1d9e0; --ground: #fff; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6edf3; --line: #3d444d; --ground: #0d1117; }} }}
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 1.2rem; color: var(--ink); background: var(--ground); }}
h1 {{ font-size: 1.5rem; margin: 0; }} main {{ overflow-x: auto; }} table {{ border-collapse: collapse; }} tr {{ border-bottom: 1px solid var(--line); }}
td, th {{ padding: .2rem .8rem .2rem 0; }} summary {{ cursor: pointer; padding: .3rem 0; }}
iframe {{ width: 100%; height: 90vh; border: 1px solid var(--line); }}
</style></head><body><h1>Kernels that ran</h1>
<main>{table}</main>
{calls}</body></html>
"""
