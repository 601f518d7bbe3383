#include "sim/pipeline/block.hpp"

#include <fmt/format.h>

#include "memory_model/array.hpp"
#include "sim/numerics/op_state.hpp"
#include "sim/ops/checksum.hpp"
#include "sim/pipeline/block_runs.hpp"

namespace tessera {

SharedBuffer::SharedBuffer(std::string name_, Space space_, DType dtype_, Shape shape_)
    : Buffer(std::move(name_), space_, dtype_, shape_) {
  const std::int64_t elems = shape.elems();
  allocate(static_cast<std::size_t>(std::max<std::int64_t>(1, packed_bytes(dtype, elems))));
  poison(data_, dtype, elems);
  shadow = Shadow(elems, Shadow::uninit);
}

namespace {

/// n elements out of packed memory into bytes of their own, or back.
void unpack(DType dtype, const std::byte* from, std::int64_t at, std::byte* to, std::int64_t n) {
  visit_dtype(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    for (std::int64_t i = 0; i < n; ++i)
      reinterpret_cast<T*>(to)[i] = load_element<T>(from, at + i);
  });
}
void pack(DType dtype, const std::byte* from, std::byte* to, std::int64_t at, std::int64_t n) {
  visit_dtype(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    for (std::int64_t i = 0; i < n; ++i)
      store_element(to, at + i, reinterpret_cast<const T*>(from)[i]);
  });
}

/// n elements from packed memory to packed memory.
void copy_packed(DType dtype, const std::byte* from, std::int64_t from_at, std::byte* to,
                 std::int64_t to_at, std::int64_t n) {
  const std::int64_t bits = bit_width(dtype);
  if ((from_at | to_at | n) * bits % 8 != 0) {
    visit_dtype(dtype, [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      for (std::int64_t e = 0; e < n; ++e)
        store_element(to, to_at + e, load_element<T>(from, from_at + e));
    });
    return;
  }
  std::memcpy(to + to_at * bits / 8, from + from_at * bits / 8,
              static_cast<std::size_t>(n * bits / 8));
}

/// What lies beyond the array where nothing tracks it: the declared pad, or poison that shows.
void fill_pad(const OperandPlan& op, std::byte* to, std::int64_t elems) {
  visit_dtype(op.dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    T pad{};
    if (op.padded)
      pad = convert<T>(op.pad_value);
    else if constexpr (kIsFloat<T>)
      pad = convert<T>(std::numeric_limits<float>::quiet_NaN());
    else if constexpr (std::is_same_v<T, bool>)
      pad = true;
    else
      pad = convert<T>(std::int64_t{-0x5a5a5a5a});
    std::fill_n(reinterpret_cast<T*>(to), elems, pad);
  });
}

std::int64_t row_stride(const OperandPlan& op) {
  for (int d = 0; d < op.block.rank - 1; ++d) {
    if (!op.squeezed[static_cast<std::size_t>(d)]) return op.strides[d];
  }
  return op.cols;
}

}  // namespace

bool same_bits(DType dtype, const std::byte* a, std::int64_t i, const std::byte* b,
               std::int64_t j) {
  const std::int64_t bits = bit_width(dtype);
  if (bits < 8) {
    const std::int64_t in_a_byte = 8 / bits;
    const auto at = [&](const std::byte* memory, std::int64_t e) {
      return std::to_integer<int>(memory[e / in_a_byte]) >> (e % in_a_byte * bits) &
             ((1 << bits) - 1);
    };
    return at(a, i) == at(b, j);
  }
  return std::memcmp(a + i * bits / 8, b + j * bits / 8, static_cast<std::size_t>(bits / 8)) == 0;
}

int Block::element_bytes() const { return std::max(1, bit_width(dtype) / 8); }

void Block::take(const OperandPlan& op, const DeviceSpec& spec) {
  plan = &op;
  device_spec = &spec;
  name = op.name;
  space = op.space;
  dtype = op.dtype;
  shape = op.dense ? op.kept : Shape{op.rows, op.cols};
  stride = op.cols;
}

void Block::allocate() {
  const std::int64_t bytes = plan->dense ? packed_bytes(dtype, elems()) : elems() * element_bytes();
  SharedBuffer::allocate(static_cast<std::size_t>(std::max<std::int64_t>(1, bytes)));
  stride = plan->cols;
  if (plan->dense) poison(data_, dtype, elems());
}

