// A kernel with its sizes for a program that has its own arrays on its own streams (Bound in
// cuda/backend.hpp).
//
// Each stream has a counter of cells, and copies of arrays whose rows tensor maps do not take:
// calls on one stream follow one another, those on several may overlap. A graph has those of the
// stream that captured it. Tensor maps are made anew when an array is another.
#pragma once

#include <mutex>

#include "cuda/launch.hpp"

namespace tessera::cuda {

/// Lets the thread allocate while a stream captures.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

template <class K, int... kTiles>
class BoundKernel final : public Bound {
  using S = SpecOf<K, kTiles...>;
  using Traits = SpecTraits<S>;

 public:
  explicit BoundKernel(const Launch& given)
      : given_(given.inputs),
        host_(given_, false),
        kernel_(prepared(given)),
        what_(launch_name<K>(given)),
        spec_(spec_of<K, kTiles...>(kernel_)),
        cells_(cell_count(spec_.grid)) {
    if (cells_ > (1 << 30)) throw CudaError(what_ + ": more than 2^30 parallel cells");
    std::fill(std::begin(place_), std::end(place_), -1);
    each_operand([&]<std::size_t kI>() { list<kI>(); });
  }
  const std::vector<BoundArray>& arrays() const override { return arrays_; }

  void call(void* const* arrays, void* stream) override {
    const std::lock_guard lock(mutex_);
    auto* const on = static_cast<cudaStream_t>(stream);
    OnStream& state = on_stream(on);
    if (!std::equal(state.given.begin(), state.given.end(), arrays)) give(state, arrays);
    for (const Spread& s : state.spread) s.launch(on, what_);
    if (ctas_ > 0)
      launch_on<S>(on, ctas_, launched_.threads, function(), kernel_, state.arguments, what_);
    check(cudaGetLastError(), "launch", what_);
  }

 private:
  struct OnStream {
    cudaStream_t stream;
    DeviceArray drawn;
    std::vector<void*> given;
    ArgumentsOf<S> arguments{};
    std::map<int, DeviceArray> copies{};  ///< and scratch in HBM
    std::vector<Spread> spread{};
    OnStream(cudaStream_t on, const unsigned& zero, std::size_t arrays, const std::string& what)
        : stream(on), drawn(&zero, sizeof zero, what), given(arrays) {}
  };

  static auto function() { return run_cells<K, Traits::kOperands, Traits::kMaps, kTiles...>; }
  template <class F>
  static void each_operand(F f) {
    [&]<std::size_t... kI>(std::index_sequence<kI...>) { (f.template operator()<kI>(), ...); }
    (OperandIndices<S>{});
  }
  K prepared(const Launch& given) {
    K kernel = kernel_of<K>(given);
    if constexpr (requires { kernel.prepare(host_, tiles(kTiles...)); })
      kernel.prepare(host_, tiles(kTiles...));
    return kernel;
  }
  template <std::size_t kI>
  void list() {
    using Of = OperandTraits<S, kI>;
    if constexpr (Of::kIn || Of::kOut || Of::kHbm) {
      constexpr Role kRole = Of::Op::kRole;
      constexpr bool kWritten = kRole == Role::out || kRole == Role::hbm_out;
      constexpr bool kRead = kRole == Role::in || kRole == Role::hbm_in;
      const auto& op = std::get<kI>(spec_.operands);
      if (!op.present) return;
      const char* const other = op.alias != nullptr ? op.alias : op.same;
      if (other != nullptr) {
        place_[kI] = named(other);
        BoundArray& array = arrays_[static_cast<std::size_t>(place_[kI])];
        array.written = array.written || kWritten;
        return;
      }
      if (kIsPacked<typename Of::T>)
        throw CudaError(what_ + ": " + op.name.text + " has elements of less than a byte");
      if (!kWritten && !kRead) return;  // scratch
      place_[kI] = static_cast<int>(arrays_.size());
      arrays_.push_back({op.name.text, kDTypeOf<typename Of::T>, op.shape, kRead, kWritten});
    }
  }
  int named(const char* name) const {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays_[i].name == name) return static_cast<int>(i);
    }
    throw CudaError(what_ + ": no array '" + name + "' stands before what names it");
  }
  OnStream& on_stream(cudaStream_t stream) {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice", what_);
    if (device_ >= 0 && device != device_)
      throw CudaError(what_ + ": its first call was on GPU " + std::to_string(device_) +
                      ", this one is on GPU " + std::to_string(device) + ": bind it once for each");
    for (OnStream& s : streams_) {
      if (s.stream == stream) return s;
    }
    const RelaxedCapture relaxed;
    if (device_ < 0) load(device);
    const unsigned zero = 0;
    OnStream& s = streams_.emplace_back(stream, zero, arrays_.size(), what_);
    s.arguments.cells = static_cast<int>(cells_);
    s.arguments.drawn = static_cast<unsigned*>(s.drawn.get());
    check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize", what_);
    return s;
  }
  /// Once: what all streams share.
  void load(int device) {
    launched_.cells = cells_;
    launched_.threads = Traits::kLaunch.threads;
    ctas_ = ctas_on(device, function(), Traits::kBytes, 1, launched_, what_);
    move_scalars(kernel_, host_, scalars_, what_);
    device_ = device;
  }
  void give(OnStream& state, void* const* arrays) {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays[i] == nullptr && arrays_[i].shape.elems() > 0)
        throw CudaError(what_ + ": no memory for " + arrays_[i].name);
    }
    const RelaxedCapture relaxed;
    state.given.clear();  // what is not finished is not kept
    each_operand([&]<std::size_t kI>() {
      using Of = OperandTraits<S, kI>;
      if (place_[kI] >= 0) {
        state.arguments.array[kI] = arrays[place_[kI]];
      } else if constexpr (Of::kHbm) {
        const auto& op = std::get<kI>(spec_.operands);
        const auto bytes =
            static_cast<std::size_t>(packed_bytes(kDTypeOf<typename Of::T>, op.shape.elems()));
        state.arguments.array[kI] =
            state.copies.try_emplace(-1 - static_cast<int>(kI), nullptr, bytes, what_)
                .first->second.get();
      }
    });
    std::fill(std::begin(state.arguments.mapped), std::end(state.arguments.mapped), 0u);
    state.spread.clear();
    Maps<S>{spec_, state.arguments, state.copies, state.spread, what_}.encode();
    state.given.assign(arrays, arrays + arrays_.size());
  }

  std::vector<HostArray> given_;
  PreparedHost host_;
  K kernel_;  ///< after load() its prefetched arrays are on the device
  std::string what_;
  S spec_;
  std::int64_t cells_;
  std::vector<BoundArray> arrays_;
  int place_[Traits::kOperands];  ///< of an operand among the arrays, or -1
  std::mutex mutex_;
  int device_ = -1;
  unsigned ctas_ = 0;
  Launched launched_;
  std::deque<DeviceArray> scalars_;
  std::deque<OnStream> streams_;
};

template <class K, int... kTiles>
std::unique_ptr<Bound> bind(const Launch& given) {
  return std::make_unique<BoundKernel<K, kTiles...>>(given);
}

}  // namespace tessera::cuda
