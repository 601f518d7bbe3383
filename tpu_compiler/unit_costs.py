"""Fits what ops cost on a TPU core to the schedules of small kernels, and says how far off it is on others.

    python tpu_compiler/unit_costs.py fit TESSERA UNITS... --table program/unit_costs/v5e.json [--chip v5e]
    python tpu_compiler/unit_costs.py judge TESSERA CALLS... --table program/unit_costs/v5e.json [--keep]
    python tpu_compiler/unit_costs.py schedules TESSERA CORPUS --chip v5e > tests/pallas/schedules_v5e.txt
    python tpu_compiler/unit_costs.py windows TESSERA FEW --table program/unit_costs/v5e.json [--keep]
    python tpu_compiler/unit_costs.py grids TESSERA PIPELINES BODIES... --table program/unit_costs/v5e.json [--keep]

UNITS and CALLS are folders of calls with a schedule.json, as tpu_compiler/unit_kernels.py leaves them. What a call's ops ask of
units, `tessera show CALL --units` says; how cycles follow from a table is in program/unit_costs.hpp, and once more here, for
kernels of one stretch of code, by slots alone. `fit` writes the table, with --rows those alone that a pattern finds; `judge` prints how the bundles that tessera predicts by its tables compare with the compiler's, and
with --keep writes the interval that nine in ten others lie in, with 90 % confidence (of kernels with grids, loops and branches
judge_units.py does that). `windows` fits what one takes that is moved once to kernels of few registers (unit_kernels.py --only few_), by tessera's predictions. `schedules` prints such a file. `grids` says how well a step of the pipeline is predicted for kernels that
do next to nothing in it (draw_kernels.py --pipelines PIPELINES), by schedules that tessera plays (TESSERA_TPU_PYTHON), and for
BODIES, whose schedules judge_units.py keeps; with --keep it fits it to them. Needs numpy.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np

import ask

KNOWS_NARROW_MASKS = ("v4",)  # generations whose compiler knows masks of vectors of less than 32 bits
WIDE = ("v6e", "v7x", "tpu7x")  # generations whose matrix units have 256 rows and columns
UNITS = ["MXU", "XLU", "VALU", "VPOP", "EUP", "load", "store", "scalar"]
PLACES = ["multiply", "add"]  # of VALU, of a v4
LISTED = [0, 1, 2, 3, 4, 5, 7, 9]  # columns of a listing; loads count what is filled, stores what is spilled
# Read off listings, a slot each. A slice is a sum, its shifts are scalars. A wait takes no places: it looks at a semaphore and takes from it.
READ = {"scalar": {"scalar": 1, "latency": 1}, "memref.load": {"scalar": 1, "latency": 1}, "memref.load narrow": {"scalar": 10, "latency": 13}, "memref.store": {"scalar": 1, "latency": 1},
        "tpu.memref_slice": {"scalar": 1, "latency": 0.5}, "tpu.memref_slice dynamic": {"scalar": 1, "latency": 0.5},
        "tpu.sem_signal": {"scalar": 1, "latency": 1}, "tpu.sem_wait": {"scalar": 1, "latency": 2}, "tpu.device_id": {"scalar": 1, "latency": 1}}
# Of a copy: bundles from its place to its begin and of a wait, with which own kernels that copy are nearest (55 runs of 14 of them); scalars to begin it, and
# what its compiler counts of it where it looks whether to branch; scalars to check that an end in HBM lies in its array, one of which the compiler does not
# know that it does, the same in VMEM; scalars more of a copy by a predicate, and of a load. By 2 and 5 copies of pages of seven kinds, which are checked seven
# bundles an end, address and predicate partly beside.
OF_COPY = {"v4": (0, 2, 2, 1, 12.2, 12.2, 12.2, 12.2, 4, 3.3), "v5e": (0, 1, 5, 5, 0, 12, 0, 11.4, 2, 2.4), "v5p": (0, 2, 2, 3, 12.2, 12.2, 12.2, 12.2, 4, 2.6),
           "v6e": (0, 1, 3, 3, 0, 8.6, 11.3, 11.3, 4, 3), "v7x": (0, 2, 2, 3, 12.2, 12.2, 12.2, 12.2, 4, 2.6)}
# Of 16 bits that lie in tiles of 16 rows in VMEM nine words are stored instead, a bundle each, one of which lies beside the copy's begin.
OF_OTHER_TILES = 16
SEMAPHORE = {"v4": 5}  # bundles that look at its end whether one of the kernel's own is zero; 4 of other generations


# Cycles by which the compiler places operations, of listings in which chains of additions fill every bundle beside: from a push to its pop, from
# one push of EUP to the next, and loads and stores of a bundle together (the most that 64 registers of sums of one to four arrays show). "pass": of
# eight cycles that eight rows take a matrix unit of 128 x 128 those bundles in which something begins, of large products.
SCHEDULES = {"v4": {"eup": 7, "eup_every": 2, "reduce": 79, "permute": 69, "reduce_every": 8, "memory": 2, "product": 86, "push_words": 4, "push_words_turned": 4, "pass": 7.9}, "v5e": {"eup": 8, "eup_every": 1, "reduce": 116, "permute": 96, "reduce_every": 8, "memory": 4, "places": 2, "product": 124, "push_words": 2, "push_words_turned": 2.5, "pass": 7.2},
             "v5p": {"eup": 10, "eup_every": 1, "reduce": 116, "permute": 96, "reduce_every": 8, "memory": 4, "places": 2, "product": 124, "push_words": 2, "push_words_turned": 2.5, "pass": 7.2}, "v6e": {"eup": 15, "eup_every": 1, "reduce": 137, "permute": 123, "memory": 4, "product": 192, "queue": 1, "turn": 33, "turn_every": 4, "reduce_every": 4},
             "v7x": {"eup": 12, "eup_every": 1, "reduce": 144, "permute": 128, "memory": 4, "product": 212, "adds_up": 1, "packs_words": 1, "turn": 33, "turn_every": 4, "reduce_every": 4}}


# What eight tiles of two rows of 16 bits take of a whole register that is stored in them: listings of 60 kernels. A v4's goes through memory.
PARTED = {"v4": {"VALU": 1, "load": 2, "store": 1, "latency": 3}, "v5e": {"VALU": 9.5, "latency": 3}, "v5p": {"VALU": 9.5, "latency": 3},
          "v6e": {"VALU": 4, "latency": 4}, "v7x": {"VALU": 4, "latency": 4}}
PARTED_WORDS = {"v4": {"load": 1, "store": 1, "latency": 3}, **{chip: {"VALU": 8.5, "latency": 3} for chip in ("v5e", "v5p")}, **{chip: {"VALU": 5, "latency": 5} for chip in ("v6e", "v7x")}}

# Bundles that a product in the highest precision takes less if its weights are constants but for few registers (5 own kernels a generation).
OF_FEW_WEIGHTS = {"v4": 2, "v5e": 5, "v5p": 2, "v6e": 4}


def read_off(chip):
    begin, wait, scalars, operations, *of_checks, of_copy, of_load = OF_COPY[chip]
    checks = {}
    for end, n in zip(("hbm", "hbm unsure", "vmem", "vmem unsure"), of_checks):
        for behind in ("", " behind vectors"):
            checks[f"tpu.enqueue_dma {end}{behind}"] = {"scalar": n, "operations": 0}
        checks[f"tpu.enqueue_dma {end} again"] = {"scalar": 2 if n else 0, "operations": 0}  # a bundle
    for behind in ("", " behind vectors"):
        checks[f"tpu.enqueue_dma other tiles{behind}"] = {"scalar": OF_OTHER_TILES if chip == "v7x" else 0, "operations": 0}
    predicated = {f"{op} predicated": {"scalar": n, "operations": 0} for op, n in (("tpu.enqueue_dma", of_copy), ("memref.load", of_load))}
    through_memory = {"load": 1, "store": 1, "latency": 3}  # of each register of an array of few rows that is put together with others
    # A register of what is rotated down the sublanes by less than one is turned, on a v4 by a row at a time, and put together of two.
    rotate = {"tpu.dynamic_rotate b32 sublanes": {"VALU": 1 if chip == "v4" else 2, "latency": 2},
              "tpu.dynamic_rotate b32 sublanes down": {"VALU": 1, "latency": 4} if chip == "v4" else {}}
    few = {f"few rows b{bits}": {"VALU": 2, "latency": 6} if chip in WIDE else {**through_memory, **({"VALU": 1} if bits == 16 else {})} for bits in (16, 32)}
    few["few rows b16 parted"] = PARTED[chip]
    few["few rows b32 parted"] = PARTED_WORDS[chip]
    # A register of two half tiles side by side is parted and put together on a v4; a v5e and a v5p load half of one and half of the other.
    halves = {"odd tiles b16": {}, "halves b16": {} if chip in WIDE else {"VALU": 3} if chip == "v4" else {"VALU": 1, "load": 1}}
    # A divisor's reciprocal, a step of Newton's, what is no normal number, and the product: probes of x / y, x / column, x / sum(x), 8 to 32 registers.
    divide = {} if chip in WIDE else {"arith.divf f32": {"VALU": 14, "VPOP": 1, "EUP": 2 if chip == "v4" else 1, **({} if chip == "v4" else {"latency": 6})}}
    return {**READ, **rotate, **few, **halves, **divide, **checks, **predicated, "tpu.enqueue_dma": {"scalar": scalars, "operations": operations, "latency": begin},
            "tpu.wait_dma2": {"scalar": 1, "latency": wait}}


# Of a v4's two places of VALU one alone multiplies floats, the other alone adds them and shifts: parts of a row's VALU that listings have. (Chains of two ops on
# 64 registers: products or sums alone, left shifts alone, and sums with shifts take a bundle each, products with sums or shifts half of one.)
OF_PLACES = {r"arith\.mulf f32": (1, 0), r"arith\.(addf|subf|negf) f32|arith\.sh\w+ i32|vector\.multi_reduction\.add f32": (0, 1),
             r"vector\.multi_reduction\.add f32 sublanes": (0, 0.3), r"math\.exp f32": (0.5, 0), r"math\.log f32": (0.5, 0), r"math\.rsqrt f32": (4 / 9, 1 / 9),
             r"math\.sqrt f32": (5 / 12, 1 / 12), r"math\.erf f32": (15 / 38, 12 / 38), r"math\.log1p f32": (1 / 3, 2 / 9), r"arith\.divf f32": (3 / 14, 1 / 7),
             r"tpu\.matmul pass f32 highest": (0, 3 / 4), r"tpu\.matmul (left|weights) f32 highest( of few weights| transposed)*": (0, 1 / 2)}


def share_places(costs, chip):
    for row, cost in costs.items() if chip == "v4" else ():
        for pattern, (multiply, add) in OF_PLACES.items():
            if re.fullmatch(pattern, row) and "VALU" in cost:
                cost.update({name: round(part * cost["VALU"], 3) for name, part in (("multiply", multiply), ("add", add)) if part})


def add_few_weights(costs, chip):
    for row in ("tpu.matmul left f32 highest", "tpu.matmul left f32 highest transposed"):
        if row in costs:
            latency = max(0, costs[row].get("latency", 0) - OF_FEW_WEIGHTS.get(chip, 0))
            costs[row + " of few weights"] = {**costs[row], "latency": round(latency, 1)}


WAITS = ("tpu.wait_dma2", "tpu.sem_wait")


def asked(tessera, call, chip=None):
    """What the call's ops ask of units, kept beside it; as this generation's compiler counts them."""
    kept = call / "units.json"
    if not kept.exists():
        done = subprocess.run([tessera, "show", str(call), "--units"], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        kept.write_text(done.stdout)
    units = json.loads(kept.read_text())
    known = units.pop("blocks_of_known_narrow_masks", None)
    if known and chip in KNOWS_NARROW_MASKS:
        units["blocks"] = known
    of_two_cores = units.pop("moves_of_two_cores", None)
    if of_two_cores and chip == "v5p":
        units.update(of_two_cores)
    if chip in SHARES:
        name_shared_products(units)
    return units


# Generations whose compiler gives an odd product of a stretch to both matrix units.
SHARES = ("v7x", "tpu7x")
PUSHED = re.compile(r"tpu\.matmul weights f32 highest wide.*")


def name_shared_products(units):
    """Rows of their own of the product that both matrix units share: see program/unit_costs.cpp."""
    names = list(units["rows"])

    def shared(row):
        name = names[row] + " shared"
        if not PUSHED.fullmatch(names[row]):
            return row
        if name not in units["rows"]:
            units["rows"].append(name)
        return units["rows"].index(name)
    for block in units["blocks"]:
        products = [op for op in block["ops"] if any(names[row].startswith("tpu.matmul sum") for row, _ in op["rows"])]
        single = [op for op in products if (weights := [n for row, n in op["rows"] if names[row].startswith("tpu.matmul weights f32 highest")])
                  and weights[0] == weights[-1]]
        if len(products) % 2 == 1 and single:
            single[-1]["rows"] = [(shared(row), n) for row, n in single[-1]["rows"]]


def ends_phase(row):
    return row.startswith(("vector.multi_reduction", "tpu.matmul pass", "tpu.transpose", "tpu.reduce_index"))


def phases_of(ops):
    """Rows and times by how many waits, and how many reductions, products and transposes, come before them."""
    after, phases, waited = {}, collections.defaultdict(collections.Counter), 0
    for reads, makes, rows in ops:
        phase = max((after[v] for v in reads if v in after), default=0)
        waited += any(row in WAITS for row, _ in rows)
        for row, times in rows:
            phases[waited, phase][row] += times
        for v in makes:
            after[v] = phase + any(ends_phase(row) for row, _ in rows)
    return list(phases.values())


class Kernel:
    """A kernel of one stretch of code."""

    def __init__(self, call, units, schedule):
        self.call, self.windows = call, units["windows"]
        self.name = call.name
        self.family = call.name.split("_", 1)[1]
        self.kind = units["of"]
        self.bundles = schedule["bundles"]
        self.slots = np.array([schedule["slots"][c] for c in LISTED], float)
        self.capacity = [schedule["capacity"][c] for c in LISTED]
        self.semaphores = units.get("semaphores", 0)
        names = units["rows"]
        # What a load of half tiles takes is the product's that reads it.
        self.ops = [(op["reads"], op["makes"], [(names[row], times) for row, times in op["rows"] if names[row] not in ("halves b16", "odd tiles b16")])
                    for block in units["blocks"] for op in block["ops"]]
        self.times = collections.Counter()
        for _, _, rows in self.ops:
            for row, times in rows:
                self.times[row] += times
        # XLA keeps some operands in VMEM, which the kernel then need not copy; others it copies by itself.
        self.copies = max(0, schedule["copies"] - self.times["tpu.enqueue_dma"])
        self.phases = phases_of(self.ops)

    def path(self, latency):
        """The rows of its longest chain, and its length."""
        done = {}
        best = wait = (0.0, ())
        for reads, makes, rows in self.ops:
            is_wait = any(row in WAITS for row, _ in rows)  # nothing that follows begins before it, nothing before it is left
            at, chain = max([best if is_wait else wait, *(done[v] for v in reads if v in done)], key=lambda d: d[0])
            for row, _ in rows:
                at, chain = at + latency.get(row, 1.0), (chain, row)
            for v in makes:
                done[v] = (at, chain)
            if at >= best[0]:
                best = (at, chain)
            if is_wait:
                wait = (at, chain)
        counts = collections.Counter()
        chain = best[1]
        while chain:
            chain, row = chain
            counts[row] += 1
        return counts, best[0]


def kernels_of(tessera, folders, chip):
    calls = [c for folder in folders for c in sorted(folder.iterdir()) if (c / "schedule.json").exists()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda c: asked(tessera, c, chip), calls))
    refused = branch = 0
    kernels = []
    for call, units in zip(calls, found):
        if units is None:
            refused += 1
        elif len(units["blocks"]) > 1:
            branch += 1
        else:
            kernels.append(Kernel(call, units, json.loads((call / "schedule.json").read_text())))
    print(f"{len(kernels)} kernels of one stretch of code; tessera refuses {refused}, {branch} more branch", file=sys.stderr)
    return kernels


def least_squares(a, b, x, sweeps=100):
    """x >= 0 that makes a x close to b: coordinate descent."""
    gram, aim = a.T @ a, a.T @ b
    gram[np.diag_indices_from(gram)] += 1e-9
    for _ in range(sweeps):
        before = x.copy()
        for j in range(len(x)):
            x[j] = max(0.0, x[j] + (aim[j] - gram[j] @ x) / gram[j, j])
        if np.max(np.abs(x - before)) < 1e-7:
            break
    return x


def robust(a, b, weight):
    """The same, with kernels that fit badly counted less."""
    x = least_squares(a * weight[:, None], b * weight, np.zeros(a.shape[1]))
    for _ in range(4):
        off = np.abs(a @ x - b) * weight
        scale = max(1e-3, 2 * np.median(off))
        w = weight / np.sqrt(np.maximum(1, off / scale))
        x = least_squares(a * w[:, None], b * w, x)
    return x


def work_of(kernel, table):
    """Over its phases: of products and vector work the most, the least, and what other vector units have; see unit_costs.hpp."""
    costs = {row: np.array([cost.get(u, 0) / table["capacity"][u] for u in UNITS] + [cost.get(place, 0) for place in PLACES]) for row, cost in table["rows"].items()}
    alone = {row: cost["alone"] for row, cost in table["rows"].items() if "alone" in cost}
    work = np.zeros(3)
    for phase in kernel.phases:
        work[0] += sum(times * alone[row] for row, times in phase.items() if row in alone)
        matrix, *vector = sum((times * costs[row] for row, times in phase.items() if row in costs), np.zeros(len(UNITS) + len(PLACES)))
        vector, places = vector[:-len(PLACES)], vector[-len(PLACES):]
        vector[UNITS.index("VALU") - 1] = max(vector[UNITS.index("VALU") - 1], *places)
        work += max(matrix, *vector), min(matrix, max(vector)), sum(vector) - max(vector)
    return work


def cycles_of(kernel, table):
    latency = {row: cost.get("latency", 0) for row, cost in table["rows"].items()}
    return float(work_of(kernel, table) @ (1, table["cycles"]["product"], table["cycles"]["rest"])) + kernel.path(latency)[1]


def predicted(kernel, table):
    fixed = table["cycles"]
    return fixed["launch"] + fixed["operand"] * kernel.copies + fixed["semaphore"] * kernel.semaphores + fixed["block"] + cycles_of(kernel, table)


def is_of_other_width(row, chip):
    """A pass is counted by tiles of 128 and by halves of 256: those of the matrix unit's own width cost."""
    of_wide = row.startswith("tpu.matmul apart") or row.startswith(("tpu.matmul pass", "tpu.matmul weights")) and " wide" in row
    return of_wide and chip not in WIDE


