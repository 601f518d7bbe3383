"""What TMA asks of a tensor descriptor that a kernel makes, asserted where it is made: that the tensor and each of its rows begin at a
multiple of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled). Of descriptors made on the host Triton itself asserts it.
"""
import pathlib
import re
import tempfile

from triton._C.libtriton import ir

_MADE = re.compile(r'^\s*%\S+ = "tt\.make_tensor_descriptor"\(([^)]*)\).* : \(([^)]*)\) -> .*?(\bloc\(.*\))?$')
_MESSAGE = "a tensor descriptor whose base or rows begin at no multiple of 16 bytes, which TMA refuses"


def _bytes(pointer):
    """Of an element, by its pointer's type: "!tt.ptr<bf16>"."""
    return max(1, int(re.search(r"<\D+(\d+)", pointer)[1]) // 8)


def _assertion(number, operands, types, where):
    at = f"%tessera_descriptor_{number}"
    rows = operands[1 + (len(operands) - 1) // 2:-1]
    lines = [f'{at} = "tt.ptr_to_int"({operands[0]}) : ({types[0]}) -> i64',
             f'{at}_size = "arith.constant"() <{{value = {_bytes(types[0])} : i64}}> : () -> i64',
             f'{at}_low = "arith.constant"() <{{value = 15 : i64}}> : () -> i64',
             f'{at}_zero = "arith.constant"() <{{value = 0 : i64}}> : () -> i64']
    all_bits = at
    for i, row in enumerate(rows):
        lines += [f'{at}_row{i} = "arith.muli"({row}, {at}_size) <{{overflowFlags = #arith.overflow<none>}}> : (i64, i64) -> i64',
                  f'{at}_or{i} = "arith.ori"({all_bits}, {at}_row{i}) : (i64, i64) -> i64']
        all_bits = f"{at}_or{i}"
    lines += [f'{at}_bits = "arith.andi"({all_bits}, {at}_low) : (i64, i64) -> i64',
              f'{at}_ok = "arith.cmpi"({at}_bits, {at}_zero) <{{predicate = 0 : i64}}> : (i64, i64) -> i1',
              f'"tt.assert"({at}_ok) <{{message = "{_MESSAGE}"}}> : (i1) -> ()']
    return [f"{line} {where or ''}" for line in lines]


def asserted(module, text):
    """`text`: the module in generic form."""
    if '"tt.make_tensor_descriptor"' not in text:
        return module
    lines = []
    for number, line in enumerate(text.split("\n")):
        if found := _MADE.match(line):
            operands, types = (part.split(", ") for part in found.groups()[:2])
            lines += _assertion(number, operands, types, found[3])
        lines.append(line)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "module.mlir"
        path.write_text("\n".join(lines))
        made = ir.parse_mlir_module(str(path), module.context)
    made.context = module.context
    return made
