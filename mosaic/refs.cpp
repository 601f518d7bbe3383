#include "mosaic/refs.hpp"

#include <algorithm>
#include <limits>

#include "mosaic/types.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::mosaic {

namespace {

constexpr const char* kSemaphores = "semaphore_mem";

std::string semaphore_element(Role role) {
  return role == Role::dma_sem ? "!tpu.dma_semaphore" : "!tpu.semaphore";
}
std::string one_semaphore(const std::string& element) {
  return "memref<" + element + ", #tpu.memory_space<semaphore_mem>>";
}

std::int64_t extent_of(Number size) { return size.known() ? size.lo : kAnyExtent; }

/// The dims that rows and columns count: the last one, and the last but one.
int column_dim(const Operand& op) { return op.kept.empty() ? -1 : op.kept.back(); }
int row_dim(const Operand& op) { return op.kept.size() < 2 ? -1 : op.kept[op.kept.size() - 2]; }
/// True if rows are those of one dim: no other dim that the body sees holds more than one index.
bool has_row_dim(const Part& part) {
  for (std::size_t d = 0; d < part.size.size(); ++d) {
    const int dim = static_cast<int>(d);
    if (dim != row_dim(*part.of) && dim != column_dim(*part.of) &&
        !(part.size[d].known() && part.size[d].lo == 1))
      return false;
  }
  return true;
}

std::vector<Value> indices(const Part& part) {
  std::vector<Value> values;
  for (const Number& s : part.start) values.push_back(s.index());
  return values;
}
std::vector<std::int64_t> extents(const Part& part) {
  std::vector<std::int64_t> all;
  for (const Number& s : part.size) {
    if (!s.known()) refuse("a tile of " + part.of->name + " whose size is data");
    all.push_back(s.lo);
  }
  return all;
}

/// The block with its padding where it reaches over the array's end.
AnyTile pad(const Part& part, const AnyTile& tile) {
  const Operand& op = *part.of;
  const auto ends_inside = [&](std::size_t d) {
    return op.array[static_cast<int>(d)] % op.block[d] == 0;
  };
  std::vector<Number> block;
  AnyTile padded = tile;
  for (const int dim : op.kept) {
    const auto d = static_cast<std::size_t>(dim);
    if (ends_inside(d)) continue;
    const bool columns = dim == column_dim(op);
    if (!columns && (dim != row_dim(op) || !has_row_dim(part)))
      refuse("padding of a block's leading dims: " + op.name);
    if (block.empty()) block = op.index();
    const Number left = known(op.array[dim]) - block[d] * known(op.block[d]) - part.start[d];
    const int extent = columns ? tile.cols : tile.rows;
    if (left.lo >= extent) continue;
    const LaneMask inside = columns ? col_numbers(tile.rows, tile.cols) < left
                                    : row_numbers(tile.rows, tile.cols) < left;
    padded = choose(inside, padded, op.pad_value);
  }
  return padded;
}

/// A memref of the part, without the dims that a copy does not see.
Value view(const Part& part) {
  const Operand& op = *part.of;
  if (!op.present) fail_absent(op);
  std::vector<std::int64_t> sliced;
  std::vector<std::int64_t> left;
  std::vector<Value> operands{op.memref};
  std::vector<Value> sizes;
  bool all = true;
  for (std::size_t d = 0; d < part.start.size(); ++d) {
    operands.push_back(part.start[d].i32());
    sliced.push_back(extent_of(part.size[d]));
    if (!part.size[d].known()) sizes.push_back(part.size[d].value);
    if (!part.dropped[d]) left.push_back(sliced.back());
    all = all && part.start[d].known() && part.start[d].lo == 0 && sliced[d] == op.block[d];
  }
  Value v = op.memref;
  if (!all) {
    const std::string segments = "operandSegmentSizes = array<i32: 1, " +
                                 std::to_string(part.start.size()) + ", " +
                                 std::to_string(sizes.size()) + ">";
    operands.insert(operands.end(), sizes.begin(), sizes.end());
    v = trace().record("tpu.memref_slice", std::move(operands), segments,
                       memref_type(sliced, op.element(), op.space()));
  }
  if (left.size() == sliced.size()) return v;
  return trace().record("tpu.memref_squeeze", {v}, "", memref_type(left, op.element(), op.space()));
}

}  // namespace

