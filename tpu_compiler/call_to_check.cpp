#include "tpu_compiler/call_to_check.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "memory_model/file.hpp"
#include "pallas/load.hpp"
#include "pallas/plan_module.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::tpu_compiler {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytesOfJson = std::size_t{1} << 24;

/// As numpy, MLIR and tessera name them. Mosaic's integers have no sign, and a custom call has its
/// booleans in words.
DType dtype_of(const std::string& text) {
  static const std::map<std::string, DType> names = {
      {"float32", DType::f32},
      {"float16", DType::f16},
      {"bfloat16", DType::bf16},
      {"float64", DType::f64},
      {"float8_e4m3fn", DType::f8e4m3fn},
      {"f8E4M3FN", DType::f8e4m3fn},
      {"float8_e5m2", DType::f8e5m2},
      {"f8E5M2", DType::f8e5m2},
      {"float8_e4m3b11fnuz", DType::f8e4m3b11fnuz},
      {"f8E4M3B11FNUZ", DType::f8e4m3b11fnuz},
      {"float8_e8m0fnu", DType::f8e8m0fnu},
      {"f8E8M0FNU", DType::f8e8m0fnu},
      {"float4_e2m1fn", DType::f4e2m1fn},
      {"f4E2M1FN", DType::f4e2m1fn},
      {"bool", DType::i32},
  };
  if (const auto it = names.find(text); it != names.end()) return it->second;
  for (const DType d : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3fn,
                        DType::f8e5m2, DType::f8e4m3b11fnuz, DType::f8e8m0fnu, DType::f4e2m1fn}) {
    if (text == name(d)) return d;
  }
  for (const auto& [bits, d] : {std::pair{"64", DType::i64},
                                {"32", DType::i32},
                                {"16", DType::i16},
                                {"8", DType::i8},
                                {"4", DType::i4},
                                {"2", DType::i2}}) {
    for (const char* stem : {"int", "uint", "i", "ui", "u"}) {
      if (text == stem + std::string(bits)) return d;
    }
  }
  throw InputError("bad-input", "meta.json: no element type '" + printable(text) + "'");
}

std::vector<Question::Value> values_of(const Json& list) {
  std::vector<Question::Value> values;
  for (const Json& each : list) {
    Question::Value v{dtype_of(each.at("dtype").get<std::string>()), {}};
    for (const Json& extent : each.at("shape")) {
      if (v.shape.rank == kMaxRank)
        throw InputError("bad-input", "meta.json: an impossible shape " + each.at("shape").dump());
      v.shape.push_back(extent.get<std::int64_t>());
    }
    values.push_back(v);
  }
  return values;
}

std::string read_text(const std::string& path, std::size_t most) {
  try {
    return read_file(path, most);
  } catch (const FileError& e) {
    throw InputError("bad-input", e.what());
  }
}

}  // namespace

Question question_of(const std::string& folder) {
  const pallas::CallText text = pallas::read_call_text(folder);
  Question q;
  q.module = text.module;
  q.config = text.config;
  try {
    const Json meta = Json::parse(read_text(folder + "/meta.json", kMostBytesOfJson));
    q.kernel = meta.value("kernel_name", "kernel");
    q.operands = values_of(meta.at("operands"));
    q.results = values_of(meta.at("results"));
    for (const Json& alias :
         meta.value("custom_call", Json::object()).value("aliases", Json::array()))
      q.aliases.emplace_back(alias.at("operand").get<std::size_t>(), alias.at("result").get<int>());
  } catch (const Json::exception& e) {
    throw InputError("bad-input", folder + "/meta.json: " + e.what());
  }
  return q;
}

Question question_of(const std::string& module, const std::string& config,
                     const program::Call& call) {
  Question q;
  q.kernel = call.program->name;
  q.module = module;
  q.config = config;
  const auto add = [](std::vector<Question::Value>& to, const Array& a) {
    to.push_back({a.dtype(), a.shape()});
  };
  for (std::size_t i = 0; i < call.bounds.size(); ++i) q.operands.push_back({DType::i32, Shape{}});
  for (const Array& a : call.prefetched) add(q.operands, a);
  const std::size_t first = q.operands.size();
  for (const Array& a : call.inputs) add(q.operands, a);
  for (const Array& a : call.results) add(q.results, a);
  for (const program::Alias& alias : call.aliases)
    q.aliases.emplace_back(first + static_cast<std::size_t>(alias.input), alias.result);
  return q;
}

CallToCheck call_to_check(const std::string& kernel, const pallas::CallToRecord& call) {
  CallToCheck c;
  c.devices = static_cast<int>(call.operands.size());
  Question& q = c.question;
  q.kernel = kernel;
  q.module = call.module;
  q.config = call.config;
  for (const Array& a : call.operands.front()) q.operands.push_back({a.dtype(), a.shape()});
  for (const Array& a : call.results) q.results.push_back({a.dtype(), a.shape()});
  q.aliases = call.aliases;
  try {
    c.program = pallas::plan_module(pallas::load_module(call.module, kernel));
    std::vector<Array> operands;
    for (std::size_t i = 0; i < call.operands.front().size(); ++i) {
      std::vector<Array> parts;
      for (const std::vector<Array>& device : call.operands) parts.push_back(device[i]);
      operands.push_back(c.devices > 1 ? program::join_parts(std::move(parts)) : parts.front());
      if (i < program::operand_count(*c.program))
        program::retype_integers(operands.back(), program::operand_dtype(*c.program, i));
    }
    c.call = program::make_call(*c.program, std::move(operands), call.aliases);
    pallas::apply_config(call.config, c.call);
    for (const Array& a : call.results) {
      Shape shape = a.shape();
      if (c.devices > 1 && shape.rank > 0) shape[0] *= c.devices;
      const std::size_t i = call.operands.front().size() + c.call.results.size();
      c.call.results.push_back(Array::undefined(a.dtype(), shape));
      if (i < program::operand_count(*c.program))
        program::retype_integers(c.call.results.back(), program::operand_dtype(*c.program, i));
    }
  } catch (const KernelError& e) {
    c.failure = e.diagnostic;
  }
  return c;
}

CallToCheck read_folder(const std::string& folder) {
  CallToCheck c;
  c.question = question_of(folder);
  try {
    pallas::RecordedCall r = pallas::read_call_shapes(folder);
    c.program = std::move(r.program);
    c.call = std::move(r.call);
    c.devices = r.devices;
  } catch (const KernelError& e) {
    c.failure = e.diagnostic;
  }
  return c;
}

CallToCheck read_module(const std::string& file) {
  CallToCheck c;
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  const std::string module = read_text(file, kMostBytes);
  c.program = pallas::plan_module(pallas::load_module(module, file));
  const program::Program& p = *c.program;
  c.call.program = &p;
  std::vector<Shape> shapes;
  try {
    shapes = program::smallest_shapes(p);
  } catch (const InputError& e) {
    throw InputError(e.slug,
                     std::string("a module alone does not say its arrays' shapes: ") + e.what(),
                     "give the folder of a recorded call (tessera.capture)");
  }
  std::size_t inputs = p.operands.size();
  while (inputs > 0 && p.operands[inputs - 1].written) --inputs;
  for (const program::Window& w : p.prefetched)
    c.call.prefetched.emplace_back(w.type.dtype, w.type.shape);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    (i < inputs ? c.call.inputs : c.call.results)
        .push_back(Array::undefined(p.operands[i].type.dtype, shapes[i]));
  }
  c.question = question_of(module, "", c.call);
  return c;
}

}  // namespace tessera::tpu_compiler
