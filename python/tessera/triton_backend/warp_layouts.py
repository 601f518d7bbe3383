"""Which lane of which warp has which element in each access of a kernel to global memory, and how many bytes an instruction takes:
what Triton's own compiler chooses for the GPU. No GPU is needed.

Run as a process of its own, which what crashes there ends alone: {"ttir": a module's text, "arch": 90, "options": {...}} on
standard input, on standard output a list in the order of the module's tt.load, tt.store and tt.atomic_*: for each the layouts
with which the compiled kernel makes that access, one after the other (triton/sectors.hpp has the format). With folders of recorded
launches as arguments: writes each one's layouts.json into the folder OUT, beside links to the rest:
python warp_layouts.py OUT FOLDER...
"""
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

_ACCESS = re.compile(r"\b(tt\.load|tt\.store|tt\.atomic_\w+|ttg\.async_copy_global_to_local)\b")
_LOAD_OR_STORE = re.compile(r"(?<![a-z])(?:ld|st)\.global[\w:.]*?(?:\.v(\d+))?\.b(\d+)")
_COPY = re.compile(r"(?<![a-z])cp\.async\.c[ag]\.shared\.global[\w:.]* [^,]*, [^,]*, (0x[0-9a-f]+|\d+)")
_PAST_L1 = re.compile(r"(?<![a-z])(?:cp\.async\.cg|ld\.global[\w:.]*?\.c[gv])\.")


def asked(ttir, arch, options):
    """As JSON, or None and why."""
    asked = json.dumps({"ttir": ttir, "arch": arch, "options": options})
    env = {key: value for key, value in os.environ.items() if key not in ("TRITON_DEFAULT_BACKEND", "TRITON_INTERPRET")}
    done = subprocess.run([sys.executable, __file__], input=asked.encode(), env=env, capture_output=True)
    if done.returncode == 0:
        return done.stdout.decode(), ""
    return None, done.stderr.decode().strip()[-500:]


def _lines_of_ops(module, folder):
    """Gives each op a line of its own as its location; the lines of the accesses, in the module's order, and their loops' depths."""
    path = pathlib.Path(folder) / "snapshot.mlir"
    module.create_location_snapshot(str(path))
    lines, depths, loops = [], [], []
    for number, line in enumerate(path.read_text().split("\n"), 1):
        indent = len(line) - len(line.lstrip())
        while loops and indent <= loops[-1]:
            loops.pop()
        if _ACCESS.search(line):
            lines.append(number)
            depths.append(len(loops))
        if re.search(r"\bscf\.(for|while)\b", line):
            loops.append(indent)
    return lines, depths


def _accesses(module, context):
    """(line of the access that it was made of, name, bases of registers, lanes and warps) of each access."""
    from triton._C.libtriton import gluon_ir

    builder = gluon_ir.GluonOpBuilder(context)
    found = []

    def see(op):
        if not _ACCESS.fullmatch(op.get_name()):
            return
        pointer = op.get_operand(0)
        dims = re.match(r"tensor<((?:\d+x)+)", str(pointer.get_type()))
        if dims is None:
            found.append((op.get_name(), None))
            return
        shape = [int(d) for d in dims[1].split("x")[:-1]]
        strides = [math.prod(shape[d + 1:]) for d in range(len(shape))]
        layout = builder.to_linear_layout(builder.get_gluon_layout_from_tensor(pointer)._to_ir(builder), shape)
        bases = [[sum(c * s for c, s in zip(base, strides)) for base in each]
                 for each in (layout.reg_bases, layout.lane_bases, layout.warp_bases)]
        found.append((op.get_name(), bases))

    module.walk(see)
    text = module.str()
    lines = {name: int(line) for name, line in re.findall(r'^(#loc\d*) = loc\([^\n]*?":(\d+):', text, re.M)}
    where = [lines.get(re.search(r"loc\((#loc\d*)\)\s*$", line)[1]) for line in text.split("\n") if _ACCESS.search(line)]
    if len(where) != len(found):
        raise ValueError("not every access has a line of its own")
    return [(line, *access) for line, access in zip(where, found)]


def _instructions(llir):
    """By line: bytes of an instruction and lane, and whether it goes past the L1."""
    lines = {name: int(line) for name, line in re.findall(r"^!(\d+) = !DILocation\(line: (\d+)", llir, re.M)}
    found = {}
    for code, name in re.findall(r'asm (?:sideeffect )?"([^"]*)".*!dbg !(\d+)', llir):
        if m := _LOAD_OR_STORE.search(code):
            found[lines[name]] = int(m[1] or 1) * int(m[2]) // 8, bool(_PAST_L1.search(code))
        elif m := _COPY.search(code):
            found[lines[name]] = int(m[1], 0), bool(_PAST_L1.search(code))
    return found


def layouts(path, arch, given):
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    backend = CUDABackend(GPUTarget("cuda", arch, 32))
    options = backend.parse_options(given)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = ir.parse_mlir_module(str(path), context)
    module.context = context
    metadata = {}
    with tempfile.TemporaryDirectory() as folder:
        before, depths = _lines_of_ops(module, folder)
        module = backend.make_ttgir(module, metadata, options, arch)
        accesses = _accesses(module, context)
        after, depths_after = _lines_of_ops(module, folder)
    instruction = _instructions(backend.make_llir(module, metadata, options, arch))
    warps = options.num_warps.bit_length() - 1
    made = {}
    for (line, name, bases), at, depth in zip(accesses, after, depths_after):
        if name.startswith("tt.atomic") or at not in instruction:
            continue
        registers, lanes, of_warps = bases or ([], [0] * 5, [0] * warps)
        made.setdefault(line, []).append((depth, {"registers": registers, "lanes": lanes, "warps": of_warps, "bytes": instruction[at][0],
                                                  "once": name != "tt.load", "past_l1": instruction[at][1]}))

    # What a pipelined loop has before it are turns of the loop; what is in it twice is done twice.
    def of_turn(line, depth):
        copies = made.get(line, [])
        return [layout for d, layout in copies if d == depth] or [layout for _, layout in copies]

    return [of_turn(line, depth) for line, depth in zip(before, depths)]


def _write(out, folder):
    folder = pathlib.Path(folder).resolve()
    meta = json.loads((folder / "meta.json").read_text())
    to = pathlib.Path(out) / folder.name
    to.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if not (to / file.name).exists():
            (to / file.name).symlink_to(file)
    module = next(folder / name for name in ("kernel.ttir", "kernel.generic.mlir") if (folder / name).exists())
    made, why = asked(module.read_text(), 90, {key: meta[key] for key in ("num_warps", "num_stages") if key in meta})
    if made is None:
        print(f"{folder.name}: {why}")
    else:
        (to / "layouts.json").write_text(made)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        for each in sys.argv[2:]:
            _write(sys.argv[1], each)
    else:
        question = json.load(sys.stdin)
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as module_file:
            module_file.write(question["ttir"])
            module_file.flush()
            answer = layouts(module_file.name, question["arch"], question["options"])
        sys.stdout.write(json.dumps(answer))
