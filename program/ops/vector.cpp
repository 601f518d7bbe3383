// vector.*: cut, turned, repeated, reduced.
#include "program/gather.hpp"
#include "program/reduction.hpp"
#include "program/rules.hpp"

namespace tessera::program {

namespace {

void plan_strided(Planner& p, const Operation& op, const Shape& strides, std::int64_t offset) {
  p.expect_same_type(op, op.operands[0], op.results[0]);
  const int from = p.vector(op.operands[0]);
  const Type& t = p.type(op.results[0]);
  const int to = p.new_vector(op.results[0]);
  const Shape extents = t.shape;
  const std::int64_t width = register_bytes(t.dtype);
  p.emit(
      [=](Exec& x) {
        x.vector(to) = rearranged(x.vector(from), extents.elems(), width,
                                  [&](std::byte* out, const std::byte* in, std::int64_t w) {
                                    gather_strided(out, in + offset * w, w, extents, strides);
                                  });
      },
      {from});
  p.carries_bounds();
}

void plan_broadcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  if (p.type(op.operands[0]).kind == Type::Kind::vector)
    p.broadcast(op.results[0], op.operands[0]);
  else
    p.splat(op.results[0], p.scalar(op.operands[0]));
}

void plan_slice(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const auto& offsets = p.integers(op, "offsets");
  const auto& sizes = p.integers(op, "sizes");
  const Attribute* steps = op.find("strides");
  const Shape& from = p.type(op.operands[0]).shape;
  Shape strides = row_major_strides(from);
  std::int64_t offset = 0;
  const Shape& to = p.type(op.results[0]).shape;
  if (to.rank != from.rank) p.unsupported(op, "it drops dims");
  for (std::size_t d = 0; d < offsets.size() && d < static_cast<std::size_t>(from.rank); ++d) {
    const int i = static_cast<int>(d);
    std::int64_t step = 1;
    if (steps != nullptr && d < p.integers(op, "strides").size())
      step = p.integers(op, "strides")[d];
    if (offsets[d] < 0 || step < 1 || sizes.at(d) != to[i] ||
        offsets[d] + (to[i] - 1) * step >= from[i])
      p.unsupported(op, "its slice leaves the vector");
    offset += offsets[d] * strides[i];
    strides[i] *= step;
  }
  plan_strided(p, op, strides, offset);
}

void plan_extract(Planner& p, const Operation& op) {
  if (op.operands.size() != 1) p.unsupported(op, "at a dynamic position");
  p.expect(op, 1, 1);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  const auto& position = p.integers(op, "static_position");
  const Type& from = p.type(op.operands[0]);
  const Shape strides = row_major_strides(from.shape);
  std::int64_t at = 0;
  if (static_cast<int>(position.size()) > from.shape.rank) p.unsupported(op, "beyond its rank");
  for (std::size_t d = 0; d < position.size(); ++d) {
    if (position[d] < 0 || position[d] >= from.shape[static_cast<int>(d)])
      p.unsupported(op, "at a dynamic position");
    at += position[d] * strides[static_cast<int>(d)];
  }
  const Type& t = p.type(op.results[0]);
  const std::int64_t width = register_bytes(from.dtype);
  const int source = p.vector(op.operands[0]);
  if (t.kind == Type::Kind::vector) {
    const int to = p.new_vector(op.results[0]);
    const std::int64_t elems = t.shape.elems();
    if (at + elems > from.shape.elems()) p.unsupported(op, "beyond its operand");
    p.emit(
        [=](Exec& x) {
          x.vector(to) =
              rearranged(x.vector(source), elems, width,
                         [&](std::byte* out, const std::byte* in, std::int64_t w) {
                           std::memcpy(out, in + at * w, static_cast<std::size_t>(elems * w));
                         });
        },
        {source});
    p.carries_bounds();
    return;
  }
  const int to = p.new_scalar(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        Scalar& s = x.scalars[static_cast<std::size_t>(to)];
        std::memcpy(s.bytes.data(), v.data.bytes() + at * width, static_cast<std::size_t>(width));
        s.poison = v.poison_at(at);
        s.bound = v.bound ? v.bounds()[at] : 0.f;
      },
      {source});
  p.carries_bounds();
}

