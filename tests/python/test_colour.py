"""Colour on a terminal only; NO_COLOR and CLICOLOR_FORCE."""
import os
import pty
import re
import subprocess

import pytest

from conftest import ROOT

WRONG = ("run", "matmul", "bm=100")
RIGHT = ("run", "matmul_relu")
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def run(tessera, tmp_path):
    program = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm"}

    def on_terminal(*words, **variables):
        ours, theirs = pty.openpty()
        child = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=usual | variables, cwd=tmp_path)
        os.close(theirs)
        printed = b""
        try:
            while part := os.read(ours, 65536):
                printed += part
        except OSError:  # the other side is closed
            pass
        child.wait(timeout=60)
        os.close(ours)
        # A line about progress comes and goes.
        return re.sub(r"\r(\x1b\[K|[^\n]*?\r)*", "", printed.decode().replace("\r\n", "\n"))

    def in_pipe(*words, **variables):
        done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=usual | variables, cwd=tmp_path)
        return done.stdout + done.stderr

    on_terminal.pipe = in_pipe
    return on_terminal


def test_a_message_on_a_terminal(run):
    printed = run(*WRONG)
    assert "\x1b[1;31merror[illegal-block-shape]\x1b[0m" in printed
    assert re.search(r"^  \x1b\[36mkernel\x1b\[0m  matmul", printed, re.MULTILINE)


def test_bad_usage_on_a_terminal(run):
    assert "\x1b[1;31merror[unknown-kernel]\x1b[0m" in run("run", "matmull")


def test_a_report_on_a_terminal(run):
    printed = run(*RIGHT)
    assert re.search(r"^\x1b\[36mvalidated  \x1b\[0m\x1b\[32m agrees", printed, re.MULTILINE)
    assert re.search(r"^\x1b\[36mpredicted  \x1b\[0m\x1b\[1m", printed, re.MULTILINE)


@pytest.mark.parametrize("words", [WRONG, RIGHT])
def test_it_is_the_text_of_a_pipe_with_colour(run, words):
    def shown(text):
        return re.sub(r"interpreted in .*", "", ESCAPE.sub("", text)).strip()

    plain, coloured = run.pipe(*words), run.pipe(*words, CLICOLOR_FORCE="1")
    assert ESCAPE.search(coloured) and not ESCAPE.search(plain)
    assert shown(coloured) == shown(plain)


@pytest.mark.parametrize("words", [WRONG, RIGHT, ("run", "matmull")])
@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}])
def test_no_colour_where_none_is_wanted(run, words, variables):
    assert not ESCAPE.search(run(*words, **variables))
    assert not ESCAPE.search(run.pipe(*words)) and not ESCAPE.search(run.pipe(*words, CLICOLOR_FORCE="0"))


def test_json_has_none(run):
    done = run.pipe("run", "matmul_relu", "--json", "-", CLICOLOR_FORCE="1")
    assert not ESCAPE.search(done[:done.rindex("}")]) and done.startswith("{")
