// A kernel with its types erased: what the commands know of it.
//
// What is typed of a run is a KernelInstance, which handle() (cli/handle.hpp) makes of an entry and
// an element type. All else (sizes, inputs, the backend, the comparison with the oracle) is
// compiled once, in kernel_handle.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/entry.hpp"
#include "sim/body/kernel.hpp"
#include "sim/run.hpp"

namespace tessera::cli {

class Host;
struct Request;
struct Outcome;
struct Description;
struct BuildInputs;
struct GpuCall;

/// What a kernel says about itself, as data.
struct KernelFacts {
  struct Size {
    const char* name;
    const char* what;
    bool real;
  };
  KernelInfo info;
  std::vector<Size> sizes;
  std::span<const TileParam> tiles;
  std::span<const Case> cases;
};

/// A kernel in one element type, with sizes to be set.
class KernelInstance {
 public:
  explicit KernelInstance(KernelFacts facts) : facts_(std::move(facts)) {}
  KernelInstance(const KernelInstance&) = delete;
  KernelInstance& operator=(const KernelInstance&) = delete;
  virtual ~KernelInstance() = default;

  const KernelFacts& facts() const { return facts_; }
  virtual void set(std::size_t size, double value) = 0;
  /// Why these sizes and tiles cannot run, or null.
  virtual const char* valid(const Tiles& tiles) const = 0;
  /// Makes what the kernel wants on the host; the host keeps it.
  virtual void prepare(Host& host, const Tiles& tiles) = 0;
  /// Of a kernel on a mesh.
  virtual std::optional<int> devices() const = 0;
  virtual Plan plan(const Tiles& tiles, const DeviceSpec& device) const = 0;
  /// The kernel's own count of its bytes, if it has one.
  virtual std::optional<Bytes> closed_form(const Tiles& tiles, Target target) const = 0;
  virtual RunResult run(const Tiles& tiles, const Inputs& inputs,
                        const RunOptions& options) const = 0;
  /// What the outputs should be, in the order of the spec's.
  virtual std::vector<reference::Expected> oracle(const OracleInputs& inputs) const = 0;

 private:
  KernelFacts facts_;
};

struct KernelHandle {
  using Make = std::function<std::unique_ptr<KernelInstance>()>;
  /// `make[i]` for dtypes[i].
  KernelHandle(std::vector<DType> dtypes, std::vector<Make> make);

  KernelInfo info;
  std::vector<DType> dtypes;
  std::vector<std::string> cases;  ///< "aligned", ...
  std::vector<Make> make;

  Outcome run(const Request& request) const;
  Description describe(const Request& request) const;
  /// What a build for another machine takes.
  BuildInputs build_inputs(const Request& request) const;
  /// The instance for tiles that the request names, on CUDA, compiled if it has to be. Throws
  /// InputError[no-backend].
  GpuCall gpu_call(const Request& request) const;
};

}  // namespace tessera::cli