def occupy_matrix_units(kernels, costs, chip, others=None):
    """A pass takes its matrix unit for longer than the bundle that begins it: as many slots as kernels of products take cycles, but for
    `others` of each. Of WITH_WEIGHTS registers of weights take it too."""
    capacity = kernels[0].capacity[UNITS.index("MXU")]
    for kind in {r.removeprefix("tpu.matmul sum") for r in costs if r.startswith("tpu.matmul sum")}:
        narrow = [r for r in costs if r in (f"tpu.matmul weights{kind}", f"tpu.matmul weights{kind} transposed")]
        row, tiles = (f"tpu.matmul pass{kind} wide", [f"tpu.matmul weights{kind} wide"]) if chip in WIDE else (f"tpu.matmul pass{kind}", narrow)
        chosen = [k for k in kernels if k.times[row] and not any(r.startswith(("arith", "math", "vector")) for r in k.times) and all(
            kind == r.removeprefix("tpu.matmul sum") for r in k.times if r.startswith("tpu.matmul sum"))
            and f"tpu.matmul left{kind} transposed" not in k.times]
        if len(chosen) < 6 or kind in WITH_WEIGHTS:
            continue
        times = np.array([[others is None, k.times[row], sum(k.times[r] for r in tiles)] for k in chosen], float)
        bundles = np.array([k.bundles for k in chosen], float)
        _, a_pass, a_tile = robust(times, bundles - ([others(k) for k in chosen] if others else 0), 1 / bundles)
        if chip in WIDE:
            for r in (f"tpu.matmul pass{kind}", *narrow):
                costs.get(r, {}).pop("MXU", None)
        costs[row]["MXU"] = round(capacity * float(a_pass), 2)
        for r in tiles:
            costs[r]["MXU"] = round(capacity * float(a_tile), 2)


