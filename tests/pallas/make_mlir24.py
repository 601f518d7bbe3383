"""Writes mlir24.mlirbc, whose layouts loader_test.cpp reads: usage: python make_mlir24.py (jax 0.12)."""
import io
import pathlib

from jaxlib.mlir import ir

LAYOUTS = (
    "affine_map<(d0, d1) -> (d0, d1)>",
    "affine_map<(d0, d1) -> (d1, d0)>",
    "affine_map<(d0, d1, d2) -> (d0, d2)>",
    "affine_map<(d0, d1)[s0] -> (d0 * 3 - s0, d1 floordiv 2 + d0 mod 5 + (d0 ceildiv 7) * 300)>",
    "strided<[128, -1], offset: ?>",
)
arguments = ", ".join(f"%{i}: memref<{'4x6x8' if 'd2' in layout else '4x6'}xf32, {layout}>"
                      for i, layout in enumerate(LAYOUTS))
text = f"""module attributes {{stable_mosaic.version = 18 : i64}} {{
  "stable_mosaic.func.func"() ({{
  ^bb0({arguments}):
    "stable_mosaic.func.return"() : () -> ()
  }}) {{sym_name = "layouts"}} : () -> ()
}}"""
context = ir.Context()
context.allow_unregistered_dialects = True
code = io.BytesIO()
ir.Module.parse(text, context).operation.write_bytecode(code)
pathlib.Path(__file__).with_name("mlir24.mlirbc").write_bytes(code.getvalue())
