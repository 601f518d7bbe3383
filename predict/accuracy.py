"""Predictions beside a GPU's counters and clock: the tables of predict/ACCURACY.md.

    python3 predict/accuracy.py instances FOLDER       .cu files with the block shapes of the sweeps
    python3 predict/accuracy.py measure PROGRAM FILE   on a GPU: append what it measures to FILE
    python3 predict/accuracy.py table PROGRAM FILE     predict the same, print the tables

`measure` runs each combination under Nsight Compute (ncu, --clock-control none, caches flushed
before the kernel) for its bytes, and without it for its time: the median of 21 runs by events. PROGRAM is
build/release/cli/tessera; for the sweeps libtessera_cuda.so has to hold their instances too. A
combination that FILE has already is left out. Needs the right to read counters (root, or
NVreg_RestrictProfilingToAdminUsers=0).
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

COUNTERS = {
    "l2_to_sm": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_write": "dram__bytes_write.sum",
    "sm_to_l2": "l1tex__m_l1tex2xbar_write_bytes.sum",
    "cold_seconds": "gpu__time_duration.sum",
}
ROUNDS = 21


def matmul(m, n, k, bm, bn, bk, dtype="bf16", kernel="matmul"):
    return f"{kernel} m={m} n={n} k={k} bm={bm} bn={bn} bk={bk} --dtype {dtype}"


def attention(heads, length, dim, causal, bq, bk, dtype="bf16", batch=1, kv_heads=None):
    return (f"flash_attention batch={batch} heads={heads} kv_heads={kv_heads or heads} q_len={length} "
            f"kv_len={length} head_dim={dim} causal={causal} bq={bq} bk={bk} bd={dim} --dtype {dtype}")


# Block shapes that the CUDA build maps to tensor cores and that fit its shared memory.
MATMUL_TILES = [(bm, bn, bk) for bm in (64, 128, 192, 256) for bn in (64, 128, 192, 256)
                for bk in (64, 128, 192, 256)
                if 2 * bk * (bm + bn) <= 224 * 1024 and bm * bn <= 65536]
ATTENTION_TILES = {dim: [(bq, bk) for bq in (64, 128, 192, 256, 384) for bk in (64, 128, 192, 256, 320)
                         if 2 * dim * (bq + 2 * bk) <= 224 * 1024 and bq * dim <= 49152]
                   for dim in (64, 128)}
# Fifty of one problem: wider blocks of keys, and of queries.
MORE_ATTENTION_TILES = ATTENTION_TILES[64] + [
    *((bq, bk) for bq in (64, 128, 192, 256, 384) for bk in (384, 448, 512)),
    *((512, bk) for bk in (64, 128, 192, 256, 320, 384, 448, 512)), (320, 64), (320, 128)]
# Rows of blocks that are parts of what DRAM gives at once, or of its pages.
NARROW_TILES = [(64, 8), (64, 16), (64, 32), (64, 64), (128, 16)]

# Constants of the model are fitted to these ...
FITTED = [
    *(matmul(4096, 4096, 4096, *t) for t in MATMUL_TILES[1::5]),
    *(attention(16, 4096, 128, 0, *t) for t in ATTENTION_TILES[128]),
    *(attention(16, 8192, 64, 1, *t) for t in ATTENTION_TILES[64]),
    matmul(2048, 2048, 2048, 128, 256, 64),
    matmul(8192, 8192, 8192, 128, 256, 64),
    matmul(2048, 2048, 2048, 128, 128, 32, "f32"),
    "add_vectors n=16777216 bn=8192",
    "softmax_rows m=16384 n=1024 bm=16 bn=1024",
    matmul(65536, 256, 4096, 128, 256, 64, kernel="matmul_layernorm_gelu"),
    matmul(8192, 256, 2048, 128, 256, 64, kernel="matmul_layernorm_gelu"),
    attention(16, 1024, 128, 1, 128, 128, batch=8),
    "softmax_rows m=65536 n=512 bm=16 bn=512 --dtype bf16",
    "add_vectors n=16777216 bn=8192 --dtype bf16",
]
# ... and not to these.
HELD_OUT = [
    matmul(1024, 1024, 1024, 128, 256, 64),
    matmul(4096, 4096, 1024, 128, 256, 64),
    matmul(16384, 1024, 4096, 128, 256, 64),
    matmul(1024, 16384, 4096, 128, 256, 64),
    matmul(8192, 2048, 8192, 128, 256, 64),
    matmul(5000, 3000, 2000, 128, 256, 64),
    matmul(2048, 2048, 16384, 128, 256, 64),
    matmul(16384, 16384, 4096, 128, 256, 64),
    matmul(4096, 4096, 4096, 128, 128, 128, "f32"),
    matmul(2048, 4096, 1024, 128, 128, 32, "f32"),
    matmul(1024, 8192, 2048, 128, 128, 128, "f32"),
    matmul(4096, 2048, 2048, 128, 128, 128, "f32", "matmul_relu"),
    matmul(4096, 1024, 4096, 64, 128, 128, "f32", "grad_w"),
    matmul(4096, 2048, 4096, 128, 128, 128, "bf16", "grad_x"),
    matmul(32768, 256, 1024, 128, 256, 64, kernel="matmul_layernorm_gelu"),
    "add_vectors n=67108864 bn=8192",
    "add_vectors n=4194304 bn=8192",
    "add_vectors n=33554432 bn=8192 --dtype bf16",
    "softmax_rows m=32768 n=1024 bm=16 bn=1024",
    "softmax_rows m=4096 n=1024 bm=16 bn=1024",
    "grouped_matmul m=8192 n=4096 k=4096 groups=8 bm=128 bn=256 bk=64 --dtype bf16",
    "grouped_matmul m=4096 n=2048 k=2048 groups=16 bm=128 bn=256 bk=64 --dtype bf16",
    matmul(4096, 4096, 4096, 128, 256, 64, kernel="dma_matmul"),
    matmul(2048, 8192, 4096, 128, 256, 64, kernel="dma_matmul"),
    attention(16, 4096, 128, 1, 128, 128, batch=4),
    attention(16, 4096, 128, 0, 128, 128, batch=4),
    attention(16, 16384, 128, 1, 128, 128),
    attention(32, 2048, 128, 0, 128, 128, batch=2, kv_heads=8),
    attention(8, 8192, 64, 1, 128, 128, batch=2),
    attention(16, 2048, 64, 0, 128, 128, batch=4),
    matmul(3072, 3072, 3072, 128, 256, 64),
    matmul(6144, 4096, 2048, 128, 256, 64),
    matmul(2560, 10240, 2560, 128, 128, 128),
    matmul(12288, 1536, 6144, 128, 256, 64),
    matmul(3072, 3072, 3072, 128, 128, 32, "f32"),
    attention(12, 3072, 128, 0, 128, 128, batch=2),
    attention(24, 6144, 128, 1, 128, 128),
    attention(20, 2048, 64, 1, 128, 128, batch=3),
    "add_vectors n=50331648 bn=8192",
    "softmax_rows m=24576 n=1024 bm=16 bn=1024",
    "grouped_matmul m=6144 n=3072 k=2048 groups=4 bm=128 bn=256 bk=64 --dtype bf16",
    matmul(16384, 256, 2048, 128, 256, 64, kernel="matmul_layernorm_gelu"),
]
# Chosen before the last fit and not looked at until it was done.
UNSEEN = [
    matmul(5120, 5120, 5120, 128, 256, 64),
    matmul(16384, 8192, 2048, 128, 256, 64),
    matmul(2048, 6144, 8192, 128, 256, 64),
    matmul(10240, 1280, 5120, 128, 128, 128),
    matmul(4096, 2048, 4096, 128, 128, 32, "f32"),
    attention(32, 4096, 128, 1, 128, 128),
    attention(8, 2048, 128, 0, 128, 128, batch=4),
    attention(16, 4096, 64, 0, 128, 128, batch=2),
    "add_vectors n=25165824 bn=8192",
    "softmax_rows m=49152 n=1024 bm=16 bn=1024",
    "grouped_matmul m=12288 n=4096 k=2048 groups=6 bm=128 bn=256 bk=64 --dtype bf16",
    matmul(49152, 256, 3072, 128, 256, 64, kernel="matmul_layernorm_gelu"),
]
# Every block shape on one problem: ranks, and the block shape that the model picks.
SWEEPS = {
    "matmul bf16 4096 x 4096 x 4096": [matmul(4096, 4096, 4096, *t) for t in MATMUL_TILES],
    "matmul bf16 8192 x 2048 x 4096": [matmul(8192, 2048, 4096, *t) for t in MATMUL_TILES],
    "flash_attention bf16, 16 heads of 128, 4096 x 4096":
        [attention(16, 4096, 128, 0, *t) for t in ATTENTION_TILES[128]],
    "flash_attention bf16, 16 heads of 64, 8192 x 8192, causal":
        [attention(16, 8192, 64, 1, *t) for t in ATTENTION_TILES[64]],
    "flash_attention bf16, 32 heads of 64, 4096 x 4096":
        [attention(32, 4096, 64, 0, *t) for t in MORE_ATTENTION_TILES],
    "flash_attention bf16, 8 heads of 128, 8192 x 8192, causal":
        [attention(8, 8192, 128, 1, *t) for t in ATTENTION_TILES[128]],
}
NARROW = [f"add_blocked m={m} n={n} bm={bm} bn={bn}" for m, n in ((16384, 4096), (4096, 16384))
          for bm, bn in NARROW_TILES]


def combinations():
    """Each once, in order."""
    return list(dict.fromkeys([*UNSEEN, *NARROW, *FITTED, *HELD_OUT,
                               *(c for sweep in SWEEPS.values() for c in sweep)]))


def write_instances(folder):
    os.makedirs(folder, exist_ok=True)
    wanted = [("Matmul", "matmul", t) for t in MATMUL_TILES if t != (128, 256, 64)]
    wanted += [("FlashAttention", "flash_attention", (*t, dim, 0, 0, 0))
               for dim, tiles in ((64, MORE_ATTENTION_TILES), (128, ATTENTION_TILES[128]))
               for t in tiles if (*t, dim) != (128, 128, 128)]
    wanted.append(("SoftmaxRows", "softmax_rows", (16, 512)))
    wanted += [("AddBlocked", "add_blocked", t) for t in NARROW_TILES]
    for kernel, header, tiles in wanted:
        sizes = ", ".join(map(str, tiles))
        dtype = "float" if kernel == "AddBlocked" else "bf16"
        with open(f"{folder}/sweep_{header}_{'_'.join(map(str, tiles))}.cu", "w") as file:
            file.write(f'#include "cuda/launch.hpp"\n#include "kernels/{header}.hpp"\n'
                       "namespace tessera::cuda {\nstatic const Adds added([](std::vector<Instance>& to) {\n"
                       f"  add_instance<kernels::{kernel}<{dtype}>, {dtype}>(to, TileSizes<{sizes}>{{}});\n"
                       "});\n}  // namespace tessera::cuda\n")


def counted(program, arguments):
    printed = subprocess.run(
        ["ncu", "--print-units", "base", "--clock-control", "none", "--metrics",
         ",".join(COUNTERS.values()), program, "run", *arguments.split(), "--backend", "cuda",
         "--no-check"], capture_output=True, text=True)
    if printed.returncode != 0:
        raise RuntimeError(printed.stdout[-400:] + printed.stderr[-400:])
    values = {}
    for name, counter in COUNTERS.items():
        # Of inputs that are copied first too.
        found = re.findall(re.escape(counter) + r"\s+(\S+)\s+([\d,.]+)", printed.stdout)
        value = sum(float(number.replace(",", "")) for _, number in found)
        values[name] = value * 1e-9 if found[0][0] in ("ns", "nsecond") else int(value)
    return values


def timed(program, arguments):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run([program, "run", *arguments.split(), "--backend", "cuda", "--no-check", "--rounds",
                        str(ROUNDS), "--json", report.name], check=True, capture_output=True, text=True)
        backend = json.load(open(report.name))["backend"]
        return {"seconds": statistics.median(backend["run_seconds"]), "launch": backend["launch"]}


def measure(program, file):
    known = set()
    if os.path.exists(file):
        known = {json.loads(line)["run"] for line in open(file)}
    for arguments in combinations():
        if arguments in known:
            continue
        try:
            row = {"run": arguments, **timed(program, arguments), **counted(program, arguments)}
        except (subprocess.CalledProcessError, RuntimeError, IndexError) as error:
            print(arguments, str(error)[-300:], getattr(error, "stderr", "")[-300:], flush=True)
            continue
        with open(file, "a") as out:
            out.write(json.dumps(row) + "\n")
    return 0


def predicted(program, arguments, device="h200"):
    """What the model says of a combination; None where it says nothing."""
    ran = subprocess.run([program, "run", *arguments.split(), "--device", device, "--dry", "--timeline",
                          "--json", "-"], capture_output=True, text=True)
    if ran.returncode != 0:
        return None
    timeline = json.loads(ran.stdout[ran.stdout.index("{"):])["timeline"]
    return None if "unmodelled" in timeline else timeline


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    place = [0] * len(values)
    for rank, i in enumerate(order):
        place[i] = rank
    return place


def spearman(a, b):
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1))


def spills(row):
    """True if registers went to local memory at every step: more than some bytes of a cell's end."""
    return int(re.search(r"\((\d+) bytes spilled", row["launch"])[1]) > 128