WITH_WEIGHTS = (" f32 highest", " bf16", " f32")
# Slots of MXU of a pass, where kernels of one product alone show none: what JAX's kernels of several and own ones are nearest with.
LEAST_OF_PASS = {"v7x": {"tpu.matmul pass bf16 wide": 0.5}}


def occupy_with_weights(kernels, table):
    """A push of a register of weights takes its matrix unit for some bundles, of which a listing shows one; in the highest precision each
    is pushed six times: as many slots as kernels of products take cycles, for each register of weights and each pass."""
    costs, fixed = table["rows"], table["cycles"]
    wide = " wide" if table["chip"] in WIDE else ""
    for kind in WITH_WEIGHTS:
        passes = f"tpu.matmul pass{kind}{wide}"
        weights = [f"tpu.matmul weights{kind}{wide}", f"tpu.matmul weights{kind}{wide} transposed"]
        shared = [f"{row} shared" for row in weights if f"{row} shared" in costs]
        apart = [f"tpu.matmul apart{kind}"] if table["chip"] in SHARES and f"tpu.matmul apart{kind}" in costs else []
        rows = [passes, *weights, *shared, *apart]
        chosen = [k for k in kernels if k.times[passes] and k.kind == "products" and not any(r.startswith(("arith", "math", "vector")) for r in k.times)
                  and all(r == f"tpu.matmul sum{kind}" for r in k.times if r.startswith("tpu.matmul sum")) and f"tpu.matmul left{kind} transposed" not in k.times]
        if len(chosen) < 20:
            continue
        for row in (f"tpu.matmul {what}{kind}{width}" for what in ("pass", "weights") for width in ("", " transposed", " wide", " wide transposed")):
            costs.get(row, {}).pop("MXU", None)
        for row in shared + apart:
            costs[row].pop("MXU", None)
        vector = np.array([work_of(k, table) @ (fixed["product"], 0, fixed["rest"]) for k in chosen])  # beside the matrix unit
        vector += [fixed["launch"] + fixed["operand"] * k.copies + fixed["block"] for k in chosen]
        bundles = np.array([k.bundles for k in chosen], float)
        # What one product waits for another is no slot of either.
        _, _, *slots = robust(np.array([[1, len(k.phases), *(k.times[row] for row in rows)] for k in chosen], float), bundles - vector, 1 / bundles)
        for row, each in zip(rows, slots):
            least = LEAST_OF_PASS.get(ask.generation(table["chip"]), {}).get(row, 0)
            costs[row]["MXU"] = max(least, round(table["capacity"]["MXU"] * float(each), 2))


