"""tessera run --record, tessera replay: what ran is written down, and runs again to the same bits, or is said not to."""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT
from test_modules import IMPORTER, MODULE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from recordings import lines, sha256  # noqa: E402


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("TESSERA_BACKEND", "interpret")  # on a machine with a GPU too


@pytest.fixture
def records(tmp_path):
    return lambda folder="calls": lines(tmp_path / folder)


@pytest.fixture
def rewrite(tmp_path):
    """Changes the record; its line is then another one."""
    def change(what):
        path = tmp_path / "calls/records.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            what(line)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return change


def test_a_run_is_written_down(tessera, tmp_path, records):
    words = ("matmul", "m=200", "bm=64", "--case", "1", "--seed", "3", "--inputs", "integers")
    tessera("run", *words, "--record", "calls", "--json", "run.json", "--output", "out")
    run = json.loads((tmp_path / "run.json").read_text())
    [line] = records()
    assert line["operation"] == "matmul" and line["frontend"] == "cpp" and line["tessera"] == "0.1.0"
    assert line["key"]["sizes"].startswith("m=200 ") and len(line["key"]["fingerprint"]) == 16
    assert line["configuration"] == {name: str(run["kernel"]["params"][name]) for name in ("bm", "bn", "bk")}
    assert line["choice"] == {"tier": "explicit", "tiers": []}
    assert line["backend"]["ran"] == "interpret" and line["device"] == "tpu-v5e"
    assert line["bytes"] == {"hbm_read": run["traffic"]["hbm_read_bytes"], "hbm_write": run["traffic"]["hbm_write_bytes"], "remote": 0}
    assert line["predicted_seconds"] == run["timeline"]["seconds"]
    assert [(each["name"], "file" in each) for each in line["inputs"]] == [("x", False), ("y", False)]  # the seed makes them
    out = np.load(tmp_path / "out/o.npy")
    [noted] = line["outputs"]
    assert (noted["shape"], noted["sha256"]) == (list(out.shape), sha256(out))
    assert np.array_equal(np.load(tmp_path / "calls" / noted["file"]), out)
    # The arguments are a run's, and make the same again.
    tessera("run", *line["arguments"], "--output", "again")
    assert (tmp_path / "again/o.npy").read_bytes() == (tmp_path / "out/o.npy").read_bytes()


def test_lines_are_added_and_arrays_are_kept_once(tessera, tmp_path, records):
    for _ in range(2):
        tessera("run", "softmax_rows", "--case", "1", "--record", "calls")
    tessera("run", "softmax_rows", "--case", "1", "--seed", "1", "--record", "calls")
    same, again, other = records()
    assert same["outputs"] == again["outputs"] != other["outputs"]
    assert len(list((tmp_path / "calls/arrays").rglob("*.npy"))) == 2
    assert same["choice"]["tier"] == "heuristic"
    said = tessera("replay", "calls")
    assert said.count("same bits; bytes equal; predicted") == 3 and said.endswith("3 the same\n")
    only = tessera("replay", "calls", "--only", "2")
    assert only.startswith("   2  softmax_rows") and only.endswith("1 the same\n")
    assert "3 invocations" in tessera("replay", "calls", "--only", "3", status=2)


@pytest.mark.parametrize("words", [
    ("all_gather_matmul", "--devices", "4", "--schedule", "random:3"), ("halo_exchange", "--devices", "2", "--schedule", "adversarial"),
    ("paged_attention", "--case", "1"), ("flash_attention", "--case", "1", "--dtype", "bf16", "--profile", "tensorcore:hopper"),
    ("matmul", "--cores", "2", "--inputs", "special", "--no-check"), ("matmul", "m=4096", "--dry"),
    ("quantised_matmul", "--profile", "mxu"), ("matmul", "--backend", "reference", "--case", "1")])
def test_settings_are_replayed(tessera, records, words):
    tessera("run", *words, "--record", "calls")
    [line] = records()
    assert line["dry"] == ("--dry" in words)
    said = tessera("replay", "calls")
    assert ("counted alone" if line["dry"] else "same bits") in said and "bytes equal" in said and said.endswith("1 the same\n")


def test_what_the_tiers_chose_is_replayed_without_them(tessera, records):
    tessera("tune", "matmul", "bm=64,256", "bn=128", "bk=128", "--cache", "cache.sqlite")
    tessera("run", "matmul", "--tuned", "--cache", "cache.sqlite", "--record", "calls")
    [line] = records()
    assert line["choice"]["tier"] == "persistent" and line["configuration"]["bm"] == "256"
    assert line["choice"]["tiers"][-1]["said"].startswith("the fastest of 2 candidates")
    assert "same bits" in tessera("replay", "calls")


