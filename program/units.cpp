#include "program/units.hpp"

#include <algorithm>

#include "program/unit_product_rows.hpp"
#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

/// Of ops that only move elements.
std::string width_name(DType d) {
  return d == DType::boolean ? "bool" : "b" + std::to_string(bit_width(d));
}

std::string kind_of(const Operation& op) {
  const Attribute* a = op.find("kind");
  if (a == nullptr) return "";
  const std::size_t open = a->text.find('<');
  return open == std::string::npos ? a->text
                                   : a->text.substr(open + 1, a->text.rfind('>') - open - 1);
}

class Uses {
 public:
  Uses(const Module& module, const Operation& op, const KnownValues& known)
      : module_(module), op_(op), known_(known) {}

  UnitRows rows() {
    if (!op_.regions.empty()) return {};
    const Type* vector = nullptr;
    for (const auto* values : {&op_.operands, &op_.results}) {
      for (const int v : *values) {
        if (vector == nullptr && type(v).kind == Type::Kind::vector) vector = &type(v);
      }
    }
    if (vector == nullptr) {
      of_scalars();
    } else if (vector->known &&
               std::ranges::all_of(op_.results, [&](int v) { return type(v).known; })) {
      of_vectors(*vector);
    }
    return std::move(rows_);
  }

 private:
  const Type& type(int value) const { return module_.type(value); }
  void add(std::string row, std::int64_t times) {
    if (times > 0) rows_.emplace_back(std::move(row), times);
  }
  bool named(std::string_view end) const { return op_.name.ends_with(end); }

  std::int64_t registers(int value) const {
    const Type& t = type(value);
    if (t.shape.rank == 1)
      return ceil_to(t.shape[0], known_.down(value) ? kSublanes : kSublanes * kLanes);
    if (known_.packed(value)) return tiles_of(t.shape, t.dtype).packed;
    return registers_of(t.shape, t.dtype);
  }

  void of_scalars() {
    if (named(".constant") || named(".return") || named(".yield") || named(".trace_start") ||
        named(".trace_stop") || named(".assume_multiple") || named(".iteration_bound"))
      return;
    const bool views = op_.results.size() == 1 && type(op_.results[0]).kind == Type::Kind::memref;
    if (views) return;
    const bool of_signed = named("divsi") || named("remsi");
    const bool divides = of_signed || named("divui") || named("remui");
    const bool arithmetic = op_.name.starts_with("arith.") && !named(".divf") && !divides;
    if (named("index_cast")) return;
    if (of_signed && op_.operands.size() == 2) {
      const char* by = divides_by_power()                             ? " power"
                       : known_.constant(op_.operands[1]).has_value() ? " constant"
                                                                      : "";
      return add(op_.name + by, 1);
    }
    // SMEM is loaded in words: where in one a part of it lies is computed, and it is cut out.
    const bool part = op_.name == "memref.load" && op_.results.size() == 1 &&
                      is_narrow(type(op_.results[0]).dtype);
    if (part) return add(op_.name + " narrow", 1);
    add(arithmetic ? "scalar" : op_.name, 1);
  }

  /// A vector of one element that has no dims: nothing is moved within it.
  bool of_rank_zero() const {
    const auto is = [&](int v) {
      return type(v).kind == Type::Kind::vector && type(v).shape.rank == 0;
    };
    return std::ranges::any_of(op_.operands, is) || std::ranges::any_of(op_.results, is);
  }

  void of_vectors(const Type& vector) {
    const std::string& n = op_.name;
    if (named(".constant") || named(".assume_layout") || named(".yield") || named(".return"))
      return;
    if (of_rank_zero()) return elementwise(vector);
    if (!named(".extract_strided_slice") && n != "tpu.concatenate") rotated_to_results();
    const auto is_vector = [&](const std::vector<int>& values) {
      return !values.empty() && type(values[0]).kind == Type::Kind::vector;
    };
    if (named(".broadcast") && !op_.operands.empty() && !op_.results.empty()) return of_broadcast();
    if (n == "tpu.iota" && is_vector(op_.results)) return of_iota();
    if (n == "tpu.concatenate" && is_vector(op_.results)) return of_concatenation();
    if (named("load") || named("store")) return of_memory(vector);
    if (named(".multi_reduction") && is_vector(op_.operands)) return of_reduction();
    const bool takes_vector = is_vector(op_.operands) && is_vector(op_.results);
    if (!takes_vector) return elementwise(vector);
    if (named(".shape_cast")) return of_shape_cast();
    if (n == "tpu.matmul" && op_.operands.size() > 1) return of_product();
    if (named(".transpose")) return of_transpose();
    if (named("rotate")) return along(number_of(op_, "dimension", 0));
    if (n == "tpu.dynamic_gather") {
      const std::vector<std::int64_t> dims = numbers_of(op_, "dimensions");
      return along(dims.empty() ? number_of(op_, "dimension", 0) : dims[0]);
    }
    if (named(".extract_strided_slice")) return of_slice();
    if (n == "tpu.repeat") return of_repeat();
    if (named(".bitcast")) return of_bitcast();
    elementwise(vector);
  }