# Casts to and from less than 16 bits, and selects of these, go through memory, register by register, each in a region of code of its own.
CASTS = re.compile(r"arith\.(?!select)\w+ (?=.*\b(i8|i4|f8\w+)\b)(?!.*\bbool\b)\S+ \S+$")
SELECTS = re.compile(r"arith\.select (i8|f8\w+)")
OF_KNOWN_SELECT = 12.1  # bundles of a register whose mask is true all over (128 x 512 of int8: 303, half of them masked 206)
ALONE = {"v4": re.compile(CASTS.pattern[:-1] + r"|arith\.select (i8|f8\w+)")}


def cast_known(costs, chip):
    """A cast that stands alone is made of registers too that hold constants, or the same as others."""
    for row in [row for row in costs if CASTS.fullmatch(row)]:
        costs[f"{row} known"] = dict(costs[row]) if chip in ALONE else {}
    for row in [row for row in costs if SELECTS.fullmatch(row)]:
        costs[f"{row} known"] = {"alone": OF_KNOWN_SELECT} if chip in ALONE else {}


def stand_alone(kernels, table):
    """The cycles in which such a row is alone, a time: of kernels that have nothing else but memory and masks."""
    for row in sorted({row for k in kernels for row in k.times if table["chip"] in ALONE and ALONE[table["chip"]].fullmatch(row)}):
        chosen = [k for k in kernels if k.times[row] and all(r == row or r.startswith(("load ", "store ", "arith.cmpi")) for r in k.times)]
        if len(chosen) < 2:
            continue
        table["rows"][row] = {}
        others = np.array([predicted(k, table) for k in chosen])
        bundles = np.array([k.bundles for k in chosen], float)
        each, = robust(np.array([[k.times[row]] for k in chosen], float), bundles - others, 1 / bundles)
        table["rows"][row] = {"alone": round(float(each), 2)}
    cast_known(table["rows"], table["chip"])


