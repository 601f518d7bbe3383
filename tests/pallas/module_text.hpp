// Modules written in tests, in MLIR's generic form.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"
#include "program/call.hpp"

namespace tessera::pallas {

/// A module whose main function has `arguments` ("%a: memref<...>, ...") and `body`; `attributes`
/// follow in braces. `S.` stands for `stable_mosaic.`, `@vmem` for the memory space.
inline std::string module_text(const std::string& arguments, const std::string& body,
                               const std::string& attributes = "", const std::string& more = "") {
  std::string text = "\"builtin.module\"() ({\n\"S.func.func\"() ({\n^bb0(" + arguments + "):\n" +
                     body + "\n\"S.func.return\"() : () -> ()\n}) {" +
                     "dimension_semantics = [], function_type = () -> (), sym_name = \"kernel\"" +
                     (attributes.empty() ? "" : ", " + attributes) + "} : () -> ()\n" + more +
                     "}) {stable_mosaic.version = 11 : i64} : () -> ()\n";
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("\"S.", "\"stable_mosaic.");
  for (const char* space : {"vmem", "smem", "any", "semaphore_mem"})
    replace(std::string("@") + space, std::string("#tpu.memory_space<") + space + ">");
  return text;
}

/// What a program asks of a TPU's units, all stretches together: rows and times.
inline std::map<std::string, std::int64_t> asked(const program::Program& p) {
  std::map<std::string, std::int64_t> times;
  for (const program::UnitOp& op : p.main.units) {
    for (const auto& [row, n] : op.rows) times[p.unit_rows[static_cast<std::size_t>(row)]] += n;
  }
  return times;
}

/// "memref<8x128xf32, ...vmem>"
inline std::string vmem(const std::string& shape) { return "memref<" + shape + ", @vmem>"; }

/// Loads and stores whole operands: "%x = load of %a", "store %y to %o".
inline std::string load_whole(const std::string& result, const std::string& ref,
                              const std::string& shape, int rank) {
  std::string text;
  std::string indices;
  std::string types;
  for (int d = 0; d < rank; ++d) {
    const std::string i = result + "_i" + std::to_string(d);
    text += i + " = \"S.arith.constant\"() {value = 0 : index} : () -> index\n";
    indices += ", " + i;
    types += ", index";
  }
  return text + result + " = \"S.vector.load\"(" + ref + indices + ") : (" + vmem(shape) + types +
         ") -> vector<" + shape + ">\n";
}
inline std::string store_whole(const std::string& value, const std::string& ref,
                               const std::string& shape, int rank) {
  std::string text;
  std::string indices;
  std::string types;
  for (int d = 0; d < rank; ++d) {
    const std::string i = value + "_o" + std::to_string(d);
    text += i + " = \"S.arith.constant\"() {value = 0 : index} : () -> index\n";
    indices += ", " + i;
    types += ", index";
  }
  return text + "\"S.tpu.vector_store\"(" + value + ", " + ref + indices +
         ") {add = false, operandSegmentSizes = array<i32: 1, 1, " + std::to_string(rank) +
         ", 0>, strides = array<i32>} : (vector<" + shape + ">, " + vmem(shape) + types +
         ") -> ()\n";
}

struct Ran {
  std::unique_ptr<Program> program;
  RunResult result;
  const Array& out(std::size_t i = 0) const { return result.outputs.at(i); }
};

inline Ran run_text(const std::string& text, std::vector<Array> inputs, RunOptions options = {}) {
  Ran r;
  r.program = plan_module(load_module(text, "the test's module"));
  Call call;
  call.program = r.program.get();
  call.inputs = std::move(inputs);
  options.device = load_device("tpu-v6e");
  r.result = run_call(call, options);
  return r;
}

/// An array whose element i is f(i).
inline Array array_of(DType dtype, Shape shape, const std::function<double(std::int64_t)>& f) {
  Array a(dtype, shape);
  for (std::int64_t i = 0; i < a.elems(); ++i) a.set(i, f(i));
  return a;
}

inline std::string type_text(const Shape& s, DType d) {
  std::string text;
  for (int i = 0; i < s.rank; ++i) text += std::to_string(s[i]) + "x";
  const std::string element = d == DType::f8e4m3fn  ? "f8E4M3FN"
                              : d == DType::f8e5m2  ? "f8E5M2"
                              : d == DType::boolean ? "i1"
                                                    : name(d);
  return text + element;
}

/// One op from whole operands to a whole result; `signature` in the op's own words.
inline Ran run_op(const std::string& op, const std::string& attributes,
                  const std::vector<Array>& inputs, DType out_dtype, const Shape& out_shape,
                  const std::string& before = "", const std::string& more_operands = "",
                  const std::string& more_types = "", const RunOptions& options = {}) {
  std::string arguments;
  std::string body;
  std::string operands;
  std::string types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string n = std::to_string(i);
    const std::string t = type_text(inputs[i].shape(), inputs[i].dtype());
    arguments += "%a" + n + ": " + vmem(t) + ", ";
    body += load_whole("%x" + n, "%a" + n, t, inputs[i].shape().rank);
    operands += (i > 0 ? ", %x" : "%x") + n;
    types += (i > 0 ? ", vector<" : "vector<") + t + ">";
  }
  const std::string t = type_text(out_shape, out_dtype);
  arguments += "%o: " + vmem(t);
  body += before;
  body += "%r = \"S." + op + "\"(" + operands + more_operands + ") {" + attributes + "} : (" +
          types + more_types + ") -> vector<" + t + ">\n";
  body += store_whole("%r", "%o", t, out_shape.rank);
  return run_text(module_text(arguments, body), inputs, options);
}

}  // namespace tessera::pallas
