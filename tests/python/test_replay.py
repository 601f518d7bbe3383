"""What tessera says makes something again is a command that does."""
import json
import re
import shlex

import pytest

from conftest import ROOT


@pytest.fixture(autouse=True)
def tiny(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_BACKEND", "interpret")  # on a machine with a GPU too
    spec = json.loads((ROOT / "memory_model/devices/tpu-v5e.json").read_text())
    spec["figures"]["vmem_capacity"]["value"] = 4096
    (tmp_path / "it's tiny.json").write_text(json.dumps(spec | {"name": "tiny"}))


@pytest.mark.parametrize("slug, words", [
    ("nan-born", "softmax_rows --case 1 --inputs special --seed 2 --trap nan"),
    ("vmem-capacity", "all_reduce --devices 2x2 --device 'it'\"'\"'s tiny.json' --no-races"),
    ("vmem-capacity", "matmul m=512 bm=256 --dtype bf16 --profile mxu --dry --cores 2 --device 'it'\"'\"'s tiny.json'"),
    ("illegal-block-shape", "matmul bn=100"),
])
def test_replay(tessera, slug, words):
    said = tessera("run", *shlex.split(words), status=1)
    assert f"error[{slug}]" in said
    replay = re.search(r"  replay  tessera (.*)", said)[1]
    again = shlex.split(replay.split(" --at ")[0])  # --break starts gdb
    for word in shlex.split(words):
        assert word in again
    assert tessera(*again, status=1) == said


def test_the_manifest_of_a_golden_has_its_command(tessera, tmp_path):
    given = "matmul --case 1 m=200 --seed 3 --inputs cancellation --ulp exp=2 --no-fused --operands tf32"
    tessera("golden", "make", *shlex.split(given), "--device", "h100", "--out", "a")
    manifest = json.loads((tmp_path / "a/manifest.json").read_text())
    assert "--device h100" in manifest["command"]
    tessera(*shlex.split(manifest["command"])[1:], "--out", "b")
    assert json.loads((tmp_path / "b/manifest.json").read_text()) == manifest
