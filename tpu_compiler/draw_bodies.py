"""Draws sizes and blocks of tessera's own kernels at random, and writes their TPU builds, each as the folder of a call with arrays.

    python tpu_compiler/draw_bodies.py TESSERA FOLDER --seed 1 --count 60

Kernels come round in an order that is drawn. Each starts from one of its cases; half of its extents of 8 and more, blocks among
them, are multiplied by a factor and rounded to a multiple of 8, 64 or 128. What tessera refuses to build is drawn again, what moves
more than some bytes too. XLA is asked to leave operands in HBM, where it leaves larger ones by itself (as pltpu.HBM does in JAX). The
same seed draws the same calls. For tpu_compiler/judge_units.py.
"""
import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess

from hbm_operands import leave_folder_in_hbm

DEVICES = "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x"
FACTORS = [0.5, 0.75, 1.5, 2, 3, 4]
MOST_BYTES = 24 << 20  # of a call's HBM: its schedule is played step by step
TRIES = 12


def said(tessera, *words):
    done = subprocess.run([tessera, *words], capture_output=True, text=True, timeout=120)
    return done.stdout if done.returncode == 0 else ""


def cases(tessera, kernel):
    """Number, sizes and blocks, and bytes of each case; names of extents of blocks."""
    text = said(tessera, "show", kernel)
    blocks = re.findall(r"^  (\w+) +\d+ +block extent", text, re.M)
    found = re.findall(r"^  (\d+) .*?((?: \w+=\d+)+)\n +read ([\d,]+), write ([\d,]+)", text, re.M)
    return [(n, {k: int(v) for k, v in (p.split("=") for p in pairs.split())}, sum(int(b.replace(",", "")) for b in bytes_of))
            for n, pairs, *bytes_of in found], blocks


def accepted(tessera, at):
    """Whether some generation takes the call, by tessera's own rules."""
    done = subprocess.run([tessera, "check", str(at), "--own", "--device", DEVICES, "--json", "-"], capture_output=True, text=True, timeout=120)
    devices = json.loads(done.stdout)["modules"][0]["devices"] if done.stdout else []
    return any(not row["tessera"]["refused"] for row in devices)


def varied(r, values):
    changed = {}
    for name, value in values.items():
        if value >= 8 and r.random() < 0.5:
            unit = r.choice([u for u in (8, 64, 128) if u <= max(8, value)])
            changed[name] = max(unit, round(value * r.choice(FACTORS) / unit) * unit)
    return {name: value for name, value in changed.items() if value != values[name]}


def drawn(r, tessera, kernel, at):
    """Whether a call of the kernel was built."""
    found, _ = cases(tessera, kernel)
    found = [c for c in found if max(c[1].values()) >= 16]
    if not found:
        return False
    for _ in range(TRIES):
        number, values, moved = r.choice(found)
        dtype = r.choice(["f32", "bf16"])
        changed = varied(r, values)
        grows = 1.0
        for name, value in changed.items():
            grows *= max(1, value / values[name])
        if moved * grows > MOST_BYTES:
            continue
        words = [kernel, "--case", number, "--dtype", dtype, *(f"{k}={v}" for k, v in changed.items())]
        shutil.rmtree(at, ignore_errors=True)
        if said(tessera, "build", *words, "--target", "tpu", "--out", str(at)) and accepted(tessera, at):
            leave_folder_in_hbm(at)
            (at / "drawn.txt").write_text(" ".join(words) + "\n")
            return True
    shutil.rmtree(at, ignore_errors=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    r = random.Random(arguments.seed)
    kernels = [line.split()[0] for line in said(arguments.tessera, "list").splitlines() if re.match(r"\w+ +\S", line) and "tessera" not in line]
    r.shuffle(kernels)
    made = tried = 0
    while made < arguments.count and tried < 4 * arguments.count:
        kernel = kernels[tried % len(kernels)]
        tried += 1
        if drawn(r, arguments.tessera, kernel, arguments.folder / f"{made:03}_{kernel}"):
            made += 1
    print(f"{made} calls")


if __name__ == "__main__":
    main()