ROTATES = re.compile(r"(vector\.extract_strided_slice|tpu\.concatenate) b\d+ lanes")


def occupy_rotators(kernels, costs):
    """A rotation of lanes takes its XLU for several bundles, of which a listing shows some: as many slots as kernels that rotate words
    take cycles, whatever a register holds."""
    rotates = [row for row in costs if ROTATES.fullmatch(row)]
    rotations = [[sum(k.times[row] for row in rotates if (" b32 " in row) == words) for words in (True, False)] for k in kernels]
    chosen = [(k, words) for k, (words, others) in zip(kernels, rotations) if words and not others]
    if len(chosen) < 6:
        return
    bundles = np.array([k.bundles for k, _ in chosen], float)
    _, each = robust(np.array([[1.0, words] for _, words in chosen]), bundles, 1 / bundles)
    for row in rotates:
        costs[row]["XLU"] = round(kernels[0].capacity[UNITS.index("XLU")] * float(each), 2)


def fit(kernels, chip, compiler):
    every = sorted({row for k in kernels for row in k.times})
    rows = [row for row in every if not is_of_other_width(row, chip)]
    at = {row: i for i, row in enumerate(rows)}
    times = np.zeros((len(kernels), len(rows)))
    for i, k in enumerate(kernels):
        for row, n in k.times.items():
            if row in at:
                times[i, at[row]] = n
    always = np.array([[1.0, k.copies] for k in kernels])
    costs = {row: {} for row in every}
    for u, unit in enumerate(UNITS):
        slots = np.array([k.slots[u] for k in kernels])
        x = robust(np.hstack([always, times]), slots, 1 / (4 + slots))
        for row, c in zip(rows, x[2:]):
            if c >= 0.004:
                costs[row][unit] = round(float(c), 3)
    occupy_matrix_units(kernels, costs, chip)
    occupy_rotators(kernels, costs)
    table = {"chip": chip, "compiler": compiler, "knows_narrow_masks": chip in KNOWS_NARROW_MASKS, "capacity": dict(zip(UNITS, kernels[0].capacity)),
             "schedule": SCHEDULES[chip], "rows": costs}
    work = np.array([work_of(k, table) for k in kernels])
    bundles = np.array([k.bundles for k in kernels], float)
    # Latencies show where one phase waits for another: few kernels have several, which count for more.
    weight = np.array([4 if len(k.phases) > 2 else 1 for k in kernels]) / bundles
    latency = {row: 1.0 for row in rows}
    for _ in range(4):
        chains = np.zeros((len(kernels), len(rows)))
        for i, k in enumerate(kernels):
            for row, n in k.path(latency)[0].items():
                if row in at:
                    chains[i, at[row]] = n
        x = robust(np.hstack([always, work[:, 1:], chains]), bundles - work[:, 0], weight)
        latency = dict.fromkeys(every, 0.0) | {row: float(c) for row, c in zip(rows, x[4:])}
    for row in rows:
        if latency[row] >= 0.05:
            costs[row]["latency"] = round(latency[row], 1)
    table["cycles"] = {"launch": round(x[0], 1), "semaphore": SEMAPHORE.get(chip, 4), "operand": round(x[1], 1), "ends": 0, "block": 0, "jump": 0, **dict.fromkeys(STEP, 0),
                       "product": round(x[2], 2), "rest": round(x[3], 2)}
    occupy_with_weights(kernels, table)
    stand_alone(kernels, table)
    costs.update(read_off(ask.generation(chip)))
    add_few_weights(costs, ask.generation(chip))
    share_places(costs, ask.generation(chip))
    return table


