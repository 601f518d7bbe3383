// From an instance's sizes and arrays to a launch: nvcc's side of cuda/backend.hpp.
#pragma once

#include <map>

#include "cuda/device.hpp"
#include "cuda/kernel.hpp"
#include "cuda/step_tables.hpp"
#include "sim/body/builds.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/spread.hpp"

namespace tessera::cuda {

/// Points a kernel's Smem members, which hold the host's arrays, at copies on the device. The
/// kernel is a plain struct: a member is where its array's address and then its length stand.
template <class K>
void move_scalars(K& kernel, const PreparedHost& host, std::deque<DeviceArray>& arrays,
                  const std::string& what) {
  static_assert(std::is_trivially_copyable_v<K>, "a kernel is a plain struct");
  if constexpr (sizeof(K) < sizeof(Smem<int>)) return;  // it has none
  unsigned char bytes[sizeof(K)];
  std::memcpy(bytes, &kernel, sizeof(K));
  for (const auto& values : host.kept()) {
    const void* const from = values.bytes.data();
    const int size = values.elems;
    if (size == 0) continue;
    arrays.emplace_back(from, values.bytes.size(), what);
    const void* const to = arrays.back().get();
    for (std::size_t at = 0; at + sizeof(Smem<int>) <= sizeof(K); at += alignof(void*)) {
      const void* pointer = nullptr;
      int length = 0;
      std::memcpy(&pointer, bytes + at, sizeof pointer);
      std::memcpy(&length, bytes + at + sizeof pointer, sizeof length);
      if (pointer == from && length == size) std::memcpy(bytes + at, &to, sizeof to);
    }
  }
  std::memcpy(&kernel, bytes, sizeof(K));
}

/// One device's side of a launch: the kernel with its scalars, and what the arguments point at.
template <class K, class S>
struct Side {
  K kernel;
  int device;
  int gpu;
  std::deque<DeviceArray> arrays{};
  std::vector<const DeviceArray*> outputs{};     ///< in the order of the spec
  std::vector<const DeviceArray*> semaphores{};  ///< 0 when a run begins
  /// An input's array. One that an output overwrites is filled again when a run begins.
  struct Given {
    const char* name;
    const DeviceArray* array;
    const void* data;
    bool overwritten = false;
  };
  std::vector<Given> inputs{};
  ArgumentsOf<S> arguments{};
  std::map<int, DeviceArray> copies{};
  std::vector<Spread> spread{};  ///< inputs of products whose rows tensor maps do not take
  int by_copy_engine = 0;
  int by_threads = 0;

  /// The memory of operand kI, of this device's part of an array.
  template <std::size_t kI>
  void place(const S& spec, const Launch& launch, int devices, const std::string& what) {
    using Of = OperandTraits<S, kI>;
    using Op = typename Of::Op;
    if constexpr (Of::kPeers && Of::kSem) {
      const auto& op = std::get<kI>(spec.operands);
      arrays.emplace_back(nullptr, static_cast<std::size_t>(op.shape.elems()) * sizeof(Count),
                          what);
      semaphores.push_back(&arrays.back());
      arguments.array[kI] = arrays.back().get();
    } else if constexpr (Of::kPeers && Of::kVmem) {
      arrays.emplace_back(nullptr, std::size_t{Of::Place::kBytes} * Of::kCount, what);
      arguments.array[kI] = arrays.back().get();
    } else if constexpr (Of::kIn || Of::kOut || Of::kHbm) {
      const auto& op = std::get<kI>(spec.operands);
      if (!op.present) return;
      constexpr bool kOutput = Op::kRole == Role::out || Op::kRole == Role::hbm_out;
      constexpr bool kInput = Op::kRole == Role::in || Op::kRole == Role::hbm_in;
      const auto bytes =
          static_cast<std::size_t>(packed_bytes(kDTypeOf<typename Op::Element>, op.shape.elems()));
      if (op.alias != nullptr) {
        overwrite<kI>(op, what);
        return;
      }
      if (op.same != nullptr) {
        arguments.array[kI] = input_named(op.same, op.name.text, what).array->get();
        return;
      }
      const unsigned char* data = nullptr;
      for (const HostArray& a : launch.inputs) {
        if (kInput && a.name == op.name.text) {
          if (a.bytes != bytes * static_cast<std::size_t>(devices))
            throw CudaError(what + ": " + a.name + " has another size");
          data =
              static_cast<const unsigned char*>(a.data) + bytes * static_cast<std::size_t>(device);
        }
      }
      if (kInput && data == nullptr) throw CudaError(what + ": no array for " + op.name.text);
      // Packed elements are stored in whole words.
      arrays.emplace_back(data, data != nullptr ? bytes : (bytes + 3) / 4 * 4, what);
      if (kInput) inputs.push_back({op.name.text, &arrays.back(), data});
      if (kOutput) outputs.push_back(&arrays.back());
      arguments.array[kI] = arrays.back().get();
    }
  }

