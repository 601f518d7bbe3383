"""simulate_triton() on arrays of NumPy: results, bytes, what is wrong, with the Python line."""
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray


def line_of(text):
    """The number of the line of this file that has it."""
    lines = open(__file__).read().splitlines()
    return next(i + 1 for i, line in enumerate(lines) if text in line)


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    y = tl.load(y_ptr + i, mask=mask)
    tl.store(out_ptr + i, x + y, mask=mask)


def arrays(n=1000, dtype=np.float32):
    x = np.arange(n).astype(dtype)
    return DeviceArray(x), DeviceArray((2 * np.arange(n)).astype(dtype)), DeviceArray.empty(n, dtype)


def test_results_and_bytes():
    x, y, out = arrays()
    with tessera.simulate_triton("h100") as report:
        add[(4,)](x, y, out, 1000, BLOCK=256)
    np.testing.assert_array_equal(out.array, x.array + y.array)
    call, = report.calls
    assert call.kernel == "add" and call.json["device"] == "h100" and call.json["grid"] == [4, 1, 1]
    assert report.hbm_read_bytes == 8000 and report.hbm_write_bytes == 4000
    assert [(line["line"], line["ref"], line["read_bytes"], line["write_bytes"]) for line in call.json["traffic"]["lines"]] == [
        (line_of("x = tl.load(x_ptr + i, mask=mask)"), "x_ptr", 4000, 0),
        (line_of("y = tl.load(y_ptr + i, mask=mask)"), "y_ptr", 4000, 0),
        (line_of("tl.store(out_ptr + i, x + y, mask=mask)"), "out_ptr", 0, 4000)]
    assert call.predicted_seconds == report.predicted_seconds > 5e-6
    assert re.search(r"^add +4x1x1 +1 +\d+\.\d us .* 8,000 +4,000 +0 ", str(report), re.MULTILINE)
    assert call.to_html().startswith("<!doctype html>")


def test_hooks_are_told_of_each_launch():
    x, y, out = arrays()
    told = []
    hooks = triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook

    def tell(metadata):
        told.append(metadata.get()["name"])

    with tessera.simulate_triton("h100"):
        add[(4,)](x, y, out, 1000, BLOCK=256)
        for hook in hooks:
            hook.add(tell)
        try:
            add[(4,)](x, y, out, 1000, BLOCK=256)
        finally:
            for hook in hooks:
                hook.remove(tell)
        add[(4,)](x, y, out, 1000, BLOCK=256)
    assert told == ["add", "add"]


def test_a_view_is_all_that_a_kernel_may_reach():
    x = DeviceArray(np.arange(256, dtype=np.float32).reshape(16, 16))
    column, row, out = x[:, 0], x[3], DeviceArray(np.zeros(256, np.float32))
    with tessera.simulate_triton(views=True) as report:
        add[(1,)](row, x, out, 16, BLOCK=32)
        add[(1,)](x, column, out, 15 * 16 + 1, BLOCK=256)  # a column lies among others
        add[(1,)](DeviceArray(row.array[:0]), x, out, 0, BLOCK=16)
    assert not report.errors
    for given, n, what in (((row, x, out), 17, "it reads element 16 of x_ptr, which is a view of 16"),
                           ((x, column, out), 15 * 16 + 2, "it reads element 241 of y_ptr, which is a view of 241"),
                           ((x, x, out[128:200]), 73, "it writes element 72 of out_ptr, which is a view of 72")):
        with pytest.raises(tessera.KernelError, match=what) as wrong, tessera.simulate_triton(views=True):
            add[(1,)](*given, n, BLOCK=256)
        assert wrong.value.slug == "oob-index" and "test_simulate.py:" in str(wrong.value)
        with tessera.simulate_triton():
            add[(1,)](*given, n, BLOCK=256)


def test_modules_are_printed_as_ever():
    """Programs look at str(module), as Triton's own tests do."""
    from triton._C.libtriton import ir

    x = DeviceArray(np.ones(16, np.float32))
    with tessera.simulate_triton():
        add[(1,)](x, x, DeviceArray(np.ones(16, np.float32)), 16, BLOCK=16)
        context = ir.context()
        assert str(ir.builder(context).create_module()).startswith("module {")


def test_views_of_one_allocation_meet():
    x = DeviceArray(np.ones(100, np.float32))
    with pytest.raises(tessera.KernelError, match="two programs access element 40") as wrong, tessera.simulate_triton(views=True):
        add[(4,)](x[0:80], x[0:80], x[40:], 60, BLOCK=16)
    assert wrong.value.slug == "race"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int64, np.uint32])
