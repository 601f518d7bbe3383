"""How far the times by units of a TPU core are from the TPU compiler's schedules, call by call, on each device.

    TESSERA_TPU_PYTHON=PYTHON python tpu_compiler/judge_units.py TESSERA FOLDER... [--devices tpu-v5e,tpu-v6e] [--keep | --fit]

FOLDER holds folders of calls with arrays (draw_bodies.py, a corpus). Of each call and device: the cycles that its schedule issues and
those that units predict, whole times, what binds, whether the schedule lies in the interval that is said. Schedules are kept beside
the call (schedule_DEVICE.json), so that the compiler is asked once. Prints them by device, and by the kernel's name the worst; --keep
writes the interval that nine in ten others lie in with their cycles and with their whole times, with 90 % confidence, into the tables
(program/unit_costs); --fit writes there the cycles of what is no op's: a step's, a branch's, what units do not hide of one another, what a
vector register too many takes. Needs numpy.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

import unit_costs

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICES = "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x"


def run(tessera, call, device, timing, *more, environment=None):
    done = subprocess.run([tessera, "run", str(call), "--device", device, "--timing", timing, "--dry", "--no-check", "--json", "-", *more],
                          capture_output=True, text=True, env={**os.environ, **(environment or {})})
    return json.loads(done.stdout) if done.returncode == 0 else None


def clock_of(device):
    return json.loads((ROOT / f"memory_model/devices/{device}.json").read_text())["figures"]["model_clock"]["value"]


def schedule_of(tessera, call, device):
    """Cycles, seconds, what binds and bytes spilled; {}: it is refused, or cannot be played."""
    kept = call / f"schedule_{device}.json"
    if not kept.exists():
        found = run(tessera, call, device, "compiler") or {}
        schedule = found.get("compiled_schedule")
        kept.write_text(json.dumps({} if schedule is None else {
            "cycles": schedule["issued_cycles"], "overhead": schedule["overhead_cycles"], "seconds": found["timeline"]["seconds"],
            "binds": found["timeline"]["binds"], "spill_stores": schedule["spill_stores"], "spill_loads": schedule["spill_loads"]}) + "\n")
    return json.loads(kept.read_text())


def judged(tessera, call, device):
    schedule = schedule_of(tessera, call, device)
    cores = unit_costs.cores(call, device)
    found = run(tessera, call, device, "units", "--cores", str(cores)) if schedule else None
    if found is None or found["timeline"]["most_seconds"] == 0:
        return None
    line = found["timeline"]
    units = unit_costs.asked(tessera, call)
    steps = int(np.prod([max(1, n) for n in units["grid"]]))
    predicted = line["compute_seconds"] * clock_of(device)
    return {"at": call, "call": call.name, "scheduled": schedule["cycles"], "predicted": predicted, "stretch": steps == 1 and len(units["blocks"]) == 1,
            "ratio": schedule["cycles"] / predicted, "whole": schedule["seconds"] / line["seconds"],
            "inside": line["least_seconds"] <= schedule["seconds"] <= line["most_seconds"],
            "binds": (schedule["binds"] == "compute") == (line["binds"] == "compute"), "spills": schedule["spill_loads"] + schedule["spill_stores"]}


FITTED = (*unit_costs.STEP, "operand", "copying", "jump", "product", "rest", "spill")
BY_RUNS = ("jump", "product", "rest", "spill")  # how often there is one, or how much, a run says
MORE = 100  # of rounded cycles the difference is to be large


def computed(tessera, call, device, table, **cycles):
    """The cycles that a call takes by a table with these instead of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({**table, "cycles": {**table["cycles"], **cycles}}, file)
        file.flush()
        found = run(tessera, call, device, "units", "--cores", str(unit_costs.cores(call, device)),
                    environment={"TESSERA_UNIT_COSTS": file.name})
    return found["timeline"]["compute_seconds"] * clock_of(device)


