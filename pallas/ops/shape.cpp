// Vectors joined, repeated, rotated, gathered and repacked.
#include "pallas/rules.hpp"
#include "program/gather.hpp"
#include "program/rules.hpp"

namespace tessera::pallas {

namespace {

void plan_concatenate(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  const auto dim = static_cast<int>(p.integer(op, "dimension"));
  const Type& t = p.type(op.results[0]);
  if (dim < 0 || dim >= t.shape.rank) p.unsupported(op, "along no dim of it");
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int d = 0; d < dim; ++d) outer *= t.shape[d];
  for (int d = dim + 1; d < t.shape.rank; ++d) inner *= t.shape[d];
  struct Part {
    int slot;
    std::int64_t run;
  };
  std::vector<Part> parts;
  std::int64_t all = 0;
  for (const int v : op.operands) {
    const Shape& s = p.type(v).shape;
    if (s.rank != t.shape.rank) p.unsupported(op, "of several ranks");
    p.expect_same_type(op, v, op.results[0]);
    for (int d = 0; d < s.rank; ++d) {
      if (d != dim && s[d] != t.shape[d]) p.unsupported(op, "its parts are not its whole");
    }
    parts.push_back({p.vector(v), s[dim] * inner});
    all += s[dim];
  }
  if (all != t.shape[dim]) p.unsupported(op, "its parts are not its whole");
  for (const Part& part : parts) p.read(part.slot);
  const int to = p.new_vector(op.results[0]);
  const std::int64_t elems = t.shape.elems();
  const std::int64_t width = register_bytes(t.dtype);
  p.emit([=](Exec& x) {
    Vector r;
    r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(elems * width)));
    bool poison = false;
    bool bound = false;
    for (const Part& part : parts) {
      poison = poison || static_cast<bool>(x.vector(part.slot).poison);
      bound = bound || static_cast<bool>(x.vector(part.slot).bound);
    }
    if (poison) r.poison = StorageHandle(Storage::allocate(static_cast<std::size_t>(elems)));
    if (bound) r.bound = bound_storage(elems);
    std::int64_t at = 0;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (const Part& part : parts) {
        const Vector& v = x.vector(part.slot);
        const auto n = static_cast<std::size_t>(part.run);
        std::memcpy(r.data.bytes() + at * width, v.data.bytes() + o * part.run * width,
                    n * static_cast<std::size_t>(width));
        if (poison && v.poison)
          std::memcpy(r.poison.bytes() + at, v.poison.bytes() + o * part.run, n);
        else if (poison)
          std::memset(r.poison.bytes() + at, 0, n);
        if (bound && v.bound)
          std::copy_n(v.bounds() + o * part.run, n, floats(r.bound) + at);
        else if (bound)
          std::fill_n(floats(r.bound) + at, n, 0.f);
        at += part.run;
      }
    }
    x.vector(to) = std::move(r);
  });
  p.carries_bounds();
}

void plan_repeat(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const auto dim = static_cast<int>(p.integer(op, "dimension"));
  const auto times = p.integer(op, "times");
  const Shape& s = p.type(op.operands[0]).shape;
  const Type& t = p.type(op.results[0]);
  p.expect_same_type(op, op.operands[0], op.results[0]);
  if (dim < 0 || dim >= s.rank || times < 1 || times > (1 << 20) ||
      s.elems() * times != t.shape.elems() || s.rank == kMaxRank)
    p.unsupported(op, "along no dim of it");
  Shape strides = row_major_strides(s);
  // As a dim of its own before the one that repeats.
  Shape extents;
  Shape steps;
  for (int d = 0; d < s.rank; ++d) {
    if (d == dim) {
      extents.push_back(times);
      steps.push_back(0);
    }
    extents.push_back(s[d]);
    steps.push_back(strides[d]);
  }
  const int from = p.vector(op.operands[0]);
  const int to = p.new_vector(op.results[0]);
  const std::int64_t width = register_bytes(t.dtype);
  p.emit(
      [=](Exec& x) {
        x.vector(to) = rearranged(x.vector(from), extents.elems(), width,
                                  [&](std::byte* out, const std::byte* in, std::int64_t w) {
                                    gather_strided(out, in, w, extents, steps);
                                  });
      },
      {from});
  p.carries_bounds();
}

