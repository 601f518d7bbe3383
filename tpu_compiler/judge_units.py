"""How far the times by units of a TPU core are from the TPU compiler's schedules, call by call, on each device.

    TESSERA_TPU_PYTHON=PYTHON python tpu_compiler/judge_units.py TESSERA FOLDER... [--devices tpu-v5e,tpu-v6e] [--fit [steps]] [--keep [whole]] [--unseen SEED]

FOLDER holds folders of calls with arrays (draw_bodies.py, a corpus). Of each call and device: the cycles that its schedule issues and
those that units predict, whole times, what binds, whether the schedule lies in the interval that is said. Schedules are kept beside
the call (schedule_DEVICE.json), so that the compiler is asked once. Prints them by device, and by the kernel's name the worst; --fit
writes into the tables (program/unit_costs) the cycles of what is no op's: a step's, a branch's, what units do not hide of one another
("steps": a step's alone, which needs no runs), and says how far off each kernel is by a fit to those of other names. Predictions are of
the tables compiled in: build before each of these. Needs numpy.

Intervals are of runs that nobody had seen: what a model is fitted to, or was looked into, is nearer. So a draw that judges is read with
--unseen SEED, which adds its runs to unseen.jsonl, once. --keep writes the intervals, by what is in them, that nine in ten of such runs
lie in with their cycles and with their whole times, with 90 % confidence; of one stretch of code these widen what unit_costs.py judge
--keep has from generated ones. It also says how many runs of each draw lie in intervals made from the other draws. "--keep whole"
afterwards, with these in the table, writes how far beyond them whole times of FOLDER's runs lie that wait.
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
UNSEEN = pathlib.Path(__file__).with_name("unseen.jsonl")
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


def by_units(tessera, call, device, **more):
    """What a run says by units, and the cycles of the core that computes longest."""
    cores = unit_costs.cores(call, device)
    found = run(tessera, call, device, "units", "--cores", str(cores), **more)
    if found is None:
        return None, None
    return found["timeline"], found["timeline"]["longest_compute_seconds"] * clock_of(device)


def judged(tessera, call, device):
    schedule = schedule_of(tessera, call, device)
    line, predicted = by_units(tessera, call, device) if schedule else (None, None)
    if line is None or line["most_seconds"] == 0:
        return None
    units = unit_costs.asked(tessera, call)
    steps = int(np.prod([max(1, n) for n in units["grid"]]))
    return {"at": call, "call": call.name, "scheduled": schedule["cycles"], "predicted": predicted, "stretch": steps == 1 and len(units["blocks"]) == 1, "of": units["of"],
            "ratio": schedule["cycles"] / predicted, "whole": schedule["seconds"] / line["seconds"],
            "inside": line["least_seconds"] <= schedule["seconds"] <= line["most_seconds"],
            "below": schedule["seconds"] / line["least_seconds"], "above": schedule["seconds"] / line["most_seconds"],
            "binds": (schedule["binds"] == "compute") == (line["binds"] == "compute"), "spills": schedule["spill_loads"] + schedule["spill_stores"]}


OF_STEPS = tuple(unit_costs.STEP)
BY_RUNS = ("jump", "product", "rest")  # how often there is one, or how much, a run says
MORE = 100  # of rounded cycles the difference is to be large


def computed(tessera, call, device, table, **cycles):
    """The cycles that a call takes by a table with these instead of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({**table, "cycles": {**table["cycles"], **cycles}}, file)
        file.flush()
        return by_units(tessera, call, device, environment={"TESSERA_UNIT_COSTS": file.name})[1]


def counted_steps(call, device, table):
    """How many cycles of its prediction one more of each of OF_STEPS is."""
    units = unit_costs.asked(None, call, device.removeprefix("tpu-"))
    steps = int(np.prod([max(1, n) for n in units["grid"]]))
    steps = round(steps * unit_costs.of_busiest(call, device))
    unit_costs.count_steps(call, units, table, steps)
    of_step = [(steps + unit_costs.TURNS) * of(units) if steps > 1 else 0 for of in unit_costs.STEP.values()]
    return of_step


