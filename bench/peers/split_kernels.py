"""Products whose k is cut into runs, with the sum of their parts, beside torch's on one GPU: the tables of cuda/RESULTS.md.

    python bench/peers/split_kernels.py FOLDER [--rounds 11] [--build-only | --run-only]

Compiles bench/peers/split_kernels.cu into FOLDER (nvcc), and calls it through tessera.cuda, both sides in CUDA graphs that walk
over more weights than L2 holds. A time is that of both kernels, the parts and their sum, or of one whose sum has runs (sim/body/runs.hpp). `HBM` is the share of the bandwidth on the
GPU's data sheet that the bytes of weights, scales, x and o make.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import decode_kernels
from decode_kernels import DATA_SHEET, L2_BYTES, graph_us

# Rows, columns and k of a product, and its blocks.
PRODUCTS = [(16, 8192, 8192, [16, 128, 128]), (16, 1024, 16384, [16, 64, 128]), (64, 8192, 8192, [64, 128, 64]),
            (64, 1024, 16384, [64, 64, 128]), (128, 4096, 4096, [128, 128, 64]), (128, 512, 32768, [128, 64, 64])]
GROUP = 128
# Blocks of weights of 4 bits, the last of them runs of k side by side, and splits.
QUANTISED = [([16, 64, 16, 1, 8], [1]), ([16, 256, 16, 1, 1], [4, 8, 12, 16])]


def split_product(torch, library, m, n, k, tiles, splits):
    from tessera.cuda import Kernel

    parts = Kernel(library, "split_matmul", "bf16", tiles, [m, n, k, splits])
    total = Kernel(library, "split_sum", "bf16", [8, 64], [splits, m, n])
    part = torch.empty(splits, m, n, device="cuda")
    return lambda x, y, o: total(parts(x, y, out=part), out=o)


def quantised_product(torch, library, m, n, k, tiles, splits):
    from tessera.cuda import Kernel

    parts = Kernel(library, "quantised_matmul", "bf16", tiles, [m, n, k, GROUP, 0, splits])
    if splits == 1:
        return lambda x, words, scale, zero, o, _, __: parts(x, words, scale, zero, out=o)
    total = Kernel(library, "split_sum", "bf16", [8, 64], [splits, m, n])
    part = torch.empty(splits, m, n, device="cuda")
    return lambda x, words, scale, zero, o, _, __: total(parts(x, words, scale, zero, out=part), out=o)


def sets_of(make, size):
    return [make() for _ in range(max(2, min(32, -(-int(L2_BYTES) // size))))]


def best_of(torch, product, sets, splits, rounds):
    """(us, splits) of the fastest, and each one's."""
    found = [(graph_us(torch, product(s), sets, rounds), s) for s in splits]
    return min(found), " ".join(f"{s}: {us:.1f}" for us, s in found)


def quantised(torch, library, bandwidth, options):
    m, n, k = 16, 8192, 8192

    def make():
        x = torch.rand(m, k, device="cuda").bfloat16() - 0.5
        words = torch.randint(-2**31, 2**31 - 1, (k // 8, n), device="cuda", dtype=torch.int32).view(torch.uint32)
        scale = torch.rand(k // GROUP, 1, n, device="cuda") + 0.5
        zero = torch.rand(k // GROUP, 1, n, device="cuda") * 16
        packed = torch.ops.aten._convert_weight_to_int4pack(
            torch.randint(0, 255, (n, k // 2), device="cuda", dtype=torch.uint8), 8)
        both = torch.rand(k // GROUP, n, 2, device="cuda").bfloat16()
        return x, words, scale, zero, torch.empty(m, n, device="cuda", dtype=torch.bfloat16), packed, both

    size = k * n // 2 + 8 * k // GROUP * n + 2 * m * (k + n)
    sets = sets_of(make, size)
    x, words, scale, zero, o, *_ = sets[0]
    fields = torch.stack([words.view(torch.int32) >> 4 * i & 15 for i in range(8)], 1).reshape(k, n)
    wanted = x.double() @ ((fields - zero.repeat_interleave(GROUP, 0).view(k, n).double())
                           * scale.repeat_interleave(GROUP, 0).view(k, n))
    wrong = 0
    for tiles, splits in QUANTISED:
        def product(splits):
            return quantised_product(torch, library, m, n, k, tiles, splits)
        product(splits[0])(*sets[0])
        off = ((o.double() - wanted).abs().max() / wanted.abs().max()).item()
        wrong += not off < 8e-3
        (us, splits), each = best_of(torch, product, sets, splits, options.rounds)
        theirs = graph_us(torch, lambda x, *rest: torch.ops.aten._weight_int4pack_mm(x, rest[4], GROUP, rest[5]), sets, options.rounds)
        print(f"| int4 {m} x {n} x {k}, {tiles} | {splits} ({each}) | {us:.1f} | {size / us * 1e6 / bandwidth:.2f} | {theirs:.1f} | "
              f"{theirs / us:.2f} | {off:.1e} |", flush=True)
    return wrong


def products(torch, library, bandwidth, options):
    wrong = 0
    for m, n, k, tiles in PRODUCTS:
        size = 2 * (m * k + k * n + m * n)

        def make():
            x, y = (torch.rand(*shape, device="cuda").bfloat16() - 0.5 for shape in ((m, k), (k, n)))
            return x, y, torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        sets = sets_of(make, size)
        x, y, o = sets[0]

        def product(splits):
            return split_product(torch, library, m, n, k, tiles, splits)
        product(4)(*sets[0])
        wanted = x.double() @ y.double()
        off = ((o.double() - wanted).abs().max() / wanted.abs().max()).item()
        wrong += not off < 8e-3
        (us, splits), each = best_of(torch, product, sets, [s for s in (1, 2, 4, 8, 16) if s * tiles[2] * 4 <= k], options.rounds)
        theirs = graph_us(torch, lambda x, y, o: torch.matmul(x, y, out=o), sets, options.rounds)
        print(f"| bf16 {m} x {n} x {k}, {tiles} | {splits} ({each}) | {us:.1f} | {size / us * 1e6 / bandwidth:.2f} | {theirs:.1f} | "
              f"{theirs / us:.2f} | {off:.1e} |", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--run-only", action="store_true", help="what FOLDER has from an earlier run")
    options = parser.parse_args()
    library = str(options.folder / "libsplit_cuda.so")
    if not options.run_only:
        library = decode_kernels.build(options.folder, "split")
    if options.build_only:
        return 0
    import torch

    name = torch.cuda.get_device_name()
    bandwidth = next(value for key, value in DATA_SHEET.items() if key in name)
    print(name, "torch", torch.__version__)
    print("| product, blocks | splits (each: us) | tessera us | HBM | torch us | ratio | off |")
    print("|---|---|---|---|---|---|---|")
    torch.manual_seed(1)
    return quantised(torch, library, bandwidth, options) + products(torch, library, bandwidth, options)


if __name__ == "__main__":
    sys.exit(main())
