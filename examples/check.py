"""usage: check.py EXAMPLE: it prints what its end says. TESSERA_BLESS=1 writes what it printed there instead."""
import difflib
import os
import pathlib
import subprocess
import sys

MARK = "# expected output\n"


def check(example):
    text = example.read_text()
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=300, check=False,
                          cwd=example.parents[2])
    if done.returncode:
        return done.stdout + done.stderr
    head, expected = text.split(MARK)
    wanted = "".join(line.removeprefix("#").removeprefix(" ") for line in expected.splitlines(True))
    if os.environ.get("TESSERA_BLESS"):
        example.write_text(head + MARK + "".join(f"# {line}".replace("# \n", "#\n") for line in done.stdout.splitlines(True)))
        return ""
    return "".join(difflib.unified_diff(wanted.splitlines(True), done.stdout.splitlines(True), "expected", "printed"))


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()) or 0)