def parts_of(tessera, call, device, table):
    """How many cycles of its prediction one more of each of FITTED is; and those of no such kind."""
    kept = call / f"parts_{device}.json"
    if not kept.exists():
        plain = computed(tessera, call, device, table)
        of_runs = [(computed(tessera, call, device, table, **{name: table["cycles"][name] + MORE}) - plain) / MORE for name in BY_RUNS]
        kept.write_text(json.dumps({"plain": plain, "of_runs": of_runs, "cycles": table["cycles"]}) + "\n")
    found = json.loads(kept.read_text())
    units = unit_costs.asked(tessera, call)
    steps = int(np.prod([max(1, n) for n in units["grid"]])) / unit_costs.cores(call, device)
    units["ragged"] = unit_costs.ragged_dims(call, units)
    of_step = [(steps + 2) * of(units) if steps > 1 else 0 for of in unit_costs.STEP.values()]
    parts = np.array([*of_step, units["windows"] if steps <= 1 else 0, "tpu.enqueue_dma" in units["rows"], *found["of_runs"]], float)
    return parts, found["plain"] - parts @ [found["cycles"][name] for name in FITTED]


def fit_cycles(rows, tessera, device, table):
    """Cycles of what is no op's, with which schedules are nearest; what they were counts as one more kernel in a hundred."""
    found = [parts_of(tessera, row["at"], device, table) for row in rows]
    parts, others = np.array([p for p, _ in found]), np.array([o for _, o in found])
    scheduled = np.array([row["scheduled"] for row in rows], float)
    before = np.array([table["cycles"][name] for name in FITTED], float)
    x = np.maximum(before, 1e-3)
    pull = 0.1 * np.sqrt(len(rows)) / np.maximum(before, 0.1)
    for _ in range(30):
        predicted = others + parts @ x
        weight = 1 / np.sqrt(predicted * scheduled)
        weight /= np.sqrt(np.maximum(0.05, np.abs(predicted - scheduled) * weight))
        x = unit_costs.least_squares(np.vstack([parts * weight[:, None], np.diag(pull)]),
                                     np.concatenate([(scheduled - others) * weight, pull * before]), x)
    table["cycles"].update({name: round(float(c), 2) for name, c in zip(FITTED, x)})
    print(f"  fitted to {len(rows)} calls: cycles off by {spread(scheduled / (others + parts @ before))} before, {spread(scheduled / (others + parts @ x))} after;",
          table["cycles"])


def off(ratios):
    ratios = np.array(ratios)
    return np.maximum(ratios, 1 / ratios) - 1


def spread(ratios):
    o = off(ratios)
    return f"{100 * np.median(o):.0f} %, {100 * np.quantile(o, 0.9):.0f} %, {1 + o.max():.2f} x"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--devices", default=DEVICES)
    parser.add_argument("--worst", type=int, default=8)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="a line of JSON for each call and device")
    arguments = parser.parse_args()
    calls = [call for folder in arguments.folders for call in sorted(folder.iterdir()) if (call / "meta.json").exists()]
    for device in arguments.devices.split(","):
        rows = [row for call in calls if (row := judged(arguments.tessera, call, device))]
        print(f"{device}: {len(rows)} calls; cycles off by {spread([r['ratio'] for r in rows])}; whole times by {spread([r['whole'] for r in rows])}; "
              f"in the interval {sum(r['inside'] for r in rows)}; what binds agrees for {sum(r['binds'] for r in rows)}")
        if arguments.out:
            with arguments.out.open("a") as file:
                file.writelines(json.dumps({**row, "at": str(row["at"]), "device": device}) + "\n" for row in rows)
        if arguments.keep or arguments.fit:
            path = ROOT / f"program/unit_costs/{device.removeprefix('tpu-')}.json"
            table = json.loads(path.read_text())
            if arguments.fit:
                fit_cycles(rows, arguments.tessera, device, table)
            else:
                modules = [r for r in rows if not r["stretch"]]
                table["held_out"]["module"] = unit_costs.interval([max(r["ratio"], r["whole"], key=lambda x: abs(np.log(x))) for r in modules])
            unit_costs.write(path, table)
        kinds = collections.defaultdict(list)
        for row in rows:
            kinds[row["call"].partition("_")[2]].append(row)
        worst = sorted(kinds.items(), key=lambda kind: -max(off([r["ratio"] for r in kind[1]])))
        for name, some in worst[:arguments.worst]:
            ratios = [f"{row['ratio']:.2f}" + (" (spills)" if row["spills"] else "") for row in some]
            print(f"  {name}: schedule by prediction {', '.join(ratios)}")


if __name__ == "__main__":
    main()
