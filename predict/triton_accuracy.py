"""Predicted times and DRAM bytes of Triton launches beside a GPU's.

    python predict/triton_accuracy.py time SEED FILE      # on a GPU, with torch: seconds by events, half a minute
    ncu --profile-from-start off --clock-control none --cache-control all --csv --page raw --print-units base --log-file COUNTS \\
        --metrics dram__bytes_read.sum,dram__bytes_write.sum python predict/triton_accuracy.py count SEED
    python predict/triton_accuracy.py join FILE COUNTS    # the counters into the file
    python predict/triton_accuracy.py table FILE...       # anywhere, with tessera and triton: this page's table

Times are medians of 11, the L2 cleared before each ("cold", what triton.testing.do_bench measures; "again" after "warm") and not
("warm"). A file is named for its device: h200_triton_101.jsonl.
"""
import csv
import json
import math
import pathlib
import statistics
import sys

import triton

import triton_launches as launches


def counted(sweep, i):
    """Of sweeps, a third are."""
    return not sweep or i % 3 == 0


class Held:
    """A launch, to be repeated on a GPU."""

    def __init__(self, kernel, settings):
        import torch

        types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        calls = self.calls = []
        function = triton.runtime.jit.JITFunction
        run = function.run

        def keep(self, *args, **kwargs):
            calls.append((self, args, kwargs))
            return run(self, *args, **kwargs)

        def index(n, most):
            return torch.randint(most, (n,), generator=torch.Generator().manual_seed(1)).cuda()

        function.run = keep
        try:
            launches.run(kernel, settings, lambda shape, dtype: torch.empty(shape, dtype=types[dtype], device="cuda").normal_(), index)
        finally:
            function.run = run
        torch.cuda.synchronize()

    def __call__(self):
        (function, args, kwargs), = self.calls
        function.run(*args, **kwargs)


def seconds(held, before, runs):
    import torch

    events = []
    for _ in range(runs):
        before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        held()
        end.record()
        events.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(1e-3 * begin.elapsed_time(end) for begin, end in events)


def measure(seed, path):
    import torch

    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    with open(path, "w") as f:
        for i, (sweep, kernel, settings) in enumerate(launches.all_of(seed)):
            try:
                held = Held(kernel, settings)
            except triton.runtime.errors.OutOfResources:
                continue  # more shared memory than the GPU has: no configuration
            seconds(held, flush.zero_, 3)
            cold, warm, again = (seconds(held, before, 11) for before in (flush.zero_, lambda: torch.cuda._sleep(200000), flush.zero_))
            f.write(json.dumps(dict(device=torch.cuda.get_device_name(), seed=seed, i=i, sweep=sweep, kernel=kernel, settings=settings,
                                    cold=cold, warm=warm, again=again)) + "\n")
            held = None
            torch.cuda.empty_cache()


def count(seed):
    import torch

    for i, (sweep, kernel, settings) in enumerate(launches.all_of(seed)):
        if not counted(sweep, i):
            continue
        try:
            held = Held(kernel, settings)
        except triton.runtime.errors.OutOfResources:
            continue
        torch.cuda.profiler.start()
        held()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        held = None
        torch.cuda.empty_cache()


def join(path, counts):
    lines = [json.loads(line) for line in open(path)]
    rows = [row for row in csv.DictReader(line for line in open(counts) if not line.startswith("==")) if row["ID"].isdigit()]
    of = [line for line in lines if counted(line["sweep"], line["i"])]
    assert [line["kernel"] for line in of] == [row["Kernel Name"] for row in rows]
    for line, row in zip(of, rows):
        line["dram"] = [int(float(row[f"dram__bytes_{way}.sum"].replace(",", ""))) for way in ("read", "write")]
    with open(path, "w") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)


def predicted(line, device="h200"):
    """Seconds, and DRAM's bytes read and written (None: each once)."""
    import ml_dtypes
    import numpy as np

    import tessera

    types = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}

    def index(n, most):
        return tessera.DeviceArray(np.random.default_rng(1).integers(most, size=n))

    with tessera.simulate_triton(device, dry=True) as report:
        launches.run(line["kernel"], line["settings"], lambda shape, dtype: tessera.DeviceArray.reserved(shape, types[dtype]), index)
    return report.calls[0].predicted_seconds, report.calls[0].predicted_dram_bytes


def spearman(a, b):
    def ranks(values):
        return [sum(x < y for x in values) + sum(x == y for x in values) / 2 for y in values]

    a, b = ranks(a), ranks(b)
    ma, mb = statistics.mean(a), statistics.mean(b)
    spread = math.sqrt(sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b))
    return sum((x - ma) * (y - mb) for x, y in zip(a, b)) / spread


def quantiles(errors):
    errors = sorted(errors)
    return f"{100 * statistics.median(errors):.1f} % | {100 * errors[int(.9 * len(errors))]:.0f} % | {100 * errors[-1]:.0f} %"


def table(paths):
    for path in paths:
        lines = [json.loads(line) for line in open(path)]
        # What another measurement, a moment later, does not find again within a tenth was disturbed.
        steady = [line for line in lines if abs(line["cold"] / line.get("again", line["cold"]) - 1) <= .1]
        if len(steady) < len(lines):
            print(f"{path}: {len(lines) - len(steady)} left out, which were measured twice and differ")
        lines = steady
        device = pathlib.Path(path).name.split("_")[0]
        for line in lines:
            line["predicted"], line["bytes"] = predicted(line, device)
        dram = [(line["dram"], line["bytes"]) for line in lines if "dram" in line and line["bytes"]]
        print(f"{path}, {len(lines)} launches, {len(dram)} with bytes: median | nine in ten | worst")
        print("time |", quantiles([abs(line["predicted"] / line["cold"] - 1) for line in lines]))
        if dram:
            print("DRAM reads |", quantiles([abs(ours[0] / theirs[0] - 1) for theirs, ours in dram]))
            print("DRAM reads and writes |", quantiles([abs(sum(ours) / sum(theirs) - 1) for theirs, ours in dram]))
        for sweep in sorted({line["sweep"] for line in lines} - {""}):
            of = [line for line in lines if line["sweep"] == sweep]
            pick = min(of, key=lambda line: line["predicted"])
            best, worst = (choose(x["cold"] for x in of) for choose in (min, max))
            noise = statistics.median(abs(x["cold"] / x["again"] - 1) for x in of) if "again" in pick else None
            print(f"{sweep}, {len(of)} configurations | Spearman {spearman([x['predicted'] for x in of], [x['cold'] for x in of]):.2f} |"
                  f" pick {100 * (pick['cold'] / best - 1):.0f} % slower than the best, the worst {100 * (worst / best - 1):.0f} %"
                  + (f", measured again {100 * noise:.1f} % apart" if noise is not None else ""))


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "time":
        measure(int(words[0]), words[1])
    elif command == "count":
        count(int(words[0]))
    elif command == "join":
        join(*words)
    else:
        table(words)
