"""How far the times by units of a TPU core are from the TPU compiler's schedules, call by call, on each device.

    TESSERA_TPU_PYTHON=PYTHON python tpu_compiler/judge_units.py TESSERA FOLDER... [--devices tpu-v5e,tpu-v6e] [--keep | --fit-spill]

FOLDER holds folders of calls with arrays (draw_bodies.py, a corpus). Of each call and device: the cycles that its schedule issues and
those that units predict, whole times, what binds, whether the schedule lies in the interval that is said. Schedules are kept beside
the call (schedule_DEVICE.json), so that the compiler is asked once. Prints them by device, and by the kernel's name the worst; --keep
writes the interval that nine in ten others lie in with their cycles and with their whole times, with 90 % confidence, into the tables
(program/unit_costs); --fit-spill writes what a vector register too many takes, with which those that have too many are nearest (but for
what loops repeat). Needs numpy.
"""
import argparse
import collections
import json
import pathlib
import subprocess

import numpy as np

import unit_costs

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICES = "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x"


def run(tessera, call, device, timing, *more):
    done = subprocess.run([tessera, "run", str(call), "--device", device, "--timing", timing, "--dry", "--no-check", "--json", "-", *more],
                          capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


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
    clock = json.loads((ROOT / f"memory_model/devices/{device}.json").read_text())["figures"]["model_clock"]["value"]
    units = unit_costs.asked(tessera, call)
    steps = int(np.prod([max(1, n) for n in units["grid"]]))
    too_many = steps / cores * sum(op.get("spills", 0) for block in units["blocks"] for op in block["ops"])
    predicted = line["compute_seconds"] * clock
    return {"call": call.name, "scheduled": schedule["cycles"], "predicted": predicted, "too_many": too_many, "stretch": steps == 1 and len(units["blocks"]) == 1,
            "ratio": schedule["cycles"] / predicted, "whole": schedule["seconds"] / line["seconds"],
            "inside": line["least_seconds"] <= schedule["seconds"] <= line["most_seconds"],
            "binds": (schedule["binds"] == "compute") == (line["binds"] == "compute"), "spills": schedule["spill_loads"] + schedule["spill_stores"]}


def fit_spill(rows, table):
    some = [r for r in rows if r["too_many"] > 0.05 * r["predicted"]]
    scheduled, too_many = (np.array([r[what] for r in some], float) for what in ("scheduled", "too_many"))
    others = np.array([r["predicted"] for r in some]) - table["cycles"]["spill"] * too_many
    tried = np.arange(0, 1, 0.01)
    errors = [np.mean(np.abs(np.log(scheduled / (others + each * too_many)))) for each in tried]
    table["cycles"]["spill"] = round(float(tried[int(np.argmin(errors))]), 2)
    print(f"  of {len(some)} kernels a register too many takes {table['cycles']['spill']}: {100 * errors[0]:.0f} % off without, {100 * min(errors):.0f} % with")


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
    parser.add_argument("--fit-spill", action="store_true")
    arguments = parser.parse_args()
    calls = [call for folder in arguments.folders for call in sorted(folder.iterdir()) if (call / "meta.json").exists()]
    for device in arguments.devices.split(","):
        rows = [row for call in calls if (row := judged(arguments.tessera, call, device))]
        print(f"{device}: {len(rows)} calls; cycles off by {spread([r['ratio'] for r in rows])}; whole times by {spread([r['whole'] for r in rows])}; "
              f"in the interval {sum(r['inside'] for r in rows)}; what binds agrees for {sum(r['binds'] for r in rows)}")
        if arguments.keep or arguments.fit_spill:
            path = ROOT / f"program/unit_costs/{device.removeprefix('tpu-')}.json"
            table = json.loads(path.read_text())
            if arguments.fit_spill:
                fit_spill(rows, table)
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
