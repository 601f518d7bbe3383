#include "cli/tpu_build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "cli/colour.hpp"
#include "cli/libraries.hpp"
#include "memory_model/file.hpp"

namespace tessera::cli {

namespace {

/// What writes a kernel's modules. Throws InputError[not-built].
const mosaic::Kernel& writer_of(const std::string& kernel) {
  using Get = const mosaic::Kernel* (*)();
  const auto get = reinterpret_cast<Get>(
      symbol_of_library("libtessera_mosaic_" + kernel + ".so", "tessera_mosaic_kernel"));
  if (get == nullptr)
    throw InputError("not-built", "kernel " + kernel + " is not compiled for TPUs in this build",
                     "./tessera build " + kernel + " compiles it");
  return *get();
}

/// Throws InputError[not-built] if the library was made of another version of the kernel.
void check_same_kernel(const TpuBuild& build, const mosaic::Kernel& writer) {
  std::vector<std::string> sizes;
  std::vector<std::string> tiles;
  for (const auto& s : build.inputs.setting.sizes) sizes.push_back(s.name);
  for (const auto& t : build.inputs.setting.tiles) tiles.push_back(t.first);
  const auto check = [&](const char* what, const std::vector<std::string>& of_kernel,
                         const std::vector<std::string>& of_library) {
    if (of_kernel == of_library) return;
    throw InputError(
        "not-built",
        fmt::format("the TPU build of {} is older than the kernel: its {} are ({}), the "
                    "kernel's ({})",
                    build.kernel, what, fmt::join(of_library, ", "), fmt::join(of_kernel, ", ")),
        "./tessera build " + build.kernel + " compiles it again");
  };
  check("sizes", sizes, writer.sizes);
  check("tiles", tiles, writer.tiles);
}

/// Device d's part of an array, along dim 0.
Array part_of(const Array& whole, int d, int devices) {
  if (devices == 1) return whole;
  Shape shape = whole.shape();
  shape[0] /= devices;
  Array part(whole.dtype(), shape);
  std::memcpy(part.bytes(), whole.bytes() + d * part.size_bytes(),
              static_cast<std::size_t>(part.size_bytes()));
  return part;
}

std::string shape_tuple(const Shape& s) {
  std::string text = "(";
  for (int d = 0; d < s.rank; ++d) text += fmt::format("{}{}", s[d], d + 1 < s.rank ? ", " : "");
  return text + (s.rank == 1 ? ",)" : ")");
}
std::string jax_type(DType d) {
  switch (d) {
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::i32:
      return "int32";
    case DType::i16:
      return "int16";
    case DType::i8:
      return "int8";
    case DType::i4:
      return "int4";
    case DType::i2:
      return "int2";
    default:
      return name(d);
  }
}
std::string listed(const std::vector<mosaic::CallArray>& arrays) {
  std::string text;
  for (const auto& a : arrays)
    text +=
        fmt::format("    (\"{}\", {}, \"{}\"),\n", a.name, shape_tuple(a.shape), jax_type(a.dtype));
  return text;
}
/// But for the last ones.
std::string joined_names(const std::vector<mosaic::CallArray>& arrays, int dropped = 0) {
  std::string text;
  for (std::size_t i = 0; i + static_cast<std::size_t>(dropped) < arrays.size(); ++i)
    text += (text.empty() ? "" : ", ") + arrays[i].name;
  return text;
}

// Python's keywords, and what python_file() writes inside of a function whose parameters are the
// inputs.
constexpr std::array<std::string_view, 35> kKeywords{
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
constexpr std::array<std::string_view, 12> kWritten{"_DROPPED",    "_FOLDER", "_INPUTS", "_OUTPUTS",
                                                    "_PREFETCHED", "_call",   "jnp",     "len",
                                                    "np",          "range",   "tuple",   "zip"};

/// Refuses a name that the file could not have. `what` it is the name of.
void check_python_name(const std::string& name, const std::string& kernel,
                       const std::string& what) {
  const auto is_among = [&](const auto& names) { return std::ranges::count(names, name) != 0; };
  if (!is_among(kKeywords) && !is_among(kWritten)) return;
  const char* const why =
      is_among(kKeywords) ? "a keyword of Python's" : "what the Python file calls something else";
  throw InputError("bad-input", fmt::format("{} {} of {} is {}", what, name, kernel, why),
                   fmt::format("name it otherwise in the kernel: {}_", name));
}

// Doubled braces: fmt's.
constexpr const char* kPython =
    R"py("""{kernel} ({setting}; {dtype}) for a TPU, as tessera built it from kernels/{kernel}.hpp.

    from {kernel} import {kernel}
    {outputs} = jax.jit({kernel})({inputs})
{mesh}
It takes arrays of these shapes and no others{prefetched}. JAX 0.10 compiles it on a TPU; inside of
`with tessera.simulate("tpu-v5e"):` it runs on tessera's machine.
"""
import functools
import pathlib

import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src import tpu_custom_call
from jax._src.interpreters import mlir
from jax._src.lib import tpu
from jaxlib.mlir import ir
from jaxlib.mlir import passmanager

_FOLDER = pathlib.Path(__file__).parent
_INPUTS = (  # of one device: name, shape, type
{in_list})
_OUTPUTS = (
{out_list})
_DROPPED = {dropped}  # the last of them are the kernel's scratch in HBM
_PREFETCHED = {prefetched_count}  # arrays that the kernel's host made: in0.npy, ...
_ALIASES = {aliases}  # (operand, result)
_COLLECTIVE_ID = {collective_id}


def module():
    """The kernel as a module that JAX has read and verified."""
    context = mlir.make_ir_context()
    tpu.register_dialect(context)
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown(context):
        parsed = ir.Module.parse((_FOLDER / "kernel.mlir").read_text())
        passmanager.PassManager.parse("builtin.module(mosaic-serde{{serialize=false}})").run(parsed.operation)
        parsed.operation.verify()
    context.allow_unregistered_dialects = False
    return parsed


@functools.cache
def _call():
    results = tuple(core.ShapedArray(shape, jnp.dtype(dtype)) for _, shape, dtype in _OUTPUTS)
    return tpu_custom_call.as_tpu_kernel(
        module(), results, kernel_name="{kernel}", input_output_aliases=_ALIASES, collective_id=_COLLECTIVE_ID)


def {kernel}({inputs}):
    """{outputs} of {inputs}; raises TypeError for other shapes or types."""
    arrays = ({inputs_tuple})
    for (name, shape, dtype), array in zip(_INPUTS, arrays):
        if array.shape != shape or array.dtype != jnp.dtype(dtype):
            raise TypeError(f"{{name}} is {{dtype}}{{list(shape)}} in this build, not {{array.dtype}}{{list(array.shape)}}")
    prefetched = [np.load(_FOLDER / f"{prefetched_file}") for i in range(_PREFETCHED)]
    results = _call()(*prefetched, *arrays)[: len(_OUTPUTS) - _DROPPED]
    return results[0] if len(results) == 1 else tuple(results)
)py";

}  // namespace

TpuBuild build_for_tpu(const KernelHandle& kernel, const mosaic::Kernel& writer,
                       const Request& request, bool fused) {
  TpuBuild build;
  build.kernel = kernel.info.name;
  build.dtype = request.dtype;
  build.inputs = kernel.build_inputs(request);
  if (!build.inputs.mesh && build.inputs.devices > 1)
    throw InputError("bad-input", build.kernel + " is built for one device, not for --devices");
  check_same_kernel(build, writer);
  mosaic::Request asked;
  asked.fused = fused;
  for (const auto& s : build.inputs.setting.sizes) asked.sizes.push_back(s.value);
  for (const auto& t : build.inputs.setting.tiles) asked.tiles.push_back(t.second);
  for (const auto& [name, array] : build.inputs.arrays)
    asked.inputs.push_back({name, array.bytes(), static_cast<std::size_t>(array.size_bytes())});
  for (const mosaic::Instance& i : writer.instances) {
    if (i.dtype != request.dtype) continue;
    build.module = i.build(asked);
    return build;
  }
  throw InputError("not-built", build.kernel + " is not built for TPUs in " + name(request.dtype));
}

pallas::CallToRecord call_of(const TpuBuild& build, const DeviceSpec& device, bool lends) {
  const mosaic::BuiltModule& m = build.module;
  pallas::CallToRecord call;
  call.module = m.text;
  call.inputs = m.inputs.size();
  call.device = device;
  std::string config = "\"serialization_format\": 1, \"needs_layout_passes\": true";
  if (m.communicates) config += ", \"has_communication\": true";
  if (m.collective_id >= 0) config += fmt::format(", \"collective_id\": {}", m.collective_id);
  call.config = "{\"custom_call_config\": {" + config + "}}\n";
  for (int d = 0; d < m.devices; ++d) {
    std::vector<Array> operands;
    for (std::size_t i = 0; i < m.prefetched.size(); ++i) {
      const auto& words = m.prefetched_words[i];
      Array array(m.prefetched[i].dtype, m.prefetched[i].shape);
      std::memcpy(array.bytes(), words.data(), words.size() * sizeof(words[0]));
      operands.push_back(std::move(array));
    }
    for (const auto& in : m.inputs) {
      for (const auto& [name, array] : build.inputs.arrays) {
        if (name != in.name) continue;
        operands.push_back(lends && m.devices == 1
                               ? Array::lent(array.dtype(), array.shape(), array.bytes())
                               : part_of(array, d, m.devices));
      }
    }
    call.operands.push_back(std::move(operands));
  }
  for (const auto& out : m.outputs) call.results.push_back(Array::undefined(out.dtype, out.shape));
  for (const auto& alias : m.aliases)
    call.aliases.emplace_back(m.prefetched.size() + static_cast<std::size_t>(alias.input),
                              alias.output);
  return call;
}

TpuCall tpu_call_of(const KernelHandle& kernel, const Request& request, bool lends) {
  TpuCall c;
  c.build = build_for_tpu(kernel, writer_of(kernel.info.name), request);
  c.call = call_of(c.build, request.device, lends);
  for (const auto& in : c.build.module.inputs) c.names.push_back(in.name);
  for (const auto& out : c.build.module.outputs) c.names.push_back(out.name);
  return c;
}

std::string python_file(const TpuBuild& build) {
  const mosaic::BuiltModule& m = build.module;
  check_python_name(build.kernel, build.kernel, "the name");
  for (const auto& in : m.inputs) check_python_name(in.name, build.kernel, "the input");
  std::string setting;
  for (const auto& s : build.inputs.setting.sizes)
    setting += fmt::format("{}{}={}", setting.empty() ? "" : " ", s.name, s.value);
  for (const auto& [tile, extent] : build.inputs.setting.tiles)
    setting += fmt::format(" {}={}", tile, extent);
  std::string aliases;
  for (const auto& a : m.aliases)
    aliases += fmt::format("({}, {}), ", m.prefetched.size() + static_cast<std::size_t>(a.input),
                           a.output);
  const std::string inputs = joined_names(m.inputs);
  const std::string prefetched = m.prefetched.empty() ? ""
                                                      : ",\nand has " + joined_names(m.prefetched) +
                                                            " as they were when it was built";
  const std::string mesh =
      m.devices == 1
          ? ""
          : fmt::format(
                "\non each of {} devices, inside of jax.shard_map; the shapes are one device's.\n",
                m.devices);
  return fmt::format(
      fmt::runtime(kPython), fmt::arg("kernel", build.kernel), fmt::arg("setting", setting),
      fmt::arg("dtype", jax_type(build.dtype)), fmt::arg("inputs", inputs),
      fmt::arg("inputs_tuple", m.inputs.size() == 1 ? inputs + "," : inputs),
      fmt::arg("outputs", joined_names(m.outputs, m.dropped)), fmt::arg("prefetched", prefetched),
      fmt::arg("mesh", mesh), fmt::arg("in_list", listed(m.inputs)),
      fmt::arg("out_list", listed(m.outputs)), fmt::arg("dropped", m.dropped),
      fmt::arg("prefetched_count", m.prefetched.size()),
      fmt::arg("prefetched_file", m.devices == 1 ? "in{i}.npy" : "dev0_in{i}.npy"),
      fmt::arg("aliases", "(" + aliases + ")"),
      fmt::arg("collective_id", m.collective_id < 0 ? "None" : std::to_string(m.collective_id)));
}

int write_tpu_build(const KernelHandle& kernel, const RunArguments& arguments,
                    const BuildArguments& asked) {
  const Request request = request_of(kernel, arguments);
  if (request.device.kind != DeviceSpec::Kind::tpu)
    throw InputError("bad-input", request.device.name + " is no TPU", "tessera devices");
  TpuBuild build;
  try {
    build = build_for_tpu(kernel, writer_of(kernel.info.name), request, !asked.not_fused);
  } catch (const KernelError& e) {
    say(e.diagnostic);
    return exit_code({e.diagnostic});
  }
  const std::string& folder = asked.folder;
  const std::string python = python_file(build);
  pallas::write_call(folder, call_of(build, request.device));
  write_file_atomically(folder + "/" + build.kernel + ".py", python);
  fmt::print("{0}: kernel.mlir, {1}.py and the arrays of a call\n  tessera run {0}\n", folder,
             build.kernel);
  return 0;
}

}  // namespace tessera::cli
