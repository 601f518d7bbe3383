"""The interpreter beside the same mathematics in NumPy, whose products are BLAS calls, in turns and on as many threads:

    OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 python bench/peers/field_interpreter.py build/release/cli/tessera [ROUNDS]

f32, sequences of 2,048 or the like; what `run` says a kernel took, all checks on, without making inputs and without the oracle.
Medians of ROUNDS (5).
"""
import json
import statistics
import subprocess
import sys
import time

import numpy as np

random = np.random.default_rng(1)


def normal(*shape):
    return random.standard_normal(shape, np.float32)


HEADS, LENGTH, DIM = 4, 2048, 128
q, k, v, dout = (normal(HEADS, LENGTH, DIM) for _ in range(4))
scale = np.float32(DIM**-0.5)


def softmax(s):
    s -= s.max(-1, keepdims=True)
    np.exp(s, s)
    return s, s.sum(-1, keepdims=True)


def attention():
    for h in range(HEADS):
        p, total = softmax(q[h] @ k[h].T * scale)
        (p @ v[h]) / total


def probabilities(h):
    p, total = softmax(q[h] @ k[h].T * scale)
    p /= total
    dp = dout[h] @ v[h].T
    delta = (p * dp).sum(-1, keepdims=True)
    return p, p * (dp - delta)


def attention_dq():
    for h in range(HEADS):
        probabilities(h)[1] @ k[h] * scale


def attention_dkv():
    for h in range(HEADS):
        p, ds = probabilities(h)
        p.T @ dout[h]
        ds.T @ q[h] * scale


def linear_attention(chunk=64):
    below = np.tril(np.ones((chunk, chunk), np.float32))
    for h in range(HEADS):
        state = np.zeros((DIM, DIM), np.float32)
        for t in range(0, LENGTH, chunk):
            a, b, c = (x[h, t:t + chunk] for x in (q, k, v))
            (a @ state + (a @ b.T * below) @ c) * scale
            state += b.T @ c


w = normal(2048, 2048)
codes = random.integers(16, size=(2048, 2048), dtype=np.uint8)
scales = normal(2048 // 64, 2048)
x = normal(2048, 2048)
experts = normal(8, 1024, 1024)
rows = normal(2048, 1024)
labels = random.integers(8192, size=2048)
table = normal(512, 8192)
hidden = normal(2048, 512)


def quantised():
    x @ ((codes.reshape(-1, 64, 2048).astype(np.float32) - np.float32(8)) * scales[:, None]).reshape(2048, 2048)


def grouped():
    for g in range(8):
        rows[256 * g:256 * g + 256] @ experts[g]


def cross_entropy():
    s = hidden @ table
    most = s.max(-1, keepdims=True)
    np.log(np.exp(s - most).sum(-1)) + most[:, 0] - s[np.arange(2048), labels]


ATTENTION = f"batch=1 heads={HEADS} kv_heads={HEADS} q_len={LENGTH} kv_len={LENGTH} head_dim={DIM} causal=0"
PAIRS = {
    "matmul m=2048 n=2048 k=2048 bm=128 bn=128 bk=128": lambda: x @ w,
    f"flash_attention {ATTENTION}": attention,
    f"flash_attention_dq {ATTENTION}": attention_dq,
    f"flash_attention_dkv {ATTENTION}": attention_dkv,
    f"linear_attention batch=1 heads={HEADS} len={LENGTH} dk={DIM} dv={DIM}": linear_attention,
    "quantised_matmul m=2048 n=2048 k=2048": quantised,
    "grouped_matmul m=2048 n=1024 k=1024 groups=8": grouped,
    "cross_entropy m=2048 n=8192 k=512": cross_entropy,
}


def ours(program, run):
    out = subprocess.run([program, "run", *run.split(), "--json", "-"], check=True, capture_output=True, text=True).stdout
    return json.loads(out[out.index("{"):])["seconds"]


def theirs(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main(program, rounds="5"):
    print("| kernel | ours | NumPy | ours / NumPy |\n|---|---|---|---|")
    for run, function in PAIRS.items():
        function()
        times = [(ours(program, run), theirs(function)) for _ in range(int(rounds))]
        a, b = (statistics.median(side) for side in zip(*times))
        print(f"| {run} | {1e3 * a:.0f} ms | {1e3 * b:.0f} ms | {a / b:.2f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
