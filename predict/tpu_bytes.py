"""Bytes that the TPU compiler's schedules copy, beside those that tessera counts: a table, and what differs.

    TESSERA_TPU_PYTHON=... python predict/tpu_bytes.py TESSERA CALL...

A CALL is the folder of a recorded call, or a kernel with its sizes ("matmul m=1024"). Operand by operand: what the schedule's
copies read from HBM and write to it, and the ledger's padded bytes of the same array. An operand that XLA keeps in VMEM has no
copies in the kernel's schedule: its whole array moved before. Prefetched scalars move once, outside of the ledger's blocks. Exit
status: 1 if an operand in HBM differs.
"""
import json
import pathlib
import subprocess
import sys


def run(tessera, call, device):
    done = subprocess.run([tessera, "run", *call.split(), "--device", device, "--timing", "compiler", "--no-check", "--json", "-"],
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


def by_owner(call, moved):
    """The same where an output's array is an input's: all under the output's name, as sums."""
    meta = pathlib.Path(call) / "meta.json"
    for alias in json.loads(meta.read_text())["custom_call"]["aliases"] if meta.exists() else []:
        pair = [moved.pop(name) for name in (f"in{alias['operand']}", f"out{alias['result']}") if name in moved]
        if pair:
            moved[f"out{alias['result']}"] = (sum(map(sum, pair)),)
    return moved


def main(tessera, *calls, device="tpu-v5e"):
    equal = differ = 0
    print("| call | operands in HBM | read | written | ledger | in VMEM |\n|---|---:|---:|---:|---|---|")
    for call in calls:
        report = run(tessera, call, device)
        name = call.rstrip("/").split("/")[-1]
        schedule = report.get("compiled_schedule")
        if schedule is None:
            print(f"| {name} | | | | {(report.get('timeline') or {}).get('unmodelled', 'no schedule')} | |")
            continue
        blocks = [o for o in schedule["operands"] if o["space"] == "hbm" and o["name"]]
        others = [o["name"] for o in schedule["operands"] if o["space"] != "hbm" and o["name"]]
        found = by_owner(call, {o["name"]: (o["read_bytes"], o["write_bytes"]) for o in blocks})
        ledger = by_owner(call, by_array(report["traffic"]))
        notes = [f"{name}: {' read, '.join(f'{n:,}' for n in ledger.get(name, (0, 0)))} written" for name, bytes_ in found.items()
                 if ledger.get(name, (0, 0)) != bytes_]
        equal, differ = equal + (not notes), differ + bool(notes)
        reads, writes = (sum(o[k] for o in blocks) for k in ("read_bytes", "write_bytes"))
        print(f"| {name} | {len(blocks)} | {reads:,} | {writes:,} | {'; '.join(notes) or 'equal'} | {', '.join(others)} |")
    print(f"\n{equal} equal, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
