import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from kernels import row_sums  # noqa: E402


@pytest.mark.parametrize("m, n", [(64, 128), (256, 512)])
def test_sums(m, n):
    x = np.arange(m * n, dtype=np.float32).reshape(m, n) % 7
    assert (np.asarray(row_sums(x)) == x.sum(1, keepdims=True)).all()


@pytest.mark.tessera_reference(lambda x: x.sum(1, keepdims=True))
@pytest.mark.parametrize("inputs", ["uniform", "cancellation"])
def test_within_the_bound_of_the_real_sum(tessera_check, inputs):
    tessera_check(row_sums, np.ones((128, 256), np.float32), inputs=inputs)
