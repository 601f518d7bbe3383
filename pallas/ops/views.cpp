// Views: parts of memrefs, and memrefs as other shapes and types.
#include "pallas/rules.hpp"
#include "program/memory.hpp"

namespace tessera::pallas {

namespace {

Ref::View semaphore_slice(const MemRef& m, int d, std::int64_t start, std::int64_t size) {
  Ref::View v = m.view;
  if (start < 0 || size < 0 || start + size > v.extents[d])
    fail_bounds(m, d, start, size, v.extents[d]);
  v.offset += start * v.strides[d];
  v.extents[d] = size;
  return v;
}
void plan_slice(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 3 || parts[0].size() != 1 || op.results.size() != 1) p.refuse(op);
  const Type& m = p.type(parts[0][0]);
  const Type& t = p.type(op.results[0]);
  if (m.kind != Type::Kind::memref || t.shape.rank != m.shape.rank ||
      static_cast<int>(parts[1].size()) != m.shape.rank)
    p.unsupported(op, "its types are not built yet");
  const int from = p.memref(parts[0][0]);
  const auto starts = p.scalars(parts[1]);
  const auto sizes = p.scalars(parts[2]);
  const DType start_type = parts[1].empty() ? DType::i32 : p.type(parts[1][0]).dtype;
  const DType size_type = parts[2].empty() ? DType::i32 : p.type(parts[2][0]).dtype;
  const Shape extents = t.shape;
  const int to = p.new_memref(op.results[0]);
  p.emit([=](Exec& x) {
    MemRef r = x.memref(from);
    std::size_t next = 0;
    for (int d = 0; d < extents.rank; ++d) {
      const std::int64_t start =
          x.integer(starts[static_cast<std::size_t>(d)], start_type, "the start of a slice");
      std::int64_t size = extents[d];
      if (size == kDynamic) {
        if (next >= sizes.size()) fail_ref("a slice lacks a size");
        size = x.integer(sizes[next++], size_type, "the size of a slice");
      }
      if (r.semaphores != nullptr) {
        r.view = semaphore_slice(r, d, start, size);
        continue;
      }
      const std::int64_t extent = r.view.extents[d];
      if (start < 0 || size < 0 || start + size > extent) {
        // No kernel means a slice as far or as large as this, and offsets must not overflow.
        constexpr std::int64_t kFar = std::int64_t{1} << 40;
        const std::int64_t others = r.view.extents.elems() / std::max<std::int64_t>(1, extent);
        const std::int64_t reach =
            kFar / std::max({std::int64_t{1}, others, std::abs(r.view.strides[d])});
        if (size < 0 || size > reach || start < -reach || start > reach || r.view.cut > 1 ||
            x.memref(from).outside.any())
          fail_bounds(r, d, start, size, extent);
        const bool in_tiles = ends_in_tiles(x, r, d, start, size);
        const BufferDim of = r.in_buffer(d);
        r.view = outside_slice(r.view, d, start, size);
        if (size > 0) {
          r.outside.dims.push_back({of, d, start, size, extent, in_tiles});
          r.outside.at = x.here();
        }
        continue;
      }
      try {
        r.view = r.shape().slice(d, start, size).view();
      } catch (const RefError& e) {
        fail_ref(e.what());
      }
    }
    x.memref(to) = r;
  });
}

/// Dims of extent 1 that the result lacks.
void plan_squeeze(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  auto found = dropped_ones(p.type(op.operands[0]).shape, p.type(op.results[0]).shape);
  if (!found) p.unsupported(op, "it drops dims that hold something");
  std::vector<int> gone = std::move(*found);
  std::reverse(gone.begin(), gone.end());
  const int from = p.memref(op.operands[0]);
  const int to = p.new_memref(op.results[0]);
  p.emit([=](Exec& x) {
    MemRef r = x.memref(from);
    for (const int d : gone) {
      if (r.semaphores == nullptr) {
        r.view = r.shape().squeeze(d, 0).view();
        for (OutsideDim& o : r.outside.dims) {
          if (o.now == d)
            o.now = -1;
          else if (o.now > d)
            --o.now;
        }
        continue;
      }
      for (int i = d; i + 1 < r.view.extents.rank; ++i) {
        r.view.extents[i] = r.view.extents[i + 1];
        r.view.strides[i] = r.view.strides[i + 1];
      }
      --r.view.extents.rank;
      --r.view.strides.rank;
    }
    x.memref(to) = r;
  });
}

void plan_reshape(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  Shape shape = p.type(op.results[0]).shape;
  const int from = p.memref(op.operands[0]);
  const int to = p.new_memref(op.results[0]);
  p.emit([=](Exec& x) {
    MemRef r = x.memref(from);
    if (r.semaphores != nullptr) fail_ref("a reshape of semaphores");
    Shape s = shape;
    std::int64_t known = 1;
    int open = -1;
    for (int d = 0; d < s.rank; ++d) {
      if (s[d] == kDynamic) {
        if (open >= 0) fail_ref("a reshape to several dynamic dims");
        open = d;
      } else {
        known *= s[d];
      }
    }
    if (open >= 0) s[open] = known == 0 ? 0 : r.view.extents.elems() / known;
    try {
      r.view = r.shape().reshape(s).view();
      for (OutsideDim& o : r.outside.dims) o.now = -1;
    } catch (const RefError& e) {
      fail_ref(e.what());
    }
    x.memref(to) = r;
  });
}

void plan_bitcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& f = p.type(op.operands[0]);
  const Type& t = p.type(op.results[0]);
  if (!f.known || !t.known || f.shape.rank != t.shape.rank) p.unsupported(op, "of this type");
  const int rank = f.shape.rank;
  const bool columns = rank < 2 || (f.shape[rank - 1] != t.shape[rank - 1]);
  const DType dtype = t.dtype;
  const int from = p.memref(op.operands[0]);
  const int to = p.new_memref(op.results[0]);
  p.emit([=](Exec& x) {
    MemRef r = x.memref(from);
    try {
      r.view = (columns ? r.shape().bitcast(dtype) : r.shape().repack(dtype)).view();
      for (OutsideDim& o : r.outside.dims) o.now = -1;
    } catch (const RefError& e) {
      fail_ref(e.what());
    }
    x.memref(to) = r;
  });
}

