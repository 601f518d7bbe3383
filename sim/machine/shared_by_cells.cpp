#include "sim/machine/shared_by_cells.hpp"

#include <algorithm>

#include "sim/diagnostics/findings.hpp"
#include "sim/diagnostics/machine_parts.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera {

namespace {

/// True of a step that another core would have, were there two.
bool in_second_half(const Plan& plan, const int* ids) {
  std::int64_t cell = 0;
  for (int d = 0; d < plan.parallel_rank; ++d)
    cell = cell * plan.bounds[static_cast<std::size_t>(d)]->hi + ids[d];
  return cell >= plan.cells() / 2;
}

/// f(begin, end) of each run of elements of the box, until it is true of one; whether it was.
template <class F>
bool any_run(const Buffer& buffer, const Box& box, F&& f, int dim = 0, std::int64_t at = 0) {
  if (box.rank == 0) return f(0, 1);
  const Progression& p = box.dims[static_cast<std::size_t>(dim)];
  const bool last = dim + 1 == box.rank;
  const std::int64_t bits = last ? bit_width(buffer.dtype) : 1;
  const std::int64_t extent = buffer.shape[dim];
  for (std::int64_t i = 0; i < p.count; ++i) {
    const std::int64_t begin = (p.start + i * p.step) / bits;
    const std::int64_t end = p.contiguous() ? (p.end() + bits - 1) / bits
                                            : (p.start + i * p.step + p.width + bits - 1) / bits;
    if (last) {
      if (f(at * extent + begin, at * extent + end)) return true;
    } else {
      for (std::int64_t e = begin; e < end; ++e) {
        if (any_run(buffer, box, f, dim + 1, at * extent + e)) return true;
      }
    }
    if (p.contiguous()) break;
  }
  return false;
}

bool same_line(const Site& a, const Site& b) {
  return a.at.line == b.at.line && std::string_view(a.at.file) == b.at.file && a.trace == b.trace;
}

}  // namespace

void SharedByCells::Touched::make_room(std::int64_t elems) {
  if (bits_.empty()) bits_.resize(static_cast<std::size_t>(elems));
}
void SharedByCells::Touched::add(std::int64_t begin, std::int64_t end) {
  std::fill(bits_.begin() + begin, bits_.begin() + end, true);
}
bool SharedByCells::Touched::any(std::int64_t begin, std::int64_t end) const {
  return !bits_.empty() &&
         std::find(bits_.begin() + begin, bits_.begin() + end, true) != bits_.begin() + end;
}

void SharedByCells::note(const Access& a) {
  Touched& touched = a.write ? written_ : read_;
  touched.make_room(shape.elems());
  any_run(*this, a.box, [&](std::int64_t begin, std::int64_t end) {
    touched.add(begin, end);
    return false;
  });
  for (Line& line : lines_) {
    if (line.first.write != a.write || !same_line(line.first.site, a.site)) continue;
    for (std::size_t d = 0; d < static_cast<std::size_t>(a.box.rank); ++d) {
      Progression& p = line.hull.dims[d];
      const std::int64_t start = std::min(p.start, a.box.dims[d].start);
      const std::int64_t end = std::max(p.end(), a.box.dims[d].end());
      p = {start, 1, 1, end - start};
    }
    return;
  }
  lines_.push_back({a, a.box});
  lines_.back().first.half.reset();
}

const SharedByCells::Line* SharedByCells::line_at(const Box& box, bool writes_alone) const {
  const auto at = std::ranges::find_if(lines_, [&](const Line& line) {
    return (line.first.write || !writes_alone) && overlap(line.hull, box);
  });
  return at == lines_.end() ? nullptr : &*at;
}

void SharedByCells::access(const MachineCore& c, const Access& a) {
  const StepContext* const context = step_context;
  if (reported_ || a.atomic || context == nullptr || context->ids == nullptr) return;
  if (!in_second_half(*context->plan, context->ids)) return note(a);
  if (a.write && scratch_) return;
  const bool clash = any_run(*this, a.box, [&](std::int64_t begin, std::int64_t end) {
    return written_.any(begin, end) || (a.write && read_.any(begin, end));
  });
  if (!clash) return;
  reported_ = true;
  const Line* const line = line_at(a.box, !a.write);
  found(parallel_dependence_array(c, *this, a, line == nullptr ? nullptr : &line->first));
}

}  // namespace tessera
