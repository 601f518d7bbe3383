"""Costs of units as tpu_compiler/unit_costs.py fits them, on kernels that are made up."""
import collections
import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tpu_compiler"))
import judge_units  # noqa: E402
import unit_costs  # noqa: E402


def product(passes, tiles, more=()):
    """A kernel of a product: 40 cycles, 2 a pass and 5 a tile."""
    kernel = unit_costs.Kernel.__new__(unit_costs.Kernel)
    kernel.times = collections.Counter({"load b8": 3, "tpu.matmul pass i8": passes, "tpu.matmul pass i8 wide": passes, "tpu.matmul weights i8": tiles,
                                        "tpu.matmul weights i8 wide": tiles, "tpu.matmul sum i8": passes, "tpu.matmul left i8": passes, **dict(more)})
    kernel.capacity = [4, 3, 4, 2, 1, 3, 1, 2]
    kernel.bundles = 40 + 2 * passes + 5 * tiles
    return kernel


@pytest.mark.parametrize("chip, own, other", [("v5e", "", " wide"), ("v6e", " wide", "")])
def test_a_pass_takes_its_matrix_unit_as_long_as_kernels_of_products_take(chip, own, other):
    kernels = [product(passes, tiles) for passes in (4, 16, 64) for tiles in (1, 3, 9)]
    costs = {row: {"MXU": 1} for kernel in kernels for row in kernel.times}
    unit_costs.occupy_matrix_units(kernels, costs, chip)
    assert costs["tpu.matmul pass i8" + own]["MXU"] == pytest.approx(4 * 2, rel=0.02)
    assert costs["tpu.matmul weights i8" + own]["MXU"] == pytest.approx(4 * 5, rel=0.02)
    assert ("MXU" in costs["tpu.matmul pass i8" + other]) == (chip == "v5e")
    # Fewer than six of a product alone: as they were.
    costs = {row: {"MXU": 1} for row in kernels[0].times}
    unit_costs.occupy_matrix_units(kernels[:5] + [product(9, 9, {"arith.addf f32": 1})] * 9, costs, chip)
    assert costs["tpu.matmul pass i8" + own]["MXU"] == 1


def weighty(kind, passes, weights, turned):
    """A kernel of products one after the other: 30 cycles, 9 a pass, 3 a register of weights and 5 of turned ones, 20 that one waits for another."""
    kernel = unit_costs.Kernel.__new__(unit_costs.Kernel)
    kernel.times = collections.Counter({f"tpu.matmul pass{kind}": passes, f"tpu.matmul weights{kind}": weights, f"tpu.matmul weights{kind} transposed": turned,
                                        f"tpu.matmul sum{kind}": 1})
    products = 1 + passes % 3
    kernel.kind, kernel.copies, kernel.phases = "products", 0, [kernel.times] + [{}] * products
    kernel.bundles = 30 + 20 * products + 9 * passes + 3 * weights + 5 * turned
    return kernel


@pytest.mark.parametrize("kind", unit_costs.WITH_WEIGHTS)
def test_weights_take_the_matrix_unit(kind):
    kernels = [weighty(kind, passes, *weights) for passes in (1, 6, 17) for n in (16, 32, 64, 256) for weights in ((n, 0), (0, n))]
    table = {"chip": "v5e", "capacity": dict.fromkeys(unit_costs.UNITS, 4), "rows": {row: {"MXU": 1} for row in kernels[0].times},
             "cycles": {"launch": 0, "operand": 0, "block": 0, "product": 0.5, "rest": 0.1}}
    unit_costs.occupy_with_weights(kernels[:19], table)  # too few
    assert table["rows"]["tpu.matmul pass" + kind]["MXU"] == 1
    unit_costs.occupy_with_weights(kernels, table)
    for row, cycles in (("pass" + kind, 9), ("weights" + kind, 3), (f"weights{kind} transposed", 5)):
        assert table["rows"][f"tpu.matmul {row}"]["MXU"] == pytest.approx(4 * cycles, rel=0.02)


def test_a_cast_of_few_bits_stands_alone_on_a_v4():
    def kernel(casts, more=()):
        k = unit_costs.Kernel.__new__(unit_costs.Kernel)
        k.times = collections.Counter({"load b8": casts, "arith.extsi i8 i32": casts, **dict(more)})
        k.ops, k.phases = [((), (1,), list(k.times.items()))], [k.times]
        k.copies = k.semaphores = 0
        k.bundles = 40 + 6 * casts
        return k
    for chip in ("v4", "v5e"):
        rows = {"load b8": {}, "arith.extsi i8 i32": {"VALU": 2, "latency": 9}, "arith.addf f32": {}, "arith.extf bf16 f32": {"VALU": 1}}
        table = {"chip": chip, "capacity": dict.fromkeys(unit_costs.UNITS, 1), "rows": rows,
                 "cycles": {"launch": 40, "operand": 0, "semaphore": 0, "block": 0, "product": 1, "rest": 0}}
        unit_costs.stand_alone([kernel(4), kernel(16), kernel(96), kernel(9, {"arith.addf f32": 99})], table)
        assert ("alone" in rows["arith.extsi i8 i32"]) == (chip == "v4")
        assert rows["arith.extf bf16 f32"] == {"VALU": 1} and "arith.extf bf16 f32 known" not in rows
        # Registers that are known are cast too.
        assert rows["arith.extsi i8 i32 known"] == (rows["arith.extsi i8 i32"] if chip == "v4" else {})
        if chip == "v4":
            assert rows["arith.extsi i8 i32"]["alone"] == pytest.approx(6, rel=0.02)
            assert unit_costs.predicted(kernel(50), table) == pytest.approx(340, rel=0.02)


@pytest.mark.parametrize("device", judge_units.DEVICES.split(","))
def test_nine_in_ten_unseen_runs_lie_in_the_intervals_of_other_draws(device):
    path = judge_units.ROOT / f"program/unit_costs/{device.removeprefix('tpu-')}.json"
    held_out = json.loads(path.read_text())["held_out"]
    rows = judge_units.unseen_of(device)
    assert judge_units.intervals_of(rows, held_out) == held_out
    inside = 0
    for seed in {row["seed"] for row in rows}:
        others = judge_units.intervals_of([row for row in rows if row["seed"] != seed], held_out)
        for row in rows:
            interval = others[judge_units.kind_of(row)]
            inside += row["seed"] == seed and interval["least"] <= row["whole"] <= interval["most"]
    assert inside >= 0.9 * len(rows)
