#include "program/unit_product_rows.hpp"

#include <algorithm>

#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

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

constexpr std::int64_t kTile = 2 * kLanes;  ///< a side of one, of a wide unit

/// Of the tiles along a side of a unit of two those in which one at the most is filled.
std::int64_t quarters(std::int64_t extent, std::int64_t filled) {
  return ceil_to(extent, kTile) - ceil_to(filled, kLanes) / 2;
}

/// Of a side of a product's weights.
struct Side {
  std::int64_t all;
  std::int64_t filled;  ///< what is behind is 0
  std::int64_t taken;   ///< of a tile that is not empty so much at the most
};

/// `along`: the side that registers have their rows of. What is beside a register in its tile is
/// pushed with it: other lanes, else, if the tile is whole, a register of its second half. Of a
/// tile of 0 one is pushed. `computed`: of all those that are no constants, which are not pushed.
std::int64_t pushes(const Side& along, const Side& lanes, double computed) {
  std::int64_t filled = 0;
  std::int64_t empty = 0;
  for (std::int64_t a = 0; a < along.all; a += kTile) {
    for (std::int64_t l = 0; l < lanes.all; l += kTile) {
      if (a >= along.filled || l >= lanes.filled) {
        ++empty;
        continue;
      }
      const std::int64_t rows = ceil_to(std::min(kTile, along.filled - a), kSublanes);
      const bool is_whole = rows == kTile / kSublanes;
      filled += is_whole && lanes.taken - l <= kLanes ? rows / 2 : rows;
    }
  }
  const auto registers = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(ceil_to(rows, kSublanes) * ceil_to(columns, kLanes));
  };
  const double there = registers(along.filled, lanes.filled) / registers(along.all, lanes.all);
  return share_of(filled, there > 0 ? std::min(1., computed / there) : 1) + empty;
}

class ProductRows {
 public:
  ProductRows(const Module& module, const Operation& op, const KnownValues& known)
      : module_(module), op_(op), known_(known) {}

  UnitRows rows() {
    if (!read()) return {};
    passes();
    weights();
    add("sum", batch_ * down_ * across_);
    apart();
    // Registers of weights that are constants are pushed to no matrix unit.
    constexpr double kFew = 0.25;
    const std::string of_left = left_ ? " transposed" : "";
    add("left", split(op_.operands[0]), of_left + (computed_ <= kFew ? " of few weights" : ""));
    if (k_ % kLanes != 0) add("masked", batch_ * (down_ + across_));
    return std::move(rows_);
  }

 private:
  const Type& type(int value) const { return module_.type(value); }
  void add(const std::string& what, std::int64_t times, const std::string& how = "") {
    if (times > 0) rows_.emplace_back("tpu.matmul " + what + types_ + how, times);
  }

  /// Whether it has a shape of a product.
  bool read() {
    const Type& a = type(op_.operands[0]);
    const Type& b = type(op_.operands[1]);
    const Type& t = type(op_.results[0]);
    const int rank = t.shape.rank;
    if (rank < 2 || b.shape.rank < 2) return false;
    m_ = t.shape[rank - 2];
    n_ = t.shape[rank - 1];
    batch_ = t.shape.elems() / std::max<std::int64_t>(1, m_ * n_);
    k_ = a.shape.elems() / std::max<std::int64_t>(1, m_ * batch_);
    transposed_ = number_of(op_, "transpose_rhs", 0) != 0;
    left_ = number_of(op_, "transpose_lhs", 0) != 0;
    if (const Attribute* numbers = op_.find("dimension_numbers"); numbers != nullptr) {
      const auto of_left = list_of(numbers->text, 0);
      const auto of_right = list_of(numbers->text, 1);
      left_ = !of_left.empty() && of_left[0] != a.shape.rank - 1;
      transposed_ = !of_right.empty() && of_right[0] == b.shape.rank - 1;
    }
    types_ = std::string(" ") + name(a.dtype);
    if (b.dtype != a.dtype) types_ += std::string(" ") + name(b.dtype);
    const Attribute* precision = op_.find("precision");
    splits_ = precision != nullptr && precision->text.find("fp32") != std::string::npos;
    if (splits_) types_ += " highest";
    down_ = ceil_to(m_, kSublanes);
    across_ = ceil_to(n_, kLanes);
    const Extents filled = filled_of();
    of_weights_ = filled.k_of_weights;
    kept_ = splits_ ? filled : Extents{k_, k_, n_};
    // In the default precision tiles of rows that are 0 are left out.
    met_ = splits_ ? k_ : std::min(k_, ceil_to(filled.k, kTile) * kTile);
    computed_ = splits_ ? known_.computed(op_.operands[1]) : 1;
    return true;
  }