  /// Before a run.
  void reset(const std::string& what) const {
    use_gpu(gpu, what);
    for (const DeviceArray* s : semaphores) s->clear(what);
    for (const Given& g : inputs) {
      if (g.overwritten) g.array->fill(g.data, what);
    }
  }

 private:
  /// Operand kI is an output in the place of an input.
  template <std::size_t kI, class Op>
  void overwrite(const Op& op, const std::string& what) {
    Given& g = input_named(op.alias, op.name.text, what);
    g.overwritten = true;
    outputs.push_back(g.array);
    arguments.array[kI] = g.array->get();
  }
  Given& input_named(const char* name, const char* by, const std::string& what) {
    for (Given& g : inputs) {
      if (std::string(g.name) == name) return g;
    }
    throw CudaError(what + ": " + by + " names the input '" + name +
                    "', which does not stand before it in the spec");
  }
};

/// Tensor maps for the operands of a spec, and whether threads have to copy some block.
template <class S, class = OperandIndices<S>>
struct Maps;
template <class S, std::size_t... kI>
struct Maps<S, std::index_sequence<kI...>> {
  using Traits = SpecTraits<S>;
  template <std::size_t kJ>
  using Of = OperandTraits<S, kJ>;

  const S& spec;
  ArgumentsOf<S>& arguments;
  std::map<int, DeviceArray>& copies;  ///< by map, of arrays whose rows it does not take
  std::vector<Spread>& spread;
  const std::string& what;
  int by_copy_engine = 0;
  int by_threads = 0;

  void encode() {
    (encode_input<kI>(), ...);
    (encode_pairs<kI>(), ...);
    arguments.by_threads = by_threads > 0;
  }

