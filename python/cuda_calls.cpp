// What XLA calls for kernels of tessera.cuda (typed FFI, xla/ffi/api/ffi.h of jaxlib): a kernel
// that this process has bound (cuda/c_api.h) is started on the stream and in the device memory that
// XLA gives, without copies.
//
// A custom call `tessera_cuda_call` has the arrays that the kernel reads as operands, in its order,
// and those that it writes as results; one that is read and written is both, in the same place.
// Attribute: kernel, the name that it was kept under, by which a program that was saved finds it in
// another process. No CUDA header and no Python are needed here.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "cuda/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

struct Wanted {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  bool read = false;
  bool written = false;
};
struct Kept {
  tessera_cuda_kernel* kernel = nullptr;
  decltype(&tessera_cuda_call) call = nullptr;
  decltype(&tessera_cuda_error) error = nullptr;
  std::vector<Wanted> arrays;
};
/// By name; none ever goes, as programs that XLA has compiled may call it.
std::map<std::string, Kept, std::less<>> all_kept;
std::shared_mutex kept_mutex;

const Kept* kept_as(std::string_view name) {
  const std::shared_lock lock(kept_mutex);
  const auto found = all_kept.find(name);
  return found != all_kept.end() ? &found->second : nullptr;
}

const char* name_of(ffi::DataType t) {
  switch (t) {
    case ffi::DataType::PRED:
      return "bool";
    case ffi::DataType::S8:
      return "i8";
    case ffi::DataType::S16:
      return "i16";
    case ffi::DataType::S32:
      return "i32";
    case ffi::DataType::S64:
      return "i64";
    case ffi::DataType::U8:
      return "u8";
    case ffi::DataType::U16:
      return "u16";
    case ffi::DataType::U32:
      return "u32";
    case ffi::DataType::F16:
      return "f16";
    case ffi::DataType::F32:
      return "f32";
    case ffi::DataType::F64:
      return "f64";
    case ffi::DataType::BF16:
      return "bf16";
    case ffi::DataType::F8E4M3FN:
      return "f8e4m3fn";
    case ffi::DataType::F8E5M2:
      return "f8e5m2";
    default:
      return "another type";
  }
}
std::string said(const char* dtype, const std::int64_t* dims, std::size_t rank) {
  std::string text = std::string(dtype) + "[";
  for (std::size_t d = 0; d < rank; ++d) text += (d > 0 ? ", " : "") + std::to_string(dims[d]);
  return text + "]";
}

/// Why a buffer is not the array; empty if it is.
std::string differs(const Wanted& wanted, const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  const char* const dtype = name_of(buffer.element_type());
  if (wanted.dtype == dtype &&
      std::equal(dims.begin(), dims.end(), wanted.shape.begin(), wanted.shape.end()))
    return {};
  return wanted.name + " is " +
         said(wanted.dtype.c_str(), wanted.shape.data(), wanted.shape.size()) + ", not " +
         said(dtype, dims.begin(), dims.size());
}

ffi::Error call_kernel(void* stream, ffi::RemainingArgs operands, ffi::RemainingRets results,
                       std::string_view name) {
  const std::string kernel(name);
  const Kept* const kept = kept_as(name);
  if (kept == nullptr) {
    return {ffi::ErrorCode::kNotFound,
            "this process has no kernel '" + kernel +
                "': tessera.cuda.kernel(...) makes it, before a saved program calls it"};
  }
  std::vector<void*> data;
  std::size_t read = 0;
  std::size_t written = 0;
  for (const Wanted& wanted : kept->arrays) {
    if ((wanted.read && read >= operands.size()) || (wanted.written && written >= results.size()))
      return ffi::Error::InvalidArgument(kernel + ": no array for " + wanted.name);
    std::array<void*, 2> places{};
    if (wanted.read) {
      const auto buffer = operands.get<ffi::AnyBuffer>(read++).value();
      if (const auto why = differs(wanted, buffer); !why.empty())
        return ffi::Error::InvalidArgument(kernel + ": " + why);
      places.fill(buffer.untyped_data());
    }
    if (wanted.written) {
      const auto buffer = *results.get<ffi::AnyBuffer>(written++).value();
      if (const auto why = differs(wanted, buffer); !why.empty())
        return ffi::Error::InvalidArgument(kernel + ": " + why);
      places[1] = buffer.untyped_data();
    }
    if (wanted.read && places[0] != places[1]) {
      return ffi::Error::InvalidArgument(kernel + ": " + wanted.name +
                                         " is written in place, and its result lies elsewhere");
    }
    data.push_back(places[1]);
  }
  if (read != operands.size() || written != results.size())
    return ffi::Error::InvalidArgument(kernel + ": more arrays than it takes");
  if (kept->call(kept->kernel, data.data(), stream) != 0)
    return ffi::Error::Internal(kept->error());
  return ffi::Error::Success();
}

ffi::Error refuse_on_host(ffi::RemainingArgs, ffi::RemainingRets, std::string_view name) {
  return {ffi::ErrorCode::kFailedPrecondition,
          std::string(name) +
              " runs on an NVIDIA GPU, and this computation on the host: its arrays "
              "must be there (jax.device_put), or it is compiled for one"};
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(tessera_cuda_xla_call, call_kernel,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("kernel"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    tessera_cuda_xla_on_host, refuse_on_host,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("kernel"));

/// Keeps a bound kernel, which lives as long as the process, under a name; the first of a name
/// stays. `call` and `error` are the functions of its module.
extern "C" void tessera_cuda_xla_keep(const char* name, tessera_cuda_kernel* kernel,
                                      const tessera_cuda_array* arrays, int count,
                                      decltype(&tessera_cuda_call) call,
                                      decltype(&tessera_cuda_error) error) {
  Kept kept{kernel, call, error, {}};
  for (const tessera_cuda_array* a = arrays; a != arrays + count; ++a)
    kept.arrays.push_back(
        {a->name, a->dtype, {a->shape, a->shape + a->rank}, a->read != 0, a->written != 0});
  const std::unique_lock lock(kept_mutex);
  all_kept.try_emplace(name, std::move(kept));
}