  /// What does not lie in the lanes in which the op makes its result is rotated there.
  void rotated_to_results() {
    std::int64_t lane = 0;
    for (const int v : op_.results)
      if (type(v).kind == Type::Kind::vector) lane = known_.first_lane(v).value_or(0);
    for (const int v : op_.operands) {
      const Type& t = type(v);
      if (t.kind != Type::Kind::vector || t.dtype == DType::boolean || t.shape.rank < 2) continue;
      if (const auto from = known_.first_lane(v); from && *from != lane)
        add("vector.extract_strided_slice " + width_name(t.dtype) + " lanes",
            registers_from(v, *from));
    }
  }
  /// That a vector takes whose first column lies in this lane.
  std::int64_t registers_from(int value, std::int64_t lane) const {
    const Type& t = type(value);
    const Tiles tiles = tiles_of(t.shape, t.dtype);
    return tiles.outer * tiles.down * ceil_to(lane + tiles.columns, kLanes);
  }

  /// Of an op that computes element by element: what holds the same is made once.
  std::int64_t different() const {
    DType widest = DType::boolean;
    for (const auto* values : {&op_.operands, &op_.results}) {
      for (const int v : *values) {
        const Type& t = type(v);
        if (t.kind == Type::Kind::vector && t.dtype != DType::boolean &&
            (widest == DType::boolean || bit_width(t.dtype) > bit_width(widest)))
          widest = t.dtype;
      }
    }
    const std::int64_t different = known_.different(op_.results[0], widest);
    return std::min(different, known_.fresh(op_.results[0]).value_or(different));
  }

  void elementwise(const Type& vector) {
    std::int64_t times = 1;
    std::string row = op_.name + " " + name(vector.dtype);
    bool splat = false;
    const bool selects =
        op_.name == "arith.select";  // as many masks as what it makes has registers
    for (const int v : op_.operands) {
      if (type(v).kind != Type::Kind::vector || (selects && v == op_.operands[0])) continue;
      times = std::max(times, registers(v));
      splat = splat || known_.repeats(v);
    }
    bool result = false;
    DType made = vector.dtype;
    for (const int v : op_.results) {
      if (type(v).kind != Type::Kind::vector) continue;
      // Of splats alone: a scalar, whatever its type.
      if (known_.repeats(v)) return add("scalar", 1);
      times = std::max(times, registers(v));
      made = type(v).dtype;
      if (op_.name.starts_with("arith.select"))
        row = op_.name + " " + name(type(v).dtype);
      else if (!result && type(v).dtype != vector.dtype && op_.operands.size() == 1)
        row += std::string(" ") + name(type(v).dtype);
      result = true;
    }
    const std::int64_t all = times;
    // Where casts and selects go through memory nobody sees which registers are constants, or the
    // same, but for what a known mask selects as a whole.
    const bool by_known_mask =
        selects && bit_width(made) == 8 && known_.mixed(op_.operands[0], made).has_value();
    if (result) times = std::min(share_of(times, computed()), by_known_mask ? all : different());
    const int narrower = std::min(bit_width(vector.dtype), bit_width(made));
    const bool casts = made != vector.dtype && op_.operands.size() == 1;
    if ((casts && narrower <= 8 && narrower > 1) || (selects && bit_width(made) == 8))
      add(row + " known", all - times);
    if (divides_by_power() && known_.bits(op_.operands[0])) {
      // A shift, or a mask.
      const bool rest = named("remsi") || named("remui");
      return add((rest ? "arith.andi " : "arith.shrui ") + std::string(name(vector.dtype)) +
                     (rest ? "" : " splat"),
                 times);
    }
    const bool varies = named("shli") || named("shrui") || named("shrsi") || named("divf") ||
                        named("divsi") || named("remsi") || named("divui") || named("remui") ||
                        named("muli") || named("powf");
    if (splat && named("muli")) {
      const std::int64_t digits = digits_of_factor();
      if (digits > 0) row += " splat";
      // Without a multiplier each digit but one is a shift and a sum.
      if (digits > 1) add(row + " digit", times * (digits - 1));
    } else if (splat && varies) {
      row += how_splat();
    }
    // Of an exact one the compiler makes more of what the unit gives.
    if (op_.name == "tpu.reciprocal" && number_of(op_, "approx", 0) != 0) row += " approximate";
    if (op_.name.starts_with("arith.cmp")) {
      // Masks are of registers of the compared type.
      times = 1;
      for (const int v : op_.operands) times = std::max(times, registers(v));
      if (const auto mixed = known_.mixed(op_.results[0], vector.dtype))
        times = share_of(times, *mixed);
      times = std::min(times, different());
    }
    if (named("divf") && !splat && op_.operands.size() == 2) {
      // Of each divisor a reciprocal.
      const std::int64_t divisors = known_.different(op_.operands[1], vector.dtype);
      if (divisors < times) {
        add("arith.mulf " + std::string(name(vector.dtype)), times - divisors);
        times = divisors;
      }
    }
    add(row, times);
  }

