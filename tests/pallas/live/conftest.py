"""Programs of JAX with Pallas kernels, live: needs jax, and the Python package that ./tessera test builds."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, os.environ.get("TESSERA_PYTHONPATH", str(ROOT / "build/release/python")))

try:
    import jax
    import tessera._xla  # noqa: F401
except ImportError as e:
    pytest.exit(f"{e}: ./tessera test installs jax and builds the package", returncode=4)
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_platforms", "cpu")