 private:
  bool set(int map, const MapRequest& request) {
    bool mapped = false;
    if constexpr (kHopper)
      mapped = encode_map(request, arguments.map[map], what);
    else
      mapped = in_chunks(request, arguments.map[map]);
    if (mapped) arguments.mapped[map / 32] |= 1u << (map % 32);
    return mapped;
  }
  /// Of a copy whose rows a map takes.
  bool set_spread(int map, MapRequest request) {
    const Shape stored = cta::spread_of(request.shape, request.dtype);
    const int last = stored.rank - 1;
    const std::int64_t size = bit_width(request.dtype) / 8;
    request.row_elems = stored[last];
    if (!cta::is_mappable(stored, request.dtype)) return false;
    const std::int64_t rows = stored.elems() / stored[last];
    const auto pitch = static_cast<int>(stored[last] * size);
    void* const copy =
        copies.try_emplace(map, nullptr, static_cast<std::size_t>(rows * pitch), what)
            .first->second.get();
    const void* const from = std::exchange(request.array, copy);
    if (!set(map, request)) return false;
    spread.push_back({from, copy, rows, static_cast<int>(request.shape[last] * size), pitch});
    return true;
  }
  template <std::size_t kJ>
  void encode_input() {
    if constexpr (Of<kJ>::kIn) {
      const auto& op = std::get<kJ>(spec.operands);
      if (!op.present) return;
      using T = typename Of<kJ>::T;
      using Box = PanelBox<T, Of<kJ>::kR, Of<kJ>::kC, std::remove_cvref_t<decltype(op.block)>>;
      constexpr int kRank = Box::kRank;
      const Shape& shape = op.shape;
      bool whole = true;
      bool rows_whole = true;
      std::apply(
          [&](const auto&... extent) {
            int d = 0;
            ((rows_whole = whole, whole = whole && shape[d] % detail::block_extent(extent) == 0,
              ++d),
             ...);
          },
          op.block.extents);
      bool engine = false;
      if constexpr (!kHopper) {
        if constexpr (Of<kJ>::kChunks) {
          MapRequest request{arguments.array[kJ], kDTypeOf<T>, shape};
          bool mapped = set(kJ, request);
          if (!mapped && cta::spreads(Traits::kAll)) mapped = set_spread(kJ, request);
          engine = mapped && (whole || zero_padded(op));
        }
      } else if constexpr (Of<kJ>::kLine) {
        const bool columns_whole =
            shape[kRank - 1] % detail::block_extent(std::get<kRank - 1>(op.block.extents)) == 0;
        engine = columns_whole && (rows_whole || !op.padded) &&
                 (kRank == 1 || shape[kRank - 1] * sizeof(T) % 16 == 0) &&
                 reinterpret_cast<std::uintptr_t>(arguments.array[kJ]) % 16 == 0;
      } else if constexpr (Box::kMappable) {
        MapRequest request{arguments.array[kJ], kDTypeOf<T>, shape, Box::kBox,
                           Of<kJ>::Place::kPanelled};
        bool mapped = set(kJ, request);
        if (!mapped && cta::spreads(Traits::kAll)) mapped = set_spread(kJ, request);
        engine = mapped && (whole || zero_padded(op));
      }
      ++(engine ? by_copy_engine : by_threads);
    }
  }
  template <std::size_t kJ>
  void encode_pairs() {
    if constexpr (kHopper && Of<kJ>::kHbm && !Of<kJ>::kPeers) (encode_pair<kJ, kI>(), ...);
  }
  template <std::size_t kHbm, std::size_t kVmem>
  void encode_pair() {
    if constexpr (Of<kVmem>::kVmem) {
      using T = typename Of<kHbm>::T;
      if constexpr (std::is_same_v<T, typename Of<kVmem>::T>) {
        constexpr int kR = Of<kVmem>::kR / Of<kVmem>::kCount;
        constexpr int kC = Of<kVmem>::kC;
        using Box = PanelBox<T, kR, kC, BlockDims<Int<kR>, Int<kC>>>;
        if constexpr (Box::kMappable) {
          const auto& op = std::get<kHbm>(spec.operands);
          const std::int64_t columns = op.shape[op.shape.rank - 1];
          if (columns == 0) return;
          set(Traits::pair_map(kHbm) + Traits::vmem_before(kVmem),
              {arguments.array[kHbm], kDTypeOf<T>, Shape{op.shape.elems() / columns, columns},
               Box::kBox, Of<kVmem>::Place::kPanelled});
        }
      }
    }
  }
};

/// Tells every side where the operands of the others lie.
template <class K, class S>
void introduce(std::deque<Side<K, S>>& sides, const std::string& what) {
  constexpr int kOperands = SpecTraits<S>::kOperands;
  std::vector<void*> entries;
  for (auto& side : sides) {
    use_gpu(side.gpu, what);
    entries.insert(entries.end(), side.arguments.array, side.arguments.array + kOperands);
    side.arrays.emplace_back(nullptr, sizeof(Count), what);
    side.semaphores.push_back(&side.arrays.back());
    entries.push_back(side.arrays.back().get());
  }
  for (auto& side : sides) {
    use_gpu(side.gpu, what);
    side.arrays.emplace_back(entries.data(), entries.size() * sizeof(void*), what);
    side.arguments.peers = {static_cast<void* const*>(side.arrays.back().get()), kOperands,
                            side.device, static_cast<int>(sides.size())};
  }
}

/// The kernel with the sizes that are given.
template <class K>
K kernel_of(const Launch& given) {
  K kernel{};
  std::size_t next = 0;
  for (const auto& size : K::sizes) {
    const double value = given.sizes.at(next++);
    if (size.integer != nullptr)
      kernel.*size.integer = static_cast<int>(value);
    else
      kernel.*size.real = static_cast<float>(value);
  }
  return kernel;
}

/// What errors call it: "matmul(m=512, n=512, k=512)".
template <class K>
std::string launch_name(const Launch& given) {
  std::string what = K::info.name;
  std::size_t next = 0;
  for (const auto& size : K::sizes) {
    what += (next == 0 ? "(" : ", ") + std::string(size.name) + "=" +
            std::to_string(static_cast<int>(given.sizes[next]));
    ++next;
  }
  return what + (next == 0 ? "()" : ")");
}

/// CTAs of a launch: as many of its cells as the GPU holds at a time. Loads the kernel there, and
/// notes its registers.
template <class Function>
unsigned ctas_on(int gpu, Function function, int shared_bytes, int devices_there, Launched& result,
                 const std::string& what) {
  use_gpu(gpu, what);
  shared_bytes = launched_bytes(shared_bytes);
  check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "cudaFuncSetAttribute", what);
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes", what);
  result.registers = attributes.numRegs;
  result.local_bytes = static_cast<int>(attributes.localSizeBytes);
  int resident = 1;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function, result.threads,
                                                      static_cast<std::size_t>(shared_bytes)),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor", what);
  const std::int64_t most = std::int64_t{resident} * multiprocessors();
  const auto ctas = static_cast<unsigned>(result.cells < most ? result.cells : most);
  if (ctas * static_cast<unsigned>(devices_there) > most)
    throw CudaError(what + ": its devices do not fit a GPU together");
  return ctas;
}

