#include "program/unit_shapes.hpp"

namespace tessera::program {

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

std::int64_t registers_of(const Shape& shape, DType dtype) { return tiles_of(shape, dtype).all(); }

bool is_narrow(DType dtype) { return dtype != DType::boolean && bit_width(dtype) < 32; }

std::int64_t register_extent(const Shape& shape, int dim, DType dtype) {
  if (dim + 2 < shape.rank) return 1;
  if (dim + 2 == shape.rank) return rows_of(dtype);
  return shape.rank == 1 || shape[dim - 1] == 1 ? kLanes * kSublanes : kLanes;
}

}  // namespace tessera::program
