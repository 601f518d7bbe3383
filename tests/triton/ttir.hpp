// Triton kernels written in tests, in MLIR's generic form, and launches of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triton/launch.hpp"
#include "triton/load.hpp"

namespace tessera::triton {

/// A kernel with `arguments` ("%a: !tt.ptr<f32>, %n: i32") and `body`, whose last block returns.
/// Ops without a location have that of their line in this text: line 1 of the body is line 4.
inline std::string kernel_text(const std::string& arguments, const std::string& body) {
  return "\"builtin.module\"() ({\n\"tt.func\"() <{sym_name = \"kernel\", sym_visibility = "
         "\"public\"}> ({\n^bb0(" +
         arguments + "):\n" + body + "\n\"tt.return\"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n";
}

inline std::string tensor(const std::string& shape, const std::string& element) {
  return "tensor<" + shape + "x" + element + ">";
}
inline std::string elements_of(const std::string& shape) {
  std::int64_t n = 1;
  for (std::size_t at = 0; at < shape.size(); at = shape.find('x', at) + 1) {
    n *= std::stoll(shape.substr(at));
    if (shape.find('x', at) == std::string::npos) break;
  }
  return std::to_string(n);
}

/// %NAME_at: pointers to the elements of an array of that shape behind %pointer.
inline std::string pointers(const std::string& name, const std::string& pointer,
                            const std::string& shape, const std::string& type) {
  const std::string n = elements_of(shape);
  const std::string flat = "tensor<" + n + "xi32>";
  const std::string ptr = "!tt.ptr<" + type + ">";
  return name + "_r = \"tt.make_range\"() <{start = 0 : i32, end = " + n + " : i32}> : () -> " +
         flat + "\n" + name + "_s = \"tt.reshape\"(" + name + "_r) : (" + flat + ") -> " +
         tensor(shape, "i32") + "\n" + name + "_b = \"tt.splat\"(" + pointer + ") : (" + ptr +
         ") -> " + tensor(shape, ptr) + "\n" + name + "_at = \"tt.addptr\"(" + name + "_b, " +
         name + "_s) : (" + tensor(shape, ptr) + ", " + tensor(shape, "i32") + ") -> " +
         tensor(shape, ptr) + "\n";
}
/// %NAME = the whole array.
inline std::string load(const std::string& name, const std::string& pointer,
                        const std::string& shape, const std::string& type) {
  return pointers(name, pointer, shape, type) + name + " = \"tt.load\"(" + name +
         "_at) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (" +
         tensor(shape, "!tt.ptr<" + type + ">") + ") -> " + tensor(shape, type) + "\n";
}
inline std::string store(const std::string& value, const std::string& pointer,
                         const std::string& shape, const std::string& type) {
  return pointers(value + "_o", pointer, shape, type) + "\"tt.store\"(" + value + "_o_at, " +
         value + ") : (" + tensor(shape, "!tt.ptr<" + type + ">") + ", " + tensor(shape, type) +
         ") -> ()\n";
}

struct Ran {
  std::unique_ptr<Kernel> kernel;
  Launch launch;
  LaunchResult result;
  const Array& out(std::size_t i) const { return launch.storages.at(i).data; }
  bool ok() const { return result.run.ok(); }
  /// The slug of its one diagnostic; "" if it is well.
  std::string slug() const { return ok() ? "" : result.run.diagnostics.at(0).slug; }
  std::string text() const { return ok() ? "" : result.run.diagnostics.at(0).text(); }
};

/// Pointers are given storages in their order; scalars the integers.
inline Ran launch_text(const std::string& text, std::vector<Array> storages,
                       const std::vector<std::int64_t>& scalars = {},
                       std::array<std::int64_t, 3> grid = {1, 1, 1}, RunOptions options = {},
                       const std::vector<bool>& undefined = {}, bool regular = true) {
  Ran r;
  r.kernel = plan_kernel(load_module(text, "the test's module"), Profile::exact, true, regular,
                         options.error_model.has_value());
  r.launch.kernel = r.kernel.get();
  r.launch.grid = grid;
  // By their names in the text, which the module does not keep.
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = text.find(": !tt.ptr", at)) != std::string::npos; ++at)
    names.push_back(text.substr(text.rfind('%', at) + 1, at - text.rfind('%', at) - 1));
  std::size_t scalar = 0;
  for (const Parameter& p : r.kernel->parameters) {
    Argument a;
    if (p.type.pointer) {
      a.storage = static_cast<int>(r.launch.storages.size());
      const auto k = static_cast<std::size_t>(a.storage);
      r.launch.storages.push_back(
          {names.at(k), std::move(storages.at(k)), k < undefined.size() && undefined[k]});
    } else {
      std::memcpy(a.value.bytes.data(), &scalars.at(scalar++), 8);
    }
    r.launch.arguments.push_back(a);
  }
  options.device = load_device("h100");
  if (options.threads == 0) options.threads = 1;
  r.result = run_launch(r.launch, options);
  return r;
}

/// An array whose element i is f(i).
inline Array array_of(DType dtype, Shape shape, const std::function<double(std::int64_t)>& f) {
  Array a(dtype, shape);
  for (std::int64_t i = 0; i < a.elems(); ++i) a.set(i, f(i));
  return a;
}

inline std::string mlir_name(DType d) {
  return d == DType::f8e4m3fn  ? "f8E4M3FN"
         : d == DType::f8e5m2  ? "f8E5M2"
         : d == DType::boolean ? "i1"
                               : name(d);
}
inline std::string shape_text(const Shape& s) {
  std::string text;
  for (int d = 0; d < s.rank; ++d) text += (d > 0 ? "x" : "") + std::to_string(s[d]);
  return text;
}

/// One op from whole arrays to a whole array; the last storage has the result. `regions`: of the
/// op.
inline Ran run_op(const std::string& op, const std::string& attributes,
                  const std::vector<Array>& inputs, DType out, const Shape& out_shape,
                  const std::string& regions = "", const RunOptions& options = {}) {
  std::string arguments;
  std::string body;
  std::string operands;
  std::string types;
  std::vector<Array> storages = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string n = std::to_string(i);
    const std::string type = mlir_name(inputs[i].dtype());
    const std::string shape = shape_text(inputs[i].shape());
    arguments += "%a" + n + ": !tt.ptr<" + type + ">, ";
    body += load("%x" + n, "%a" + n, shape, type);
    operands += (i > 0 ? ", %x" : "%x") + n;
    types += (i > 0 ? ", " : "") + tensor(shape, type);
  }
  const std::string shape = shape_text(out_shape);
  const std::string type = mlir_name(out);
  arguments += "%o: !tt.ptr<" + type + ">";
  body += "%r = \"" + op + "\"(" + operands + ") <{" + attributes + "}>" +
          (regions.empty() ? "" : " (" + regions + ")") + " : (" + types + ") -> " +
          tensor(shape, type) + "\n" + store("%r", "%o", shape, type);
  storages.emplace_back(out, out_shape);
  return launch_text(kernel_text(arguments, body), storages, {}, {1, 1, 1}, options);
}

}  // namespace tessera::triton
