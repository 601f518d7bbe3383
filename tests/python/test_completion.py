"""What `tessera completion` and `tessera man` print, read by the shells themselves: bash always, zsh and fish where they are."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest


@pytest.fixture
def script(tessera, tmp_path):
    def write(shell):
        path = tmp_path / {"bash": "tessera.bash", "zsh": "_tessera", "fish": "tessera.fish"}[shell]
        path.write_text(tessera("completion", shell))
        return path
    return write


def by_bash(script, folder):
    path = script("bash")

    def complete(line):
        done = subprocess.run(["bash", "--norc", "-c", f"source {path}; COMP_LINE=$1; COMP_POINT=${{#1}}; _tessera; printf '%s\\n' \"${{COMPREPLY[@]}}\"", "_", line],
                              cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return set(done.stdout.split("\n")) - {""}
    return complete


def by_fish(script, folder):
    if not shutil.which("fish"):
        pytest.skip("no fish")
    path = script("fish")

    def complete(line):
        done = subprocess.run(["fish", "-N", "-c", f"source {path}; complete -C (string collect -- $argv[1])", line], cwd=folder,
                              capture_output=True, text=True, timeout=60, env={**os.environ, "HOME": str(folder)})
        assert done.returncode == 0 and not done.stderr, done.stderr
        return {re.sub(r"^--[\w-]+=", "", found.split("\t")[0]) for found in done.stdout.splitlines()}
    return complete


def by_zsh(script, folder):
    """On a terminal, as zsh completes nowhere else: Control-D lists what there is."""
    if not shutil.which("zsh"):
        pytest.skip("no zsh")
    script("zsh")

    def complete(line):
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "COLUMNS": "200"})
        printed = ""

        def until(what):
            nonlocal printed
            end = time.monotonic() + 30
            while not re.search(what, printed) and time.monotonic() < end:
                if select.select([terminal], [], [], .2)[0]:
                    printed += os.read(terminal, 65536).decode(errors="replace")
            assert re.search(what, printed), printed

        def send(text):
            nonlocal printed
            printed = ""
            os.write(terminal, text.encode())

        try:
            send("PS1='READ''Y ' LISTMAX=10000; fpath=($PWD $fpath); autoload -U compinit; compinit -u -d ./dump\n")
            until("READY ")
            send("_message() { }; bindkey '^D' list-choices; stty rows 400 columns 200; print SET\n")
            until("\nSET[\\s\\S]*READY ")
            send(line + "\x04\x15echo D''ONE\n")
            until("DONE")
        finally:
            os.write(terminal, b"\x03\nexit\n")
            os.close(terminal)
            os.kill(child, 9)
            os.waitpid(child, 0)
        return set(re.sub(r" +-- .*", "", printed.replace(line, " ")).split())
    return complete


@pytest.fixture(params=[by_bash, by_fish, by_zsh], ids=["bash", "fish", "zsh"])
def complete(request, script, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "kernel.mlirbc").touch()
    return request.param(script, tmp_path)


@pytest.mark.parametrize("line, there, absent", [
    ("tessera ", {"run", "golden", "completion"}, {"make", "matmul", "h100"}),
    ("tessera sw", {"sweep"}, {"run"}),
    ("tessera golden ", {"make", "check", "bisect"}, {"run"}),
    ("tessera run mat", {"matmul", "matmul_relu"}, {"softmax_rows", "h100"}),
    ("tessera run kern", {"kernel.mlirbc"}, {"matmul"}),
    ("tessera golden make softmax", {"softmax_rows"}, {"matmul"}),
    ("tessera run matmul --dev", {"--device", "--devices"}, {"--dry", "h100"}),
    ("tessera golden make matmul --acc", {"--accumulate"}, {"--device"}),
    ("tessera check --sch", {"--schedule"}, {"--device"}),
    ("tessera run matmul --device h", {"h100", "h200"}, {"tpu-v5e"}),
    ("tessera devices tpu-v5", {"tpu-v5e", "tpu-v5p"}, {"h100"}),
    ("tessera run --backend ", {"auto", "cuda", "interpret", "reference"}, {"matmul"}),
    ("tessera compare matmul --backend ", {"cuda", "reference"}, {"auto", "interpret"}),
    ("tessera run matmul --timing ", {"best", "model", "units", "compiler"}, {"matmul"}),
    ("tessera completion ", {"bash", "zsh", "fish"}, {"matmul"}),
])
def test_completes(complete, line, there, absent):
    found = complete(line)
    assert there <= found and not absent & found, found


def test_bash_completes_within_a_word(script, tmp_path):
    complete = by_bash(script, tmp_path)
    assert complete("tessera run matmul --device=h1") == {"h100"}
    assert complete("tessera sweep matmul --device tpu-v5e,h1") == {"tpu-v5e,h100"}
    assert complete("tessera run matmul --schedule ran") == {"random:"}
    assert complete("tessera run matmul --profile mxu:x") == {"x3", "x6"}  # a colon begins a word for bash


def test_every_command_and_flag_is_there(tessera, script, tmp_path):
    complete = by_bash(script, tmp_path)
    manual = tessera("man")
    commands = complete("tessera ")
    assert commands == set(re.findall(r"^  (\w+)  ", tessera("--help"), re.MULTILINE))
    for command in sorted(commands - {"golden", "triton"}):
        told = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", tessera(command, "--help"), re.MULTILINE))
        assert complete(f"tessera {command} --") == told
        page = re.search(rf"^\.SS tessera {command}\b.*?(?=^\.S[SH] )", manual, re.MULTILINE | re.DOTALL)[0]
        assert told - {"--help"} == set(re.findall(r"^\\fB(?:\\-\w, )?(\S+?)\\fR", page.replace("\\-", "-"), re.MULTILINE)) - {
            name for name in re.findall(r"^\\fB(\w[\w.]*)\\fR", page, re.MULTILINE)}


def test_another_shell_is_refused(tessera):
    assert "did you mean 'zsh'" in tessera("completion", "zhs", status=2)


def test_groff_reads_the_manual_page(tessera, tmp_path):
    if not shutil.which("groff"):
        pytest.skip("no groff")
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-c", "-rLL=100n"], input=tessera("man"), capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    text = re.sub(r".\x08|\x1b\[[\d;]*m", "", done.stdout).replace("‐", "-").replace("−", "-")
    assert "--device DEVICE" in text and "tpu-v5e if not given" in text and "NO_COLOR" in text
