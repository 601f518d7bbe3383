"""Whole programs: autotuning, clocks, the command line, pytest, a process whose backend is tessera, programs that say "cuda"."""
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(*words, status=0, **environment):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env={**ENVIRONMENT, **environment})
    assert done.returncode == status, done.stdout + done.stderr
    return done


CONFIGS = [triton.Config({"BM": bm, "BN": bn, "BK": 32}) for bm, bn in ((16, 16), (64, 64), (16, 64))]


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    s = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + r[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + s[None, :])
        acc = tl.dot(x, y, acc)
    if EVEN:
        tl.store(c + r[:, None] * N + s[None, :], acc)


tuned = triton.autotune(CONFIGS, key=["M", "N", "K"], reset_to_zero=["c"])(
    triton.heuristics({"EVEN": lambda args: args["M"] % args["BM"] == 0})(matmul))


def test_autotuned_by_predicted_cost():
    rng = np.random.default_rng(0)
    a, b = (DeviceArray(rng.integers(-4, 5, (256, 256)).astype(np.float32)) for _ in range(2))
    c = DeviceArray.empty((256, 256))
    with tessera.simulate_triton() as report:
        tuned[lambda meta: (256 // meta["BM"], 256 // meta["BN"])](a, b, c, 256, 256, 256)
    np.testing.assert_array_equal(c.array, a.array @ b.array)
    assert [tuple(call.json["grid"][:2]) for call in report.calls[:3]] == [(16, 16), (4, 4), (16, 4)]
    assert report.calls[3].predicted_seconds == min(call.predicted_seconds for call in report.calls[:3])
    assert tuned.best_config.kwargs["BM"] == 256 // report.calls[3].json["grid"][0]
    assert len({call.predicted_seconds for call in report.calls}) == 3


def test_do_bench_is_predicted_time():
    a = DeviceArray(np.ones((64, 64), np.float32))
    c = DeviceArray.empty((64, 64))

    def call():
        matmul[(1, 1)](a, a, c, 64, 64, 64, BM=64, BN=64, BK=32, EVEN=True)

    with tessera.simulate_triton() as report:
        ms = triton.testing.do_bench(call)
        assert len(report.calls) == 1 and ms == pytest.approx(1e3 * report.predicted_seconds)
        assert triton.testing.do_bench(call, quantiles=[0.5, 0.2, 0.8]) == [ms] * 3
        assert triton.testing.do_bench(call, return_mode="all") == pytest.approx([ms], rel=1e-12)
        with pytest.raises(tessera.KernelError, match="what was timed launched no kernel here"):
            triton.testing.do_bench(lambda: None)
    with tessera.simulate_triton("a100"), pytest.raises(tessera.KernelError, match="no predicted time"):
        triton.testing.do_bench(call)


def test_a_kernel_is_planned_once(monkeypatch):
    from tessera import _triton

    a, c = DeviceArray(np.ones((64, 64), np.float32)), DeviceArray.empty((64, 64))
    made = []
    monkeypatch.setattr(_triton, "Specialisation", lambda *args, make=_triton.Specialisation: made.append(args) or make(*args))
    for _ in range(2):
        with tessera.simulate_triton("h200"):
            for _ in range(2):
                matmul[(1, 1)](a, a, c, 64, 64, 64, BM=64, BN=64, BK=16, EVEN=True)
    assert len(made) == 1


SCRIPT = '''
import sys, numpy as np, triton, triton.language as tl
from tessera import DeviceArray

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

x = DeviceArray(np.arange(100, dtype=np.float32))
out = DeviceArray.empty(100)
n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
double[(4,)](x, out, n, BLOCK=32)
print("sum", out.array.sum())
'''


@pytest.fixture
def script(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    return str(tmp_path / "script.py")


def test_command_line(script, tmp_path):
    program = [os.environ.get("TESSERA", str(ROOT / "build/release/cli/tessera")), "triton", "run"]
    if not os.path.exists(program[0]):
        pytest.skip("no tessera: ./tessera test builds it")
    python = {"TESSERA_PYTHON": sys.executable}
    done = run(*program, "--device", "h200", "--json", str(tmp_path / "run.json"), "--html", str(tmp_path / "p.html"), script, **python)
    assert done.stdout == "sum 9900.0\n" and "double  4x1x1" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text())[0]["device"] == "h200"
    done = run(*program, script, "101", status=1, **python)
    assert done.stderr.count("error[oob-index]: it reads element 100 of x_ptr") == 1 and "script.py:8  tl.store(" in done.stderr
    assert "no device 'h10" in run(*program, "--device", "h10", script, status=2, **python).stderr
    assert "--checks" in run(*program, "--help", **python).stdout
    absent = run(*program, str(tmp_path / "absent.py"), status=2, **python).stderr
    assert absent == f"tessera: {tmp_path}/absent.py: no such file\n"
    (tmp_path / "itself.py").write_text("import tessera\nwith tessera.simulate_triton():\n    pass\n")
    itself = run(*program, str(tmp_path / "itself.py"), status=2, **python).stderr
    assert "itself.py simulates by itself (simulate_triton); run it with Python:" in itself and "Traceback" not in itself
    command = itself.splitlines()[-1].split()
    run(*command[1:], PYTHONPATH=command[0].removeprefix("PYTHONPATH="))


def test_lines_are_those_of_the_file_that_runs(script, tmp_path):
    """Triton's cache has the same function from another file, and of another environment."""
    cache, other = tmp_path / "cache", tmp_path / "other/script.py"
    other.parent.mkdir()
    other.write_text(SCRIPT)
    for path in (script, str(other), script):
        wrong = run(sys.executable, "-m", "tessera", "triton", "run", path, "101", status=1, TRITON_CACHE_DIR=str(cache)).stderr
        assert f"{os.path.relpath(path, tmp_path)}:8  tl.store(" in wrong
        for metadata in cache.glob("*/double.json"):
            there = json.loads(metadata.read_text())
            there["extern_libs"] = [[name, "/another/" + name] for name, _ in there["extern_libs"]]
            metadata.write_text(json.dumps(there))


def test_a_process_whose_backend_it_is(script, tmp_path):
    folder = tmp_path / "entry/tessera-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tessera\nVersion: 0\n")
    (folder / "entry_points.txt").write_text("[triton.backends]\ntessera = tessera.triton_backend\n")
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "entry"), *sys.path])}
    assert run(sys.executable, script, TRITON_DEFAULT_BACKEND="tessera", **path).stdout == "sum 9900.0\n"
    wrong = run(sys.executable, script, "101", status=1, TRITON_DEFAULT_BACKEND="tessera", **path)
    assert "tessera._report.KernelError: error[oob-index]" in wrong.stderr
    assert "0 active drivers" in run(sys.executable, script, status=1, **path).stderr


