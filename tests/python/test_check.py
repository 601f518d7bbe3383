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


def run(*arguments, cache):
    return subprocess.run([TESSERA, "run", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(cache)})


def test_a_kernel_is_checked_through_its_tpu_build(tmp_path):
    sizes = ("m=128", "n=128", "k=256")
    good = check("dma_matmul", *sizes, "--own", "--json", "-", cache=tmp_path)
    assert good.returncode == 0, good.stderr
    bad = check("dma_matmul", *sizes, "bk=64", "--own", "--device", "tpu-v5e", "--json", "-", cache=tmp_path)
    (device,) = json.loads(bad.stdout)["modules"][0]["devices"]
    assert bad.returncode == 1 and device["tessera"]["slug"] == "misaligned-slice"
    assert "kernels/dma_matmul.hpp:" in device["tessera"]["line"]
    spec = check("add_blocked", "bm=3", "bn=5", "--own", "--device", "tpu-v5e", cache=tmp_path).stdout
    assert "error[illegal-block-shape]" in spec and "kernels/add_blocked.hpp:" in spec


def test_what_is_no_kernel_or_parameter_is_said(tmp_path):
    done = check("matmal", "--own", cache=tmp_path)
    assert done.returncode == 2 and "did you mean 'matmul'" in done.stderr
    done = check("matmul", "q=3", "--own", cache=tmp_path)
    assert done.returncode == 2 and "has no parameter 'q'" in done.stderr
    done = check("m=3", "--own", cache=tmp_path)
    assert done.returncode == 2 and "a module has no parameters" in done.stderr


@asks
def test_the_compiler_refuses_a_kernel_at_its_line(tmp_path):
    done = check("dma_matmul", "m=128", "n=128", "k=256", "bk=64", "--device", "tpu-v5e", "--json", "-", cache=tmp_path)
    (device,) = json.loads(done.stdout)["modules"][0]["devices"]
    assert device["compiler"]["verdict"] == "refused" and device["tessera"]["refused"]
    assert device["compiler"]["file"].endswith("kernels/dma_matmul.hpp") and device["compiler"]["line"] > 0


@asks
@pytest.mark.parametrize("kernel", ["matmul", "dma_matmul"])
def test_a_kernel_takes_its_time_from_the_compilers_schedule(kernel, tmp_path):
    done = run(kernel, "--timing", "compiler", "--json", "-", cache=tmp_path)
    report = json.loads(done.stdout)
    schedule = report["compiled_schedule"]
    assert done.returncode == 0 and report["timeline"]["seconds"] == pytest.approx(schedule["cycles"] / schedule["clock_hz"])
    assert {o["name"]: o["read_bytes"] + o["write_bytes"] for o in schedule["operands"]} == {
        ref["name"]: ref["padded_bytes"] for ref in report["traffic"]["refs"]}


@asks
@needs_corpus
def test_a_module_takes_its_time_from_the_compilers_schedule(tmp_path):
    done = run(CORPUS / "jax__matmul_bf16", "--device", "tpu-v5e", "--timing", "compiler", "--json", "-", cache=tmp_path)
    schedule = json.loads(done.stdout)["compiled_schedule"]
    assert sum(o["read_bytes"] for o in schedule["operands"]) == 1_048_576
    assert schedule["regions"] and 0 < schedule["issued_cycles"] <= schedule["cycles"]


def test_a_mesh_has_no_schedule_and_a_gpu_without_a_model_no_code(tmp_path):
    done = run("ring_all_gather", "--timing", "compiler", cache=tmp_path)
    assert done.returncode == 0 and "predicted   no: the compiler's schedule of one device" in done.stdout
    done = run("matmul", "--device", "a100", "--timing", "compiler", cache=tmp_path)
    assert done.returncode == 0 and "predicted   no: no model has been fitted to a100" in done.stdout


SIZES = ("m=256", "n=256", "k=512")


def tessera(*arguments, cache):
    return subprocess.run([TESSERA, *map(str, arguments), "--cache", str(cache / "tuned.sqlite")], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(cache)})


def compiled_seconds(*tiles, cache):
    report = json.loads(run("matmul", *SIZES, *tiles, "--timing", "compiler", "--dry", "--json", "-", cache=cache).stdout)
    return report["compiled_schedule"]["cycles"] / report["compiled_schedule"]["clock_hz"]


@asks
def test_block_shapes_are_ranked_by_the_compilers_schedule(tmp_path):
    shapes = [("bm=64", "bn=128", "bk=512"), ("bm=128", "bn=256", "bk=256"), ("bm=256", "bn=256", "bk=128")]
    options = ("--timing", "compiler", "--candidates", "all")
    tuned = tessera("tune", "matmul", *SIZES, "bm=64,128,256", "bn=128,256", "bk=128,256,512", *options, cache=tmp_path)
    assert tuned.returncode == 0, tuned.stderr
    why = tessera("why", "matmul", *SIZES, "--timing", "compiler", cache=tmp_path).stdout
    assert "18 candidates, compiled by libtpu" in why and "by the compiler's schedule" in why
    # What is chosen is what the schedule of a run says is the shortest, of others that were there.
    report = json.loads(tessera("run", "matmul", *SIZES, "--timing", "compiler", "--tuned", "--dry", "--json", "-", cache=tmp_path).stdout)
    assert report["choice"]["tier"] == "persistent"
    chosen = next(line for line in tuned.stdout.splitlines() if line.endswith(": by the compiler's schedule")).split(":")[0].split()
    best = compiled_seconds(*chosen, cache=tmp_path)
    assert best == report["timeline"]["seconds"]
    assert all(best <= compiled_seconds(*shape, cache=tmp_path) for shape in shapes)
    again = tessera("tune", "matmul", *SIZES, "bm=64,128,256", "bn=128,256", "bk=128,256,512", *options, cache=tmp_path)
    assert "18 known from before" in again.stdout