void Block::allocate_undefined() {
  allocate();
  shadow = Shadow(elems(), Shadow::uninit);
  clear_bounds();
}

/// True if the rows of a whole block lie a constant stride apart in HBM, elements adjacent. Nothing
/// else can write an input while the kernel runs, unless an output aliases it.
bool Block::views_arrays() const {
  if (plan->dense || bit_width(dtype) < 8 || plan->kept.rank > 2 || plan->aliased >= 0)
    return false;
  return plan->kept.rank == 0 || !plan->squeezed[static_cast<std::size_t>(plan->block.rank - 1)];
}

/// The same of a dense block that lies in HBM in one piece. On the asynchronous machine other
/// copies may write there.
bool Block::borrows_arrays() const {
  if (!plan->dense || bit_width(dtype) < 8 || plan->aliased >= 0 || on != nullptr) return false;
  std::int64_t step = 1;
  for (int d = plan->block.rank - 1; d >= 0; --d) {
    if (plan->block[d] != 1 && plan->strides[d] != step) return false;
    step *= plan->block[d];
  }
  return true;
}

/// A view of HBM becomes memory of its own.
void Block::own_copy() {
  const std::byte* const from = data_;
  const std::int64_t apart = stride * element_bytes();
  const std::int64_t row = std::int64_t{plan->cols} * element_bytes();
  allocate();
  for (int r = 0; r < plan->rows; ++r)
    std::memcpy(data_ + r * row, from + r * apart, static_cast<std::size_t>(row));
}

void Block::fetch(const std::byte* hbm, const std::int64_t* index, const Shape& inside) {
  const bool whole = inside == plan->block;
  if (whole && views_arrays()) {
    storage_ = StorageHandle();
    // A body cannot write an input block: what it gets of one is const.
    data_ = const_cast<std::byte*>(hbm) + plan->offset(index) * element_bytes();
    stride = row_stride(*plan);
    return;
  }
  const bool tracked = plan->outside == OperandPlan::Outside::undefined;
  if (tracked) shadow.fill(whole ? Shadow::init : Shadow::uninit);
  if (whole && borrows_arrays()) {
    borrow(hbm + plan->offset(index) * element_bytes(),
           static_cast<std::size_t>(elems() * element_bytes()));
    return;
  }
  if (!storage_ || storage_.shared()) allocate();
  data_ = storage_.bytes();
  stride = plan->cols;
  if (!whole) {
    if (plan->dense)
      poison(data_, dtype, elems());
    else
      fill_pad(*plan, data_, elems());
  }
  for_each_run(*plan, index, inside, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    if (!plan->dense && bit_width(dtype) < 8)
      unpack(dtype, hbm, from, data_ + to, n);
    else
      copy_packed(dtype, hbm, from, data_, to, n);
    if (tracked && !whole) shadow.mark_init(Rect{to, 1, n, n});
  });
}

void Block::fetch_bounds(const float* hbm, const std::int64_t* index, const Shape& inside) {
  clear_bounds();
  bounds.assign(static_cast<std::size_t>(elems()), 0.f);
  for_each_run(*plan, index, inside, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(hbm + from, n, bounds.begin() + to);
  });
}

void Block::forget_changes(const std::byte* hbm, const std::int64_t* index) {
  std::vector<bool> as_fetched(static_cast<std::size_t>(elems()));
  for_each_run(*plan, index, plan->in_bounds(index),
               [&](std::int64_t from, std::int64_t to, std::int64_t n) {
                 for (std::int64_t e = 0; e < n; ++e)
                   as_fetched[static_cast<std::size_t>(to + e)] =
                       same_bits(dtype, hbm, from + e, data_, to + e);
               });
  for (std::int64_t e = 0; e < elems(); ++e) {
    if (!as_fetched[static_cast<std::size_t>(e)] && shadow.at(e) != Shadow::uninit)
      shadow.set(e, Shadow::stale);
  }
}

void Block::begin_undefined() {
  shadow.fill(Shadow::uninit);
  clear_bounds();
  if (storage_.shared()) allocate();
}

