// What steps do to memory: loads and stores of part of a buffer, told to the machine.
#pragma once

#include <optional>
#include <span>

#include "program/program.hpp"

namespace tessera::program {

/// The part of a memref that begins at `start` and has `extents`, checked (oob-index). Steps may be
/// 0: the one row repeats.
Ref part_of(const MemRef& m, std::span<const std::int64_t> start, const Shape& extents,
            std::span<const std::int64_t> steps = {});

/// A slice of a view that need not lie in it.
Ref::View outside_slice(Ref::View v, int dim, std::int64_t start, std::int64_t size);
/// True of a slice that begins in an array of HBM and ends no farther than its tiles do.
bool ends_in_tiles(const Exec& x, const MemRef& m, int dim, std::int64_t start, std::int64_t size);
/// One of the copies that a copy consists of where an array's tiles pad it.
struct PaddedCopy {
  Ref from;
  Ref to;
  bool padding = false;  ///< nothing is at its other end: undefined, or nobody's
};
/// Of a copy of which one side ends in the padding of its array; nothing of another copy.
std::vector<PaddedCopy> padded_copies(Exec& x, const MemRef& from, const MemRef& to);
/// What an access that may be outside reads: the memref's part, and beside it memory that nothing
/// has written, where the kernel switched bounds checks off. Throws KernelError[oob-index] where it
/// did not.
Ref readable(Exec& x, const MemRef& m);
/// part_of(), or what readable() makes of a part that is outside.
Ref readable_part(Exec& x, const MemRef& m, std::span<const std::int64_t> start,
                  const Shape& extents, std::span<const std::int64_t> steps);

Vector load(Exec& x, const Ref& from);
/// Where `mask` (a byte per element, or null) is not zero.
void store(Exec& x, const Vector& v, const Ref& to, const std::byte* mask);
/// A part of a memref that has a mask, of which elements outside are not in it.
struct MaskedPart {
  Ref ref;                          ///< what of it lies inside
  std::vector<std::int64_t> place;  ///< in the whole part, of each element of `ref`
  std::vector<std::byte> mask;      ///< likewise
};
/// Of a part that leaves its memref with masked-off elements only; nothing if it does not leave it.
/// Throws KernelError[oob-index] where the mask is set outside.
std::optional<MaskedPart> masked_part(const MemRef& m, std::span<const std::int64_t> start,
                                      const Shape& extents, std::span<const std::int64_t> steps,
                                      const std::byte* mask);

/// One element; `index`: scalar slots.
Scalar load_element(Exec& x, const MemRef& m, std::span<const int> index, DType index_type);
void store_element(Exec& x, const Scalar& s, const MemRef& m, std::span<const int> index,
                   DType index_type);

/// Adds slot `amount` to an i32 of SMEM, whoever's it is, in one go; slot `before` has what it was.
void add_to_element(Exec& x, const MemRef& m, std::span<const int> index, DType index_type,
                    int amount, int before);

/// Makes what a scope allocates; its region's end gives it back.
MemRef allocate(Exec& x, const Type& t, const std::string& name);
void leave_scope(Exec& x);
/// The same of a scope that did not come to its end: without its checks.
void free_scope(Exec& x);

}  // namespace tessera::program
