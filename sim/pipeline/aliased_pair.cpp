#include "sim/pipeline/aliased_pair.hpp"

#include <algorithm>
#include <cstring>

namespace tessera {

namespace {

/// Marks the elements of `shape` that a box touches.
void mark(std::vector<char>& marks, const Shape& shape, const Box& box, int bits) {
  marks.resize(static_cast<std::size_t>(shape.elems()));
  const auto along = [&](auto&& self, int dim, std::int64_t base) -> void {
    const Progression& p = box.dims[static_cast<std::size_t>(dim)];
    const bool last = dim == shape.rank - 1;
    const std::int64_t unit = last ? bits : 1;
    for (std::int64_t i = 0; i < p.count; ++i) {
      const std::int64_t begin = (p.start + i * p.step) / unit;
      const std::int64_t end = (p.start + i * p.step + p.width + unit - 1) / unit;
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t element = base * shape[dim] + at;
        if (last)
          marks[static_cast<std::size_t>(element)] = 1;
        else
          self(self, dim + 1, element);
      }
    }
  };
  if (shape.rank == 0)
    marks.assign(marks.size(), 1);
  else
    along(along, 0, 0);
}

bool marked(const std::vector<char>& marks, std::int64_t e) {
  return !marks.empty() && marks[static_cast<std::size_t>(e)] != 0;
}

}  // namespace

AliasedPair::AliasedPair(Block& in, Block& out, int operand) : in_(in), out_(out) {
  lost_.operand = operand;
  in_watch_.pair = out_watch_.pair = this;
  out_watch_.of_output = true;
  in.watch = &in_watch_;
  out.watch = &out_watch_;
}

bool AliasedPair::applies(const Block& in, const Block& out) {
  return in.plan->block == out.plan->block && in.shape == out.shape && bit_width(in.dtype) >= 8 &&
         !in.plan->written && !in.plan->by_element && !out.plan->by_element;
}

void AliasedPair::moved() {
  standing_ = writing_ = reading_ = false;
  from_in_.clear();
  read_out_.clear();
}

void AliasedPair::access(const Access& a, bool of_output) {
  const int bits = bit_width(out_.dtype);
  if (!of_output && a.write) return moved();  // by a copy
  if (!of_output) {
    if (!std::exchange(reading_, true)) read_in_ = a.site;
    mark(from_in_, in_.shape, a.box, bits);
    return;
  }
  if (!a.write || a.atomic) mark(read_out_, out_.shape, a.box, bits);
  if (!a.write || std::exchange(writing_, true)) return;
  wrote_ = a.site;
  if (!standing_) return;
  const std::byte* const now = out_.bytes();
  before_.assign(now, now + packed_bytes(out_.dtype, out_.shape.elems()));
  defined_before_ = out_.shadow;
}

void AliasedPair::end_step(const std::int64_t* in_index, const std::int64_t* out_index) {
  const int rank = out_.plan->block.rank;
  if (standing_ && writing_ && reading_ && std::equal(in_index, in_index + rank, out_index)) {
    const std::int64_t width = bit_width(out_.dtype) / 8;
    const std::byte* const fetched = in_.bytes();
    const std::byte* const now = out_.bytes();
    const auto differ = [&](const std::byte* a, const std::byte* b, std::int64_t e) {
      return std::memcmp(a + e * width, b + e * width, static_cast<std::size_t>(width)) != 0;
    };
    std::int64_t elems = 0;
    for (std::int64_t e = 0; e < out_.shape.elems(); ++e) {
      elems += differ(before_.data(), now, e) && differ(before_.data(), fetched, e) &&
                       defined_before_.at(e) == Shadow::init && marked(from_in_, e) &&
                       !marked(read_out_, e)
                   ? 1
                   : 0;
    }
    if (elems > 0 && lost_.steps++ == 0) {
      lost_.block = out_.plan->number_of(out_index);
      lost_.wrote = wrote_before_;
      lost_.read = read_in_;
    }
    lost_.elems += elems;
  }
  standing_ = standing_ || writing_;
  if (std::exchange(writing_, false)) wrote_before_ = wrote_;
  reading_ = false;
  from_in_.clear();
}

}  // namespace tessera
