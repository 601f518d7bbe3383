"""Attention of one new token over a long cache, beside torch's on one GPU: the table of cuda/RESULTS.md.

    python bench/peers/decode_kernels.py FOLDER [--rounds 11] [--build-only | --run-only]

Compiles bench/peers/decode_kernels.cu into FOLDER (nvcc), and calls it through tessera.cuda, both sides in CUDA graphs. The
caches that a graph walks over are more than L2 holds. `HBM` is the share of the bandwidth on the GPU's data sheet that the
bytes of keys and values make.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
FLAGS = ("-std=c++20 --expt-relaxed-constexpr --extended-lambda "
         "-gencode=arch=compute_90a,code=sm_90a -fmad=false -O3 -Xcompiler -fPIC,-ffp-contract=off "
         f"-I{ROOT}").split()
KV_HEADS, GROUP, DIM = 8, 8, 128
SHAPES = [(batch, length << 10) for batch in (1, 4, 16, 64) for length in (1, 4, 16, 32, 128) if batch * length <= 2048]
DATA_SHEET = {"H100": 3.35e12, "H200": 4.8e12}
L2_BYTES = 200e6  # more than any has
CALLS = 24  # of a graph at least, whose own start takes as long as a short call


def build(folder, stem):
    """FOLDER/lib<stem>_cuda.so, of bench/peers/<stem>_kernels.cu."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {"kernels": f"bench/peers/{stem}_kernels.cu", "backend": "cuda/backend.cu"}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda item: subprocess.run(["nvcc", *FLAGS, "-c", ROOT / item[1], "-o", folder / f"{item[0]}.o"],
                                                  check=True), sources.items()))
    library = folder / f"lib{stem}_cuda.so"
    subprocess.run(["nvcc", "-shared", "-cudart", "static", *(folder / f"{name}.o" for name in sources), "-o", library],
                   check=True)
    return str(library)


def decoder(torch, library, batch, length, bk, slots):
    """f(q, k, v, o), with its splits, a multiple of four: as many cells as the GPU holds CTAs. Eight are merged at once, or four."""
    from tessera.cuda import Kernel

    splits = min(-(-length // bk), slots // (batch * KV_HEADS)) // 4 * 4
    if splits == 0:
        whole = Kernel(library, "flash_attention", "bf16", [8, bk, DIM, 0, 0, 0],
                       [batch, KV_HEADS, KV_HEADS, GROUP, length, DIM, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        return lambda q, k, v, o: whole(q, k, v, out=o), 1
    split = Kernel(library, "decode_split", "bf16", [8, bk, DIM], [batch, KV_HEADS, GROUP, length, DIM, splits])
    merge = Kernel(library, "decode_merge", "bf16", [8, 64, 8] if splits % 8 == 0 else [8, 128, 4],
                   [batch, KV_HEADS, GROUP, DIM, splits])
    part = torch.empty(batch, KV_HEADS, splits, GROUP, DIM, device="cuda")
    log_sum = torch.empty(batch, KV_HEADS, splits, GROUP, 4, device="cuda")

    def run(q, k, v, o):
        split(q, k, v, out=(part, log_sum))
        return merge(part, log_sum, out=o)

    return run, splits


def captured(torch, f, calls):
    """Calls of f, by their arguments, in a graph; f keeps what it writes."""
    f(*calls[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            f(*call)
    return graph, f


def medians(torch, graphs, rounds):
    """Microseconds of each, one after the other in every round: for seconds after much memory was written all are up to 15 % slower."""
    times = {name: [] for name in graphs}
    for _ in range(rounds + 2):
        for name, (graph, _) in graphs.items():
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3)
    return {name: statistics.median(of[2:]) for name, of in times.items()}


def graph_us(torch, f, calls, rounds):
    return medians(torch, {"": captured(torch, f, calls)}, rounds)[""] / len(calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--run-only", action="store_true", help="what FOLDER has from an earlier run")
    options = parser.parse_args()
    library = str(options.folder / "libdecode_cuda.so") if options.run_only else build(options.folder, "decode")
    if options.build_only:
        return 0
    import torch

    name = torch.cuda.get_device_name()
    bandwidth = next(value for key, value in DATA_SHEET.items() if key in name)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    print(name, "torch", torch.__version__)
    print("| sequences | cache | bk, splits | tessera us | HBM | torch sdpa us | ratio | off |")
    print("|---|---|---|---|---|---|---|---|")
    torch.manual_seed(1)
    wrong = 0
    for batch, length in SHAPES:
        size = 4 * batch * KV_HEADS * length * DIM
        caches = []
        for _ in range(max(2, min(64, -(-int(L2_BYTES) // size)))):
            q = torch.randn(batch, KV_HEADS, GROUP, DIM, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(batch, KV_HEADS, length, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            caches.append((q, k, v, torch.empty_like(q)))
        q, k, v, o = caches[0]
        calls = [caches[i % len(caches)] for i in range(max(CALLS, len(caches)))]

        def peer(q, k, v, _):
            return torch.nn.functional.scaled_dot_product_attention(
                q.view(batch, KV_HEADS * GROUP, 1, DIM), k, v, enable_gqa=True)

        graphs, off = {"torch": captured(torch, peer, calls)}, {}
        for bk, resident in ((64, 2), (128, 1)):
            run, splits = decoder(torch, library, batch, length, bk, resident * multiprocessors)
            run(q, k, v, o)
            wanted = torch.softmax((q[:1].double() @ k[:1].double().mT) / DIM**0.5, -1) @ v[:1].double()
            how = f"{bk}, {splits}"
            off[how] = ((o[:1].double() - wanted).abs().max() / wanted.abs().max()).item()
            wrong += not off[how] < 8e-3
            graphs[how] = captured(torch, run, calls)
        found = {name: us / len(calls) for name, us in medians(torch, graphs, options.rounds).items()}
        theirs = found.pop("torch")
        how = min(found, key=found.get)
        us = found[how]
        others = " ".join(f"({other}: {found[other]:.1f})" for other in found if other != how)
        print(f"| {batch} | {length >> 10} K | {how} {others} | {us:.1f} | {size / us * 1e6 / bandwidth:.2f} | {theirs:.1f} | "
              f"{theirs / us:.2f} | {off[how]:.1e} |", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
