// `tessera registry [K sizes...]`: what can compute a kernel, and what would.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.hpp"

namespace tessera::cli {

namespace {

std::string operands_of(const Plan& plan) {
  std::string text;
  for (const OperandPlan& op : plan.operands) {
    if (!op.present || !(op.is_input() || op.is_output())) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", op.name,
                        describe(op.dtype, op.array), op.is_output() ? " (out)" : "");
  }
  return text;
}

void print_one(const KernelHandle& kernel, const Request& request) {
  const std::vector<Implementation> all = implementations_of(kernel, request);
  fmt::print("{}({})\n", kernel.info.name, operands_of(kernel.describe(request).plan));
  const auto taken = std::ranges::find_if(
      all, [](const Implementation& i) { return i.why_not.empty() && i.priority > 0; });
  for (const Implementation& i : all) {
    const bool is_taken = taken != all.end() && &i == &*taken;
    fmt::print("  {:<10} {:<4} {}\n", i.platform,
               is_taken            ? "auto"
               : i.why_not.empty() ? "yes"
                                   : "no",
               i.why_not.empty() ? i.when : i.why_not);
  }
}

}  // namespace

int registry_command(const Kernels& kernels, const RunArguments& a) {
  if (!a.kernel.empty()) {
    const KernelHandle& kernel = kernels.find(a.kernel);
    print_one(kernel, request_of(kernel, a));
    return 0;
  }
  for (const KernelHandle& kernel : kernels.all()) {
    std::string line = fmt::format("{:<24}", kernel.info.name);
    for (const Implementation& i : implementations_of(kernel, request_of(kernel, a)))
      line += fmt::format(" {:<10}", i.why_not.empty() ? i.platform : "-");
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  fmt::print("\ntessera registry KERNEL says on which condition, and why not\n");
  return 0;
}

}  // namespace tessera::cli
