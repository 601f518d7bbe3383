// Elementwise ops of the tpu dialect, iota, the index of the largest, packing.
#include <cctype>
#include <cmath>

#include "pallas/rules.hpp"
#include "program/elements.hpp"
#include "program/reduction.hpp"
#include "program/rules.hpp"
#include "sim/ops/logistic.hpp"

namespace tessera::pallas {

namespace {

struct Reciprocal {
  static float apply(float a) { return 1.0f / a; }
};
struct Weird {
  static bool apply(float a) { return !std::isfinite(a); }
};

void plan_reciprocal(Planner& p, const Operation& op) {
  const bool approximate = p.integer_or(op, "approx", 0) != 0;
  float_rule<Reciprocal, 1>(
      1, true, {approximate ? BoundRule::Kind::stated : BoundRule::Kind::rule, "reciprocal"})(p,
                                                                                              op);
}

void plan_weird(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  ElementOp e;
  e.result = DType::boolean;
  e.flops = 1;
  with_float(p.type(op.operands[0]).dtype,
             [&](auto tag) { e.kernel = run_elements<Weird, typename decltype(tag)::type>; });
  if (e.kernel == nullptr) p.unsupported(op, "its type is not built yet");
  p.element_op(op, e, op.operands);
}

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

/// tpu.all_reduce: the reduced dim keeps its extent, every element the result.
void plan_reduce_index(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const std::string kind = p.inner_text(op, "kind");
  const bool largest = kind == "arg_max";
  if ((!largest && kind != "arg_min") || from.dtype != DType::f32 || to.dtype != DType::i32 ||
      to.kind != Type::Kind::vector)
    p.unsupported(op, "of kind " + kind + " on " + name(from.dtype));
  const auto axis = static_cast<int>(p.integer(op, "axis"));
  const Rows dims = reduced_dims(from.shape, {axis});
  if (axis < 0 || axis >= from.shape.rank || dims.kept != to.shape.elems())
    p.unsupported(op, "along no dim of it");
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector rows = dims.of(x.vector(source), sizeof(float));
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
        if (rows.poison) {
          r.poison = poison_mask(dims.kept, 0);
          for (std::int64_t i = 0; i < dims.kept; ++i)
            r.poison.bytes()[i] =
                std::byte{computed_from(rows.first_poison(i * dims.reduced, dims.reduced))};
        }
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

/// What a packed word holds several of: bf16, or integers of so many bits.
struct Field {
  int bits = 0;
  bool floats = false;
};

Field field_type(Planner& p, const Operation& op, const char* attribute) {
  const DType type = named_type(p, op, attribute);
  if (is_float(type) && type != DType::bf16) p.unsupported(op, "of this type");
  return {.bits = bit_width(type), .floats = type == DType::bf16};
}

/// Element i of the result holds element i of each operand, narrowed, the first lowest.
void plan_pack_elementwise(Planner& p, const Operation& op) {
  if (op.results.size() != 1 || op.operands.empty()) p.refuse(op);
  const Type& to = p.type(op.results[0]);
  const auto [bits, floats] = field_type(p, op, "target_type");
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
  if (floats ? from.dtype != DType::f32 : is_float(from.dtype)) p.unsupported(op, "to this type");
  // Which registers hold in a byte.
  const std::uint64_t sign = to.dtype == DType::i4 ? 8 : to.dtype == DType::i2 ? 2 : 0;
  p.emit([=, bits = bits, floats = floats](Exec& x) {
    Vector r;
    r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(n * width)));
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    const bool poison =
        std::ranges::any_of(slots, [&](int s) { return static_cast<bool>(x.vector(s).poison); });
    if (poison) r.poison = poison_mask(n, 0);
    for (std::int64_t e = 0; e < n; ++e) {
      std::uint64_t packed = 0;
      for (std::size_t k = 0; k < slots.size(); ++k) {
        if (const Origin o = x.vector(slots[k]).poison_at(e))
          r.poison.bytes()[e] = std::byte{computed_from(o)};
        std::uint64_t one = 0;
        std::memcpy(&one, x.vector(slots[k]).data.bytes() + e * from_width,
                    static_cast<std::size_t>(from_width));
        if (floats) one = bf16(std::bit_cast<float>(static_cast<std::uint32_t>(one))).bits;
        packed |= (one & mask) << (static_cast<int>(k) * bits);
      }
      if ((packed & sign) != 0) packed |= ~(sign - 1);
      std::memcpy(r.data.bytes() + e * width, &packed, static_cast<std::size_t>(width));
    }
    x.vector(result) = std::move(r);
  });
}

void plan_unpack_elementwise(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const Type& to = p.type(op.results[0]);
  const auto [bits, floats] = field_type(p, op, "source_type");
  const auto index = p.integer(op, "index");
  if (is_float(from.dtype) || index < 0 || (index + 1) * bits > bit_width(from.dtype) ||
      from.shape.elems() != to.shape.elems() || floats != is_float(to.dtype))
    p.unsupported(op, "of this type");
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t n = to.shape.elems();
  const std::int64_t from_width = register_bytes(from.dtype);
  const std::int64_t width = register_bytes(to.dtype);
  p.emit(
      [=, bits = bits, floats = floats](Exec& x) {
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

/// f32 with fewer bits of mantissa, rounded to nearest even; a NaN stays as it is.
void plan_reduce_precision(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  constexpr int kMantissa = 23;
  const std::int64_t kept = p.integer(op, "mantissa_bits");
  if (p.type(op.operands[0]).dtype != DType::f32 || p.integer(op, "exponent_bits") != 8 ||
      kept < 1 || kept > kMantissa)
    p.unsupported(op, "but of f32 with 8 bits of exponent");
  const auto dropped = static_cast<int>(kMantissa - kept);
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  const std::int64_t n = p.type(op.operands[0]).shape.elems();
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        Vector r;
        r.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(n * 4)));
        const auto* const from = reinterpret_cast<const std::uint32_t*>(v.data.bytes());
        auto* const to = reinterpret_cast<std::uint32_t*>(r.data.bytes());
        for (std::int64_t e = 0; e < n; ++e) {
          std::uint32_t word = from[e];
          if (dropped > 0 && !std::isnan(std::bit_cast<float>(word))) {
            const std::uint32_t half = std::uint32_t{1} << (dropped - 1);
            word += half - 1 + (word >> dropped & 1);
            word &= ~((half << 1) - 1);
          }
          to[e] = word;
        }
        r.poison = v.poison;
        x.vector(result) = std::move(r);
      },
      {source});
}

}  // namespace

Rules tpu_vector_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.iota", "each element's index along dims", true, plan_iota},
      {"tpu.reduce_index", "the index of the largest or smallest along an axis", true,
       plan_reduce_index},
      {"tpu.pack_elementwise", "narrowed operands side by side in one word", true,
       plan_pack_elementwise},
      {"tpu.unpack_elementwise", "one narrow element of each word, widened", true,
       plan_unpack_elementwise},
      {"tpu.extf", "a wider float", true, plan_conversion},
      {"tpu.truncf", "a narrower float, to nearest even", true, plan_conversion},
      {"tpu.sitofp", "integer to float", true, plan_conversion},
      {"tpu.fptosi", "float to integer toward zero", true, plan_conversion},
      {"tpu.logistic", "1 / (1 + exp -a)", true, float_rule<Logistic, 1>(1, true)},
      {"tpu.reduce_precision", "fewer bits of mantissa, to nearest even", true,
       plan_reduce_precision},
      {"tpu.reciprocal", "1 / a, exact where hardware approximates", true, plan_reciprocal},
      {"tpu.weird", "NaN or infinite", true, plan_weird},
  };
  return rules;
}

}  // namespace tessera::pallas
