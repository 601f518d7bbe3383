"""What kernels take of an SM, by what Triton's own compiler makes of them for the GPU."""
import numpy as np
import pytest

pytest.importorskip("triton")

import tessera
import triton
import triton.language as tl
from tessera import DeviceArray
from tessera.triton_backend import resources
from triton.runtime.errors import OutOfResources


@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.arange(0, BM)
    s = tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + r[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * BN + s[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + r[:, None] * BN + s[None, :], acc)


def launch(stages, block_k, device="h100"):
    """Of blocks of 128 x block_k and block_k x 128 in f16; what was compiled."""
    a = DeviceArray(np.ones((128, 256), np.float16))
    b = DeviceArray(np.ones((256, 128), np.float16))
    c = DeviceArray.empty((128, 128))
    with tessera.simulate_triton(device, resources=True):
        compiled = product[(1,)](a, b, c, 256, BM=128, BN=128, BK=block_k, num_stages=stages, num_warps=4)
    assert (c.array == 256).all()
    return compiled


def test_stages_of_blocks_lie_in_shared_memory():
    compiled = launch(2, 64)
    stage = 2 * (128 * 64 + 64 * 128)  # bytes: two blocks of f16
    assert 2 * stage <= compiled.metadata.shared < 2 * stage + 2048
    assert 32 < compiled.n_regs <= 255 and compiled.n_spills == 0


def test_more_shared_memory_than_the_device_has_is_out_of_resources():
    launch(5, 64)  # the good twin: 160 KiB of 227
    with pytest.raises(OutOfResources, match="shared memory, Required: .*, Hardware limit: 232448"):
        launch(8, 64)


def test_a_limit_is_the_device_s():
    with pytest.raises(OutOfResources, match="shared memory"):
        launch(5, 64, "l4")  # 128 KiB, of 99


def test_autotuning_leaves_out_what_does_not_fit():
    configurations = [triton.Config({"BK": 64}, num_stages=stages, num_warps=4) for stages in (8, 2)]
    tuned = triton.autotune(configurations, key=["K"])(product)
    a = DeviceArray(np.ones((128, 256), np.float16))
    b = DeviceArray(np.ones((256, 128), np.float16))
    c = DeviceArray.empty((128, 128))
    with tessera.simulate_triton(resources=True):
        tuned[(1,)](a, b, c, 256, BM=128, BN=128)
    assert tuned.best_config.num_stages == 2
    assert (c.array == 256).all()


def test_without_being_asked_nothing_is_known():
    a = DeviceArray(np.ones((128, 256), np.float16))
    b = DeviceArray(np.ones((256, 128), np.float16))
    with tessera.simulate_triton():
        compiled = product[(1,)](a, b, DeviceArray.empty((128, 128)), 256, BM=128, BN=128, BK=64, num_stages=8)
    assert compiled.n_regs == 0


def test_registers_of_warps_are_given_in_units():
    assert resources.most_threads(32) == 1024
    assert resources.most_threads(64) == 1024
    assert resources.most_threads(65) == 896
    assert resources.most_threads(255) == 256
