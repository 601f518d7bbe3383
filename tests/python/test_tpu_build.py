"""tessera build --target tpu: JAX reads and verifies every kernel's module, and names the C++ line where it does not."""
import importlib.util
import os
import re

import pytest

from conftest import ROOT

jax = pytest.importorskip("jax", minversion="0.10")
KERNELS = sorted(path.stem for path in (ROOT / "kernels/entries").glob("*.hpp"))


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kernel", KERNELS)
def test_jax_verifies_every_case(tessera, tmp_path, kernel):
    if kernel == "all_to_all":
        text = tessera("build", kernel, "--target", "tpu", "--out", "b", status=3)
        assert "error[unsupported]: all_to_all has no TPU build: it has loops that run as often as data says" in text
        return
    cases = len(re.findall(r"^  +\d+ +", tessera("show", kernel).split("cases")[1], re.M))
    assert cases >= 3
    for case in range(cases):
        for dtype in ("f32", "bf16") if case == 0 else ("f32",):
            folder = tmp_path / f"{case}_{dtype}"
            tessera("build", kernel, "--case", str(case), "--dtype", dtype, "--target", "tpu", "--out", str(folder))
            module = load(folder, kernel).module()  # parses and verifies
            text = module.operation.get_asm(enable_debug_info=True)
            assert f"kernels/{kernel}.hpp" in text


@pytest.mark.skipif(not os.environ.get("TESSERA_TPU_PYTHON"), reason="TESSERA_TPU_PYTHON names no interpreter with libtpu")
@pytest.mark.parametrize("kernel", [k for k in KERNELS if k != "all_to_all"])
def test_libtpu_compiles_every_kernel(tessera, tmp_path, kernel):
    # TPUs have no fused multiply-add.
    tessera("build", kernel, "--target", "tpu", "--out", "b", *(["--no-fused"] if kernel == "flash_attention" else []))
    text = tessera("check", "b", "--device", "tpu-v4,tpu-v5e,tpu-v5p,tpu-v6e,tpu-v7x")
    assert text.count("accepted") == 5


def test_what_is_asked_amiss(tessera):
    assert "no target 'gpu'" in tessera("build", "matmul", "--target", "gpu", "--out", "b", status=2)
    assert "h100 is no TPU" in tessera("build", "matmul", "--device", "h100", "--target", "tpu", "--out", "b", status=2)
    assert not os.path.exists("b")