  /// Of the result's registers those that are no constants.
  double computed() const {
    if (!op_.name.starts_with("arith.") && !op_.name.starts_with("math.")) return 1;
    if (op_.name == "arith.select")
      if (const auto mixed = known_.mixed(op_.operands[0], type(op_.results[0]).dtype))
        return std::min(*mixed, known_.computed(op_.results[0]));
    double most = 0;
    for (const int v : op_.operands)
      if (type(v).kind == Type::Kind::vector) most = std::max(most, known_.computed(v));
    return most;
  }

  /// Of the constant that a product multiplies by: how many powers of two, added and subtracted, it
  /// takes; 0: the compiler does not know it.
  std::int64_t digits_of_factor() const {
    for (const int v : op_.operands) {
      const auto factor = known_.repeats(v) ? known_.constant(v) : std::nullopt;
      if (!factor) continue;
      std::int64_t digits = 0;
      for (std::int64_t left = static_cast<std::int32_t>(*factor); left != 0; left /= 2) {
        if (left % 2 == 0) continue;
        ++digits;
        left -= (left & 3) == 3 ? -1 : 1;
      }
      return std::max<std::int64_t>(1, digits);
    }
    return 0;
  }
  /// Of an op whose cost depends on which operand repeats one scalar.
  const char* how_splat() const {
    if (divides_by_power()) return " splat power";
    const bool divides =
        named("divf") || named("divsi") || named("remsi") || named("divui") || named("remui");
    return divides && !known_.repeats(op_.operands[1]) ? " of splat" : " splat";
  }
  /// Of integers, by a constant that the compiler shifts by.
  bool divides_by_power() const {
    if (op_.operands.size() != 2 || named("divf") ||
        (!named("divsi") && !named("remsi") && !named("divui") && !named("remui")))
      return false;
    const auto by = known_.constant(op_.operands[1]);
    return by && *by > 0 && (*by & (*by - 1)) == 0;
  }

  void of_broadcast() {
    const Type& from = type(op_.operands[0]);
    const Type& to = type(op_.results[0]);
    if (from.kind != Type::Kind::vector) return;
    const Tiles a = tiles_of(from.shape, from.dtype);
    const Tiles b = tiles_of(to.shape, to.dtype);
    const bool lanes = a.columns == 1 && b.columns > 1;
    const bool sublanes = a.rows == 1 && b.rows > 1;
    const std::string row = "vector.broadcast " + width_name(to.dtype);
    // What a reduction along lanes leaves lies in all of them.
    const bool everywhere = !known_.first_lane(op_.operands[0]);
    if (lanes) add(row + (everywhere ? " lanes of all lanes" : " lanes"), a.outer * a.down);
    if (sublanes) add(row + " sublanes", a.outer * a.across);
  }

