#include "triton/plan_kernel.hpp"

#include <algorithm>

#include "program/debugger.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "triton/combine.hpp"
#include "triton/contract.hpp"
#include "triton/dry.hpp"
#include "triton/lent.hpp"
#include "triton/many_dims.hpp"
#include "triton/offsets.hpp"
#include "triton/regular_values.hpp"
#include "triton/rules.hpp"
#include "triton/running_sums.hpp"
#include "triton/turns.hpp"
#include "triton/widths.hpp"
#include "triton/written.hpp"

namespace tessera::triton {

namespace {

/// Rules are handed a Planner; what they say of the kernel besides goes here.
class KernelPlanner : public Planner {
 public:
  KernelPlanner(const Module& module, Kernel& to)
      : Planner(module, rules(to.profile), to.program), kernel(to) {}
  Kernel& kernel;
  std::vector<bool> lent;  ///< by value; empty: none
  RunningSums sums;
  std::vector<LentLoad> loads;
  std::vector<SumOfProducts> products;

  void turn_ends(const Operation& loop, const Counter& counter) override {
    plan_affine_turns(*this, loop, counter, loads, products);
  }
};
KernelPlanner& planner_of(Planner& p) { return static_cast<KernelPlanner&>(p); }
Kernel& kernel_of(Planner& p) { return planner_of(p).kernel; }

/// Numbers the accesses to memory, in the order of the module's text.
void number_accesses(Region& r, std::int64_t& next, const Attribute* stages = nullptr) {
  for (Operation& op : r.operations) {
    if (op.name == "tt.load" || op.name == "tt.store" || op.name.starts_with("tt.atomic")) {
      Attributes attributes = op.attributes ? *op.attributes : Attributes();
      attributes[kAccessNumber].kind = Attribute::Kind::integer;
      attributes[kAccessNumber].integer = next++;
      if (stages != nullptr) attributes[kAccessStages] = *stages;
      op.attributes = std::make_shared<const Attributes>(std::move(attributes));
    }
    const Attribute* const inside = op.name == "scf.for" ? op.find("tt.num_stages") : nullptr;
    for (Region& each : op.regions) number_accesses(each, next, inside);
  }
  for (Region& other : r.others) number_accesses(other, next);
}

/// Triton's own limit is 2^20 elements.
void check_size(const Type& t) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  std::int64_t elems = 1;
  for (int d = 0; d < t.shape.rank; ++d) {
    if (t.shape[d] < 1 || t.shape[d] > kMost || (elems *= t.shape[d]) > kMost)
      throw InputError("bad-module", "the module has a tensor of an impossible shape: " + t.text);
  }
}

}  // namespace

int site_of(Planner& p, const Operation& op, Site::Kind kind) {
  Kernel& k = kernel_of(p);
  if (k.sites.size() >= 65535) p.unsupported(op, "after 65,535 other accesses to memory");
  k.atomics = k.atomics || kind == Site::Kind::atomic;
  const Type& pointer = p.type(op.operands.at(0));
  k.sites.push_back({.location = op.location,
                     .kind = kind,
                     .number = static_cast<int>(p.integer_or(op, kAccessNumber, -1)),
                     .elements = pointer.shape.elems(),
                     .stages = static_cast<int>(p.integer_or(op, kAccessStages, 1)),
                     .bytes = static_cast<int>(register_bytes(pointer.pointee))});
  return static_cast<int>(k.sites.size()) - 1;
}

void note_access(Planner& p, int site, std::vector<StepNote::Slot> where) {
  Site& s = kernel_of(p).sites[static_cast<std::size_t>(site)];
  s.step = p.position() - 1;
  s.where = std::move(where);
}

void note_print(Planner& p) { kernel_of(p).prints = true; }

void note_wait(Planner& p) { kernel_of(p).waits = true; }

void note_lock(Planner& p) { kernel_of(p).locks = true; }

void note_loaded_pointers(Planner& p) { kernel_of(p).loads_pointers = true; }

void note_product(Planner& p, DType operands, bool tf32) {
  kernel_of(p).products = operands;
  kernel_of(p).tf32 = tf32;
}

