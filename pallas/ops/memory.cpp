// Loads, stores and allocations.
#include "program/memory.hpp"

#include <algorithm>

#include "pallas/adding.hpp"
#include "pallas/rules.hpp"
#include "program/gather.hpp"

namespace tessera::pallas {

namespace {

std::vector<std::int64_t> read_indices(Exec& x, const std::vector<int>& slots, DType dtype) {
  std::vector<std::int64_t> values(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) values[i] = x.integer(slots[i], dtype, "an index");
  return values;
}

/// The part of a memref that a vector (and its mask, or -1) takes: one of fewer dims takes the last
/// ones.
Shape part_extents(Planner& p, const Operation& op, int vector, int memref, std::size_t indices,
                   int mask) {
  const Type& m = p.type(memref);
  const Type& t = p.type(vector);
  if (m.kind != Type::Kind::memref || t.kind != Type::Kind::vector)
    p.unsupported(op, "its types are not built yet");
  p.expect_same_type(op, vector, memref);
  if (mask >= 0 &&
      (p.type(mask).dtype != DType::boolean || p.type(mask).shape.elems() != t.shape.elems()))
    p.unsupported(op, "with a mask of another shape");
  if (static_cast<int>(indices) != m.shape.rank) p.unsupported(op, "it lacks indices");
  if (t.shape.rank > m.shape.rank) p.unsupported(op, "its vector has more dims than the memref");
  Shape extents;
  for (int d = t.shape.rank; d < m.shape.rank; ++d) extents.push_back(1);
  for (int d = 0; d < t.shape.rank; ++d) extents.push_back(t.shape[d]);
  return extents;
}

/// The elements of a vector at `place`.
Vector picked(const Vector& v, const std::vector<std::int64_t>& place, std::int64_t width) {
  return rearranged(v, std::ssize(place), width,
                    [&](std::byte* out, const std::byte* in, std::int64_t w) {
                      for (std::size_t i = 0; i < place.size(); ++i)
                        std::memcpy(out + static_cast<std::int64_t>(i) * w, in + place[i] * w,
                                    static_cast<std::size_t>(w));
                    });
}
/// A vector of `n` elements that has those of `v` at `place`, and zeros.
Vector spread(const Vector& v, const std::vector<std::int64_t>& place, std::int64_t n,
              std::int64_t width) {
  return rearranged(v, n, width, [&](std::byte* out, const std::byte* in, std::int64_t w) {
    std::memset(out, 0, static_cast<std::size_t>(n * w));
    for (std::size_t i = 0; i < place.size(); ++i)
      std::memcpy(out + place[i] * w, in + static_cast<std::int64_t>(i) * w,
                  static_cast<std::size_t>(w));
  });
}

/// Of a SparseCore a mask chooses elements of the vector; they lie side by side in memory.
struct Packed {
  std::vector<std::int64_t> chosen;  ///< elements of the vector
  Shape extents;                     ///< of the part of the memref

  Packed(const Vector& mask, const Shape& all, const char* what) : extents(all) {
    if (const Origin o = mask.first_poison(0, all.elems())) fail_poison(o, what);
    for (std::int64_t e = 0; e < all.elems(); ++e) {
      if (mask.data.bytes()[e] != std::byte{0}) chosen.push_back(e);
    }
    extents[extents.rank - 1] = std::ssize(chosen);
  }
};
/// Throws unless it is a mask of one row.
void expect_row(Planner& p, const Operation& op, const Shape& extents, std::span<const int> indices,
                const std::vector<std::int64_t>& steps) {
  if (indices.empty() || extents.elems() != extents[extents.rank - 1] || !steps.empty())
    p.unsupported(op, "with a mask of several rows, or with strides, on a SparseCore");
}

Vector load_expanded(Exec& x, const MemRef& m, std::span<const std::int64_t> start,
                     const Shape& extents, const Vector& mask, std::int64_t width) {
  const Packed packed(mask, extents, "a load's mask");
  const std::int64_t n = extents.elems();
  Vector v;
  Vector loaded;
  if (packed.chosen.empty()) {
    v.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(n * width)));
    std::memset(v.data.bytes(), 0, static_cast<std::size_t>(n * width));
  } else {
    loaded = load(x, part_of(m, start, packed.extents));
    if (loaded.bound) fail_bounds_of("through an expanding load");
    v = spread(loaded, packed.chosen, n, width);
  }
  v.poison = poison_mask(n, kLeftOut);
  for (std::size_t i = 0; i < packed.chosen.size(); ++i)
    v.poison.bytes()[packed.chosen[i]] = std::byte{loaded.poison_at(static_cast<std::int64_t>(i))};
  return v;
}