  void of_shape_cast() {
    const Type& from = type(op_.operands[0]);
    const Type& to = type(op_.results[0]);
    if (known_.repeats(op_.operands[0])) return;
    const Tiles a = tiles_of(from.shape, from.dtype);
    const Tiles b = tiles_of(to.shape, to.dtype);
    const std::string row = "vector.shape_cast " + width_name(from.dtype);
    const auto is_column = [&](int value) {
      const Type& t = type(value);
      return known_.down(value) || (t.shape.rank > 1 && t.shape[t.shape.rank - 1] == 1);
    };
    const bool from_column = is_column(op_.operands[0]);
    const bool to_column = to.shape.rank == 1 ? from_column && lies_down(module_, op_, known_)
                                              : to.shape[to.shape.rank - 1] == 1;
    if (from_column && to_column) {
      // Rows of columns: as of anything else.
      if (from.shape.rank == 1 || to.shape.rank == 1 || known_.down(op_.operands[0])) return;
    } else if (from_column || to_column) {
      // A row lies down in the transpose unit; of several, each eight elements come one by one.
      const bool line = from.shape.rank == 1 || to.shape.rank == 1;
      const bool several = (from_column ? b.outer * b.rows : a.outer * a.rows) > 1;
      const char* what = line ? " line" : several ? " rows" : " row";
      return add(row + what + (from_column ? " from column" : " to column"),
                 ceil_to(from.shape.elems(), kSublanes));
    }
    const bool of_line = (from.shape.rank == 1) != (to.shape.rank == 1);
    if (of_line && bit_width(from.dtype) == 16 && a.rows == 1 && b.rows == 1 &&
        a.columns == b.columns) {
      // Memory has a line's elements in all sublanes, a row has its in one.
      add(row + (from.shape.rank == 1 ? " line to row" : " line from row"),
          ceil_to(a.columns, 2 * kLanes));
      return;
    }
    if (a.columns == b.columns) {
      if (a.rows == b.rows ||
          (a.rows % rows_of(from.dtype) == 0 && b.rows % rows_of(from.dtype) == 0))
        return;
      const char* how = b.rows == 1                                          ? " rows apart"
                        : a.rows == 1                                        ? " rows together"
                        : a.rows % kSublanes == 0 && b.rows % kSublanes == 0 ? " half tiles"
                        : a.rows > b.rows                                    ? " fewer rows"
                                                                             : " more rows";
      // Two or four that fill whole registers are cheaper than others.
      const std::int64_t few = std::min(a.rows, b.rows);
      const bool fill = std::max(a.rows, b.rows) % kSublanes == 0 && (few == 2 || few == 4);
      if (fill && bit_width(from.dtype) >= 16)
        return add(
            row + " " + std::to_string(few) + (a.rows == few ? " rows together" : " rows apart"),
            std::max(a.all(), b.all()));
      const LoneRows lone = known_.lone_rows(op_.operands[0]);
      const bool turned = a.rows == 1 && bit_width(from.dtype) == 32 && lone != LoneRows::in_memory;
      const char* lies = !turned ? "" : lone == LoneRows::of_halves ? " of halves" : " turned";
      return add(row + how + lies, std::max(a.all(), b.all()));
    }
    const bool flat = a.rows == 1 || b.rows == 1;
    const bool narrow = std::min(a.columns, b.columns) < kLanes;
    const char* how = a.columns < b.columns ? (flat     ? " to flat"
                                               : narrow ? " from few lanes"
                                                        : " to more lanes")
                                            : (flat     ? " from flat"
                                               : narrow ? " to few lanes"
                                                        : " to fewer lanes");
    add(row + how, std::max(a.outer * a.packed, b.outer * b.packed));
  }

  /// Registers as of another type.
  void of_bitcast() {
    const Type& from = type(op_.operands[0]);
    const Type& to = type(op_.results[0]);
    if (bit_width(from.dtype) == bit_width(to.dtype)) return;
    add("tpu.bitcast " + width_name(from.dtype) + " " + width_name(to.dtype),
        registers(op_.operands[0]));
  }

