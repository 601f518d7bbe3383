"""Asks the TPU's compiler, for tessera: a line of JSON per module on standard input, one per answer on standard output.

Started by tpu_compiler.cpp with an interpreter that has jax and libtpu. The first line that comes out says which:
    {"libtpu": "0.0.42.1", "jax": "0.10.2", "library": ".../libtpu.so", "terms": "..."}, or {"missing": "..."}
Then for a line
    {"chip": "v5e", "name": "f", "body": base64 of the module, "config": {...}, "operands": [["f32", [8, 128]], ...],
     "results": [...], "aliases": [[operand, result], ...]}
comes
    {"accepted": true, "message": "", "seconds": 0.1, "vmem_bytes": 8192, "spilled_bytes": 0}
What is read is the compiler's messages and, where a folder for listings is given as an argument, the VMEM report that it
writes there on request; with "schedule" as another argument also the schedule of the kernel ("bundles", "utilization").
The module is compiled alone in its program, for one device.
"""
import glob
import json
import os
import pathlib
import re
import sys
import time

# A slice of each generation, as jax.experimental.topologies names it.
TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "7x": "tpu7x:2x2x1", "v7x": "tpu7x:2x2x1"}


def generation(chip):
    """As a device spec names it, where JAX's device kind has another name."""
    return {"tpu7x": "v7x"}.get(chip, chip)


def prepare(listings, schedule=False):
    """Before libtpu is loaded. No TPU is looked for; several processes may ask at a time."""
    os.environ.update(TPU_SKIP_MDS_QUERY="1", TPU_ACCELERATOR_TYPE="v5litepod-4", TPU_WORKER_HOSTNAMES="localhost",
                      JAX_PLATFORMS="cpu", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
    if listings:
        asked = os.environ.get("LIBTPU_INIT_ARGS", "")
        text = " --xla_jf_dump_llo_text=true" if schedule else ""
        os.environ["LIBTPU_INIT_ARGS"] = f"{asked} --xla_jf_dump_to={listings}{text}".strip()


def _library():
    import libtpu
    return os.path.join(os.path.dirname(libtpu.__file__), "libtpu.so")


def versions():
    """What there is; a missing package raises ImportError. Of JAX what compiles is imported alone: all of it takes as long as a module."""
    from importlib import metadata

    import jaxlib.xla_client  # noqa: F401
    return {"libtpu": metadata.version("libtpu"), "jax": metadata.version("jax"), "library": _library(),
            "terms": metadata.metadata("libtpu").get("License", "")}


def _context():
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import mhlo, stablehlo
    except ImportError:  # of another version
        from jax._src.interpreters import mlir
        return mlir.make_ir_context()
    registry, context = ir.DialectRegistry(), ir.Context()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    mhlo.register_mhlo_dialect(context)
    stablehlo.register_dialect(context)
    return context


class Compiler:
    def __init__(self):
        self._devices = {}

    def _device(self, chip):
        from jaxlib import xla_client

        if chip not in self._devices:
            if not xla_client.pjrt_plugin_loaded("tpu"):
                xla_client.load_pjrt_plugin_dynamically("tpu", _library())
            if not xla_client.pjrt_plugin_initialized("tpu"):
                xla_client.initialize_pjrt_plugin("tpu")
            topology = xla_client.make_tfrt_tpu_c_api_device_topology(TOPOLOGIES[chip])
            self._devices[chip] = topology._make_compile_only_devices()[0]
        return self._devices[chip]

    def compile(self, chip, program):
        """`program`: StableHLO as text. Raises what the compiler says."""
        import numpy as np
        from jaxlib import xla_client
        from jaxlib.mlir import ir

        device = self._device(chip)
        options = xla_client.CompileOptions()
        options.num_replicas = options.num_partitions = 1
        options.executable_build_options.device_assignment = xla_client.DeviceAssignment.create(
            np.array([[device.id]], np.int32))
        with _context():
            module = ir.Module.parse(program)
        device.client.compile(module, xla_client.DeviceList((device,)), options)


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _type(value):
    dtype, shape = value
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


def _row_major(values):
    return "[" + ", ".join(f"dense<{list(reversed(range(len(shape))))}> : tensor<{len(shape)}xindex>"
                           for _, shape in values) + "]"


def program_of(request):
    """A program that is the custom call alone."""
    operands, results = request["operands"], request["results"]
    config = json.loads(json.dumps(request["config"]))
    config.setdefault("custom_call_config", {})["body"] = request["body"]
    types = ", ".join(map(_type, results))
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{result if len(results) > 1 else ''}], "
        f"operand_index = {operand}, operand_tuple_indices = []>" for operand, result in request["aliases"])
    returned = ", ".join(f"%r#{j}" for j in range(len(results)))
    return f"""module @{_quoted(request["name"])} attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main({", ".join(f"%a{i}: {_type(o)}" for i, o in enumerate(operands))}) -> ({types}) {{
    %r:{len(results)} = "stablehlo.custom_call"({", ".join(f"%a{i}" for i in range(len(operands)))}) <{{
      call_target_name = "tpu_custom_call", api_version = 1 : i32, has_side_effect = true,
      backend_config = {_quoted(json.dumps(config))}, operand_layouts = {_row_major(operands)},
      result_layouts = {_row_major(results)}, output_operand_aliases = [{aliases}]}}>
      {{kernel_name = {_quoted(request["name"])}}} : ({", ".join(map(_type, operands))}) -> ({types})
    return {returned} : {types}
  }}
}}
"""


