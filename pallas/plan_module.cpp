#include "pallas/plan_module.hpp"

#include <charconv>
#include <map>
#include <set>

#include "pallas/compiler_limits.hpp"
#include "pallas/rules.hpp"
#include "pallas/written.hpp"
#include "program/index_numbers.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::pallas {

namespace {

[[noreturn]] void malformed(const std::string& why) {
  throw InputError("bad-module", "the module makes no sense: " + why);
}

const Attribute* find(const std::map<std::string, Attribute>& attributes, const char* name) {
  const auto it = attributes.find(name);
  return it == attributes.end() ? nullptr : &it->second;
}
std::int64_t integer_of(const Function& f, const char* name, std::int64_t otherwise) {
  const Attribute* a = find(f.attributes, name);
  return a != nullptr && a->kind == Attribute::Kind::integer ? a->integer : otherwise;
}

/// The functions that are launched, one per kind of core: index maps are called by name from them.
std::vector<const Function*> mains_of(const Module& module) {
  std::vector<const Function*> mains;
  for (const Function& f : module.functions) {
    if (find(f.attributes, "dimension_semantics") != nullptr) mains.push_back(&f);
  }
  if (mains.empty()) mains.push_back(&module.functions.front());
  return mains;
}

class ModulePlanner {
 public:
  ModulePlanner(const Module& module, Program& program)
      : module_(module),
        program_(program),
        mains_(mains_of(module)),
        main_(*mains_.front()),
        planner_(module, rules(), program),
        numbers_(module, program) {}

  void plan() {
    program_.name = main_.name;
    program_.locations = module_.locations;
    if (program_.locations.empty()) program_.locations.emplace_back();
    read_cores();
    read_grid();
    read_arguments();
    if (mains_.size() > 1) {
      plan_kinds();
      return;
    }
    // A dim of one step has one id, which the TPU's compiler knows as well.
    for (std::size_t d = 0; d < program_.grid.size(); ++d)
      if (program_.grid[d] == 1) planner_.know(main_.body.arguments[d], 0);
    planner_.plan_function(main_, program_.main);
    const Written written = written_by(module_, main_, planner_, !program_.subcores.empty());
    for (Window& w : program_.operands) {
      w.written = written.arguments.contains(w.argument);
      w.by_data = written.by_data.contains(w.argument);
    }
    for (Window& w : program_.prefetched) w.written = written.arguments.contains(w.argument);
    for (std::size_t d = 0; d < program_.grid.size(); ++d)
      program_.reads_id.push_back(planner_.used(main_.body.arguments[d]));
    const auto& slots = program_.main.arguments;
    const std::size_t rank = program_.grid.size();
    for (std::size_t d = 0; d < rank; ++d) program_.ids[d] = slots[d];
    place_windows(slots, rank);
    for (std::size_t i = 0; i < transforms_.size(); ++i) plan_transform(i, written);
  }

 private:
  [[noreturn]] void unsupported(const std::string& headline) const {
    throw KernelError({.slug = "unsupported",
                       .kind = Diagnostic::Kind::unsupported,
                       .headline = headline,
                       .fields = {{"kernel", main_.name}}});
  }

  static std::vector<std::int64_t> grid_of(const Function& f) {
    const Attribute* bounds = find(f.attributes, "iteration_bounds");
    return bounds == nullptr ? std::vector<std::int64_t>{} : bounds->integers;
  }

  /// Of kernels for SparseCores: which of their cores run what.
  void read_cores() {
    std::int64_t cells = 0;
    for (const Function* f : mains_) {
      const Attribute* core = find(f->attributes, "tpu.core_type");
      if (core == nullptr || core->text.find("<tc>") != std::string::npos) {
        if (mains_.size() > 1) unsupported("a kernel for TensorCores together with other cores");
        return;
      }
      Subcores kind;
      kind.vectors = core->text.find("<sc_vector_subcore>") != std::string::npos;
      if (!kind.vectors && core->text.find("<sc_scalar_subcore>") == std::string::npos)
        unsupported("a kernel for " + core->text);
      kind.grid = grid_of(*f);
      for (const std::int64_t extent : kind.grid) {
        if (extent < 1 || extent > (std::int64_t{1} << 20)) malformed("a mesh without cores");
      }
      if (kind.grid.size() > 2 || kind.grid.empty())
        unsupported("a mesh of SparseCores of this rank");
      kind.first = cells;
      cells += kind.cells();
      program_.subcores.push_back(std::move(kind));
    }
  }

