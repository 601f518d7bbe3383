"""Costs of units as tpu_compiler/unit_costs.py fits them, on kernels that are made up."""
import collections
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tpu_compiler"))
import unit_costs  # noqa: E402


def product(passes, tiles, more=()):
    """A kernel of a product: 40 cycles, 2 a pass and 5 a tile."""
    kernel = unit_costs.Kernel.__new__(unit_costs.Kernel)
    kernel.times = collections.Counter({"load b16": 3, "tpu.matmul pass bf16": passes, "tpu.matmul pass bf16 wide": passes, "tpu.matmul weights bf16": tiles,
                                        "tpu.matmul weights bf16 wide": tiles, "tpu.matmul sum bf16": passes, "tpu.matmul left bf16": passes, **dict(more)})
    kernel.capacity = [4, 3, 4, 2, 1, 3, 1, 2]
    kernel.bundles = 40 + 2 * passes + 5 * tiles
    return kernel


@pytest.mark.parametrize("chip, own, other", [("v5e", "", " wide"), ("v6e", " wide", "")])
def test_a_pass_takes_its_matrix_unit_as_long_as_kernels_of_products_take(chip, own, other):
    kernels = [product(passes, tiles) for passes in (4, 16, 64) for tiles in (1, 3, 9)]
    costs = {row: {"MXU": 1} for kernel in kernels for row in kernel.times}
    unit_costs.occupy_matrix_units(kernels, costs, chip)
    assert costs["tpu.matmul pass bf16" + own]["MXU"] == pytest.approx(4 * 2, rel=0.02)
    assert costs["tpu.matmul weights bf16" + own]["MXU"] == pytest.approx(4 * 5, rel=0.02)
    assert ("MXU" in costs["tpu.matmul pass bf16" + other]) == (chip == "v5e")
    # Fewer than six of a product alone: as they were.
    costs = {row: {"MXU": 1} for row in kernels[0].times}
    unit_costs.occupy_matrix_units(kernels[:5] + [product(9, 9, {"arith.addf f32": 1})] * 9, costs, chip)
    assert costs["tpu.matmul pass bf16" + own]["MXU"] == 1