def test_inputs_and_devices_that_were_files_are_kept(tessera, tmp_path, records):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).uniform(-1, 1, (16, 128)).astype(np.float32))
    spec = json.loads((ROOT / "memory_model/devices/tpu-v5e.json").read_text())
    (tmp_path / "mine.json").write_text(json.dumps(spec | {"name": "mine"}))
    tessera("run", "softmax_rows", "m=16", "n=128", "--input", "x=x.npy", "--device", "mine.json", "--record", "calls")
    x = np.load(tmp_path / "x.npy")
    (tmp_path / "x.npy").unlink()
    (tmp_path / "mine.json").unlink()
    [line] = records()
    assert line["device"] == "mine"
    [noted] = line["inputs"]
    assert noted["sha256"] == sha256(x) and np.array_equal(np.load(tmp_path / "calls" / noted["file"]), x)
    shutil.move(tmp_path / "calls", tmp_path / "moved")
    assert "same bits; bytes equal" in tessera("replay", "moved")
    np.save(tmp_path / "moved" / noted["file"], x + 1)
    said = tessera("replay", "moved", status=1)
    assert "inputs are not those that were recorded: x" in said


def test_other_bits_are_found(tessera, tmp_path, records, rewrite):
    tessera("run", "softmax_rows", "--case", "1", "--record", "calls")
    [line] = records()
    noted = line["outputs"][0]
    out = np.load(tmp_path / "calls" / noted["file"])
    out[17, 255] = np.nextafter(out[17, 255], np.float32(2))
    changed = noted["file"].replace(noted["sha256"], sha256(out))
    (tmp_path / "calls" / changed).parent.mkdir(exist_ok=True)
    np.save(tmp_path / "calls" / changed, out)
    rewrite(lambda line: line["outputs"][0].update(sha256=sha256(out), file=changed))
    said = tessera("replay", "calls", status=1)
    assert "different bits; bytes equal" in said and f"1 of {out.size:,} elements of y, worst y[17, 255] = " in said
    assert said.endswith("1 different\n")


def test_other_bytes_are_found(tessera, rewrite):
    tessera("run", "softmax_rows", "--record", "calls")
    rewrite(lambda line: line["bytes"].update(hbm_read=line["bytes"]["hbm_read"] + 4))
    assert "same bits; " in (said := tessera("replay", "calls", status=1)) and "bytes read, recorded " in said
    assert "bytes read, recorded" in tessera("replay", "calls", "--device", "tpu-v6e")  # another device may move others


def test_other_seeds_inputs_are_found(tessera, rewrite):
    tessera("run", "softmax_rows", "--record", "calls")
    rewrite(lambda line: line["arguments"].extend(["--seed", "5"]))
    assert "different: inputs are not those that were recorded: x" in tessera("replay", "calls", status=1)


def test_other_profiles_are_judged_by_bounds(tessera, tmp_path, records, rewrite):
    tessera("run", "matmul", "--case", "1", "--record", "calls")
    said = tessera("replay", "calls", "--profile", "mxu")
    assert "interpret on tpu-v5e, now interpret on tpu-v5e as mxu" in said
    assert "within the bound, at most " in said and said.endswith("1 within the bound\n")
    # An element that no conforming build has.
    [line] = records()
    noted = line["outputs"][0]
    out = np.load(tmp_path / "calls" / noted["file"])
    out[3, 5] += 1
    changed = noted["file"].replace(noted["sha256"], sha256(out))
    (tmp_path / "calls" / changed).parent.mkdir(exist_ok=True)
    np.save(tmp_path / "calls" / changed, out)
    rewrite(lambda line: line["outputs"][0].update(sha256=sha256(out), file=changed))
    said = tessera("replay", "calls", "--profile", "mxu", status=1)
    assert "different: beyond the bound" in said and "recorded: o[3, 5] = " in said


def test_what_was_wrong_is_wrong_again(tessera, records, rewrite):
    tessera("run", "matmul", "bn=100", "--record", "calls", status=1)
    [line] = records()
    assert line["diagnostics"] == ["illegal-block-shape"] and line["outputs"] == []
    assert "the same illegal-block-shape" in tessera("replay", "calls")
    assert "nothing wrong, recorded with illegal-block-shape" in tessera("replay", "calls", "--device", "h100", status=1)


