"""tessera check, on the command line; Google's compiler itself where TESSERA_TPU_PYTHON names an interpreter that has it."""
import json
import os
import subprocess

import pytest

from conftest import ROOT

TESSERA = os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera"))
CORPUS = ROOT.parent / "shared/mosaic-corpus"
COMPILER = os.environ.get("TESSERA_TPU_PYTHON")
asks = pytest.mark.skipif(not COMPILER, reason="TESSERA_TPU_PYTHON names no interpreter with libtpu")
needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus of modules")


def check(*arguments, cache, **environment):
    return subprocess.run([TESSERA, "check", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(cache), **environment})


@needs_corpus
def test_without_the_compiler_it_says_what_to_install_and_whose_it_is(tmp_path):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/bash\necho '{\"missing\": \"libtpu\"}'\n")
    bare.chmod(0o755)
    done = check(CORPUS / "jax__flash_fwd", "--python", bare, cache=tmp_path)
    assert done.returncode == 2
    assert "error[no-tpu-compiler]" in done.stderr and "pip install" in done.stderr and "Google's terms" in done.stderr


@needs_corpus
def test_own_rules_need_no_compiler(tmp_path):
    done = check(CORPUS / "jax__matmul_int8", "--own", "--json", "-", cache=tmp_path, TESSERA_TPU_PYTHON="/nowhere")
    devices = json.loads(done.stdout)["modules"][0]["devices"]
    assert [d["device"] for d in devices if d["tessera"]["refused"]] == ["tpu-v4"]
    assert "Unsupported matmul RHS type" in devices[0]["tessera"]["message"]
    assert done.returncode == 1


@needs_corpus
def test_what_is_no_module_is_said(tmp_path):
    done = check(tmp_path, "--own", cache=tmp_path)
    assert done.returncode == 2 and "is no Mosaic module" in done.stderr
    done = check(CORPUS / "jax__flash_fwd", "--own", "--device", "h200", cache=tmp_path)
    assert done.returncode == 2 and "is no TPU" in done.stderr


@asks
@needs_corpus
def test_the_compiler_agrees_about_a_module_and_is_asked_once(tmp_path):
    arguments = (CORPUS / "jax__matmul_int4", "--device", "tpu-v4,tpu-v5e", "--json", "-")
    first = json.loads(check(*arguments, cache=tmp_path).stdout)
    v4, v5e = first["modules"][0]["devices"]
    assert v4["compiler"]["verdict"] == "refused" and v4["compiler"]["code"] == "E2001" and v4["tessera"]["refused"]
    assert v4["compiler"]["file"].endswith("matmul.py") and v4["compiler"]["line"] == 33
    assert v5e["compiler"]["verdict"] == "accepted" and not v5e["tessera"]["refused"]
    again = json.loads(check(*arguments, cache=tmp_path).stdout)
    assert all(d["compiler"]["cached"] for d in again["modules"][0]["devices"])