  void of_reduction() {
    const Type& from = type(op_.operands[0]);
    const std::vector<std::int64_t> dims = numbers_of(op_, "reduction_dims");
    const int rank = from.shape.rank;
    const auto reduced = [&](int dim) {
      return dim >= 0 && from.shape[dim] > 1 && std::ranges::find(dims, dim) != dims.end();
    };
    const bool lanes = reduced(rank - 1);
    const bool sublanes = reduced(rank - 2);
    Tiles t = tiles_of(from.shape, from.dtype);
    const std::string row = "vector.multi_reduction." + kind_of(op_) + " " + name(from.dtype);
    if (rank == 1 && !known_.down(op_.operands[0])) {
      add(row, t.packed - 1);
      add(row + " lanes", 1);
      if (t.columns > kLanes) add(row + " sublanes", 1);
      return;
    }
    std::int64_t left = t.outer;
    for (const std::int64_t d : dims) {
      if (d >= 0 && d < rank - 2)
        left /= std::max<std::int64_t>(1, from.shape[static_cast<int>(d)]);
    }
    left *= (lanes ? 1 : t.across) * (sublanes ? 1 : t.down);
    // A row alone lies in all sublanes: its parts are turned to where they add up.
    // The most or least of the same is that.
    const bool picks = kind_of(op_) != "add" && kind_of(op_) != "mul";
    const std::int64_t all =
        picks ? std::min(t.all(), known_.different(op_.operands[0], from.dtype)) : t.all();
    add(row + (t.rows * t.outer == 1 ? " of a row" : ""), all - left);
    // What lies in a register and not in the vector is masked.
    std::int64_t masked = 0;
    if (lanes && t.columns % kLanes != 0) masked += t.outer * t.down;
    if (sublanes && t.rows % rows_of(from.dtype) != 0) masked += t.outer * t.across;
    add("vector.multi_reduction masked " + width_name(from.dtype), masked);
    if (lanes) add(row + " lanes", left);
    if (sublanes) add(row + " sublanes", left);
  }

  void of_product() {
    for (auto& [row, times] : product_rows(module_, op_, known_)) add(std::move(row), times);
  }

  void of_transpose() {
    const Type& from = type(op_.operands[0]);
    const std::vector<std::int64_t> order = numbers_of(op_, "permutation");
    const auto rank = static_cast<std::int64_t>(order.size());
    const std::string row = "tpu.transpose " + width_name(from.dtype);
    const std::int64_t in = registers(op_.operands[0]);
    const std::int64_t out = registers(op_.results[0]);
    if (rank < 2) return;
    const std::int64_t last = order[static_cast<std::size_t>(rank - 1)];
    const std::int64_t before = order[static_cast<std::size_t>(rank - 2)];
    if (last == rank - 1) {
      if (before != rank - 2) add(row + " rows", std::max(in, out));
      return;
    }
    // Rows and lanes change places in the transpose unit: registers go in, others come out.
    if (in == 1 && out == 1) {
      add(row + " of one", 1);
    } else {
      add(row + " in", in);
      add(row + " out", out);
    }
    if (last != rank - 2 || before != rank - 1) add(row + " and rows", std::max(in, out));
  }

  void of_iota() {
    const Type& t = type(op_.results[0]);
    std::vector<std::int64_t> dims = numbers_of(op_, "dimensions");
    if (dims.empty()) dims.push_back(number_of(op_, "dimension", 0));
    const Tiles tiles = tiles_of(t.shape, t.dtype);
    const std::string row = "tpu.iota " + width_name(t.dtype);
    for (const std::int64_t d : dims) {
      if (d == t.shape.rank - 1) add(row + " lanes", tiles.across);
      if (d == t.shape.rank - 2) add(row + " sublanes", tiles.down);
    }
  }

  /// Of an op that moves elements along a dim of its first operand.
  void along(std::int64_t dim) {
    const Type& t = type(op_.operands[0]);
    if (dim < 0 || dim >= t.shape.rank) return;  // the op is refused
    const char* where = dim == t.shape.rank - 1   ? " lanes"
                        : dim == t.shape.rank - 2 ? " sublanes"
                                                  : " leading";
    const bool ragged =
        (dim == t.shape.rank - 1 && t.shape[t.shape.rank - 1] % kLanes != 0) ||
        (dim == t.shape.rank - 2 && t.shape[t.shape.rank - 2] % rows_of(t.dtype) != 0);
    const std::int64_t all = registers_of(t.shape, t.dtype);
    const std::int64_t times = std::min(all, known_.fresh(op_.results[0]).value_or(all));
    const std::string row = op_.name + " " + width_name(t.dtype) + where;
    add(row + (ragged ? " ragged" : ""), times);
    // Where registers turn by one row at a time.
    const auto by = op_.operands.size() > 1 ? known_.constant(op_.operands[1]) : std::nullopt;
    const std::int64_t rows = rows_of(t.dtype);
    if (dim == t.shape.rank - 2 && !ragged && by && bit_width(t.dtype) == 32)
      add(row + " down", times * (rows - (*by % rows + rows) % rows));
  }

