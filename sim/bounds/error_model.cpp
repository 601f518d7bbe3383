#include "sim/bounds/error_model.hpp"

#include <algorithm>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

namespace {
struct Format {
  const char* name;
  double unit;
};
constexpr Format kFormats[] = {
    {"f32", 0x1p-24}, {"tf32", 0x1p-11}, {"f16", 0x1p-11}, {"bf16", 0x1p-8}, {"real", 0}};
}  // namespace

bool ErrorModel::states(std::string_view op) const {
  return std::any_of(function_ulp.begin(), function_ulp.end(),
                     [op](const auto& entry) { return entry.first == op; });
}

double ErrorModel::ulp_of(std::string_view op) const {
  for (const auto& [name, ulp] : function_ulp) {
    if (name == op) return ulp;
  }
  return 0.5;
}

void ErrorModel::set_ulp(const std::string& op, double ulp) {
  std::vector<std::string> known{"div", "reciprocal", "sqrt"};
  for (const auto& [name, value] : cuda_function_ulp()) known.push_back(name);
  if (std::find(known.begin(), known.end(), op) == known.end())
    throw InputError("bad-input", "ulp: no function '" + op + "'" + suggest(op, known));
  if (!(ulp >= 0.5))
    throw InputError("bad-input", "ulp: " + op + " is at least 0.5: correctly rounded");
  std::erase_if(function_ulp, [&](const auto& entry) { return entry.first == op; });
  function_ulp.emplace_back(op, ulp);
}

std::vector<std::pair<std::string, double>> ErrorModel::cuda_function_ulp() {
  return {{"cos", 2},   {"erf", 2},   {"exp", 2},  {"exp2", 2},     {"expm1", 1},
          {"log", 1},   {"log1p", 1}, {"log2", 1}, {"logistic", 4}, {"pow", 4},
          {"rsqrt", 2}, {"sin", 2},   {"tanh", 2}};
}

ErrorModel ErrorModel::order_alone() {
  ErrorModel m;
  m.fused = false;
  m.function_ulp.clear();
  return m;
}

double unit_roundoff(const std::string& format) {
  std::string known;
  for (const Format& f : kFormats) {
    if (format == f.name) return f.unit;
    known += (known.empty() ? "" : ", ") + std::string(f.name);
  }
  throw InputError("bad-input", "no format '" + format + "'; there are " + known);
}

std::string format_of(double unit_roundoff) {
  for (const Format& f : kFormats) {
    if (unit_roundoff == f.unit) return f.name;
  }
  return "";
}

}  // namespace tessera
