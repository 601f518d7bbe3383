// From an instance's sizes and arrays to a launch: nvcc's side of cuda/backend.hpp.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <deque>
#include <memory>

#include "cuda/backend.hpp"
#include "cuda/kernel.hpp"
#include "sim/body/kernel.hpp"

namespace tessera::cuda {

/// Throws CudaError for a call that failed.
void check(cudaError_t error, const char* call, const std::string& what);

/// Memory of the device; freed with it.
class DeviceArray {
 public:
  DeviceArray(const void* data, std::size_t bytes, const std::string& what);
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray();
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// What prepare(host, tiles) asks for, from arrays that the caller already made.
class PreparedHost {
 public:
  explicit PreparedHost(const std::vector<HostArray>& arrays) : arrays_(arrays) {}
  int random(int lo, int) const { return lo; }
  Smem<int> scalars(const char* name, const std::vector<int>& made) {
    return keep(name, given(name, made));
  }
  Smem<int> keep(const char* name, std::vector<int> values) {
    kept_.push_back(std::move(values));
    return {kept_.back().data(), static_cast<int>(kept_.back().size()), name};
  }
  template <class T>
  std::vector<T> input(const char* name, const Shape&, const std::vector<T>& made) const {
    return given(name, made);
  }
  [[noreturn]] void fail(const std::string& what) const { throw CudaError(what); }
  const std::deque<std::vector<int>>& kept() const { return kept_; }

