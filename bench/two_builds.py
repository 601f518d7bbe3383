"""What one build of tessera takes beside another on each recorded call of a folder, in turns, on one thread.

usage: python bench/two_builds.py BEFORE/tessera AFTER/tessera FOLDER [ROUNDS]

The seconds are those that a run reports of itself: without starting, reading and planning. The least of the rounds counts.
Where the machine is used for something else too: chrt -r 1 before the command.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def seconds(program, call, report):
    ran = subprocess.run([program, "run", call, "--threads", "1", "--json", report], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, check=False)
    return ran.returncode, json.loads(pathlib.Path(report).read_text())["seconds"] if ran.returncode in (0, 1) else None


def main():
    before, after, folder = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 9
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        report = f"{scratch}/run.json"
        for call in sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir()):
            turns = [(seconds(before, call, report), seconds(after, call, report)) for _ in range(rounds)]
            codes = {(b[0], a[0]) for b, a in turns}
            if len(codes) > 1 or any(b != a or b > 1 for b, a in codes):
                print(f"{call.name}: exits with {sorted(codes)}: left out")
                continue
            first, second = min(b[1] for b, _ in turns), min(a[1] for _, a in turns)
            rows.append((second / first, first, second, call.name))
    rows.sort()
    print(f"{len(rows)} calls: median {statistics.median(r[0] for r in rows):.3f}, sum {sum(r[2] for r in rows) / sum(r[1] for r in rows):.3f}")
    for ratio, first, second, name in rows[-5:]:
        print(f"{ratio:.2f}  {first * 1e3:8.3f} ms  {second * 1e3:8.3f} ms  {name}")


if __name__ == "__main__":
    main()