def counted_runs(tessera, call, device, table):
    """The same of BY_RUNS."""
    kept = call / f"parts_{device}.json"
    if not kept.exists():
        plain = computed(tessera, call, device, table)
        found = [(computed(tessera, call, device, table, **{name: table["cycles"][name] + MORE}) - plain) / MORE for name in BY_RUNS]
        kept.write_text(json.dumps(found) + "\n")
    return json.loads(kept.read_text())


def fitted(parts, others, scheduled, before):
    """Cycles of what is no op's, with which schedules are nearest; what they were counts as one more kernel in a hundred."""
    x = np.maximum(before, 1e-3)
    pull = 0.1 * np.sqrt(len(others)) / np.maximum(before, 0.1)
    for _ in range(30):
        predicted = others + parts @ x
        weight = 1 / np.sqrt(predicted * scheduled)
        weight /= np.sqrt(np.maximum(0.05, np.abs(predicted - scheduled) * weight))
        x = unit_costs.least_squares(np.vstack([parts * weight[:, None], np.diag(pull)]),
                                     np.concatenate([(scheduled - others) * weight, pull * before]), x)
    return x


def fit_cycles(rows, tessera, device, table, names):
    """Into the table; gives each row how it lies by a fit to kernels of other names."""
    parts = [counted_steps(row["at"], device, table) for row in rows]
    if names != OF_STEPS:
        parts = [some + counted_runs(tessera, row["at"], device, table) for some, row in zip(parts, rows)]
    parts = np.array(parts, float)
    scheduled = np.array([row["scheduled"] for row in rows], float)
    before = np.array([table["cycles"].get(name, 0) for name in names], float)
    others = np.array([row["predicted"] for row in rows]) - parts @ before
    x = fitted(parts, others, scheduled, before)
    kernels = np.array([name_of(row) for row in rows])
    for kernel in set(kernels):
        rest = kernels != kernel
        for i in np.flatnonzero(~rest):
            now = float(others[i] + parts[i] @ fitted(parts[rest], others[rest], scheduled[rest], before))
            rows[i]["ratio"] = rows[i]["scheduled"] / now
    table["cycles"].update({name: round(float(c), 2) for name, c in zip(names, x)})
    print(f"  fitted to {len(rows)} calls: cycles off by {spread(scheduled / (others + parts @ before))} before, {spread(scheduled / (others + parts @ x))} after, "
          f"{spread([row['ratio'] for row in rows])} by fits to kernels of other names;", table["cycles"])


def name_of(row):
    return row["call"].partition("_")[2]


def kind_of(row):
    """As the tables name it."""
    return f"{'stretch' if row['stretch'] else 'module'} {row['of']}"


def unseen_of(device):
    rows = [json.loads(line) for line in UNSEEN.read_text().splitlines()]
    return [row for row in rows if row["device"] == device]


def add_unseen(rows, device, seed):
    """As the model that a draw judges had them, so once."""
    if any(row["seed"] == seed for row in unseen_of(device)):
        raise SystemExit(f"seed {seed} was read before on {device}: its runs are no longer unseen")
    with UNSEEN.open("a") as file:
        for row in rows:
            kept = {"seed": seed, "device": device, "call": row["call"], "of": row["of"], "stretch": row["stretch"],
                    "ratio": round(row["ratio"], 4), "whole": round(row["whole"], 4)}
            file.write(json.dumps(kept) + "\n")


def intervals_of(rows, held_out):
    """By kind; `held_out` has those of generated kernels, which those of one stretch widen."""
    def farther(row):
        return max(row["ratio"], row["whole"], key=lambda x: abs(np.log(x)))
    modules = [row for row in rows if not row["stretch"]]
    found = unit_costs.intervals_by_kind([row["of"] for row in modules], [farther(row) for row in modules])
    intervals = {**held_out, **{f"module {kind}": interval for kind, interval in found.items()}}
    for kind in unit_costs.KINDS:
        if some := [farther(row) for row in rows if row["stretch"] and row["of"] == kind]:
            of_generated = held_out[f"stretch {kind}"]
            intervals[f"stretch {kind}"] = {**unit_costs.hull(of_generated, unit_costs.interval(some)), "of": of_generated["of"]}
    return intervals


