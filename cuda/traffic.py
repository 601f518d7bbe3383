"""The ledger against the hardware's counters: the table of cuda/TRAFFIC.md.

    python3 cuda/traffic.py build/release/cli/tessera

Runs each kernel once under Nsight Compute (ncu) and sets the bytes that SMs read from L2 and those
that DRAM read beside what tessera counts as HBM to VMEM. `rest` is what L2 gave beyond that and the
32 bytes of each cell's draw from the counter: constants, scalars, spilled registers. Exits with 1 if
a kernel whose reads all come through pipelined inputs has a rest of 0.1 % or more. Needs the right
to read counters (root, or NVreg_RestrictProfilingToAdminUsers=0).
"""
import json
import re
import subprocess
import sys
import tempfile

L2_TO_SM = "l1tex__m_xbar2l1tex_read_bytes.sum"
DRAM_READ = "dram__bytes_read.sum"

DRAW_BYTES = 32

# The second column: do all reads come through pipelined inputs? Scalars are read by sector and CTA.
RUNS = [
    ("add_vectors n=16777216 bn=8192", True),
    ("softmax_rows m=16384 n=1024 bm=16 bn=1024", True),
    ("matmul m=2048 n=2048 k=2048 bm=128 bn=128 bk=32", True),
    ("matmul m=2048 n=2048 k=2048 bm=128 bn=256 bk=64 --dtype bf16", True),
    ("matmul_relu m=2048 n=2048 k=2048 bm=128 bn=128 bk=128", True),
    ("grad_w m=2048 n=1024 k=2048 bm=64 bn=128 bk=128", True),
    ("grad_x m=2048 n=1024 k=2048 bm=128 bn=128 bk=128 --dtype bf16", True),
    ("matmul_layernorm_gelu m=2048 n=256 k=2048 bm=128 bn=256 bk=64 --dtype bf16", False),
    ("dma_matmul m=2048 n=2048 k=2048 bm=128 bn=128 bk=64", False),
    ("dma_matmul m=2048 n=2048 k=2048 bm=128 bn=256 bk=64 --dtype bf16", False),
    ("pipelined_add rows=4096 cols=4096 br=64 bc=128 buffers=2", False),
    ("grouped_matmul m=2048 n=1024 k=1024 groups=8 bm=128 bn=256 bk=64 --dtype bf16", False),
    ("flash_attention batch=1 heads=4 kv_heads=4 q_len=2048 kv_len=2048 head_dim=128 causal=1 "
     "bq=128 bk=128 bd=128 --dtype bf16", False),
]


def counted(program, arguments):
    """(the ledger's bytes, those of draws, L2 to SM, DRAM) of one launch."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        printed = subprocess.run(
            ["ncu", "--print-units", "base", "--clock-control", "none", "--metrics",
             f"{L2_TO_SM},{DRAM_READ}", program, "run", *arguments.split(), "--backend", "cuda",
             "--no-check", "--json", report.name], check=True, capture_output=True, text=True)
        run = json.load(open(report.name))
    ledger = run["traffic"]["hbm_read_bytes"]
    cells = int(run["backend"]["launch"].split(" cells")[0].replace(",", ""))
    values = {}
    for line in printed.stdout.splitlines():
        match = re.match(r"\s*(\S+)\s+byte\s+([\d,]+)", line)
        if match:
            values[match[1]] = int(match[2].replace(",", ""))
    return ledger, DRAW_BYTES * cells, values[L2_TO_SM], values[DRAM_READ]


def main():
    program = sys.argv[1]
    agree = True
    print("| kernel, f32 unless said | tessera | draws | L2 to SM | rest | DRAM read |")
    print("|---|---|---|---|---|---|")
    for arguments, pipelined in RUNS:
        ledger, draws, l2, dram = counted(program, arguments)
        rest = l2 - ledger - draws
        agree = agree and (not pipelined or abs(rest) < ledger / 1000)
        name = arguments.replace("--dtype ", "")
        print(f"| {name} | {ledger:,} | {draws:,} | {l2:,} | {rest:,} | {dram:,} |", flush=True)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
