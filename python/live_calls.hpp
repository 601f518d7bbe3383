// Kernels of a program that runs elsewhere: custom calls that arrive one device at a time.
//
// Whoever calls must not be kept waiting: eight devices that wait for each other on XLA's two
// threads would never meet. submit() takes a note; one thread of our own runs the calls in the
// order in which they become complete, and tells each device so. A kernel that meets other devices
// is complete when all of the mesh have come; any other runs for each device by itself.
//
// Plans are kept for the life of the process, by the text of the call's configuration.
//
// What runs ends early when it is interrupted, from a signal handler, or when the simulation has
// taken its time: with `interrupted` or `time-limit`, and the line it was in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/array.hpp"
#include "python/call_report.hpp"
#include "sim/run.hpp"
#include "tpu_compiler/tpu_compiler.hpp"

namespace tessera::live {

/// Memory of the caller's: dense, row-major, packed types as in Array.
struct View {
  DType dtype = DType::f32;
  Shape shape;
  std::byte* bytes = nullptr;
};

/// One device's part of a custom call.
struct DeviceCall {
  std::string name;            ///< of the kernel; the module's if empty
  std::string config;          ///< backend_config of the tpu_custom_call: JSON with the module
  std::int64_t program = 0;    ///< which execution of the program, the same on all devices
  const void* site = nullptr;  ///< which call of the program, the same on all devices
  int device = 0;
  int devices = 1;
  std::vector<View> operands;
  std::vector<View> results;
  std::vector<std::pair<std::size_t, int>> aliases;  ///< operand, result
  bool alone = false;                                ///< program::Call::alone
  bool synchronised = false;  ///< its program has collectives of XLA's, where devices meet
  /// Called once, from another thread, when the results are there; "" or why they are not.
  std::function<void(const std::string& error)> done;
};

struct Settings {
  RunOptions options;  ///< device, schedule, cores, threads, find_races, profile, error_model, dry
  /// All that is wrong with a kernel is found, and the program goes on: where a step had to end,
  /// with poison.
  bool keep_going = false;
  /// What a kernel leaves undefined of its outputs is a note: what reads it finds poison.
  bool may_leave_unwritten = false;
  std::string capture;  ///< a folder for calls with their operands; "" for none
  std::string golden;   ///< a folder for goldens, if options has an error model
  /// Asked about each kernel before it runs; none: nobody is.
  std::shared_ptr<tpu_compiler::TpuCompiler> compiler;
  bool by_schedule = false;      ///< times are those of its schedules
  bool jax_0_11 = false;         ///< program::Call::jax_0_11
  double patience = 60;          ///< seconds that a device may be late, while nothing else happens
  std::size_t report_bytes = 0;  ///< the most that reports of one simulation may take
  double time_limit = 0;         ///< seconds from open(), after which kernels are ended; 0: none
};

/// What is wrong with a call.
struct Finding {
  std::string slug;
  std::string kind;          ///< "kernel", "unsupported", "unmodelled", "internal" or "input"
  std::string text;          ///< the diagnostic
  bool by_compiler = false;  ///< a TPU's compiler refuses it
};

/// One call of a kernel that is over.
struct Finished {
  std::shared_ptr<CallReport> report;  ///< null: the call did not get as far
  std::vector<Finding> findings;       ///< none if all is well
  std::string note;                    ///< a diagnostic that fails nothing, or ""
  std::string warnings;  ///< what may be wrong, a line each: data or its author decides
  std::string printed;   ///< what the kernel printed
  std::string folder;    ///< where it was captured, "" if it was not
  std::string golden;    ///< where its golden is, "" if there is none
  std::vector<std::string> replaced;  ///< of these two, where an earlier one was
  std::string compiler;  ///< the TPU's compiler's verdict, JSON; "" if it was not asked
};

/// What a program was called by: a function of Python whose configuration was chosen. Empty: none
/// that is known.
struct Within {
  std::string operation, tier;
  std::vector<std::pair<std::string, std::string>> configuration;

  bool operator==(const Within&) const = default;
};
/// Each call from here on has a line in this folder (record/folder.hpp); "": none. Throws
/// InputError.
void record_in(const std::string& folder);
/// A program with kernels begins, or ends. Of programs under way at one time, it is not known whose
/// a call is: they have to have been called by the same to be said so.
void program_begins(const Within& within);
void program_ends(const Within& within);

/// Calls are taken from here on. Throws InputError if they are already.
void open(Settings settings);
/// Calls are refused from here on.
void close();
/// Calls that arrive from now on are counted alone, without data; false: as the simulation was
/// opened. `compiler`: whose schedules times are; none: as the simulation was opened.
void count_alone(bool alone, std::shared_ptr<tpu_compiler::TpuCompiler> compiler = {});
void submit(DeviceCall call);
/// Ends what runs and what comes, until resume(). Signal handlers may call it.
void interrupt() noexcept;
void resume() noexcept;
/// What has finished since the last time, in the order in which it ran.
std::vector<Finished> take_finished();
/// Calls since open() of which nothing is kept, since their reports would be too many.
std::int64_t left_out();

/// Copies that kernels have started since open(), and handed on to others, which have not waited
/// for them.
struct UnderWay {
  std::int64_t bytes = 0;
  std::string started_by;  ///< the last kernel that did
};
UnderWay under_way();

}  // namespace tessera::live