void plan_load_part(Planner& p, const Operation& op, std::span<const int> indices,
                    const std::vector<std::int64_t>& steps, int mask_value) {
  const Shape extents =
      part_extents(p, op, op.results[0], op.operands[0], indices.size(), mask_value);
  const int from = p.memref(op.operands[0]);
  const auto slots = p.scalars(indices);
  const DType index_type = indices.empty() ? DType::i64 : p.type(indices[0]).dtype;
  const int mask = mask_value < 0 ? -1 : p.vector(mask_value);
  if (mask >= 0) p.read(mask);
  const int to = p.new_vector(op.results[0]);
  const std::int64_t width = register_bytes(p.type(op.results[0]).dtype);
  if (mask >= 0 && !p.program().subcores.empty()) {
    expect_row(p, op, extents, indices, steps);
    p.emit([=](Exec& x) {
      x.vector(to) = load_expanded(x, x.memref(from), read_indices(x, slots, index_type), extents,
                                   x.vector(mask), width);
    });
    return;
  }
  p.emit([=](Exec& x) {
    const auto start = read_indices(x, slots, index_type);
    if (mask < 0) {
      x.vector(to) = load(x, readable_part(x, x.memref(from), start, extents, steps));
      return;
    }
    if (x.vector(mask).bound) fail_bounds_of("where a load's mask may be another");
    const std::byte* const keep = x.vector(mask).data.bytes();
    const auto part = masked_part(x.memref(from), start, extents, steps, keep);
    Vector v = part ? spread(load(x, part->ref), part->place, extents.elems(), width)
                    : load(x, readable_part(x, x.memref(from), start, extents, steps));
    if (!v.poison) v.poison = poison_mask(extents.elems(), 0);
    for (std::int64_t e = 0; e < extents.elems(); ++e) {
      if (keep[e] == std::byte{0}) v.poison.bytes()[e] = std::byte{x.undefined()};
    }
    x.vector(to) = std::move(v);
  });
  p.carries_bounds();
}

void plan_vector_load(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  plan_load_part(p, op, std::span(op.operands).subspan(1), {}, -1);
}
void plan_strided_load(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  plan_load_part(p, op, std::span(op.operands).subspan(1), p.integers(op, "strides"), -1);
}
void plan_tpu_vector_load(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 3 || parts[0].size() != 1 || parts[2].size() > 1 || op.results.size() != 1)
    p.refuse(op);
  plan_load_part(p, op, parts[1], p.integers(op, "strides"), parts[2].empty() ? -1 : parts[2][0]);
}

/// Both of a SparseCore, since JAX 0.12: a mask packs, or there is none.
void expect_sparse(Planner& p, const Operation& op) {
  if (p.program().subcores.empty()) p.unsupported(op, "but on a SparseCore");
}
void expect_along_rows(Planner& p, const Operation& op, const char* dim, int memref) {
  if (op.find(dim) != nullptr && p.integer(op, dim) + 1 != p.type(memref).shape.rank)
    p.unsupported(op, "along another dim than the last");
}
void plan_expand_load(Planner& p, const Operation& op) {
  expect_sparse(p, op);
  if (op.results.size() != 1 || op.operands.size() < 2) p.refuse(op);
  expect_along_rows(p, op, "expand_dim", op.operands[0]);
  plan_load_part(p, op, std::span(op.operands).subspan(1, op.operands.size() - 2), {},
                 op.operands.back());
}
/// Every sublane of a register, one row after the other.
void expect_whole_register(Planner& p, const Operation& op) {
  expect_sparse(p, op);
  const std::vector<std::int64_t> sublanes = p.integers(op, "sublane_mask");
  if (std::ranges::find(sublanes, 0) != sublanes.end() ||
      p.integer_or(op, "sublane_stride", 1) != 1)
    p.unsupported(op, "of some sublanes");
}
void plan_register_load(Planner& p, const Operation& op) {
  expect_whole_register(p, op);
  plan_vector_load(p, op);
}

