"""What README tells people to type: commands, flags, devices and kernels that there are."""
import pathlib
import re
import shlex

import pytest

README = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
# Of the script ./tessera, and what hands its words on to Python.
ELSEWHERE = ("test", "install", "bench", "new", "triton")


def told():
    """Commands in blocks, at the beginning of a line, and in `spans`."""
    text = re.sub(r"\s+#.*", "", README)
    found = re.findall(r"^(?:\$ )?(?:\./)?tessera ([a-z].*)$", text, re.MULTILINE) + re.findall(
        r"`(?:\./)?tessera ([a-z][^`]*)`", README.replace("\n", " "))
    return sorted({" ".join(command.split()) for command in found})


COMMANDS = [command for command in told() if command.split()[0] not in ELSEWHERE]


def test_the_readme_tells_enough_to_be_worth_the_test():
    assert len(COMMANDS) > 20


def missing(tessera, command):
    words = shlex.split(re.sub(r"[<>|]\S*", "", command))
    commands = words[:2] if words[0] == "golden" else words[:1]
    told_by_help = tessera(*commands, "--help")
    flags = {word.split("=")[0] for word in words if word.startswith("--")}
    found = [flag for flag in sorted(flags) if not re.search(rf"(?<![\w-]){flag}(?![\w-])", told_by_help)]
    known = re.findall(r"^(\S+)", tessera("devices"), re.MULTILINE)
    named = [name for flag, names in zip(words, words[1:]) if flag == "--device" for name in names.split(",")]
    return found + [name for name in named if name not in known]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_told_is_there(tessera, command):
    assert missing(tessera, command) == []


def test_what_is_not_there_is_found(tessera):
    assert missing(tessera, "run matmul --devices 2 --drie --device h100,h101") == ["--drie", "h101"]