bool may_be_lent(Planner& p, int value) {
  const std::vector<bool>& lent = planner_of(p).lent;
  return !lent.empty() && lent[static_cast<std::size_t>(value)];
}

void note_lent_load(Planner& p, LentLoad load) {
  load.step = p.position() - 1;
  planner_of(p).loads.push_back(std::move(load));
}

void note_sum_of_products(Planner& p, SumOfProducts product) {
  product.step = p.position() - 1;
  planner_of(p).products.push_back(std::move(product));
}

int running_sum(Planner& p, int value) {
  const RunningSums& sums = planner_of(p).sums;
  return sums.count == 0 ? -1 : sums.of[static_cast<std::size_t>(value)];
}

std::unique_ptr<Kernel> plan_kernel(Module module, Profile profile, bool fusion, bool regular,
                                    bool bounded) {
  regular = regular && !bounded;  // bounds are of elements
  const auto is_public = [](const Function& f) {
    const auto it = f.attributes.find("sym_visibility");
    return it == f.attributes.end() || it->second.text != "private";
  };
  const auto kernels = std::ranges::count_if(module.functions, is_public);
  if (kernels != 1) {
    throw InputError("bad-module", "the module has " + std::to_string(kernels) +
                                       " public functions; a kernel is one");
  }
  for (const Type& t : module.types) check_size(t);
  std::int64_t accesses = 0;
  for (Function& f : module.functions) number_accesses(f.body, accesses);
  regroup_many_dims(module);
  expand_combines(module, bounded);
  note_turns(module);
  auto kernel = std::make_unique<Kernel>();
  kernel->profile = profile;
  kernel->bounded = bounded;
  if (profile == Profile::gpu_hopper && fusion) contract(module);
  Program& program = kernel->program;
  Function& main = *std::ranges::find_if(module.functions, is_public);
  program.name = main.name;
  program.locations = module.locations;
  program.grid = {kDynamic, kDynamic, kDynamic};
  program.parallel = {true, true, true};
  for (int axis = 0; axis < 3; ++axis) program.ids.push_back(program.scalars++);
  for (const Type& t : module.types) {
    if (t.pointer) kernel->granule = std::min(kernel->granule, register_bytes(t.pointee));
  }
  KernelPlanner planner(module, *kernel);
  // A debugger shows what was loaded.
  if (regular && !lines_watched()) {
    planner.lent = lent_tiles(module, main);
    planner.sums = running_sums(module, main, planner.lent);
    kernel->running_sums = planner.sums.count;
  }
  if (regular) planner.keep_regular(regular_values(module, main));
  planner.watch(offset_parts(module, main));
  const std::vector<bool> written = written_arguments(module, main);
  for (std::size_t i = 0; i < main.body.arguments.size(); ++i) {
    const Type& t = module.type(main.body.arguments[i]);
    if (t.kind != Type::Kind::scalar || !t.known) {
      throw KernelError({.slug = "unsupported",
                         .kind = Diagnostic::Kind::unsupported,
                         .headline = "arguments of type " + t.text + " are not built yet",
                         .fields = {{"kernel", main.name}}});
    }
    std::string name = i < main.argument_names.size() ? main.argument_names[i] : "";
    if (name.empty()) name = "argument " + std::to_string(i);
    kernel->parameters.push_back({std::move(name), t, -1, written[i]});
  }
  std::map<int, Planner::MadeBy> made;
  planner.keep_element_ops(made);
  planner.plan_function(main, program.main);
  const std::vector<AccessWidth> widths = access_widths(module, main);
  for (Site& s : kernel->sites) {
    const auto at = static_cast<std::size_t>(s.number);
    if (s.number < 0 || at >= widths.size()) continue;
    s.width = widths[at].width;
    s.run = widths[at].run;
  }
  plan_dry_run(*kernel);
  if (regular) kernel->form = grid_form(module, main, made, kernel->sites);
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i)
    kernel->parameters[i].slot = program.main.arguments[i];
  return kernel;
}

}  // namespace tessera::triton
