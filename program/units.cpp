#include "program/units.hpp"

#include <algorithm>

namespace tessera::program {

namespace {

constexpr std::int64_t kSublanes = 8;
constexpr std::int64_t kLanes = 128;

std::int64_t ceil_to(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

/// Rows of a register.
std::int64_t rows_of(DType d) {
  return d == DType::boolean ? kSublanes : kSublanes * std::max(1, 32 / bit_width(d));
}

struct Tiles {
  std::int64_t outer = 1;  ///< of leading dims
  std::int64_t rows = 1;   ///< elements
  std::int64_t columns = 1;
  std::int64_t down = 1;  ///< registers
  std::int64_t across = 1;
  std::int64_t packed = 1;  ///< of a row alone: its columns may fill all sublanes
  std::int64_t all() const { return outer * down * across; }
};

Tiles tiles_of(const Shape& s, DType d) {
  Tiles t;
  if (s.rank > 0) t.columns = s[s.rank - 1];
  if (s.rank > 1) t.rows = s[s.rank - 2];
  for (int i = 0; i + 2 < s.rank; ++i) t.outer *= s[i];
  t.down = ceil_to(t.rows, rows_of(d));
  t.across = ceil_to(t.columns, kLanes);
  t.packed = t.rows == 1 ? ceil_to(t.columns, kLanes * kSublanes) : t.down * t.across;
  return t;
}

const char* type_name(DType d) { return name(d); }

/// Numbers of the list number `which` of "<[1], [0, 2], ...>".
std::vector<std::int64_t> list_of(const std::string& text, std::size_t which) {
  std::vector<std::int64_t> numbers;
  std::size_t lists = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      inside = lists++ == which;
    } else if (c == ']') {
      if (inside) return numbers;
    } else if (inside && c >= '0' && c <= '9') {
      numbers.push_back(std::atoll(text.c_str() + i));
      while (i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9') ++i;
    }
  }
  return numbers;
}

std::vector<std::int64_t> numbers_of(const Operation& op, const char* attribute) {
  const Attribute* a = op.find(attribute);
  if (a == nullptr) return {};
  if (a->kind == Attribute::Kind::integers) return a->integers;
  std::vector<std::int64_t> numbers;
  for (const Attribute& each : a->list) numbers.push_back(each.integer);
  return numbers;
}

std::int64_t number_of(const Operation& op, const char* attribute, std::int64_t otherwise) {
  const Attribute* a = op.find(attribute);
  return a != nullptr && a->kind == Attribute::Kind::integer ? a->integer : otherwise;
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

  void of_scalars() {
    if (named(".constant") || named(".return") || named(".yield") || named(".trace_start") ||
        named(".trace_stop") || named(".assume_multiple") || named(".iteration_bound"))
      return;
    const bool views = op_.results.size() == 1 && type(op_.results[0]).kind == Type::Kind::memref;
    if (views && !named("memref_slice")) return;
    const bool arithmetic = op_.name.starts_with("arith.") && !named("div") && !named(".divf") &&
                            !named("divsi") && !named("remsi") && !named("divui") &&
                            !named("remui");
    if (named("index_cast")) return;
    add(arithmetic ? "scalar" : op_.name, 1);
  }

  void of_vectors(const Type& vector) {
    const std::string& n = op_.name;
    if (named(".constant") || named(".assume_layout") || named(".yield") || named(".return"))
      return;
    if (named(".broadcast")) return of_broadcast();
    if (named(".shape_cast")) return of_shape_cast();
    if (named(".multi_reduction")) return of_reduction();
    if (n == "tpu.matmul") return of_product();
    if (named(".transpose")) return of_transpose();
    if (n == "tpu.iota") return of_iota();
    if (named("rotate")) return along(number_of(op_, "dimension", 0));
    if (n == "tpu.dynamic_gather") {
      const std::vector<std::int64_t> dims = numbers_of(op_, "dimensions");
      return along(dims.empty() ? number_of(op_, "dimension", 0) : dims[0]);
    }
    if (n == "tpu.concatenate") return of_concatenation();
    if (named(".extract_strided_slice")) return of_slice();
    if (n == "tpu.repeat") return of_repeat();
    if (named("load") || named("store")) return of_memory(vector);
    elementwise(vector);
  }

  void elementwise(const Type& vector) {
    std::int64_t times = 1;
    std::string row = op_.name + " " + type_name(vector.dtype);
    bool splat = false;
    for (const int v : op_.operands) {
      if (type(v).kind != Type::Kind::vector) continue;
      times = std::max(times, registers_of(type(v).shape, type(v).dtype));
      splat = splat || known_.repeats(v);
    }
    bool result = false;
    for (const int v : op_.results) {
      if (type(v).kind != Type::Kind::vector) continue;
      // Of splats alone: a scalar, whatever its type.
      if (known_.repeats(v)) return add("scalar", 1);
      times = std::max(times, registers_of(type(v).shape, type(v).dtype));
      if (op_.name.starts_with("arith.select"))
        row = op_.name + " " + type_name(type(v).dtype);
      else if (!result && type(v).dtype != vector.dtype && op_.operands.size() == 1)
        row += std::string(" ") + type_name(type(v).dtype);
      result = true;
    }
    const bool varies = named("shli") || named("shrui") || named("shrsi") || named("divf") ||
                        named("divsi") || named("remsi") || named("divui") || named("remui") ||
                        named("muli") || named("powf");
    if (splat && varies) row += " splat";
    if (op_.name.starts_with("arith.cmp")) {
      // Masks are of registers of the compared type.
      times = 1;
      for (const int v : op_.operands)
        times = std::max(times, registers_of(type(v).shape, type(v).dtype));
    }
    add(row, times);
  }

  void of_broadcast() {
    const Type& from = type(op_.operands[0]);
    const Type& to = type(op_.results[0]);
    if (from.kind != Type::Kind::vector) return;
    const Tiles a = tiles_of(from.shape, from.dtype);
    const Tiles b = tiles_of(to.shape, to.dtype);
    const bool lanes = a.columns == 1 && b.columns > 1;
    const bool sublanes = a.rows == 1 && b.rows > 1;
    const std::string row = std::string("vector.broadcast ") + type_name(to.dtype);
    if (lanes) add(row + " lanes", a.outer * a.down);
    if (sublanes) add(row + " sublanes", a.outer * a.across);
  }

  void of_shape_cast() {
    const Type& from = type(op_.operands[0]);
    const Type& to = type(op_.results[0]);
    if (known_.repeats(op_.operands[0])) return;
    const Tiles a = tiles_of(from.shape, from.dtype);
    const Tiles b = tiles_of(to.shape, to.dtype);
    // What a reduction along lanes leaves, and how it is used: a column either way.
    const auto column_of = [](const Shape& line, const Shape& column) {
      return line.rank == 1 && column.rank == 2 && column[1] == 1;
    };
    if (column_of(from.shape, to.shape) || column_of(to.shape, from.shape)) return;
    const std::string row = std::string("vector.shape_cast ") + type_name(from.dtype);
    if (a.columns == b.columns) {
      if (a.rows == b.rows || (a.rows % kSublanes == 0 && b.rows % kSublanes == 0)) return;
      return add(row + (a.rows == 1 || b.rows == 1 ? " row" : " rows"), std::max(a.all(), b.all()));
    }
    const bool column = a.columns == 1 || b.columns == 1;
    add(row + (column                       ? " column"
               : a.rows == 1 || b.rows == 1 ? " flat"
                                            : " lanes"),
        std::max(a.outer * a.packed, b.outer * b.packed));
  }

  void of_reduction() {
    const Type& from = type(op_.operands[0]);
    const std::vector<std::int64_t> dims = numbers_of(op_, "reduction_dims");
    const int rank = from.shape.rank;
    const bool lanes = std::ranges::find(dims, rank - 1) != dims.end();
    const bool sublanes = std::ranges::find(dims, rank - 2) != dims.end();
    const Tiles t = tiles_of(from.shape, from.dtype);
    std::int64_t left = t.outer;
    for (const std::int64_t d : dims) {
      if (d >= 0 && d < rank - 2)
        left /= std::max<std::int64_t>(1, from.shape[static_cast<int>(d)]);
    }
    left *= (lanes ? 1 : t.across) * (sublanes ? 1 : t.down);
    const std::string row = "vector.multi_reduction." + kind_of(op_) + " " + type_name(from.dtype);
    add(row, t.all() - left);
    if (lanes) add(row + " lanes", left);
    if (sublanes) add(row + " sublanes", left);
  }

  void of_product() {
    const Type& a = type(op_.operands[0]);
    const Type& b = type(op_.operands[1]);
    const Type& t = type(op_.results[0]);
    const int rank = t.shape.rank;
    if (rank < 2 || b.shape.rank < 2) return;
    const std::int64_t m = t.shape[rank - 2];
    const std::int64_t n = t.shape[rank - 1];
    const std::int64_t batch = t.shape.elems() / std::max<std::int64_t>(1, m * n);
    const std::int64_t k = a.shape.elems() / std::max<std::int64_t>(1, m * batch);
    bool transposed = number_of(op_, "transpose_rhs", 0) != 0;
    bool left = number_of(op_, "transpose_lhs", 0) != 0;
    if (const Attribute* numbers = op_.find("dimension_numbers"); numbers != nullptr) {
      const auto of_left = list_of(numbers->text, 0);
      const auto of_right = list_of(numbers->text, 1);
      left = !of_left.empty() && of_left[0] != a.shape.rank - 1;
      transposed = !of_right.empty() && of_right[0] == b.shape.rank - 1;
    }
    std::string types = std::string(" ") + type_name(a.dtype);
    if (b.dtype != a.dtype) types += std::string(" ") + type_name(b.dtype);
    const Attribute* precision = op_.find("precision");
    if (precision != nullptr && precision->text.find("fp32") != std::string::npos)
      types += " highest";
    const std::int64_t down = ceil_to(m, kSublanes);
    const std::int64_t deep = ceil_to(k, kLanes);
    const std::int64_t across = ceil_to(n, kLanes);
    add("tpu.matmul pass" + types, batch * down * deep * across);
    add("tpu.matmul weights" + types + (transposed ? " transposed" : ""), batch * deep * across);
    add("tpu.matmul sum" + types, batch * down * across);
    if (left) add("tpu.matmul left transposed" + types, registers_of(a.shape, a.dtype));
  }

  void of_transpose() {
    const Type& from = type(op_.operands[0]);
    const std::vector<std::int64_t> order = numbers_of(op_, "permutation");
    const auto rank = static_cast<std::int64_t>(order.size());
    const std::string row = std::string("tpu.transpose ") + type_name(from.dtype);
    const std::int64_t times = std::max(registers_of(from.shape, from.dtype),
                                        registers_of(type(op_.results[0]).shape, from.dtype));
    if (rank < 2 || order[static_cast<std::size_t>(rank - 1)] == rank - 1) {
      const bool kept = rank < 2 || order[static_cast<std::size_t>(rank - 2)] == rank - 2;
      if (!kept) add(row + " rows", times);
      return;
    }
    add(row, times);
  }

  void of_iota() {
    const Type& t = type(op_.results[0]);
    std::vector<std::int64_t> dims = numbers_of(op_, "dimensions");
    if (dims.empty()) dims.push_back(number_of(op_, "dimension", 0));
    const Tiles tiles = tiles_of(t.shape, t.dtype);
    const std::string row = std::string("tpu.iota ") + type_name(t.dtype);
    for (const std::int64_t d : dims) {
      if (d == t.shape.rank - 1) add(row + " lanes", tiles.across);
      if (d == t.shape.rank - 2) add(row + " sublanes", tiles.down);
    }
  }

  /// Of an op that moves elements along a dim of its first operand.
  void along(std::int64_t dim) {
    const Type& t = type(op_.operands[0]);
    const char* where = dim == t.shape.rank - 1   ? " lanes"
                        : dim == t.shape.rank - 2 ? " sublanes"
                                                  : " leading";
    add(op_.name + " " + type_name(t.dtype) + where, registers_of(t.shape, t.dtype));
  }

  void of_concatenation() {
    const Type& t = type(op_.results[0]);
    const std::int64_t dim = number_of(op_, "dimension", 0);
    if (dim < t.shape.rank - 2) return;
    const bool lanes = dim == t.shape.rank - 1;
    const std::int64_t unit = lanes ? kLanes : rows_of(t.dtype);
    std::int64_t at = 0;
    std::int64_t moved = 0;
    for (const int v : op_.operands) {
      if (at % unit != 0) moved += registers_of(type(v).shape, t.dtype);
      at += type(v).shape[static_cast<int>(dim)];
    }
    add(op_.name + " " + type_name(t.dtype) + (lanes ? " lanes" : " sublanes"), moved);
  }

  void of_slice() {
    const Type& t = type(op_.results[0]);
    const std::vector<std::int64_t> offsets = numbers_of(op_, "offsets");
    const auto rank = static_cast<std::int64_t>(offsets.size());
    const std::int64_t times = registers_of(t.shape, t.dtype);
    const std::string row = op_.name + " " + type_name(t.dtype);
    const auto offset = [&](std::int64_t back) {
      return rank >= back ? offsets[static_cast<std::size_t>(rank - back)] : 0;
    };
    if (offset(1) % kLanes != 0) add(row + " lanes", times);
    if (offset(2) % rows_of(t.dtype) != 0) add(row + " sublanes", times);
  }

  void of_repeat() {
    const Type& t = type(op_.results[0]);
    const Shape& from = type(op_.operands[0]).shape;
    const std::int64_t dim = number_of(op_, "dimension", 0);
    const bool lanes = dim == t.shape.rank - 1;
    const std::int64_t unit = lanes ? kLanes : rows_of(t.dtype);
    if (dim < t.shape.rank - 2 || from[static_cast<int>(dim)] % unit == 0) return;
    add(op_.name + " " + type_name(t.dtype) + (lanes ? " lanes" : " sublanes"),
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
    add(std::string(loads ? "load " : "store ") + type_name(vector.dtype) + how,
        strided ? t.outer * ceil_to(t.rows, kSublanes) * t.across : t.outer * t.packed);
  }

  const Module& module_;
  const Operation& op_;
  const KnownValues& known_;
  UnitRows rows_;
};

}  // namespace

std::int64_t registers_of(const Shape& shape, DType dtype) { return tiles_of(shape, dtype).all(); }

UnitRows unit_rows(const Module& module, const Operation& op, const KnownValues& known) {
  return Uses(module, op, known).rows();
}

}  // namespace tessera::program
