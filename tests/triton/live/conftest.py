"""Programs with Triton kernels, live: needs the Python package that ./tessera test builds; no JAX, no torch. Each file is
skipped where triton is not installed."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, os.environ.get("TESSERA_PYTHONPATH", str(ROOT / "build/release/python")))
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # what Triton 3.9 warns that it will change

try:
    import tessera._triton  # noqa: F401
except ImportError as e:
    pytest.exit(f"{e}: ./tessera test builds the package", returncode=4)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing that another test, or another version, compiled."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton-cache"))
