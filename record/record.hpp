// One invocation of a kernel, as it is written down: what was called, on what, what chose its
// configuration, what it moved, and the hashes of what went in and came out. A line of JSON (schema
// tessera.record/1, docs/record.schema.json) in a folder (folder.hpp).
//
// Hashes are SHA-256 of an array's bytes: elements in row-major order as memory holds them, packed
// if they are narrower than a byte.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/array.hpp"
#include "memory_model/device_spec.hpp"
#include "tuning/key.hpp"

namespace tessera::record {

inline constexpr const char* kSchema = "tessera.record/1";

/// An array of an invocation.
struct Noted {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::string sha256;  ///< "": not known, as of what a trace has in an array's place
  std::string file;    ///< in the folder; "": the seed makes it again

  std::string text() const { return name + ": " + describe(dtype, shape); }
  bool operator==(const Noted&) const = default;
};

struct Record {
  std::string time;  ///< UTC, "2026-01-31T12:00:00.000Z"
  std::int64_t process = 0;
  std::string tessera;  ///< version
  std::string operation;
  std::string frontend;  ///< "cpp", "mosaic", "triton", or "python": a function that calls kernels
  tuning::Key key;
  tuning::Configuration configuration;
  std::string tier;                                       ///< that chose it; "": nobody was asked
  std::vector<std::pair<std::string, std::string>> said;  ///< by each tier that was asked
  std::string requested, ran, why;                        ///< backend
  std::string device;
  std::string numerics;
  std::vector<int> mesh = {1};
  int cores = 1;
  std::string schedule;
  bool dry = false;
  std::vector<Noted> inputs, outputs;
  std::int64_t hbm_read_bytes = 0, hbm_write_bytes = 0, remote_bytes = 0;
  double predicted_seconds = 0;          ///< 0: not known
  std::vector<std::string> diagnostics;  ///< slugs of what is wrong
  std::vector<std::string> arguments;    ///< of `tessera run`, in the folder, whose paths they have
  std::string within;                    ///< the function of Python that called it
  double seconds = 0;                    ///< of the simulator or the GPU's host

  bool operator==(const Record&) const = default;
};

/// What a run's report (tessera.run/1) says of itself; inputs, outputs, key, configuration and
/// arguments are left to the caller.
Record record_of(const std::string& run_json);

/// The tuning key of what is no C++ kernel: extents by operand and dim ("0.1=512"); `source`: what
/// it is compiled from.
tuning::Key key_of(const std::string& operation, const DeviceSpec& device,
                   const std::string& source, const std::vector<Noted>& inputs,
                   const std::vector<int>& mesh, int cores);

/// One line, which ends in a newline.
std::string line_of(const Record& record);
/// Throws InputError naming `origin` of what is no record.
Record parse(const std::string& line, const std::string& origin);

/// False of a line that was cut off.
bool is_json(const std::string& line);

/// Of an array's bytes.
std::string hash_of(const Array& array);

}  // namespace tessera::record
