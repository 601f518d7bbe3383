"""Kernels of whole rows beside torch on one GPU: the table of cuda/RESULTS.md.

    python bench/peers/row_kernels.py FOLDER [--columns 1024 4096] [--rounds 11] [--no-compile]

Compiles bench/peers/row_kernels.cuh for each width and type into FOLDER (nvcc, minutes), runs it on
2^26 elements, and times torch, eager and compiled, on as many. `copy` is the share of the bandwidth
of a copy by torch that the kernel reaches, counting each array once.
"""
import argparse
import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from timing import median_us

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ("-std=c++20 --expt-relaxed-constexpr --extended-lambda "
         "-gencode=arch=compute_90a,code=sm_90a -fmad=false -O3 -Xcompiler -fPIC,-ffp-contract=off "
         f"-I{ROOT}").split()
ELEMS = 1 << 26
# Rows of a block: by columns.
ROWS = {1024: (4, 16), 2048: (2, 8), 4096: (1, 4), 8192: (1, 2), 16384: (1,), 32768: (1,)}


def build(folder, columns):
    folder.mkdir(parents=True, exist_ok=True)
    sources = {"backend": '#include "cuda/backend.cu"\n',
               "main": '#include "bench/peers/row_kernels.cu"\n'}
    for n in columns:
        for rows in ROWS[n]:
            for dtype in ("float", "bf16"):
                if dtype == "float" and n * rows * 4 > 1 << 16:
                    continue
                sources[f"{dtype}_{n}_{rows}"] = (
                    '#include "bench/peers/row_kernels.cuh"\nnamespace tessera::rows {\n'
                    f"static const bool added = add<{dtype}, {rows}, {n}>();\n}}\n")

    def compile_one(item):
        name, text = item
        source = folder / f"{name}.cu"
        source.write_text(text)
        subprocess.run(["nvcc", *FLAGS, "-c", source, "-o", folder / f"{name}.o"], check=True)

    with ThreadPoolExecutor() as pool:
        list(pool.map(compile_one, sources.items()))
    program = folder / "row_kernels"
    subprocess.run(["nvcc", "-cudart", "static", "-o", program,
                    *(folder / f"{name}.o" for name in sources)], check=True)
    return program


def peers(torch, n, dtype):
    """name: (arrays that it moves, eager, formula to compile, arguments)"""
    F = torch.nn.functional
    aten = torch.ops.aten
    x, dy = (torch.randn(ELEMS // n, n, device="cuda", dtype=dtype) for _ in range(2))
    w, b = (torch.randn(n, device="cuda", dtype=dtype) for _ in range(2))
    eps = 1e-5

    def norm(v):
        return v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps)

    def rms(x, w):
        return (norm(x.float()) * w.float()).to(dtype)

    def layer(x, w, b):
        v = x.float()
        return (norm(v - v.mean(-1, keepdim=True)) * w.float() + b.float()).to(dtype)

    def softmax_grad(y, dy):
        y, dy = y.float(), dy.float()
        return (y * (dy - (y * dy).sum(-1, keepdim=True))).to(dtype)

    def rms_grad(x, dy, w):
        v, g = x.float(), dy.float() * w.float()
        r = torch.rsqrt((v * v).mean(-1, keepdim=True) + eps)
        return (r * (g - v * (r * r * (g * v).mean(-1, keepdim=True)))).to(dtype)

    def layer_grad(x, dy, w):
        v, g = x.float(), dy.float() * w.float()
        d = v - v.mean(-1, keepdim=True)
        r = torch.rsqrt((d * d).mean(-1, keepdim=True) + eps)
        return (r * (g - g.mean(-1, keepdim=True) -
                     d * (r * r * (g * d).mean(-1, keepdim=True)))).to(dtype)

    _, mean, rstd = aten.native_layer_norm(x, [n], w, b, eps)
    y = torch.softmax(x, -1)
    found = {
        "softmax": (2, lambda: torch.softmax(x, -1), lambda x: torch.softmax(x, -1), (x,)),
        "rms_norm": (2, lambda: F.rms_norm(x, (n,), w, eps), rms, (x, w)),
        "layer_norm": (2, lambda: F.layer_norm(x, (n,), w, b, eps), layer, (x, w, b)),
        "softmax_grad": (3, lambda: aten._softmax_backward_data(dy, y, -1, dtype), softmax_grad,
                         (y, dy)),
        "rms_norm_grad": (3, None, rms_grad, (x, dy, w)),
        "layer_norm_grad": (3, lambda: aten.native_layer_norm_backward(
            dy, x, [n], mean, rstd, w, b, [True, False, False]), layer_grad, (x, dy, w)),
    }
    if hasattr(aten, "_fused_rms_norm_backward"):
        r = torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + eps)
        found["rms_norm_grad"] = (3, lambda: aten._fused_rms_norm_backward(
            dy, x, [n], r, w, [True, False]), rms_grad, (x, dy, w))
    out = torch.empty_like(x)
    return found, lambda: out.copy_(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--columns", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-compile", action="store_true", help="eager torch alone")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    program = build(options.folder, options.columns)
    if options.build_only:
        return 0
    import torch
    torch._dynamo.config.recompile_limit = 1000
    printed = subprocess.run([program, str(options.rounds)], capture_output=True, text=True)
    (options.folder / "row_kernels.jsonl").write_text(printed.stdout)
    ours = {}
    for line in printed.stdout.splitlines():
        if not line.startswith("{") or "WRONG" in line:
            print(line)
            continue
        run = json.loads(line)
        key = run["body"], run["dtype"], run["n"]
        if key not in ours or run["us"] < ours[key]["us"]:
            ours[key] = run
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print("| kernel | columns | tessera (rows of a block) | torch eager | torch.compile | ratio | copy |")
    print("|---|---|---|---|---|---|---|")
    for n in options.columns:
        for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            bodies, copy = peers(torch, n, dtype)
            copied = median_us(torch, copy, options.rounds)
            for body, (arrays, eager, formula, arguments) in bodies.items():
                run = ours.get((body, name, n))
                if run is None:
                    continue
                times = []
                if eager is not None:
                    times.append(median_us(torch, eager, options.rounds))
                compiled = None
                if not options.no_compile:
                    f = torch.compile(formula, dynamic=False)
                    compiled = median_us(torch, lambda: f(*arguments), options.rounds)
                    times.append(compiled)
                shown = f"{compiled:.1f}" if compiled else ""
                first = f"{times[0]:.1f}" if eager is not None else ""
                best = f"{min(times) / run['us']:.2f}" if times else ""
                print(f"| {body} {name} | {n} | {run['us']:.1f} us ({run['bm']}) | {first} | {shown} | "
                      f"{best} | {copied * arrays / 2 / run['us']:.2f} |", flush=True)
    return printed.returncode


if __name__ == "__main__":
    sys.exit(main())
