// tt.* that make, repeat and rearrange tensors.
#include "program/gather.hpp"
#include "program/rules.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "triton/operand.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

void plan_range(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const std::int64_t start = p.integer(op, "start");
  const Type& t = p.type(op.results[0]);
  if (t.dtype != DType::i32 || !is_tensor(t)) p.unsupported(op, "of another type than i32");
  p.range(op.results[0], start);
}

void plan_splat(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  p.splat(op.results[0], p.scalar(op.operands[0]));
}

void plan_unsplat(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  const Type& t = p.type(op.operands[0]);
  if (t.shape.elems() != 1) p.unsupported(op, "of several elements");
  const std::int64_t width = register_bytes(t.dtype);
  const int from = p.vector(op.operands[0]);
  const int to = p.new_scalar(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(from);
        Scalar& s = x.scalars[static_cast<std::size_t>(to)];
        s = {};
        std::memcpy(s.bytes.data(), v.data.bytes(), static_cast<std::size_t>(width));
        s.poison = v.poison_at(0);
        s.bound = v.bound ? v.bounds()[0] : 0.f;
      },
      {from});
  p.carries_bounds();
}

void plan_tt_broadcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.broadcast(op.results[0], op.operands[0]);
}

/// reshape with allow_reorder may order elements in any way: here as they are.
void plan_reshape(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  if (p.type(op.operands[0]).shape.elems() != p.type(op.results[0]).shape.elems()) p.refuse(op);
  p.alias(op.results[0], op.operands[0]);
}

/// What Triton's rewriting of descriptors leaves of loads with dims of extent 1 dropped.
void plan_conversion_cast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  if (!is_tensor(p.type(op.operands[0])) || !is_tensor(p.type(op.results[0])))
    p.unsupported(op, "of these types");
  plan_reshape(p, op);
}

void plan_expand_dims(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Shape& from = p.type(op.operands[0]).shape;
  const auto axis = static_cast<int>(p.integer(op, "axis"));
  if (axis < 0 || axis > from.rank) p.refuse(op);
  std::vector<int> dims;
  for (int d = 0; d <= from.rank; ++d) dims.push_back(d == axis ? -1 : d < axis ? d : d - 1);
  if (p.type(op.results[0]).shape.rank != from.rank + 1 ||
      !p.regular_dims(op.results[0], op.operands[0], dims))
    plan_reshape(p, op);
}

void plan_trans(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Shape& from = p.type(op.operands[0]).shape;
  const Shape& to = p.type(op.results[0]).shape;
  std::vector<int> dims;
  bool fit = to.rank == from.rank;
  for (const std::int64_t d : p.integers(op, "order")) {
    fit = fit && d >= 0 && d < from.rank && std::ssize(dims) < to.rank &&
          from[static_cast<int>(d)] == to[static_cast<int>(dims.size())];
    dims.push_back(static_cast<int>(d));
  }
  if (!fit || std::ssize(dims) != from.rank || !p.regular_dims(op.results[0], op.operands[0], dims))
    plan_permutation(p, op, "order");
}

void plan_join(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  p.expect_same_type(op, op.operands[1], op.results[0]);
  const Type& t = p.type(op.results[0]);
  const std::int64_t n = t.shape.elems() / 2;
  for (const int v : op.operands) {
    if (p.type(v).shape.elems() != n) p.refuse(op);
  }
  const std::int64_t width = register_bytes(t.dtype);
  const int a = p.vector(op.operands[0]);
  const int b = p.vector(op.operands[1]);
  const int to = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector& l = x.vector(a);
        const Vector& r = x.vector(b);
        const auto zip = [&](const std::byte* from_l, const std::byte* from_r, std::int64_t w) {
          StorageHandle h(Storage::allocate(static_cast<std::size_t>(2 * n * w)));
          const auto size = static_cast<std::size_t>(w);
          for (std::int64_t e = 0; e < n; ++e) {
            std::memcpy(h.bytes() + 2 * e * w, from_l + e * w, size);
            std::memcpy(h.bytes() + (2 * e + 1) * w, from_r + e * w, size);
          }
          return h;
        };
        Vector v{zip(l.data.bytes(), r.data.bytes(), width)};
        if (l.poison || r.poison) {
          const StorageHandle none = poison_mask(n, 0);
          v.poison = zip(l.poison ? l.poison.bytes() : none.bytes(),
                         r.poison ? r.poison.bytes() : none.bytes(), 1);
        }
        if (l.bound || r.bound) {
          const StorageHandle none = no_bounds(n);
          v.bound = zip((l.bound ? l.bound : none).bytes(), (r.bound ? r.bound : none).bytes(),
                        sizeof(float));
        }
        x.vector(to) = std::move(v);
      },
      {a, b});
  p.carries_bounds();
}