def test_types(dtype):
    x, y, out = arrays(100, dtype)
    with tessera.simulate_triton():
        add[(1,)](x, y, out, 100, BLOCK=128)
    np.testing.assert_array_equal(out.array, x.array + y.array)


def test_the_same_bits_for_every_number_of_threads():
    results = []
    for threads in (1, 2, 3):
        x, y, out = arrays(100_000)
        with tessera.simulate_triton(threads=threads) as report:
            add[(391,)](x, y, out, 100_000, BLOCK=256)
        results.append((out.array.tobytes(), report.calls[0].json["traffic"]))
    assert results[0] == results[1] == results[2]


def test_out_of_bounds():
    x, y, out = arrays()
    with pytest.raises(tessera.KernelError) as wrong, tessera.simulate_triton():
        add[(4,)](x, y, out, 1010, BLOCK=256)
    assert wrong.value.slug == "oob-index" and wrong.value.kind == "kernel"
    assert "error[oob-index]: it reads element 1000 of x_ptr, which has 1000" in str(wrong.value)
    assert f"test_simulate.py:{line_of('x = tl.load(x_ptr + i, mask=mask)')}  x = tl.load(x_ptr + i, mask=mask)" in str(wrong.value)
    assert not isinstance(wrong.value, KeyboardInterrupt)


def test_a_view_is_a_part_of_its_allocation():
    x = DeviceArray(np.arange(64, dtype=np.float32))
    out = DeviceArray.empty(16)
    with tessera.simulate_triton():
        add[(1,)](x[16:32], x[32:], out, 16, BLOCK=16)
    np.testing.assert_array_equal(out.array, np.arange(16, 32) + np.arange(32, 48))


@triton.jit
def shift(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + 1, mask=i + 1 < n)
    tl.store(x_ptr + i, x, mask=i + 1 < n)  # what the program before has read


def test_race_and_memory_as_it_was():
    x = DeviceArray(np.arange(64, dtype=np.float32))
    with tessera.simulate_triton(checks="report") as report:
        shift[(4,)](x, 64, BLOCK=16)
    assert [e.slug for e in report.errors] == ["race"]
    np.testing.assert_array_equal(x.array, np.arange(64))
    with tessera.simulate_triton() as report:
        shift[(1,)](x, 64, BLOCK=64)
    np.testing.assert_array_equal(x.array[:63], np.arange(1, 64))


def test_undefined_memory():
    x, _, out = arrays()
    with pytest.raises(tessera.KernelError) as wrong, tessera.simulate_triton():
        add[(4,)](x, DeviceArray.empty(1000), out, 1000, BLOCK=256)
    assert wrong.value.slug == "uninit-read"
    assert f":{line_of('y = tl.load(y_ptr + i, mask=mask)')}" in str(wrong.value)


def test_what_one_launch_wrote_another_may_read():
    x, y, middle = arrays()
    out = DeviceArray.empty(1000)
    with tessera.simulate_triton():
        add[(4,)](x, y, middle, 1000, BLOCK=256)
        add[(4,)](middle, x, out, 1000, BLOCK=256)
    np.testing.assert_array_equal(out.array, 4 * x.array)
    half = DeviceArray.empty(1000)
    with pytest.raises(tessera.KernelError, match="500 of 1,000 elements of out_ptr"), tessera.simulate_triton():
        add[(2,)](x, y, half, 500, BLOCK=256)
        add[(4,)](half, x, out, 1000, BLOCK=256)


def test_what_numpy_writes_is_defined():
    x, y, out = arrays()
    y = DeviceArray.empty(1000)
    y.array[:] = 1
    with tessera.simulate_triton():
        add[(4,)](x, y, out, 1000, BLOCK=256)
    np.testing.assert_array_equal(out.array, x.array + 1)


def test_an_argument_is_no_numpy_array():
    x, y, out = arrays()
    with pytest.raises(TypeError) as error, tessera.simulate_triton():
        add[(4,)](x.array, y, out, 1000, BLOCK=256)
    assert "tessera.DeviceArray" in error.value.__notes__[0]


def test_read_only():
    x, y, _ = arrays()
    out = np.zeros(1000, np.float32)
    out.flags.writeable = False
    with pytest.raises(tessera.KernelError, match="out_ptr is read-only"), tessera.simulate_triton():
        add[(4,)](x, y, DeviceArray(out), 1000, BLOCK=256)
    x.array.flags.writeable = False
    with tessera.simulate_triton():
        add[(4,)](x, y, DeviceArray.empty(1000), 1000, BLOCK=256)


