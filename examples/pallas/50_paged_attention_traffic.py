"""How much memory traffic does a decoding step cost? JAX's paged attention on a TPU that nobody has to own."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

import tessera

BATCH, Q_HEADS, KV_HEADS, DIM, PAGE, PAGES = 4, 16, 4, 128, 16, 64
rng = np.random.default_rng(0)
q = jnp.asarray(rng.normal(size=(BATCH, Q_HEADS, DIM)), jnp.bfloat16)
k, v = (jnp.asarray(rng.normal(size=(KV_HEADS, BATCH * PAGES, PAGE, DIM)), jnp.bfloat16) for _ in range(2))
lengths = jnp.asarray([1000, 300, 17, 640], jnp.int32)
pages = jnp.asarray(rng.permutation(BATCH * PAGES).reshape(BATCH, PAGES), jnp.int32)

token = KV_HEADS * 2 * DIM * 2  # bytes of k and v, bf16
print(f"keys and values of {int(lengths.sum()):,} tokens: {int(lengths.sum()) * token:,} bytes")
for block in (4, 8, 32):
    with tessera.simulate(device="tpu-v5e", schedule="on_wait") as report:
        jax.jit(functools.partial(paged_attention, pages_per_compute_block=block))(q, k, v, lengths, pages)
    tokens = int((-(-lengths // (block * PAGE)) * block * PAGE).sum())  # whole blocks of pages come
    vmem = report.calls[0].json["memory"]["vmem_peak_bytes"]
    print(f"{block:2} pages a block: {report.hbm_read_bytes:,} bytes read ({tokens:,} tokens), "
          f"{report.hbm_read_bytes / 819e9 * 1e6:.1f} us at 819 GB/s, {vmem / 1024:.0f} KiB of VMEM")

# expected output
# keys and values of 1,957 tokens: 4,007,936 bytes
#  4 pages a block: 4,228,120 bytes read (2,048 tokens), 5.2 us at 819 GB/s, 80 KiB of VMEM
#  8 pages a block: 4,490,264 bytes read (2,176 tokens), 5.5 us at 819 GB/s, 144 KiB of VMEM
# 32 pages a block: 6,325,272 bytes read (3,072 tokens), 7.7 us at 819 GB/s, 528 KiB of VMEM
