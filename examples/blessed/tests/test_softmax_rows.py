import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "goldens/softmax_rows")]

from kernels import softmax_rows  # noqa: E402
from tessera_golden import assert_golden, load  # noqa: E402

GOLDENS = sorted(manifest.parent for manifest in (ROOT / "goldens").glob("*/*/manifest.json"))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name)
def test_softmax_rows(path):
    golden = load(path, kernel="softmax_rows")
    assert_golden(golden, softmax_rows(**golden.inputs))
