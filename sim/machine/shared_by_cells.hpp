// An array in HBM that copies of parallel cells reach, on a device that runs all cells on one core.
//
// Two cores share the cells, half each. Copies of one core are in order, those of two are not: what
// the second half touches must not be what the first half wrote, nor what it writes what the first
// half read. Scratch, which each core could have for itself, may be written by both, and not carry
// what one half wrote to the other. Sums into memory, which come in any order, are let through.
//
// Kept are two bits per element, and where each line of the first half touched the array.
#pragma once

#include <cstdint>
#include <vector>

#include "memory_model/ref.hpp"
#include "sim/machine/machine.hpp"

namespace tessera {

class SharedByCells final : public Buffer {
 public:
  /// `scratch`: of the kernel alone.
  SharedByCells(std::string name_, DType dtype_, Shape shape_, std::byte* data, bool scratch)
      : Buffer(std::move(name_), Space::hbm, dtype_, shape_), data_(data), scratch_(scratch) {}
  const std::byte* bytes() override { return data_; }
  std::byte* writable() override { return data_; }

  /// Reports, once, an access that two cores would not have in this order
  /// (KernelError[parallel-dependence]).
  void access(const MachineCore& c, const Access& a);

 private:
  /// Elements that accesses of one kind touched: a bit each.
  class Touched {
   public:
    void add(std::int64_t begin, std::int64_t end);
    bool any(std::int64_t begin, std::int64_t end) const;
    void make_room(std::int64_t elems);

   private:
    std::vector<bool> bits_;
  };
  /// What a line of the first half did.
  struct Line {
    Access first;
    Box hull;
  };

  void note(const Access& a);
  const Line* line_at(const Box& box, bool writes_alone) const;

  std::byte* data_;
  bool scratch_;
  bool reported_ = false;
  Touched read_;
  Touched written_;
  std::vector<Line> lines_;
};

}  // namespace tessera
