"""The CUDA build beside torch on one GPU: rounds in turns, medians, ratios (cuda/RESULTS.md).

    python bench/peers/cuda_kernels.py build/release/cli/tessera [--rounds 3] [--only matmul]

Each round starts `tessera run K ... --backend cuda --rounds N` and then times torch as often, by
events; a line gives the medians over all rounds.
"""
import argparse
import json
import statistics
import subprocess
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

RUNS = 11


def seconds_of(f):
    f()
    torch.cuda.synchronize()
    times = []
    for _ in range(RUNS):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        f()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return times


def tessera(program, arguments):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run(
            [program, "run", *arguments.split(), "--backend", "cuda", "--no-check", "--rounds",
             str(RUNS), "--json", report.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(report.name))["backend"]["run_seconds"]


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def matmul(n, dtype=torch.bfloat16):
    x, y = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
    return lambda: x @ y


def grouped(m, n, k, groups):
    x, w = normal(m, k), normal(groups, k, n)
    ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * (m // groups)
    return lambda: torch._grouped_mm(x, w, offs=ends)


def attention(backend, causal):
    q, k, v = (normal(4, 16, 4096, 128) for _ in range(3))

    def run():
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return run


def add(n):
    x, y = normal(n, dtype=torch.float32), normal(n, dtype=torch.float32)
    return lambda: x + y


def copy(rows, columns):
    x = normal(rows, columns, dtype=torch.float32)
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def rows():
    attend = ("flash_attention batch=4 heads=16 kv_heads=16 q_len=4096 kv_len=4096 head_dim=128 "
              "bq=128 bk=128 bd=128 --dtype bf16 causal=")
    flash, cudnn = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION
    big, deep = "m=4096 n=4096 k=4096", "m=65536 n=256 k=4096"
    return [
        ("matmul bf16 4096^3", f"matmul {big} bm=128 bn=256 bk=64 --dtype bf16",
         "torch", 0.90, lambda: matmul(4096)),
        ("matmul bf16 8192^3",
         "matmul m=8192 n=8192 k=8192 bm=128 bn=256 bk=64 --dtype bf16",
         "torch", 0.97, lambda: matmul(8192)),
        ("dma_matmul bf16 4096^3", f"dma_matmul {big} bm=128 bn=256 bk=128 --dtype bf16",
         "torch", 0.80, lambda: matmul(4096)),
        ("grouped_matmul bf16, 8 groups, 8192 x 4096 x 4096",
         "grouped_matmul m=8192 n=4096 k=4096 groups=8 bm=128 bn=256 bk=64 --dtype bf16 "
         "--input group_sizes=GROUPS", "torch._grouped_mm", 0.90,
         lambda: grouped(8192, 4096, 4096, 8)),
        ("matmul f32 4096^3", f"matmul {big} bm=128 bn=128 bk=32", "torch", 0.60,
         lambda: matmul(4096, torch.float32)),
        ("flash_attention bf16, causal", attend + "1", "torch FLASH_ATTENTION", 1.5,
         lambda: attention(flash, True)),
        ("flash_attention bf16, causal", attend + "1", "torch cuDNN", 0.85,
         lambda: attention(cudnn, True)),
        ("flash_attention bf16, full", attend + "0", "torch cuDNN", 0.82,
         lambda: attention(cudnn, False)),
        ("add_vectors f32 2^26", "add_vectors n=67108864 bn=8192", "torch", 0.97,
         lambda: add(1 << 26)),
        ("softmax_rows f32, 32768 rows of 1024", "softmax_rows m=32768 n=1024 bm=16 bn=1024",
         "a copy by torch", 0.80, lambda: copy(32768, 1024)),
        ("matmul_layernorm_gelu bf16, 65536 x 256 x 4096",
         f"matmul_layernorm_gelu {deep} bm=128 bn=256 bk=64 --dtype bf16", "matmul, ours",
         0.80, lambda: f"matmul {deep} bm=128 bn=256 bk=64 --dtype bf16"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print("| kernel | tessera | peer | | ratio | to reach |\n|---|---|---|---|---|---|")
    with tempfile.NamedTemporaryFile(suffix=".npy") as sizes:
        import numpy
        numpy.save(sizes.name, numpy.full(8, 1024, numpy.int32))
        for name, arguments, peer, goal, make in rows():
            if options.only not in name:
                continue
            other = make()
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours += tessera(options.program, arguments.replace("GROUPS", sizes.name))
                theirs += (tessera(options.program, other) if isinstance(other, str)
                           else seconds_of(other))
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"| {name} | {a * 1e6:.1f} us | {peer} | {b * 1e6:.1f} us | {b / a:.2f} | "
                  f"{goal} |", flush=True)
            del other
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