def test_what_cannot_be_replayed_here_is_no_success(tessera, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    tessera("run", "softmax_rows", "--case", "2", "--record", "calls")
    said = tessera("replay", "calls", "--backend", "cuda", status=3)
    assert "not replayed: --backend cuda: " in said and said.endswith("1 not replayed\n")


def test_folders_that_hold_something_else_are_refused(tessera, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    assert "holds something else" in tessera("run", "softmax_rows", "--record", "mine", status=2)
    assert "holds no records" in tessera("replay", "mine", status=2)
    assert "not with --timing" in tessera("run", "softmax_rows", "--record", "calls", "--timing", "compiler", status=2)


def test_a_killed_writers_line_is_passed_over(tessera, tmp_path):
    tessera("run", "softmax_rows", "--case", "2", "--record", "calls")
    path = tmp_path / "calls/records.jsonl"
    whole = path.read_text()
    path.write_text(whole + whole[:100])
    said = tessera("replay", "calls")
    assert "1 the same" in said and "1 line is cut off" in said


def test_processes_record_into_one_folder(tmp_path, records):
    program = str(ROOT / "build/release/cli/tessera")
    running = [subprocess.Popen([program, "run", "add_vectors", "--seed", str(n % 3), "--record", "calls"], cwd=tmp_path,
                                stdout=subprocess.DEVNULL) for n in range(12)]
    assert [each.wait() for each in running] == [0] * 12
    assert len(records()) == 12
    assert len(list((tmp_path / "calls/arrays").rglob("*.npy"))) == 3


needs_mlir = pytest.mark.skipif(not IMPORTER.exists(), reason="built with MLIR 22 only")


@needs_mlir
def test_a_module_is_kept_with_its_call(tessera, tmp_path, records):
    rng = np.random.default_rng(5)
    np.save(tmp_path / "x.npy", rng.uniform(-1, 1, (32, 256)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.uniform(-1, 1, (8, 16)).astype(np.float32))
    given = ("--input", "0=x.npy", "--input", "1=y.npy")
    for _ in range(2):
        tessera("run", MODULE, *given, "--schedule", "random:3", "--device", "tpu-v6e", "--output", "out", "--record", "calls")
    line, again = records()
    assert line["frontend"] == "mosaic" and line["arguments"] == again["arguments"]
    call = line["arguments"][0]
    assert (tmp_path / "calls" / call / "kernel.mlirbc").read_bytes() == open(MODULE, "rb").read()
    assert [each["name"] for each in line["inputs"]] == ["in0", "in1"]
    assert line["key"]["sizes"] == "0.0=32 0.1=256 1.0=8 1.1=16"
    (tmp_path / "x.npy").unlink()
    tessera("run", f"calls/{call}", "--output", "again")
    assert (tmp_path / "again/out0.npy").read_bytes() == (tmp_path / "out/out0.npy").read_bytes()
    # A call is recorded again as itself.
    tessera("run", f"calls/{call}", "--record", "calls")
    assert records()[2]["arguments"] == [call] and records()[2]["outputs"] == line["outputs"]
    said = tessera("replay", "calls")
    assert said.count("same bits; bytes equal") == 3 and "interpret on tpu-v6e" in said
    said = tessera("replay", "calls", "--only", "0", "--profile", "mxu")
    assert "within the bound" in said
    said = tessera("replay", "calls", "--device", "tpu-v5e")
    assert said.count("now interpret on tpu-v5e") == 3 and ", recorded " in said
    assert "a module runs in the interpreter alone" in tessera("replay", "calls", "--backend", "reference", status=3)
    noted = line["inputs"][0]
    np.save(tmp_path / "calls" / noted["file"], np.zeros((32, 256), np.float32))
    assert "was changed: it is not the array that was recorded" in tessera("replay", "calls", status=3)


def test_what_a_record_says_does_not_speak_to_the_terminal(tessera, rewrite):
    tessera("run", "add_vectors", "n=2048", "--record", "calls")
    rewrite(lambda line: line["key"].update(sizes="n=2048 \x1b[31m\x7f\x9b2J"))
    said = tessera("replay", "calls")
    assert "n=2048 \\x1b[31m\\x7f\\x9b2J  interpret" in said and "same bits" in said
    assert all(c == "\n" or 0x20 <= ord(c) < 0x7f for c in said)
