"""Bytes that the TPU compiler's schedules copy, beside those that tessera counts: a table, and what differs.

    TESSERA_TPU_PYTHON=... python predict/tpu_bytes.py TESSERA CALL...

A CALL is the folder of a recorded call, or a kernel with its sizes ("matmul m=1024"). Operand by operand: what the schedule's
copies read from HBM and write to it, and the ledger's padded bytes of the same array. The ledger counts whole native tiles; XLA
gives an array in HBM tiles of at most 8 rows, of fewer where the array has fewer. What that explains to the byte is said with the
rows that either moves. An operand that XLA keeps in VMEM has no copies in the kernel's schedule: its whole array moved before.
Prefetched scalars move once, outside of the ledger's blocks. Exit status: 1 if an operand in HBM differs otherwise.
"""
import json
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


def rows_moved(operand):
    """Rows of all of the array in native tiles, and in XLA's."""
    if len(operand["shape"]) < 2:
        return 1, 1
    bits = int("".join(c for c in operand["type"].split("e")[0].removeprefix("bf") if c.isdigit()))  # f32, bf16, s8, f8e4m3fn
    rows, packed = operand["shape"][-2], max(1, 32 // bits)
    tile = packed
    while tile < 8 and tile < rows:
        tile *= 2
    return tuple(-(-rows // t) * t for t in (8 * packed, tile))


def explained(operand, found, wanted):
    """"8 rows as 2", or "" if tiles of fewer rows do not explain what the two differ by."""
    native, own = rows_moved(operand)
    same = all(f * native == w * own for f, w in zip(found, wanted))
    return f"{native} rows as {own}" if same else ""


def main(tessera, *calls, device="tpu-v5e"):
    equal = tiles = differ = 0
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
        ledger = by_array(report["traffic"])
        notes, wrong = [], False
        for o in blocks:
            found, wanted = (o["read_bytes"], o["write_bytes"]), ledger.get(o["name"], (0, 0))
            if found == wanted:
                continue
            why = explained(o, found, wanted)
            wrong |= not why
            notes.append(f"{o['name']}: {wanted[0]:,} read, {wanted[1]:,} written" + (f" ({why})" if why else ", not explained"))
        equal, tiles, differ = equal + (not notes), tiles + bool(notes and not wrong), differ + wrong
        reads, writes = (sum(o[k] for o in blocks) for k in ("read_bytes", "write_bytes"))
        print(f"| {name} | {len(blocks)} | {reads:,} | {writes:,} | {'; '.join(notes) or 'equal'} | {', '.join(others)} |")
    print(f"\n{equal} equal, {tiles} but for tiles of fewer rows, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
