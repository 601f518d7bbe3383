// A module of CUDA kernels without a GPU, for made_up_gpu.sh: matmul in bf16, whose time is known.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "cli/cuda_interface.hpp"
#include "cuda/backend.hpp"

namespace tessera::cuda {

namespace {

/// Seconds: the fastest is 64, 256, 64, which no model ranks first; a block as large as the
/// default's takes a tenth more.
double seconds_of(const std::vector<int>& tiles) {
  const double off[] = {std::log2(tiles[0] / 64.), std::log2(tiles[1] / 256.),
                        std::log2(tiles[2] / 64.)};
  return 1e-4 * (1 + 0.1 * std::abs(off[0]) + 0.05 * std::abs(off[1]) + 0.04 * std::abs(off[2]));
}

class MadeUpKernel final : public Bound {
 public:
  MadeUpKernel(const Launch& launch, const std::vector<int>& tiles) : seconds(seconds_of(tiles)) {
    const auto size = [&](std::size_t i) { return static_cast<std::int64_t>(launch.sizes.at(i)); };
    const std::int64_t m = size(0);
    const std::int64_t n = size(1);
    const std::int64_t k = size(2);
    arrays_ = {{"x", DType::bf16, {m, k}, true, false},
               {"y", DType::bf16, {k, n}, true, false},
               {"o", DType::bf16, {m, n}, false, true}};
  }
  const std::vector<BoundArray>& arrays() const override { return arrays_; }
  void call(void* const* arrays, void*) override {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays[i] == nullptr) throw CudaError("no memory for " + arrays_[i].name);
    }
  }
  double seconds;

 private:
  std::vector<BoundArray> arrays_;
};

class MadeUpStopwatch final : public Stopwatch {
 public:
  void* array(const void* data, std::size_t bytes) override {
    auto& made = arrays_.emplace_back(bytes);
    if (data != nullptr) std::memcpy(made.data(), data, bytes);
    return made.data();
  }
  double time(Bound& kernel, void* const* arrays, int calls, double) override {
    kernel.call(arrays, nullptr);
    const double noise = 1 + 0.002 * normal_(draw_);
    return dynamic_cast<MadeUpKernel&>(kernel).seconds * calls * noise;
  }

 private:
  std::vector<std::vector<std::byte>> arrays_;
  std::mt19937_64 draw_{1};
  std::normal_distribution<double> normal_;
};

Backend made_up() {
  Backend backend;
  for (const int bm : {64, 128}) {
    for (const int bn : {64, 128, 256}) {
      for (const int bk : {64, 128}) {
        const std::vector<int> tiles{bm, bn, bk};
        Instance& instance = backend.instances.emplace_back();
        instance.kernel = "matmul";
        instance.dtype = DType::bf16;
        instance.tiles = tiles;
        instance.bind = [tiles](const Launch& launch) {
          return std::make_unique<MadeUpKernel>(launch, tiles);
        };
      }
    }
  }
  backend.device = [] {
    Device device;
    device.there = true;
    device.gpus = 1;
    device.name = "NVIDIA H200";
    device.capability = 90;
    device.driver = "1.2.3";
    return device;
  };
  backend.stopwatch = [] { return std::make_unique<MadeUpStopwatch>(); };
  return backend;
}

}  // namespace

}  // namespace tessera::cuda

extern "C" const char* tessera_cuda_interface() { return tessera::cli::kCudaInterface.data(); }
extern "C" const tessera::cuda::Backend* tessera_cuda_backend() {
  static const tessera::cuda::Backend backend = tessera::cuda::made_up();
  return &backend;
}
