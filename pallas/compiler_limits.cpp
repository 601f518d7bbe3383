#include "pallas/compiler_limits.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "memory_model/device_spec.hpp"
#include "pallas/folded_scalars.hpp"
#include "pallas/plan_module.hpp"
#include "program/planner.hpp"

namespace tessera::pallas {

namespace {

constexpr std::int64_t kLanes = 128;
constexpr std::int64_t kSublanes = 8;
/// Past any vector's: a damaged module's.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 30;
/// What a constant zero is a multiple of.
constexpr std::int64_t kAnything = std::int64_t{1} << 40;

using Chips = std::set<std::string>;
const Chips kAll = {};

/// The chips of generations `first` to `last`, as the device files name them: "v5e" is of the
/// fifth.
Chips generations(int first, int last) {
  static const std::set<std::pair<int, std::string>> all = [] {
    std::set<std::pair<int, std::string>> chips;
    for (const std::string& name : device_names()) {
      const std::string chip = load_device(name).jax.chip;
      const std::size_t digit = chip.find_first_of("0123456789");
      if (digit != std::string::npos) chips.emplace(chip[digit] - '0', chip);
    }
    return chips;
  }();
  Chips some;
  for (const auto& [generation, chip] : all)
    if (generation >= first && generation <= last) some.insert(chip);
  return some;
}
const Chips& v4() {
  static const Chips chips = generations(4, 4);
  return chips;
}
const Chips& up_to_v5() {
  static const Chips chips = generations(4, 5);
  return chips;
}
const Chips& up_to_v6() {
  static const Chips chips = generations(4, 6);
  return chips;
}
const Chips& v7() {
  static const Chips chips = generations(7, 7);
  return chips;
}

const std::set<std::string>& sums() {
  static const std::set<std::string> ops = {"arith.addi", "arith.subi", "arith.muli"};
  return ops;
}
/// In registers of 32-bit lanes alone.
const std::set<std::string>& words_only() {
  static const std::set<std::string> ops = {
      "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi",
      "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui", "arith.floordivsi",
      "arith.shli",  "arith.shrsi", "arith.shrui"};
  return ops;
}
const std::set<std::string>& logic() {
  static const std::set<std::string> ops = {"arith.andi", "arith.ori", "arith.xori", "arith.select",
                                            "math.absi"};
  return ops;
}
const std::set<std::string>& floats() {
  static const std::set<std::string> ops = {"arith.addf", "arith.subf",     "arith.mulf",
                                            "arith.divf", "arith.maximumf", "arith.minimumf"};
  return ops;
}
bool computes_floats(const std::string& op) {
  return floats().contains(op) || (op.starts_with("math.") && op != "math.absi");
}

bool is_narrow(const Type& t) {
  return t.known && t.dtype != DType::boolean && bit_width(t.dtype) < 32;
}
bool is_fp8(DType d) { return is_float(d) && bit_width(d) == 8; }
std::int64_t minor(const Shape& s, int from_last) {
  return s.rank > from_last ? s[s.rank - 1 - from_last] : 1;
}

class Limits {
 public:
  explicit Limits(const Module& module)
      : module_(module),
        made_by_(module.values.size()),
        uses_(module.values.size()),
        folded_(module, made_by_) {}

  std::vector<Refusal> find() {
    for (const Function& f : module_.functions) {
      const auto core = f.attributes.find("tpu.core_type");
      if (core != f.attributes.end() && core->second.text.find("<sc_") != std::string::npos)
        return {};
    }
    for (const Function& f : module_.functions) note(f.body);
    for (const Function& f : module_.functions) {
      kernel_ = module_.functions.front().name;
      check(f.body);
    }
    return std::move(refusals_);
  }

 private:
  void note(const Region& r) {
    for (const Operation& op : r.operations) {
      for (const int v : op.results) made_by_[static_cast<std::size_t>(v)] = &op;
      for (const int v : op.operands) ++uses_[static_cast<std::size_t>(v)];
      if (op.name == "tpu.enqueue_dma") copied_.insert(op.operands.begin(), op.operands.end());
      for (const Region& inner : op.regions) note(inner);
    }
  }

