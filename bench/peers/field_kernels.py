#!/usr/bin/env python3
"""Gradients of attention and linear attention by chunks, beside torch's and fla-core's: cuda/RESULTS.md.

    python bench/peers/field_kernels.py PROGRAM [--fla FOLDER]

PROGRAM is a tessera whose CUDA build has the tile sizes below (or compiles them). bf16; medians of 21 runs by events, caches warm. dq and dk, dv
are two kernels here and one backward pass there, of cuDNN's or flash-attention's; fla-core's kernels give the state too, as ours do.
"""
import argparse
import sys

from timing import median_us, tessera_us

ROUNDS = 21
# Rows that a cell keeps, and rows that it visits a step.
BLOCKS = {64: ((64, 64), (128, 64), (64, 128), (128, 128), (192, 64), (128, 32)), 128: ((64, 64), (128, 64), (64, 128), (192, 64), (128, 32))}
CHUNKS = {(64, 64): ((64, 64, 64),), (128, 128): ((64, 128, 64),)}


def ours(program, kernel, sizes, blocks):
    """The best of some blocks: microseconds, and the blocks."""
    found = []
    for block in blocks:
        us, said = tessera_us(program, f"{kernel} {sizes} {block} --dtype bf16", ROUNDS)
        if us is None:
            print(f"{kernel} {block}: {said}", file=sys.stderr)
        else:
            found.append((us, block))
    return min(found) if found else (float("nan"), "none")


def backward(torch, program):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for dim, blocks in BLOCKS.items():
        for causal in (0, 1):
            sizes = f"batch=1 heads=16 kv_heads=16 q_len=4096 kv_len=4096 causal={causal} head_dim={dim}"
            dq = ours(program, "flash_attention_dq", sizes, [f"bq={q} bk={k} bd={dim}" for q, k in blocks])
            dkv = ours(program, "flash_attention_dkv", sizes, [f"bk={k} bq={q} bd={dim}" for k, q in blocks])
            q, k, v = (torch.randn(1, 16, 4096, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
            peers = {}
            for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
                with sdpa_kernel(backend):
                    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
                    dout = torch.randn_like(o)
                    peers[name] = median_us(torch, lambda: torch.autograd.grad(o, (q, k, v), dout, retain_graph=True), ROUNDS)
            us = dq[0] + dkv[0]
            print(f"backward, heads of {dim}, {'causal' if causal else 'full'}: {dq[0]:.0f} + {dkv[0]:.0f} us ({dq[1]}; {dkv[1]}); "
                  + ", ".join(f"{name} {t:.0f} us, {t / us:.2f}" for name, t in peers.items()), flush=True)


def linear(torch, program):
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla
    for (dk, dv), chunks in CHUNKS.items():
        for gate, name in ((2, "chunk_gla"), (1, "chunk_simple_gla")):
            us, block = ours(program, "linear_attention", f"batch=4 heads=16 len=4096 dk={dk} dv={dv} gate={gate}",
                             [f"bt={t} bk={k} bv={v}" for t, k, v in chunks])
            q, k, g = (torch.randn(4, 4096, 16, dk, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            v = torch.randn(4, 4096, 16, dv, device="cuda", dtype=torch.bfloat16)
            gates = torch.nn.functional.logsigmoid(g.float() if gate == 2 else g[..., 0].float()) / 16
            with torch.no_grad():
                peer = median_us(torch, (lambda: chunk_gla(q, k, v, gates, output_final_state=True)) if gate == 2
                                 else (lambda: chunk_simple_gla(q, k, v, g=gates, output_final_state=True)), ROUNDS)
            print(f"linear attention, dk {dk}, dv {dv}: {us:.0f} us ({block}); {name} {peer:.0f} us, {peer / us:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--fla", help="the folder that fla-core is installed in")
    options = parser.parse_args()
    import torch
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    backward(torch, options.program)
    if options.fla:
        sys.path.insert(0, options.fla)
        linear(torch, options.program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
