// What a device is made of: capacities, bandwidths, peak rates, native tile, alignment rules.
//
// The figures live in memory_model/devices/<name>.json, each as {"value", "unit", "source"}; they
// are embedded in the library at build time; nothing else lists devices. A spec of the user's own
// is a file of the same form. Errors: SpecError names the file, the figure and what was wrong with
// it. Left out: anything that changes results. A spec changes bytes, limits and predicted time,
// never bits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "memory_model/layout.hpp"

namespace tessera {

struct SpecError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One figure of a spec, as `tessera devices NAME` prints it.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string source;
};

struct DeviceSpec {
  enum class Kind { tpu, gpu };

  std::string name;
  std::string title;
  Kind kind = Kind::tpu;

  std::int64_t hbm_bytes = 0;   ///< per chip
  std::int64_t vmem_bytes = 0;  ///< per core; shared memory per CTA on a GPU
  /// What its compiler gives a kernel of VMEM unless the author says otherwise; 0: all.
  std::int64_t scoped_vmem_bytes = 0;
  /// XLA keeps operands of a call in VMEM where they fit, even if they come from outside of the
  /// program: they need no windows then.
  bool keeps_operands_in_vmem = false;
  std::int64_t smem_bytes = 0;  ///< per core; kernel parameters on a GPU
  int cores = 1;                ///< cores that share the HBM: TensorCores, or SMs
  int compute_capability = 0;   ///< of an NVIDIA GPU, ten times: 90 is 9.0; 0: unknown
  int semaphores = 0;           ///< per core
  double hbm_bytes_per_s = 0;
  double remote_bytes_per_s = 0;  ///< to other devices, all links together; 0: unknown
  int remote_links = 0;           ///< of a TPU, two for each axis of its torus; 0: unknown
  double dma_latency_s = 0;       ///< from start to the first byte; 0: unknown
  double vector_ops_per_s = 0;    ///< of all vector units, on 32 bits; 0: unknown
  std::map<std::string, double> peak_flops;  ///< by dtype name, dense, per chip
  int sublanes32 = 1;                        ///< native tile of 32-bit elements
  int lanes = 1;
  /// Constants of models of time (`model_...`), by name without "model_": each model knows its own
  /// (predict/gpu_model.hpp). Empty: nothing has been fitted to the device.
  std::map<std::string, Figure> model;
  std::vector<Figure> figures;  ///< all of the above with their sources, in file order

  /// What JAX calls the chip; empty on what is no TPU of its.
  struct Jax {
    std::string device_kind;  ///< "TPU v6 lite"
    std::string chip;         ///< "v6e", as recorded calls name it
    std::string source;
  };
  Jax jax;

  std::string origin;  ///< what load_device() was given: a name or a file
  std::string json;    ///< the text that it was read from

  /// A TPU core keeps its blocks from one grid step to the next, also across parallel dimensions; a
  /// GPU's CTA (one parallel cell) starts empty.
  bool keeps_blocks_across_cells() const { return kind == Kind::tpu; }
  /// `accum` scratch is VMEM on a TPU and registers on a GPU.
  bool accumulators_in_vmem() const { return kind == Kind::tpu; }
  NativeTile tile(DType d) const { return native_tile(sublanes32, lanes, d); }
  std::int64_t padded_bytes(DType d, const Shape& s) const {
    return tessera::padded_bytes(d, s, tile(d));
  }
  /// The same with Mosaic's tiles for arrays of few rows.
  std::int64_t compact_bytes(DType d, const Shape& s) const {
    const std::int64_t rows = s.rank > 1 ? s[s.rank - 2] : 1;
    return tessera::padded_bytes(d, s, s.rank > 1 ? compact_tile(tile(d), d, rows) : tile(d));
  }
  /// Peak rate for products of operands of this type; 0 where the spec has none.
  double peak(DType d) const;
};

/// Names of the embedded specs, in alphabetical order.
std::vector<std::string> device_names();
/// An embedded spec by name, or a file if `name` ends in ".json". Throws SpecError.
DeviceSpec load_device(const std::string& name);
/// The embedded spec of a chip as a recorded call names it: "v6e", "v6e-8", "7x".
std::optional<DeviceSpec> device_of_chip(std::string_view chip);
/// tpu-v5e, parsed once.
const DeviceSpec& default_device();
/// Throws SpecError naming `origin`.
DeviceSpec parse_device(std::string_view json, const std::string& origin);

}  // namespace tessera