def keep_intervals(device, table):
    rows = unseen_of(device)
    for seed in sorted({row["seed"] for row in rows}):
        others = intervals_of([row for row in rows if row["seed"] != seed], table["held_out"])
        draw = [row for row in rows if row["seed"] == seed]
        inside = sum(others[kind_of(row)]["least"] <= row["whole"] <= others[kind_of(row)]["most"] for row in draw)
        print(f"  whole times of seed {seed} in intervals of the other draws: {inside} of {len(draw)}")
    table["held_out"] = intervals_of(rows, table["held_out"])


def keep_whole(rows, table):
    """By how much whole times may lie beyond what follows from the intervals of cycles, which say nothing of waits: by what is in them, as
    many are left out at either end as an interval may leave out; where there are few of a kind those of all as well."""
    before = dict(table["whole"])

    def beyond(some):
        left_out = unit_costs.most_left_out(len(some)) // 2
        least = sorted(row["below"] * before[kind_of(row)]["least"] for row in some)[left_out]
        most = sorted(row["above"] * before[kind_of(row)]["most"] for row in some)[-1 - left_out]
        return {"of": len(some), "least": round(min(1, least), 3), "most": round(max(1, most), 3)}
    of_all = {**beyond(rows), "of": 0}
    for kind in before:
        some = [row for row in rows if kind_of(row) == kind]
        table["whole"][kind] = of_all if not some else beyond(some) if len(some) >= unit_costs.FEW else unit_costs.hull(of_all, beyond(some))


def off(ratios):
    ratios = np.array(ratios)
    return np.maximum(ratios, 1 / ratios) - 1


def spread(ratios):
    o = off(ratios)
    return f"{100 * np.median(o):.0f} %, {100 * np.quantile(o, 0.9):.0f} %, {1 + o.max():.2f} x"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("folders", nargs="*", type=pathlib.Path, help="none is needed for --keep")
    parser.add_argument("--devices", default=DEVICES)
    parser.add_argument("--worst", type=int, default=8)
    parser.add_argument("--keep", nargs="?", const="cycles", choices=["cycles", "whole"])
    parser.add_argument("--fit", nargs="?", const="all", choices=["all", "steps"])
    parser.add_argument("--unseen", type=int, metavar="SEED")
    parser.add_argument("--out", type=pathlib.Path, help="a line of JSON for each call and device")
    arguments = parser.parse_args()
    calls = [call for folder in arguments.folders for call in sorted(folder.iterdir()) if (call / "meta.json").exists()]
    for device in arguments.devices.split(","):
        rows = [row for call in calls if (row := judged(arguments.tessera, call, device))]
        if rows:
            print(f"{device}: {len(rows)} calls; cycles off by {spread([r['ratio'] for r in rows])}; whole times by {spread([r['whole'] for r in rows])}; "
                  f"in the interval {sum(r['inside'] for r in rows)}; what binds agrees for {sum(r['binds'] for r in rows)}")
        if arguments.out:
            with arguments.out.open("a") as file:
                file.writelines(json.dumps({**row, "at": str(row["at"]), "device": device}) + "\n" for row in rows)
        if arguments.unseen:
            add_unseen(rows, device, arguments.unseen)
        if arguments.keep or arguments.fit:
            path = ROOT / f"program/unit_costs/{device.removeprefix('tpu-')}.json"
            table = json.loads(path.read_text())
            if arguments.fit:
                fit_cycles(rows, arguments.tessera, device, table, OF_STEPS if arguments.fit == "steps" else OF_STEPS + BY_RUNS)
            if arguments.keep == "whole":
                keep_whole(rows, table)
            elif arguments.keep:
                keep_intervals(device, table)
            unit_costs.write(path, table)
        kinds = collections.defaultdict(list)
        for row in rows:
            kinds[name_of(row)].append(row)
        worst = sorted(kinds.items(), key=lambda kind: -max(off([r["ratio"] for r in kind[1]])))
        for name, some in worst[:arguments.worst]:
            ratios = [f"{row['ratio']:.2f}" + (" (spills)" if row["spills"] else "") for row in some]
            print(f"  {name}: schedule by prediction {', '.join(ratios)}")


if __name__ == "__main__":
    main()
