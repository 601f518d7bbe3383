// The CUDA build's kernels as a host program sees them: no CUDA header, no device type.
//
// An instance is one body for one element type and one set of tile sizes, compiled by nvcc
// (cuda/instances/). It takes arrays in host memory, those of all devices of a mesh one after the
// other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory_model/dtype.hpp"
#include "memory_model/layout.hpp"
#include "sim/body/prepared_host.hpp"

namespace tessera::cuda {

/// A CUDA call that failed; the text names it and what was being launched.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A kernel that did not end in time: it still runs, so the process must end without waiting for
/// the device.
struct HungKernel : CudaError {
  using CudaError::CudaError;
};

/// What an accumulator held after a grid step.
struct StepSum {
  int device = 0;
  std::vector<int> ids;
  int operand = 0;  ///< among those that the body gets
  std::uint64_t checksum = 0;
};

struct Launch {
  std::vector<double> sizes;      ///< in the order of the kernel's `sizes`
  std::vector<HostArray> inputs;  ///< operands, and arrays that prepare() asks for
  std::vector<void*> outputs;     ///< in the order of the spec
  std::vector<std::size_t> output_bytes;
  int gpus = 1;               ///< to use; device d of a mesh runs on GPU d % gpus
  int rounds = 0;             ///< runs to time after the first one
  double time_limit_s = 300;  ///< of one run
  int steps_per_cell = 0;     ///< keep checksums of this many steps of each parallel cell
};

struct Launched {
  std::vector<double> seconds;  ///< of each timed run, by events
  int threads = 0;              ///< per CTA, those that only fetch included
  int stages = 0;
  int shared_bytes = 0;
  int registers = 0;    ///< per thread
  int local_bytes = 0;  ///< per thread: spilled
  long long cells = 0;
  bool tensor_cores = false;     ///< dot() by wgmma or mma.sync, not by SIMT lanes
  bool mma_sync = false;         ///< of the two
  int built_for = 90;            ///< ten times a compute capability; all but 90: the portable path
  int capability = 90;           ///< of the GPU, likewise
  bool fast_functions = false;   ///< elementary functions are the GPU's own
  int by_copy_engine = 0;        ///< pipelined inputs that TMA brings, or cp.async by 16 bytes
  bool keeps_checksums = false;  ///< it was built to
  std::vector<StepSum> checksums;
  int by_threads = 0;  ///< those that threads copy: an alignment or a padding forbids TMA
  int spread = 0;      ///< those that are copied before, to rows that TMA takes
};

/// An array in device memory that a bound kernel takes at every call.
struct BoundArray {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  bool read = false;
  bool written = false;
};
/// A kernel with its sizes, for a program that has its own arrays on its own streams: no copy, and
/// after a stream's first call no allocation, so that graphs can capture it.
class Bound {
 public:
  Bound() = default;
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  virtual ~Bound() = default;
  virtual const std::vector<BoundArray>& arrays() const = 0;
  /// Starts it on a stream (a cudaStream_t) of the current device; throws CudaError.
  virtual void call(void* const* arrays, void* stream) = 0;
};

/// Times bound kernels, of any module, on arrays that they share: by events, on a stream of its
/// own.
class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  virtual ~Stopwatch() = default;
  /// Memory of the GPU with these bytes, or NaN if `data` is null, as long as this lives. Throws
  /// CudaError.
  virtual void* array(const void* data, std::size_t bytes) = 0;
  /// Seconds of so many calls on end. Throws CudaError; HungKernel where they take longer than
  /// `limit_s`.
  virtual double time(Bound& kernel, void* const* arrays, int calls, double limit_s) = 0;
};

struct Instance {
  std::string kernel;
  DType dtype = DType::f32;
  std::vector<int> tiles;
  std::function<Launched(const Launch&)> run;
  /// Of the launch's sizes, and inputs for what prepare() asks for; none on a mesh. No GPU yet.
  std::function<std::unique_ptr<Bound>(const Launch&)> bind;
};

/// The device that runs them, or why there is none.
struct Device {
  bool there = false;
  int gpus = 0;        ///< that reach each other's memory, with the first one
  int capability = 0;  ///< ten times its compute capability; 0: no GPU
  std::string name;    ///< "NVIDIA H100 80GB HBM3"
  std::string driver;  ///< "580.65.06", else the CUDA that it has: "CUDA 13.0"
  std::string why;     ///< if it is not there, or not for this build
};

/// What a module of instances (libtessera_cuda.so) holds; its one symbol, tessera_cuda_backend,
/// gives it.
struct Backend {
  std::vector<Instance> instances;  ///< by kernel
  std::function<Device()> device;
  /// On the first GPU. Throws CudaError.
  std::function<std::unique_ptr<Stopwatch>()> stopwatch;
};

}  // namespace tessera::cuda
