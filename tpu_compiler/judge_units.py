"""How far the times by units of a TPU core are from the TPU compiler's schedules, call by call, on each device.

    TESSERA_TPU_PYTHON=PYTHON python tpu_compiler/judge_units.py TESSERA FOLDER... [--devices tpu-v5e,tpu-v6e] [--keep]

FOLDER holds folders of calls with arrays (draw_bodies.py, a corpus). Of each call and device: the cycles that its schedule issues and
those that units predict, whole times, what binds, whether the schedule lies in the interval that is said. Schedules are kept beside
the call (schedule_DEVICE.json), so that the compiler is asked once. Prints them by device, and by the kernel's name the worst; --keep
writes the interval that nine in ten others lie in, with 90 % confidence, into the tables (program/unit_costs). Needs numpy.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess

import numpy as np

import unit_costs

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICES = "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x"


def cores(call, device):
    """The compiler shares parallel cells among a v5p's two cores; a v4's it does not."""
    module = (call / "kernel.mlir").read_text() if device == "tpu-v5p" else ""
    bounds = re.search(r"iteration_bounds = array<i64: ([^>]*)>", module)
    kinds = re.search(r"dimension_semantics = \[(.*?)\]", module)
    shared = bounds and kinds and any("parallel" in kind and int(n) > 1 for kind, n in zip(kinds[1].split(","), bounds[1].split(",")))
    return 2 if shared else 1


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
    found = run(tessera, call, device, "units", "--cores", str(cores(call, device))) if schedule else None
    if found is None or found["timeline"]["most_seconds"] == 0:
        return None
    line = found["timeline"]
    clock = json.loads((ROOT / f"memory_model/devices/{device}.json").read_text())["figures"]["model_clock"]["value"]
    return {"call": call.name, "ratio": schedule["cycles"] / (line["compute_seconds"] * clock), "whole": schedule["seconds"] / line["seconds"],
            "inside": line["least_seconds"] <= schedule["seconds"] <= line["most_seconds"],
            "binds": (schedule["binds"] == "compute") == (line["binds"] == "compute"), "spills": schedule["spill_loads"] + schedule["spill_stores"]}


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
    arguments = parser.parse_args()
    calls = [call for folder in arguments.folders for call in sorted(folder.iterdir()) if (call / "meta.json").exists()]
    for device in arguments.devices.split(","):
        rows = [row for call in calls if (row := judged(arguments.tessera, call, device))]
        print(f"{device}: {len(rows)} calls; cycles off by {spread([r['ratio'] for r in rows])}; whole times by {spread([r['whole'] for r in rows])}; "
              f"in the interval {sum(r['inside'] for r in rows)}; what binds agrees for {sum(r['binds'] for r in rows)}")
        if arguments.keep:
            path = ROOT / f"program/unit_costs/{device.removeprefix('tpu-')}.json"
            table = json.loads(path.read_text())
            table["held_out"]["module"] = unit_costs.interval([r["ratio"] for r in rows])
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
