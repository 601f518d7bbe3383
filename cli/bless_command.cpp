// `tessera bless K --device h100`: the goldens of a kernel that a library checks in.
//
// Every case of the kernel (aligned, ragged, degenerate), in f32 and bf16, made smaller until a
// golden is small; the first case also with inputs whose sums no order rounds, and with inputs that
// cancel. With the checker in Python, and a README that says how a CI uses them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/golden_command.hpp"
#include "cli/libraries.hpp"
#include "cli/module_commands.hpp"
#include "memory_model/npy.hpp"

namespace tessera::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmall = 256 << 10;  // bytes of a golden's arrays, where sizes allow
constexpr double kLeast = 32;  // smaller ones are heads, groups, devices: what a case is about

std::int64_t bytes_of(const Plan& plan, int devices) {
  std::int64_t bytes = 0;
  for (const OperandPlan& op : plan.operands) {
    if (!op.present) continue;
    const std::int64_t own = packed_bytes(op.dtype, op.array.elems());
    if (op.is_input()) bytes += own;
    if (op.is_output()) bytes += own + packed_bytes(DType::f32, op.array.elems());
  }
  return bytes * devices;
}

/// What a request comes to; nothing if its sizes and tiles do not go together.
std::optional<Description> described(const KernelHandle& kernel, const Request& request) {
  try {
    Description d = kernel.describe(request);
    finish_plan(d.plan);
    return d;
  } catch (const InputError&) {
  } catch (const KernelError&) {
  }
  return std::nullopt;
}

void assign(Request& request, const std::string& name, double value) {
  std::erase_if(request.assignments, [&](const auto& a) { return a.first == name; });
  request.assignments.emplace_back(name, fmt::format("{}", value));
}

/// The tiles that the CUDA build of this program has for the kernel, if the device is a GPU.
void take_cuda_tiles(const KernelHandle& kernel, Request& request) {
  if (request.device.keeps_blocks_across_cells() || cuda_backend() == nullptr) return;
  const Setting setting = kernel.describe(request).setting;
  std::vector<int> asked;
  for (const auto& [name, extent] : setting.tiles) asked.push_back(extent);
  const auto with = [&](const std::vector<int>& tiles) {
    Request other = request;
    for (std::size_t i = 0; i < tiles.size(); ++i) assign(other, setting.tiles[i].first, tiles[i]);
    return other;
  };
  const CudaFit fit = fit_cuda(
      kernel.info.name, request.dtype, asked, false,
      [&](const std::vector<int>& tiles) { return described(kernel, with(tiles)).has_value(); });
  if (fit.instance != nullptr) request = with(fit.instance->tiles);
}

/// True if `plan` covers what `whole` does: two blocks along every dim that has several, aligned
/// where it is, and one block as full as it is.
bool still_in_blocks(const Plan& plan, const Plan& whole) {
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    const OperandPlan& now = plan.operands[i];
    const OperandPlan& was = whole.operands[i];
    if (now.block.rank != now.array.rank) continue;  // not cut into blocks
    for (int d = 0; d < now.blocks.rank; ++d) {
      if (now.blocks[d] < std::min<std::int64_t>(2, was.blocks[d])) return false;
      if (was.array[d] % was.block[d] == 0 && now.array[d] % now.block[d] != 0) return false;
      const bool one_block = was.blocks[d] == 1 && now.block[d] == was.block[d];
      if (one_block && now.array[d] < was.array[d]) return false;
    }
  }
  return true;
}

/// Halves the largest size that can be, until arrays are small: blocks stay as they are, two along
/// every dim that had several.
void make_small(const KernelHandle& kernel, Request& request) {
  const std::optional<Description> whole = described(kernel, request);
  if (!whole) return;
  const int devices = std::max(1, request.devices);
  std::int64_t bytes = bytes_of(whole->plan, devices);
  std::vector<Parameter> sizes = whole->setting.sizes;
  while (bytes > kSmall) {
    std::sort(sizes.begin(), sizes.end(),
              [](const Parameter& a, const Parameter& b) { return a.value > b.value; });
    bool smaller = false;
    for (Parameter& size : sizes) {
      const double half = size.value / 2;
      if (half != std::floor(half) || half < kLeast) continue;
      Request other = request;
      assign(other, size.name, half);
      const std::optional<Description> then = described(kernel, other);
      if (!then || bytes_of(then->plan, devices) >= bytes ||
          !still_in_blocks(then->plan, whole->plan))
        continue;
      size.value = half;
      bytes = bytes_of(then->plan, devices);
      request = other;
      smaller = true;
      break;
    }
    if (!smaller) return;
  }
}

