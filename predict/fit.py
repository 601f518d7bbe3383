"""Fits the figures of the GPU's model of time (`model_...` of a device file) to measured runs: predict/ACCURACY.md.

    python3 predict/fit.py table TIMES DEVICE=FILE.jsonl ...                  errors by kind
    python3 predict/fit.py bytes TIMES DEVICE=FILE.jsonl ...                  DRAM's reads beside those that were counted
    python3 predict/fit.py fit TIMES SPEC.json ... -- DEVICE=FILE.jsonl ...   fits all figures that are not measured, writes them to SPEC.json ...
    python3 predict/fit.py cross TIMES PARTS SPEC.json -- DEVICE=FILE.jsonl ...   errors of each part of the runs with figures fitted to the others

TIMES is build/release/tests/gpu_model_times, which predicts all runs of a file in one process. FILE has lines with "run", "seconds" and
"launch", as predict/random_shapes.py and predict/accuracy.py measure them. What is made small is the sum of |log(predicted / measured)|,
where large errors count less. With CODE=FOLDER predictions are from what nvcc made: registers and bytes of "launch", and the code that
predict/random_shapes.py kept in FOLDER.
"""
import collections
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import random_shapes

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Figures that are not fitted to times: measured, or of the data sheet.
MEASURED = {"l2_capacity", "l2_kept", "local_bandwidth", "spill_rounds", "gradient_tiles", "gradient_registers", "column_tiles", "row_tiles", "sm_spread", "page_seconds", "page_reuse", "clock", "registers_base", "registers_per_element", "registers_per_function",
            *(f"{end}_{kind}" for end in ("least", "most") for kind in ("wgmma", "mma_sync", "fma", "elementwise"))}


def kind(row):
    if "wgmma" in row["launch"]:
        return "wgmma"
    if "mma.sync" in row["launch"]:
        return "mma.sync"
    return "rows" if re.match("softmax|norm|add_|rope", row["run"]) else "FMA"


def compiled(row):
    """What nvcc made of the instance that ran, with its code where it is kept."""
    registers, local_bytes = map(int, re.search(r"(\d+) registers each \((\d+) bytes spilled", row["launch"]).groups())
    cubin = pathlib.Path(os.environ["CODE"]) / f"{random_shapes.instance(random_shapes.shape_of(row['run']))}.cubin"
    return {"registers": registers, "local_bytes": local_bytes, **({"cubin": str(cubin)} if cubin.exists() else {})}


