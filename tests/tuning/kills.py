"""Processes that tune into one cache, killed at random: no entry is lost or torn, nobody waits for ever.

usage: kills.py TESSERA [PROCESSES KILLS SEED]

What the cache shall hold comes from tuning alone, once, into a cache of its own. A reader beside the tuners then sees
the cache grow: what was there once must be there at the end, as it was.
"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

SUBJECTS = [["m=512", "n=512", "k=512"], ["m=1024", "n=512", "k=512"], ["m=4096", "n=4096", "k=4096"]]
TILES = ["bm=32,64,128,256,512", "bn=128,256,384,512", "bk=128,256,512,1024"]
CANDIDATES = 5 * 4 * 4
PATIENCE = 300  # seconds for a tuner that nobody kills, on a machine with other work


def tuner(tessera, cache, sizes):
    return subprocess.Popen([tessera, "tune", "matmul", *sizes, *TILES, "--timing", "model", "--threads", "1", "--cache", cache],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def rows(cache, table):
    reader = sqlite3.connect(f"file:{cache}?mode=ro", uri=True, timeout=60)
    try:
        return set(reader.execute(f"SELECT * FROM {table}"))
    except sqlite3.OperationalError as error:  # before the first tuner has made it
        if "no such table" in str(error) or "unable to open" in str(error):
            return set()
        raise
    finally:
        reader.close()


def finish(process):
    try:
        _, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"a tuner does not end within {PATIENCE} s: a deadlock")
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"a tuner ended with {process.returncode}: {errors}")


def main(tessera, processes=4, kills=5, seed=1):
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        alone, shared = os.path.join(folder, "alone.sqlite"), os.path.join(folder, "shared.sqlite")
        start = time.monotonic()
        for sizes in SUBJECTS:
            finish(tuner(tessera, alone, sizes))
        longest = (time.monotonic() - start) / len(SUBJECTS)
        expected = rows(alone, "candidates")
        assert len(expected) == CANDIDATES * len(SUBJECTS), len(expected)

        running, seen, killed, gone = [], set(), 0, 0
        while killed < kills:
            while len(running) < processes:
                running.append(tuner(tessera, shared, draw.choice(SUBJECTS)))
            time.sleep(draw.random() * min(longest, 0.2))
            seen |= rows(shared, "candidates")
            victim = running.pop(draw.randrange(len(running)))
            at_work = victim.poll() is None
            victim.kill()
            finish(victim)
            killed += at_work
            gone += not at_work
            if len(seen) >= len(expected):  # all is known: what is killed has to have work
                for process in running:
                    process.kill()
                    finish(process)
                running = []
                check(shared, seen, expected)
                for suffix in ("", "-wal", "-shm"):
                    if os.path.exists(shared + suffix):
                        os.remove(shared + suffix)
                seen = set()
        for process in running:
            finish(process)
        for sizes in SUBJECTS:
            finish(tuner(tessera, shared, sizes))
        check(shared, seen, expected)
        assert rows(shared, "candidates") == expected
        chosen, alone = rows(shared, "choices"), rows(alone, "choices")
        assert chosen == alone, chosen ^ alone
    print(f"{processes} tuners, {killed} killed at work, {gone} done before: nothing lost or torn")


def check(cache, seen, expected):
    reader = sqlite3.connect(cache, timeout=60)
    assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    reader.close()
    there = rows(cache, "candidates")
    assert seen <= there, f"lost: {seen - there}"
    assert there <= expected, f"torn: {there - expected}"


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
