// Vectors made and reduced: iota, reductions, packing.
#include <cctype>

#include <limits>

#include "pallas/ops/gather.hpp"
#include "sim/ops/reduce.hpp"

namespace tessera::pallas {

namespace {

void plan_iota(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const Type& t = p.type(op.results[0]);
  std::vector<std::int64_t> dims;
  if (op.find("dimensions") != nullptr)
    dims = p.integers(op, "dimensions");
  else
    dims = {p.integer(op, "dimension")};
  const Shape strides = row_major_strides(t.shape);
  std::vector<std::byte> bytes(static_cast<std::size_t>(t.shape.elems() * register_bytes(t.dtype)));
  for (const auto d : dims) {
    if (d < 0 || d >= t.shape.rank) p.unsupported(op, "along no dim of it");
  }
  for (std::int64_t e = 0; e < t.shape.elems(); ++e) {
    std::int64_t value = 0;
    for (const auto d : dims) {
      const int i = static_cast<int>(d);
      value = value * t.shape[i] + e / strides[i] % t.shape[i];
    }
    std::memcpy(bytes.data() + e * register_bytes(t.dtype), &value,
                static_cast<std::size_t>(register_bytes(t.dtype)));
  }
  Attribute constant;
  constant.kind = Attribute::Kind::dense;
  constant.bytes = std::move(bytes);
  if (is_float(t.dtype)) p.unsupported(op, "of floats");
  p.constant(op.results[0], constant);
}

// Reductions are made in the lanes of sim/ops/reduce.hpp, for any dims: index r of the reduced
// dims, counted row by row, is combined into lane r mod 32.

template <class R, class T>
void reduce(T* to, const T* from, std::int64_t kept, std::int64_t reduced) {
  using Combine = typename R::Combine;
  for (std::int64_t r = 0; r < kept; ++r) {
    const T* const row = from + r * reduced;
    alignas(64) T lanes[kReduceLanes];
    for (int l = 0; l < kReduceLanes; ++l) lanes[l] = R::template identity<T>();
    std::int64_t c = 0;
    for (; c + kReduceLanes <= reduced; c += kReduceLanes) {
      for (int l = 0; l < kReduceLanes; ++l)
        lanes[l] = Combine::template apply<T>(lanes[l], row[c + l]);
    }
    for (int l = 0; c + l < reduced; ++l)
      lanes[l] = Combine::template apply<T>(lanes[l], row[c + l]);
    for (int s = kReduceLanes / 2; s > 0; s /= 2) {
      for (int l = 0; l < s; ++l) lanes[l] = Combine::template apply<T>(lanes[l], lanes[l + s]);
    }
    to[r] = Combine::template apply<T>(to[r], lanes[0]);
  }
}

struct WrappingSum {
  struct Combine {
    template <class T>
    static T apply(T a, T b) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
  };
  template <class T>
  static T identity() {
    return 0;
  }
};
struct Product {
  struct Combine {
    template <class T>
    static T apply(T a, T b) {
      return a * b;
    }
  };
  template <class T>
  static T identity() {
    return T(1);
  }
};
template <class Bits>
struct Bitwise {
  struct Combine {
    template <class T>
    static T apply(T a, T b) {
      return Bits::apply(a, b);
    }
  };
  template <class T>
  static T identity() {
    return static_cast<T>(Bits::kIdentity);
  }
};
struct And {
  static constexpr int kIdentity = -1;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  static constexpr int kIdentity = 0;
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

using Reduce = void (*)(std::byte* to, const std::byte* from, std::int64_t kept,
                        std::int64_t reduced);
template <class R, class T>
Reduce reduce_kernel() {
  return [](std::byte* to, const std::byte* from, std::int64_t kept, std::int64_t reduced) {
    if constexpr (kIsSmallFloat<T>) {
      // In f32, rounded once.
      std::vector<float> wide(static_cast<std::size_t>(kept * reduced));
      std::vector<float> sums(static_cast<std::size_t>(kept));
      for (std::size_t i = 0; i < wide.size(); ++i)
        wide[i] = convert<float>(reinterpret_cast<const T*>(from)[i]);
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = convert<float>(reinterpret_cast<const T*>(to)[i]);
      reduce<R, float>(sums.data(), wide.data(), kept, reduced);
      for (std::size_t i = 0; i < sums.size(); ++i) reinterpret_cast<T*>(to)[i] = T(sums[i]);
    } else {
      reduce<R, T>(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), kept, reduced);
    }
  };
}
template <class R>
Reduce float_reduction(DType d) {
  switch (d) {
    case DType::f32:
      return reduce_kernel<R, float>();
    case DType::bf16:
      return reduce_kernel<R, bf16>();
    case DType::f16:
      return reduce_kernel<R, f16>();
    default:
      return nullptr;
  }
}
template <class R>
Reduce integer_reduction(DType d) {
  switch (d) {
    case DType::i32:
      return reduce_kernel<R, std::int32_t>();
    case DType::i16:
      return reduce_kernel<R, std::int16_t>();
    case DType::i8:
      return reduce_kernel<R, std::int8_t>();
    default:
      return nullptr;
  }
}
Reduce find_reduction(const std::string& kind, DType d) {
  const bool f = is_float(d);
  if (kind == "add") return f ? float_reduction<RowSum>(d) : integer_reduction<WrappingSum>(d);
  if (kind == "mul") return f ? float_reduction<Product>(d) : nullptr;
  if (kind == "maximumf") return float_reduction<RowMax>(d);
  if (kind == "minimumf") return float_reduction<RowMin>(d);
  if (kind == "maxsi") return integer_reduction<RowMax>(d);
  if (kind == "minsi") return integer_reduction<RowMin>(d);
  if (kind == "and") return integer_reduction<Bitwise<And>>(d);
  if (kind == "or") return integer_reduction<Bitwise<Or>>(d);
  return nullptr;
}

/// "#vector.kind<add>" -> "add"
std::string inner_text(const std::string& text) {
  const auto from = text.find('<');
  const auto to = text.rfind('>');
  return from == std::string::npos || to <= from ? text : text.substr(from + 1, to - from - 1);
}

/// The operand with its reduced dims last.
struct Reduced {
  Shape extents;
  Shape strides;
  std::int64_t kept = 1;
  std::int64_t reduced = 1;
};
Reduced reduced_dims(const Shape& s, const std::vector<std::int64_t>& dims) {
  const Shape strides = row_major_strides(s);
  Reduced r;
  for (const bool gone : {false, true}) {
    for (int d = 0; d < s.rank; ++d) {
      if ((std::find(dims.begin(), dims.end(), d) != dims.end()) != gone) continue;
      r.extents.push_back(s[d]);
      r.strides.push_back(strides[d]);
      (gone ? r.reduced : r.kept) *= s[d];
    }
  }
  return r;
}

/// Bounds of a reduction of rows, in f32, from `start`.
StorageHandle reduction_bounds(const char* row_op, const char* op, const Vector& rows,
                               const Vector& start, const Vector& result, Reduce kernel,
                               std::int64_t kept, std::int64_t reduced) {
  const auto k = static_cast<int>(kept);
  const auto n = static_cast<int>(reduced);
  const ErrorModel& model = *op_state.error_model;
  // The rows alone: `kernel` begins with what it finds.
  StorageHandle alone(Storage::allocate(sizeof(float) * static_cast<std::size_t>(kept)));
  const bool sum = std::string_view(op) == "add";
  const float identity = sum ? 0.f : std::string_view(op) == "max" ? -INFINITY : INFINITY;
  std::fill_n(floats(alone), kept, identity);
  kernel(alone.bytes(), rows.data.bytes(), kept, reduced);
  const bounds::TileView from{rows.data.bytes(), DType::f32, k, n, n, rows.bounds()};
  const StorageHandle of_rows =
      bounds::reduce_rows(row_op, model, {alone.bytes(), DType::f32, k, 1, 1, nullptr}, from);
  const auto flat = [k](const std::byte* bytes, const float* bound) {
    return bounds::TileView{bytes, DType::f32, 1, k, k, bound};
  };
  return bounds::elementwise(bounds::rule_of(op), model, flat(result.data.bytes(), nullptr),
                             {flat(start.data.bytes(), start.bounds()),
                              flat(alone.bytes(), of_rows ? floats(of_rows) : nullptr)});
}

/// A vector of small floats as f32, with its bounds.
Vector as_f32(const Vector& v, DType dtype, std::int64_t n) {
  Vector wide{
      StorageHandle(Storage::allocate(sizeof(float) * static_cast<std::size_t>(n))), {}, v.bound};
  visit_dtype(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    if constexpr (kIsSmallFloat<T>) {
      for (std::int64_t i = 0; i < n; ++i)
        floats(wide.data)[i] = convert<float>(reinterpret_cast<const T*>(v.data.bytes())[i]);
    }
  });
  return wide;
}

void plan_reduction(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const std::string kind = inner_text(p.text(op, "kind"));
  p.expect_type(op, to.dtype);
  const Reduce kernel = find_reduction(kind, from.dtype);
  if (kernel == nullptr) p.unsupported(op, "of kind " + kind + " on " + name(from.dtype));
  const Reduced dims = reduced_dims(from.shape, p.integers(op, "reduction_dims"));
  if (to.kind != Type::Kind::vector || dims.kept != to.shape.elems() ||
      p.type(op.operands[1]).shape.elems() != dims.kept)
    p.unsupported(op, "to a scalar");
  const int source = p.vector(op.operands[0]);
  const int start = p.vector(op.operands[1]);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t width = register_bytes(from.dtype);
  const bool in_order = row_major_strides(dims.extents) == dims.strides;
  const DType dtype = from.dtype;
  const Reduce in_f32 = is_float(dtype) ? find_reduction(kind, DType::f32) : nullptr;
  const char* const bounds_of = kind == "add"        ? "add"
                                : kind == "maximumf" ? "max"
                                : kind == "minimumf" ? "min"
                                                     : nullptr;
  const char* const row_op = kind == "add" ? "row_sum" : kind == "maximumf" ? "row_max" : "row_min";
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        const std::int64_t elems = dims.kept * dims.reduced;
        Vector moved;
        if (!in_order) {
          moved =
              rearranged(v, elems, width, [&](std::byte* out, const std::byte* in, std::int64_t w) {
                gather_strided(out, in, w, dims.extents, dims.strides);
              });
        }
        const Vector& rows = in_order ? v : moved;
        Vector r;
        const auto bytes = static_cast<std::size_t>(dims.kept * width);
        r.data = StorageHandle(Storage::allocate(bytes));
        std::memcpy(r.data.bytes(), x.vector(start).data.bytes(), bytes);
        kernel(r.data.bytes(), rows.data.bytes(), dims.kept, dims.reduced);
        if (op_state.error_model != nullptr) {
          const Vector& begin = x.vector(start);
          const bool any = rows.bound || begin.bound;
          if (in_f32 == nullptr ? any : bounds_of == nullptr)
            fail_bounds_of("of a reduction by " + kind);
          if (in_f32 != nullptr && dtype == DType::f32) {
            r.bound = reduction_bounds(row_op, bounds_of, rows, begin, r, kernel, dims.kept,
                                       dims.reduced);
          } else if (in_f32 != nullptr) {
            const Vector wide_rows = as_f32(rows, dtype, elems);
            const Vector wide_begin = as_f32(begin, dtype, dims.kept);
            Vector wide = wide_begin;
            wide.data = StorageHandle(
                Storage::allocate(sizeof(float) * static_cast<std::size_t>(dims.kept)));
            std::memcpy(wide.data.bytes(), wide_begin.data.bytes(),
                        sizeof(float) * static_cast<std::size_t>(dims.kept));
            in_f32(wide.data.bytes(), wide_rows.data.bytes(), dims.kept, dims.reduced);
            wide.bound = reduction_bounds(row_op, bounds_of, wide_rows, wide_begin, wide, in_f32,
                                          dims.kept, dims.reduced);
            const auto n = static_cast<int>(dims.kept);
            r.bound = bounds::cast({r.data.bytes(), dtype, 1, n, n, nullptr},
                                   {wide.data.bytes(), DType::f32, 1, n, n, wide.bounds()});
          }
        }
        if (rows.poison) {
          r.poison = StorageHandle(Storage::allocate(static_cast<std::size_t>(dims.kept)));
          for (std::int64_t i = 0; i < dims.kept; ++i) {
            const std::byte* const row = rows.poison.bytes() + i * dims.reduced;
            const bool any =
                std::any_of(row, row + dims.reduced, [](std::byte b) { return b != std::byte{0}; });
            r.poison.bytes()[i] = static_cast<std::byte>(any ? 1 : 0);
          }
        }
        x.vector(result) = std::move(r);
      },
      {source, start});
  p.carries_bounds();
  const std::int64_t elems = dims.kept * dims.reduced;
  p.work({.flops = elems, .elements = elems});
}