/// Sublanes are repacked along the second-minor dim, the lowest element first.
void plan_tpu_bitcast(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const int from_bits = bit_width(from.dtype);
  const int to_bits = bit_width(to.dtype);
  if (from_bits == to_bits) {
    p.reinterpret(op.results[0], op.operands[0]);
    return;
  }
  const int rank = from.shape.rank;
  if (rank < 2 || to.shape.rank != rank) p.unsupported(op, "of a vector without rows");
  const std::int64_t rows = from.shape[rank - 2];
  const std::int64_t columns = from.shape[rank - 1];
  const std::int64_t outer = from.shape.elems() / std::max<std::int64_t>(1, rows * columns);
  if (to.shape[rank - 1] != columns || to.shape[rank - 2] * to_bits != rows * from_bits)
    p.unsupported(op, "its rows are not repacked");
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t to_rows = to.shape[rank - 2];
  const std::int64_t elems = to.shape.elems();
  const std::int64_t from_width = register_bytes(from.dtype);
  const std::int64_t to_width = register_bytes(to.dtype);
  const std::uint64_t sign = to.dtype == DType::i4 ? 8 : to.dtype == DType::i2 ? 2 : 0;
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        Vector r;
        r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(elems * to_width)));
        if (v.poison) r.poison = poison_mask(elems, 0);
        const std::uint64_t from_mask = (std::uint64_t{1} << from_bits) - 1;
        const std::uint64_t to_mask = (std::uint64_t{1} << to_bits) - 1;
        const bool widen = to_bits > from_bits;
        const std::int64_t f = widen ? to_bits / from_bits : from_bits / to_bits;
        for (std::int64_t o = 0; o < outer; ++o) {
          for (std::int64_t i = 0; i < to_rows; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) {
              std::uint64_t bits = 0;
              Origin poison = 0;
              const auto take = [&](std::int64_t row) {
                const std::int64_t at = (o * rows + row) * columns + j;
                std::uint64_t one = 0;
                std::memcpy(&one, v.data.bytes() + at * from_width,
                            static_cast<std::size_t>(from_width));
                if (poison == 0) poison = v.poison_at(at);
                return one & from_mask;
              };
              if (widen) {
                for (std::int64_t k = 0; k < f; ++k) bits |= take(i * f + k) << (k * from_bits);
              } else {
                bits = (take(i / f) >> (i % f * to_bits)) & to_mask;
                if ((bits & sign) != 0) bits |= ~(sign - 1);
              }
              const std::int64_t at = (o * to_rows + i) * columns + j;
              std::memcpy(r.data.bytes() + at * to_width, &bits,
                          static_cast<std::size_t>(to_width));
              if (poison != 0) r.poison.bytes()[at] = std::byte{poison};
            }
          }
        }
        x.vector(result) = std::move(r);
      },
      {source});
}

void plan_rotate(Planner& p, const Operation& op) {
  const bool dynamic = op.name == "tpu.dynamic_rotate";
  p.expect(op, dynamic ? 2 : 1, 1);
  const auto dim = static_cast<int>(p.integer(op, "dimension"));
  const std::int64_t amount = dynamic ? 0 : p.integer(op, "amount");
  const std::int64_t stride = p.integer_or(op, "stride", 0);
  const auto stride_dim = static_cast<int>(p.integer_or(op, "stride_dimension", -1));
  const Type& t = p.type(op.results[0]);
  const Shape s = t.shape;
  p.expect_same_type(op, op.operands[0], op.results[0]);
  if (dim < 0 || dim >= s.rank || stride_dim >= s.rank || s.elems() == 0 ||
      !(p.type(op.operands[0]).shape == s))
    p.unsupported(op, "along no dim of it");
  const int from = p.vector(op.operands[0]);
  const int by = dynamic ? p.scalar(op.operands[1]) : -1;
  const int to = p.new_vector(op.results[0]);
  const std::int64_t width = register_bytes(t.dtype);
  const Shape strides = row_major_strides(s);
  p.emit(
      [=](Exec& x) {
        const std::int64_t shift = by >= 0 ? x.integer(by, DType::i32, "a rotation") : amount;
        x.vector(to) = rearranged(
            x.vector(from), s.elems(), width,
            [&](std::byte* out, const std::byte* in, std::int64_t w) {
              for (std::int64_t e = 0; e < s.elems(); ++e) {
                const std::int64_t i = e / strides[dim] % s[dim];
                const std::int64_t more =
                    stride_dim >= 0 ? e / strides[stride_dim] % s[stride_dim] * stride : 0;
                // Element i comes from i - shift.
                std::int64_t source = (i - shift - more) % s[dim];
                if (source < 0) source += s[dim];
                std::memcpy(out + e * w, in + (e + (source - i) * strides[dim]) * w,
                            static_cast<std::size_t>(w));
              }
            });
      },
      {from});
  p.carries_bounds();
}

