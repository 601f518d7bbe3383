#include "cli/compiled_candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "cli/compiled_timing.hpp"
#include "cli/tpu_build.hpp"
#include "golden/sha256.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "tpu_compiler/call_to_check.hpp"
#include "tpu_compiler/played.hpp"

namespace tessera::cli {

namespace {

using tpu_compiler::TpuCompiler;
using tpu_compiler::Verdict;

/// The modules of a kernel's cases: what compiles otherwise is otherwise in one of them.
std::string build_of(const TunedKernel& tuned) {
  Request base;
  base.dtype = tuned.request().dtype;
  base.device = tuned.request().device;
  std::string text;
  for (std::size_t i = 0; i < tuned.kernel().cases.size(); ++i) {
    base.case_index = static_cast<int>(i);
    try {
      const TpuCall built = tpu_call_of(tuned.kernel(), base);
      text += built.call.module + built.call.config;
    } catch (const KernelError& e) {
      text += e.diagnostic.headline + "\n";
    }
  }
  return golden::sha256(text.data(), text.size());
}

class LibtpuScheduler final : public Scheduler {
 public:
  LibtpuScheduler(const TunedKernel& tuned, const RunArguments& a)
      : tuned_(tuned), settings_(compiler_settings(a)) {
    if (a.budget > 0) settings_.time_limit = std::min(settings_.time_limit, a.budget);
    auto first = std::make_unique<TpuCompiler>(settings_);
    first->require();
    version_ = first->version();
    idle_.push_back(std::move(first));
    build_ = build_of(tuned);
  }

  std::string version() const override { return version_; }
  std::string build() const override { return build_; }

  Schedule schedule(const tuning::Configuration& tiles) override {
    const DeviceSpec& device = tuned_.request().device;
    try {
      const TpuCall built = tpu_call_of(tuned_.kernel(), tuned_.with(tiles));
      tpu_compiler::CallToCheck c =
          tpu_compiler::call_to_check(tuned_.kernel().info.name, built.call);
      if (c.failure) throw KernelError(*c.failure);
      c.question.chip = device.jax.chip;
      const Taken compiler(*this);
      const Verdict v = compiler->ask(c.question);
      if (v.kind == Verdict::Kind::unknown) return none("no-verdict", v.sentence, false);
      if (v.kind == Verdict::Kind::refused) return none("does-not-compile", v.sentence);
      const predict::TpuSchedule played =
          tpu_compiler::played_schedule(compiler->libtpu(), v, c.call, true, device);
      if (!played.unmodelled.empty()) return none("unmodelled", played.unmodelled);
      return {.seconds = played.timeline.seconds, .binds = played.timeline.binds, .why_not = ""};
    } catch (const KernelError& e) {
      return none(e.diagnostic.slug, e.diagnostic.headline);
    }
  }

 private:
  static Schedule none(const std::string& slug, const std::string& sentence, bool lasting = true) {
    return {.seconds = 0, .binds = "", .why_not = slug + ": " + sentence, .lasting = lasting};
  }

  /// A compiler that nobody asks, for as long as this lives.
  class Taken {
   public:
    explicit Taken(LibtpuScheduler& of) : of_(of) {
      const std::lock_guard lock(of_.mutex_);
      if (of_.idle_.empty()) {
        compiler_ = std::make_unique<TpuCompiler>(of_.settings_);
      } else {
        compiler_ = std::move(of_.idle_.back());
        of_.idle_.pop_back();
      }
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
      const std::lock_guard lock(of_.mutex_);
      of_.idle_.push_back(std::move(compiler_));
    }
    TpuCompiler* operator->() const { return compiler_.get(); }

   private:
    LibtpuScheduler& of_;
    std::unique_ptr<TpuCompiler> compiler_;
  };

  const TunedKernel& tuned_;
  tpu_compiler::Settings settings_;
  std::string version_;
  std::string build_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TpuCompiler>> idle_;
};

}  // namespace

std::unique_ptr<Scheduler> libtpu_scheduler(const TunedKernel& tuned, const RunArguments& a) {
  return std::make_unique<LibtpuScheduler>(tuned, a);
}

}  // namespace tessera::cli
