#include "memory_model/layout.hpp"

namespace tessera {

Shape row_major_strides(const Shape& s) {
  Shape strides = s;
  std::int64_t step = 1;
  for (int i = s.rank - 1; i >= 0; --i) {
    strides[i] = step;
    step *= s[i];
  }
  return strides;
}

Shape unravel(const Shape& s, std::int64_t linear) {
  Shape index = s;
  for (int d = s.rank - 1; d >= 0; --d) {
    index[d] = linear % s[d];
    linear /= s[d];
  }
  return index;
}

namespace {
std::string join(const std::int64_t* values, int count, char open, char close) {
  std::string text(1, open);
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + close;
}
}  // namespace

std::string to_string(const Shape& s) { return join(s.dims.data(), s.rank, '[', ']'); }
std::string index_string(const std::int64_t* index, int rank) {
  return join(index, rank, '(', ')');
}
std::string describe(DType d, const Shape& s) { return name(d) + to_string(s); }

}  // namespace tessera