class Runs:
    """Measured runs on one device, and what the model says of them."""

    def __init__(self, times, device, rows, what=()):
        self.device, self.rows = device, rows
        self.file = tempfile.NamedTemporaryFile("w", suffix=".jsonl")
        for row in rows:
            self.file.write(json.dumps({"run": row["run"], **({"compiled": compiled(row)} if "CODE" in os.environ else {})}) + "\n")
        self.file.flush()
        self.process = subprocess.Popen([times, device, self.file.name, *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, figures, which=None):
        self.which = range(len(self.rows)) if which is None else which
        self.process.stdin.write(" ".join(f"{name} {value:.6g}" for name, value in figures.items()) + " : "
                                 + " ".join(map(str, self.which)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        """Seconds by the number of the run."""
        return dict(zip(self.which, map(float, self.process.stdout.readline().split())))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def in_turns(times, sets):
    """A process for each core that may be used."""
    cores = int(os.environ.get("CORES", os.cpu_count()))
    return [Runs(times, device, rows[n::cores]) for device, rows in sets for n in range(cores) if rows[n::cores]]


def figures_of(spec):
    figures = json.load(open(spec))["figures"]
    return {name[len("model_"):]: figure["value"] for name, figure in figures.items() if name.startswith("model_")}


def read(arguments):
    return [(device, [json.loads(line) for line in open(file)]) for device, file in (a.split("=", 1) for a in arguments)]


def error(predicted, measured):
    return math.log(predicted / measured)


def answers(runs, figures, of=None):
    """Logarithms of predictions over measured times by (place in `runs`, number); `of`: of those alone."""
    for n, r in enumerate(runs):
        r.ask(figures, None if of is None else sorted(i for m, i in of if m == n))
    return {(n, i): error(p, r.rows[i]["seconds"]) for n, r in enumerate(runs) for i, p in r.answer().items()}


def solve(matrix, vector):
    """Gaussian elimination; the matrix is positive definite."""
    rows = [[*row, v] for row, v in zip(matrix, vector)]
    for i, pivot in enumerate(rows):
        for other in rows[i + 1:]:
            factor = other[i] / pivot[i]
            for j in range(i, len(other)):
                other[j] -= factor * pivot[j]
    x = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        x[i] = (rows[i][-1] - sum(rows[i][j] * x[j] for j in range(i + 1, len(rows)))) / rows[i][i]
    return x


# Errors beyond this many count as many times less: a mechanism that is missing is no figure's to mend.
USUAL = 0.12
# With the same slopes, at most.
STEPS = 5
# One run in so many tells which kinds a figure is of.
PROBED = 5
# How far from where it begins a figure is drawn back, beside one run's error.
PRIOR = 0.05


def descend(runs, figures, rounds, say=True, keep=lambda figures: None):
    """Gauss-Newton in the logarithms of figures, runs weighted anew in each step; slopes serve for as many steps as they help, a run's
    are asked for again where a figure moved it before."""
    end = time.time() + float(os.environ.get("SECONDS_AT_MOST", 1e9))
    begin, touched = dict(figures), {}

    def weight(e):
        return 1 / max(abs(e), USUAL / 4) / (1 + (e / 4 / USUAL) ** 2)

    def loss(of):
        return sum(min(abs(e), 4 * USUAL + math.log1p(max(0, abs(e) - 4 * USUAL)) / 2) for e in of.values()) / len(of)

    now = answers(runs, figures)
    # A figure that moves none of some runs of a kind is none of that kind's.
    some, of_kind = set(), collections.defaultdict(list)
    for k in now:
        of_kind[kind(runs[k[0]].rows[k[1]])].append(k)
    for keys in of_kind.values():
        some.update(keys[::PROBED])
    damping = 1.0
    for n in range(rounds):
        slopes = {}
        for name in figures:
            if time.time() > end:
                return figures
            step = 0.1
            moved = {**figures, name: figures[name] * math.exp(step)}
            if name not in touched:
                there = answers(runs, moved, some)
                kinds = {kind(runs[m].rows[i]) for (m, i), e in there.items() if e != now[m, i]}
                touched[name] = {k for by in kinds for k in of_kind[by]}
            there = answers(runs, moved, touched[name])
            slope = {k: (e - now[k]) / step for k, e in there.items() if e != now[k]}
            touched[name] = set(slope)
            if slope:
                slopes[name] = slope
        answers(runs, figures, ())
        used = list(slopes)
        before = loss(now)
        for _ in range(STEPS):
            w = {k: weight(e) for k, e in now.items()}
            weighted = {a: {k: w[k] * s for k, s in slopes[a].items()} for a in used}
            matrix = [[sum(s * slopes[b][k] for k, s in weighted[a].items() if k in slopes[b]) for b in used] for a in used]
            vector = [-sum(s * now[k] for k, s in weighted[a].items()) for a in used]
            for i, name in enumerate(used):
                matrix[i][i] += damping * (PRIOR / USUAL) + 0.02 * matrix[i][i] + 1e-9
                vector[i] -= PRIOR * math.log(figures[name] / begin[name])
            moves = dict(zip(used, solve(matrix, vector)))
            tried = {**figures, **{name: figures[name] * math.exp(max(-0.5, min(0.5, m))) for name, m in moves.items()}}
            there = answers(runs, tried)
            if loss(there) < loss(now):
                enough = loss(now) - loss(there) < 0.002 * before
                figures, now, damping = tried, there, damping / 3
                keep(figures)
                if enough:
                    break
            else:
                damping *= 5
        if say:
            print(f"round {n + 1}: {loss(now):.4f}, median {statistics.median(map(abs, now.values())):.4f}", file=sys.stderr, flush=True)
        if before - loss(now) < 0.002 * before:
            break
    return figures


def summary(name, errors):
    e = sorted(map(abs, errors))
    return f"| {name} | {len(e)} | {statistics.median(e):.1%} | {e[math.ceil(0.9 * len(e)) - 1]:.1%} | {e[-1]:.1%} |"


def print_summaries(rows):
    """`rows`: measured ones with `now`, the prediction."""
    print("| | n | median | nine in ten | worst |\n|---|---|---|---|---|")
    print(summary("all", [r["now"] / r["seconds"] - 1 for r in rows]))
    for by in (kind, lambda row: row["run"].split()[0]):
        of = collections.defaultdict(list)
        for r in rows:
            of[by(r)].append(r["now"] / r["seconds"] - 1)
        for name, errors in sorted(of.items()):
            print(summary(name, errors))


def inside(row):
    """Whether the interval around a prediction holds what was measured."""
    figures = figures_of(ROOT / f"memory_model/devices/{row['device']}.json")
    of = {"wgmma": "wgmma", "mma.sync": "mma_sync", "FMA": "fma", "rows": "elementwise"}[kind(row)]
    return figures[f"least_{of}"] <= row["seconds"] / row["now"] <= figures[f"most_{of}"]


def predictions(times, sets, figures={}, what=()):
    rows = []
    for device, some in sets:
        runs = Runs(times, device, some, what)
        runs.ask(figures)
        rows += [{**some[i], "device": device, "now": now} for i, now in runs.answer().items()]
        runs.close()
    return rows


def table(times, *files):
    rows = predictions(times, read(files))
    for r in sorted(rows, key=lambda r: (kind(r), r["run"])):
        print(f"{r['now'] * 1e6:9.1f} {r['seconds'] * 1e6:9.1f} {r['now'] / r['seconds'] - 1:+5.0%} {kind(r):8} {r['run']}")
    print_summaries(rows)
    print(f"{sum(map(inside, rows))} of {len(rows)} inside the interval")


def bytes_read(times, *files):
    sets = [(device, [r for r in rows if r.get("dram_read", 0) > 0]) for device, rows in read(files)]
    rows = predictions(times, sets, what=["bytes"])
    said = [r["now"] < 0 for r in rows]  # a report says that they are without something
    for r in rows:
        r["now"] = abs(r["now"])
    for r, without in sorted(zip(rows, said), key=lambda row: (kind(row[0]), row[0]["run"])):
        print(f"{r['now']:14,.0f} {r['dram_read']:14,} {r['now'] / r['dram_read'] - 1:+6.1%} {kind(r):8} {r['run']}{' *' * without}")
    print("| | n | median | nine in ten | worst |\n|---|---|---|---|---|")
    for name, of in (("DRAM's reads", False), ("* said to be without registers in local memory", True)):
        errors = [r["now"] / r["dram_read"] - 1 for r, without in zip(rows, said) if without == of]
        if errors:
            print(summary(name, errors))


def fit(times, *arguments):
    specs, files = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    figures = figures_of(specs[0])
    runs = in_turns(times, read(files))

    def keep(figures):
        for spec in specs:
            text = open(spec).read()
            for name, value in figures.items():
                text = re.sub(rf'("model_{name}": {{"value": )[^,]+', rf"\g<1>{float(f'{value:.3g}')}", text)
            open(spec, "w").write(text)

    descend(runs, {n: v for n, v in figures.items() if n not in MEASURED}, 12, keep=keep)


def cross(times, parts, spec, _, *files):
    sets, parts, rows = read(files), int(parts), []
    only = os.environ.get("PART")
    for part in range(parts) if only is None else [int(only)]:
        runs = in_turns(times, [(d, [r for i, r in enumerate(some) if i % parts != part]) for d, some in sets])
        figures = {n: v for n, v in figures_of(spec).items() if n not in MEASURED}
        figures = descend(runs, figures, 12, say=False)
        for r in runs:
            r.close()
        rows += predictions(times, [(d, [r for i, r in enumerate(some) if i % parts == part]) for d, some in sets], figures)
    for r in rows:
        print(json.dumps({"run": r["run"], "kind": kind(r), "seconds": r["seconds"], "now": r["now"]}))
    print_summaries(rows)


if __name__ == "__main__":
    {"table": table, "bytes": bytes_read, "fit": fit, "cross": cross}[sys.argv[1]](*sys.argv[2:])