  void place_windows(const std::vector<int>& slots, std::size_t first) {
    for (auto* windows : {&program_.prefetched, &program_.operands, &program_.scratch}) {
      for (Window& w : *windows) w.slot = slots[first++];
    }
  }

  /// A function for each kind of core, on the same operands and scratch; cells in one dim.
  void plan_kinds() {
    if (!program_.prefetched.empty() || !transforms_.empty())
      unsupported("a pipeline in a kernel for several kinds of cores");
    std::int64_t cells = 0;
    for (std::size_t k = 0; k < mains_.size(); ++k) {
      const Function& f = *mains_[k];
      Subcores& kind = program_.subcores[k];
      const std::size_t rank = kind.grid.size();
      if (f.body.arguments.size() - rank != main_.body.arguments.size() - program_.grid.size())
        malformed("its functions take other operands");
      for (std::size_t i = rank; i < f.body.arguments.size(); ++i) {
        const Type& own = module_.type(f.body.arguments[i]);
        const Type& first = module_.type(main_.body.arguments[program_.grid.size() + i - rank]);
        if (own.kind != first.kind || !(own.shape == first.shape) || own.dtype != first.dtype ||
            own.space != first.space || own.semaphore != first.semaphore)
          unsupported("operands that are not the same for every kind of core");
      }
      planner_.plan_function(f, kind.main);
      const Written written = written_by(module_, f, planner_, true);
      for (std::size_t i = 0; i < program_.operands.size(); ++i) {
        Window& w = program_.operands[i];
        w.by_data = true;  // one kind of core may tell another
        if (written.arguments.contains(f.body.arguments[rank + i])) w.written = true;
      }
      kind.ids.assign(kind.main.arguments.begin(),
                      kind.main.arguments.begin() + static_cast<std::ptrdiff_t>(rank));
      cells += kind.cells();
    }
    place_windows(program_.subcores.front().main.arguments, program_.subcores.front().grid.size());
    program_.grid = {cells};
    program_.parallel = {true};
    program_.ids = {planner_.fresh_scalar()};
    program_.reads_id = {true};
  }

  /// True for an extent that is a symbol: JAX numbers those of an exported program from 2^31 - 1
  /// downward.
  static bool is_symbol(std::int64_t extent) {
    constexpr std::int64_t kFirst = (std::int64_t{1} << 31) - 1;
    constexpr std::int64_t kSymbols = 1024;
    return extent > kFirst - kSymbols && extent <= kFirst;
  }

  void read_grid() {
    program_.grid = grid_of(main_);
    for (std::int64_t& extent : program_.grid) {
      if (is_symbol(extent)) extent = kDynamic;  // an operand, as dynamic ones are
    }
    if (program_.grid.size() > static_cast<std::size_t>(kMaxGridRank))
      malformed("its grid has " + std::to_string(program_.grid.size()) + " dims");
    const Attribute* semantics = find(main_.attributes, "dimension_semantics");
    for (std::size_t d = 0; d < program_.grid.size(); ++d) {
      const bool parallel = semantics != nullptr && d < semantics->list.size() &&
                            semantics->list[d].text.find("parallel") != std::string::npos;
      program_.parallel.push_back(parallel);
      if (program_.grid[d] != kDynamic && program_.grid[d] < 0) malformed("a grid dim is negative");
    }
    program_.ids.assign(program_.grid.size(), -1);
  }

  Window window_of(int argument) const {
    Window w;
    w.argument = argument;
    w.type = module_.type(argument);
    if (w.type.kind != Type::Kind::memref) malformed("an operand of the kernel is no memref");
    for (int d = 0; d < w.type.shape.rank; ++d) {
      if (w.type.shape[d] < 0) malformed("an operand of the kernel has a dynamic shape");
      if (is_symbol(w.type.shape[d]))
        unsupported("a block whose extents are symbols, as of an operand taken whole");
      w.bounds.push_back(w.type.shape[d]);
    }
    w.any = w.type.space == "any" || w.type.space == "hbm";
    w.smem = w.type.space == "smem";
    w.semaphores = !w.type.semaphore.empty();
    w.slots = 1;
    if (!w.type.known && !w.semaphores) unsupported("an operand of type " + w.type.text);
    return w;
  }