/// tpu.all_reduce: the reduced dim keeps its extent, every element the result.
void plan_reduce_index(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const std::string kind = inner_text(p.text(op, "kind"));
  const bool largest = kind == "arg_max";
  if ((!largest && kind != "arg_min") || from.dtype != DType::f32 || to.dtype != DType::i32 ||
      to.kind != Type::Kind::vector)
    p.unsupported(op, "of kind " + kind + " on " + name(from.dtype));
  const auto axis = static_cast<int>(p.integer(op, "axis"));
  const Reduced dims = reduced_dims(from.shape, {axis});
  if (axis < 0 || axis >= from.shape.rank || dims.kept != to.shape.elems())
    p.unsupported(op, "along no dim of it");
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const std::int64_t elems = dims.kept * dims.reduced;
        const Vector rows = rearranged(x.vector(source), elems, 4,
                                       [&](std::byte* out, const std::byte* in, std::int64_t w) {
                                         gather_strided(out, in, w, dims.extents, dims.strides);
                                       });
        const auto* const value = reinterpret_cast<const float*>(rows.data.bytes());
        Vector r;
        r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(dims.kept * 4)));
        auto* const out = reinterpret_cast<std::int32_t*>(r.data.bytes());
        for (std::int64_t i = 0; i < dims.kept; ++i) {
          const float* const row = value + i * dims.reduced;
          std::int32_t best = 0;
          for (std::int64_t j = 1; j < dims.reduced; ++j) {
            const float a = row[j];
            const float b = row[best];
            // The first of equals; a NaN wins.
            if (b == b && (a != a || (largest ? a > b : a < b)))
              best = static_cast<std::int32_t>(j);
          }
          out[i] = best;
        }
        if (rows.poison) r.poison = byte_mask(dims.kept, true);
        x.vector(result) = std::move(r);
      },
      {source});
}