  /// A store of Pallas's is a load and a store: the load goes.
  bool is_dead(const Operation& op) const {
    return !op.results.empty() && op.regions.empty() && std::ranges::all_of(op.results, [&](int v) {
      return uses_[static_cast<std::size_t>(v)] == 0;
    });
  }

  void check(const Region& r) {
    for (const Operation& op : r.operations) {
      if (!is_dead(op)) check_op(op);
      for (const Region& inner : op.regions) check(inner);
    }
  }

  void refuse(const Operation& op, const std::string& why, const Chips& chips = kAll) {
    Diagnostic d = about_op(module_, op, kernel_, why);
    std::string on;
    for (const std::string& chip : chips) on += (on.empty() ? " on " : ", ") + chip;
    d.fields.emplace_back(kRefusedByCompiler, "Mosaic has no code for it" + on +
                                                  (on.empty() ? ": no TPU runs this kernel" : ""));
    refusals_.push_back({chips, std::move(d)});
  }
  /// What the author can mend by other offsets or sizes.
  void misaligned(const Operation& op, const std::string& why) {
    refuse(op, why);
    refusals_.back().diagnostic.slug = "misaligned-slice";
    refusals_.back().diagnostic.kind = Diagnostic::Kind::kernel;
  }

  const Type& type(int value) const { return module_.type(value); }
  const Operation* maker(int value) const { return made_by_[static_cast<std::size_t>(value)]; }

  /// What the compiler knows a scalar to be a multiple of: it does not look into maxima, shifts,
  /// loops and branches.
  std::int64_t multiple(int value, int depth = 8) const {
    if (const auto known = folded_.of(value))
      return *known == 0
                 ? kAnything
                 : std::clamp(std::abs(std::max(*known, -kAnything)), std::int64_t{1}, kAnything);
    const Operation* op = maker(value);
    if (op == nullptr || depth == 0 || op->operands.empty()) return 1;
    const auto of = [&](std::size_t i) { return multiple(op->operands[i], depth - 1); };
    const std::string& name = op->name;
    if (name == "arith.index_cast" || name == "arith.extsi" || name == "arith.extui" ||
        name == "arith.trunci")
      return of(0);
    if (name == "tpu.assume_multiple") {
      const Attribute* a = op->find("multiple");
      return a == nullptr || a->integer < 1 ? of(0)
                                            : std::max(of(0), std::min(a->integer, kAnything));
    }
    if (name == "arith.select" && op->operands.size() == 3) return std::gcd(of(1), of(2));
    if (op->operands.size() != 2) return 1;
    if (name == "arith.muli") {
      const std::int64_t a = of(0);
      const std::int64_t b = std::min(of(1), std::int64_t{1} << 20);
      const bool scaled = folded_.of(op->operands[0]) || folded_.of(op->operands[1]);
      if (scaled) return std::min(kAnything, a * b);
      return (a & -a) > (b & -b) ? a : b;  // one of them has to do
    }
    if (name == "arith.addi" || name == "arith.subi" || name == "arith.minsi" ||
        name == "arith.remsi")
      return std::gcd(of(0), of(1));
    return 1;
  }

  void check_op(const Operation& op) {
    if (op.name == "tpu.iota" && !op.results.empty()) check_iota(op);
    if (op.operands.empty()) return;
    const Type& t = type(op.operands.back());
    if (op.name == "tpu.strided_load" || op.name == "tpu.strided_store")
      check_strided(op);
    else if (op.name == "tpu.dynamic_rotate" || op.name == "tpu.rotate")
      check_rotate(op, type(op.operands.front()));
    else if (op.name == "tpu.matmul")
      check_product(op);
    else if (op.name == "tpu.dynamic_gather")
      check_gather(op);
    else if (op.name == "tpu.memref_slice")
      check_copied(op);
    else if (op.name == "vector.load" || op.name == "tpu.vector_load")
      check_load(op);
    else if (op.name == "vector.store" || op.name == "tpu.vector_store")
      check_store(op);
    else if (op.name == "vector.shape_cast" || op.name == "tpu.reshape")
      check_reshape(op);
    else if (t.kind == Type::Kind::scalar)
      check_scalar(op, t);
    else if (t.kind == Type::Kind::vector)
      check_vector(op, t);
  }