  void read_arguments() {
    const auto& arguments = main_.body.arguments;
    const auto prefetch = integer_of(main_, "scalar_prefetch", 0);
    const auto scratch = integer_of(main_, "scratch_operands", 0);
    const auto rank = static_cast<std::int64_t>(program_.grid.size());
    const auto all = static_cast<std::int64_t>(arguments.size());
    if (prefetch < 0 || scratch < 0 || rank + prefetch + scratch > all)
      malformed("its main function lacks arguments");
    for (std::int64_t i = 0; i < rank; ++i) {
      if (module_.type(arguments[static_cast<std::size_t>(i)]).kind != Type::Kind::scalar)
        malformed("a program id is no scalar");
    }
    const Attribute* windows = find(main_.attributes, "window_params");
    const std::int64_t operands = all - rank - prefetch - scratch;
    if (windows != nullptr && static_cast<std::int64_t>(windows->list.size()) != operands)
      malformed("it has " + std::to_string(windows->list.size()) + " windows for " +
                std::to_string(operands) + " operands");
    for (std::int64_t i = 0; i < all - rank; ++i) {
      Window w = window_of(arguments[static_cast<std::size_t>(rank + i)]);
      if (i < prefetch) {
        program_.prefetched.push_back(std::move(w));
      } else if (i >= all - rank - scratch) {
        program_.asynchronous = program_.asynchronous || w.semaphores || w.any;
        program_.scratch.push_back(std::move(w));
      } else {
        if (windows != nullptr)
          read_window(windows->list[static_cast<std::size_t>(i - prefetch)], w);
        program_.asynchronous = program_.asynchronous || w.any || w.in_place || w.semaphores;
        program_.operands.push_back(std::move(w));
      }
    }
  }

  void read_window(const Attribute& a, Window& w) {
    const Attribute* transform = find(a.dictionary, "transform_indices");
    if (transform == nullptr || w.any || w.semaphores) return;
    const Attribute* bounds = find(a.dictionary, "window_bounds");
    // What a kernel without a pipeline takes whole has the map of zeros, and no bounds.
    if (bounds == nullptr && transform->text.starts_with("affine_map")) {
      w.in_place = true;
      return;
    }
    if (bounds == nullptr || bounds->kind != Attribute::Kind::integers)
      malformed("a window has no bounds");
    w.bounds = bounds->integers;
    std::int64_t elems = 1;
    for (const std::int64_t b : w.bounds) {
      if (b < 1 || b > (std::int64_t{1} << 40)) malformed("a window has no extent");
      elems *= b;
      if (elems > (std::int64_t{1} << 40)) malformed("a window is too large");
    }
    if (elems != w.type.shape.elems() || w.bounds.size() > static_cast<std::size_t>(kMaxRank))
      malformed("a window's bounds are not its memref's");
    if (const Attribute* kind = find(a.dictionary, "window_kind")) read_kind(kind->text, w);
    w.whole = false;
    w.slots = 2;
    if (const Attribute* mode = find(a.dictionary, "pipeline_mode")) {
      if (mode->text.find("synchronous") != std::string::npos) w.slots = 1;
    }
    if (const Attribute* mode = find(a.dictionary, "revisit_mode"))
      w.restored = mode->text.find("any") != std::string::npos;
    std::string name = transform->text;
    if (name.starts_with("@")) name = name.substr(1);
    const Function* f = module_.function(name);
    if (f == nullptr) malformed("it has no index map " + name);
    transforms_.emplace_back(program_.operands.size(), f);
  }

