#include <fmt/format.h>

#include "sim/diagnostics/slugs.hpp"

namespace tessera {

std::string describe_step(const Plan& plan, const int* ids) {
  std::string text = "(";
  for (int d = 0; d < plan.grid_rank; ++d) {
    if (d > 0) text += ", ";
    const char* label = plan.labels[static_cast<std::size_t>(d)];
    if (*label != '\0') text += std::string(label) + "=";
    text += std::to_string(ids[d]);
  }
  return text + ")";
}

void add_kernel_field(Diagnostic& d) {
  const StepContext* c = step_context;
  if (c == nullptr) return;
  std::string text = c->who;
  if (c->device >= 0) text += ", device " + std::to_string(c->device);
  if (c->core >= 0) text += ", core " + std::to_string(c->core);
  if (c->ids != nullptr) text += ", grid " + describe_step(*c->plan, c->ids);
  d.fields.emplace_back("kernel", text);
}

void add_replay_field(Diagnostic& d) {
  const StepContext* c = step_context;
  if (c == nullptr || c->command.empty()) return;
  std::string text = c->command;
  if (c->ids != nullptr && c->plan->grid_rank > 0) {
    text += " --at ";
    for (int i = 0; i < c->plan->grid_rank; ++i) {
      text += (i > 0 ? "," : "") + std::to_string(c->ids[i]);
    }
    if (!c->plan->counts_in_run) text += " --break";  // gdb stops in C++ bodies, not in modules
  }
  d.fields.emplace_back("replay", text);
}

std::string describe_ref(const OperandPlan& op) {
  const std::string block = op.name + "_ref: " + name(op.space) + " " + describe(op.dtype, op.kept);
  if (op.role == Role::in)
    return block + " <- " + op.name + ": HBM " + describe(op.dtype, op.array);
  if (op.role == Role::out)
    return block + " -> " + op.name + ": HBM " + describe(op.dtype, op.array);
  const bool given = in_hbm(op.role) && op.role != Role::hbm;
  return op.name + ": " + name(op.space) + " " +
         describe(op.dtype, in_hbm(op.role) ? op.array : op.kept) + (given ? "" : ", scratch");
}

std::string with_commas(std::int64_t n) {
  std::string digits = std::to_string(n);
  if (n < 0) digits.erase(0, 1);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return n < 0 ? "-" + digits : digits;
}

std::string human_bytes(std::int64_t n) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(n);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return std::to_string(n) + " B";
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

}  // namespace tessera
