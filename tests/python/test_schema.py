"""--json of C++ kernels has the published schema."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from run_schema import complaints  # noqa: E402


@pytest.mark.parametrize("words", [
    ("matmul", "--case", "1"), ("matmul", "--dry"), ("matmul", "--case", "1", "--device", "h100"), ("matmul", "--case", "1", "--device", "tpu-v7x"),
    ("ring_all_gather", "--devices", "4", "--schedule", "explore:3"), ("flash_attention", "--case", "1", "--dtype", "bf16")])
def test_json_is_as_the_schema_says(tessera, words):
    assert complaints(json.loads(tessera("run", *words, "--json", "-"))) == []
