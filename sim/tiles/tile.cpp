#include "sim/tiles/tile.hpp"

#include <fmt/format.h>

#include "sim/diagnostics/slugs.hpp"

namespace tessera {

void fail_shapes(const char* op, std::initializer_list<std::pair<int, int>> extents) {
  std::string text;
  for (const auto& [rows, cols] : extents) {
    text += fmt::format("{}({}, {})", text.empty() ? "" : " and ", rows, cols);
  }
  throw KernelError(shape_mismatch(op, text));
}

void fail_nan_born(const char* op, int row, int col, std::initializer_list<double> operands) {
  std::string text;
  for (const double v : operands) text += fmt::format("{}{}", text.empty() ? "" : ", ", v);
  throw KernelError(nan_born(op, {row, col}, text));
}

}  // namespace tessera
