"""What a simulation says: a ledger per call, totals, diagnostics."""
import json


class KernelError(RuntimeError):
    """A kernel is wrong, or does what tessera cannot run.

    slug: "race", "oob-block", "unsupported", ...; kind: "kernel", "unsupported", "unmodelled",
    "internal" or "input". The text names the line of the kernel's source.
    """

    def __init__(self, message, slug, kind):
        super().__init__(message)
        self.slug = slug
        self.kind = kind


class Call:
    """One call of a kernel. `json` is what `tessera run --json` writes (schema tessera.run/1)."""

    def __init__(self, finished):
        self.json = json.loads(finished.json) if finished.json else None
        self.text = finished.text
        self.printed = finished.printed
        self.folder = finished.folder or None
        self.golden = finished.golden or None
        self.error = KernelError(finished.failure, finished.slug, finished.kind) if finished.failure else None

    @property
    def kernel(self):
        return self.json["kernel"]["name"] if self.json else None

    @property
    def traffic(self):
        """Bytes moved: hbm_read_bytes, hbm_write_bytes, remote_bytes, refs, ..."""
        return self.json["traffic"]

    def __str__(self):
        return self.text + (str(self.error) if self.error else "")


class Report:
    """calls: in the order in which they ran."""

    def __init__(self):
        self.calls = []

    @property
    def errors(self):
        return [call.error for call in self.calls if call.error]

    @property
    def diagnostics(self):
        """As in tessera.run/1: slug, kind, message."""
        return [{"slug": e.slug, "kind": e.kind, "message": str(e)} for e in self.errors]

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
    def seconds(self):
        """Spent in the simulator."""
        return sum(call.json["seconds"] for call in self.calls if call.json)

    def to_json(self, path=None):
        """A list with a tessera.run/1 object per call; written to `path`, if one is given."""
        text = json.dumps([call.json for call in self.calls if call.json], indent=1)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        return text

    def __str__(self):
        rows = [("kernel", "grid", "steps", "HBM read", "HBM written", "remote", "VMEM", "seconds", "")]
        for call in self.calls:
            if call.json is None:
                rows.append(("?", "", "", "", "", "", "", "", call.error.slug))
                continue
            j, t = call.json, call.traffic
            rows.append((call.kernel, "x".join(map(str, j["grid"])) or "1", f"{j['steps']:,}",
                         f"{t['hbm_read_bytes']:,}", f"{t['hbm_write_bytes']:,}", f"{t['remote_bytes']:,}",
                         f"{j['memory']['vmem_peak_bytes']:,}", f"{j['seconds']:.3g}",
                         call.error.slug if call.error else ""))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(w) if i in (0, 8) else cell.rjust(w)
                           for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]
        return "\n".join(lines)

    __repr__ = __str__
