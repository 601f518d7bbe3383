// What the TPU compiler has no code for: ops on element types that no TensorCore computes in.
//
// Asked of libtpu 0.0.42 with a kernel per op, type and device (v5e, v6e, tpu7x); its words are
// cited. A program of SparseCores has other vectors, and other limits: it is not looked at.
#include <algorithm>
#include <set>
#include <string>

#include "pallas/plan_module.hpp"
#include "pallas/rules.hpp"

namespace tessera::pallas {

namespace {

const std::set<std::string>& sums() {
  static const std::set<std::string> ops = {"arith.addi", "arith.subi", "arith.muli"};
  return ops;
}
/// In registers of 32-bit lanes alone.
const std::set<std::string>& words_only() {
  static const std::set<std::string> ops = {
      "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi",
      "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.floordivsi",
      "arith.shli",  "arith.shrsi", "arith.shrui"};
  return ops;
}
const std::set<std::string>& logic() {
  static const std::set<std::string> ops = {"arith.andi", "arith.ori", "arith.xori", "arith.select",
                                            "math.absi"};
  return ops;
}
const std::set<std::string>& floats() {
  static const std::set<std::string> ops = {"arith.addf", "arith.subf",     "arith.mulf",
                                            "arith.divf", "arith.maximumf", "arith.minimumf"};
  return ops;
}

/// As what is not built is refused, but that no TPU would run it.
[[noreturn]] void refuse(Planner& p, const Operation& op, const std::string& why) {
  try {
    p.unsupported(op, why);
  } catch (KernelError& e) {
    auto& fields = e.diagnostic.fields;
    std::erase_if(fields, [](const auto& field) { return field.first == "help"; });
    fields.emplace_back(kRefusedByCompiler, "Mosaic has no code for it: no TPU runs this kernel");
    throw;
  }
}

constexpr std::int64_t kLanes = 128;
constexpr std::int64_t kSublanes = 8;

bool is_narrow(const Type& t) {
  return t.known && t.dtype != DType::boolean && bit_width(t.dtype) < 32;
}

void check_scalar(Planner& p, const Operation& op, const Type& t) {
  if (!is_narrow(t)) return;
  const std::string type = t.text;
  if (sums().contains(op.name))
    refuse(p, op,
           "Not implemented: Only i32 " + op.name + " is supported, but got '" + type +
               "'. Cast its operands to 32 bits");
  if (words_only().contains(op.name) || logic().contains(op.name) || op.name == "arith.cmpi")
    refuse(p, op,
           "Not implemented: Only i1 and i32 scalars are supported, but got '" + type +
               "'. Cast its operands to 32 bits");
  if (floats().contains(op.name))
    refuse(p, op,
           "failed to legalize operation: a TPU computes with f32 scalars alone, but got '" + type +
               "'");
}

void check_vector(Planner& p, const Operation& op, const Type& t) {
  if (t.dtype == DType::f16 && (floats().contains(op.name) || op.name.starts_with("math.")))
    refuse(p, op, "Invalid vector type for load: no TensorCore has f16. Use bf16 or f32");
  if (!is_narrow(t) || is_float(t.dtype)) return;
  const bool half = bit_width(t.dtype) == 16;
  if (sums().contains(op.name) && !half)
    refuse(p, op,
           "Not implemented: Only vector<i16> and vector<i32> are supported, but got '" +
               std::string(name(t.dtype)) + "'. Cast its operands");
  if (words_only().contains(op.name))
    refuse(p, op,
           "failed to legalize operation: only vector<i32> is supported, but got '" +
               std::string(name(t.dtype)) + "'. Cast its operands");
}

/// By an amount that is known when it is compiled there is code for any shape. Else the registers
/// along the dim must be full: what leaves one end comes in at the other.
void check_rotate(Planner& p, const Operation& op, const Type& t) {
  if (op.operands.size() != 2) return;
  const int by = p.scalar(op.operands[1]);
  for (const auto& [slot, value] : p.program().constants) {
    if (slot == by) return;
  }
  if (t.kind != Type::Kind::vector || !t.known || t.shape.rank < 2) return;
  if (bit_width(t.dtype) < 32)
    refuse(p, op,
           "Not implemented: unsupported packed type rotation, of '" + std::string(name(t.dtype)) +
               "'");
  const std::int64_t dim = p.integer(op, "dimension");
  const std::int64_t extent = dim >= 0 && dim < t.shape.rank ? t.shape[static_cast<int>(dim)] : 0;
  if ((dim == t.shape.rank - 1 && extent % kLanes != 0) ||
      (dim == t.shape.rank - 2 && extent % kSublanes != 0))
    refuse(p, op,
           "Not implemented: unsupported unaligned shape: dim " + std::to_string(dim) + " has " +
               std::to_string(extent) + " elements");
}

/// Strides are of rows: of 32-bit elements, a register's width apart.
void check_strided(Planner& p, const Operation& op) {
  const bool load = op.name == "tpu.strided_load";
  const bool value_first = !load && p.type(op.operands.front()).kind == Type::Kind::vector;
  const Type& m = p.type(op.operands[value_first ? 1 : 0]);
  const std::vector<std::int64_t> steps = p.integers(op, "strides");
  if (m.kind != Type::Kind::memref || !m.known || m.shape.rank == 0 || steps.empty()) return;
  if (bit_width(m.dtype) < 32)
    refuse(p, op,
           std::string("not implemented: Strided ") + (load ? "load" : "store") +
               " with non 32-bit data, of '" + name(m.dtype) + "'");
  if (steps.back() != 1) refuse(p, op, "Not Implemented: Stride on last dim is not 1");
  if (m.shape[m.shape.rank - 1] > kLanes)
    refuse(p, op, "Not Implemented: The last dim size is not 128 in original base memref");
}

}  // namespace

void refuse_without_code(Planner& p, const Operation& op) {
  if (!p.program().subcores.empty() || op.operands.empty()) return;
  const Type& t = p.type(op.operands.back());
  if (op.name == "tpu.strided_load" || op.name == "tpu.strided_store")
    check_strided(p, op);
  else if (op.name == "tpu.dynamic_rotate")
    check_rotate(p, op, p.type(op.operands.front()));
  else if (t.kind == Type::Kind::scalar)
    check_scalar(p, op, t);
  else if (t.kind == Type::Kind::vector)
    check_vector(p, op, t);
}

}  // namespace tessera::pallas