void plan_store_part(Planner& p, const Operation& op, int value, int memref,
                     std::span<const int> indices, const std::vector<std::int64_t>& steps,
                     int mask_value, Adding add = nullptr) {
  const Shape extents = part_extents(p, op, value, memref, indices.size(), mask_value);
  const int from = p.vector(value);
  const int mask = mask_value < 0 ? -1 : p.vector(mask_value);
  const int to = p.memref(memref);
  const auto slots = p.scalars(indices);
  const DType index_type = indices.empty() ? DType::i64 : p.type(indices[0]).dtype;
  if (mask >= 0) p.read(mask);
  const std::int64_t width = register_bytes(p.type(value).dtype);
  if (!p.program().subcores.empty() && (mask >= 0 || add != nullptr)) {
    if (mask >= 0) expect_row(p, op, extents, indices, steps);
    p.emit(
        [=](Exec& x) {
          const auto start = read_indices(x, slots, index_type);
          const MemRef& m = x.memref(to);
          if (mask < 0) {
            store_or_add(x, x.vector(from), part_of(m, start, extents, steps), add);
            return;
          }
          const Packed packed(x.vector(mask), extents, "a store's mask");
          if (packed.chosen.empty()) return;
          store_or_add(x, picked(x.vector(from), packed.chosen, width),
                       part_of(m, start, packed.extents), add);
        },
        {from});
    return;
  }
  p.emit(
      [=](Exec& x) {
        const auto start = read_indices(x, slots, index_type);
        const std::byte* keep = nullptr;
        if (mask >= 0) {
          if (const Origin o = x.vector(mask).first_poison(0, extents.elems()))
            fail_poison(o, "a store's mask");
          if (x.vector(mask).bound) fail_bounds_of("where a store's mask may be another");
          keep = x.vector(mask).data.bytes();
        }
        const auto part =
            keep == nullptr ? std::nullopt : masked_part(x.memref(to), start, extents, steps, keep);
        if (part)
          store(x, picked(x.vector(from), part->place, width), part->ref, part->mask.data());
        else
          store(x, x.vector(from), part_of(x.memref(to), start, extents, steps), keep);
      },
      {from});
  p.carries_bounds();
}
Adding adds(Planner& p, const Operation& op, int value) {
  if (p.integer_or(op, "add", 0) == 0) return nullptr;
  const Adding add = p.program().subcores.empty() ? nullptr : adding(p.type(value).dtype);
  if (add == nullptr) p.unsupported(op, "that adds, but numbers on a SparseCore");
  return add;
}
void plan_tpu_vector_store(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 4 || parts[0].size() != 1 || parts[1].size() != 1 || parts[3].size() > 1)
    p.refuse(op);
  plan_store_part(p, op, parts[0][0], parts[1][0], parts[2], p.integers(op, "strides"),
                  parts[3].empty() ? -1 : parts[3][0], adds(p, op, parts[0][0]));
}
void plan_compress_store(Planner& p, const Operation& op) {
  expect_sparse(p, op);
  if (op.operands.size() < 3) p.refuse(op);
  expect_along_rows(p, op, "compress_dim", op.operands[1]);
  plan_store_part(p, op, op.operands[0], op.operands[1],
                  std::span(op.operands).subspan(2, op.operands.size() - 3), {}, op.operands.back(),
                  adds(p, op, op.operands[0]));
}
void plan_register_store(Planner& p, const Operation& op) {
  expect_whole_register(p, op);
  const auto parts = p.segments(op);
  if (parts.size() != 4 || parts[0].size() != 1 || parts[1].size() != 1) p.refuse(op);
  if (!parts[3].empty()) p.unsupported(op, "with a mask");
  plan_store_part(p, op, parts[0][0], parts[1][0], parts[2], {}, -1, adds(p, op, parts[0][0]));
}
void plan_vector_store(Planner& p, const Operation& op) {
  if (op.operands.size() < 2) p.refuse(op);
  plan_store_part(p, op, op.operands[0], op.operands[1], std::span(op.operands).subspan(2), {}, -1);
}
void plan_strided_store(Planner& p, const Operation& op) {
  if (op.operands.size() < 2) p.refuse(op);
  const bool value_first = p.type(op.operands[0]).kind == Type::Kind::vector;
  plan_store_part(p, op, op.operands[value_first ? 0 : 1], op.operands[value_first ? 1 : 0],
                  std::span(op.operands).subspan(2), p.integers(op, "strides"), -1);
}