def short(arguments):
    words = arguments.replace("--dtype ", "").replace("kv_heads", "kv")
    return words.replace("batch=", "b=").replace("heads=", "h=").replace("head_dim=", "d=")


def summary(name, rows):
    """One line of errors: bytes L2 to SM that differ, DRAM, time."""
    dram = [abs(p["dram_read_bytes"] + p["dram_write_bytes"] - m["dram_read"] - m["dram_write"])
            / (m["dram_read"] + m["dram_write"]) for m, p in rows]
    reads = [abs(p["dram_read_bytes"] - m["dram_read"]) / m["dram_read"] for m, p in rows]
    times = [abs(p["seconds"] - m["seconds"]) / m["seconds"] for m, p in rows]
    exact = sum(p["l2_to_core_bytes"] == m["l2_to_sm"] for m, p in rows)
    return (f"| {name} | {len(rows)} | {exact} | " + " | ".join(
        f"{statistics.median(e):.1%} | {max(e):.1%}" for e in (reads, dram, times)) + " |")


def table(program, file):
    measured = {row["run"]: row for row in map(json.loads, open(file))}
    both = {}
    for run, row in measured.items():
        line = predicted(program, run)
        if line is not None:
            both[run] = (row, line)
    clean = {run for run in both if not spills(measured[run])}
    print("| combinations | n | L2 to SM to the byte | DRAM reads: median | worst | reads and writes: median"
          " | worst | time: median | worst |\n|---|---|---|---|---|---|---|---|---|")
    groups = {"fitted": FITTED, "held out": HELD_OUT, "not looked at before": UNSEEN, "narrow blocks": NARROW,
              **{f"sweep, held out: {name}": held for name, sweep in SWEEPS.items()
                 if (held := [r for r in sweep if r not in FITTED])}}
    for name, runs in groups.items():
        print(summary(name, [both[r] for r in runs if r in clean]))
    print("\n| block shapes of | n | Spearman | of those without spills | n | the model's pick | slower than the best |"
          "\n|---|---|---|---|---|---|---|")
    for name, runs in SWEEPS.items():
        runs = [r for r in runs if r in both]
        kept = [r for r in runs if r in clean]
        fitted = " (fitted)" if all(r in FITTED for r in runs) else ""
        pairs = [(both[r][0]["seconds"], both[r][1]["seconds"]) for r in runs]
        kept_pairs = [(both[r][0]["seconds"], both[r][1]["seconds"]) for r in kept]
        pick = min(runs, key=lambda r: both[r][1]["seconds"])
        best = min(m for m, _ in pairs)
        shape = " ".join(w for w in pick.split() if re.match(r"b[mnkqd]=", w))
        print(f"| {name}{fitted} | {len(runs)} | {spearman(*zip(*pairs)):.3f} | {spearman(*zip(*kept_pairs)):.3f} | {len(kept)}"
              f" | {shape} | {both[pick][0]['seconds'] / best - 1:.1%} |")
    print("\n| run | L2 to SM | predicted | DRAM read | predicted | DRAM written | predicted | us | predicted |"
          "\n|---|---|---|---|---|---|---|---|---|")
    for run in [*FITTED, *HELD_OUT, *UNSEEN, *NARROW]:
        if run not in both:
            continue
        m, p = both[run]
        mark = " (fitted)" if run in FITTED else ""
        print(f"| {short(run)}{mark} | {m['l2_to_sm']:,} | {p['l2_to_core_bytes']:,} | {m['dram_read']:,} |"
              f" {p['dram_read_bytes']:,} | {m['dram_write']:,} | {p['dram_write_bytes']:,} |"
              f" {m['seconds'] * 1e6:.1f} | {p['seconds'] * 1e6:.1f} |")
    return 0


def main():
    command, *rest = sys.argv[1:]
    if command == "instances":
        return write_instances(*rest)
    return {"measure": measure, "table": table}[command](*rest)


if __name__ == "__main__":
    sys.exit(main())
