"""A report answers what the device would take, first; it is a sequence; its JSON has the published schema."""
import ast
import pathlib
import re
import sys

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from run_schema import complaints  # noqa: E402


def scaled(x, shift=0, rows=8):
    def scale_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // rows,),
                          in_specs=[pl.BlockSpec((rows, 128), lambda i: (i + shift, 0))],
                          out_specs=pl.BlockSpec((rows, 128), lambda i: (i, 0)))(x)


def ones(rows=16):
    return np.ones((rows, 128), np.float32)


def run(*rows, **settings):
    with tessera.simulate(**settings) as report:
        for each in rows:
            scaled(ones(each))
    return report


def test_the_predicted_time_comes_first_and_the_simulators_own_last():
    report = run(16)
    first, head, row = str(report).splitlines()
    assert re.fullmatch(r"1 call on tpu-v5e: predicted \d+\.\d us", first)
    assert re.split(r"  +", head.strip()) == ["kernel", "grid", "calls", "predicted", "bound by", "HBM read", "HBM written", "remote",
                                              "VMEM", "undefined", "simulated in"]
    cells = re.split(r"  +", row.strip())
    assert cells[:3] == ["scale_kernel", "2", "1"] and cells[3] == first.split("predicted ")[1]
    assert cells[4] == report[0].binds == report[0].json["timeline"]["binds"] and cells[5:7] == ["8,192", "8,192"]
    assert report._repr_html_().startswith(f"<p>{first}</p>")
    assert repr(report) == f"<Report: {first}>" and repr(report[0]).startswith("<Call scale_kernel, predicted ")


def test_alike_calls_are_a_row_and_others_are_not():
    report = run(16, 16, 32, 16)
    _, _, three, one = str(report).splitlines()
    assert re.match(r"scale_kernel +2 +3 ", three) and re.match(r"scale_kernel +4 +1 ", one)
    assert " 24,576 " in three
    assert report.predicted_seconds == sum(call.predicted_seconds for call in report)


def test_pages_have_one_of_calls_that_are_alike(tmp_path):
    run(16, 16, 32).save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<iframe") == 2 and "the first of 2 alike" in page


def test_a_report_is_a_sequence():
    report = run(16, 32)
    assert len(report) == 2 and report[-1] is report.calls[1] and list(report) == report.calls
    assert [record["steps"] for record in report.records()] == [2, 4]
    assert report.records()[1]["predicted_seconds"] == report[1].json["timeline"]["seconds"]


def test_data_frames_ask_for_pandas():
    report = run(16)
    try:
        import pandas  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="pip install pandas"):
            report.to_dataframe()
    else:
        assert list(report.to_dataframe()["kernel"]) == ["scale_kernel"]


def test_json_is_as_the_schema_says():
    for report in (run(16), run(16, dry=True), run(16, device="tpu-v4")):
        assert complaints(report[0].json) == []
    with tessera.simulate(checks="report") as wrong:
        scaled(ones(), shift=1)
    assert wrong.errors and complaints(wrong[0].json) == []


def test_other_json_is_not():
    def changed(**what):
        return complaints({**run(16)[0].json, **what})

    assert changed(steps="2") == ["run.steps is a str"]
    assert changed(schema="tessera.run/2") == ["run.schema is 'tessera.run/2'"]
    assert changed(weight=1) == ["run.weight is not in the schema"]
    assert changed(memory={}) != []


def test_stubs_name_what_the_package_has():
    stub = ast.parse((ROOT / "python/tessera/__init__.pyi").read_text())
    imported = {name.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert sorted(imported) == tessera.__all__
    places = {name: f"tessera.{place}" for name, place in tessera._PLACES.items()} | dict.fromkeys(tessera._MODULES, "tessera")
    assert places == imported
    assert (ROOT / "python/tessera/py.typed").exists()


def test_the_version_is_one():
    project = re.search(r'^version = "(.*)"', (ROOT / "python/pyproject.toml").read_text(), re.MULTILINE)[1]
    program = re.search(r"project\(tessera VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert tessera.__version__ == project == program
    assert f"## {project}" in (ROOT / "CHANGELOG.md").read_text()
