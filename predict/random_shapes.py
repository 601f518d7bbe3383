"""Shapes drawn at random, their times and DRAM's bytes on an H100: predict/ACCURACY.md.

    python3 predict/random_shapes.py draw PROGRAM FILE [SEED [TIMES]]   draw 69 shapes, or TIMES as many: a line of JSON each
    python3 predict/random_shapes.py instances FILE FOLDER        .cu files with their instances, to be built into libtessera_cuda.so
    python3 predict/random_shapes.py code PROGRAM FILE FOLDER     what nvcc makes of them (no GPU needed): cubins, for predict/fit.py's CODE
    python3 predict/random_shapes.py measure PROGRAM FILE OUT     on the GPU: the median of 21 runs of each, by events, and Nsight Compute's bytes
    python3 predict/random_shapes.py bytes PROGRAM OUT [DEVICE]   predicted bytes beside those (of an h100); of times: predict/fit.py table

Sizes are log-uniform, rounded to a multiple of 1, 8 or 64; tiles are drawn from lists, whatever they are worth; what does not fit a CTA,
or is not modelled, is drawn again. PROGRAM is build/release/cli/tessera.
"""
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

import accuracy

ROOT = pathlib.Path(__file__).resolve().parents[1]
_random = random.Random()
_one_of = _random.choice


def _size(least, most):
    n = math.exp(_random.uniform(math.log(least), math.log(most)))
    apart = _one_of([1, 8, 64, 64])
    return max(apart, round(n / apart) * apart)


def _drawn_until(good, draw):
    while not good(*(drawn := draw())):
        pass
    return drawn


def _product():
    dtype = _one_of(["bf16", "bf16", "bf16", "f32"])
    most = 3e11 if dtype == "bf16" else 6e10
    m, n, k = _drawn_until(lambda m, n, k: 3e8 < 2 * m * n * k < most, lambda: [_size(64, 8192) for _ in range(3)])
    return dtype, {"m": m, "n": n, "k": k, "bm": _one_of([16, 32, 64, 64, 128, 128, 192, 256]),
                   "bn": _one_of([32, 64, 64, 128, 128, 192, 256]), "bk": _one_of([32, 64, 64, 128])}


def _grouped_product():
    dtype, sizes = _product()
    return dtype, {**sizes, "groups": _one_of([2, 4, 8])}


def _attention():
    dtype = _one_of(["bf16", "bf16", "f32"])
    most = 1.5e11 if dtype == "bf16" else 3e10
    kv_heads, group, dim, batch = _one_of([1, 2, 4, 8]), _one_of([1, 1, 2, 4]), _one_of([64, 64, 128, 72]), _one_of([1, 2, 4])
    queries, keys = _drawn_until(lambda q, kv: 3e8 < 4 * batch * kv_heads * group * q * kv * dim < most,
                                 lambda: [_size(128, 8192) for _ in range(2)])
    causal = _one_of([0, 1])
    return dtype, {"batch": batch, "heads": kv_heads * group, "kv_heads": kv_heads, "q_len": queries, "kv_len": queries if causal else keys,
                   "head_dim": dim, "causal": causal, "bq": _one_of([64, 64, 128, 128, 192]), "bk": _one_of([32, 64, 64, 128]), "bd": dim}


