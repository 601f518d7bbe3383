#include "triton/worker.hpp"

#include "sim/diagnostics/slugs.hpp"

namespace tessera::triton {

Worker::Worker(const Running& of, Memory& memory)
    : of_(of),
      bounds_(of.launch.grid.begin(), of.launch.grid.end()),
      context_{.plan = &of.plan,
               .ids = ids_.data(),
               .who = of.options.who.empty() ? of.plan.kernel : of.options.who,
               .command = "",
               .stop = of.options.stop},
      instance_(of.launch.kernel->program, context_, memory) {
  take_over();
  instance_.bounds = &bounds_;
  instance_.printed = &printed;
  instance_.dry = of.options.dry;
  if (of.launch.footprint) instance_.footprint = &footprint_;
  const Kernel& kernel = *of.launch.kernel;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& p = kernel.parameters[i];
    const Argument& a = of.launch.arguments[i];
    Scalar& s = instance_.scalars[static_cast<std::size_t>(p.slot)];
    s = a.value;
    if (a.storage < 0) continue;
    instance_.set(p.slot, of.bases[i] + a.offset * register_bytes(p.type.pointee));
  }
}

void Worker::run(std::int64_t program) {
  take_over();
  instance_.number = program;
  instance_.epoch = 0;
  instance_.knows.clear();
  instance_.waits = 0;
  instance_.loaded.clear();
  instance_.stored.clear();
  instance_.waiting.assign(static_cast<std::size_t>(of_.launch.kernel->running_sums), {});
  if (instance_.footprint != nullptr) footprint_.begin(program);
  for (std::size_t d = 0; d < 3; ++d) {
    ids_[d] = static_cast<int>(program % of_.launch.grid[d]);
    program /= of_.launch.grid[d];
    instance_.set(of_.launch.kernel->program.ids[d], std::int32_t{ids_[d]});
  }
  stop_if_asked();
  instance_.run(of_.launch.kernel->program.main);
}

void Worker::count(std::vector<Requested>& requested) const {
  for (std::size_t i = 0; i < requested.size(); ++i) requested[i] += instance_.requested[i];
}

}  // namespace tessera::triton
