"""--report: a page that needs nothing else, opened in a headless browser."""
import html.parser
import json
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MESHES = sorted(path.stem for path in (ROOT / "kernels").glob("*.hpp")
                if "devices" in path.read_text() and (ROOT / "kernels/entries" / path.name).exists())
RUN = ("run", "matmul", "m=1024", "n=1024", "k=2048", "--dtype", "bf16")


class Sections(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.heads, self.tag, self.labels, self.text = [], None, [], []

    def handle_starttag(self, tag, attributes):
        self.tag = tag
        label = dict(attributes).get("aria-label")
        if label:
            self.labels.append(label)

    def handle_data(self, data):
        if self.tag == "h2":
            self.heads.append(data)
        self.text.append(data)
        self.tag = None


def opened(page):
    """What the page's script makes of it; fails if the script does."""
    if CHROMIUM is None:
        pytest.skip("no chromium")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
         "--virtual-time-budget=4000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    sections = Sections()
    sections.feed(done.stdout)
    return sections


def data_of(page):
    text = page.read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_page_needs_nothing_else(tessera, tmp_path):
    tessera(*RUN, "--report", "page.html")
    text = (tmp_path / "page.html").read_text()
    assert not re.search(r'(src|href)\s*=|@import|url\(|fetch\(', text.split("/*", 1)[0].split('id="data"')[0])
    # The namespace of SVG is a name, not an address that is opened.
    assert {u for u in re.findall(r"https?://[^\s\"'<)]+", text)} <= {"http://www.w3.org/2000/svg"}


def test_pictures_add_up_to_the_ledger(tessera, tmp_path):
    tessera(*RUN, "--report", "page.html")
    data = data_of(tmp_path / "page.html")
    for ref, drawn, heat in zip(data["run"]["traffic"]["refs"], data["traffic"], data["heat"]):
        assert drawn["name"] == heat["name"] == ref["name"]
        assert sum(drawn["bytes"]) == ref["bytes"]
        assert sum(heat["values"]) == ref["transfers"]  # one block to a square here
    assert data["timeline"]["spans"] and data["occupancy"]


@pytest.mark.parametrize("device", ["tpu-v5e", "h200"])
def test_page_opens(tessera, tmp_path, device):
    tessera(*RUN, "--device", device, "--report", "page.html")
    page = opened(tmp_path / "page.html")
    assert [head for head in page.heads if head != "Advice"] == ["Traffic by ref", "Cost by source line", "Traffic along the steps", "How often blocks move", "Timeline",
                          "Roofline", "Shared memory" if device == "h200" else "VMEM", "Receipt"]
    facts = "".join(page.text)
    assert facts.index("predicted time") < facts.index("HBM read")
    # A TPU build names the line that uses a block; published rates know no more than the line that declares it.
    assert re.search(r'kernels/matmul.hpp:\d+  ?' + (r'in<T>\("x"' if device == "h200" else r"\*acc \+= dot\(\*x, \*y\)"), facts)
    assert any(label.startswith("x: blocks fetched") for label in page.labels)
    assert "2,048" in "".join(page.text) or "2048" in "".join(page.text)


def test_page_of_a_mesh_has_its_links(tessera, tmp_path):
    tessera("run", "ring_all_gather", "--devices", "4", "--report", "page.html")
    page = opened(tmp_path / "page.html")
    links = data_of(tmp_path / "page.html")["run"]["traffic"]["links"]
    assert "Between devices" in page.heads and "How often blocks move" not in page.heads
    assert [text for text in page.text if re.fullmatch(r"(device|to) \d", text)] == [
        *(f"to {d}" for d in range(4)), *(f"device {d}" for d in range(4))]
    assert len(links) == 4 and page.text.count(f"{links[0]['remote_bytes'] // 1024} KiB") == 4


def test_page_of_a_wrong_kernel_shows_the_diagnostic(tessera, tmp_path):
    tessera("run", "matmul", "bm=100", "--report", "page.html", status=1)
    page = opened(tmp_path / "page.html")
    assert page.heads[0] == "Diagnostics"
    assert any("illegal-block-shape" in text for text in page.text)


def test_page_of_a_million_steps_is_small(tessera, tmp_path):
    tessera("run", "matmul", "m=16384", "n=16384", "k=8192", "--dtype", "bf16", "--dry", "--report", "page.html")
    page = tmp_path / "page.html"
    assert data_of(page)["run"]["steps"] == 1 << 20
    assert page.stat().st_size < 1_000_000
    assert "Timeline" in opened(page).heads


def test_sweep_compare_advise(tessera, tmp_path):
    text = tessera("sweep", "matmul", "m=1024", "n=1024", "k=1024", "bm=64,128,8192", "bn=128,4096", "bk=128,4096",
                   "--device", "tpu-v5e,h200", "--csv", "sweep.csv", "--json", "sweep.json", "--report", "sweep.html")
    rows = json.loads((tmp_path / "sweep.json").read_text())["rows"]
    assert len(rows) == 24 and text.count("\n") >= 25
    assert any("vmem-capacity" in row.get("reason", "") for row in rows)
    assert len((tmp_path / "sweep.csv").read_text().splitlines()) == 25
    times = [row["predicted_seconds"] for row in rows if "reason" not in row]
    assert times == sorted(times)
    page = opened(tmp_path / "sweep.html")
    assert page.heads == ["Time over traffic", "Combinations", "These do not run"]
    refused = {r["reason"] for r in rows if "reason" in r}
    assert refused <= set(page.text)
    tessera("run", "matmul", "--dry", "--json", "a.json")
    tessera("run", "matmul", "--dry", "bm=256", "--json", "b.json")
    changed = tessera("compare", "a.json", "b.json")
    assert re.search(r"bm +128 -> 256", changed) and "y bytes" in changed
    assert "the same" in tessera("compare", "a.json", "a.json")
    advice = tessera("advise", "matmul", "m=4096", "n=4096", "k=4096", "--dtype", "bf16")
    assert "bound by" in advice and "try " in advice


@pytest.mark.parametrize("size, timing, model", [(4096, "model", "published rates"), (1024, "best", "units of a v5e core")])
def test_page_advises_and_the_advice_holds(tessera, tmp_path, size, timing, model):
    """What a page says of a change is what a run with that change says."""
    shape = ("matmul", f"m={size}", f"n={size}", f"k={size}", "--dtype", "bf16", "--dry", "--timing", timing)
    tessera("run", *shape, "--report", "page.html", "--json", "run.json")
    before = json.loads((tmp_path / "run.json").read_text())
    first = before["advice"][0]
    assert before["timeline"]["model"].startswith(model)
    assert "Advice" in opened(tmp_path / "page.html").heads
    changes = re.findall(r"(b[mnk]) (\d+) -> (\d+)", first)
    assert changes and all(before["kernel"]["params"][name] == int(was) for name, was, _ in changes)
    tessera("run", *shape, *(f"{name}={to}" for name, _, to in changes), "--json", "after.json")
    after = json.loads((tmp_path / "after.json").read_text())
    less = round(100 * (1 - after["rank_seconds"] / before["rank_seconds"]))
    moved = [r["traffic"]["hbm_read_bytes"] + r["traffic"]["hbm_write_bytes"] for r in (before, after)]
    assert f"{less} % less" in first and f"{round(100 * (1 - moved[1] / moved[0]))} % fewer HBM bytes" in first
    assert f'{after["timeline"]["binds"]} binds then' in first
    # Its twin: with that advice taken as often as there is any, none is left.
    for _ in range(8):
        if "advice" not in after:
            break
        changes = {**dict(pair.split("=") for pair in shape[1:4]), **{n: str(after["kernel"]["params"][n]) for n in ("bm", "bn", "bk")},
                   **{name: to for name, _, to in re.findall(r"(b[mnk]) (\d+) -> (\d+)", after["advice"][0])}}
        tessera("run", "matmul", *(f"{n}={v}" for n, v in changes.items()), *shape[4:], "--json", "after.json", "--report", "after.html")
        after = json.loads((tmp_path / "after.json").read_text())
    assert "advice" not in after and "Advice" not in opened(tmp_path / "after.html").heads


def trace_of(path):
    pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    return trace, pb2


class Slices:
    """Of a trace: slices with their track and its parents, flows between them."""

    def __init__(self, path):
        trace, pb2 = trace_of(path)
        self.names, self.parents, self.all, begun, ended, running = {}, {}, [], {}, {}, {}
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                d = packet.track_descriptor
                self.names[d.uuid], self.parents[d.uuid] = d.name, d.parent_uuid
            elif packet.track_event.type == pb2.TrackEvent.TYPE_SLICE_BEGIN:
                event = packet.track_event
                slice = {"name": event.name, "track": self.path(event.track_uuid), "begin": packet.timestamp,
                         **{a.name: a.string_value if a.HasField("string_value") else a.int_value for a in event.debug_annotations}}
                self.all.append(slice)
                running[event.track_uuid] = slice
                begun |= {flow: slice for flow in event.flow_ids}
                ended |= {flow: slice for flow in event.terminating_flow_ids}
            elif packet.track_event.type == pb2.TrackEvent.TYPE_SLICE_END:
                running.pop(packet.track_event.track_uuid)["end"] = packet.timestamp
        assert not running and begun.keys() == ended.keys()
        self.flows = [(begun[flow], ended[flow]) for flow in begun]

    def path(self, uuid):
        return (*(self.path(self.parents[uuid]) if self.parents[uuid] else ()), self.names[uuid])


def test_trace_of_copies_leads_from_starts_to_waits(tessera, tmp_path):
    tessera("run", "dma_matmul", "--trace", "run.pftrace")
    slices = Slices(tmp_path / "run.pftrace")
    waits = [(copy, wait) for copy, wait in slices.flows if wait["name"].startswith("wait")]
    assert len(waits) == 2 * 64  # both operands, each step of the grid
    lines = (ROOT / "kernels/dma_matmul.hpp").read_text().splitlines()
    for copy, wait in waits:
        ref = copy["name"].split(",")[0]
        assert wait["name"].startswith(f"wait for {ref}") and copy["begin"] <= wait["end"] and copy["end"] <= wait["end"]
        for slice, word in ((copy, "start"), (wait, "wait")):
            file, line = slice["line"].split(":")
            assert file == "kernels/dma_matmul.hpp" and re.search(word, lines[int(line) - 1])
        assert copy["bytes"] == 65536


def test_trace_of_a_mesh_has_devices_and_links(tessera, tmp_path):
    tessera("run", "ring_all_gather", "--devices", "4", "--trace", "run.pftrace", "--json", "run.json")
    slices = Slices(tmp_path / "run.pftrace")
    crossed = {}
    for slice in slices.all:
        assert slice["track"][1] in {f"device {d}" for d in range(4)}
        link = re.fullmatch(r"link (\d+) -> (\d+)(?: \d+)?", slice["track"][2])
        if link:
            key = int(link[1]), int(link[2])
            crossed[key] = crossed.get(key, 0) + slice["bytes"]
    ledger = json.loads((tmp_path / "run.json").read_text())["traffic"]["links"]
    assert crossed == {(link["from"], link["to"]): link["remote_bytes"] for link in ledger}
    assert any(slice["name"].startswith("wait for out") for slice in slices.all)


@pytest.mark.parametrize("device", ["tpu-v5e", "h200"])
def test_trace_is_perfettos(tessera, tmp_path, device):
    tessera(*RUN, "--device", device, "--trace", "run.pftrace", "--json", "run.json")
    trace, pb2 = trace_of(tmp_path / "run.pftrace")
    tracks, counters, open_slices, steps = {}, {}, {}, set()
    begun, ended, moved = {}, {}, {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            d = packet.track_descriptor
            assert d.uuid not in tracks and (not d.HasField("parent_uuid") or d.parent_uuid in tracks)
            tracks[d.uuid] = d.name
            if d.HasField("counter"):
                counters[d.uuid] = []
            continue
        event = packet.track_event
        if event.type == pb2.TrackEvent.TYPE_COUNTER:
            counters[event.track_uuid].append((packet.timestamp, event.double_counter_value))
        elif event.type == pb2.TrackEvent.TYPE_SLICE_BEGIN:
            assert open_slices.get(event.track_uuid) is None  # slices of a track do not overlap
            open_slices[event.track_uuid] = packet.timestamp
            if tracks[event.track_uuid] == "compute":
                steps.add(event.name)
            for flow in event.flow_ids:
                assert flow not in begun
                begun[flow] = packet.timestamp, event.name
            for flow in event.terminating_flow_ids:
                assert flow not in ended
                ended[flow] = packet.timestamp, event.name
            arguments = {a.name: a.string_value if a.HasField("string_value") else a.int_value for a in event.debug_annotations}
            if arguments:
                ref, step = re.fullmatch(r"(\w+)\[\d+, \d+\], step (\d+)", event.name).groups()
                assert arguments["line"].startswith("kernels/matmul.hpp:")
                assert arguments["step"] == int(step)
                moved[ref] = moved.get(ref, 0) + arguments["bytes"]
        else:
            assert event.type == pb2.TrackEvent.TYPE_SLICE_END
            assert open_slices[event.track_uuid] <= packet.timestamp
            open_slices[event.track_uuid] = None
    assert tracks[1] == "matmul" and {"fetch", "compute"} <= set(tracks.values())
    assert set(open_slices.values()) == {None}
    for uuid, values in counters.items():
        most = json.loads((tmp_path / "run.json").read_text())["memory"]["vmem_peak_bytes"] if "bytes" in tracks[uuid] else 101
        assert values == sorted(values, key=lambda value: value[0]) and all(0 <= value <= most for _, value in values)
    assert begun.keys() == ended.keys() and len(begun) > 50
    for flow, (when, name) in begun.items():  # from a fetch to the work of its step, which is later
        assert when <= ended[flow][0] and name.endswith(ended[flow][1])
    if device == "tpu-v5e":
        assert len(steps) == 8 * 8 * 16
        units = {"compute", "HBM", "MXU", "XLU", "VALU", "VPOP", "EUP", "load", "store", "scalar"}
        assert {tracks[uuid] for uuid in counters} == {f"{unit} busy, %" for unit in units} | {"VMEM in use, bytes"}
        ledger = json.loads((tmp_path / "run.json").read_text())["traffic"]["refs"]
        assert moved == {ref["name"]: ref["padded_bytes"] for ref in ledger}


def stalls_of(tessera, tmp_path, *words):
    printed = tessera("run", *words, "--json", "run.json", "--report", "page.html")
    run = json.loads((tmp_path / "run.json").read_text())
    return {(s["why"], s["ref"]): s["seconds"] for s in run["timeline"]["stalls"]}, run["timeline"], printed


def test_stalls_add_up_to_what_is_waited(tessera, tmp_path):
    for words in (("matmul",), ("dma_matmul",), ("softmax_rows",), *((kernel, "--devices", "4") for kernel in MESHES)):
        stalls, line, _ = stalls_of(tessera, tmp_path, *words)
        assert sum(stalls.values()) == pytest.approx(line["exposed_seconds"], rel=1e-9, abs=1e-15), words
        assert line["stalls"] == sorted(line["stalls"], key=lambda s: -s["seconds"])


def lines_of(tessera, tmp_path, *words):
    printed = tessera("run", *words, "--json", "run.json", "--report", "page.html")
    return json.loads((tmp_path / "run.json").read_text()), printed


def test_lines_have_all_bytes_and_waits(tessera, tmp_path):
    kernels = (("matmul",), ("dma_matmul",), ("softmax_rows",), ("ring_all_gather", "--devices", "4"))
    for words in (kernel + ("--timing", timing) for timing in ("best", "model") for kernel in kernels):
        run, _ = lines_of(tessera, tmp_path, *words)
        waited = sum(s["seconds"] for line in run["lines"] for s in line["stalls"])
        assert waited == pytest.approx(run["timeline"]["exposed_seconds"], rel=1e-9, abs=1e-15), words
        devices = run["mesh"][0]
        assert sum(line["read_bytes"] for line in run["lines"]) * devices == run["traffic"]["hbm_read_bytes"], words
        assert sum(line["remote_bytes"] for line in run["lines"]) * devices == run["traffic"]["remote_bytes"], words
        # Of a C++ body nobody knows, but of its TPU build.
        assert all((line["compute_seconds"] is None) == ("model" in words) for line in run["lines"])


def test_waits_are_at_the_lines_that_wait(tessera, tmp_path):
    for words, waits in ((("dma_matmul",), r"\bwait"), (("ring_all_gather", "--devices", "8"), r"\bwait|semaphore_wait")):
        run, printed = lines_of(tessera, tmp_path, *words, "--timing", "model")  # which computes little
        bodys = [line for line in run["lines"] if any(s["why"] in ("copy", "remote", "signal") for s in line["stalls"])]
        assert bodys
        for line in bodys:
            text = (ROOT / line["file"]).read_text().splitlines()[line["line"] - 1]
            assert re.search(waits, text) and text.strip() == line["text"]
            assert f'{line["file"]}:{line["line"]}' in printed
        starts = [line for line in run["lines"] if line["read_bytes"] and not line["stalls"] or line["remote_bytes"]]
        assert starts and all("start" in line["text"] or "in<" in line["text"] or "copy" in line["text"] for line in starts)
        assert f'{bodys[0]["file"]}:{bodys[0]["line"]}' in "".join(opened(tmp_path / "page.html").text)


def test_lines_share_the_cycles_of_a_module(tessera, tmp_path):
    tessera("build", "matmul_relu", "--target", "tpu", "--out", "built")
    run, printed = lines_of(tessera, tmp_path, "built", "--device", "tpu-v5e")
    computing = sum(line["compute_seconds"] for line in run["lines"])
    assert computing == pytest.approx(run["timeline"]["compute_seconds"], rel=1e-9)
    most = max((line for line in run["lines"] if line["file"]), key=lambda line: line["compute_seconds"])
    assert "dot" in most["text"] and most["file"] == "kernels/matmul_relu.hpp"
    assert most["compute_cycles"] == pytest.approx(most["compute_seconds"] * 1.5e9)
    assert re.search(rf'{most["file"]}:{most["line"]} .*{round(most["compute_cycles"]):,}', printed)
    shown = "".join(opened(tmp_path / "page.html").text)
    assert "the pipeline itself" in printed and "the pipeline itself" in shown
    assert f'that {run["timeline"]["model"]} give' in shown
    # Another device has no costs of units: nobody knows, and nothing is said.
    spec = json.loads((ROOT / "memory_model/devices/tpu-v7x.json").read_text())
    (tmp_path / "own.json").write_text(json.dumps({**spec, "name": "own", "jax": {**spec["jax"], "chip": "own"}}))
    run, printed = lines_of(tessera, tmp_path, "built", "--device", "own.json")
    assert all(line["compute_seconds"] is None for line in run["lines"]) and "the pipeline itself" not in printed


def test_stalls_by_reason(tessera, tmp_path):
    stalls, line, printed = stalls_of(tessera, tmp_path, *RUN[1:], "bk=512")  # steps of less are bound by themselves
    assert {why for why, _ in stalls} <= {"block", "buffer"} and {"x", "y"} <= {ref for _, ref in stalls}
    assert re.search(r"^ +waiting for \d+ % blocks of [xy]", printed, re.MULTILINE)
    assert all(s["cycles"] == pytest.approx(s["seconds"] * 1.5e9) for s in line["stalls"])
    stalls, _, printed = stalls_of(tessera, tmp_path, "dma_matmul", "--timing", "model")
    assert {"copy"} <= {why for why, _ in stalls} <= {"copy", "block", "buffer"}
    stalls, line, printed = stalls_of(tessera, tmp_path, "ring_all_gather", "--devices", "8")
    assert max(stalls, key=stalls.get)[0] == "remote" and "out between devices" in printed
    text = "".join(opened(tmp_path / "page.html").text)
    assert "waiting" in text and "out between devices" in text


def test_a_kernel_that_computes_waits_for_little(tessera, tmp_path):
    """The twin of RUN: blocks that are large enough, and the matrix unit binds."""
    stalls, line, printed = stalls_of(tessera, tmp_path, "--timing", "model", "matmul", "m=4096", "n=4096", "k=2048", "bm=1024", "bn=1024", "bk=512", "--dtype", "bf16", "--dry")
    assert sum(stalls.values()) < .2 * line["seconds"] and line["binds"] == "matrix unit"


def test_trace_needs_a_timeline(tessera):
    run = ("run", "dma_matmul", "bm=64", "--device", "h200", "--trace", "run.pftrace")
    assert "copies by itself" in tessera(*run, status=2)



def test_there_are_kernels_of_meshes():
    assert len(MESHES) >= 7 and "ring_all_gather" in MESHES


@pytest.mark.parametrize("kernel", MESHES + ["matmul_relu", "dma_matmul"])
@pytest.mark.parametrize("device", ["tpu-v5e", "h200"])
def test_one_verdict(tessera, tmp_path, kernel, device):
    devices = ("--devices", "8" if kernel == "ring_all_gather" else "4") if kernel in MESHES else ()
    blocks = ("bm=64",) if kernel == "dma_matmul" else ()  # those of its first case do not fit in an SM
    printed = tessera("run", kernel, *devices, *blocks, "--device", device, "--json", "run.json", "--report", "page.html")
    verdicts = re.findall(r"bound by +([^:\n]+)", printed)
    line = json.loads((tmp_path / "run.json").read_text())["timeline"]
    assert len(verdicts) == 1, printed
    if "binds" in line:
        assert verdicts == [line["binds"]] == [data_of(tmp_path / "page.html")["timeline"]["binds"]]
    else:
        assert verdicts[0] in ("HBM bandwidth", "compute")
