#include "triton/many_dims.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::triton {

namespace {

using Dims = std::vector<std::int64_t>;

/// Of "tensor<2x16x!tt.ptr<f32>>": 2, 16 and where the element's name begins.
std::pair<Dims, std::size_t> dims_of(const Type& t) {
  Dims dims;
  std::size_t at = t.text.find('<') + 1;
  if (t.kind != Type::Kind::vector || !t.text.starts_with("tensor<")) return {dims, at};
  while (at < t.text.size() && std::isdigit(static_cast<unsigned char>(t.text[at])) != 0) {
    const std::size_t end = t.text.find('x', at);
    if (end == std::string::npos) break;
    dims.push_back(std::stoll(t.text.substr(at, end - at)));
    at = end + 1;
  }
  return {dims, at};
}

std::int64_t product(const Dims& dims, std::size_t from, std::size_t to) {
  return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(from),
                         dims.begin() + static_cast<std::ptrdiff_t>(to), std::int64_t{1},
                         std::multiplies<>());
}

bool is_many(const Type& t) { return dims_of(t).first.size() > kMaxRank; }

class Regrouper {
 public:
  explicit Regrouper(Module& module) : module_(module) {}

  void region(Region& r) {
    std::vector<Operation> all;
    for (Operation& op : r.operations) {
      for (Region& each : op.regions) region(each);
      to_ = &all;
      if (std::ranges::any_of(op.operands, [&](int v) { return many(v); }) ||
          std::ranges::any_of(op.results, [&](int v) { return many(v); }))
        regroup(std::move(op));
      else
        all.push_back(std::move(op));
    }
    r.operations = std::move(all);
    for (Region& other : r.others) region(other);
  }

 private:
  bool many(int v) const { return is_many(module_.type(v)); }

  /// A value of v's elements in other dims.
  int new_value(int v, const Dims& dims) {
    Type t = module_.type(v);
    const std::string element = t.text.substr(dims_of(t).second);
    t.text = "tensor<";
    t.shape = {};
    for (const std::int64_t n : dims) {
      t.text += std::to_string(n) + "x";
      t.shape.push_back(n);
    }
    t.text += element;
    module_.types.push_back(std::move(t));
    module_.values.push_back(static_cast<int>(module_.types.size()) - 1);
    return static_cast<int>(module_.values.size()) - 1;
  }
  void reshape(int from, int to, int location) {
    Operation op;
    op.name = "tt.reshape";
    op.operands = {from};
    op.results = {to};
    op.attributes = std::make_shared<const Attributes>();
    op.location = location;
    to_->push_back(std::move(op));
  }
  int viewed(int v, const Dims& dims, int location) {
    const int view = new_value(v, dims);
    reshape(v, view, location);
    return view;
  }

  void regroup(Operation op) {
    if (op.name == "tt.reduce" || op.name == "tt.scan")
      along_axis(std::move(op));
    else if (op.name == "tt.broadcast" && op.operands.size() == 1 && op.results.size() == 1)
      broadcast(std::move(op));
    else if (op.name == "tt.expand_dims" || op.name == "tt.reshape") {
      op.name = "tt.reshape";
      to_->push_back(std::move(op));
    } else if (op.name == "tt.split" && op.operands.size() == 1) {
      const Dims dims = dims_of(module_.type(op.operands[0])).first;
      op.operands[0] =
          viewed(op.operands[0], {product(dims, 0, dims.size() - 1), dims.back()}, op.location);
      to_->push_back(std::move(op));
    } else if (op.name == "tt.trans" || op.name == "tt.gather") {
      refuse(op);
    } else {
      to_->push_back(std::move(op));
    }
  }

  void along_axis(Operation op) {
    const Attribute* const axis = op.find("axis");
    const Dims dims = op.operands.empty() ? Dims{} : dims_of(module_.type(op.operands[0])).first;
    if (axis == nullptr || axis->integer < 0 || axis->integer >= std::ssize(dims)) refuse(op);
    const auto at = static_cast<std::size_t>(axis->integer);
    const std::int64_t before = product(dims, 0, at);
    const std::int64_t after = product(dims, at + 1, dims.size());
    for (int& v : op.operands) v = viewed(v, {before, dims[at], after}, op.location);
    Attributes attributes = *op.attributes;
    attributes["axis"].integer = 1;
    op.attributes = std::make_shared<const Attributes>(std::move(attributes));
    const std::vector<int> results = op.results;
    for (int& v : op.results)
      v = new_value(v,
                    op.name == "tt.reduce" ? Dims{before, after} : Dims{before, dims[at], after});
    const std::vector<int> views = op.results;
    const int location = op.location;
    to_->push_back(std::move(op));
    for (std::size_t i = 0; i < results.size(); ++i) reshape(views[i], results[i], location);
  }

  void broadcast(Operation op) {
    const Dims from = dims_of(module_.type(op.operands[0])).first;
    const Dims to = dims_of(module_.type(op.results[0])).first;
    if (from.size() != to.size()) refuse(op);
    Dims kept;
    Dims repeated;
    bool repeats = false;
    for (std::size_t d = 0; d < to.size(); ++d) {
      if (to[d] == 1) continue;
      if (from[d] != to[d] && from[d] != 1) refuse(op);
      if (kept.empty() || repeats != (from[d] == 1)) {
        kept.push_back(1);
        repeated.push_back(1);
      }
      repeats = from[d] == 1;
      kept.back() *= from[d];
      repeated.back() *= to[d];
    }
    if (kept.size() > kMaxRank) refuse(op);
    op.operands[0] = viewed(op.operands[0], kept, op.location);
    const int result = op.results[0];
    const int view = op.results[0] = new_value(result, repeated);
    const int location = op.location;
    to_->push_back(std::move(op));
    reshape(view, result, location);
  }

  [[noreturn]] void refuse(const Operation& op) const {
    throw InputError("bad-module", module_.functions.front().name +
                                       " is no Triton module: it holds " + op.name +
                                       " of a value of more than 8 dims");
  }

  Module& module_;
  std::vector<Operation>* to_ = nullptr;
};

}  // namespace

void regroup_many_dims(Module& module) {
  if (std::ranges::none_of(module.types, is_many)) return;
  Regrouper regrouper(module);
  for (Function& f : module.functions) regrouper.region(f.body);
}

}  // namespace tessera::triton
