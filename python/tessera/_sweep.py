"""sweep(): a function of JAX with other block shapes, counted on one device or several."""
import functools
import itertools
import json
import pathlib
import sys

from tessera._jax import JaxKernelError
from tessera._session import counting, simulate
from tessera._show import filled, html_table, text_table


class Sweep:
    """rows: the fastest first, then what does not run.

    Each row is a dict as in tessera.sweep/1: device, shape, and either `reason` or hbm_read_bytes, hbm_write_bytes,
    vmem_bytes, vmem_capacity_bytes, flops (None: data decides), predicted_seconds (None: not modelled), rank_seconds (then the time of the
    bytes at the full rate), binds, note.
    """

    def __init__(self, name, rows):
        self.name = name
        self.rows = sorted(rows, key=lambda row: ("reason" in row, row.get("rank_seconds")))

    @property
    def best(self):
        """The shape that is predicted to be the fastest, as keyword arguments."""
        return dict(self.rows[0]["shape"])

    def to_json(self, path=None):
        text = json.dumps({"schema": "tessera.sweep/1", "kernel": self.name,
                           "rows": [{k: v for k, v in row.items() if k != "shape"}
                                    | {"shape": {k: str(v) for k, v in row["shape"].items()}} for row in self.rows]},
                          indent=1)
        if path is not None:
            pathlib.Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def save_html(self, path):
        """A page with the table and a picture, that needs nothing else."""
        pathlib.Path(path).write_text(filled("sweep_page.html", self.to_json(), self.name), encoding="utf-8")

    def _cells(self):
        yield "device", "shape", "HBM read", "HBM written", "VMEM", "predicted", "bound by"
        for row in self.rows:
            shape = " ".join(f"{name}={value}" for name, value in row["shape"].items())
            if "reason" in row:
                yield row["device"], shape, "", "", "", "", "no: " + row["reason"]
                continue
            seconds = row["predicted_seconds"]
            yield (row["device"], shape, f"{row['hbm_read_bytes']:,}", f"{row['hbm_write_bytes']:,}",
                   f"{row['vmem_bytes']:,}", "" if seconds is None else f"{seconds * 1e6:,.1f} us",
                   "; ".join(filter(None, (row["binds"], row["note"]))))

    def __str__(self):
        return text_table(list(self._cells()), left=(0, 1, 6))

    __repr__ = __str__

    def _repr_html_(self):
        return html_table(list(self._cells()), left=(0, 1, 6))


def sweep(function, *args, device="tpu-v5e", cores=1, dry=True, **shapes):
    """Calls function(*args, bm=64, bn=128), ... for every combination of bm=[64, 128], bn=[128]; gives a Sweep.

    device: one or several. The kernels that a call of the function runs are added up. A combination that cannot be
    lowered, may not compile, or whose kernel is wrong, is kept with its reason; if none can, its error is raised.
    dry: bytes, VMEM and predicted time alone (`simulate(dry=True)`). False: kernels compute, which a function needs
      that decides by what a kernel gave.
    cores: as in simulate().
    """
    if not shapes:
        raise ValueError("nothing to sweep: give a keyword argument several values, as in bm=[64, 128]")
    shapes = {name: list(values) if isinstance(values, (list, tuple, range)) else [values]
              for name, values in shapes.items()}
    points = [(d, dict(zip(shapes, values))) for d in ([device] if isinstance(device, str) else device)
              for values in itertools.product(*shapes.values())]
    rows = []
    first_error = None
    for n, (where, shape) in enumerate(points):
        if sys.stderr.isatty():
            print(f"\r{n} of {len(points)} block shapes", end="", file=sys.stderr, flush=True)
        row, error = _row(functools.partial(_count, function, args, shape, where, cores, dry))
        first_error = first_error or error
        rows.append({"device": where, "shape": shape} | row)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if all("reason" in row for row in rows):
        raise first_error
    return Sweep(getattr(function, "__name__", "function"), rows)


def counted(function, args, shape, device, cores, timing="model"):
    """A row of one shape, and the error if there is one; within a simulation too, whose report does not have it."""
    def count():
        with counting(device, cores, timing) as report:
            return _totals(function, args, shape, report)

    return _row(count)


def _row(count):
    try:
        return count(), None
    except Exception as error:  # of JAX's lowering, of the kernel, of the function itself
        return {"reason": f"{getattr(error, 'slug', type(error).__name__)}: {_headline(error)}"}, error


def _headline(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removeprefix("error[" + getattr(error, "slug", "") + "]: ") if lines else ""


def _count(function, args, shape, device, cores, dry):
    with simulate(device=device, cores=cores, dry=dry) as report:
        return _totals(function, args, shape, report)


def _totals(function, args, shape, report):
    import jax

    jax.block_until_ready(function(*args, **shape))
    for call in report.calls:
        if call.errors:
            raise call.errors[0]
    calls = [call.json for call in report.calls]
    if not calls:
        raise ValueError("no pallas_call ran: a function that is jitted outside keeps what it was compiled to")
    doubt = next((call["memory"]["vmem_in_doubt"] for call in calls if "vmem_in_doubt" in call["memory"]), None)
    if doubt is not None:
        raise JaxKernelError(doubt, "vmem-capacity", "kernel")
    lines = [call.get("timeline", {"unmodelled": "no trace"}) for call in calls]
    missing = next((line["unmodelled"] for line in lines if "unmodelled" in line), None)
    longest = max(lines, key=lambda line: line.get("seconds", 0))
    return {
        "hbm_read_bytes": report.hbm_read_bytes,
        "hbm_write_bytes": report.hbm_write_bytes,
        "vmem_bytes": max(call["memory"]["vmem_peak_bytes"] for call in calls),
        "vmem_capacity_bytes": calls[0]["memory"]["vmem_capacity_bytes"],
        "flops": sum(call["ops"]["flops"] for call in calls) if all(call["ops"] for call in calls) else None,
        "predicted_seconds": None if missing else sum(line["seconds"] for line in lines),
        "rank_seconds": sum(call["rank_seconds"] for call in calls),
        "binds": "" if missing else longest["binds"],
        "note": f"no time: {missing}" if missing else "",
    }
