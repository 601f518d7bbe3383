"""Pages and figures of a report."""
import html
import json
import re
import shutil
import subprocess

import pytest

import tessera
from test_simulate import matrix, twice


@pytest.fixture(scope="module")
def report():
    with tessera.simulate() as ran:
        twice(matrix())
        twice(matrix(rows=64))
    return ran


def test_notebook_shows_the_table(report):
    shown = report._repr_html_()
    assert shown.count("<tr>") == 3 and "scale_kernel" in shown
    assert f"{report.calls[1].traffic['hbm_read_bytes']:,}" in shown


def test_page_of_a_call_holds_its_run(report, tmp_path):
    report.calls[1].save_html(tmp_path / "call.html")
    page = (tmp_path / "call.html").read_text()
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)[1]
    assert json.loads(data)["run"] == report.calls[1].json


def test_page_of_all_calls(report, tmp_path):
    report.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    inner = [html.unescape(p) for p in re.findall(r'srcdoc="([^"]*)"', page)]
    assert len(inner) == 2 and all("<!doctype html>" in p for p in inner)
    assert "<details open>" not in page
    assert {u for u in re.findall(r"https?://[^\s\"'<)&]+", page)} <= {"http://www.w3.org/2000/svg"}


def test_page_opens(report, tmp_path):
    chromium = shutil.which("chromium") or pytest.skip("no chromium")
    report.calls[0].save_html(tmp_path / "call.html")
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                           "--virtual-time-budget=4000", "--dump-dom", (tmp_path / "call.html").as_uri()],
                          capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr
    assert re.findall(r"<h2>(.*?)</h2>", done.stdout) == [
        "Traffic by ref", "Cost by source line", "Traffic along the steps", "How often blocks move", "Timeline", "Roofline", "VMEM", "Receipt"]


def test_call_has_a_timeline(report):
    line = report.calls[1].json["timeline"]
    assert line["busy"]["HBM"] > 0 and line["seconds"] > 0
    moved = json.loads(report.calls[1]._finished.page)["traffic"]
    assert sum(sum(ref["bytes"]) for ref in moved) == sum(
        report.calls[1].traffic[way] for way in ("hbm_read_bytes", "hbm_write_bytes"))


def test_roofline(report):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    figure = report.roofline()
    axes = figure.axes[0]
    roof, *points = axes.get_lines()
    assert len(points) == 2
    entry = report.calls[0].json["roofline"]
    assert points[0].get_xdata()[0] == entry["intensity"]
    reached = points[0].get_ydata()[0]
    assert reached == report[0].json["ops"]["flops"] / report[0].predicted_seconds
    assert 0 < reached <= 1.001 * min(entry["peak_flops"], entry["hbm_bytes_per_s"] * entry["intensity"])
    assert max(roof.get_ydata()) == entry["peak_flops"]