  void check_scalar(const Operation& op, const Type& t) {
    if (!is_narrow(t)) return;
    const std::string type = t.text;
    if (sums().contains(op.name))
      refuse(op, "Not implemented: Only i32 " + op.name + " is supported, but got '" + type +
                     "'. Cast its operands to 32 bits");
    if (words_only().contains(op.name) || logic().contains(op.name) || op.name == "arith.cmpi")
      refuse(op, "Not implemented: Only i1 and i32 scalars are supported, but got '" + type +
                     "'. Cast its operands to 32 bits");
    if (computes_floats(op.name))
      refuse(op, "failed to legalize operation: a TPU computes with f32 scalars alone, but got '" +
                     type + "'");
  }

  void check_vector(const Operation& op, const Type& t) {
    if (t.dtype == DType::f16 && computes_floats(op.name))
      refuse(op, "Invalid vector type for load: no TensorCore has f16. Use bf16 or f32");
    check_two_bits(op, t);
    if (op.name == "math.atan2" && is_narrow(t))
      refuse(op, "failed to legalize operation 'math.atan2': it is of f32 alone, but got '" +
                     std::string(name(t.dtype)) + "'. Cast its operands to f32");
    if (!is_narrow(t) || is_float(t.dtype)) return;
    const bool half = bit_width(t.dtype) == 16;
    const std::string type = name(t.dtype);
    if (sums().contains(op.name) && !half)
      refuse(op, "Not implemented: Only vector<i16> and vector<i32> are supported, but got '" +
                     type + "'. Cast its operands");
    if (words_only().contains(op.name))
      refuse(op, "failed to legalize operation: only vector<i32> is supported, but got '" + type +
                     "'. Cast its operands");
    if (op.name == "arith.cmpi") {
      constexpr std::int64_t kNotEqual = 1;
      constexpr std::int64_t kFirstUnsigned = 6;
      const Attribute* p = op.find("predicate");
      const std::int64_t predicate = p == nullptr ? 0 : p->integer;
      if (predicate >= kFirstUnsigned || (predicate > kNotEqual && !half))
        refuse(op, "Target does not support this comparison of '" + type +
                       "'. Cast its operands to 32 bits");
    }
  }

  /// Loaded and stored they may be.
  void check_two_bits(const Operation& op, const Type& t) {
    if (op.operands.size() != 1 || op.results.size() != 1) return;
    const Type& to = type(op.results.front());
    const auto two_bits = [](const Type& some) { return bit_width(some.dtype) == 2; };
    if (to.kind != Type::Kind::vector || two_bits(to) == two_bits(t)) return;
    refuse(op,
           "Unsupported packed type: integers of two bits are not cast, from '" +
               std::string(name(t.dtype)) + "' to '" + std::string(name(to.dtype)) + "'",
           v4());
  }

  /// By an amount that is known when it is compiled there is code for any shape, but for rows of
  /// bytes. Else, and where
  /// rows rotate by different amounts, the registers along the dim must be full: what leaves one
  /// end comes in at the other. The compiler of JAX 0.11 (libtpu 0.0.46) has code for all of it but
  /// a stride along the rows, and on a v4 for a stride.
  void check_rotate(const Operation& op, const Type& t) {
    if (t.kind != Type::Kind::vector || !t.known || t.shape.rank < 2) return;
    const Attribute* d = op.find("dimension");
    if (d == nullptr || d->integer < 0 || d->integer >= t.shape.rank) return;
    const auto dim = static_cast<int>(d->integer);
    const Attribute* stride = op.find("stride");
    const bool strided = stride != nullptr && stride->kind == Attribute::Kind::integer;
    const bool known = op.operands.size() < 2 || folded_.of(op.operands[1]).has_value();
    const bool bytes_along_rows = bit_width(t.dtype) <= 8 && dim == t.shape.rank - 2;
    if (known && !strided && !bytes_along_rows) return;
    const Attribute* along = op.find("stride_dimension");
    const bool rows = strided && dim == t.shape.rank - 1 && along != nullptr &&
                      along->integer == t.shape.rank - 2;
    const auto until_jax_0_11 = [&](const std::string& why) {
      if (strided && !rows) refuse(op, why, v4());
      refuse(op, why);
      if (rows) return;
      refusals_.back().until_jax_0_11 = true;
      refusals_.back().diagnostic.fields.back().second += " before JAX 0.11, whose compiler has";
    };
    if (is_narrow(t)) {
      until_jax_0_11("Not implemented: unsupported packed type rotation, of '" +
                     std::string(name(t.dtype)) + "'");
      return;
    }
    if (strided) {
      if (!rows)
        until_jax_0_11(
            "Not implemented: the rotation dimension must be the last, the stride dimension the "
            "one before it");
      else
        refuse(op, "Not implemented: only supported in TPU v5+", v4());
      if (rows) check_rotated_lanes(op, t.shape, stride->integer);
    }
    const std::int64_t extent = t.shape[dim];
    if ((dim == t.shape.rank - 1 && extent % kLanes != 0) ||
        (dim == t.shape.rank - 2 && extent % kSublanes != 0))
      until_jax_0_11("Not implemented: unsupported unaligned shape: dim " + std::to_string(dim) +
                     " has " + std::to_string(extent) + " elements");
  }

