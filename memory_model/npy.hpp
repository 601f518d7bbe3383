// Arrays as NumPy .npy files (format 1.0, 2.0 and 3.0; numpy.lib.format).
//
// numpy has no bf16, fp8 or 4-bit type: ml_dtypes writes them as void records ('<V2', '<V1', and
// '<f1' for float8_e5m2), one byte per 4-bit element. We write bf16 as '<V2' and 8- and 4-bit ones
// as '<V1'; numpy.load(...).view(ml_dtypes.bfloat16) brings the type back. A reader must therefore
// say which type it expects. Errors: NpyError, one line, with the path. Left out: Fortran order,
// big-endian files, structured and object arrays: refused by name.
#pragma once

#include <stdexcept>
#include <string>

#include "memory_model/array.hpp"

namespace tessera {

struct NpyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads `path` as an array of `expected`. Throws NpyError if the file is missing, truncated,
/// longer than its header says, or of another type.
Array read_npy(const std::string& path, DType expected);

/// Reads `path` as bits of `dtype`, whatever type of that width it says: bf16 kept as uint16.
/// f4e2m1fn may also be kept as its values in float32.
Array read_npy_bits(const std::string& path, DType dtype);

/// Writes through a temporary file in the same folder, then renames: a reader sees all of it or
/// none.
void write_npy(const std::string& path, const Array& array);

/// Writes `text` to `path` in the same all-or-nothing way. Throws NpyError.
void write_file_atomically(const std::string& path, const std::string& text);

}  // namespace tessera