@triton.jit
def scalars(out_ptr, flag, whole, wide, real, none, pair, TWICE: tl.constexpr):
    value = whole.to(tl.float32) + real + pair[0] + tl.load(pair[1])
    if flag:
        value += 100
    if none is not None:
        value += tl.load(none)
    tl.store(out_ptr, value * 2 if TWICE else value)
    tl.store(out_ptr + 1, (wide >> 32).to(tl.float32))


def test_scalars_none_and_tuples():
    out, one = DeviceArray.empty(2), DeviceArray(np.ones(1, np.float32))
    with tessera.simulate_triton():
        scalars[(1,)](out, True, 7, 5 << 32, 0.25, None, (3, one), TWICE=True)
        assert out.array.tolist() == [2 * (100 + 7 + 0.25 + 3 + 1), 5]
        scalars[(1,)](out, False, -7, 5 << 32, 0.25, one, (1, one), TWICE=False)
        assert out.array.tolist() == [-7 + 0.25 + 1 + 1 + 1, 5]


def test_arguments_that_are_refused():
    x, y, out = arrays()

    class Bare:
        dtype = np.dtype(np.float32)

        def data_ptr(self):
            return x.data_ptr()

    with tessera.simulate_triton():
        with pytest.raises(ValueError, match="does not say how large its allocation is"):
            add[(4,)](Bare(), y, out, 1000, BLOCK=256)
        wrapped = triton.reinterpret(x, tl.float32)
        add[(4,)](wrapped, y, out, 1000, BLOCK=256)
        with pytest.raises(tessera.KernelError, match="a grid has extents from 0"):
            add[(-1,)](x, y, out, 1000, BLOCK=256)
    with pytest.raises(TypeError, match="numpy.ndarray, not list"):
        DeviceArray([1])
    with pytest.raises(ValueError, match="tpu-v5e is no GPU"), tessera.simulate_triton("tpu-v5e"):
        pass
    with pytest.raises(ValueError, match="checks='some'"), tessera.simulate_triton(checks="some"):
        pass
    with pytest.raises(ValueError, match="they do not nest"), tessera.simulate_triton(), tessera.simulate_triton():
        pass
    with tessera.simulate_triton():
        add[(4,)](x, y, out, 1000, BLOCK=256)


@triton.jit
def of_hardware(out_ptr):
    tl.store(out_ptr, tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


def test_what_is_not_built_is_refused_with_its_line():
    with pytest.raises(tessera.KernelError) as wrong, tessera.simulate_triton():
        of_hardware[(1,)](DeviceArray.empty(1, np.int32))
    assert wrong.value.kind == "unsupported" and f":{line_of('mov.u32 $0, %smid;')}" in str(wrong.value)
    assert "of the register %smid" in str(wrong.value)


@triton.jit
def endless(out_ptr):
    n = tl.load(out_ptr)
    while n >= 0:
        n = (n + 1) % 9
    tl.store(out_ptr, n)


def test_time_limit():
    with pytest.raises(tessera.KernelError) as wrong, tessera.simulate_triton(time_limit=2):
        endless[(1,)](DeviceArray(np.zeros(1, np.int32)))
    assert wrong.value.slug == "time-limit" and re.search(r"test_simulate.py:\d+", str(wrong.value))


def test_prints(capfd):
    with tessera.simulate_triton() as report:
        speak[(2,)](7)
    assert capfd.readouterr().out.count("n is") == 2
    assert report.calls[0].printed.count("n is") == 2


@triton.jit
def speak(n):
    tl.device_print("n is", n)


def test_a_simulation_without_kernels_says_so():
    with tessera.simulate_triton() as report:
        pass
    assert str(report) == "no Triton kernel ran in this simulation: the program took another path"


def test_never_active_by_itself():
    """Beside Triton's own drivers, and without JAX and torch."""
    program = """
import sys, triton, tessera
from triton.runtime import driver
with tessera.simulate_triton():
    assert driver.active.get_current_target().backend == "tessera"
assert type(driver._active).__name__ != "TesseraDriver"
try:
    print(driver.active)
except RuntimeError as e:
    assert "0 active drivers" in str(e), e
assert not {"jax", "torch"} & set(sys.modules), "imported"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False,
                          env={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0, done.stderr