void plan_scalar_load(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  const Type& m = p.type(op.operands[0]);
  if (m.kind != Type::Kind::memref || !m.known || !m.semaphore.empty() ||
      static_cast<int>(op.operands.size()) - 1 != m.shape.rank)
    p.unsupported(op, "its types are not built yet");
  p.expect_same_type(op, op.operands[0], op.results[0]);
  const int from = p.memref(op.operands[0]);
  const auto slots = p.scalars(std::span(op.operands).subspan(1));
  const DType index_type = slots.empty() ? DType::i64 : p.type(op.operands[1]).dtype;
  const int to = p.new_scalar(op.results[0]);
  p.emit([=](Exec& x) {
    x.scalars[static_cast<std::size_t>(to)] = load_element(x, x.memref(from), slots, index_type);
  });
}
void plan_scalar_store(Planner& p, const Operation& op) {
  if (op.operands.size() < 2) p.refuse(op);
  const Type& m = p.type(op.operands[1]);
  if (m.kind != Type::Kind::memref || !m.known || !m.semaphore.empty() ||
      static_cast<int>(op.operands.size()) - 2 != m.shape.rank ||
      p.type(op.operands[0]).kind == Type::Kind::vector)
    p.unsupported(op, "its types are not built yet");
  p.expect_same_type(op, op.operands[0], op.operands[1]);
  const int from = p.scalar(op.operands[0]);
  const int to = p.memref(op.operands[1]);
  const auto slots = p.scalars(std::span(op.operands).subspan(2));
  const DType index_type = slots.empty() ? DType::i64 : p.type(op.operands[2]).dtype;
  p.emit([=](Exec& x) {
    store_element(x, x.scalars[static_cast<std::size_t>(from)], x.memref(to), slots, index_type);
  });
}

void plan_allocate(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const Type& t = p.type(op.results[0]);
  bool fixed = true;
  for (int d = 0; d < t.shape.rank; ++d) fixed = fixed && t.shape[d] != kDynamic;
  if (t.kind != Type::Kind::memref || !t.known || !fixed) p.unsupported(op, "of this type");
  if (t.space == "vmem_shared" &&
      std::ranges::any_of(p.program().subcores, [](const Subcores& k) { return k.vectors; }))
    p.unsupported(op, "of what subcores share, unless it is scratch of the kernel");
  const int to = p.new_memref(op.results[0]);
  const Here at = p.here(op);
  const std::string name = "scratch of line " + std::to_string(at.line);
  // The machine counts what scopes hold.
  p.program().asynchronous = true;
  p.emit([=](Exec& x) { x.memref(to) = allocate(x, t, name); });
}

}  // namespace

Rules memory_rules() {
  static const std::vector<Rule> rules = {
      {"vector.load", "part of a buffer as a vector", true, plan_vector_load},
      {"vector.store", "a vector into part of a buffer", false, plan_vector_store},
      {"tpu.vector_load",
       "part of a buffer, where a mask holds; on a SparseCore the elements that it chooses lie "
       "side by side",
       true, plan_tpu_vector_load},
      {"tpu.vector_store",
       "a vector into part of a buffer, where a mask holds; on a SparseCore the elements that it "
       "chooses side by side, or added to what is there",
       false, plan_tpu_vector_store},
      {"tpu.load", "a register of a SparseCore", true, plan_register_load},
      {"tpu.store", "a register of a SparseCore into memory, or added to what is there", false,
       plan_register_store},
      {"tpu.expand_load_vreg", "elements side by side, to where a mask holds, on a SparseCore",
       true, plan_expand_load},
      {"tpu.vector_expand_load", "elements side by side, to where a mask holds, on a SparseCore",
       true, plan_expand_load},
      {"tpu.compress_store_vreg",
       "the elements that a mask chooses side by side, or added to what is there, on a SparseCore",
       false, plan_compress_store},
      {"tpu.vector_compress_store",
       "the elements that a mask chooses side by side, or added to what is there, on a SparseCore",
       false, plan_compress_store},
      {"tpu.strided_load", "every n-th row; step 0 repeats one", true, plan_strided_load},
      {"tpu.strided_store", "into every n-th row", false, plan_strided_store},
      {"memref.load", "a scalar of SMEM", true, plan_scalar_load},
      {"memref.store", "a scalar into SMEM", false, plan_scalar_store},
      {"memref.alloca", "scratch for the time of a region", false, plan_allocate},
      {"tpu.sem_alloc", "semaphores for the time of a region", false, plan_allocate},
  };
  return rules;
}

}  // namespace tessera::pallas