/// Launches on a stream. On Hopper CTAs may be there, with barriers made and tensor maps fetched,
/// while the kernel before them ends: they wait for its end themselves (run_cells). Not where
/// kernels on several streams wait for one another: those that wait would take others' room.
template <class S, class K>
void launch_on(cudaStream_t stream, unsigned ctas, int threads, void (*function)(K, ArgumentsOf<S>),
               const K& kernel, const ArgumentsOf<S>& arguments, const std::string& what) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = ctas;
  config.blockDim = static_cast<unsigned>(threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(launched_bytes(SpecTraits<S>::kBytes));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = kStartsEarly<S> ? 1 : 0;
  check(cudaLaunchKernelEx(&config, function, kernel, arguments), "launch", what);
}

/// Brings the outputs of all devices to the host.
template <class K, class S>
void copy_outputs(const std::deque<Side<K, S>>& sides, const Launch& given,
                  const std::string& what) {
  if (sides[0].outputs.size() != given.outputs.size())
    throw CudaError(what + ": another number of outputs");
  for (const auto& side : sides) {
    use_gpu(side.gpu, what);
    for (std::size_t i = 0; i < side.outputs.size(); ++i) {
      const std::size_t bytes = given.output_bytes[i] / sides.size();
      check(cudaMemcpy(static_cast<unsigned char*>(given.outputs[i]) +
                           bytes * static_cast<std::size_t>(side.device),
                       side.outputs[i]->get(), bytes, cudaMemcpyDeviceToHost),
            "cudaMemcpy", what);
    }
  }
}