def _rows(**more):
    rows, columns = _drawn_until(lambda m, n: 2**20 < m * n < 2**26, lambda: [_size(256, 65536), _size(128, 16384)])
    width = -(-columns // 64) * 64
    block = _one_of([1, 2, 4, 8, 16])
    while block > 1 and block * width > 16384:
        block //= 2
    return _one_of(["bf16", "f32"]), {"m": rows, "n": columns, "bm": block, "bn": width, **{k: _one_of(v) for k, v in more.items()}}


def _normalised_product():
    width = _one_of([128, 256, 384, 512])
    return "bf16", {"m": _size(512, 65536), "n": width, "k": _size(64, 4096), "bm": _one_of([32, 64, 128]), "bn": width, "bk": _one_of([32, 64])}


def _vectors():
    return _one_of(["bf16", "f32"]), {"n": _size(2**20, 2**26), "bn": _one_of([1024, 4096, 8192, 16384])}


def _blocks():
    return _one_of(["bf16", "f32"]), {"m": _size(512, 16384), "n": _size(512, 4096), "bm": _one_of([16, 32, 64, 128]), "bn": _one_of([32, 64, 128])}


def _loss():
    return _one_of(["bf16", "f32"]), {"m": _size(256, 4096), "n": _size(1024, 32768), "k": _size(64, 1024), "bm": _one_of([64, 128]),
                                      "bn": _one_of([64, 128]), "bk": _one_of([32, 64])}


def _rotation():
    half = _one_of([32, 64, 128])
    return _one_of(["bf16", "f32"]), {"batch": _one_of([1, 2, 4]), "heads": _one_of([4, 8, 16]), "len": _size(512, 8192), "half_dim": half,
                                      "bs": _one_of([8, 16, 32]), "bh": half}


# How many of each.
KERNELS = {
    "matmul": (_product, 14), "matmul_relu": (_product, 4), "grad_x": (_product, 4), "grad_w": (_product, 4), "grouped_matmul": (_grouped_product, 4),
    "flash_attention": (_attention, 10), "flash_attention_dq": (_attention, 2), "flash_attention_dkv": (_attention, 2), "softmax_rows": (_rows, 5),
    "softmax_rows_grad": (_rows, 3), "norm_rows": (lambda: _rows(rms=[0, 1], residual=[0, 1]), 4),
    "norm_rows_grad": (lambda: _rows(rms=[0, 1], parts=[32, 128]), 2), "add_vectors": (_vectors, 2), "add_blocked": (_blocks, 2),
    "matmul_layernorm_gelu": (_normalised_product, 3), "cross_entropy": (_loss, 2), "rope": (_rotation, 2)}


def draw(program, file, seed="2911", times="1"):
    _random.seed(int(seed))
    with open(file, "w") as out:
        for kernel, (shape, few) in KERNELS.items():
            found, wanted = 0, round(float(times) * few)
            while found < wanted:
                dtype, sizes = shape()
                run = " ".join([kernel, *(f"{name}={n}" for name, n in sizes.items()), "--dtype", dtype])
                done = subprocess.run([program, "run", *run.split(), "--device", "h100", "--dry", "--timeline", "--json", "-"],
                                      capture_output=True, text=True)
                if done.returncode != 0:
                    continue
                line = json.loads(done.stdout[done.stdout.index("{"):])["timeline"]
                if "unmodelled" not in line:
                    found += 1
                    out.write(json.dumps({"run": run, "kernel": kernel, "dtype": dtype, "sizes": sizes}) + "\n")


def _drawn(file):
    return [json.loads(line) for line in open(file)]


def shape_of(run):
    kernel, *words = run.split()
    sizes = {name: int(n) for name, n in (word.split("=") for word in words if "=" in word)}
    return {"run": run, "kernel": kernel, "dtype": words[-1] if "--dtype" in words else "f32", "sizes": sizes}


def _tiles(shape):
    names = re.findall(r'\btile\("(\w+)"', (ROOT / f"kernels/{shape['kernel']}.hpp").read_text())
    return [str(shape["sizes"].get(name, 0)) for name in names]  # 0: without what a tile asks for


def instance(shape):
    return f"{shape['kernel']}_{shape['dtype']}_{'_'.join(_tiles(shape))}"


def code(program, file, folder):
    folder = pathlib.Path(folder)
    for shape in map(shape_of, (row["run"] for row in _drawn(file))):
        subprocess.run([program, "run", *shape["run"].split(), "--device", "h100", "--dry", "--timeline", "--timing", "compiler"], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})
        made, = (folder / "cache/tessera/cuda").glob(f"{shape['kernel']}-{shape['dtype']}-{'x'.join(_tiles(shape))}-*.cubin")
        (folder / f"{instance(shape)}.cubin").write_bytes(made.read_bytes())


def instances(file, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for shape in _drawn(file):
        body = re.search(r"add_instances<\s*kernels::(\w+)", (ROOT / f"cuda/instances/{shape['kernel']}.cu").read_text())[1]
        dtype = "float" if shape["dtype"] == "f32" else shape["dtype"]
        (folder / f"{instance(shape)}.cu").write_text(
            f'#include "cuda/launch.hpp"\n#include "kernels/{shape["kernel"]}.hpp"\nnamespace tessera::cuda {{\n'
            "static const Adds added([](std::vector<Instance>& to) {\n"
            f"  add_instance<kernels::{body}<{dtype}>, {dtype}>(to, TileSizes<{', '.join(_tiles(shape))}>{{}});\n}});\n}}  // namespace tessera::cuda\n")


def measure(program, file, out):
    for shape in _drawn(file):
        try:
            row = {"run": shape["run"], **accuracy.timed(program, shape["run"]), **accuracy.counted(program, shape["run"])}
        except (subprocess.CalledProcessError, RuntimeError, IndexError) as error:
            print("left out:", shape["run"], str(error)[-200:].replace("\n", " "))
            continue
        with open(out, "a") as lines:
            lines.write(json.dumps(row) + "\n")


def bytes_beside(program, out, device="h100"):
    errors = []
    print("| run | DRAM read | predicted | |\n|---|---:|---:|---:|")
    for row in _drawn(out):
        line = accuracy.predicted(program, row["run"], device) if row.get("dram_read", 0) > 0 else None
        if line is not None:
            predicted = line["dram_read_bytes"]
            errors.append(abs(predicted / row["dram_read"] - 1))
            print(f"| {row['run'].replace('--dtype ', '')} | {row['dram_read']:,} | {predicted:,} | {predicted / row['dram_read'] - 1:+.1%} |")
    errors.sort()
    print(f"{len(errors)} runs: median {statistics.median(errors):.1%}, nine in ten {errors[math.ceil(0.9 * len(errors)) - 1]:.1%}, "
          f"worst {errors[-1]:.1%}")


if __name__ == "__main__":
    {"draw": draw, "instances": instances, "code": code, "measure": measure, "bytes": bytes_beside}[sys.argv[1]](*sys.argv[2:])