std::string Operand::space() const {
  if (is_semaphore(role)) return kSemaphores;
  if (in_hbm(role)) return "hbm";
  return role == Role::smem ? "smem" : "vmem";
}
std::string Operand::element() const {
  return is_semaphore(role) ? semaphore_element(role) : element_type(dtype);
}
std::string Operand::type() const { return memref_type(block, element(), space()); }

void allocate(Operand& op) {
  if (in_hbm(op.role)) refuse("scratch in HBM of a scope, " + op.name + ": say hbm() in the spec");
  if (is_semaphore(op.role))
    op.memref = trace().record("tpu.sem_alloc", {}, "", op.type());
  else
    op.memref =
        trace().record("memref.alloca", {}, "operandSegmentSizes = array<i32: 0, 0>", op.type());
}

void fail_absent(const Operand& op) { refuse(op.name + ", which is not there with these sizes"); }

Part whole(const Operand& op) {
  Part p{&op, {}, {}, {}};
  for (std::size_t d = 0; d < op.block.size(); ++d) {
    p.start.push_back(known(0));
    p.size.push_back(known(op.block[d]));
    const bool seen = in_hbm(op.role) || std::ranges::count(op.kept, static_cast<int>(d)) > 0;
    p.dropped.push_back(!seen);
  }
  return p;
}

Part beside(Part part, const Part& other) {
  if (other.of->role != Role::smem) return part;
  for (std::size_t d = 0; d + 1 < part.size.size(); ++d) {
    if (part.size[d].known() && part.size[d].lo == 1) part.dropped[d] = true;
  }
  return part;
}
Part leading(const Part& part, Number index) {
  const Operand& op = *part.of;
  std::vector<std::size_t> seen;
  for (const int dim : op.kept) {
    const auto d = static_cast<std::size_t>(dim);
    if (!part.dropped[d]) seen.push_back(d);
  }
  bool whole = seen.size() >= 3;
  for (std::size_t k = 0; whole && k + 1 < seen.size(); ++k)
    whole = part.size[seen[k]].known() && part.size[seen[k]].lo == op.block[seen[k]];
  if (!whole) {
    Diagnostic d{.slug = "shape-mismatch",
                 .headline = "at() of " + op.name +
                             ", which has no leading dim here: it takes the " +
                             "first of three or more"};
    d.fields.emplace_back("line", caller_excerpt());
    throw KernelError(std::move(d));
  }
  Part some = part;
  some.start[seen.front()] = index;
  some.size[seen.front()] = known(1);
  some.dropped[seen.front()] = true;
  return some;
}

Part slice(const Part& part, Number row, Number rows, Number col, Number cols) {
  const Operand& op = *part.of;
  Part some = part;
  const auto take = [&](int dim, Number start, Number size) {
    const auto d = static_cast<std::size_t>(dim);
    some.start[d] = part.start[d] + start;
    some.size[d] = size;
  };
  const int r = row_dim(op);
  const int c = column_dim(op);
  if (!has_row_dim(part)) refuse("a slice of a block of several leading dims: " + op.name);
  if (c < 0 || (r < 0 && !(row.known() && row.lo == 0 && rows.known() && rows.lo == 1)))
    refuse("a slice of a block of one row: " + op.name);
  if (r >= 0) take(r, row, rows);
  take(c, col, cols);
  return some;
}

AnyTile load(const Part& part, int rows, int cols) {
  const Operand& op = *part.of;
  if (!op.present) fail_absent(op);
  if (op.role == Role::smem) refuse("SMEM scratch");
  const std::vector<std::int64_t> dims = extents(part);
  const std::string element = op.element();
  std::vector<Value> operands = indices(part);
  operands.insert(operands.begin(), op.memref);
  AnyTile tile{kNoValue, rows, cols, op.dtype, 0};
  tile.value = trace().record("vector.load", std::move(operands), "", vector_type(dims, element));
  if (dims != std::vector<std::int64_t>{rows, cols})
    tile.value =
        trace().record("vector.shape_cast", {tile.value}, "", vector_type({rows, cols}, element));
  return op.role == Role::in && op.padded ? pad(part, tile) : tile;
}