template <class K, int... kTiles>
Launched launch(const Launch& given) {
  K kernel = kernel_of<K>(given);
  PreparedHost host(given.inputs);
  if constexpr (requires { kernel.prepare(host, tiles(kTiles...)); })
    kernel.prepare(host, tiles(kTiles...));
  const std::string what = launch_name<K>(given);

  using S = SpecOf<K, kTiles...>;
  using Traits = SpecTraits<S>;
  static_assert(
      Traits::kFits,
      "these blocks do not fit the shared memory of a CTA of this GPU: take smaller tiles");
  const S spec = spec_of<K, kTiles...>(kernel);
  const std::int64_t cells = cell_count(spec.grid);
  if (cells > (1 << 30)) throw CudaError(what + ": more than 2^30 parallel cells");
  int devices = 1;
  if constexpr (kOnPeers<S>) devices = kernel.devices;
  const int gpus = devices < given.gpus ? devices : given.gpus;
  enable_peers(gpus, what);

  std::deque<Side<K, S>> sides;
  StepTables<S> tables(given, cells, what);
  for (int d = 0; d < devices; ++d) {
    auto& side = sides.emplace_back(Side<K, S>{kernel, d, d % gpus});
    use_gpu(side.gpu, what);
    [&]<std::size_t... kI>(std::index_sequence<kI...>) {
      (side.template place<kI>(spec, given, devices, what), ...);
    }
    (OperandIndices<S>{});
    move_scalars(side.kernel, host, side.arrays, what);
    side.arguments.cells = static_cast<int>(cells);
    const unsigned zero = 0;
    side.arrays.emplace_back(&zero, sizeof zero, what);
    side.arguments.drawn = static_cast<unsigned*>(side.arrays.back().get());
    side.arguments.steps = tables.add();
    Maps<S> maps{spec, side.arguments, side.copies, side.spread, what};
    maps.encode();
    side.by_copy_engine = maps.by_copy_engine;
    side.by_threads = maps.by_threads;
  }
  if constexpr (kOnPeers<S>) introduce(sides, what);

  Launched result;
  result.cells = cells;
  result.threads = Traits::kLaunch.threads;
  result.stages = Traits::kStages.of_step;
  result.shared_bytes = Traits::kBytes;
  result.tensor_cores = Traits::Layout::kTensorCores;
  result.mma_sync = Traits::kLaunch.mma_sync || (result.tensor_cores && !kHopper);
  result.built_for = kSm.capability;
  result.capability = capability();
  result.fast_functions = Traits::Layout::kFastFunctions && !kExactFunctions;
  result.by_copy_engine = sides[0].by_copy_engine;
  result.by_threads = sides[0].by_threads;
  result.spread = static_cast<int>(sides[0].spread.size());
  const auto function = run_cells<K, Traits::kOperands, Traits::kMaps, kTiles...>;
  const int devices_there = kOnPeers<S> ? static_cast<int>(ceil_div(devices, gpus)) : 1;
  unsigned ctas = 0;
  // On every GPU before any runs: to load a kernel is to wait for those that run.
  for (int gpu = 0; gpu < gpus; ++gpu)
    ctas = ctas_on(gpu, function, Traits::kBytes, devices_there, result, what);
  std::vector<Part> parts;
  for (const auto& side : sides) {
    parts.push_back({side.gpu, [&](cudaStream_t stream) {
                       for (const Spread& s : side.spread) s.launch(stream, what);
                       if (ctas > 0) {
                         launch_on<S>(stream, ctas, result.threads, function, side.kernel,
                                      side.arguments, what);
                       }
                       check(cudaGetLastError(), "launch", what);
                     }});
  }
  const auto run = [&] {
    for (const auto& side : sides) side.reset(what);
    return timed(parts, given.time_limit_s, what);
  };
  run();
  copy_outputs(sides, given, what);
  result.keeps_checksums = kKeepsChecksums;
  result.checksums = tables.collect();
  for (int i = 0; i < given.rounds; ++i) result.seconds.push_back(run());
  return result;
}

}  // namespace tessera::cuda

#include "cuda/bound.hpp"

