// A custom call in a folder: what the recorder of tests, and tessera.capture(), write.
//
//   kernel.mlirbc (or kernel.mlir, generic text)   the module
//   meta.json      operands and results (files, shapes), aliases, counts, cores, devices
//   config.json    the rest of the call's backend_config
//   device.json    the spec of the device that it ran on, where tessera recorded it; else meta.json
//                  names the chip
//   in<i>.npy      operand i: dynamic grid bounds, prefetched arrays, inputs;
//                  dev<k>_in<i>.npy of device k of a mesh
//   out<j>.npy, ref<j>.npy, out<j>.undef.npy       results to compare with, where there are any
#pragma once

#include <memory>
#include <optional>

#include "program/call.hpp"

namespace tessera::pallas {

using namespace program;

struct ExpectedResult {
  std::optional<Array> interpreted;  ///< out<j>.npy, of an interpret mode
  std::optional<Array> reference;    ///< ref<j>.npy, of a reference
  std::optional<Array> undefined;    ///< i8: not zero where out<j> means nothing
  double interpreted_rtol = 0;
  double interpreted_atol = 0;
  double reference_rtol = 0;
  double reference_atol = 0;
};

struct RecordedCall {
  std::unique_ptr<Program> program;
  Call call;
  int devices = 1;
  int cores = 1;
  std::optional<DeviceSpec> device;  ///< if it is said
  std::vector<ExpectedResult> expected;
  bool eager = false;  ///< recorded with copies that land at once, in the order of their starts
};

/// What a custom call's backend_config (JSON) says of a call.
void apply_config(const std::string& config, Call& call);

/// Throws InputError.
RecordedCall read_call(const std::string& folder);
/// The same without what arrays hold, and without results to compare with: shapes and types are
/// meta.json's, the extents of a dynamic grid are read.
RecordedCall read_call_shapes(const std::string& folder);
/// The files of a call that a compiler gets.
struct CallText {
  std::string module;  ///< bytecode, or generic text
  std::string config;  ///< "" if there is none
};
CallText read_call_text(const std::string& folder);
/// Its device alone.
std::optional<DeviceSpec> device_of_call(const std::string& folder);

/// What write_call() puts into a folder.
struct CallToRecord {
  std::string module;                                ///< bytecode, or generic text
  std::string config;                                ///< backend_config without the body, JSON
  std::vector<std::vector<Array>> operands;          ///< of each device of the mesh
  std::vector<Array> results;                        ///< of one device: types and shapes
  std::vector<std::pair<std::size_t, int>> aliases;  ///< operand, result
  std::size_t inputs = 0;  ///< operands that are no bounds, not prefetched
  std::size_t dynamic_bounds = 0;
  DeviceSpec device;
  int cores = 1;
  bool alone = true;      ///< Call::alone
  bool jax_0_11 = false;  ///< Call::jax_0_11
};

struct CallFile {
  std::string name;  ///< "kernel.mlirbc"
  std::string bytes;
};
/// The files of such a folder but its arrays.
std::vector<CallFile> call_files(const CallToRecord& call);
/// The same of a folder that there is, run on `device`.
std::vector<CallFile> call_files(const std::string& folder, const DeviceSpec& device);

/// "in3.npy", "dev1_in3.npy".
std::string operand_file(std::size_t operand, std::size_t device, std::size_t devices);

/// Makes the folder. Throws NpyError, or InputError if there can be no such folder.
void write_call(const std::string& folder, const CallToRecord& call);

}  // namespace tessera::pallas
