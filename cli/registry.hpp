// What the commands ask of kernels, and what they get.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/backends.hpp"
#include "cli/host.hpp"
#include "cli/kernel_handle.hpp"
#include "golden/validate.hpp"
#include "memory_model/device_spec.hpp"

namespace tessera::cli {

/// What a user asked of a kernel.
struct Request {
  int case_index = 0;
  std::vector<std::pair<std::string, std::string>> assignments;  ///< name=value, sizes and tiles
  DType dtype = DType::f32;
  DeviceSpec device;
  std::map<std::string, std::string> files;  ///< ref -> .npy
  std::uint64_t seed = 0;
  InputKind input_kind = InputKind::uniform;
  bool keep_inputs = false;  ///< in the outcome
  bool check = true;
  std::optional<BackendKind> backend = {};      ///< none: auto
  int rounds = 0;                               ///< on CUDA: runs to time
  int steps_per_cell = 0;                       ///< on CUDA: keep checksums of so many
  double time_limit = 300;                      ///< on CUDA: seconds of one run
  bool oversubscribe = false;                   ///< on CUDA: several devices of a mesh on one GPU
  int devices = 0;                              ///< 0: the kernel's size of that name, or one
  std::function<void(const char*)> phase = {};  ///< called when another phase of the work begins
  RunOptions options;                           ///< device, who and command are filled in
};

struct Parameter {
  std::string name;
  std::string what;
  double value = 0;
};

/// The sizes and tiles that a request comes to.
struct Setting {
  std::vector<Parameter> sizes;
  std::vector<std::pair<std::string, int>> tiles;
  std::string case_name;  ///< "case 1 (ragged)", "" if sizes or tiles were given
};

/// What was asked to run, what ran, and why.
struct Receipt {
  std::string requested = "auto";
  BackendKind ran = BackendKind::interpret;
  std::string why;
  std::string device;  ///< the GPU, or how many of them
  int gpus = 0;
  cuda::Launched launch;  ///< on it
};

/// Whether or not they can run. Throws InputError.
Setting setting_of(const KernelHandle& kernel, const Request& request);

/// A platform that has a kernel, and whether it may serve a request.
struct Implementation {
  const char* platform;
  int priority;         ///< of those that may serve, `auto` takes the highest; 0: never unasked
  const char* when;     ///< on which condition
  std::string why_not;  ///< "" if it may
};
/// Those of the highest priority first. Throws InputError.
std::vector<Implementation> implementations_of(const KernelHandle& kernel, const Request& request);

struct Outcome {
  Setting setting;
  Receipt receipt;
  RunResult result;
  std::vector<int> mesh = {1};
  std::optional<golden::Validation> validation;
  std::optional<Bytes> closed_form;  ///< kernel.hbm_bytes for this setting and device
  std::vector<std::string> output_names;
  std::vector<std::pair<std::string, Array>> inputs;  ///< if they are kept: arrays and scalars
};

/// What `show` prints of one setting.
struct Description {
  Setting setting;
  Plan plan;
  std::optional<Bytes> closed_form;
};

/// Sizes, tiles and arrays of a request, without a run.
struct BuildInputs {
  Setting setting;
  int devices = 1;
  bool mesh = false;  ///< the kernel's: arrays hold the parts of all devices, along dim 0
  std::vector<std::pair<std::string, Array>> arrays;  ///< inputs, and what prepare() asked for
};

/// An instance with what it takes beside operands, which lie on the GPU already.
struct GpuCall {
  CudaFit fit;
  cuda::Launch launch;         ///< its sizes, and the arrays that prepare() asked for
  std::unique_ptr<Host> host;  ///< which has them
};

/// Kernels by name; one is made when it is first asked for.
class Kernels {
 public:
  using Make = std::function<KernelHandle(const std::string& name)>;
  Kernels(std::vector<std::string> names, Make make);
  Kernels(std::initializer_list<KernelHandle> all);

  /// Throws InputError[unknown-kernel] with the nearest.
  const KernelHandle& find(const std::string& name) const;
  /// In the order of their names' list.
  std::vector<std::reference_wrapper<const KernelHandle>> all() const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  const KernelHandle& at(std::size_t i) const;

  std::vector<std::string> names_;
  Make make_;
  mutable std::vector<std::unique_ptr<KernelHandle>> made_;
};

/// The kernels of kernels/entries/, linked into this program (tests, benchmarks). tessera itself
/// loads them: cli/loaded_kernels.hpp.
const Kernels& builtin_kernels();

/// Throws InputError[unknown-dtype].
DType parse_dtype(const std::string& text, const KernelHandle& kernel);

/// A whole number; throws InputError naming `name`.
double parse_number(const std::string& name, const std::string& text, bool real);

}  // namespace tessera::cli
