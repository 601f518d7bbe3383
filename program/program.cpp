#include "program/program.hpp"

#include "program/debugger.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/pipeline/count.hpp"

namespace tessera::program {

Exec::Exec(const Program& p, MachineCore* core_, StepContext& context_)
    : program(p),
      core(core_),
      context(context_),
      scalars(static_cast<std::size_t>(p.scalars)),
      vectors(static_cast<std::size_t>(p.vectors)),
      memrefs(static_cast<std::size_t>(p.memrefs)),
      regulars(static_cast<std::size_t>(p.regulars)) {
  for (const auto& [slot, value] : p.constants) {
    Scalar& s = scalars[static_cast<std::size_t>(slot)] = value;
    s.bound = 0;
  }
  for (const auto& [slot, range] : p.ranges) regulars[static_cast<std::size_t>(slot)] = range;
  for (const auto& [slot, bytes] : p.dense) {
    Vector& v = vector(slot);
    v.data = StorageHandle(Storage::allocate(bytes.size()));
    std::memcpy(v.data.bytes(), bytes.data(), bytes.size());
  }
}

void Exec::run(const Code& code) {
  const Step* const outer = step_;
  const Here* const outer_line = std::exchange(context.line, &line_);
  const std::size_t count = code.steps.size();
  const CoreUse* const uses =
      core_use != nullptr && &code == &program.main ? core_use->data() : nullptr;
  const bool watched = lines_watched() && &code == &program.main;
  if (uses != nullptr && ran != nullptr && ran->size() < count) ran->resize(count);
  if (&code == &program.main) wraps.clear();
  for (next = 0; next < count;) {
    step_ = &code.steps[next++];
    at(step_->location);
    if (op_state.error_model != nullptr && !step_->carries_bounds) {
      for (const int slot : step_->reads) {
        if (vector(slot).bound) fail_bounds_of(std::string("through ") + step_->op);
      }
    }
    op_state.flops += step_->work.flops;
    op_state.transcendentals += step_->work.transcendentals;
    op_state.matrix_flops += step_->work.matrix_flops;
    op_state.elements += step_->work.elements;
    if (uses != nullptr && uses[next - 1].cycles > 0) {
      op_state.core.add(uses[next - 1], 1);
      if (ran != nullptr) ++(*ran)[next - 1];
    }
    if (watched) before_step(*this, next - 1);
    if (dry && step_->on_values) {
      for (const int slot : step_->unknown)
        scalars[static_cast<std::size_t>(slot)].poison = kAnyRead;
    } else {
      const std::size_t here = next - 1;
      step_->run(*this);
      if (watched) after_step(*this, here);
    }
    for (const int slot : step_->releases) vectors[static_cast<std::size_t>(slot)] = Vector();
  }
  if (watched) after_body(*this);
  step_ = outer;
  context.line = outer_line;
}

std::int64_t Exec::integer(int slot, DType dtype, const char* what) {
  const Origin poison = scalars[static_cast<std::size_t>(slot)].poison;
  if (poison != 0 && dry && read_of(poison) != kWrapped) fail_value();
  if (poison != 0) fail_poison(poison, what, wrapped());
  if (scalars[static_cast<std::size_t>(slot)].bound > 0)
    fail_bounds_of(std::string("where ") + what + " depends on a value that others may not have");
  switch (dtype) {
    case DType::i64:
      return get<std::int64_t>(slot);
    case DType::i32:
      return get<std::int32_t>(slot);
    case DType::i16:
      return get<std::int16_t>(slot);
    case DType::boolean:
      return get<bool>(slot) ? 1 : 0;
    default:
      return get<std::int8_t>(slot);
  }
}

void Exec::fail_value() const {
  if (counting) throw ValueNeeded{};
  fail_value_needed(*context.plan, caller_excerpt());
}

const Subcores& kind_of(const Program& program, std::int64_t cell) {
  std::size_t k = 0;
  while (k + 1 < program.subcores.size() && cell >= program.subcores[k + 1].first) ++k;
  return program.subcores[k];
}

std::int64_t leader_of(const Program& program, std::int64_t cell) {
  const Subcores& mine = kind_of(program, cell);
  const std::int64_t core = (cell - mine.first) / mine.of_a_core();
  for (const Subcores& kind : program.subcores) {
    if (kind.vectors) return kind.first + core * kind.of_a_core();
  }
  return cell;
}

void fail_poison(Origin origin, const char* what, Here wrapped) {
  if (read_of(origin) == kWrapped) {
    Diagnostic d{.slug = "oob-index"};
    d.headline = std::string(what) + " depends on an offset that does not fit its type, and wraps";
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    if (wrapped.line > 0) d.fields.emplace_back("wraps", source_excerpt(wrapped));
    d.fields.emplace_back(
        "help",
        "widen it before it grows: tl.program_id(0).to(tl.int64), or strides that "
        "are 64-bit");
    add_replay_field(d);
    throw KernelError(std::move(d));
  }
  const bool stale = (origin & kStale) != 0;
  Diagnostic d{
      .slug = stale ? "parallel-dependence" : "uninit-read",
      .headline = std::string(what) + " depends on memory that " +
                  (stale ? "only another parallel cell has written" : "nothing has written")};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  if (stale)
    d.fields.emplace_back("help",
                          "cells of a parallel dimension may run on different cores, in any order: "
                          "initialise scratch in every cell, or make the dimension arbitrary");
  else
    d.fields.emplace_back("help",
                          "scratch and the out-of-bounds part of a block are undefined until they "
                          "are written; select with where() before you decide");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

BufferDim MemRef::in_buffer(int d) const {
  BufferDim in{.extent = view.extents[d], .seen_dim = d, .seen_as = view.extents};
  if (buffer == nullptr) return in;
  const Shape strides = row_major_strides(buffer->shape);
  const bool plain = view.pack == 1 && view.cut == 1 && view.dtype == buffer->dtype;
  for (int of = 0; of < buffer->shape.rank && plain; ++of) {
    if (view.extents.rank == buffer->shape.rank && of != d) continue;
    if (strides[of] != view.strides[d] || buffer->shape[of] == 0) continue;
    const std::int64_t start = view.offset / strides[of] % buffer->shape[of];
    if (start < 0 || start + view.extents[d] > buffer->shape[of]) continue;
    in.dim = of;  // of several the last: extents of 1 share the stride of the dim before
    in.start = start;
  }
  return in;
}

namespace {

[[noreturn]] void fail_bounds_in(const Buffer* buffer, const BufferDim& in, std::int64_t start,
                                 std::int64_t size, std::int64_t extent, const Here* at) {
  const std::string name = buffer != nullptr ? buffer->name : "the semaphores";
  const bool one_dim = buffer != nullptr && in.dim >= 0;
  const bool part = one_dim && in.extent != buffer->shape[in.dim];
  const bool other = buffer != nullptr && !one_dim && !(in.seen_as == buffer->shape);
  const std::string dim = std::to_string(one_dim ? in.dim : in.seen_dim);
  Diagnostic d{.slug = "oob-index"};
  d.headline = (size == 1 ? "index " + std::to_string(start)
                          : "indices [" + std::to_string(start) + ", " +
                                std::to_string(start + size) + ")") +
               " of dim " + dim + (size == 1 ? " is" : " are") + " outside the " +
               std::to_string(extent) + " of " + (part ? "a slice of " : "") + name +
               (other ? ", seen as " + to_string(in.seen_as) : "");
  add_kernel_field(d);
  d.fields.emplace_back("line", at == nullptr ? caller_excerpt() : source_excerpt(*at));
  if (buffer != nullptr) {
    d.fields.emplace_back("ref", name + ": " + tessera::name(buffer->space) + " " +
                                     describe(buffer->dtype, buffer->shape));
  }
  d.fields.emplace_back("help",
                        "valid indices are [0, " + std::to_string(extent) + ")" +
                            (part ? "; the slice is [" + std::to_string(in.start) + ", " +
                                        std::to_string(in.start + in.extent) + ") of dim " + dim
                                  : ""));
  add_replay_field(d);
  throw KernelError(std::move(d));
}

}  // namespace

void MemRef::check_inside() const {
  if (!outside.any()) return;
  const OutsideDim& first = outside.dims.front();
  fail_bounds_in(buffer, first.of, first.start, first.size, first.extent, &outside.at);
}

void fail_bounds(const MemRef& m, int dim, std::int64_t start, std::int64_t size,
                 std::int64_t extent) {
  fail_bounds_in(m.buffer, m.in_buffer(dim), start, size, extent, nullptr);
}

void fail_matrix_unit(const std::string& what, const char* help) {
  Diagnostic d{.slug = "matrix-unit", .headline = what};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("help", help);
  add_replay_field(d);
  throw KernelError(std::move(d));
}

void fail_bounds_of(const std::string& what) {
  Diagnostic d{.slug = "unmodelled",
               .kind = Diagnostic::Kind::unmodelled,
               .headline = "error bounds " + what};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  add_replay_field(d);
  throw KernelError(std::move(d));
}

void fail_ref(const std::string& what) {
  Diagnostic d{.slug = "unsupported", .kind = Diagnostic::Kind::unsupported, .headline = what};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  throw KernelError(std::move(d));
}

double element(const Vector& v, DType dtype, std::int64_t e) {
  return visit_dtype(dtype, [&]<class Tag>(Tag) {
    return convert<double>(reinterpret_cast<const typename Tag::type*>(v.data.bytes())[e]);
  });
}

std::optional<std::vector<int>> dropped_ones(const Shape& from, const Shape& to) {
  std::vector<int> dropped;
  int next = 0;
  for (int d = 0; d < from.rank; ++d) {
    const bool matches = next < to.rank && from[d] == to[next];
    if (matches && (from[d] != 1 || from.rank - d <= to.rank - next))
      ++next;
    else if (from[d] == 1)
      dropped.push_back(d);
    else
      return std::nullopt;
  }
  if (next != to.rank) return std::nullopt;
  return dropped;
}

}  // namespace tessera::program
