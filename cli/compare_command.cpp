// `tessera compare K --backend cuda`: the cases of a kernel on a backend and in the interpreter,
// with the same tiles and inputs, output by output.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "cli/colour.hpp"
#include "cli/commands.hpp"
#include "cli/device_profile.hpp"
#include "cli/module_commands.hpp"

namespace tessera::cli {

namespace {

struct Difference {
  std::int64_t elems = 0;
  std::int64_t differ = 0;
  std::int64_t worst_ulp = 0;
  std::int64_t worst_at = -1;
};

/// NaNs are alike.
Difference difference(const Array& a, const Array& b) {
  Difference d;
  d.elems = a.elems();
  for (std::int64_t i = 0; i < d.elems; ++i) {
    const double x = a.at(i);
    const double y = b.at(i);
    if ((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y)))
      continue;
    ++d.differ;
    const std::int64_t ulp = golden::ulp_distance(a, b, i);
    if (d.worst_at < 0 || ulp > d.worst_ulp) {
      d.worst_ulp = ulp;
      d.worst_at = i;
    }
  }
  return d;
}

std::string tiles_of(const Setting& setting) {
  std::string text;
  for (const auto& [name, extent] : setting.tiles)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, extent);
  return text;
}

}  // namespace

int compare_command(const Kernels& kernels, const RunArguments& a) {
  if (is_module(a.kernel))
    throw InputError("bad-input", "a Mosaic module runs in the interpreter alone",
                     "tessera golden make " + a.kernel + " --out gold holds a TPU's outputs to it");
  const KernelHandle& kernel = kernels.find(a.kernel);
  const bool one = a.case_index != 0 || !a.assignments.empty();
  const int cases = one ? 1 : static_cast<int>(kernel.cases.size());
  int code = 0;
  bool any = false;
  std::optional<InputError> refused;
  std::string left_out;
  for (int c = 0; c < cases; ++c) {
    Request request = request_of(kernel, a);
    if (!one) request.case_index = c;
    if (!request.backend || *request.backend == BackendKind::interpret)
      throw InputError("bad-usage", "--backend cuda or reference: what to compare with");
    std::optional<Outcome> ran;
    try {
      ran = kernel.run(request);
    } catch (const InputError& error) {
      // Another case may ask for fewer devices.
      if (error.slug != "no-backend") throw;
      if (!refused) refused = error;
      left_out += fmt::format("case {} ({}) was left out: {}\n", c,
                              kernel.cases[static_cast<std::size_t>(c)], error.what());
      continue;
    }
    any = true;
    const Outcome& theirs = *ran;
    Request interpreted = request;
    interpreted.backend = BackendKind::interpret;
    interpreted.check = false;
    // A GPU has no rule for the shapes of blocks, and its CTAs start empty.
    if (!a.device_given) interpreted.device = find_device("h100");
    interpreted.device.vmem_bytes = std::numeric_limits<std::int64_t>::max();
    for (const auto& [name, extent] : theirs.setting.tiles)
      interpreted.assignments.emplace_back(name, std::to_string(extent));
    const cuda::Launched& launch = theirs.receipt.launch;
    if ((launch.fast_functions || launch.tensor_cores) && launch.capability / 10 != 9)
      throw InputError("unmodelled",
                       fmt::format("how tensor cores of compute capability {}.{} sum, and what its "
                                   "functions give, nobody has measured",
                                   launch.capability / 10, launch.capability % 10),
                       "--dtype f32, which every GPU computes alike");
    if (launch.fast_functions)
      interpreted.options.profile = functions_profile(find_device("h100")).value();
    else if (launch.tensor_cores)
      interpreted.options.profile = Profile::tensorcore_hopper;
    const Outcome ours = kernel.run(interpreted);
    if (!ours.result.ok()) {
      say(ours.result.diagnostics.front());
      return exit_code(ours.result.diagnostics);
    }
    fmt::print("{} {}, {}, {}{}{}\n", kernel.info.name, name(request.dtype),
               theirs.setting.case_name.empty() ? "given sizes" : theirs.setting.case_name,
               tiles_of(theirs.setting),
               launch.tensor_cores     ? ", on tensor cores"
               : launch.fast_functions ? ", with the GPU's functions"
                                       : "",
               interpreted.options.profile == Profile::exact
                   ? ""
                   : fmt::format(": interpreted as {}", name(interpreted.options.profile)));
    for (std::size_t i = 0; i < ours.result.outputs.size(); ++i) {
      const Difference d = difference(theirs.result.outputs[i], ours.result.outputs[i]);
      if (d.differ == 0) {
        fmt::print("  {:<8} {} elements, bit-identical\n", theirs.output_names[i],
                   with_commas(d.elems));
        continue;
      }
      fmt::print("  {:<8} {} of {} elements differ, by at most {} ulp, at element {}\n",
                 theirs.output_names[i], with_commas(d.differ), with_commas(d.elems),
                 with_commas(d.worst_ulp), with_commas(d.worst_at));
      if (request.backend == BackendKind::cuda) code = 1;
    }
    if (theirs.validation) {
      fmt::print("  {} the reference: off by {:.0f} % of the error bound\n",
                 theirs.validation->passed ? "agrees with" : "differs from",
                 100 * theirs.validation->worst_of_bound);
      if (!theirs.validation->passed) code = 1;
    }
    std::fflush(stdout);
  }
  if (refused && !any) throw *refused;
  fmt::print("{}", left_out);
  return code;
}

}  // namespace tessera::cli