void plan_split(Planner& p, const Operation& op) {
  p.expect(op, 1, 2);
  const Type& t = p.type(op.operands[0]);
  const std::int64_t n = t.shape.elems() / 2;
  if (t.shape.rank == 0 || t.shape[t.shape.rank - 1] != 2) p.refuse(op);
  const std::int64_t width = register_bytes(t.dtype);
  for (const int v : op.results) {
    p.expect_same_type(op, op.operands[0], v);
    if (p.type(v).shape.elems() != n) p.refuse(op);
  }
  const int from = p.vector(op.operands[0]);
  for (std::size_t half = 0; half < 2; ++half) {
    const int to = p.new_vector(op.results[half]);
    p.emit(
        [=](Exec& x) {
          x.vector(to) = rearranged(
              x.vector(from), n, width, [&](std::byte* out, const std::byte* in, std::int64_t w) {
                gather_strided(out, in + static_cast<std::int64_t>(half) * w, w, {n}, {2});
              });
        },
        {from});
    p.carries_bounds();
  }
}

/// tt.cat may order elements in any way: here the first operand's come first.
void plan_cat(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  p.expect_same_type(op, op.operands[1], op.results[0]);
  const std::int64_t width = register_bytes(p.type(op.results[0]).dtype);
  const std::int64_t n = p.type(op.operands[0]).shape.elems();
  const std::int64_t m = p.type(op.operands[1]).shape.elems();
  if (n + m != p.type(op.results[0]).shape.elems()) p.refuse(op);
  const int a = p.vector(op.operands[0]);
  const int b = p.vector(op.operands[1]);
  const int to = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector& l = x.vector(a);
        const Vector& r = x.vector(b);
        Vector v{StorageHandle(Storage::allocate(static_cast<std::size_t>((n + m) * width)))};
        std::memcpy(v.data.bytes(), l.data.bytes(), static_cast<std::size_t>(n * width));
        std::memcpy(v.data.bytes() + n * width, r.data.bytes(),
                    static_cast<std::size_t>(m * width));
        if (l.poison || r.poison) {
          v.poison = poison_mask(n + m, 0);
          if (l.poison)
            std::memcpy(v.poison.bytes(), l.poison.bytes(), static_cast<std::size_t>(n));
          if (r.poison)
            std::memcpy(v.poison.bytes() + n, r.poison.bytes(), static_cast<std::size_t>(m));
        }
        if (l.bound || r.bound) {
          v.bound = no_bounds(n + m);
          if (l.bound) std::copy_n(l.bounds(), n, floats(v.bound));
          if (r.bound) std::copy_n(r.bounds(), m, floats(v.bound) + n);
        }
        x.vector(to) = std::move(v);
      },
      {a, b});
  p.carries_bounds();
}