def _vmem(listings):
    """Bytes that the kernel's call allocates in VMEM and what of them is spilled registers; None: not said."""
    for file in pathlib.Path(listings).glob("*vmem_report.html"):
        text = file.read_text(encoding="utf-8", errors="replace")
        start = text.find("DATA =")
        if start < 0:
            continue
        data, _ = json.JSONDecoder().raw_decode(text[start + len("DATA ="):].lstrip())
        for name, breakdown in (data.get("hlo_breakdowns") or {}).items():  # null where none has anything in VMEM
            allocations = [a for block in breakdown["blocks"] for a in block["allocations"]]
            if name.startswith(("<", "copy")):
                continue  # a caller's sum; copies of operands into other layouts
            return (breakdown["total_size"], sum(a["size"] for a in allocations if a.get("tag", "").upper() == "SPILL"))
    return None, None


def _schedule(listings):
    """The kernel's final bundles, and how many slots of each unit they use; {}: not said."""
    for file in pathlib.Path(listings).glob("*-final_bundles.txt"):
        text = file.read_text(encoding="utf-8", errors="replace")
        if not re.search(r"/\* entry bundle: %\S+ = custom-call\(", text):
            continue  # copies of operands into other layouts, and the program around
        kernel = re.sub(r"-\d+-final_bundles\.txt$", "", file.name)
        for use in pathlib.Path(listings).glob(f"{glob.escape(kernel)}-*-final_hlo-static-per-bundle-utilization.txt"):
            return {"bundles": text, "utilization": use.read_text(encoding="utf-8", errors="replace")}
    return {}


def answer(compiler, request, listings, schedule=False):
    program = program_of(request)
    begin = time.monotonic()
    message = ""
    try:
        compiler.compile(request["chip"], program)
    except Exception as error:  # of the compiler: its verdict
        message = str(error) or type(error).__name__
    seconds = time.monotonic() - begin
    vmem, spilled = _vmem(listings) if listings and not message else (None, None)
    said = {"accepted": not message, "message": message, "seconds": seconds, "vmem_bytes": vmem, "spilled_bytes": spilled}
    if schedule and not message:
        said.update(_schedule(listings))
    if listings:
        for file in os.scandir(listings):
            os.unlink(file)
    return said


def main():
    # libtpu prints what it likes: standard output is ours alone.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message):
        print(json.dumps(message), file=answers, flush=True)
    listings = sys.argv[1] if len(sys.argv) > 1 else None
    schedule = sys.argv[2:] == ["schedule"]
    prepare(listings, schedule)
    try:
        say(versions())
    except ImportError as error:
        say({"missing": error.name or str(error)})
        return
    compiler = Compiler()
    for line in sys.stdin:
        say(answer(compiler, json.loads(line), listings, schedule))


if __name__ == "__main__":
    main()