void plan_first_operand(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  p.alias(op.results[0], op.operands[0]);
}

/// The bytes as another memref: built where that is the same one.
void plan_reinterpret(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  if (!(from.shape == to.shape) || from.dtype != to.dtype)
    p.unsupported(op, "to another shape or type");
  plan_first_operand(p, op);
}

/// Whether a memref lies in that space.
void plan_space_is(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& m = p.type(op.operands[0]);
  const std::string wanted = p.inner_text(op, "memory_space");
  if (m.kind != Type::Kind::memref || m.space.empty() || m.space == "any" ||
      wanted.find(',') != std::string::npos)
    p.unsupported(op, "of a memref of any space, or of a core's");
  Attribute answer;
  answer.kind = Attribute::Kind::integer;
  answer.integer = m.space == wanted ? 1 : 0;
  p.constant(op.results[0], answer);
}

void plan_dim(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const int m = p.memref(op.operands[0]);
  const int d = p.scalar(op.operands[1]);
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) {
    const std::int64_t dim = x.integer(d, DType::i64, "a dim");
    const Shape& s = x.memref(m).view.extents;
    if (dim < 0 || dim >= s.rank) fail_ref("memref.dim of no dim");
    x.set(to, s[static_cast<int>(dim)]);
  });
}

}  // namespace

Rules view_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.memref_slice", "part of a memref", true, plan_slice},
      {"tpu.memref_squeeze", "without dims of extent 1", true, plan_squeeze},
      {"tpu.memref_reshape", "the same elements in another shape", true, plan_reshape},
      {"tpu.memref_bitcast", "repacked along sublanes", true, plan_bitcast},
      {"tpu.reinterpret_cast", "the same memref", true, plan_reinterpret},
      {"tpu.annotate", "the same memref: what the compiler need not expect of it changes nothing",
       true, plan_first_operand},
      {"tpu.memref_memory_space_is", "whether a memref lies in that space", true, plan_space_is},
      {"memref.memory_space_cast", "the same memref", true, plan_first_operand},
      {"tpu.erase_memref_layout", "the same memref", true, plan_first_operand},
      {"tpu.assume_layout", "the same memref", true, plan_first_operand},
      {"memref.cast", "the same memref", true, plan_first_operand},
      {"memref.dim", "an extent", true, plan_dim},
      {"tpu.assume_multiple", "the same number", true, plan_first_operand},
  };
  return rules;
}

}  // namespace tessera::pallas