[[noreturn]] void fail_gather(std::int64_t index, std::int64_t extent) {
  Diagnostic d{.slug = "oob-index",
               .headline = "tt.gather with index " + std::to_string(index) + " along an axis of " +
                           std::to_string(extent)};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("help", "valid indices are [0, " + std::to_string(extent) +
                                    "); a GPU gives some element or other");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

/// result[.., i, ..] = source[.., index[.., i, ..], ..] along an axis.
void plan_gather(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  const Type& s = p.type(op.operands[0]);
  const Type& i = p.type(op.operands[1]);
  const Shape from = s.shape;
  const Shape to = p.type(op.results[0]).shape;
  const auto axis = static_cast<int>(p.integer(op, "axis"));
  if (i.shape != to || from.rank != to.rank || axis < 0 || axis >= to.rank ||
      (i.dtype != DType::i8 && i.dtype != DType::i16 && i.dtype != DType::i32 &&
       i.dtype != DType::i64))
    p.unsupported(op, "of these types");
  for (int d = 0; d < to.rank; ++d) {
    if (d != axis && from[d] != to[d]) p.unsupported(op, "of these types");
  }
  const std::int64_t width = register_bytes(s.dtype);
  const std::int64_t extent = from[axis];
  const std::int64_t stride = row_major_strides(from)[axis];
  const std::int64_t index_width = register_bytes(i.dtype);
  const int source = p.vector(op.operands[0]);
  const int index = p.vector(op.operands[1]);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t n = to.elems();
  p.emit(
      [=](Exec& x) {
        const Vector& at = x.vector(index);
        if (const Origin o = at.first_poison(0, n)) fail_poison(o, "an index");
        if (at.bound) fail_bounds_of("where an index depends on a value that others may not have");
        std::vector<std::int64_t> place(static_cast<std::size_t>(n));
        const Shape strides = row_major_strides(from);
        for (std::int64_t e = 0; e < n; ++e) {
          // Triton extends narrow ones by zeros: none is meant to be negative.
          std::int64_t k = 0;
          std::memcpy(&k, at.data.bytes() + e * index_width, static_cast<std::size_t>(index_width));
          if (index_width == 4) k = static_cast<std::int32_t>(k);
          if (k < 0 || k >= extent) {
            fail_gather(k, extent);
          }
          const Shape where = unravel(to, e);
          std::int64_t offset = k * stride;
          for (int d = 0; d < to.rank; ++d) offset += d == axis ? 0 : where[d] * strides[d];
          place[static_cast<std::size_t>(e)] = offset;
        }
        x.vector(result) = rearranged(
            x.vector(source), n, width, [&](std::byte* out, const std::byte* in, std::int64_t w) {
              for (std::int64_t e = 0; e < n; ++e)
                std::memcpy(out + e * w, in + place[static_cast<std::size_t>(e)] * w,
                            static_cast<std::size_t>(w));
            });
      },
      {source, index});
  p.carries_bounds();
}

/// Counts of the values 0 to n - 1; those outside are not counted.
void plan_histogram(Planner& p, const Operation& op) {
  if (op.operands.empty() || op.operands.size() > 2 || op.results.size() != 1) p.refuse(op);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  if (from.dtype != DType::i32 || to.dtype != DType::i32)
    p.unsupported(op, "of another type than i32");
  const bool masked = op.operands.size() == 2;
  if (masked && (p.type(op.operands[1]).dtype != DType::boolean ||
                 p.type(op.operands[1]).shape != from.shape))
    p.refuse(op);
  const int source = p.vector(op.operands[0]);
  const int mask = masked ? p.vector(op.operands[1]) : -1;
  const int result = p.new_vector(op.results[0]);
  const std::int64_t n = from.shape.elems();
  const std::int64_t bins = to.shape.elems();
  p.read(source);
  if (masked) p.read(mask);
  p.emit([=](Exec& x) {
    const Vector& v = x.vector(source);
    Vector counts{StorageHandle(Storage::allocate(static_cast<std::size_t>(bins) * 4))};
    auto* const to_bins = reinterpret_cast<std::int32_t*>(counts.data.bytes());
    std::fill_n(to_bins, bins, 0);
    for (std::int64_t e = 0; e < n; ++e) {
      if (masked) {
        if (const Origin o = x.vector(mask).poison_at(e)) fail_poison(o, "a mask");
        if (x.vector(mask).data.bytes()[e] == std::byte{0}) continue;
      }
      if (const Origin o = v.poison_at(e)) fail_poison(o, "a histogram");
      const std::int32_t bin = reinterpret_cast<const std::int32_t*>(v.data.bytes())[e];
      if (bin >= 0 && bin < bins) ++to_bins[bin];
    }
    x.vector(result) = std::move(counts);
  });
}

}  // namespace

Rules shape_rules() {
  static const std::vector<Rule> rules = {
      {"builtin.unrealized_conversion_cast", "the same elements in another shape", true,
       plan_conversion_cast},
      {"tt.make_range", "start, start + 1, ...", true, plan_range},
      {"tt.splat", "a scalar, repeated", true, plan_splat},
      {"tt.unsplat", "the one element", true, plan_unsplat},
      {"tt.expand_dims", "with a dim of extent 1", true, plan_expand_dims},
      {"tt.broadcast", "repeats dims of extent 1", true, plan_tt_broadcast},
      {"tt.reshape", "the same elements in another shape", true, plan_reshape},
      {"tt.trans", "dims permuted", true, plan_trans},
      {"tt.join", "two tensors along a new last dim", true, plan_join},
      {"tt.split", "the two elements of the last dim, apart", true, plan_split},
      {"tt.cat", "two tensors one after the other", true, plan_cat},
      {"tt.gather", "elements by their index along an axis", true, plan_gather},
      {"tt.histogram", "how often each value occurs", true, plan_histogram},
  };
  return rules;
}

}  // namespace tessera::triton