def refit(kernels, table, pattern):
    """The rows that the pattern finds, by the kernels that have them; others keep what the table says."""
    found = sorted({row for k in kernels for row in k.times if re.search(pattern, row)})
    rows = [row for row in found if not is_of_other_width(row, table["chip"])]
    kernels = [k for k in kernels if any(row in k.times for row in rows)]
    costs = table["rows"]
    costs.update({row: {} for row in found})
    known = {row: cost for row, cost in costs.items() if row not in rows}
    always = np.array([[1.0, k.copies] for k in kernels])
    times = np.array([[float(k.times[row]) for row in rows] for k in kernels])
    costs.update({row: {} for row in rows})
    for u, unit in enumerate(UNITS):
        slots = np.array([k.slots[u] for k in kernels])
        of_others = np.array([sum(n * known.get(row, {}).get(unit, 0) for row, n in k.times.items()) for k in kernels])
        x = robust(np.hstack([always, times]), np.maximum(0, slots - of_others), 1 / (4 + slots))
        for row, c in zip(rows, x[2:]):
            if c >= 0.004:
                costs[row][unit] = round(float(c), 3)
    if any(row.startswith("tpu.matmul") for row in rows):
        without = {**table, "rows": {row: cost for row, cost in costs.items() if not row.startswith("tpu.matmul")}}
        occupy_matrix_units(kernels, costs, table["chip"], lambda k: predicted(k, without))
        occupy_with_weights(kernels, table)
    if any(ROTATES.fullmatch(row) for row in rows):
        occupy_rotators(kernels, costs)
    bundles = np.array([k.bundles for k in kernels], float)
    fixed = table["cycles"]
    work = np.array([work_of(k, table) @ (1, fixed["product"], fixed["rest"]) for k in kernels]) + fixed["launch"] + fixed["operand"] * always[:, 1]
    latency = {row: cost.get("latency", 0) for row, cost in known.items()} | {row: 1.0 for row in rows}
    for _ in range(4):
        paths = [k.path(latency)[0] for k in kernels]
        of_others = np.array([sum(n * latency.get(row, 1.0) for row, n in path.items() if row not in rows) for path in paths])
        x = robust(np.array([[float(path[row]) for row in rows] for path in paths]), bundles - work - of_others, 1 / bundles)
        latency.update(zip(rows, map(float, x)))
    for row in rows:
        if latency[row] >= 0.05:
            costs[row]["latency"] = round(latency[row], 1)
    stand_alone(kernels, table)
    add_few_weights(costs, table["chip"])
    share_places(costs, table["chip"])
    return kernels


def predicted_by(tessera, kernel, table):
    """What tessera predicts, by the table that it has; of windows that XLA keeps in VMEM without what copies take. None: it refuses the kernel, or XLA keeps
    them all."""
    chip = table["chip"]
    done = subprocess.run([tessera, "run", str(kernel.call), "--device", "tpu-" + chip, "--timing", "units", "--cores", "1", "--dry", "--no-check", "--json", "-"],
                          capture_output=True, text=True)
    if done.returncode != 0 or kernel.copies == 0:
        return None
    device = json.loads((pathlib.Path(__file__).resolve().parent.parent / f"memory_model/devices/tpu-{chip}.json").read_text())
    cycles = json.loads(done.stdout)["timeline"]["compute_seconds"] * device["figures"]["model_clock"]["value"]
    return cycles - table["cycles"]["operand"] * max(0, kernel.windows - kernel.copies)


def fit_windows(tessera, kernels, table):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda k: predicted_by(tessera, k, table), kernels))
    each = [(k.bundles - p) / k.copies for k, p in zip(kernels, found) if p]
    table["cycles"]["operand"] = round(table["cycles"]["operand"] + float(np.median(each)), 2)
    print(f"{len(each)} kernels; a window takes {np.median(each):+.2f}, then {table['cycles']['operand']}")


def judged(kernels, table, predict, show=12):
    """Ratios schedule / prediction, by how far off."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(predict, kernels))
    kernels, found = zip(*[(k, p) for k, p in zip(kernels, found) if p])
    ratios = np.array([k.bundles / p for k, p in zip(kernels, found)])
    off = np.maximum(ratios, 1 / ratios) - 1
    print(f"{len(kernels)} kernels: half within {100 * np.median(off):.0f} %, nine in ten within {100 * np.quantile(off, 0.9):.0f} %, "
          f"worst {1 + off.max():.1f} x")
    families = collections.defaultdict(list)
    for k, o in zip(kernels, off):
        families[k.family].append(o)
    for family, all_of in sorted(families.items(), key=lambda f: -np.median(f[1]))[:show]:
        print(f"  {family}: {len(all_of)} kernels, median {100 * np.median(all_of):.0f} %, worst {100 * max(all_of):.0f} %")
    for i in np.argsort(-off)[:show]:
        k = kernels[i]
        print(f"  {k.name}: {k.bundles} bundles, {found[i]:.0f} predicted; {dict(k.times)}")
    return kernels, ratios


def most_left_out(n, part=0.1, chance=0.1):
    """Of n kernels, how many an interval may leave out and still have, but for this chance, all but this part of others (Wilks)."""
    left_out, below, exactly = 0, 0.0, (1 - part) ** n  # of a binomial distribution
    while below + exactly <= chance:
        below += exactly
        exactly *= (n - left_out) / (left_out + 1) * part / (1 - part)
        left_out += 1
    return left_out


FREE, MOST = 14, 29  # as program/unit_costs.cpp has them
STEP = {"step": lambda u: 1, "window": lambda u: u["brought"], "check": lambda u: u["checks"], "skip": lambda u: u["skipping"], "still": lambda u: u["still"], "dim": lambda u: u["dims"], "index": lambda u: u["indices"],
        "carried": lambda u: max(0, u["words"] + u["moving"] - FREE), "kept": lambda u: max(0, u["words"] - MOST),
        "map": lambda u: u["map_loads"], "map_op": lambda u: u["map_op_slots"], "map_again": lambda u: u["map_again_slots"],
        "chosen": lambda u: u["choices"], "ragged": lambda u: u["ragged"]}  # what a step of the pipeline takes, each

TURNS = 2  # of a pipeline more than steps


def count_steps(call, units, table, steps):
    """Notes of a call what STEP counts."""
    def slots(ops):
        return sum(n * (table["rows"][row].get("scalar", 0) if row in table["rows"] else 1) for row, n in ops.items())
    all_ends = list(ends_beyond(call, units))
    ends = [(rate, last, beyond) for rate, (last, beyond) in zip(units["rates"], all_ends) if rate > 0]
    turns = steps / (steps + TURNS)  # what ends beyond its array is copied once for each of its blocks
    brought = [turns * rate if beyond else 1 for rate, _, beyond in ends]
    checked = [is_checked or last > 0 for is_checked, rate, (last, _) in zip(units["checked"], units["rates"], all_ends) if rate > 0]
    units.update(choices=sum(is_chosen and beyond == 0 for is_chosen, (_, beyond) in zip(units["chosen"], all_ends)), ragged=turns * sum(rate * last for rate, last, _ in ends), skipping=sum(beyond > 0 for _, _, beyond in ends),
                 brought=sum(brought), checks=sum(n for n, is_checked in zip(brought, checked) if is_checked), map_op_slots=slots(units["map_ops"]),
                 map_again_slots=slots(units["map_again"]))


def arrays_of(call):
    """Extents and bits of elements of the call's operands and results."""
    meta = json.loads((call / "meta.json").read_text())
    if "operands" not in meta:  # a corpus's
        types = [t for what in ("operand", "result") for t in meta["custom_call"][f"{what}_types"]]
        found = [re.search(r"((?:\d+x)*)(\w+)>", t).groups() for t in types]
        arrays = [([int(n) for n in shape.split("x") if n], dtype) for shape, dtype in found]
    else:
        arrays = [(a["shape"], a["dtype"]) for what in ("operands", "results") for a in meta[what]]
    return [(shape, int(re.search(r"\d+", dtype)[0]) if dtype not in ("bool", "i1") else 8) for shape, dtype in arrays]