  void of_concatenation() {
    const Type& t = type(op_.results[0]);
    const std::int64_t dim = number_of(op_, "dimension", 0);
    if (dim < 0 || dim < t.shape.rank - 2 || dim >= t.shape.rank) return;
    const bool lanes = dim == t.shape.rank - 1;
    const std::int64_t unit = lanes ? kLanes : rows_of(t.dtype);
    std::int64_t at = 0;
    std::int64_t moved = 0;
    std::int64_t merged = 0;  // they lie where they belong
    for (const int v : op_.operands) {
      const std::int64_t registers = registers_of(type(v).shape, t.dtype);
      const std::int64_t lane = lanes ? known_.first_lane(v).value_or(at % unit) : 0;
      if (lane != at % unit)
        moved += registers;
      else if (at % unit != 0)
        merged += registers;
      at += type(v).shape[static_cast<int>(dim)];
    }
    add(std::string("arith.select ") + name(t.dtype), merged);
    add(op_.name + " " + width_name(t.dtype) + (lanes ? " lanes" : " sublanes"), moved);
  }

  void of_slice() {
    const Type& t = type(op_.results[0]);
    const std::vector<std::int64_t> offsets = numbers_of(op_, "offsets");
    const auto rank = static_cast<std::int64_t>(offsets.size());
    const std::int64_t times = registers_of(t.shape, t.dtype);
    const std::string row = op_.name + " " + width_name(t.dtype);
    const auto offset = [&](std::int64_t back) {
      return rank >= back ? offsets[static_cast<std::size_t>(rank - back)] : 0;
    };
    if (offset(2) % rows_of(t.dtype) != 0) add(row + " sublanes", times);
  }

  void of_repeat() {
    const Type& t = type(op_.results[0]);
    const Shape& from = type(op_.operands[0]).shape;
    const std::int64_t dim = number_of(op_, "dimension", 0);
    const bool lanes = dim == t.shape.rank - 1;
    const std::int64_t unit = lanes ? kLanes : rows_of(t.dtype);
    if (dim < 0 || dim < t.shape.rank - 2 || dim >= from.rank) return;
    if (from[static_cast<int>(dim)] % unit == 0) return;
    add(op_.name + " " + width_name(t.dtype) + (lanes ? " lanes" : " sublanes"),
        registers_of(t.shape, t.dtype));
  }

  void of_memory(const Type& vector) {
    const bool loads = named("load");
    const bool strided = op_.name.find("strided") != std::string::npos;
    const Tiles t = tiles_of(vector.shape, vector.dtype);
    // Indices are behind the memref, the last ones of rows and columns.
    std::vector<int> indices;
    for (const int v : op_.operands) {
      if (type(v).kind == Type::Kind::index || type(v).kind == Type::Kind::scalar)
        indices.push_back(v);
    }
    std::string how;
    const auto offset = [&](std::size_t back) -> std::optional<std::int64_t> {
      if (indices.size() < back) return 0;
      return known_.constant(indices[indices.size() - back]);
    };
    const auto row = offset(2);
    const auto column = offset(1);
    if (column && *column % kLanes != 0)
      how = " lanes";
    else if (row && *row % kSublanes != 0)
      how = t.rows == 1 ? "" : " sublanes";
    if (strided) how = " strided";
    if (!loads && how.empty() && bit_width(vector.dtype) < 32 &&
        (t.columns % kLanes != 0 || t.rows % rows_of(vector.dtype) != 0))
      how = " masked";
    add((loads ? "load " : "store ") + width_name(vector.dtype) + how,
        strided ? t.outer * ceil_to(t.rows, kSublanes) * t.across : t.outer * t.packed);
    // Tiles of eight rows, of which a register has two that lie side by side.
    if (bit_width(vector.dtype) == 16 && !strided && t.across > 1)
      add("odd tiles b16",
          t.outer * (ceil_to(t.rows, kSublanes) * ceil_to(t.across, 2) - t.down * t.across));
    if (loads) return;
    for (const int v : op_.operands) {
      if (type(v).kind == Type::Kind::vector && type(v).shape.rank == 1 && known_.down(v))
        add("vector.shape_cast " + width_name(vector.dtype) + " line from column",
            ceil_to(type(v).shape[0], kSublanes));
    }
  }

