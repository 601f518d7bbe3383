"""Bytes that the TPU compiler's schedules copy, beside those that tessera counts: a table, and what differs.

    TESSERA_TPU_PYTHON=... python predict/tpu_bytes.py TESSERA FOLDER...      # folders of recorded calls

Of every call: operand by operand, what the schedule's copies read from HBM and write to it, and the ledger's padded bytes of
the same array. An operand that XLA keeps in VMEM has no copies in the kernel's schedule: its whole array moved before. Prefetched
scalars move once, outside of the ledger's blocks. Exit status: 1 if an operand in HBM differs.
"""
import json
import subprocess
import sys


def run(tessera, folder, device):
    done = subprocess.run([tessera, "run", folder, "--device", device, "--timing", "compiler", "--no-check", "--json", "-"],
                          capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"timeline": {"unmodelled": done.stderr.strip().split("\n")[0]}}


def by_array(traffic):
    """Of the ledger: (reads, writes) by array."""
    sums = {}
    for ref in traffic["refs"]:
        reads, writes = sums.get(ref["name"], (0, 0))
        bytes_ = ref["padded_bytes"]
        sums[ref["name"]] = (reads + bytes_, writes) if ref["direction"] == "in" else (reads, writes + bytes_)
    return sums


def main(tessera, *folders, device="tpu-v5e"):
    equal = differ = 0
    print("| call | operands in HBM | read | written | ledger | in VMEM |\n|---|---:|---:|---:|---|---|")
    for folder in folders:
        report = run(tessera, folder, device)
        name = folder.rstrip("/").split("/")[-1]
        schedule = report.get("compiled_schedule")
        if schedule is None:
            print(f"| {name} | | | | {(report.get('timeline') or {}).get('unmodelled', 'no schedule')} | |")
            continue
        blocks = [o for o in schedule["operands"] if o["space"] == "hbm" and o["name"]]
        others = [o["name"] for o in schedule["operands"] if o["space"] != "hbm" and o["name"]]
        ledger = by_array(report["traffic"])
        pairs = [(o["name"], (o["read_bytes"], o["write_bytes"]), ledger.get(o["name"], (0, 0))) for o in blocks]
        wrong = [f"{ref}: {wanted[0]:,} read, {wanted[1]:,} written" for ref, found, wanted in pairs if found != wanted]
        equal, differ = equal + (not wrong), differ + bool(wrong)
        reads, writes = (sum(found[k] for _, found, _ in pairs) for k in (0, 1))
        print(f"| {name} | {len(blocks)} | {reads:,} | {writes:,} | {'; '.join(wrong) or 'equal'} | {', '.join(others)} |")
    print(f"\n{equal} equal, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
