"""The command `tessera` of an installed package: the program beside its compiled modules."""
import os
import shutil
import sys


def path():
    """Of the program: what TESSERA names, the package's own, or one on PATH; None if there is none."""
    named = os.environ.get("TESSERA") or _own() or shutil.which("tessera")
    return named if named and os.path.exists(named) else None


def _own():
    import tessera

    for folder in tessera.__path__:
        if os.path.isfile(os.path.join(folder, "tessera")):
            return os.path.join(folder, "tessera")
    return None


def main():
    program = _own()
    if program is None and sys.argv[1:2] == ["triton"]:
        from tessera.__main__ import main as of_python

        sys.exit(of_python(sys.argv[1:]))
    if program is None:
        sys.exit("tessera: this package was installed from sources, without the program: ./tessera of the source tree builds it, "
                 "scripts/wheel a package with it")
    os.environ.setdefault("TESSERA_PYTHON", sys.executable)
    os.execv(program, ["tessera", *sys.argv[1:]])