DType named_type(Planner& p, const Operation& op, const char* attribute) {
  const std::string text = p.text(op, attribute);
  std::string lower = text;  // f8E4M3FN is MLIR's name of f8e4m3fn
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (int d = 0; d < kDTypes; ++d) {
    if (lower == name(static_cast<DType>(d))) return static_cast<DType>(d);
  }
  p.unsupported(op, std::string(attribute) + " " + text);
}

/// Element i of the result holds element i of each operand, narrowed, the first lowest.
void plan_pack_elementwise(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  const Type& to = p.type(op.results[0]);
  const DType narrow = named_type(p, op, "target_type");
  const int bits = bit_width(narrow);
  const Type& from = p.type(op.operands[0]);
  if (static_cast<int>(op.operands.size()) * bits != bit_width(to.dtype) || is_float(to.dtype))
    p.unsupported(op, "its operands do not fill the result");
  std::vector<int> slots;
  for (const int v : op.operands) {
    if (p.type(v).shape.elems() != to.shape.elems() || p.type(v).dtype != from.dtype)
      p.unsupported(op, "of several types");
    slots.push_back(p.vector(v));
  }
  for (const int s : slots) p.read(s);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t n = to.shape.elems();
  const std::int64_t width = register_bytes(to.dtype);
  const std::int64_t from_width = register_bytes(from.dtype);
  const bool floats = from.dtype == DType::f32 && narrow == DType::bf16;
  if (is_float(from.dtype) && !floats) p.unsupported(op, "to this type");
  p.emit([=](Exec& x) {
    Vector r;
    r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(n * width)));
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    bool poison = false;
    for (std::int64_t e = 0; e < n; ++e) {
      std::uint64_t packed = 0;
      for (std::size_t k = 0; k < slots.size(); ++k) {
        std::uint64_t one = 0;
        std::memcpy(&one, x.vector(slots[k]).data.bytes() + e * from_width,
                    static_cast<std::size_t>(from_width));
        if (floats) one = bf16(std::bit_cast<float>(static_cast<std::uint32_t>(one))).bits;
        packed |= (one & mask) << (static_cast<int>(k) * bits);
      }
      std::memcpy(r.data.bytes() + e * width, &packed, static_cast<std::size_t>(width));
    }
    for (const int s : slots) poison = poison || static_cast<bool>(x.vector(s).poison);
    if (poison) r.poison = byte_mask(n, true);
    x.vector(result) = std::move(r);
  });
}

