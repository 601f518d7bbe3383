"""Pretty-printers for gdb: tiles, blocks and refs as tables of numbers, small floats as numbers.

./tessera --preset debug run matmul --at 0,0,1 --break starts gdb with this file and stops in the body.
"""
import re
import struct

import gdb
import gdb.FrameDecorator
import gdb.printing
import gdb.types
import gdb.xmethod

SHOWN = 8


def small_float(bits, exponent, mantissa, finite):
    bias = (1 << (exponent - 1)) - 1
    sign = -1.0 if bits >> (exponent + mantissa) else 1.0
    e = (bits >> mantissa) & ((1 << exponent) - 1)
    m = bits & ((1 << mantissa) - 1)
    top = (1 << exponent) - 1
    if e == top and (not finite or m == (1 << mantissa) - 1):
        return float("nan") if m else sign * float("inf")
    if e == 0:
        return sign * m * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + m / (1 << mantissa)) * 2.0 ** (e - bias)


def number(value):
    name = gdb.types.get_basic_type(value.type).name or str(value.type)
    short = name.split("::")[-1]
    if short == "bf16":
        return "%g" % struct.unpack("<f", struct.pack("<I", int(value["bits"]) << 16))[0]
    formats = {"f16": (5, 10, False), "f8e4m3fn": (4, 3, True), "f8e5m2": (5, 2, False)}
    if short in formats:
        return "%g" % small_float(int(value["bits"]), *formats[short])
    if short in ("i4", "u4", "i2", "u2"):
        return str(int(value["value"]))
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_FLT:
        return "%g" % float(value)
    return str(int(value))


def table(element, data, rows, cols, stride):
    lines = ["%s (%d, %d)" % (element, rows, cols)]
    for r in range(min(rows, SHOWN)):
        row = [number((data + r * stride + c).dereference()) for c in range(min(cols, SHOWN))]
        lines.append("  " + " ".join("%10s" % v for v in row) + (" ..." if cols > SHOWN else ""))
    if rows > SHOWN:
        lines.append("  ...")
    return "\n".join(lines)


class TilePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        data = v["data_"]
        if int(data) == 0:
            return "no tile"
        return "Tile of " + table(str(v.type.template_argument(0)), data, int(v["rows"]), int(v["cols"]), int(v["stride_"]))


class BlockTilePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        missing = int(self.value["missing_"])
        undefined = "" if missing < 0 else "(element %d holds no value) " % missing
        return undefined + TilePrinter(self.value["value_"]).to_string()


class BlockRefPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        block = v["block_"].dereference()
        if int(block["data_"]) == 0:
            return "ref to nothing"
        stride = int(block["stride"])
        data = block["data_"].cast(v.type.template_argument(0).pointer()) + int(v["row_"]) * stride + int(v["col_"])
        return "ref to " + table(str(v.type.template_argument(0)), data, int(v["rows"]), int(v["cols"]), stride)


class NumberPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return number(self.value)


class ShapePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        dims = self.value["dims"]["_M_elems"]
        return "[" + ", ".join(str(int(dims[i])) for i in range(int(self.value["rank"]))) + "]"


def printers():
    p = gdb.printing.RegexpCollectionPrettyPrinter("tessera")
    p.add_printer("Tile", "^tessera::Tile<.*>$", TilePrinter)
    p.add_printer("BlockTile", "^tessera::BlockTile<.*>$", BlockTilePrinter)
    p.add_printer("BlockRef", "^tessera::BlockRef<.*>$", BlockRefPrinter)
    p.add_printer("Shape", "^tessera::Shape$", ShapePrinter)
    p.add_printer("number", "^tessera::(bf16|f16|f8e4m3fn|f8e5m2|i4|u4|i2|u2)$", NumberPrinter)
    return p


gdb.printing.register_pretty_printer(None, printers(), replace=True)


def short_name(name):
    """Without template arguments and parameters: those of tiles fill a screen."""
    short, depth = "", 0
    for i, c in enumerate(name):
        if c == "<" and not short.endswith("operator"):
            depth += 1
        elif c == ">" and depth > 0 and name[i - 1] != "-":
            depth -= 1
        elif depth == 0:
            short += c
    return re.sub(r"(?<!operator)\((?!anonymous).*$", "", short).strip()


class ReadableFrame(gdb.FrameDecorator.FrameDecorator):
    def function(self):
        name = super().function()
        return short_name(name) if isinstance(name, str) else name