TESTS = '''
import numpy as np, pytest, triton, triton.language as tl
from tessera import DeviceArray

assert triton.runtime.driver.active.get_current_target().backend == "tessera"  # while tests are collected, too

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

def launch(n):
    out = DeviceArray.empty(16)
    double[(1,)](DeviceArray(np.ones(16, np.float32)), out, n, BLOCK=32)
    assert triton.runtime.driver.active.get_current_target().backend == "tessera"

def test_right(tessera_report):
    launch(16)
    assert tessera_report.hbm_read_bytes == 64

def test_wrong():
    launch(17)

def test_without_kernels():
    pass
'''


def test_pytest_plugin(tmp_path):
    (tmp_path / "test_library.py").write_text(TESTS)
    out = run(sys.executable, "-m", "pytest", "-q", "-p", "tessera.pytest", "-p", "no:cacheprovider", "--tessera-triton=h100",
              str(tmp_path / "test_library.py"), status=1).stdout
    assert "1 failed, 2 passed" in out and "error[oob-index]: it reads element 16 of x_ptr" in out
    shown = out.split("short test summary")[0]
    assert "_triton_report.py" not in shown and "jit.py" not in shown, shown  # tessera's code, and Triton's
    assert "no Triton kernel ran in 1 of 3 simulated tests" in out
    both = subprocess.run([sys.executable, "-m", "pytest", "-p", "tessera.pytest", "--tessera-triton=h100", "--tessera=tpu-v5e"],
                          capture_output=True, text=True, timeout=300, check=False, env=ENVIRONMENT, cwd=tmp_path)
    assert both.returncode == 4 and "a test runs on one of them" in both.stderr
    pallas = subprocess.run([sys.executable, "-c", "import sys; sys.modules['jax'] = None; import pytest; sys.exit(pytest.main())",
                             "-p", "tessera.pytest", "--tessera=tpu-v5e"],
                            capture_output=True, text=True, timeout=300, check=False, env=ENVIRONMENT, cwd=tmp_path)
    assert pallas.returncode == 4 and "needs jax" in pallas.stderr and "--tessera-triton" in pallas.stderr
    assert "Traceback" not in pallas.stderr


def test_answers_for_cuda(capfd):
    a, c = DeviceArray(np.ones((64, 64), np.float32)), DeviceArray.empty((64, 64))
    with tessera.simulate_triton(cuda=True):
        assert "answers for \"cuda\"" in capfd.readouterr().err
        target = triton.runtime.driver.active.get_current_target()
        assert (target.backend, target.arch) == ("cuda", 90)
        matmul[(1, 1)](a, a, c, 64, 64, 64, BM=64, BN=64, BK=32, EVEN=True)
    assert c.array[0, 0] == 64
    from triton.backends import backends

    assert "nvidia" in backends


def test_interrupts(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text('''
import os, signal, threading, time, numpy as np, tessera, triton, triton.language as tl

@triton.jit
def endless(out_ptr):
    n = tl.load(out_ptr)
    while n >= 0:
        n = (n + 1) % 9
    tl.store(out_ptr, n)

def later():
    time.sleep(1)
    print("sent", flush=True)
    os.kill(os.getpid(), signal.SIGINT)

try:
    with tessera.simulate_triton():
        endless[(1,)](tessera.DeviceArray(np.full(1, -1, np.int32)))  # which ends, and compiles
        start = time.monotonic()
        threading.Thread(target=later).start()
        endless[(1,)](tessera.DeviceArray(np.zeros(1, np.int32)))
except KeyboardInterrupt as e:
    print("after", time.monotonic() - start, e)
''')
    out = run(sys.executable, str(script)).stdout
    assert "error[interrupted]" in out and "endless.py:" in out
    assert float(out.split("after ")[1].split()[0]) < 6


def test_the_tutorial_shows_an_example_that_is_run():
    page = (ROOT / "docs/tutorial_triton.md").read_text()
    example = (ROOT / "examples/triton/30_softmax_with_a_wrong_mask.py").read_text()
    kernel, launch = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert kernel in example and launch in example
    assert "".join(f"# {line}\n" for line in shown.splitlines()) in example