  /// #tpu.element_window<[0, 0], [8, 0]>: padding before and after, per dim.
  void read_kind(const std::string& text, Window& w) {
    if (text.find("element_window") == std::string::npos) unsupported("windows of kind " + text);
    w.by_element = true;
    std::vector<std::int64_t>* list = nullptr;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '[') list = list == nullptr ? &w.pad_low : &w.pad_high;
      if (list == nullptr || text[i] < '0' || text[i] > '9') continue;
      std::int64_t n = 0;
      const auto [end, error] = std::from_chars(&text[i], text.data() + text.size(), n);
      if (error != std::errc{} || n > (std::int64_t{1} << 31)) malformed("a window's padding");
      list->push_back(n);
      i = static_cast<std::size_t>(end - text.data()) - 1;
    }
    if (w.pad_low.size() != w.bounds.size() || w.pad_high.size() != w.bounds.size())
      malformed("a window's padding is not of its rank");
  }

  void plan_transform(std::size_t i, const Written& written) {
    const auto& [operand, f] = transforms_[i];
    Window& w = program_.operands[operand];
    if (f->body.arguments.size() != program_.grid.size() + program_.prefetched.size())
      malformed("an index map takes other arguments");
    for (std::size_t k = 0; k < f->body.arguments.size(); ++k) {
      const bool memref = module_.type(f->body.arguments[k]).kind == Type::Kind::memref;
      if (memref != (k >= program_.grid.size())) malformed("an index map takes other arguments");
    }
    // The same map may serve several windows; each has code of its own.
    planner_.plan_function(*f, w.transform);
    w.transform.units = numbers_.of(*f);
    for (std::size_t d = 0; d < program_.grid.size(); ++d)
      w.uses.push_back(planner_.used(f->body.arguments[d]));
    w.along = along_last(*f);
    for (std::size_t k = program_.grid.size(); k < f->body.arguments.size(); ++k) {
      if (!planner_.used(f->body.arguments[k])) continue;
      w.by_data = true;
      const auto changed =
          written.arguments.find(program_.prefetched[k - program_.grid.size()].argument);
      if (changed != written.arguments.end()) fail_changed_index(k, changed->second);
    }
    if (w.transform.results.size() != w.bounds.size())
      malformed("an index map gives another number of indices");
  }

  /// The pipeline asks for the next blocks while the body runs.
  [[noreturn]] void fail_changed_index(std::size_t argument, int location) const {
    const Location& at = program_.locations[static_cast<std::size_t>(location)];
    throw KernelError(
        {.slug = "race",
         .headline = "the body writes prefetched" +
                     std::to_string(argument - program_.grid.size()) +
                     ", which an index map reads: the next block may be under way by then",
         .fields = {{"kernel", main_.name},
                    {"line", source_excerpt({at.file.c_str(), at.line})},
                    {"help", "keep what the body changes in scratch of its own"}}});
  }

  /// What an index map does with the last id: sums, differences and products by what it does not
  /// move are affine.
  Along along_last(const Function& f) const {
    const std::size_t rank = program_.grid.size();
    std::map<int, Along> known;
    for (std::size_t k = 0; k < f.body.arguments.size(); ++k)
      known[f.body.arguments[k]] = k + 1 == rank ? Along::affine : Along::constant;
    Along most = Along::constant;
    for (const Operation& op : f.body.operations) {
      Along along = Along::constant;
      int moved = 0;
      for (const int v : op.operands) {
        const auto at = known.find(v);
        const Along of = at == known.end() ? Along::other : at->second;
        moved += of == Along::constant ? 0 : 1;
        along = std::max(along, of);
      }
      const bool keeps = op.name == "arith.addi" || op.name == "arith.subi" ||
                         op.name == "arith.extsi" || op.name == "arith.index_cast" ||
                         op.name == "func.return" || (op.name == "arith.muli" && moved < 2);
      if (!op.regions.empty() || (along == Along::affine && !keeps)) along = Along::other;
      if (op.name == "func.return") most = along;
      for (const int v : op.results) known[v] = along;
    }
    return most;
  }

  const Module& module_;
  Program& program_;
  const std::vector<const Function*> mains_;
  const Function& main_;  ///< the first
  Planner planner_;
  program::IndexNumbers numbers_;
  std::vector<std::pair<std::size_t, const Function*>> transforms_;
};

}  // namespace

std::unique_ptr<Program> plan_module(const Module& module) {
  // The rules of program/ take f64 for GPUs.
  for (const Type& t : module.types) {
    if (t.known && t.dtype == DType::f64) {
      throw KernelError({.slug = "unsupported",
                         .kind = Diagnostic::Kind::unsupported,
                         .headline = t.text + ": TPUs have no f64"});
    }
  }
  auto program = std::make_unique<Program>();
  program->refusals = compiler_limits(module);
  program->of_core = true;
  try {
    ModulePlanner(module, *program).plan();
  } catch (const KernelError&) {
    // What no TPU has code for comes before what is not built here.
    for (const Refusal& r : program->refusals) {
      if (r.chips.empty() && !r.until_jax_0_11) throw KernelError(r.diagnostic);
    }
    throw;
  }
  return program;
}

}  // namespace tessera::pallas