namespace tessera::cuda {

/// The tile sizes of an instance.
template <int... kTiles>
struct TileSizes {};

/// An instance's functions: of K, or of that of its builds which is for a launch's sizes.
template <class K, int... kTiles>
struct OfBuilds {
  static Launched run(const Launch& given) { return launch<K, kTiles...>(given); }
  static std::unique_ptr<Bound> bound(const Launch& given) { return bind<K, kTiles...>(given); }
};
template <class First, class... Rest, int... kTiles>
struct OfBuilds<Builds<First, Rest...>, kTiles...> {
  using Others = OfBuilds<Builds<Rest...>, kTiles...>;
  static Launched run(const Launch& given) {
    if (kernel_of<First>(given).is_build()) return launch<First, kTiles...>(given);
    return Others::run(given);
  }
  static std::unique_ptr<Bound> bound(const Launch& given) {
    if (kernel_of<First>(given).is_build()) return bind<First, kTiles...>(given);
    return Others::bound(given);
  }
};
template <int... kTiles>
struct OfBuilds<Builds<>, kTiles...> {
  static Launched run(const Launch&) { throw none(); }
  static std::unique_ptr<Bound> bound(const Launch&) { throw none(); }
  static CudaError none() { return CudaError("tiles of these sizes have no build for the others"); }
};
template <class K, int... kTiles>
struct BuildsOf {
  using Type = K;
};
template <class K, int... kTiles>
requires requires { typename K::template Builds<kTiles...>; }
struct BuildsOf<K, kTiles...> {
  using Type = typename K::template Builds<kTiles...>;
};

template <class K, class T, int... kTiles>
void add_compiled(std::vector<Instance>& to, TileSizes<kTiles...>) {
  using Of = OfBuilds<typename BuildsOf<K, kTiles...>::Type, kTiles...>;
  Instance instance{K::info.name, kDTypeOf<T>, {kTiles...}, Of::run, {}};
  if constexpr (!kOnPeers<SpecOf<K, kTiles...>>) instance.bind = Of::bound;
  to.push_back(std::move(instance));
}
#ifdef TESSERA_ONE_KERNEL
// One instance alone, which a run asks for (cli/cuda_instances.hpp).
template <class K, class T, class Sizes>
void add_instance(std::vector<Instance>&, Sizes) {}
template <template <class> class K, class... Sizes>
void add_instances(std::vector<Instance>& to) {
  using One = K<TESSERA_ONE_TYPE>;
  if constexpr (std::string_view(One::info.name) == TESSERA_ONE_KERNEL)
    add_compiled<One, TESSERA_ONE_TYPE>(to, TileSizes<TESSERA_ONE_TILES>{});
}
#else
/// Whether a module has it: sizes that Hopper's CTAs have room for may be too many for others'.
template <class K, int... kTiles>
constexpr bool fits(TileSizes<kTiles...>) {
  return SpecTraits<SpecOf<K, kTiles...>>::kFits;
}
#ifdef TESSERA_ONLY_BF16
constexpr bool kOnlyBf16 = true;
#else
constexpr bool kOnlyBf16 = false;
#endif
template <class K, class T, class Sizes>
void add_instance(std::vector<Instance>& to, Sizes sizes) {
  if constexpr (kOnlyBf16 && std::is_same_v<T, float>)
    static_assert(!kHopper || fits<K>(Sizes{}), "these sizes have no room in f32");
  else if constexpr (kHopper || fits<K>(Sizes{}))
    add_compiled<K, T>(to, sizes);
}
/// K in f32 and bf16, for each set of tile sizes; with TESSERA_FIRST_TILES for the first alone,
/// which shows that a body compiles, with TESSERA_ONLY_BF16 in bf16 alone, which takes half of the
/// time.
template <template <class> class K, class First, class... More>
void add_instances(std::vector<Instance>& to) {
  add_instance<K<float>, float>(to, First{});
  add_instance<K<bf16>, bf16>(to, First{});
#ifndef TESSERA_FIRST_TILES
  if constexpr (sizeof...(More) > 0) add_instances<K, More...>(to);
#endif
}
#endif

/// A variable of this type in a source of a module adds instances when the module is loaded.
struct Adds {
  explicit Adds(void (*add)(std::vector<Instance>&));
};

}  // namespace tessera::cuda