constexpr const char* kReadme = R"(# Goldens of {kernel}

Made by `{command}`: what the kernel computes, and per element how far a
conforming build may be from it. Conforming: f32 sums in any order, casts to nearest even, elementary functions
within the ulps that each manifest.json states (`error_model`).

| golden | what it holds a build to |
|---|---|
{rows}
A build is **bit-exact**, **within the bound**, or **wrong**; nothing here is a tolerance that somebody chose.

## In a pytest, on the accelerator

`tessera_golden.py` beside this file needs NumPy and ml_dtypes alone.

```python
import pathlib, pytest
from tessera_golden import assert_golden, load

GOLDENS = sorted(p.parent for p in pathlib.Path("{folder}").glob("*/manifest.json"))

@pytest.mark.parametrize("path", GOLDENS, ids=lambda p: p.name)
def test_{kernel}(path):
    golden = load(path, kernel="{kernel}")
    assert_golden(golden, my_{kernel}(**golden.inputs))  # golden.params has the sizes
```

## From a shell

```
python tessera_golden.py {folder}/GOLDEN OUTPUTS         # OUTPUTS/NAME.npy of any build
tessera golden check {folder}/GOLDEN --outputs OUTPUTS   # the same
tessera golden check {folder}/GOLDEN --backend cuda      # tessera's own CUDA build of the body
tessera golden bisect {folder}/GOLDEN --outputs OUTPUTS  # the first grid step that differs
```

A golden that was touched is refused. To change one, change the kernel and bless it again: each manifest.json holds
the command that made it, and the diff of this folder shows what moved.
)";

std::string filled(std::string text,
                   const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [word, value] : words) {
    const std::string key = "{" + word + "}";
    for (std::size_t at = text.find(key); at != std::string::npos;
         at = text.find(key, at + value.size()))
      text.replace(at, key.size(), value);
  }
  return text;
}

}  // namespace

int bless_command(const Kernels& kernels, const RunArguments& a, const GoldenArguments& g) {
  if (is_module(a.kernel))
    throw InputError("bad-input", "bless makes goldens of a kernel's cases; a module has one call",
                     "tessera golden make " + a.kernel + " --out gold");
  const KernelHandle& kernel = kernels.find(a.kernel);
  const fs::path folder =
      g.folder.empty() ? fs::path("goldens") / kernel.info.name : fs::path(g.folder);
  fs::create_directories(folder);
  std::string rows;
  int made = 0;
  for (const DType dtype : kernel.dtypes) {
    for (std::size_t c = 0; c < kernel.cases.size(); ++c) {
      for (const InputKind kind :
           {InputKind::uniform, InputKind::integers, InputKind::cancellation}) {
        if (kind != InputKind::uniform && c != 0) continue;
        RunArguments arguments = a;
        arguments.dtype = name(dtype);
        arguments.case_index = static_cast<int>(c);
        arguments.input_kind = name(kind);
        Request request = request_of(kernel, arguments);
        request.options.error_model = model_of_kernel(g);
        lift_limits(request);
        take_cuda_tiles(kernel, request);
        make_small(kernel, request);
        std::vector<Diagnostic> diagnostics;
        const golden::Golden golden = make_golden(
            kernel, request, command_of("golden make", arguments_of(kernel.info.name, request), g),
            diagnostics);
        for (const auto& d : diagnostics) say(d);
        if (!diagnostics.empty()) return exit_code(diagnostics);
        std::string title = fmt::format("{}-{}", name(dtype), kernel.cases[c]);
        std::replace(title.begin(), title.end(), ' ', '-');
        std::erase(title, ',');
        if (kind != InputKind::uniform) title += std::string("-") + name(kind);
        golden::write(folder / title, golden);
        rows += fmt::format("| {} | {} |\n", title, golden::describe(golden));
        fmt::print("{}: {}\n", (folder / title).string(), golden::describe(golden));
        ++made;
      }
    }
  }
  fs::copy_file(handed_out("golden/python/tessera_golden.py"), folder / "tessera_golden.py",
                fs::copy_options::overwrite_existing);
  write_file_atomically(
      (folder / "README.md").string(),
      filled(kReadme,
             {{"kernel", kernel.info.name},
              {"command", joined({"tessera", "bless", kernel.info.name, "--device", a.device}) +
                              model_options(g)},
              {"rows", rows},
              {"folder", folder.string()}}));
  fmt::print("{} goldens; {} says how a CI uses them\n", made, (folder / "README.md").string());
  return 0;
}

}  // namespace tessera::cli
