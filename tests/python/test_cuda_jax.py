"""tessera.cuda with arrays of JAX: what is lowered for a GPU, what is refused, and the handler itself, called with XLA's call frame."""
import ctypes
import sys

import pytest

from conftest import ROOT

BUILT = ROOT / "build/release/python"
MODULE = ROOT / "build/release/cuda/libtessera_cuda.so"
FRAME = BUILT / "libcall_frame.so"
if not (BUILT / "tessera/_cuda_calls.so").exists() or not MODULE.exists():
    pytest.skip("not built with JAX and nvcc", allow_module_level=True)
jax = pytest.importorskip("jax")
jnp = jax.numpy
import call_frame  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
import tessera  # noqa: E402

tessera.__path__.append(str(BUILT / "tessera"))  # what is compiled
from tessera import _cuda_jax, cuda  # noqa: E402

CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p)


def matmul(dtype="f32", m=48, n=64, k=32):
    return cuda.Kernel(str(MODULE), "matmul", dtype, [128, 128, 128], [m, n, k])


def lowered(function, *arrays):
    return jax.jit(function).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()


def shapes(dtype=jnp.float32, m=48, n=64, k=32):
    return jax.ShapeDtypeStruct((m, k), dtype), jax.ShapeDtypeStruct((k, n), dtype)


def test_a_call_is_lowered_for_a_gpu():
    text = lowered(matmul("bf16"), *shapes(jnp.bfloat16))
    assert text.count("stablehlo.custom_call @tessera_cuda_call") == 1
    assert 'kernel = "matmul bf16 128 128 128 of 48 64 32"' in text
    assert "(tensor<48x32xbf16>, tensor<32x64xbf16>) -> tensor<48x64xbf16>" in text


def test_a_program_of_calls_is_exported():
    def two(x, y, z):
        return matmul(m=48, n=48, k=64)(matmul()(x, y), z) + 1

    x, y = shapes()
    z = jax.ShapeDtypeStruct((64, 48), jnp.float32)
    assert lowered(two, x, y, z).count("@tessera_cuda_call") == 2
    checks = [jax.export.DisabledSafetyCheck.custom_call("tessera_cuda_call")]
    exported = jax.export.export(jax.jit(two), platforms=["cuda"], disabled_checks=checks)(x, y, z)
    assert exported.out_avals[0].shape == (48, 48) and exported.mlir_module().count("@tessera_cuda_call") == 2


def test_vmap_calls_one_after_the_other():
    x, y = jax.ShapeDtypeStruct((3, 48, 32), jnp.float32), jax.ShapeDtypeStruct((32, 64), jnp.float32)
    text = lowered(jax.vmap(matmul(), in_axes=(0, None)), x, y)
    assert "stablehlo.while" in text and "@tessera_cuda_call" in text and "tensor<3x48x64xf32>" in text


def test_other_arrays_are_refused_by_name_when_traced():
    kernel = matmul()
    x, y = shapes()
    for arrays, error, words in [
            ((y, x), ValueError, r"matmul: x is f32\[48, 32\], not f32\[32, 64\]"),
            ((x, jax.ShapeDtypeStruct(y.shape, jnp.bfloat16)), ValueError, r"y is f32\[32, 64\], not bf16\[32, 64\]"),
            ((x,), TypeError, "takes x, y, not 1 arrays")]:
        with pytest.raises(error, match=words):
            lowered(kernel, *arrays)
    with pytest.raises(TypeError, match="out= and stream= are not for arrays of JAX"):
        lowered(lambda x, y: kernel(x, y, out=x), x, y)
    with pytest.raises(TypeError, match="y is no array of JAX, but ndarray"):
        lowered(lambda x: kernel(x, __import__("numpy").ones((32, 64), "float32")), x)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="JAX has a GPU")
def test_on_the_host_it_is_refused():
    kernel = matmul()
    x, y = jnp.ones((48, 32), jnp.float32), jnp.ones((32, 64), jnp.float32)
    with pytest.raises(ValueError, match="x lies in the host's memory: move it to the GPU"):
        kernel(x, y)
    # XLA calls ours there: that of a CPU.
    with pytest.raises(Exception, match="matmul f32 128 128 128 of 48 64 32 runs on an NVIDIA GPU, and this computation on the host"):
        jax.block_until_ready(jax.jit(kernel)(x, y))


@pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX has no GPU")
def test_on_a_gpu_it_multiplies_in_jit_and_without():
    kernel = matmul()
    x, y = jax.random.normal(jax.random.key(1), (48, 32)), jax.random.normal(jax.random.key(2), (32, 64))
    z = kernel(x, y)
    assert jnp.abs(z - jnp.dot(x, y, precision="highest")).max() < 1e-4
    assert (jax.jit(lambda x, y: kernel(x, y) + 0)(x, y) == z).all()


class Handler:
    """The handler of GPUs, with a kernel that notes what it was called with."""

    def __init__(self, kernel, name, in_place=False):
        self.library, self.frame = _cuda_jax._registered(), ctypes.CDLL(str(FRAME))
        self.kernel, self.name, self.calls = kernel, name, []
        self.fails = False
        arrays, count = kernel._library.tessera_cuda_arrays(kernel._handle), len(kernel.operands)
        if in_place:
            arrays, count = (cuda._Array * 1)(cuda._Array(b"x", b"f32", (ctypes.c_int64 * 2)(8, 4), 2, 1, 1)), 1

        def call(handle, places, stream):
            self.calls.append((handle, [places[i] for i in range(count)], stream))
            return int(self.fails)

        self.words = ctypes.create_string_buffer(b"no such device")
        self.functions = CALL(call), ERROR(lambda: ctypes.addressof(self.words))
        self.library.tessera_cuda_xla_keep(name.encode(), kernel._handle, arrays, count,
                                           *(ctypes.cast(f, ctypes.c_void_p) for f in self.functions))

    def __call__(self, operands, results, name=None, stream=0x5000):
        return call_frame.call(self.frame, self.library.tessera_cuda_xla_call, name or self.name, stream, operands, results)


def test_the_handler_passes_xlas_memory_and_stream_on():
    handler = Handler(matmul(), "noted")
    x, y, o = ("f32", (48, 32), 0x1000), ("f32", (32, 64), 0x2000), ("f32", (48, 64), 0x3000)
    assert handler([x, y], [o]) is None
    assert handler.calls == [(handler.kernel._handle, [0x1000, 0x2000, 0x3000], 0x5000)]
    for operands, results, words in [
            ([y, x], [o], "noted: x is f32[48, 32], not f32[32, 64]"),
            ([x, ("bf16", (32, 64), 0x2000)], [o], "noted: y is f32[32, 64], not bf16[32, 64]"),
            ([x, y], [("f32", (48, 64, 1), 0x3000)], "noted: o is f32[48, 64], not f32[48, 64, 1]"),
            ([x], [o], "noted: no array for y"),
            ([x, y, y], [o], "noted: more arrays than it takes")]:
        assert handler(operands, results) == words
    assert "this process has no kernel 'another'" in handler([x, y], [o], name="another")
    assert len(handler.calls) == 1
    handler.fails = True
    assert handler([x, y], [o]) == "no such device"


def test_what_is_written_in_place_has_one_place():
    handler = Handler(matmul(), "in place", in_place=True)
    x = ("f32", (8, 4), 0x1000)
    assert handler([x], [x]) is None
    assert handler.calls[0][1] == [0x1000]
    assert handler([x], [("f32", (8, 4), 0x2000)]) == "in place: x is written in place, and its result lies elsewhere"
    assert len(handler.calls) == 1