  /// By a known amount, and a stride more each row: a register's last row rotates by no more than
  /// its lanes. libtpu takes strides modulo the rows.
  void check_rotated_lanes(const Operation& op, const Shape& s, std::int64_t stride) {
    const Attribute* attribute = op.find("amount");
    const auto amount = op.operands.size() > 1 ? folded_.of(op.operands[1])
                        : attribute != nullptr ? std::optional(attribute->integer)
                                               : std::nullopt;
    const std::int64_t rows = minor(s, 1);
    if (!amount || rows < 1 || stride < 0) return;
    const std::int64_t each = stride % rows;
    for (std::int64_t row = 0; row < std::min(rows, kLanes); row += kSublanes) {
      const std::int64_t first = (*amount + each * row) % kLanes;
      const std::int64_t most = (first + kLanes) % kLanes + each * (kSublanes - 1);
      if (most <= kLanes) continue;
      refuse(op, "Not implemented: the max shift in a vreg " + std::to_string(most) +
                     " is larger than the vreg's width " + std::to_string(kLanes));
      return;
    }
  }

  /// Strides are of rows: of 32-bit elements, a register's width apart.
  void check_strided(const Operation& op) {
    const bool load = op.name == "tpu.strided_load";
    const bool value_first = !load && type(op.operands.front()).kind == Type::Kind::vector;
    const Type& m = type(op.operands[value_first ? 1 : 0]);
    const Attribute* strides = op.find("strides");
    if (m.kind != Type::Kind::memref || !m.known || m.shape.rank == 0 || strides == nullptr ||
        strides->integers.empty())
      return;
    if (is_narrow(m))
      refuse(op, std::string("not implemented: Strided ") + (load ? "load" : "store") +
                     " with non 32-bit data, of '" + name(m.dtype) + "'");
    if (strides->integers.back() != 1) refuse(op, "Not Implemented: Stride on last dim is not 1");
    if (m.shape[m.shape.rank - 1] > kLanes)
      refuse(op, "Not Implemented: The last dim size is not 128 in original base memref");
  }

  /// Of more than a register: the first one's numbers and a multiple of its extent.
  void check_iota(const Operation& op) {
    const Type& t = type(op.results.front());
    const Attribute* dims = op.find("dimensions");
    if (!t.known || bit_width(t.dtype) != 16 || dims == nullptr || dims->integers.size() != 1)
      return;
    const std::int64_t from_last = t.shape.rank - 1 - dims->integers.front();
    if ((from_last == 0 && minor(t.shape, 0) > kLanes) ||
        (from_last == 1 && minor(t.shape, 1) > 2 * kSublanes))
      refuse(op, "Operation not supported: 16-bit numbers of more than a register", up_to_v5());
  }

