// The TPU build's kernels as a host program sees them.
//
// A library per kernel (cli/CMakeLists.txt) holds its body, compiled for the backend that writes
// modules, in each element type. Building runs the body and gives a module as MLIR's generic text
// in stable_mosaic, version 11: tessera reads it (pallas/load.hpp), and JAX's own bindings make of
// it the bytecode that tpu_custom_call takes. Text, because writing it needs neither MLIR nor JAX
// here: who builds a kernel needs a C++ compiler and nothing else.
//
// The module is for the sizes, the tiles and the prefetched arrays that it was built with: the
// extents of a grid whose bounds are data are those of these arrays.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "memory_model/dtype.hpp"
#include "memory_model/layout.hpp"
#include "sim/body/prepared_host.hpp"

namespace tessera::mosaic {

struct Request {
  std::vector<double> sizes;      ///< in the order of the kernel's `sizes`
  std::vector<int> tiles;         ///< of its spec
  std::vector<HostArray> inputs;  ///< arrays that prepare() asks for
  bool fused = true;              ///< else fma() is a product and a sum (mosaic/fused.hpp)
};

/// An array of the call: of one device, if there are several.
struct CallArray {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

struct BuiltModule {
  std::string text;
  std::string name;  ///< of its main function
  std::vector<CallArray> prefetched;
  std::vector<std::vector<std::int32_t>> prefetched_words;  ///< their bits
  std::vector<CallArray> inputs;
  std::vector<CallArray> outputs;
  int dropped = 0;  ///< the last ones of outputs, that callers drop: scratch in HBM
  struct Alias {
    int input;
    int output;
  };
  std::vector<Alias> aliases;
  int devices = 1;
  bool communicates = false;
  int collective_id = -1;  ///< of its barrier; -1: it has none
};

struct Instance {
  DType dtype = DType::f32;
  /// Throws KernelError: unsupported, shape-mismatch.
  std::function<BuiltModule(const Request&)> build;
};

/// What a library of a kernel holds; its one symbol, tessera_mosaic_kernel, gives it.
struct Kernel {
  std::string name;
  std::vector<std::string> sizes;  ///< in the order of a Request's
  std::vector<std::string> tiles;
  std::vector<Instance> instances;
};

/// The kernels of kernels/entries/, linked into this program (tests).
const std::vector<const Kernel*>& traced_kernels();

}  // namespace tessera::mosaic
