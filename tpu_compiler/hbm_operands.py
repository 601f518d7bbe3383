"""Asks XLA to leave a call's operands and results in HBM, where it leaves larger ones by itself (as pltpu.HBM does in JAX)."""
import json
import re


def leave_in_hbm(config, operands, results, prefetched):
    """Of a call with so many operands and results, the first `prefetched` of which are scalars for index maps."""
    of_call = config.setdefault("custom_call_config", {})
    of_call["input_memory_space_colors"] = [{"operand_index": i, "color": 0} for i in range(prefetched, operands)]
    of_call["output_memory_space_colors"] = [{"color": 0, "shape_index": [i]} if results > 1 else {"color": 0} for i in range(results)]


def leave_folder_in_hbm(at):
    """The same of a call's folder with its module's text."""
    config = json.loads((at / "config.json").read_text())
    meta = json.loads((at / "meta.json").read_text())
    operands, results = (len(meta[what] if what in meta else meta["custom_call"][f"{what[:-1]}_types"]) for what in ("operands", "results"))
    takes = re.search(r"func\.func @\S+?\((%.*?)\) attributes|\^bb0\((.*?)\):\n", (at / "kernel.mlir").read_text())
    refs = [ref for ref in (takes[1] or takes[2]).split("%") if "memref" in ref]
    prefetched = meta["num_dynamic_grid_bounds"] + next((i for i, ref in enumerate(refs) if "smem" not in ref), len(refs))
    leave_in_hbm(config, operands, results, prefetched)
    (at / "config.json").write_text(json.dumps(config) + "\n")