Missing Block::write_back(std::byte* hbm, const std::int64_t* index, const Shape& inside) const {
  const bool all = shadow.all_init();
  const bool unpacked = !plan->dense && bit_width(dtype) < 8;
  Missing missing;
  const auto store = [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    if (unpacked)
      pack(dtype, data_ + from, hbm, to, n);
    else
      copy_packed(dtype, data_, from, hbm, to, n);
  };
  for_each_run(*plan, index, inside, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    if (all || shadow.first_missing({from, 1, n, n}) < 0) {
      store(to, from, n);
      return;
    }
    for (std::int64_t e = 0; e < n; ++e) {
      const Shadow::State state = shadow.at(from + e);
      if (state == Shadow::init)
        store(to + e, from + e, 1);
      else
        missing.add(to + e, state);
    }
  });
  return missing;
}

void Block::write_back_bounds(float* hbm, const std::int64_t* index, const Shape& inside) {
  settle_bounds();
  const bool all = shadow.all_init();
  for_each_run(*plan, index, inside, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    for (std::int64_t e = 0; e < n; ++e) {
      if (all || shadow.at(from + e) == Shadow::init)
        hbm[to + e] = bounds.empty() ? 0.f : bounds[static_cast<std::size_t>(from + e)];
    }
  });
}

std::uint64_t Block::checksum(const std::int64_t* index, const Shape& inside) const {
  const bool all = shadow.all_init();
  std::uint64_t sum = 0;
  visit_dtype(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const auto value = [&](std::int64_t e) {
      return plan->dense ? load_element<T>(data_, e) : data<T>()[e];
    };
    const auto add = [&](std::int64_t from, std::int64_t n) {
      std::uint64_t total = 0;
      for (std::int64_t e = from; e < from + n; ++e) {
        if (all || shadow.at(e) == Shadow::init) total += checksum_of(e, value(e));
      }
      sum += total;
    };
    if (index == nullptr) return add(0, elems());
    for_each_run(*plan, index, inside,
                 [&](std::int64_t, std::int64_t from, std::int64_t n) { add(from, n); });
  });
  return sum;
}

std::string Block::text() const {
  if (!shadow.all_init()) return "  undefined so far";
  constexpr int kShown = 8;
  const int rows = plan->rows;
  const int cols = plan->cols;
  std::string text = fmt::format("{}({}, {})", tessera::name(dtype), rows, cols);
  visit_dtype(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    for (int r = 0; r < rows && r < kShown; ++r) {
      text += "\n  ";
      for (int c = 0; c < cols && c < kShown; ++c) {
        const std::int64_t e = r * stride + c;
        const T v = plan->dense ? load_element<T>(data_, e) : data<T>()[e];
        text += fmt::format("{}{:g}", c > 0 ? " " : "", convert<double>(v));
      }
      if (cols > kShown) text += " ...";
    }
  });
  if (rows > kShown) text += "\n  ...";
  return text;
}

StorageHandle Block::read_bounds(int row, int col, int rows, int cols) {
  if (!has_bounds()) return {};
  if (sum_.empty()) return bounds::part(bounds.data() + at(row, col), plan->cols, rows, cols);
  return bounds::write_bounds(
      {data_ + (row * stride + col) * element_bytes(), dtype, rows, cols, stride, nullptr},
      sum_.view(at(row, col)), *op_state.error_model);
}

void Block::store_bounds(int row, int col, int rows, int cols, const float* of) {
  if (rows == plan->rows && cols == plan->cols) clear_bounds();
  if (of == nullptr && !has_bounds()) return;
  settle_bounds();
  bounds.resize(static_cast<std::size_t>(elems()), 0.f);
  for (int r = 0; r < rows; ++r) {
    float* to = bounds.data() + at(row + r, col);
    if (of == nullptr)
      std::fill_n(to, cols, 0.f);
    else
      std::copy_n(of + std::int64_t{r} * cols, cols, to);
  }
}

bounds::SumView Block::sum_bounds(int row, int col) {
  if (sum_.empty()) {
    sum_ = bounds::SumState(plan->rows, plan->cols);
    if (!bounds.empty()) std::copy(bounds.begin(), bounds.end(), sum_.view().bound);
  }
  return sum_.view(at(row, col));
}

void Block::settle_bounds() {
  if (sum_.empty()) return;
  const StorageHandle settled = read_bounds(0, 0, plan->rows, plan->cols);
  const auto* from = reinterpret_cast<const float*>(settled.bytes());
  sum_ = bounds::SumState();
  bounds.assign(from, from + elems());
}

}  // namespace tessera
