// Launches of Triton kernels of a program that runs in this process, on its own memory.
//
// A Specialisation is a kernel as Triton's front end compiled it; it is planned once for each
// profile, when it is first launched. A launch runs in the thread that asks, and leaves a Launched:
// its report is written when somebody reads it. One simulation at a time.
//
// Undefined memory is what the program declares so (an allocation that nothing has written yet),
// byte by byte, until a kernel writes it or the program says that it did.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "report/run_report.hpp"
#include "sim/pipeline/run.hpp"
#include "triton/launch.hpp"

namespace tessera::live {

/// What is wrong with a launch.
struct LaunchFinding {
  std::string slug;
  std::string kind;  ///< "kernel", "unsupported", "unmodelled", "internal" or "input"
  std::string text;
};

/// What a program of a kernel takes of an SM: as Triton was asked, and as its compiler says if it
/// was asked too.
struct Taken {
  int warps = 4;
  int stages = 3;
  int registers = 0;               ///< of a thread; 0: not known
  std::int64_t shared_bytes = -1;  ///< -1: not known
};

class Specialisation {
 public:
  /// `ttir`: the module, in generic form with locations. `fusion`: Triton's enable_fp_fusion.
  /// `layouts`: as triton/sectors.hpp reads them, or "".
  Specialisation(std::string ttir, std::string name, bool fusion, std::string layouts, Taken taken)
      : ttir_(std::move(ttir)),
        name_(std::move(name)),
        fusion_(fusion),
        layouts_(std::move(layouts)),
        taken_(taken) {}

  const std::string& name() const { return name_; }
  const std::string& ttir() const { return ttir_; }
  bool fusion() const { return fusion_; }
  const std::string& layouts() const { return layouts_; }
  const Taken& taken() const { return taken_; }
  /// Throws KernelError or InputError, each time, if it cannot be planned; Stopped.
  const triton::Kernel& kernel(Profile profile, const StopFlag& stop);
  /// Of the launch before (triton/launch.hpp). Launches run one at a time.
  double program_seconds = 0;
  std::array<int, 3> axes{0, 1, 2};

 private:
  std::string ttir_;
  std::string name_;
  bool fusion_;
  std::string layouts_;
  Taken taken_;
  std::map<Profile, std::unique_ptr<triton::Kernel>> kernels_;
  std::map<Profile, std::exception_ptr> failures_;
  std::mutex mutex_;
};

/// An allocation of the caller's and where in it a pointer points.
struct Pointer {
  std::byte* base = nullptr;
  std::int64_t bytes = 0;   ///< of the allocation; 0: a null pointer
  std::int64_t offset = 0;  ///< bytes
  /// Bytes of the allocation that the argument has, a view; end -1: all.
  std::int64_t begin = 0;
  std::int64_t end = -1;
  bool writable = true;
};

/// A launch that is over.
struct Launched {
  std::shared_ptr<const RunOptions> options;
  std::string kernel;
  DType main_dtype = DType::f32;
  std::vector<std::string> storages;
  triton::LaunchResult result;
  std::vector<LaunchFinding> findings;
  std::string printed;
  double predicted_seconds = 0;  ///< 0: not known
  bool waits = false;            ///< without what programs wait for one another
  // Likewise, of DRAM: bytes, from an L2 that is empty; -1: not known.
  double predicted_dram_read = -1;
  double predicted_dram_written = -1;

  /// Of a launch that ran; tessera.run/1, text, a page's data.
  std::string json() const;
  std::string text() const;
  std::string page() const;

 private:
  report::RunReport report() const;
};

struct LaunchSettings {
  RunOptions options;     ///< device, threads, profile
  bool views = false;     ///< what is outside of a view is an error, though inside its allocation
  double time_limit = 0;  ///< seconds from open_launches(), after which kernels are ended; 0: none
  std::size_t most_launched =
      0;  ///< kept of one simulation; of those that went wrong, as many again
};

/// Each launch from here on has a line in this folder (record/folder.hpp); "": none. Throws
/// InputError.
void record_launches_in(const std::string& folder);
/// Launches are taken from here on. Throws InputError if they are already.
void open_launches(LaunchSettings settings);
void close_launches();
/// Runs it. `arguments`: of each parameter; with `pointers`, its place in it. Null: all is well.
std::shared_ptr<Launched> launch(Specialisation& which, const std::array<std::int64_t, 3>& grid,
                                 const std::vector<program::Scalar>& scalars,
                                 const std::vector<Pointer>& pointers);
/// What has run since the last time.
std::vector<std::shared_ptr<Launched>> take_launched();
std::int64_t launches_left_out();
/// Whether pointers say what of their allocation is the argument's.
bool launches_take_views();
/// Seconds that the device would have taken for what was launched since open_launches(), and how
/// many of those launches that leaves out.
struct DeviceClock {
  double seconds = 0;
  std::int64_t unknown = 0;
};
DeviceClock device_clock();

/// An allocation that nothing has written; that the program has written; that is gone.
void declare_undefined(const std::byte* base, std::int64_t bytes);
void declare_defined(const std::byte* base);
bool any_declared_undefined();
bool declared_undefined(const std::byte* base);

/// Allocations of the caller's that pointers in memory may point to.
void note_allocation(std::byte* base, std::int64_t bytes);
void forget_allocation(const std::byte* base);

/// Signal handlers may call them.
void interrupt_launches() noexcept;
void resume_launches() noexcept;

}  // namespace tessera::live
