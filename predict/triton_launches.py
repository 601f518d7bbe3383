"""Launches of 15 Triton kernels at real sizes, drawn by seed: what predict/triton_accuracy.py measures on a GPU, and predicts anywhere."""
import random

import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def swiglu(a, b, o, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    i = tl.arange(0, BLOCK)
    m = i < columns
    x = tl.load(a + row + i, mask=m, other=0).to(tl.float32)
    y = tl.load(b + row + i, mask=m, other=0)
    tl.store(o + row + i, (x * tl.sigmoid(x)).to(y.dtype) * y, mask=m)


@triton.jit
def softmax(x, o, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    j = tl.arange(0, BLOCK)
    m = j < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = row.to(tl.int64) * columns
        v = tl.load(x + at + j, mask=m, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + at + j, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=m)


@triton.jit
def layer_norm(x, w, b, o, mean, rstd, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row.to(tl.int64) * columns
    o += row.to(tl.int64) * columns
    acc = tl.zeros([BLOCK], tl.float32)
    for off in range(0, columns, BLOCK):
        j = off + tl.arange(0, BLOCK)
        acc += tl.load(x + j, mask=j < columns, other=0.).to(tl.float32)
    mu = tl.sum(acc, 0) / columns
    acc = tl.zeros([BLOCK], tl.float32)
    for off in range(0, columns, BLOCK):
        j = off + tl.arange(0, BLOCK)
        v = tl.load(x + j, mask=j < columns, other=0.).to(tl.float32)
        v = tl.where(j < columns, v - mu, 0.)
        acc += v * v
    r = 1 / tl.sqrt(tl.sum(acc, 0) / columns + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)
    for off in range(0, columns, BLOCK):
        j = off + tl.arange(0, BLOCK)
        m = j < columns
        v = tl.load(x + j, mask=m, other=0.).to(tl.float32)
        y = (v - mu) * r * tl.load(w + j, mask=m).to(tl.float32) + tl.load(b + j, mask=m).to(tl.float32)
        tl.store(o + j, y.to(o.dtype.element_ty), mask=m)


@triton.jit
def rms_norm(x, w, o, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    j = tl.arange(0, BLOCK)
    m = j < columns
    v = tl.load(x + row + j, mask=m, other=0.).to(tl.float32)
    r = tl.rsqrt(tl.sum(v * v, 0) / columns + eps)
    y = v * r * tl.load(w + j, mask=m, other=0.).to(tl.float32)
    tl.store(o + row + j, y.to(o.dtype.element_ty), mask=m)


@triton.jit
def cross_entropy(x, target, loss, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row.to(tl.int64) * columns
    y = tl.load(target + row)
    top = -float("inf")
    total = 0.0
    for off in range(0, columns, BLOCK):
        j = off + tl.arange(0, BLOCK)
        v = tl.load(x + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    tl.store(loss + row, top + tl.log(total) - tl.load(x + y).to(tl.float32))
    for off in range(0, columns, BLOCK):
        j = off + tl.arange(0, BLOCK)
        v = tl.load(x + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - top) / total
        tl.store(x + j, tl.where(j == y, p - 1, p).to(x.dtype.element_ty), mask=j < columns)


@triton.jit
def rope(q, cos, sin, heads, L, D: tl.constexpr, HB: tl.constexpr):
    token = tl.program_id(0)
    h = tl.arange(0, HB)
    d = tl.arange(0, D // 2)
    c = tl.load(cos + (token % L) * (D // 2) + d).to(tl.float32)[None, :]
    s = tl.load(sin + (token % L) * (D // 2) + d).to(tl.float32)[None, :]
    at = q + token.to(tl.int64) * heads * D + h[:, None] * D + d[None, :]
    m = (h < heads)[:, None]
    a = tl.load(at, mask=m, other=0.).to(tl.float32)
    b = tl.load(at + D // 2, mask=m, other=0.).to(tl.float32)
    tl.store(at, (a * c - b * s).to(q.dtype.element_ty), mask=m)
    tl.store(at + D // 2, (b * c + a * s).to(q.dtype.element_ty), mask=m)


@triton.jit
def transpose(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    s = tl.program_id(1) * BN + tl.arange(0, BN)
    m = (r < M)[:, None] & (s < N)[None, :]
    v = tl.load(x + r[:, None].to(tl.int64) * N + s[None, :], mask=m)
    tl.store(o + s[:, None].to(tl.int64) * M + r[None, :], tl.trans(v), mask=tl.trans(m))


@triton.jit
def embedding(index, table, o, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(index + row)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = j < D
    tl.store(o + row.to(tl.int64) * D + j, tl.load(table + at * D + j, mask=m), mask=m)


@triton.jit
def column_sums(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    s = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(0, M, BM):
        r = i + tl.arange(0, BM)
        m = (r < M)[:, None] & (s < N)[None, :]
        acc += tl.load(x + r[:, None].to(tl.int64) * N + s[None, :], mask=m, other=0.).to(tl.float32)
    tl.store(o + s, tl.sum(acc, 0), mask=s < N)


@triton.jit
def matmul(a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    in_group = GROUP * num_n
    first = (pid // in_group) * GROUP
    size = min(num_m - first, GROUP)
    pm = first + ((pid % in_group) % size)
    pn = (pid % in_group) // size
    r = (pm * BM + tl.arange(0, BM)) % M
    s = (pn * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    ap = a + r[:, None] * am + k[None, :] * ak
    bp = b + k[:, None] * bk + s[None, :] * bn
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bp, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * ak
        bp += BK * bk
    r = pm * BM + tl.arange(0, BM)
    s = pn * BN + tl.arange(0, BN)
    tl.store(c + cm * r[:, None] + cn * s[None, :], acc.to(c.dtype.element_ty), mask=(r[:, None] < M) & (s[None, :] < N))


@triton.jit
def attention(q, k, v, o, L, scale, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * L * D
    start = tl.program_id(0) * BQ
    r = start + tl.arange(0, BQ)
    d = tl.arange(0, D)
    x = tl.load(q + base + r[:, None] * D + d[None, :])
    top = tl.full((BQ,), float("-inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    end = L
    if CAUSAL:
        end = start + BQ
    for j in range(0, end, BK):
        s = j + tl.arange(0, BK)
        kt = tl.load(k + base + s[None, :] * D + d[:, None])
        z = tl.dot(x, kt) * scale
        if CAUSAL:
            z = tl.where(r[:, None] >= s[None, :], z, float("-inf"))
        new = tl.maximum(top, tl.max(z, 1))
        p = tl.exp2(z - new[:, None])
        f = tl.exp2(top - new)
        total = total * f + tl.sum(p, 1)
        acc = acc * f[:, None]
        y = tl.load(v + base + s[:, None] * D + d[None, :])
        acc = tl.dot(p.to(y.dtype), y, acc)
        top = new
    tl.store(o + base + r[:, None] * D + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def attention_dkv(q, k, v, g, m, delta, dk, dv, L, scale, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * L * D
    rows = tl.program_id(1).to(tl.int64) * L
    s = tl.program_id(0) * BK + tl.arange(0, BK)
    d = tl.arange(0, D)
    x = tl.load(k + base + s[:, None] * D + d[None, :])
    y = tl.load(v + base + s[:, None] * D + d[None, :])
    ak = tl.zeros((BK, D), tl.float32)
    av = tl.zeros((BK, D), tl.float32)
    for j in range(0, L, BQ):
        r = j + tl.arange(0, BQ)
        qt = tl.load(q + base + r[None, :] * D + d[:, None])
        p = tl.exp2(tl.dot(x, qt) * scale - tl.load(m + rows + r)[None, :])
        go = tl.load(g + base + r[:, None] * D + d[None, :])
        av = tl.dot(p.to(go.dtype), go, av)
        dp = tl.dot(y, tl.trans(go)) - tl.load(delta + rows + r)[None, :]
        ak = tl.dot((p * dp).to(go.dtype), tl.trans(qt), ak)
    tl.store(dk + base + s[:, None] * D + d[None, :], ak.to(dk.dtype.element_ty))
    tl.store(dv + base + s[:, None] * D + d[None, :], av.to(dv.dtype.element_ty))


@triton.jit
def linear_lse(x, w, out, V, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    k = tl.arange(0, BK)
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for j in range(0, V, BN):
        s = j + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(0, K, BK):
            a = tl.load(x + r[:, None].to(tl.int64) * K + (i + k)[None, :])
            b = tl.load(w + s[None, :].to(tl.int64) * K + (i + k)[:, None])
            acc = tl.dot(a, b, acc)
        new = tl.maximum(top, tl.max(acc, 1))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(acc - new[:, None]), 1)
        top = new
    tl.store(out + r, top + tl.log(total))


@triton.jit
def grouped(a, b, c, group, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e = tl.load(group + tl.program_id(0))
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    s = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ap = a + r[:, None].to(tl.int64) * K + k[None, :]
    bp = b + e * N * K + k[:, None] * N + s[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(ap), tl.load(bp), acc)
        ap += BK
        bp += BK * N
    tl.store(c + r[:, None].to(tl.int64) * N + s[None, :], acc.to(c.dtype.element_ty))


def _log(r, least, most, multiple=1):
    return max(multiple, int(least * (most / least) ** r.random()) // multiple * multiple)


def _power(n):
    return triton.next_power_of_2(n)


MATMUL_CONFIGS = [(bm, bn, bk, w, s) for bm in (32, 64, 128) for bn in (32, 64, 128, 256) for bk in (32, 64, 128) for w in (4, 8) for s in (2, 3, 4)
                  if (bm * bk + bk * bn) * 2 * s <= 220000 and bm * bn <= 128 * 256 and bm * bn >= 32 * 64 and not (bm * bn >= 128 * 256 and w == 4)]
ATTENTION_CONFIGS = [(bq, bk, w, s) for bq in (64, 128) for bk in (32, 64, 128) for w in (4, 8) for s in (2, 3) if not (bq == 64 and w == 8)]

def draw(seed):
    """(kernel, settings) of each."""
    r = random.Random(seed)
    out = []

    def rows():
        c = _log(r, 256, 16384, r.choice((1, 8, 128)))
        return dict(rows=max(1, _log(r, 2 << 20, 256 << 20) // c), columns=c, dtype=r.choice(("f32", "bf16")), warps=r.choice((4, 8)))

    for _ in range(2):
        out.append(("add", dict(n=_log(r, 1 << 20, 256 << 20), dtype=r.choice(("f32", "bf16")), BLOCK=r.choice((256, 1024, 4096)), warps=4)))
        out.append(("swiglu", rows()))
        out.append(("softmax", rows() | dict(STAGES=r.choice((1, 2, 4)), per_sm=r.choice((1, 2, 4)))))
        out.append(("layer_norm", rows() | dict(BLOCK=r.choice((512, 1024, 2048)))))
        out.append(("rms_norm", rows()))
        out.append(("cross_entropy", dict(rows=_log(r, 256, 16384), columns=r.choice((32000, 50257, 128256)), dtype=r.choice(("f32", "bf16")), BLOCK=r.choice((4096, 8192, 16384)), warps=r.choice((8, 16)))))
        out.append(("rope", dict(tokens=_log(r, 2048, 65536), heads=r.choice((8, 16, 32)), L=2048, D=r.choice((64, 128)), dtype="bf16", warps=4)))
        out.append(("transpose", dict(M=_log(r, 1024, 16384, 8), N=_log(r, 1024, 16384, 8), dtype=r.choice(("f32", "bf16")), BM=r.choice((32, 64)), BN=r.choice((32, 64)), warps=4)))
        out.append(("embedding", dict(tokens=_log(r, 2048, 65536), vocabulary=50257, D=_log(r, 512, 8192, 8), dtype=r.choice(("f32", "bf16")), BLOCK=1024, warps=4)))
        out.append(("column_sums", dict(M=_log(r, 1024, 32768), N=_log(r, 1024, 16384, 8), dtype=r.choice(("f32", "bf16")), BM=32, BN=r.choice((32, 64)), warps=4)))
    for _ in range(8):
        bm, bn, bk, w, s = r.choice(MATMUL_CONFIGS)
        out.append(("matmul", dict(M=_log(r, 512, 8192, 64), N=_log(r, 512, 8192, 64), K=_log(r, 512, 8192, 64), dtype=r.choice(("bf16", "bf16", "f16", "f32")), BM=bm, BN=bn, BK=bk, GROUP=r.choice((1, 8)), warps=w, stages=s)))
    for _ in range(5):
        bq, bk, w, s = r.choice(ATTENTION_CONFIGS)
        out.append(("attention", dict(heads=r.choice((16, 32, 64)), L=_log(r, 1024, 8192, 128), D=r.choice((64, 128)), dtype="bf16", BQ=bq, BK=bk, CAUSAL=r.random() < .5, warps=w, stages=s)))
    return out


def sweeps(seed):
    """Of one shape, all its configurations: (name of the sweep, kernel, settings)."""
    r = random.Random(seed + 1000)
    out = []
    M, N, K = (_log(r, 1024, 8192, 128) for _ in range(3))
    for bm, bn, bk, w, s in r.sample(MATMUL_CONFIGS, 16):
        out.append(("matmul", "matmul", dict(M=M, N=N, K=K, dtype="bf16", BM=bm, BN=bn, BK=bk, GROUP=8, warps=w, stages=s)))
    heads, L, D = 32, _log(r, 2048, 8192, 128), 64 if seed % 2 else 128
    for bq, bk, w, s in r.sample(ATTENTION_CONFIGS, 10):
        out.append(("attention", "attention", dict(heads=heads, L=L, D=D, dtype="bf16", BQ=bq, BK=bk, CAUSAL=False, warps=w, stages=s)))
    c = _log(r, 1024, 8192, 8)
    for block in (256, 1024, 4096):
        for w in (2, 8):
            out.append(("layer_norm", "layer_norm", dict(rows=8192, columns=c, dtype="bf16", BLOCK=block, warps=w)))
    return out


def other_sweeps(seed):
    """The same of attentions of several kinds, and of kernels that nothing is fitted to."""
    r = random.Random(seed)
    out = []
    configs = [(bq, bk, w, s) for bq in (64, 128) for bk in (32, 64, 128) for w in (4, 8) for s in (2, 3, 4) if not (bq == 64 and w == 8)]
    for n, (D, causal) in enumerate(((64, False), (64, True), (128, False), (128, True))):
        L = 256 * r.randint(8, 28)
        heads = r.choice((16, 32, 64))
        for bq, bk, w, s in r.sample(configs, 12):
            out.append((f"attention {D}{' causal' if causal else ''}", "attention",
                        dict(heads=heads, L=L, D=D, dtype=r.choice(("bf16", "f16")), BQ=bq, BK=bk, CAUSAL=causal, warps=w, stages=s)))
    L = 256 * r.randint(8, 16)
    D = r.choice((64, 128))
    for bq, bk, w, s in r.sample([(bq, bk, w, s) for bq in (32, 64, 128) for bk in (64, 128) for w in (4, 8) for s in (1, 2, 3) if bq * bk <= 8192 and not (bk == 64 and w == 8)], 12):
        out.append((f"dk, dv {D}", "attention_dkv", dict(heads=16, L=L, D=D, dtype="bf16", BQ=bq, BK=bk, warps=w, stages=s)))
    K = 128 * r.randint(8, 32)
    for bm, bn, bk, w, s in r.sample([(bm, bn, bk, w, s) for bm in (64, 128) for bn in (64, 128, 256) for bk in (32, 64) for w in (4, 8) for s in (2, 3, 4) if not (bm == 64 and w == 8) and not (bm * bn > 16384 and w == 4)], 12):
        out.append(("linear and logsumexp", "linear_lse", dict(M=128 * 132, V=8192, K=K, dtype="bf16", BM=bm, BN=bn, BK=bk, warps=w, stages=s)))
    N, K = 128 * r.randint(8, 40), 128 * r.randint(4, 40)
    for bm, bn, bk, w, s in r.sample([(bm, bn, bk, w, s) for bm in (64, 128) for bn in (64, 128, 256) for bk in (32, 64, 128) for w in (4, 8) for s in (2, 3, 4) if (bm * bk + bk * bn) * 2 * s <= 220000 and not (bm * bn > 16384 and w == 4)], 12):
        out.append(("grouped product", "grouped", dict(M=8192, N=N, K=K, experts=16, dtype="bf16", BM=bm, BN=bn, BK=bk, warps=w, stages=s)))
    return out


def more_sweeps(seed):
    """The same of a softmax by rows and of a second product, of f16."""
    r = random.Random(seed)
    out = []
    R, C = _log(r, 8192, 65536), _log(r, 512, 8192)
    for stages, per_sm, w in r.sample([(stages, per_sm, w) for stages in (1, 2, 4) for per_sm in (1, 2, 4) for w in (2, 4, 8)], 12):
        out.append(("softmax", "softmax", dict(rows=R, columns=C, dtype="bf16", STAGES=stages, per_sm=per_sm, warps=w)))
    M, N, K = (_log(r, 512, 8192, 64) for _ in range(3))
    for bm, bn, bk, w, s in r.sample(MATMUL_CONFIGS, 16):
        out.append(("matmul of f16", "matmul", dict(M=M, N=N, K=K, dtype="f16", BM=bm, BN=bn, BK=bk, GROUP=r.choice((1, 8)), warps=w, stages=s)))
    return out


def row_sweeps(seed):
    """The same of kernels by rows and by columns: what warps and blocks decide."""
    r = random.Random(seed)
    out = []
    R, C = _log(r, 4096, 32768), _log(r, 1024, 16384, 8)
    for block, w in r.sample([(block, w) for block in (256, 512, 1024, 2048, 4096) for w in (1, 2, 4, 8)], 12):
        out.append(("layer norm of more blocks", "layer_norm", dict(rows=R, columns=C, dtype="bf16", BLOCK=block, warps=w)))
    R = _log(r, 2048, 16384)
    C = r.choice((32000, 50257, 128256))
    t = r.choice(("f32", "bf16"))
    for block, w in r.sample([(block, w) for block in (1024, 2048, 4096, 8192) for w in (2, 4, 8, 16)], 12):
        out.append(("cross entropy", "cross_entropy", dict(rows=R, columns=C, dtype=t, BLOCK=block, warps=w)))
    M, N = _log(r, 2048, 32768), _log(r, 2048, 32768, 8)
    for bm, bn, w in r.sample([(bm, bn, w) for bm in (16, 32, 64) for bn in (32, 64, 128) for w in (2, 4, 8) if bm * bn >= 32 * 4 * w], 12):
        out.append(("column sums", "column_sums", dict(M=M, N=N, dtype="bf16", BM=bm, BN=bn, warps=w)))
    return out


def staged_sweeps(seed):
    """The same of softmaxes whose rows may be copied to shared memory turns ahead: loads of four bytes and more."""
    r = random.Random(seed + 3000)
    out = []
    for t in ("bf16", "f32"):
        R, C = _log(r, 8192, 65536), _log(r, 512, 8192, 16 if t == "bf16" else 1)
        for stages, per_sm, w in r.sample([(stages, per_sm, w) for stages in (1, 2, 3, 4) for per_sm in (1, 2, 4) for w in (2, 4, 8)], 16):
            out.append((f"softmax of {t}, staged", "softmax", dict(rows=R, columns=C, dtype=t, STAGES=stages, per_sm=per_sm, warps=w)))
    return out


def all_of(seed):
    """(the sweep that it is of, or "", kernel, settings) of each; of seeds up to 303, 404, 606 and 1127, which were drawn first, without what was written later."""
    return [("", *x) for x in draw(seed)] + sweeps(seed) + (other_sweeps(seed) if seed > 303 else []) + (more_sweeps(seed) if seed > 404 else []) + (row_sweeps(seed) if seed > 606 else []) + (staged_sweeps(seed) if seed > 1127 else [])


def run(kernel, s, make, index, warmup=False):
    """make(shape, "bf16"): a tensor of random numbers; index(n, most): n indices of 64 bits, less than that."""
    go = lambda f, grid, *a, **k: f.warmup(*a, grid=grid, **k) if warmup else f[grid](*a, **k)
    t = s.get("dtype", "bf16")
    w = s["warps"]
    if kernel == "add":
        return go(add, (triton.cdiv(s["n"], s["BLOCK"]),), *(make((s["n"],), t) for _ in range(3)), s["n"], BLOCK=s["BLOCK"], num_warps=w)
    if kernel == "swiglu":
        R, C = s["rows"], s["columns"]
        return go(swiglu, (R,), *(make((R, C), t) for _ in range(3)), C, BLOCK=_power(C), num_warps=w)
    if kernel == "softmax":
        R, C = s["rows"], s["columns"]
        return go(softmax, (min(R, 132 * s["per_sm"]),), make((R, C), t), make((R, C), t), R, C, BLOCK=_power(C), STAGES=s["STAGES"], num_warps=w)
    if kernel == "layer_norm":
        R, C = s["rows"], s["columns"]
        f = "f32"
        return go(layer_norm, (R,), make((R, C), t), make((C,), t), make((C,), t), make((R, C), t), make((R,), f), make((R,), f), C, 1e-5, BLOCK=s["BLOCK"], num_warps=w)
    if kernel == "rms_norm":
        R, C = s["rows"], s["columns"]
        return go(rms_norm, (R,), make((R, C), t), make((C,), t), make((R, C), t), C, 1e-5, BLOCK=_power(C), num_warps=w)
    if kernel == "cross_entropy":
        R, C = s["rows"], s["columns"]
        return go(cross_entropy, (R,), make((R, C), t), index(R, C), make((R,), "f32"), C, BLOCK=s["BLOCK"], num_warps=w)
    if kernel == "rope":
        h, D, L = s["heads"], s["D"], s["L"]
        return go(rope, (s["tokens"],), make((s["tokens"], h, D), t), make((L, D // 2), t), make((L, D // 2), t), h, L, D=D, HB=_power(h), num_warps=w)
    if kernel == "transpose":
        M, N = s["M"], s["N"]
        return go(transpose, (triton.cdiv(M, s["BM"]), triton.cdiv(N, s["BN"])), make((M, N), t), make((N, M), t), M, N, BM=s["BM"], BN=s["BN"], num_warps=w)
    if kernel == "embedding":
        n, D = s["tokens"], s["D"]
        return go(embedding, (n, triton.cdiv(D, s["BLOCK"])), index(n, s["vocabulary"]), make((s["vocabulary"], D), t), make((n, D), t), D, BLOCK=s["BLOCK"], num_warps=w)
    if kernel == "column_sums":
        M, N = s["M"], s["N"]
        return go(column_sums, (triton.cdiv(N, s["BN"]),), make((M, N), t), make((N,), "f32"), M, N, BM=s["BM"], BN=s["BN"], num_warps=w)
    if kernel == "matmul":
        M, N, K = s["M"], s["N"], s["K"]
        return go(matmul, (triton.cdiv(M, s["BM"]) * triton.cdiv(N, s["BN"]),), make((M, K), t), make((K, N), t), make((M, N), t), M, N, K, K, 1, N, 1, N, 1,
                  BM=s["BM"], BN=s["BN"], BK=s["BK"], GROUP=s["GROUP"], num_warps=w, num_stages=s["stages"])
    if kernel == "attention":
        h, L, D = s["heads"], s["L"], s["D"]
        return go(attention, (L // s["BQ"], h), *(make((h, L, D), t) for _ in range(4)), L, D ** -.5 * 1.44269504, D=D, BQ=s["BQ"], BK=s["BK"], CAUSAL=s["CAUSAL"], num_warps=w, num_stages=s["stages"])
    if kernel == "attention_dkv":
        h, L, D = s["heads"], s["L"], s["D"]
        return go(attention_dkv, (L // s["BK"], h), *(make((h, L, D), t) for _ in range(4)), make((h, L), "f32"), make((h, L), "f32"), make((h, L, D), t), make((h, L, D), t),
                  L, D ** -.5 * 1.44269504, D=D, BQ=s["BQ"], BK=s["BK"], num_warps=s["warps"], num_stages=s["stages"])
    if kernel == "linear_lse":
        return go(linear_lse, (s["M"] // s["BM"],), make((s["M"], s["K"]), t), make((s["V"], s["K"]), t), make((s["M"],), "f32"), s["V"], s["K"], BM=s["BM"], BN=s["BN"], BK=s["BK"],
                  num_warps=s["warps"], num_stages=s["stages"])
    if kernel == "grouped":
        return go(grouped, (s["M"] // s["BM"], s["N"] // s["BN"]), make((s["M"], s["K"]), t), make((s["experts"], s["K"], s["N"]), t), make((s["M"], s["N"]), t),
                  index(s["M"] // s["BM"], s["experts"]), s["N"], s["K"], BM=s["BM"], BN=s["BN"], BK=s["BK"], num_warps=s["warps"], num_stages=s["stages"])
    raise ValueError(kernel)