  const Module& module_;
  const Operation& op_;
  const KnownValues& known_;
  UnitRows rows_;
};

}  // namespace

std::int64_t number_of(const Operation& op, const char* attribute, std::int64_t otherwise) {
  const Attribute* a = op.find(attribute);
  return a != nullptr && a->kind == Attribute::Kind::integer ? a->integer : otherwise;
}

std::vector<std::int64_t> numbers_of(const Operation& op, const char* attribute) {
  const Attribute* a = op.find(attribute);
  if (a == nullptr) return {};
  if (a->kind == Attribute::Kind::integers) return a->integers;
  std::vector<std::int64_t> numbers;
  for (const Attribute& each : a->list) numbers.push_back(each.integer);
  return numbers;
}

bool lies_packed(const Module& module, const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || op.operands.empty() || !op.regions.empty()) return false;
  const Type& to = module.type(op.results[0]);
  if (to.kind != Type::Kind::vector || !to.known || to.shape.rank != 2 || to.shape[0] != 1)
    return false;
  if (op.name.ends_with(".shape_cast")) {
    const Type& from = module.type(op.operands[0]);
    return from.shape.rank == 1 && bit_width(to.dtype) == 32 && !known.down(op.operands[0]);
  }
  const auto each = [&](int v) {
    return module.type(v).kind != Type::Kind::vector || known.packed(v) || known.repeats(v);
  };
  return (op.name.starts_with("arith.") || op.name.starts_with("math.")) &&
         std::ranges::all_of(op.operands, each) && std::ranges::any_of(op.operands, known.packed);
}

LoneRows lone_rows(const Module& module, const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || op.operands.empty()) return LoneRows::none;
  const Type& to = module.type(op.results[0]);
  if (to.kind != Type::Kind::vector || !to.known || to.shape.rank < 2 ||
      to.shape[to.shape.rank - 2] != 1)
    return LoneRows::none;
  if (op.name.ends_with("load")) {
    const Shape& from = module.type(op.operands[0]).shape;
    const std::int64_t rows = from.rank > 1 ? from[from.rank - 2] : 1;
    if (bit_width(to.dtype) == 32) return rows == 1 ? LoneRows::in_memory : LoneRows::none;
    return bit_width(to.dtype) == 16 && rows <= 2 ? LoneRows::of_halves : LoneRows::none;
  }
  LoneRows lone = LoneRows::none;
  if (!op.name.starts_with("arith.") && !op.name.starts_with("math.") &&
      !op.name.starts_with("tpu.extf"))
    return lone;
  for (const int v : op.operands) lone = std::max(lone, known.lone_rows(v));
  return lone;
}

bool lies_down(const Module& module, const Operation& op, const KnownValues& known) {
  if (op.results.size() != 1 || op.operands.empty() || !op.regions.empty()) return false;
  const Type& to = module.type(op.results[0]);
  if (to.kind != Type::Kind::vector || !to.known || to.shape.rank < 1) return false;
  const Type& from = module.type(op.operands[0]);
  if (from.kind != Type::Kind::vector || !from.known) return false;
  if (op.name.ends_with(".multi_reduction")) {
    const std::vector<std::int64_t> dims = numbers_of(op, "reduction_dims");
    return std::ranges::find(dims, from.shape.rank - 1) != dims.end();
  }
  if (op.name.ends_with(".shape_cast"))
    return to.shape.rank == 1 && from.shape.rank > 1 && from.shape[from.shape.rank - 1] == 1 &&
           from.shape[from.shape.rank - 2] > 1;
  if (to.shape.rank > 1 && to.shape != from.shape) return false;
  return std::ranges::any_of(op.operands, [&](int v) {
    const Type& t = module.type(v);
    return t.kind == Type::Kind::vector && t.known && t.shape.rank >= 1 && known.down(v);
  });
}

UnitRows unit_rows(const Module& module, const Operation& op, const KnownValues& known) {
  return Uses(module, op, known).rows();
}

}  // namespace tessera::program