 private:
  template <class T>
  std::vector<T> given(const char* name, const std::vector<T>& made) const {
    for (const HostArray& a : arrays_) {
      if (a.name != name) continue;
      std::vector<T> values(a.bytes / sizeof(T));
      std::memcpy(values.data(), a.data, a.bytes);
      return values;
    }
    return made;
  }
  const std::vector<HostArray>& arrays_;
  std::deque<std::vector<int>> kept_;
};

/// Points a kernel's Smem members, which hold the host's arrays, at copies on the device. The
/// kernel is a plain struct: a member is where its array's address and then its length stand.
template <class K>
void move_scalars(K& kernel, const PreparedHost& host, std::deque<DeviceArray>& arrays,
                  const std::string& what) {
  static_assert(std::is_trivially_copyable_v<K>, "a kernel is a plain struct");
  unsigned char bytes[sizeof(K)];
  std::memcpy(bytes, &kernel, sizeof(K));
  for (const auto& values : host.kept()) {
    const int* const from = values.data();
    const auto size = static_cast<int>(values.size());
    if (size == 0) continue;
    arrays.emplace_back(from, values.size() * sizeof(int), what);
    const void* const to = arrays.back().get();
    for (std::size_t at = 0; at + sizeof(Smem<int>) <= sizeof(K); at += alignof(void*)) {
      const int* pointer = nullptr;
      int length = 0;
      std::memcpy(&pointer, bytes + at, sizeof pointer);
      std::memcpy(&length, bytes + at + sizeof pointer, sizeof length);
      if (pointer == from && length == size) std::memcpy(bytes + at, &to, sizeof to);
    }
  }
  std::memcpy(&kernel, bytes, sizeof(K));
}

template <class S>
long long cells_of(const S& spec) {
  long long cells = 1;
  std::apply(
      [&](const auto&... dim) {
        const auto count = [&](const auto& d) {
          if constexpr (!std::remove_cvref_t<decltype(d)>::kArbitraryDim) cells *= d.count;
        };
        (count(dim), ...);
      },
      spec.grid.dims);
  return cells;
}

/// Device arrays for the operands of a spec; `outputs` gets those of the outputs, in order.
template <class Op>
void* place_operand(const Op& op, const Launch& launch, std::deque<DeviceArray>& arrays,
                    std::vector<const DeviceArray*>& outputs, const std::string& what) {
  if constexpr (!Op::kPassed) {
    return nullptr;
  } else {
    constexpr bool kOutput = Op::kRole == Role::out || Op::kRole == Role::hbm_out;
    constexpr bool kInput = Op::kRole == Role::in || Op::kRole == Role::hbm_in;
    const auto bytes = static_cast<std::size_t>(op.shape.elems()) * sizeof(typename Op::Element);
    if (!op.present || !(kOutput || kInput || Op::kRole == Role::hbm)) return nullptr;
    if (op.alias != nullptr)
      throw CudaError(what + ": outputs that alias inputs are not mapped to CUDA yet");
    const void* data = nullptr;
    for (const HostArray& a : launch.inputs) {
      if (kInput && a.name == op.name.text) {
        if (a.bytes != bytes) throw CudaError(what + ": " + a.name + " has another size");
        data = a.data;
      }
    }
    if (kInput && data == nullptr) throw CudaError(what + ": no array for " + op.name.text);
    arrays.emplace_back(data, bytes, what);
    if (kOutput) outputs.push_back(&arrays.back());
    return arrays.back().get();
  }
}

template <class S>
constexpr int count_threads() {
  return []<std::size_t... kI>(std::index_sequence<kI...>) {
    int elems = 0;
    ((elems = OperandTraits<S, kI>::kAccum || OperandTraits<S, kI>::kOut
                  ? largest(elems, OperandTraits<S, kI>::kR * OperandTraits<S, kI>::kC)
                  : elems),
     ...);
    int threads = 128;
    while (threads < 512 && elems > 64 * threads) threads *= 2;
    return threads;
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(S::operands)>>{});
}

/// The threads of a CTA: as many as keep a register tile within 64 elements per thread, 128 to 512;
/// side by side if all blocks are rows of hundreds of elements.
template <class S>
constexpr auto threads_for() {
  constexpr auto size = [](bool rows) {
    return [&]<std::size_t... kI>(std::index_sequence<kI...>) {
      return largest((rows ? OperandTraits<S, kI>::kR : OperandTraits<S, kI>::kC)...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(S::operands)>>{});
  };
  constexpr int kLongRow = 256;
  constexpr int kCount = count_threads<S>();
  return Threads < kCount, size(true) == 1 && size(false) >= kLongRow ? kCount : kHalfWarp > {};
}
template <class K, int... kTiles>
Launched launch(const Launch& given) {
  K kernel{};
  std::size_t next = 0;
  for (const auto& size : K::sizes) {
    const double value = given.sizes.at(next++);
    if (size.integer != nullptr)
      kernel.*size.integer = static_cast<int>(value);
    else
      kernel.*size.real = static_cast<float>(value);
  }
  PreparedHost host(given.inputs);
  if constexpr (requires { kernel.prepare(host, tiles(kTiles...)); })
    kernel.prepare(host, tiles(kTiles...));
  std::string what = K::info.name;
  for (std::size_t i = 0; i < K::sizes.size(); ++i)
    what += (i == 0 ? "(" : ", ") + std::string(K::sizes[i].name) + "=" +
            std::to_string(static_cast<int>(given.sizes[i]));
  what += ")";

  using S = SpecOf<K, kTiles...>;
  using Th = decltype(threads_for<S>());
  using Shared = SharedLayout<S>;
  static_assert(
      Shared::bytes_with(1) <= kSharedBytes,
      "these blocks do not fit the 227 KiB of shared memory of a CTA: take smaller tiles");
  const S spec = kernel.spec(Int<kTiles>{}...);
  Launched result;
  result.cells = cells_of(spec);
  result.threads = Th::kThreads;
  result.stages = Shared::kStages;
  result.shared_bytes = Shared::kBytes;

  std::deque<DeviceArray> arrays;
  std::vector<const DeviceArray*> outputs;
  Pointers pointers{};
  std::apply(
      [&](const auto&... op) {
        static_assert(sizeof...(op) <= kMaxOperands, "at most 16 operands");
        std::size_t i = 0;
        ((pointers.array[i++] = place_operand(op, given, arrays, outputs, what)), ...);
      },
      spec.operands);
  move_scalars(kernel, host, arrays, what);

  const auto function = run_cells<Th, K, kTiles...>;
  check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, Shared::kBytes),
        "cudaFuncSetAttribute", what);
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes", what);
  result.registers = attributes.numRegs;
  result.local_bytes = static_cast<int>(attributes.localSizeBytes);
  const auto cells = static_cast<unsigned>(result.cells);
  const auto run = [&] {
    if (cells > 0) function<<<cells, Th::kThreads, Shared::kBytes>>>(kernel, pointers);
    check(cudaGetLastError(), "launch", what);
  };
  run();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", what);
  if (outputs.size() != given.outputs.size()) throw CudaError(what + ": another number of outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check(cudaMemcpy(given.outputs[i], outputs[i]->get(), given.output_bytes[i],
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy", what);
  }
  if (given.rounds > 0) {
    cudaEvent_t begin;
    cudaEvent_t end;
    check(cudaEventCreate(&begin), "cudaEventCreate", what);
    check(cudaEventCreate(&end), "cudaEventCreate", what);
    for (int i = 0; i < given.rounds; ++i) {
      check(cudaEventRecord(begin), "cudaEventRecord", what);
      run();
      check(cudaEventRecord(end), "cudaEventRecord", what);
      check(cudaEventSynchronize(end), "cudaEventSynchronize", what);
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime", what);
      result.seconds.push_back(milliseconds * 1e-3);
    }
    check(cudaEventDestroy(begin), "cudaEventDestroy", what);
    check(cudaEventDestroy(end), "cudaEventDestroy", what);
  }
  return result;
}

/// The tile sizes of an instance.
template <int... kTiles>
struct TileSizes {};

template <class K, class T, int... kTiles>
void add_instance(std::vector<Instance>& to, TileSizes<kTiles...>) {
  to.push_back({K::info.name, kDTypeOf<T>, {kTiles...}, launch<K, kTiles...>});
}
/// K in f32 and bf16, for each set of tile sizes.
template <template <class> class K, class... Sizes>
void add_instances(std::vector<Instance>& to) {
  (add_instance<K<float>, float>(to, Sizes{}), ...);
  (add_instance<K<bf16>, bf16>(to, Sizes{}), ...);
}

}  // namespace tessera::cuda