void plan_unpack_elementwise(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const DType narrow = named_type(p, op, "source_type");
  const auto index = p.integer(op, "index");
  const int bits = bit_width(narrow);
  if (is_float(from.dtype) || index < 0 || (index + 1) * bits > bit_width(from.dtype) ||
      from.shape.elems() != to.shape.elems() || is_float(narrow) != is_float(to.dtype) ||
      (is_float(narrow) && narrow != DType::bf16))
    p.unsupported(op, "of this type");
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t n = to.shape.elems();
  const std::int64_t from_width = register_bytes(from.dtype);
  const std::int64_t width = register_bytes(to.dtype);
  const bool floats = is_float(narrow);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        Vector r;
        r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(n * width)));
        for (std::int64_t e = 0; e < n; ++e) {
          std::uint64_t word = 0;
          std::memcpy(&word, v.data.bytes() + e * from_width, static_cast<std::size_t>(from_width));
          word = word >> (index * bits) & ((std::uint64_t{1} << bits) - 1);
          if (floats)
            word <<= 16;  // bf16 is the upper half of an f32
          else if ((word >> (bits - 1) & 1) != 0)
            word |= ~((std::uint64_t{1} << bits) - 1);
          std::memcpy(r.data.bytes() + e * width, &word, static_cast<std::size_t>(width));
        }
        r.poison = v.poison;
        x.vector(result) = std::move(r);
      },
      {source});
}

}  // namespace

Rules vector_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.iota", "each element's index along dims", true, plan_iota},
      {"vector.multi_reduction", "reduces dims, from a start value", true, plan_reduction},
      {"tpu.reduce_index", "the index of the largest or smallest along an axis", true,
       plan_reduce_index},
      {"tpu.pack_elementwise", "narrowed operands side by side in one word", true,
       plan_pack_elementwise},
      {"tpu.unpack_elementwise", "one narrow element of each word, widened", true,
       plan_unpack_elementwise},
  };
  return rules;
}

}  // namespace tessera::pallas
