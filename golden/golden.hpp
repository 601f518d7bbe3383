// A golden: what a kernel made of certain inputs, how far another build may be from it, and what
// its blocks held on the way. A folder:
//
//   manifest.json       schema tessera.golden/1: kernel, parameters, error model, toolchain, hashes
//   inputs/NAME.npy     every array and prefetched scalar that the kernel was given; of a Mosaic
//                       module beside it the files of the call (golden/call_golden.hpp)
//   outputs/NAME.npy    what tessera computed
//   bounds/NAME.npy     f32 per element of an output: |theirs - ours| of any conforming build
//   steps.npy           checksums of blocks (sim/pipeline/step_checksums.hpp), a row each
//
// The manifest holds the SHA-256 of every file, and of itself (with that field's digits as zeros).
// golden/python/tessera_golden.py reads the same with NumPy alone.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/array.hpp"
#include "sim/bounds/error_model.hpp"
#include "sim/pipeline/run.hpp"

namespace tessera::golden {

inline constexpr const char* kSchema = "tessera.golden/1";

struct NamedArray {
  std::string name;
  Array array;
};

/// A file that is no array, by its path in the golden.
struct File {
  std::string path;
  std::string bytes;
};

struct Output {
  std::string name;
  Array values;
  Array bounds;  ///< f32
  Shape block;   ///< of the grid's steps; rank 0 if the array is not cut into blocks
};

/// Rows of steps.npy: device, the grid step's ids, ref, block, checksum; i64 each, the checksum's
/// 64 bits reinterpreted.
struct Steps {
  std::vector<std::string> dims;  ///< names of the grid's dimensions
  int parallel = 0;               ///< how many of them are parallel, the first ones
  std::vector<std::string> refs;  ///< what `ref` counts
  Array rows;                     ///< i64[n, dims + 4]
};

struct Golden {
  std::string kernel;
  std::string frontend = "cpp";  ///< or "mosaic", "triton"
  std::vector<std::pair<std::string, double>> sizes;
  std::vector<std::pair<std::string, int>> tiles;
  std::string dtype;
  std::string device;  ///< whose pipeline was simulated
  int devices = 0;     ///< of the mesh, where that is no size of the kernel
  std::uint64_t seed = 0;
  std::string inputs_kind;
  std::string profile;
  std::string command;  ///< makes it again
  ErrorModel error_model;
  std::vector<NamedArray> inputs;
  std::vector<File> files;
  std::vector<Output> outputs;
  Steps steps;
};

/// Takes outputs, bounds and checksums of a run.
void take_result(Golden& golden, RunResult result, const std::vector<std::string>& output_names);

/// Writes into `folder`, which is new, empty or a golden: all of it or nothing. Throws InputError.
void write(const std::filesystem::path& folder, const Golden& golden);

/// Throws InputError[bad-golden] where the folder is no golden, of another schema, or was touched
/// or truncated since it was made: with the file and the reason.
Golden read(const std::filesystem::path& folder);

/// One line per part: for people.
std::string describe(const Golden& golden);

}  // namespace tessera::golden
