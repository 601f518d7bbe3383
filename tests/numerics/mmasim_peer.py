"""tessera's model of Hopper's tensor cores against MMA-Sim's (mmasim on PyPI, by Xie et al.; needs torch 2.9).

    python tests/numerics/mmasim_peer.py build/release/tests/tensor_core_products [ROUNDS]

Each round: 64 x 256 outputs of one wgmma per format and class of operands, bit by bit; NaNs are one.
"""
import subprocess
import sys
import types

import numpy as np
import torch

# mmasim compiles a helper of its f64 instructions when it is imported; ours has none.
sys.modules["mmasim.arithmetic.fma"] = types.SimpleNamespace(MMA_FMA=None)
from mmasim.nv_ptx import WGMMA  # noqa: E402

M, N = 64, 256
FORMATS = {  # ours: theirs, k of one instruction, torch's type, bits
    "bf16": ("bf16.bf16", 16, torch.bfloat16, 16),
    "f16": ("f16.f16", 16, torch.float16, 16),
    "tf32": ("tf32.tf32", 8, torch.float32, 32),
    "f8e4m3fn": ("e4m3.e4m3", 32, torch.float8_e4m3fn, 8),
    "f8e5m2": ("e5m2.e5m2", 32, torch.float8_e5m2, 8),
}
CLASSES = ("any bits", "near 1", "far apart", "subnormal", "huge", "small whole numbers", "cancelling", "special")


def operands(rng, shape, kind, dtype, bits):
    word = {8: np.uint8, 16: np.uint16, 32: np.uint32}[bits]
    if kind == "any bits":
        return torch.from_numpy(rng.integers(0, 1 << bits, shape, dtype=np.uint64).astype(word)).view(dtype)
    x = rng.normal(size=shape)
    if kind == "far apart":
        x *= 2.0 ** rng.integers(-8, 9, shape)
    if kind == "subnormal":
        x *= float(torch.finfo(dtype).tiny)
    if kind == "huge":
        x *= float(torch.finfo(dtype).max) / 8
    if kind == "small whole numbers":
        x = rng.integers(-2, 3, shape) * np.where(rng.random(shape) < 0.5, 1.0, -1.0)
    if kind == "cancelling":
        x = np.repeat(np.abs(x[..., ::2]), 2, axis=-1)[..., : shape[-1]]
    if kind == "special":
        x = np.where(rng.random(shape) < 0.03, rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], shape), x)
    return torch.from_numpy(x).to(torch.float32).to(dtype)


def raw(t):
    return t.contiguous().view(torch.uint8).numpy().tobytes()


def ours(program, fmt, a, b, c):
    done = subprocess.run([program, fmt, *map(str, (a.shape[0], b.shape[1], a.shape[1]))], check=True,
                          input=raw(a) + raw(b) + raw(c), capture_output=True)
    return np.frombuffer(done.stdout, np.uint32).reshape(c.shape)


def bits_of(t):
    x = t.contiguous().numpy()
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), x.view(np.uint32))


def main(program, rounds):
    rng = np.random.default_rng(1)
    wrong = 0
    for fmt, (types_, k, dtype, bits) in FORMATS.items():
        instruction = WGMMA("Hopper", f"m64n{N}k{k}.f32.{types_}")
        for kind in CLASSES:
            differ = total = 0
            for _ in range(rounds):
                a = operands(rng, (M, k), kind, dtype, bits)
                b = operands(rng, (k, N), kind, dtype, bits)
                if kind == "cancelling":
                    b[1::2] = (-b[::2].float()).to(dtype)
                c = operands(rng, (M, N), "near 1" if kind == "cancelling" else kind, torch.float32, 32)
                theirs = bits_of(instruction(a, b, c))
                mine = ours(program, fmt, a, b, c)
                mine = np.where(np.isnan(mine.view(np.float32)), np.uint32(0x7FFFFFFF), mine)
                differ += int((theirs != mine).sum())
                total += theirs.size
            print(f"wgmma {fmt:<9} {kind:<20} {total:>10,} outputs, {differ:,} differ", flush=True)
            wrong += differ
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4))
