#include "sim/tiles/block_ref.hpp"

namespace tessera {

void fail_missing(const BlockPart& part, const Shadow& shadow, std::int64_t first) {
  if (shadow.at(first) == Shadow::stale)
    throw KernelError(parallel_dependence_scratch(part, first));
  throw KernelError(uninit_read(part, first, shadow.missing()));
}

namespace {
/// Of the tile that a block has: up to 8, of bytes 32 where there are as many.
int tile_rows(const OperandPlan& op, const DeviceSpec& device) {
  const std::int64_t rows = op.kept.rank > 1 ? op.kept[op.kept.rank - 2] : 1;
  const int of_bytes = native_tile(device.sublanes32, device.lanes, DType::i8).sublanes;
  const bool bytes = bit_width(op.dtype) <= 8 && rows >= of_bytes;
  return compact_tile({bytes ? of_bytes : device.sublanes32, device.lanes}, op.dtype, rows)
      .sublanes;
}
}  // namespace

void check_slice(const OperandPlan& op, const DeviceSpec& device, int row, int col, int rows,
                 int cols, int of_rows, int of_cols, int base_row, int base_col) {
  if (row < 0 || rows < 0 || row + rows > of_rows) {
    throw KernelError(oob_index(op, "rows", row, rows, of_rows));
  }
  if (col < 0 || cols < 0 || col + cols > of_cols) {
    throw KernelError(oob_index(op, "columns", col, cols, of_cols));
  }
  const NativeTile tile = device.tile(op.dtype);
  if (tile.lanes == 1) return;
  if ((base_col + col) % tile.lanes != 0) {
    throw KernelError(misaligned_slice(op, "column", base_col + col, tile.lanes));
  }
  // 32-bit rows can be read from any sublane; packed ones share theirs.
  if (bit_width(op.dtype) >= 32) return;
  const int unit = tile_rows(op, device);
  if ((base_row + row) % unit != 0)
    throw KernelError(misaligned_slice(op, "row", base_row + row, unit));
}

void fail_scalar(const OperandPlan& op, std::int64_t index) {
  throw KernelError(oob_index(op, "scalars", index, 1, op.cols));
}

void fail_step(const OperandPlan& op) {
  Diagnostic d{.slug = "unsupported",
               .kind = Diagnostic::Kind::unsupported,
               .headline = "a slice of " + op.name + " with a step: only refs in HBM take one"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  throw KernelError(std::move(d));
}
void fail_no_slots(const OperandPlan& op) {
  Diagnostic d{.slug = "shape-mismatch",
               .headline = op.name + " has no slots: it was declared as vmem(name, rows, columns)"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("help", "vmem<T>(\"" + op.name + "\", slots, rows, columns)");
  throw KernelError(std::move(d));
}
void fail_slot(const OperandPlan& op, int slot, int slots) {
  throw KernelError(oob_index(op, "slots", slot, 1, slots));
}

int rows_at(const OperandPlan& op, int taken, int index, int rows) {
  std::int64_t expected = 1;
  for (int d = taken; d + 1 < op.kept.rank; ++d) expected *= op.kept[d];
  if (op.kept.rank - taken < 3 || expected != rows) {
    Diagnostic d{.slug = "shape-mismatch",
                 .headline = "at() of " + op.name +
                             ", which has no leading dim here: it takes the " +
                             "first of three or more"};
    add_kernel_field(d);
    d.fields.emplace_back("line", caller_excerpt());
    d.fields.emplace_back("help", "row(i) and row_range(i, n) take rows");
    throw KernelError(std::move(d));
  }
  const auto extent = static_cast<int>(op.kept[taken]);
  if (index < 0 || index >= extent)
    throw KernelError(oob_index(op, "leading indices", index, 1, extent));
  return rows / extent;
}

void fail_absent(const OperandPlan& op) {
  Diagnostic d{.slug = "uninit-read",
               .headline = op.name + " is read, but its .when() left it out"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back("help", "guard the read with the condition that the spec gives to .when()");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

}  // namespace tessera
