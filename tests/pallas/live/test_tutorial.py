"""docs/tutorial_pallas.md: its programs, run in order, print what stands below them."""
import contextlib
import io
import os
import pathlib
import re

from test_diagnostics_pages import changed, without_replay

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/tutorial_pallas.md"


def test_what_the_programs_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = re.findall(r"^```(python|diff|text)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names, first, printed, shown = {}, None, "", 0
    for kind, text in parts:
        if kind == "text" and os.environ.get("TESSERA_BLESS"):
            PAGE.write_text(PAGE.read_text().replace(f"```text\n{text}", f"```text\n{printed}\n", 1))
        elif kind == "text":
            assert text.strip() == printed
            shown += 1
        else:
            first = first or text
            program = changed(first, text) if kind == "diff" else text
            file = tmp_path / ("kernel.py" if kind == "diff" or not names else "run.py")
            file.write_text(program)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(program, str(file), "exec"), names)
            printed = without_replay(out.getvalue().replace(f"{tmp_path}/", ""))
    assert os.environ.get("TESSERA_BLESS") or shown == 4