  void check_product(const Operation& op) {
    if (op.operands.size() < 2) return;
    const Type& l = type(op.operands[0]);
    const Type& r = type(op.operands[1]);
    if (!l.known || !r.known) return;
    const auto is_int = [](const Type& t) { return !is_float(t.dtype); };
    const std::string types = "'" + std::string(name(l.dtype)) + "' by '" + name(r.dtype) + "'";
    const Attribute* precision = op.find("precision");
    const bool exact = precision != nullptr && precision->text.find("fp32") != std::string::npos;
    if (l.dtype == DType::f16 || r.dtype == DType::f16) {
      refuse(op, "Invalid vector type for load: no TensorCore has f16. Use bf16 or f32");
    } else if (is_int(l) && is_int(r) && (bit_width(l.dtype) > 8 || bit_width(r.dtype) > 8)) {
      refuse(op, "Bad lhs/rhs type: " + types);  // beside floats integers become f32
    } else if (exact && (is_narrow(l) || (is_narrow(r) && is_float(r.dtype)))) {
      refuse(op, "Bad lhs or rhs type: precision HIGHEST is of f32, but got " + types);
    } else if (exact && is_narrow(r)) {
      refuse(op, "Bad rhs type: precision HIGHEST is of f32, but got " + types, v7());
    }
    if (is_int(l) && is_int(r) && l.dtype != r.dtype)
      refuse(op, "Mix int/int - NYI: " + types, up_to_v6());
    if ((is_int(l) && is_int(r)) || is_fp8(l.dtype) || is_fp8(r.dtype))
      refuse(op, "Unsupported matmul RHS type on target: " + types, v4());
  }

  void check_gather(const Operation& op) {
    if (op.operands.size() != 2) return;
    const Type& t = type(op.operands[0]);
    const Type& index = type(op.operands[1]);
    const Attribute* dims = op.find("dimensions");
    if (!t.known || t.shape.rank < 2 || dims == nullptr || dims->integers.size() != 1) return;
    const std::int64_t dim = dims->integers.front();
    const std::int64_t packed = 32 / std::max(1, bit_width(t.dtype));
    if (index.known && bit_width(index.dtype) != bit_width(t.dtype)) {
      refuse(op, "Not implemented: Gather indices and result have different bitwidths");
    } else if (dim == t.shape.rank - 1) {
      if (minor(t.shape, 0) > kLanes)
        refuse(op, "Not implemented: Multiple source vregs along gather dimension: it has " +
                       std::to_string(minor(t.shape, 0)) + " elements");
      else if (is_narrow(t))
        refuse(op,
               "Not implemented: 8- and 16-bit dynamic gather only supported along 2nd minor "
               "dimension");
    } else if (dim == t.shape.rank - 2) {
      if (minor(t.shape, 1) > kSublanes * packed)
        refuse(op, "Not implemented: Multiple source vregs along gather dimension: it has " +
                       std::to_string(minor(t.shape, 1)) + " elements");
      if (is_narrow(t))
        refuse(op, "Byte gather not supported by this TPU generation", up_to_v5());
      else
        refuse(op, "Sublane gather not supported by this TPU generation", v4());
    }
  }

  /// Rows of the tile that copies of part of an array find: bytes have tiles of 32 where those fill
  /// it.
  static std::int64_t copied_rows(const Type& m) {
    return bit_width(m.dtype) == 8 && minor(m.shape, 1) % 32 == 0 ? 32 : kSublanes;
  }

  /// Of rows that share words, and of those more than a tile wide: they lie in one tile, or begin
  /// and end with tiles.
  void check_tiled_rows(const Operation& op, const Type& m, std::int64_t size) {
    const std::int64_t rows = minor(m.shape, 1);
    const int width = bit_width(m.dtype);
    const bool tiled = width == 8 || width == 16 || (width == 32 && minor(m.shape, 0) > kLanes);
    if (!tiled || rows < kSublanes || size == kDynamic || size == rows ||
        maker(op.operands.front()) != nullptr)
      return;
    const int row = op.operands[static_cast<std::size_t>(m.shape.rank) - 1];
    const std::int64_t tile = copied_rows(m);
    const std::int64_t known = multiple(row);
    const auto begin = folded_.of(row);
    const std::int64_t last = begin ? *begin % tile : tile - std::gcd(known, tile);  // in its tile
    if (last + size <= tile) {
      // The run places only what divides a tile in it.
      if (!begin && tile % size != 0 && size % kSublanes != 0)
        refuse_size(op, m.shape.rank - 2, size, tile);
      return;
    }
    if (known % tile != 0)
      refuse_offset(op, m.shape.rank - 2, tile);
    else if (size % tile != 0 && (!begin || *begin + size != rows))
      refuse_size(op, m.shape.rank - 2, size, tile);
  }