void store(const Part& part, const AnyTile& tile, const LaneMask* mask) {
  const Operand& op = *part.of;
  if (op.role == Role::smem) refuse("SMEM scratch");
  // Mosaic has masked stores of 32-bit elements alone.
  if (mask != nullptr && bit_width(op.dtype) != 32) {
    const AnyTile old = load(part, tile.rows, tile.cols);
    AnyTile chosen = tile;
    chosen.value = trace().record("arith.select", {mask->value, tile.value, old.value}, "",
                                  vector_type({tile.rows, tile.cols}, op.element()));
    store(part, chosen);
    return;
  }
  const std::vector<std::int64_t> dims = extents(part);
  const bool same = dims == std::vector<std::int64_t>{tile.rows, tile.cols};
  const auto shaped = [&](Value v, const std::string& element) {
    return same ? v : trace().record("vector.shape_cast", {v}, "", vector_type(dims, element));
  };
  std::vector<Value> operands{shaped(tile.value, op.element()), op.memref};
  const std::vector<Value> at = indices(part);
  operands.insert(operands.end(), at.begin(), at.end());
  if (mask != nullptr) operands.push_back(shaped(mask->value, "i1"));
  trace().record("tpu.vector_store", std::move(operands),
                 "add = false, operandSegmentSizes = array<i32: 1, 1, " +
                     std::to_string(at.size()) + ", " + (mask != nullptr ? "1" : "0") +
                     ">, strides = array<i32>");
}

namespace {
void check_scalar(const Operand& op, Number index) {
  if (op.role != Role::smem || op.dtype != DType::i32)
    refuse("SMEM scratch of " + std::string(name(op.dtype)) + ": " + op.name);
  if (index.known() && (index.lo < 0 || index.lo >= op.block[0]))
    fail_scalar_index(op.name.c_str(), index.lo, static_cast<int>(op.block[0]));
}
}  // namespace
Number load_scalar(const Operand& op, Number index) {
  check_scalar(op, index);
  return number_in(trace().record("memref.load", {op.memref, index.index()}, "", "i32"),
                   std::numeric_limits<std::int32_t>::min(),
                   std::numeric_limits<std::int32_t>::max());
}
void store_scalar(const Operand& op, Number index, Number value) {
  check_scalar(op, index);
  trace().record("memref.store", {value.i32(), op.memref, index.index()}, "");
}

Value SemRef::one() const {
  if (of_ == nullptr) return barrier_;
  const std::string element = of_->element();
  const Value some = trace().record("tpu.memref_slice", {of_->memref, at_.i32()},
                                    "operandSegmentSizes = array<i32: 1, 1, 0>",
                                    memref_type({1}, element, kSemaphores));
  return trace().record("tpu.memref_squeeze", {some}, "", one_semaphore(element));
}

void AsyncCopy::start(int priority) const {
  const Value from = view(from_);
  const Value to = view(to_);
  const std::string more =
      ", priority = " + std::to_string(priority) + " : i32, strict_ordering = false";
  if (!remote_) {
    trace().record("tpu.enqueue_dma", {from, to, landed_.one()},
                   "operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>" + more);
    return;
  }
  const Value sent = sent_.one();
  trace().record("tpu.enqueue_dma", {from, sent, to, landed_.one(), device_.i32()},
                 "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>" + more);
}

void AsyncCopy::wait_for(const SemRef& semaphore) const {
  const Value sem = semaphore.one();
  const Value from = view(from_);
  const Value to = view(to_);
  trace().record("tpu.wait_dma2", {sem, from, to},
                 "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, strict_ordering = false");
}

void signal(const SemRef& sem, Number n, const Number* device) {
  const Value one = sem.one();
  if (device == nullptr)
    trace().record("tpu.sem_signal", {one, n.i32()},
                   "operandSegmentSizes = array<i32: 1, 1, 0, 0>");
  else
    trace().record("tpu.sem_signal", {one, n.i32(), device->i32()},
                   "operandSegmentSizes = array<i32: 1, 1, 1, 0>");
}
void wait(const SemRef& sem, Number n) { trace().record("tpu.sem_wait", {sem.one(), n.i32()}, ""); }
Number read(const SemRef& sem) {
  return number_in(trace().record("tpu.sem_read", {sem.one()}, "", "i32"), 0,
                   std::int64_t{1} << 30);
}

}  // namespace tessera::mosaic