def units_of_tiles(shape, bits):
    """Elements of a tile in HBM along each dim, as memory_model/moved_bytes.hpp has it."""
    if len(shape) == 1:
        return [128 * max(1, 32 // bits)]
    rows = 32 if bits == 8 and shape[-2] % 32 == 0 else max(1, 32 // bits)
    while rows < min(8, shape[-2]):
        rows *= 2
    return [1] * (len(shape) - 2) + [rows, 128]


def ends_beyond(call, units):
    """Of each of the call's windows the dims whose last block of several ends beyond its array's tiles, and of those with one block too."""
    def tiles(n, unit):
        return -(-n // unit)
    windows = len(units["bounds"])
    for (shape, bits), block in zip(arrays_of(call)[-windows:], units["bounds"]):
        found = [n > b for n, b, unit in zip(shape, block, units_of_tiles(shape, bits)) if tiles(n, unit) % tiles(b, unit) != 0]
        yield sum(found), len(found)


def parallel_cells(call):
    """Of a grid."""
    module = (call / "kernel.mlir").read_text() if (call / "kernel.mlir").exists() else ""
    bounds = re.search(r"iteration_bounds = array<i64: ([^>]*)>", module)
    kinds = re.search(r"dimension_semantics = \[(.*?)\]", module)
    extents = zip(kinds[1].split(","), bounds[1].split(",")) if bounds and kinds else []
    return int(np.prod([max(1, int(n)) for kind, n in extents if "parallel" in kind]))


def cores(call, device):
    """The compiler shares parallel cells among a v5p's two cores; a v4's it does not."""
    return 2 if device == "tpu-v5p" and parallel_cells(call) > 1 else 1


def of_busiest(call, device):
    """The part of all cells that the core has which has most."""
    cells = parallel_cells(call)
    return -(-cells // cores(call, device)) / cells


def body_cycles(units, table):
    """Of one step, each stretch once."""
    kernel = Kernel.__new__(Kernel)
    cycles = 0
    for block in units["blocks"]:
        kernel.ops = [(op["reads"], op["makes"], [(units["rows"][row], n) for row, n in op["rows"]]) for op in block["ops"]]
        kernel.phases = phases_of(kernel.ops)
        cycles += cycles_of(kernel, table)
    return cycles


def played_pipeline(tessera, call, chip):
    """Of a kernel that does next to nothing: the cycles that its schedule issues; None: it is refused, or cannot be played."""
    played = call / f"played_{chip}.json"
    if not played.exists():
        done = subprocess.run([tessera, "run", str(call), "--device", "tpu-" + chip, "--timing", "compiler", "--dry", "--no-check",
                               "--json", "-"], capture_output=True, text=True)
        schedule = json.loads(done.stdout).get("compiled_schedule") if done.returncode == 0 else None
        played.write_text(json.dumps(schedule and schedule["issued_cycles"]) + "\n")
    return json.loads(played.read_text())


def of_grids(tessera, folders, table, fits):
    """Of kernels that do next to nothing in some steps, what they issue; of those that judge_units.py has judged, the bundles of
    scalars alone, which are their bodies' too: as many for each scalar and each branch. The pipeline takes two turns more."""
    a, b, body, real = [], [], [], []
    for call in (call for folder in folders for call in sorted(folder.iterdir()) if (call / "meta.json").exists()):
        units = asked(tessera, call, table["chip"])
        judged_one = call / f"schedule_tpu-{table['chip']}.json"
        if units is None or any(n < 1 for n in units["grid"]):
            continue
        steps = int(np.prod(units["grid"])) // cores(call, "tpu-" + table["chip"])
        count_steps(call, units, table, steps)
        of_step = [(steps + TURNS) * of(units) for of in STEP.values()]
        if judged_one.exists():
            schedule = json.loads(judged_one.read_text())
            if not schedule or steps < 3 or "tpu.enqueue_dma" in units["rows"]:
                continue
            scalars = sum(n for block in units["blocks"] for op in block["ops"] for row, n in op["rows"]
                          if units["rows"][row].startswith(("scalar", "memref")))
            a.append([*of_step, steps * scalars, steps * sum(block["branches"] for block in units["blocks"])])
            b.append(schedule["overhead"])
            body.append(-table["cycles"]["ends"])
        else:
            issued = played_pipeline(tessera, call, table["chip"])
            if issued is None:
                continue
            a.append([*of_step, 0, 0])
            b.append(issued)
            body.append(table["cycles"]["launch"] - table["cycles"]["ends"] + steps * body_cycles(units, table))
        real.append(judged_one.exists())
    a, b, body, real = np.array(a, float), np.array(b, float), np.array(body), np.array(real)
    x = robust(a, b - body, 1 / b)
    if fits:
        table["cycles"].update({name: round(float(c), 1) for name, c in zip(STEP, x)})
    x[:len(STEP)] = [table["cycles"][name] for name in STEP]
    ratios = b / (body + a @ x)
    off = np.maximum(ratios, 1 / ratios) - 1
    print({name: table["cycles"][name] for name in STEP}, "; of bodies a scalar and a branch", np.round(x[len(STEP):], 1))
    for what, some in (("do next to nothing", off[~real]), ("do something", off[real])):
        if len(some):
            print(f"{len(some)} kernels that {what}: half within {100 * np.median(some):.0f} %, nine in ten within {100 * np.quantile(some, 0.9):.0f} %, "
                  f"worst {1 + some.max():.2f} x")


def interval(ratios):
    """Of measured by predicted cycles: what nine in ten others lie in."""
    left_out = most_left_out(len(ratios)) // 2
    ordered = np.sort(ratios)
    return {"of": len(ratios), "least": round(float(ordered[left_out]), 2), "most": round(float(ordered[-1 - left_out]), 2)}


KINDS = ("copies", "products", "moves", "plain")  # of program/unit_costs.hpp
FEW = 22  # with fewer no interval has nine in ten others with 90 % confidence


def hull(*intervals):
    return {"of": sum(i["of"] for i in intervals), "least": min(i["least"] for i in intervals), "most": max(i["most"] for i in intervals)}


def intervals_by_kind(kinds, ratios):
    """Where there are few of a kind that of all as well."""
    of_all, found = {**interval(ratios), "of": 0}, {}
    for kind in KINDS:
        some = [r for k, r in zip(kinds, ratios) if k == kind]
        found[kind] = of_all if not some else interval(some) if len(some) >= FEW else hull(of_all, interval(some))
    return found


def print_schedules(tessera, corpus, chip, compiler):
    print(f"# Cycles in which bundles are issued, of the modules of ../shared/mosaic-corpus on a {chip}: {compiler},\n"
          f"# tessera run MODULE --device tpu-{chip} --timing compiler --json -, compiled_schedule.issued_cycles.")
    for call in sorted(corpus.iterdir()):
        done = subprocess.run([tessera, "run", str(call), "--device", "tpu-" + chip, "--timing", "compiler", "--dry", "--no-check", "--json", "-"],
                              capture_output=True, text=True)
        schedule = json.loads(done.stdout or "{}").get("compiled_schedule")
        if schedule:
            print(call.name, round(schedule["issued_cycles"]))


def write(path, table):
    order = ["chip", "compiler", "knows_narrow_masks", "capacity", "schedule", "cycles", "held_out", "whole"]
    lines = [f'"{key}": {json.dumps(table[key])}' for key in order]
    rows = ",\n".join(f"  {json.dumps(row)}: {json.dumps(cost)}" for row, cost in sorted(table["rows"].items()))
    path.write_text("{" + ",\n".join(lines) + ',\n"rows": {\n' + rows + "\n}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "judge", "windows", "grids", "schedules"])
    parser.add_argument("tessera")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--chip", default="v5e")
    parser.add_argument("--compiler", default="libtpu 0.0.42.1")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--rows", help="fit: those alone whose names this finds")
    arguments = parser.parse_args()
    if arguments.what == "schedules":
        return print_schedules(arguments.tessera, arguments.folders[0], arguments.chip, arguments.compiler)
    if arguments.what == "grids":
        table = json.loads(arguments.table.read_text())
        of_grids(arguments.tessera, arguments.folders, table, arguments.keep)
        return write(arguments.table, table) if arguments.keep else None
    table = json.loads(arguments.table.read_text()) if arguments.rows or arguments.what in ("judge", "windows") else {}
    kernels = kernels_of(arguments.tessera, arguments.folders, table.get("chip", arguments.chip))
    if arguments.what == "windows":
        fit_windows(arguments.tessera, kernels, table)
        return write(arguments.table, table) if arguments.keep else None
    if arguments.rows:
        kernels = refit(kernels, table, arguments.rows)
    elif arguments.what == "fit":
        table = fit(kernels, arguments.chip, arguments.compiler)
        before = json.loads(arguments.table.read_text()) if arguments.table.exists() else {}
        table["held_out"] = before.get("held_out", {f"{name} {kind}": {"of": 0, "least": 0.5, "most": 2.0} for name in ("stretch", "module") for kind in KINDS})
        table["whole"] = before.get("whole", {f"{name} {kind}": {"of": 0, "least": 1, "most": 1} for name in ("stretch", "module") for kind in KINDS})
        for name in (*STEP, "block", "jump", "spill"):
            table["cycles"][name] = before.get("cycles", {}).get(name, 0)
    if arguments.what == "fit":
        write(arguments.table, table)
    by_tessera = arguments.what == "judge"  # and by this file's own, without schedules of registers, where costs were fitted
    kernels, ratios = judged(kernels, table, (lambda k: predicted_by(arguments.tessera, k, table)) if by_tessera else lambda k: predicted(k, table))
    kept = [table["held_out"][f"stretch {k.kind}"] for k in kernels]
    print(f"in the interval that the table has: {sum(k['least'] <= r <= k['most'] for k, r in zip(kept, ratios))} of {len(ratios)}")
    if arguments.keep:
        table["held_out"].update({f"stretch {kind}": i for kind, i in intervals_by_kind([k.kind for k in kernels], ratios).items()})
        write(arguments.table, table)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # whoever reads has seen enough; what was fitted is written by then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
