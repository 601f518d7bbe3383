"""What work costs a TPU core, fitted to the schedules that the TPU's compiler makes (predict/tpu_costs.hpp).

    tessera check FOLDERS... --device tpu-v5e --schedule --json fit.json       # of kernels to fit to
    tessera check OTHERS...  --device tpu-v5e --schedule --json held.json      # of others, to judge by
    python predict/tpu_costs.py fit.json [...] --held held.json [...] [--write memory_model/devices]

tpu_compiler/draw_kernels.py draws kernels to fit to; draw those to judge by with another seed, afterwards. Per device it
prints the figures `model_cycles_...` (cycles of a unit of each kind of work) and how far what they predict is from the
schedule's issued cycles, and with --write puts the figures into the device's file. Needs the standard library alone.

The fit: no figure below zero, least squares of the relative errors; then, kernel by kernel, weights that turn squares into
absolute values (a few kernels that the compiler treats otherwise would bend a sum of squares).
"""
import argparse
import json
import pathlib
import statistics

COSTS = ["launch", "step", "window", "tile", "element", "transcendental", "pass", "product"]
WHAT = {"launch": "once a core", "step": "a grid step", "window": "an operand that the pipeline moves, a step",
        "tile": "4 KiB of a step's blocks, loaded or stored", "element": "1,024 elements of elementwise work or reductions",
        "transcendental": "the same of exp, log, ... beside that", "pass": "8 rows of 128 through 128 x 128 of the matrix unit",
        "product": "a dot"}
COMPUTE = 0.7  # share of the time from which on something binds, as predict/timeline.cpp has it


def rows_of(files):
    """By device: (name, amounts, cycles, waiting, hbm busy share, binds) of every kernel with a schedule and a count."""
    rows = {}
    for file in files:
        for module in json.loads(pathlib.Path(file).read_text())["modules"]:
            for d in module["devices"]:
                s = d.get("schedule", {})
                if "cycles" in s and "amounts" in d and s["issued_cycles"] > 0:
                    rows.setdefault(d["device"], []).append((module["module"], [d["amounts"][c] for c in COSTS], s))
    return rows


def fitted(rows, rounds=40, sweeps=200):
    """Coordinate descent on sum of weight * (predicted / cycles - 1)^2, figures >= 0."""
    x = [[a / s["issued_cycles"] for a in amounts] for _, amounts, s in rows]
    figures = [0.0] * len(COSTS)
    weights = [1.0] * len(x)
    left = [-1.0] * len(x)
    for _ in range(rounds):
        for _ in range(sweeps // rounds + 5):
            for j in range(len(COSTS)):
                squares = sum(w * r[j] * r[j] for w, r in zip(weights, x))
                if squares == 0:
                    continue
                slope = sum(w * r[j] * e for w, r, e in zip(weights, x, left))
                new = max(0.0, figures[j] - slope / squares)
                if new != figures[j]:
                    left = [e + (new - figures[j]) * r[j] for e, r in zip(left, x)]
                    figures[j] = new
        weights = [1 / max(abs(e), 0.05) for e in left]
    return figures


def errors(rows, figures):
    return sorted(abs(sum(f * a for f, a in zip(figures, amounts)) / s["issued_cycles"] - 1) for _, amounts, s in rows)


def bound(compute, hbm):
    """As predict/timeline.cpp: what is busy for most of the time."""
    time = max(compute, hbm)
    return "compute" if compute >= COMPUTE * time and compute >= hbm else "HBM" if hbm >= COMPUTE * time else "latency of steps"


def agreement(rows, figures):
    """How many kernels are bound by the same, with predicted cycles in the place of the schedule's."""
    same = 0
    for _, amounts, s in rows:
        hbm = s["hbm_busy"] * s["cycles"]
        same += bound(sum(f * a for f, a in zip(figures, amounts)), hbm) == bound(s["issued_cycles"], hbm)
    return same


def said(name, rows, figures):
    e = errors(rows, figures)
    if e:
        nine = e[min(len(e) - 1, int(0.9 * len(e)))]
        print(f"| {name} | {len(e)} | {100 * statistics.median(e):.0f} % | {100 * nine:.0f} % | {100 * e[-1]:.0f} % "
              f"| {agreement(rows, figures)} of {len(e)} |")
    return statistics.median(e) if e else 0.0


def write(folder, device, figures, error, kernels):
    """Puts the figures behind the last of the device's file, or in the place of those that it has."""
    path = pathlib.Path(folder) / f"{device}.json"
    lines = [line for line in path.read_text().split("\n") if '"model_cycles_' not in line]
    end = max(i for i, line in enumerate(lines) if line.startswith('    "'))
    lines[end] = lines[end].rstrip(",") + ","
    source = f"predict/tpu_costs.py: fitted to libtpu 0.0.42's schedules of {kernels} kernels"
    new = [f'    "model_cycles_{c}": {{"value": {f:.4g}, "unit": "cycle", "source": "{source}: {WHAT[c]}"}},'
           for c, f in zip(COSTS, figures)]
    new.append(f'    "model_cycles_error": {{"value": {error:.3f}, "unit": "1", "source": "predict/tpu_costs.py: half of the '
               'kernels that the fit has not seen are off by less"}')
    lines[end + 1:end + 1] = new
    path.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fit", nargs="+")
    parser.add_argument("--held", nargs="+", default=[])
    parser.add_argument("--write", metavar="FOLDER")
    a = parser.parse_args()
    held = rows_of(a.held)
    for device, rows in rows_of(a.fit).items():
        figures = fitted(rows)
        print(f"{device}: " + ", ".join(f"{c} {f:.4g}" for c, f in zip(COSTS, figures)))
        print("| kernels | n | median error | nine in ten | worst | bound by the same |\n|---|---:|---:|---:|---:|---:|")
        said("fitted", rows, figures)
        error = said("held out", held.get(device, []), figures)
        if a.write:
            write(a.write, device, figures, error, len(rows))


if __name__ == "__main__":
    main()