bool is_index_dtype(DType d) { return d == DType::i8 || d == DType::i16 || d == DType::i32; }

/// Element e of a vector of signed integers of `width` bytes.
std::int64_t integer_at(const std::byte* data, std::int64_t width, std::int64_t e) {
  if (width == 1) return reinterpret_cast<const std::int8_t*>(data)[e];
  if (width == 2) return reinterpret_cast<const std::int16_t*>(data)[e];
  return reinterpret_cast<const std::int32_t*>(data)[e];
}

/// result[..., i, ...] = source[..., indices[..., i, ...], ...].
void plan_dynamic_gather(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const auto& dims =
      op.find("dimensions") != nullptr ? p.integers(op, "dimensions") : std::vector<std::int64_t>{};
  const std::int64_t dim_of = dims.empty()       ? p.integer(op, "dimension")
                              : dims.size() == 1 ? dims[0]
                                                 : -1;
  const Type& t = p.type(op.results[0]);
  const Shape to_shape = t.shape;
  const Shape from_shape = p.type(op.operands[0]).shape;
  const auto dim = static_cast<int>(dim_of);
  if (dims.size() > 1) p.unsupported(op, "along several dims");
  const Type& index_type = p.type(op.operands[1]);
  if (!is_index_dtype(index_type.dtype)) p.unsupported(op, "indices of this type");
  bool fits = dim >= 0 && dim < to_shape.rank && from_shape.rank == to_shape.rank &&
              from_shape.elems() != 0 && p.type(op.operands[0]).dtype == t.dtype &&
              index_type.shape.elems() == to_shape.elems();
  for (int d = 0; fits && d < to_shape.rank; ++d) fits = d == dim || from_shape[d] == to_shape[d];
  if (!fits) p.unsupported(op, "its shapes do not fit");
  const int from = p.vector(op.operands[0]);
  const int indices = p.vector(op.operands[1]);
  const int to = p.new_vector(op.results[0]);
  const std::int64_t width = register_bytes(t.dtype);
  const std::int64_t index_width = register_bytes(index_type.dtype);
  const Shape strides = row_major_strides(from_shape);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(from);
        const Vector& at = x.vector(indices);
        const std::byte* const index = at.data.bytes();
        const std::int64_t n = to_shape.elems();
        if (const Origin o = at.first_poison(0, n)) fail_poison(o, "a gather's index");
        if (at.bound) fail_bounds_of("where a gather's index may be another");
        x.vector(to) =
            rearranged(v, n, width, [&](std::byte* out, const std::byte* in, std::int64_t w) {
              for (std::int64_t e = 0; e < n; ++e) {
                const Shape where = unravel(to_shape, e);
                std::int64_t place = 0;
                for (int d = 0; d < to_shape.rank; ++d) {
                  // Out of range wraps, as hardware's lane gather does.
                  std::int64_t i = where[d];
                  if (d == dim) {
                    i = integer_at(index, index_width, e) % from_shape[d];
                    if (i < 0) i += from_shape[d];
                  }
                  place += i * strides[d];
                }
                std::memcpy(out + e * w, in + place * w, static_cast<std::size_t>(w));
              }
            });
      },
      {from, indices});
  p.carries_bounds();
}

}  // namespace

Rules shape_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.relayout", "the same vector in other registers", true, plan_same},
      {"tpu.transpose", "dims permuted", true, plan_transpose},
      {"tpu.concatenate", "joined along a dim", true, plan_concatenate},
      {"tpu.repeat", "repeated along a dim", true, plan_repeat},
      {"tpu.bitcast", "repacked along sublanes, the lowest element first", true, plan_tpu_bitcast},
      {"tpu.bitcast_vreg", "the same registers as another type", true, plan_tpu_bitcast},
      {"tpu.rotate", "element i moves to i + amount", true, plan_rotate},
      {"tpu.dynamic_rotate", "element i moves to i + amount + stride x its row", true, plan_rotate},
      {"tpu.dynamic_gather", "elements by an index along one dim", true, plan_dynamic_gather},
  };
  return rules;
}

}  // namespace tessera::pallas