void plan_reduction(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const std::string kind = p.inner_text(op, "kind");
  p.expect_type(op, to.dtype);
  const Rows rows = reduced_dims(from.shape, p.integers(op, "reduction_dims"));
  const auto found = reduction(kind, from.dtype, rows);
  if (!found) p.unsupported(op, "of kind " + kind + " on " + name(from.dtype));
  if (to.kind != Type::Kind::vector || rows.kept != to.shape.elems() ||
      p.type(op.operands[1]).shape.elems() != rows.kept)
    p.unsupported(op, "to a scalar");
  const int source = p.vector(op.operands[0]);
  const int start = p.vector(op.operands[1]);
  const int result = p.new_vector(op.results[0]);
  const Shape extents = to.shape;
  p.emit(
      [=, reduce = *found](Exec& x) {
        x.vector(result) =
            reduce.run(x.vector(source), x.vector(start), extents, "vector.multi_reduction");
      },
      {source, start});
  p.carries_bounds();
  p.work({.flops = rows.elems(), .elements = rows.elems()});
}

/// The same bytes: of another width, each row has more or fewer elements.
void plan_vector_bitcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& f = p.type(op.operands[0]);
  const Type& t = p.type(op.results[0]);
  const int from_bits = bit_width(f.dtype);
  const int to_bits = bit_width(t.dtype);
  if (from_bits == to_bits) return plan_bitcast(p, op);
  if (f.kind != Type::Kind::vector || t.kind != Type::Kind::vector || f.shape.rank == 0 ||
      f.shape.rank != t.shape.rank)
    p.unsupported(op, "between widths, of anything but vectors of as many dims");
  const int last = f.shape.rank - 1;
  bool fits = f.shape[last] * from_bits == t.shape[last] * to_bits;
  for (int d = 0; d < last; ++d) fits = fits && f.shape[d] == t.shape[d];
  if (!fits || std::min(from_bits, to_bits) < 8) p.unsupported(op, "to a vector of other rows");
  const std::int64_t n = t.shape.elems();
  const std::int64_t from_bytes = from_bits / 8;
  const std::int64_t to_bytes = to_bits / 8;
  const int from = p.vector(op.operands[0]);
  const int to = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(from);
        Vector r{v.data};
        if (v.poison) {
          r.poison = poison_mask(n, 0);
          for (std::int64_t b = 0; b < n * to_bytes; ++b) {
            if (const Origin o = v.poison_at(b / from_bytes))
              r.poison.bytes()[b / to_bytes] = std::byte{o};
          }
        }
        x.vector(to) = std::move(r);
      },
      {from});
}

}  // namespace

void plan_same(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  p.alias(op.results[0], op.operands[0]);
}

void plan_transpose(Planner& p, const Operation& op) { plan_permutation(p, op, "permutation"); }

void plan_permutation(Planner& p, const Operation& op, const char* attribute) {
  p.expect(op, 1, 1);
  const auto& permutation = p.integers(op, attribute);
  const Shape& from = p.type(op.operands[0]).shape;
  const Shape& to = p.type(op.results[0]).shape;
  const Shape strides = row_major_strides(from);
  Shape moved = strides;
  if (static_cast<int>(permutation.size()) != from.rank || to.rank != from.rank)
    p.unsupported(op, "its permutation is none");
  for (int d = 0; d < from.rank; ++d) {
    const auto s = permutation[static_cast<std::size_t>(d)];
    if (s < 0 || s >= from.rank || from[static_cast<int>(s)] != to[d])
      p.unsupported(op, "its permutation is none");
    moved[d] = strides[static_cast<int>(s)];
  }
  plan_strided(p, op, moved, 0);
}

Rules vector_rules() {
  static const std::vector<Rule> rules = {
      {"vector.broadcast", "repeats a scalar, or dims of extent 1", true, plan_broadcast},
      {"vector.shape_cast", "the same elements in another shape", true, plan_same},
      {"vector.extract", "an element, or a slice of leading dims", true, plan_extract},
      {"vector.extract_strided_slice", "a slice", true, plan_slice},
      {"vector.transpose", "dims permuted", true, plan_transpose},
      {"vector.bitcast",
       "the same bits as another type; of another width along the last dim, the lowest first", true,
       plan_vector_bitcast},
      {"vector.multi_reduction", "reduces dims, from a start value", true, plan_reduction},
  };
  return rules;
}

}  // namespace tessera::program