  void refuse_offset(const Operation& op, int dim, std::int64_t unit) {
    misaligned(
        op, "Offsets along tiled dimensions must be aligned to tiles: the index at dimension " +
                std::to_string(dim) + " is not known to be a multiple of " + std::to_string(unit));
  }
  void refuse_size(const Operation& op, int dim, std::int64_t size, std::int64_t unit) {
    misaligned(op, "Slice sizes along tiled dimensions must be aligned to tiles: " +
                       std::to_string(size) + " elements at dimension " + std::to_string(dim) +
                       " are no multiple of " + std::to_string(unit));
  }

  /// A part of an array of one dim, of which 512 bytes are a tile. What is loaded or stored alone
  /// may begin anywhere, if it lies in one.
  void check_part_of_line(const Operation& op, const Type& m, const Type& part) {
    constexpr std::int64_t kTileBytes = 4 * kLanes;
    const int width = bit_width(m.dtype);
    if (!m.known || part.shape.rank != 1 || !m.semaphore.empty() || op.operands.size() < 2 ||
        part.shape[0] == kDynamic || (width != 8 && width != 16 && width != 32))
      return;
    const std::int64_t tile = kTileBytes / (width / 8);
    const std::int64_t size = part.shape[0];
    const auto begin = folded_.of(op.operands[1]);
    const bool aligned = multiple(op.operands[1]) % tile == 0;
    const bool copied = copied_.contains(op.results.front());
    if (!copied && (!begin || aligned || *begin % tile + size <= tile)) return;
    if (!aligned)
      refuse_offset(op, 0, tile);
    else if (size != m.shape[0] && size % tile != 0 && (!begin || *begin + size != m.shape[0]))
      refuse_size(op, 0, size, tile);
  }

  /// Slices that copies take.
  void check_copied(const Operation& op) {
    if (op.results.empty()) return;
    const Type& m = type(op.operands.front());
    const Type& part = type(op.results.front());
    const int rank = m.shape.rank;
    if (rank == 1) return check_part_of_line(op, m, part);
    if (!m.known || rank < 2 || part.shape.rank != rank || m.space == "smem" ||
        !m.semaphore.empty() || op.operands.size() < 1 + static_cast<std::size_t>(rank))
      return;
    const std::int64_t packed = 32 / std::max(1, bit_width(m.dtype));
    for (int d = rank - 2; d < rank; ++d) {
      const std::int64_t unit = d == rank - 1 ? kLanes : packed;
      const std::int64_t size = part.shape[d];
      const std::int64_t known = multiple(op.operands[1 + static_cast<std::size_t>(d)]);
      if (known % unit != 0)
        refuse_offset(op, d, unit);
      else if (size != kDynamic && size != m.shape[d] && size % unit != 0)
        refuse_size(op, d, size, unit);
      else if (d == rank - 2)
        check_tiled_rows(op, m, size);
    }
  }

  /// Rows of the tile that a block in VMEM has.
  static std::int64_t tile_rows(const Type& m) {
    const std::int64_t rows = minor(m.shape, 1);
    const std::int64_t most = bit_width(m.dtype) <= 8 && rows >= 32 ? 32 : kSublanes;
    std::int64_t tile = 1;
    while (tile < most && tile < rows) tile *= 2;
    return tile;
  }