class ReadableFrames:
    name, enabled, priority = "tessera", True, 100

    def __init__(self):
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        return map(ReadableFrame, frames)


ReadableFrames()


class Dereferenced(gdb.xmethod.XMethod):
    """print *ref: the block that it is of."""

    def __init__(self):
        super().__init__("dereferenced")


class DereferencedWorker(gdb.xmethod.XMethodWorker):
    def get_arg_types(self):
        return None

    def __call__(self, ref):
        return ref.dereference() if ref.type.code == gdb.TYPE_CODE_PTR else ref


class Refs(gdb.xmethod.XMethodMatcher):
    def __init__(self):
        super().__init__("tessera refs")
        self.methods = [Dereferenced()]

    def match(self, class_type, method_name):
        if method_name == "operator*" and str(class_type).startswith("tessera::BlockRef<"):
            return DereferencedWorker()
        return None


gdb.xmethod.register_xmethod_matcher(None, Refs(), replace=True)


def module(call):
    """Calls a function of program/debugger.hpp; without debug information gdb must be told what it is."""
    result, name, argument = call
    return gdb.parse_and_eval("((%s (*)(%s))%s)(%s)" % (result, "int" if argument else "void", name, argument))


def module_watched():
    try:
        return int(module(("int", "tessera_module_watched", ""))) == 1
    except gdb.error:
        return False


def module_text(name):
    return module(("const char *", name, "")).string()


module_stop = None


def module_goes(line):
    """Goes on until a line of the module has run (0: any), or before the next grid step's first (-1)."""
    global module_stop
    if not module_watched():
        raise gdb.GdbError("no module runs here: tessera run MODULE --at i,j,k --break")
    if module_stop is None:
        module_stop = gdb.Breakpoint("tessera_module_stop", internal=True)
        module_stop.silent = True
    module(("void", "tessera_module_go", str(line)))
    before = module_stop.hit_count
    gdb.execute("continue")
    if module_stop.is_valid() and module_stop.hit_count > before:
        print(module_text("tessera_module_place"))


class Line(gdb.Command):
    """tessera-line [N]: in a module, go on until line N of its source has run, or the next line."""

    def __init__(self):
        super().__init__("tessera-line", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        module_goes(int(argument or "0"))


Line()


class Vectors(gdb.Command):
    """tessera-vectors: what the line of the module that has run read and made."""

    def __init__(self):
        super().__init__("tessera-vectors", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        if not module_watched():
            raise gdb.GdbError("no module runs here: tessera run MODULE --at i,j,k --break")
        print(module_text("tessera_module_vectors") or "nothing yet: tessera-line [N] runs a line")


Vectors()


class Cell(gdb.Command):
    """tessera-cell: from a kernel's body, go on to the body of the next grid step."""

    def __init__(self):
        super().__init__("tessera-cell", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if module_watched():
            return module_goes(-1)
        frame = gdb.newest_frame()
        while frame is not None and not short_name((frame.older() and frame.older().name()) or "").endswith("TypedBody::call_with"):
            frame = frame.older()
        if frame is None or frame.function() is None:
            raise gdb.GdbError("not in a kernel's body: stop in one first, as --at i,j,k --break does")
        body = frame.function()
        gdb.Breakpoint("%s:%d" % (body.symtab.filename, body.line), temporary=True)
        gdb.execute("continue")


Cell()


class Body(gdb.Command):
    """tessera-body: from the signal that --break raises, go on to the first line of the kernel's body."""

    def __init__(self):
        super().__init__("tessera-body", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if module_watched():
            return module_goes(-1)
        frame = gdb.newest_frame()
        while frame is not None and "tessera::Pipeline::observed_step" not in (frame.name() or ""):
            frame = frame.older()
        if frame is None:
            raise gdb.GdbError("not stopped before a body: run with --at i,j,k --break")
        frame.select()
        try:
            body = gdb.parse_and_eval("body_")["_M_t"]["_M_t"]["_M_head_impl"]
            kernel = str(body.dynamic_type.target().template_argument(0))
        except (gdb.error, RuntimeError):
            raise gdb.GdbError("no debug information here: ./tessera --preset debug run ... --break")
        gdb.Breakpoint(function=kernel + "::operator()", temporary=True)
        gdb.execute("continue")


Body()
