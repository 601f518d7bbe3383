"""tessera.cuda: what a call checks before it reaches a GPU, and what it says where there is none."""
import ctypes
import importlib.util
import sys

import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
from tessera import cuda  # noqa: E402

MODULE = ROOT / "build/release/cuda/libtessera_cuda.so"
needs_module = pytest.mark.skipif(not MODULE.exists(), reason=f"no {MODULE}: it needs nvcc")


def matmul(dtype="f32", **changed):
    sizes = {"m": 48, "n": 64, "k": 32, **changed}
    return cuda.Kernel(str(MODULE), "matmul", dtype, [128, 128, 128], list(sizes.values()))


def has_gpu():
    try:
        count = ctypes.c_int(0)
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0 and ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(
            ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


class OnGpu:
    """Says that it lies on a GPU."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


@needs_module
def test_a_kernel_says_what_it_takes():
    assert repr(matmul()) == "<tessera kernel matmul: x: f32[48, 32], y: f32[32, 64], o: f32[48, 64]>"
    assert [(o.name, o.read, o.written) for o in matmul().operands] == [("x", True, False), ("y", True, False), ("o", False, True)]
    assert [o.dtype for o in matmul("bf16").operands] == ["bf16"] * 3


@needs_module
def test_other_arrays_are_refused_by_name():
    x, y, o = np.ones((48, 32), np.float32), np.ones((32, 64), np.float32), np.ones((48, 64), np.float32)
    kernel = matmul()
    for arrays, out, error, words in [
            ((OnGpu(x.T.copy()), OnGpu(y)), OnGpu(o), ValueError, r"matmul: x is f32\[48, 32\], not f32\[32, 48\]"),
            ((OnGpu(x), OnGpu(y.astype(np.int32))), OnGpu(o), ValueError, r"y is f32\[32, 64\], not i32\[32, 64\]"),
            ((OnGpu(x), OnGpu(np.ones((64, 32), np.float32).T)), OnGpu(o), ValueError, "rows of y lie apart: .contiguous"),
            ((x, OnGpu(y)), OnGpu(o), ValueError, "x lies in the host's memory: move it to the GPU"),
            ((OnGpu(x), OnGpu(y)), o, ValueError, "o lies in the host's memory"),
            ((OnGpu(x), OnGpu(y)), None, TypeError, "out= says where to write"),
            ((OnGpu(x), OnGpu(y)), (OnGpu(o), OnGpu(o)), TypeError, "writes o, not 2 arrays"),
            ((OnGpu(x),), OnGpu(o), TypeError, "takes x, y, not 1 arrays"),
            ((OnGpu(x), [1.0]), OnGpu(o), TypeError, "y is no array on a GPU, but list")]:
        with pytest.raises(error, match=words):
            kernel(*arrays, out=out)


@needs_module
def test_what_the_module_has_not_is_said():
    with pytest.raises(ValueError, match="no matmul in f32 with these tiles: tessera build matmul --target cuda"):
        cuda.Kernel(str(MODULE), "matmul", "f32", [128, 128, 120], [48, 64, 32])
    with pytest.raises(ValueError, match="all_reduce runs on several devices"):
        cuda.Kernel(str(MODULE), "all_reduce", "bf16", [64, 256], [4, 64, 256])


@needs_module
def test_prefetched_arrays_are_given_where_they_are_drawn():
    sizes = [3, 2, 2, 128, 300, 64, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]  # ragged lengths
    with pytest.raises(ValueError, match="kv_lengths is prefetched: give its elements"):
        cuda.Kernel(str(MODULE), "flash_attention", "bf16", [128, 128, 64, 0, 0, 0], sizes)
    kernel = cuda.Kernel(str(MODULE), "flash_attention", "bf16", [128, 128, 64, 0, 0, 0], sizes, {"kv_lengths": [300, 17, 0]})
    assert [o.name for o in kernel.operands] == ["q", "k", "v", "o"]
    with pytest.raises(ValueError, match=r"kv_lengths lie in \[0, kv_len\]"):
        cuda.Kernel(str(MODULE), "flash_attention", "bf16", [128, 128, 64, 0, 0, 0], sizes, {"kv_lengths": [301, 17, 0]})


@needs_module
@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_without_a_gpu_a_call_says_so():
    arrays = [OnGpu(np.ones(shape, np.float32)) for shape in ((48, 32), (32, 64), (48, 64))]
    with pytest.raises(RuntimeError, match=r"matmul\(m=48, n=64, k=32\): cuda.*: cudaError"):
        matmul()(*arrays[:2], out=arrays[2])


def test_what_the_program_compiled_is_read(tmp_path, monkeypatch):
    program = tmp_path / "tessera"
    program.write_text('#!/bin/sh\n[ "$3" = bn=7 ] && { echo "error[no-backend]: why" >&2; exit 2; }\n'
                       'printf "softmax_rows f32 m=64 n=700, bm=3 bn=704: 40 registers a thread, compiled before\\n/x/y.so\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("TESSERA", str(program))
    assert cuda._compiled("softmax_rows", ("m=64",), "f32") == ("/x/y.so", [3, 704], [64.0, 700.0])
    with pytest.raises(ValueError, match="no-backend.: why"):
        cuda._compiled("softmax_rows", ("bn=7",), "f32")
    monkeypatch.setenv("TESSERA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="no program `tessera` on PATH"):
        cuda._compiled("softmax_rows", ("m=65",), "f32")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None or not has_gpu(), reason="no torch, or no GPU")
@needs_module
def test_torch_tensors_are_multiplied_in_place_and_in_graphs():
    import torch

    kernel = matmul(m=301, n=203, k=407)  # rows that tensor maps do not take
    x, y = torch.randn(301, 407, device="cuda"), torch.randn(407, 203, device="cuda")
    wanted = x.double() @ y.double()

    def off(z):
        return (z.double() - wanted).abs().max().item()

    assert off(kernel(x, y)) < 1e-3
    o = torch.zeros(301, 203, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, out=o)
    for _ in range(3):
        o.zero_()
        graph.replay()
        assert off(o) < 1e-3
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert off(kernel(x, y, out=o)) < 1e-3
    storage = torch.randn(301 * 407 + 1, device="cuda")
    moved = storage[1:].view(301, 407)  # not at a multiple of 16 bytes
    moved.copy_(x)
    assert off(kernel(moved, y)) < 1e-3
    with pytest.raises(ValueError, match="lies in the host's memory"):
        kernel(x.cpu(), y)