  struct Extents {
    std::int64_t k;
    std::int64_t k_of_weights;
    std::int64_t n;
  };
  /// Those behind which there is nothing: columns of weights that are 0, rows that are 0 on both
  /// sides, unless the left one is to be turned.
  Extents filled_of() const {
    const int a = op_.operands[0];
    const int b = op_.operands[1];
    if (type(a).shape.rank != 2 || type(b).shape.rank != 2) return {k_, k_, n_};
    const std::int64_t of_weights = std::min(k_, known_.filled(b, transposed_ ? 1 : 0));
    const std::int64_t of_both = std::max(of_weights, std::min(k_, known_.filled(a, 1)));
    return {left_ ? k_ : of_both, of_weights, std::min(n_, known_.filled(b, transposed_ ? 0 : 1))};
  }

  /// In the highest precision each register of both sides is split into parts, but for constants.
  std::int64_t split(int v) const {
    return share_of(registers_of(type(v).shape, type(v).dtype), splits_ ? known_.computed(v) : 1);
  }
  /// Of wide units halves, of tiles that fill no more than a quarter one.
  std::int64_t halves() const {
    return 2 * ceil_to(met_, kTile) * ceil_to(n_, kTile) -
           quarters(met_, std::min(met_, kept_.k)) * quarters(n_, kept_.n);
  }

  void passes() {
    add("pass", batch_ * down_ * ceil_to(k_, kLanes) * across_);
    add("pass", batch_ * down_ * halves(), " wide");
    if (splits_) add("rows", batch_ * down_);
  }

  void weights() {
    const std::string right = transposed_ ? " transposed" : "";
    const std::int64_t quarter_tiles = std::max<std::int64_t>(1, ceil_to(k_, kLanes) * across_);
    // Registers of two tiles are pushed side by side, those of an odd one alone.
    const std::int64_t pairs =
        ceil_to(split(op_.operands[1]) * ceil_to(quarter_tiles, 2), quarter_tiles);
    if (splits_) {
      const Side of_k{k_, kept_.k_of_weights, kept_.k};
      const Side of_n{n_, kept_.n, kept_.n};
      add("weights", split(op_.operands[1]), right);
      // Ones, of whose three parts two are 0, are pushed in half of the rounds, in the others a
      // register is.
      const bool ones = known_.repeats(op_.operands[1]) && !known_.zero(op_.operands[1]);
      const double computed = ones ? 1 : computed_;
      const std::int64_t all =
          transposed_ ? pushes(of_n, of_k, computed) : pushes(of_k, of_n, computed);
      add("weights", batch_ * (ones ? ceil_to(all + 1, 2) : all), " wide" + right);
      return;
    }
    add("weights", batch_ * ceil_to(k_, kLanes) * across_, right);
    const double pushed =
        static_cast<double>(std::min(met_, of_weights_)) / static_cast<double>(k_);
    if (types_ == " bf16" || types_ == " f32")
      add("weights", share_of(pairs, pushed), " wide" + right);
    else
      add("weights", batch_ * halves(), " wide");
    if (types_ == " f32 bf16") add("pairs", pairs);
  }

  /// Two whole tiles on top of each other, of an odd column of tiles, lie beside one another in a
  /// unit that is twice as wide, for no more rows than a tile has: each has sums of its own.
  void apart() {
    const std::int64_t columns = std::max<std::int64_t>(1, ceil_to(kept_.n, kLanes));
    if (!splits_ || transposed_ || columns % 2 == 0 || m_ > kLanes) return;
    const double of_columns = static_cast<double>(columns) / static_cast<double>(across_);
    const std::int64_t rows = share_of(k_, std::min(1., computed_ / of_columns));
    add("apart", batch_ * down_ * 2 * (rows / kTile));
  }

  const Module& module_;
  const Operation& op_;
  const KnownValues& known_;
  UnitRows rows_;
  std::int64_t m_ = 0;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  std::int64_t batch_ = 0;
  std::int64_t down_ = 0;    ///< registers of the left side's rows
  std::int64_t across_ = 0;  ///< registers of the right side's columns
  bool transposed_ = false;  ///< the right side
  bool left_ = false;        ///< the left side is to be turned
  bool splits_ = false;      ///< in the highest precision
  std::string types_;
  Extents kept_{};               ///< what is behind is left out
  std::int64_t of_weights_ = 0;  ///< rows of weights that are not known to be 0
  std::int64_t met_ = 0;         ///< of k what tiles that are not left out have
  double computed_ = 1;          ///< the part of the weights' registers that are no constants
};

}  // namespace

UnitRows product_rows(const Module& module, const Operation& op, const KnownValues& known) {
  return ProductRows(module, op, known).rows();
}

}  // namespace tessera::program
