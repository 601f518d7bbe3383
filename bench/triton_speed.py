"""Triton kernels here, in Triton's own interpreter, and in NumPy, in turns: python bench/triton_speed.py [ROUNDS].

Needs triton, NumPy and the package tessera; no torch. Each side is a process of its own, the rounds alternate, the
median of each side counts. The interpreter runs each kernel once a round; the others as often as fits in a second.
Prints a table as bench/README.md has it.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np


def kernels():
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, y, o, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        m = i < n
        tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)

    @triton.jit
    def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        r = tl.program_id(0) * BM + tl.arange(0, BM)
        s = tl.program_id(1) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(0, K, BK):
            x = tl.load(a + r[:, None] * K + (i + k)[None, :])
            y = tl.load(b + (i + k)[:, None] * N + s[None, :])
            acc = tl.dot(x, y, acc, input_precision="ieee")
        tl.store(c + r[:, None] * N + s[None, :], acc)

    @triton.jit
    def attention(q, k, v, o, L, scale, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
        base = tl.program_id(1) * L * D
        r = tl.program_id(0) * BQ + tl.arange(0, BQ)
        d = tl.arange(0, D)
        x = tl.load(q + base + r[:, None] * D + d[None, :])
        top = tl.full((BQ,), float("-inf"), tl.float32)
        total = tl.zeros((BQ,), tl.float32)
        acc = tl.zeros((BQ, D), tl.float32)
        for j in range(0, L, BK):
            s = j + tl.arange(0, BK)
            kt = tl.load(k + base + s[None, :] * D + d[:, None])
            z = tl.dot(x, kt, input_precision="ieee") * scale
            new = tl.maximum(top, tl.max(z, 1))
            p = tl.exp(z - new[:, None])
            f = tl.exp(top - new)
            total = total * f + tl.sum(p, 1)
            acc = acc * f[:, None]
            acc = tl.dot(p, tl.load(v + base + s[:, None] * D + d[None, :]), acc, input_precision="ieee")
            top = new
        tl.store(o + base + r[:, None] * D + d[None, :], acc / total[:, None])

    return add, matmul, attention


class _Storage:
    """The little of a tensor of torch's that Triton's interpreter asks for."""

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.__array_interface__["data"][0]

    def cpu(self):
        return self

    def copy_(self, other):
        assert other.array is self.array


class _Tensor:
    def __init__(self, array=None):
        self.array = array
        self.dtype = None if array is None else array.dtype

    def data_ptr(self):
        return self.array.__array_interface__["data"][0]

    def untyped_storage(self):
        return _Storage(self.array)

    def new_empty(self, *_, **__):
        return _Tensor()

    def set_(self, storage, *_):
        self.__init__(storage.array)

    def storage_offset(self):
        return 0

    size = stride = storage_offset


def cases(side):
    """name -> (a call, its result)."""
    rng = np.random.default_rng(1)
    if side == "numpy":
        tensor = None
    elif side == "interpreter":
        tensor = _Tensor
    else:
        from tessera import DeviceArray as tensor
    n = 1024 * 1024
    x, y = (rng.standard_normal(n, np.float32) for _ in range(2))
    a, b = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    q, k, v = (rng.standard_normal((4, 512, 64), np.float32) for _ in range(3))
    if side == "numpy":
        def softmax(z):
            z = np.exp(z - z.max(-1, keepdims=True))
            return z / z.sum(-1, keepdims=True)

        return {"add": lambda: x + y, "add small": lambda: x[:131072] + y[:131072], "matmul": lambda: a @ b,
                "attention": lambda: softmax(q @ k.swapaxes(1, 2) / np.float32(8)) @ v, "launch": lambda: x[:64] + y[:64]}
    add, matmul, attention = kernels()
    o, c, z = np.zeros(n, np.float32), np.zeros((512, 512), np.float32), np.zeros((4, 512, 64), np.float32)
    X, Y, O, A, B, C, Q, K, V, Z = map(tensor, (x, y, o, a, b, c, q, k, v, z))

    def run(call, result, of):
        def once():
            call()
            return result[:of] if of else result
        return once

    return {"add": run(lambda: add[(1024,)](X, Y, O, n, BLOCK=1024), o, 0),
            "add small": run(lambda: add[(1024,)](X, Y, O, 131072, BLOCK=128), o, 131072),
            "matmul": run(lambda: matmul[(8, 8)](A, B, C, 512, 512, 512, BM=64, BN=64, BK=32), c, 0),
            "attention": run(lambda: attention[(8, 4)](Q, K, V, Z, 512, 0.125, D=64, BQ=64, BK=64), z, 0),
            "launch": run(lambda: add[(1,)](X, Y, O, 64, BLOCK=64), o, 64)}


def _side(side):
    """A process that runs a case each time it is told its name, and answers with the seconds of a run."""
    if side == "tessera":
        import tessera

        simulation = tessera.simulate_triton("h100")
        simulation.__enter__()
    all_cases = cases(side)
    for line in sys.stdin:
        call = all_cases[line.strip()]
        call()
        runs = []
        end = time.perf_counter() + 1
        while not runs or (side != "interpreter" and time.perf_counter() < end):
            start = time.perf_counter()
            result = call()
            runs.append(time.perf_counter() - start)
        print(json.dumps([statistics.median(runs), float(np.abs(result).sum(dtype=np.float64))]), flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    sides = {}
    for side in ("tessera", "interpreter", "numpy"):
        env = {**os.environ, "TRITON_INTERPRET": "1" if side == "interpreter" else "0"}
        sides[side] = subprocess.Popen([sys.executable, __file__, "--side", side], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, env=env)
    print("| case | tessera | Triton's interpreter | NumPy | interpreter / tessera | NumPy / tessera |\n|---|---|---|---|---|---|")
    for case, title in (("matmul", "matmul 512^3 f32"), ("attention", "attention 4 x 512 x 64 f32"),
                        ("add", "1,024 programs that add 1,024 elements"), ("add small", "1,024 programs that add 128 elements"),
                        ("launch", "one program that adds 64 elements")):
        times = {side: [] for side in sides}
        sums = {}
        for _ in range(rounds):
            for side, process in sides.items():
                process.stdin.write(case + "\n")
                process.stdin.flush()
                seconds, sums[side] = json.loads(process.stdout.readline())
                times[side].append(seconds)
        for side, total in sums.items():
            assert abs(total / sums["numpy"] - 1) < 1e-4, (case, sums)
        ours, theirs, numpy = (statistics.median(times[side]) for side in sides)
        print(f"| {title} | {ours * 1e3:.3g} ms | {theirs * 1e3:.4g} ms | {numpy * 1e3:.3g} ms | {theirs / ours:,.0f} | "
              f"{numpy / ours:.2g} |", flush=True)
    for process in sides.values():
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    _side(sys.argv[2]) if sys.argv[1:2] == ["--side"] else main()