  /// Loads and stores whose offsets only the run knows. Constant ones have code for any.
  void check_access(const Operation& op, int memref, std::size_t first, const Type& value) {
    const Type& m = type(memref);
    const int rank = m.shape.rank;
    if (m.kind != Type::Kind::memref || !m.known || rank < 2 || m.space != "vmem" ||
        op.operands.size() < first + static_cast<std::size_t>(rank))
      return;
    for (int d = rank - 2; d < rank; ++d) {
      const int index = op.operands[first + static_cast<std::size_t>(d)];
      if (folded_.of(index)) continue;
      std::int64_t unit = kLanes;
      if (d == rank - 2) {
        // A row of words can be anywhere, and so can rows that fill their registers' lanes once.
        const bool row = value.shape.rank == rank && value.shape[d] == 1;
        if (!is_narrow(m) && (row || minor(m.shape, 0) <= kLanes)) continue;
        unit = tile_rows(m);
      }
      if (multiple(index) % unit != 0)
        misaligned(op, "cannot statically prove that index in dimension " + std::to_string(d) +
                           " is a multiple of " + std::to_string(unit) +
                           "; say so with pl.multiple_of if it is");
    }
  }
  void check_load(const Operation& op) {
    if (op.results.empty()) return;
    const Type& value = type(op.results.front());
    if (value.known && value.dtype == DType::f16)
      refuse(op, "Invalid vector type for load: no TensorCore has f16. Use bf16 or f32");
    check_access(op, op.operands.front(), 1, value);
  }
  void check_store(const Operation& op) {
    if (op.operands.size() < 2) return;
    const bool value_first = type(op.operands.front()).kind == Type::Kind::vector;
    const std::size_t memref = value_first ? 1 : 0;
    const std::size_t first = memref + 1;
    const std::size_t value =
        value_first ? 0 : first + static_cast<std::size_t>(type(op.operands[memref]).shape.rank);
    if (value >= op.operands.size()) return;
    check_access(op, op.operands[memref], first, type(op.operands[value]));
  }

  /// Rows become lanes, or lanes rows, by whole registers or by whole rows.
  void check_reshape(const Operation& op) {
    if (op.results.empty()) return;
    const Type& from = type(op.operands.front());
    const Type& to = type(op.results.front());
    if (from.kind != Type::Kind::vector || to.kind != Type::Kind::vector || !from.known) return;
    const std::int64_t a = minor(from.shape, 0);
    const std::int64_t b = minor(to.shape, 0);
    if (a == b || a < 1 || b < 1 || std::max(a, b) > kMostExtent) return;
    if (from.shape.rank == 0 || to.shape.rank == 0) return;
    // What a reduction leaves lies in columns already.
    const Operation* made = maker(op.operands.front());
    const bool reduced = made != nullptr && made->name == "vector.multi_reduction";
    if (is_narrow(from) && b == 1 && !reduced)
      refuse(op,
             "infer-vector-layout: unsupported shape cast of '" + std::string(name(from.dtype)) +
                 "' to columns of one element",
             up_to_v5());
    if (is_narrow(from) && a == 1)
      refuse(op,
             "Sublane gather not supported by this TPU generation: columns of '" +
                 std::string(name(from.dtype)) + "' become rows",
             v4());
    if (a % kLanes == 0 && b % kLanes == 0) return;
    if (merges(from.shape, b) || merges(to.shape, a)) return;
    // m rows of n become n rows of m, a whole number of times as many: by strided rotates.
    const bool exchanged =
        minor(from.shape, 1) == b && minor(to.shape, 1) == a && a % b == 0 && a <= kLanes;
    refuse(op,
           "infer-vector-layout: unsupported shape cast: rows of " + std::to_string(a) +
               " elements become rows of " + std::to_string(b),
           exchanged ? v4() : kAll);
  }
  /// True if the last dims of a shape together have so many elements.
  static bool merges(const Shape& s, std::int64_t elems) {
    std::int64_t all = 1;
    for (int d = s.rank - 1; d >= 0 && all <= elems && s[d] > 0 && s[d] <= elems; --d) {
      all *= s[d];
      if (all == elems) return true;
    }
    return elems == 1;
  }

  const Module& module_;
  std::vector<const Operation*> made_by_;  ///< per value
  std::vector<int> uses_;
  std::set<int> copied_;  ///< what copies take
  FoldedScalars folded_;
  std::string kernel_;
  std::vector<Refusal> refusals_;
};

}  // namespace

std::vector<Refusal> compiler_limits(const Module& module) { return Limits(module).find(); }

}  // namespace tessera::pallas
