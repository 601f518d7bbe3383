// The host's side of a device: calls that are checked, arrays, tensor maps, and waiting for a
// kernel.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>

#include "cuda/backend.hpp"
#include "cuda/fetch.hpp"
#include "memory_model/layout.hpp"
#include "sim/body/prepared_host.hpp"

namespace tessera::cuda {

/// Throws CudaError for a call that failed.
void check(cudaError_t error, const char* call, const std::string& what);

/// Makes a GPU the one of the calls that follow.
void use_gpu(int gpu, const std::string& what);
/// Lets each of the first `gpus` read and write the memory of the others.
void enable_peers(int gpus, const std::string& what);

/// Memory of the GPU in use; freed with this.
class DeviceArray {
 public:
  /// Filled with the bytes at `data`, or with NaNs.
  DeviceArray(const void* data, std::size_t bytes, const std::string& what);
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray();
  void* get() const { return data_; }
  void clear(const std::string& what) const;
  /// As many bytes from `data` as it has.
  void fill(const void* data, const std::string& what) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What a tensor map says (cuTensorMapEncodeTiled): an array in row-major order and a box of it.
struct MapRequest {
  const void* array = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Shape box;
  bool swizzled = false;       ///< rows of 128 bytes, chunks exchanged (cuda/packing.hpp)
  std::int64_t row_elems = 0;  ///< from one row to the next, if more than the last extent
};
/// A copy of an array whose rows begin at multiples of 16 bytes: made anew in every run.
struct Spread {
  const void* from;
  void* to;
  long long rows;
  int row_bytes;
  int pitch;
  void launch(cudaStream_t stream, const std::string& what) const;
};
/// The portable build's: false if its rows do not begin at multiples of 16 bytes.
inline bool in_chunks(const MapRequest& request, ChunkedArray& map) {
  const int last = request.shape.rank - 1;
  if (last < 0 || bit_width(request.dtype) < 8) return false;
  map = {request.array, request.row_elems > 0 ? request.row_elems : request.shape[last]};
  const bool rows = request.shape.elems() > request.shape[last];
  return reinterpret_cast<std::uintptr_t>(request.array) % 16 == 0 &&
         (!rows || packed_bytes(request.dtype, map.row_elems) % 16 == 0);
}
/// False if the array's alignment, extents or strides allow no map.
bool encode_map(const MapRequest& request, CUtensorMap& map, const std::string& what);

/// Multiprocessors of the GPU in use.
int multiprocessors();
/// Ten times its compute capability.
int capability();

/// What a run is on one device of its mesh.
struct Part {
  int gpu = 0;
  std::function<void(cudaStream_t)> launch;
};
/// Runs the parts together and waits. Parts that do not end within `limit_s` throw HungKernel.
/// Returns the seconds that the longest took, by events.
double timed(const std::vector<Part>& parts, double limit_s, const std::string& what);

}  // namespace tessera::cuda
