"""Programs of JAX with Pallas kernels, live: needs jax, and the Python package that ./tessera test builds."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, os.environ.get("TESSERA_PYTHONPATH", str(ROOT / "build/release/python")))

jax = pytest.importorskip("jax", reason="no jax")
pytest.importorskip("tessera._xla", reason="no tessera package: ./tessera test builds it")
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_platforms", "cpu")
