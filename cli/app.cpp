#include "cli/app.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <system_error>

#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/module_commands.hpp"
#include "cli/own_words.hpp"
#include "cli/python_command.hpp"
#include "cli/signals.hpp"
#include "memory_model/file.hpp"

namespace tessera::cli {

namespace {

/// What the words of the command line say, and the command they chose.
struct CommandLine {
  RunArguments run;
  GoldenArguments golden;
  BuildArguments build;
  CheckArguments check;
  TuneArguments tune;
  ReplayArguments replay;
  bool markdown = false;
  std::string name;
  std::string folder;
  std::vector<std::string> python;  ///< for the Python package
  std::function<int(const Kernels&)> chosen;
};

/// NaN is no number of seconds.
const CLI::Validator kSeconds(
    [](const std::string& text) {
      double seconds = 0;
      const bool number = CLI::detail::lexical_cast(text, seconds);
      return number && seconds > 0 && std::isfinite(seconds)
                 ? std::string()
                 : "takes seconds, more than 0, not '" + text + "'";
    },
    "SECONDS");

constexpr const char* kProfiles = "exact|mxu|mxu:x3|mxu:x6|tensorcore:hopper|gpu:hopper|device";

/// An empty value is a variable of a script that was never set.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& text) {
      return text.empty() ? std::string("takes a value, not ''") : std::string();
    });
  }
  for (CLI::App* const command : app.get_subcommands({})) refuse_empty_values(*command);
}

CLI::App* add_command(CLI::App& app, CommandLine& w, const char* name, const char* what,
                      std::function<int(const Kernels&)> command) {
  CLI::App* const added = app.add_subcommand(name, what);
  added->final_callback([&w, command = std::move(command)] { w.chosen = command; });
  return added;
}

void add_setting_options(CLI::App& command, RunArguments& a) {
  command
      .add_option("kernel", a.kernel,
                  "kernel name (tessera list), or a Mosaic module or the folder of a call")
      ->type_name("KERNEL")
      ->required();
  command.add_option("parameters", a.assignments, "sizes and tiles, as in m=512 bm=128");
  command.add_option("--case", a.case_index, "start from this case of the kernel (tessera show)");
  command.add_option("--device", a.device, "device name (tessera devices) or spec file")
      ->type_name("DEVICE")
      ->capture_default_str()
      ->each([&a](const std::string&) { a.device_given = true; });
  command.add_option("--dtype", a.dtype, "element type of the operands")
      ->type_name("f32|bf16")
      ->capture_default_str();
  command.add_option("--seed", a.seed, "seed of the inputs that are made")->capture_default_str();
  command.add_option("--devices", a.mesh, "devices of the mesh, as in 8 or 2x4");
  command.add_option("--cores", a.cores, "cores of a device, which share its parallel cells")
      ->capture_default_str();
  command
      .add_option("--inputs", a.input_kind,
                  "what made-up inputs hold: uniform, binary, integers, cancellation, wide or "
                  "special (NaN, inf)")
      ->type_name("uniform|binary|integers|cancellation|wide|special")
      ->capture_default_str();
  command
      .add_option("--input", a.inputs,
                  "ref=file.npy: an input or a prefetched array from a file; of a module, the "
                  "operand's number")
      ->type_name("REF=FILE");
}

void add_threads(CLI::App& command, RunArguments& a) {
  command.add_option("--threads", a.threads, "host threads; 0 takes all")->capture_default_str();
}
void add_time_limit(CLI::App& command, RunArguments& a,
                    const char* what = "seconds that the command may take") {
  command.add_option("--time-limit", a.time_limit, what)->check(kSeconds);
}
void add_oversubscribe(CLI::App& command, RunArguments& a) {
  command.add_flag("--oversubscribe", a.oversubscribe,
                   "on cuda: run several devices of a mesh on one GPU");
}

/// Where tiles may come from.
void add_tiers(CLI::App& command, RunArguments& a) {
  command
      .add_option("--overlay", a.overlays,
                  "a file of choices (tune --export) that holds before the cache; the last first")
      ->type_name("FILE");
  command
      .add_option("--cache", a.cache,
                  "the file of the persistent cache; TESSERA_TUNING_CACHE or the user's if not "
                  "given")
      ->type_name("FILE");
}
void add_budget(CLI::App& command, RunArguments& a, const char* what) {
  command.add_option("--budget", a.budget, what)
      ->check(kSeconds)
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"ms", 1e-3}, {"s", 1.}, {"min", 60.}}));
}

/// What predicts.
void add_model(CLI::App& command, RunArguments& a, std::vector<std::string> by, const char* what) {
  command.add_option("--timing", a.timing, what)->check(CLI::IsMember(std::move(by)));
}
/// What predicts what is counted.
void add_model(CLI::App& command, RunArguments& a) {
  add_model(
      command, a, {"best", "model"},
      "what predicted times are from: best, the default (what the ops of a kernel's TPU build "
      "ask of the units of a TPU core, where they are known, else the model), or model");
}
/// What predicts: the model, or a TPU's compiler.
void add_timing(CLI::App& command, RunArguments& a, std::vector<std::string> by, const char* what) {
  add_model(command, a, std::move(by), what);
  command
      .add_option("--python", a.python,
                  "with --timing compiler: an interpreter that has jax and libtpu")
      ->type_name("FILE")
      ->envname("TESSERA_TPU_PYTHON");
}

/// What times candidates, or compiles them.
void add_measuring(CLI::App& command, RunArguments& a) {
  add_timing(
      command, a, {"best", "model", "compiler"},
      "what ranks candidates: best, the default (the units of a TPU core where they are known, "
      "else the model), model, or compiler (on a TPU: the schedules that libtpu makes of those "
      "that are predicted to be the fastest; on a Hopper GPU the code that nvcc makes of them)");
  command
      .add_option("--backend", a.backend,
                  "cuda: time the candidates that are predicted to be the fastest on this "
                  "machine's GPU; auto predicts")
      ->check(CLI::IsMember({"auto", "cuda"}))
      ->capture_default_str();
  command.add_option(
      "--candidates", a.candidates,
      "time (on cuda) or compile (--timing compiler) so many, or all; 8 unless given, "
      "and the case's tiles");
  command.add_option("--rounds", a.rounds,
                     "on cuda: time every candidate so often, not until the best is known");
}

/// What there is.
void add_listings(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  add_command(app, w, "list", "the kernels there are", [&w](const Kernels& kernels) {
    return list_command(kernels, w.markdown);
  })->add_flag("--markdown", w.markdown, "as a table for docs/");
  CLI::App* const show = add_command(
      app, w, "show", "a kernel's equation, parameters, signature, cases and bytes",
      [&a](const Kernels& kernels) {
        return is_module(a.kernel) ? module_commands().show(a) : show_command(kernels, a);
      });
  add_setting_options(*show, a);
  show->add_flag("--steps", a.steps,
                 "of a Mosaic module: the program that was planned, step by step");
  show->add_flag("--units", a.units,
                 "of a Mosaic module: what its ops ask of a TPU core's units, as JSON");
  CLI::App* const registry =
      add_command(app, w, "registry",
                  "which platforms have a kernel, on which condition, and which would serve",
                  [&a](const Kernels& kernels) { return registry_command(kernels, a); });
  add_setting_options(*registry, a);
  registry->get_option("kernel")->required(false);
  add_command(app, w, "devices", "the device specs, or one with its sources",
              [&w](const Kernels&) { return devices_command(w.name); })
      ->add_option("name", w.name, "device")
      ->type_name("DEVICE");
  add_command(app, w, "ops", "the ops that bodies can use", [&w](const Kernels&) {
    return ops_command(w.markdown);
  })->add_flag("--markdown", w.markdown, "as a table for docs/");
}

void add_run(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  CLI::App* const run = add_command(
      app, w, "run", "run a kernel: validate it, count its bytes", [&a](const Kernels& kernels) {
        if (!a.reference.empty()) return reference_command(a);
        return is_module(a.kernel) ? module_commands().run(a) : run_command(kernels, a);
      });
  add_setting_options(*run, a);
  run->add_option("--output", a.output, "write the outputs to this folder as .npy")
      ->type_name("FOLDER");
  add_threads(*run, a);
  run->add_option("--schedule", a.schedule,
                  "eager, on_wait, adversarial, random:SEED or explore:N (N of them)")
      ->type_name("eager|on_wait|adversarial|random:SEED|explore:N");
  run->add_flag("--no-races", a.no_races, "do not look for races");
  run->add_flag(
      "--keep-going", a.keep_going,
      "find all that is wrong, not the first alone; a kernel that copies ends at what ends "
      "a step");
  run->add_option("--json", a.json, "write the report here (tessera.run/1); - for standard output")
      ->type_name("FILE");
  run->add_option("--report", a.report,
                  "write a page with numbers and pictures here, as in --report out.html")
      ->type_name("FILE");
  run->add_option(
         "--trace", a.trace,
         "write the predicted timeline here for ui.perfetto.dev, as in --trace out.pftrace")
      ->type_name("FILE");
  run->add_option("--at", a.at, "i,j,k: print every block before this grid step");
  run->add_flag("--break", a.break_at, "stop in gdb there, before the body");
  run->add_option("--trap", a.trap, "nan: stop at the first op that makes a NaN from numbers")
      ->type_name("nan");
  run->add_option(
         "--profile", a.profile,
         "how products are computed: exact; mxu (f32 operands rounded to bf16), mxu:x3 or "
         "mxu:x6 (three or six passes); tensorcore:hopper (f16, bf16 and fp8 as wgmma, "
         "bit by bit); gpu:hopper (that, and the GPU's own functions); or device (that of the "
         "device's builds)")
      ->type_name(kProfiles)
      ->capture_default_str();
  run->add_flag("--no-check", a.no_check, "do not compare with the reference");
  run->add_option("--reference", a.reference,
                  "file.py:function: of a module, the same in f64, naively, by NumPy or jax.numpy: "
                  "judges every element by a bound that is computed, not by a tolerance")
      ->type_name("FILE:FUNCTION");
  run->add_flag("--dry", a.dry,
                "count alone, from the grid, the index maps and bodies without data: no "
                "arithmetic, any size");
  run->add_flag("--timeline", a.timeline,
                "predict the time of a run of more than 131,072 steps too");
  add_timing(*run, a, {"best", "model", "units", "compiler"},
             "what the predicted time is from: best, the default (units where they are known, else "
             "the model); model; units (what the ops of a kernel's TPU build ask of the units of a "
             "TPU core; of a module the model does); compiler (on a TPU: the schedule that libtpu "
             "makes of the module or the TPU build, bundle by bundle; on an H100 or H200: the "
             "registers and the local memory of the code that nvcc makes of the CUDA build, no GPU "
             "needed)");
  run->add_option("--backend", a.backend,
                  "auto (cuda where there is a GPU), cuda, interpret or reference")
      ->type_name("auto|cuda|interpret|reference")
      ->envname("TESSERA_BACKEND")
      ->capture_default_str();
  run->add_option("--rounds", a.rounds, "on cuda: time this many runs after the first");
  run->add_flag("--tuned", a.tuned, "tiles as the tiers of docs/tuning.md choose them");
  add_tiers(*run, a);
  add_budget(*run, a, "with --tuned: autotune for so long if no tier before knows, as in 10s");
  run->add_option("--record", a.record,
                  "write down what ran, and what it takes to run it again, in this folder "
                  "(tessera.record/1): tessera replay FOLDER")
      ->type_name("FOLDER");
  add_time_limit(*run, a, "seconds that the run may take; on cuda 300 unless given");
  add_oversubscribe(*run, a);
}

void add_replay(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  ReplayArguments& r = w.replay;
  CLI::App* const replay = add_command(
      app, w, "replay",
      "run what was recorded again: the same bits, within the bound, or different",
      [&w](const Kernels& kernels) { return replay_command(kernels, w.run, w.replay); });
  replay->add_option("folder", r.folder, "of run --record, or tessera.record()")
      ->type_name("FOLDER")
      ->required();
  replay->add_option("--only", r.only, "one of them, counted from 0")
      ->check(CLI::NonNegativeNumber);
  replay
      ->add_option("--backend", a.backend,
                   "cuda, interpret or reference; each one's own if not given")
      ->each([&r](const std::string&) { r.other_backend = true; });
  replay
      ->add_option("--device", a.device, "a device name or spec file; each one's own if not given")
      ->type_name("DEVICE")
      ->each([&a](const std::string&) { a.device_given = true; });
  replay
      ->add_option("--profile", a.profile, "how products are computed; each one's own if not given")
      ->type_name(kProfiles)
      ->each([&r](const std::string&) { r.other_profile = true; });
  add_threads(*replay, a);
  add_time_limit(*replay, a);
  add_oversubscribe(*replay, a);
}

/// Several runs of a kernel, side by side.
void add_comparisons(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  CLI::App* const compare = add_command(
      app, w, "compare",
      "every case of a kernel on a backend and interpreted, bit by bit; or two reports of runs: "
      "A.json B.json",
      [&a](const Kernels& kernels) {
        const bool reports = a.kernel.ends_with(".json") && a.assignments.size() == 1;
        return reports ? compare_reports(a.kernel, a.assignments.front())
                       : compare_command(kernels, a);
      });
  add_setting_options(*compare, a);
  compare->add_option("--backend", a.backend, "cuda or reference")->type_name("cuda|reference");
  add_time_limit(*compare, a);
  add_oversubscribe(*compare, a);
  CLI::App* const sweep =
      add_command(app, w, "sweep",
                  "bytes, VMEM and predicted time over block shapes and devices: bm=64,128 bn=128",
                  [&w](const Kernels& kernels) { return sweep_command(kernels, w.run, w.name); });
  add_setting_options(*sweep, a);
  sweep->add_option("--csv", w.name, "write the table here; - for standard output")
      ->type_name("FILE");
  sweep
      ->add_option("--json", a.json, "write the rows here (tessera.sweep/1); - for standard output")
      ->type_name("FILE");
  sweep->add_option("--report", a.report, "write a page with the table and a picture here")
      ->type_name("FILE");
  add_model(*sweep, a);
  add_threads(*sweep, a);
  add_time_limit(*sweep, a);
  CLI::App* const advise =
      add_command(app, w, "advise",
                  "which limit binds, and the smallest change of the block shape that moves it",
                  [&a](const Kernels& kernels) { return advise_command(kernels, a); });
  add_setting_options(*advise, a);
  add_model(*advise, a);
  add_time_limit(*advise, a);
}

/// What chooses tiles.
void add_tuning(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  CLI::App* const tune = add_command(
      app, w, "tune",
      "evaluate a kernel's block shapes and keep the fastest; bm=64,128 tries these alone",
      [&w](const Kernels& kernels) { return tune_command(kernels, w.run, w.tune); });
  add_setting_options(*tune, a);
  tune->get_option("kernel")->required(false);
  add_threads(*tune, a);
  add_tiers(*tune, a);
  add_budget(*tune, a, "seconds for it, as in 60s; the same command goes on where it ended");
  add_measuring(*tune, a);
  tune->add_option("--export", w.tune.exported,
                   "write the choices here (tessera.tuning/1); - for standard output")
      ->type_name("FILE");
  tune->add_option("--import", w.tune.imported, "take the choices of such a file first")
      ->type_name("FILE");
  CLI::App* const why =
      add_command(app, w, "why", "which tier chooses a kernel's tiles, and among what",
                  [&a](const Kernels& kernels) { return why_command(kernels, a); });
  add_setting_options(*why, a);
  add_threads(*why, a);
  add_tiers(*why, a);
  add_budget(*why, a, "autotune for so long if no tier before knows, as in 10s");
  add_measuring(*why, a);
}

/// What bounds are made for.
void add_error_model(CLI::App& command, GoldenArguments& g) {
  command
      .add_option(
          "--accumulate", g.accumulate,
          "the format that the other side adds in: f32, tf32, f16 or bf16; real, of modules: it "
          "computes in real numbers")
      ->type_name("f32|tf32|f16|bf16|real")
      ->capture_default_str();
  command
      .add_option("--operands", g.operands,
                  "what it rounds f32 operands of dots to: tf32, or bf16 (one pass of an MXU)")
      ->type_name("tf32|bf16")
      ->capture_default_str();
  command.add_option("--ulp", g.ulps,
                     "op=N: what its elementary functions may be off by, as exp=2");
  command.add_flag("--other-blocks", g.other_blocks,
                   "its blocks may have other sizes: an online softmax rounds elsewhere");
  command.add_flag("--no-fused", g.not_fused, "it never fuses a product into an addition");
}

void add_goldens(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  GoldenArguments& g = w.golden;
  CLI::App* const golden = app.add_subcommand(
      "golden", "outputs with error bounds that another build of a kernel is held to");
  golden->require_subcommand(1);
  CLI::App* const make =
      add_command(*golden, w, "make", "run a kernel and write its golden",
                  [&a, &g](const Kernels& kernels) { return golden_make_command(kernels, a, g); });
  add_setting_options(*make, a);
  make->add_option("--out", g.folder, "the folder to make")->type_name("FOLDER")->required();
  add_threads(*make, a);
  add_time_limit(*make, a);
  make->add_option("--profile", a.profile, "how products are computed")
      ->type_name(kProfiles)
      ->capture_default_str();
  add_error_model(*make, g);
  CLI::App* const check = add_command(
      *golden, w, "check", "another build against a golden: bit-exact, within the bound, or wrong",
      [&a, &g](const Kernels& kernels) { return golden_check_command(kernels, a, g); });
  check->add_option("golden", g.folder, "the folder of the golden")
      ->type_name("FOLDER")
      ->required();
  check->add_option("--outputs", g.outputs, "the other build's NAME.npy, in this folder")
      ->type_name("FOLDER");
  check->add_option("--backend", g.backend, "run this backend on the golden's inputs: cuda")
      ->type_name("cuda|interpret");
  add_time_limit(*check, a);
  add_oversubscribe(*check, a);
  CLI::App* const bisect = add_command(
      *golden, w, "bisect", "the first grid step and ref whose blocks differ from the other side's",
      [&a, &g](const Kernels& kernels) { return golden_bisect_command(kernels, a, g); });
  bisect->add_option("golden", g.folder, "the folder of the golden")
      ->type_name("FOLDER")
      ->required();
  bisect
      ->add_option("--outputs", g.outputs,
                   "the other side's steps.npy, or a folder with it, or with its outputs alone")
      ->type_name("FILE");
  bisect->add_option("--backend", g.backend, "run this backend on the golden's inputs: cuda")
      ->type_name("cuda|interpret");
  add_time_limit(*bisect, a);
  add_oversubscribe(*bisect, a);
  CLI::App* const bless =
      add_command(app, w, "bless",
                  "make the goldens of a kernel that a library checks in: small, covering edges",
                  [&a, &g](const Kernels& kernels) { return bless_command(kernels, a, g); });
  bless->add_option("kernel", a.kernel, "kernel name (tessera list)")
      ->type_name("KERNEL")
      ->required();
  bless->add_option("--device", a.device, "the device whose build will be held to them")
      ->type_name("DEVICE")
      ->capture_default_str();
  bless->add_option("--out", g.folder, "the folder to make; goldens/KERNEL if not given")
      ->type_name("FOLDER");
  add_error_model(*bless, g);
  add_time_limit(*bless, a);
}

void add_check(CLI::App& app, CommandLine& w) {
  CheckArguments& c = w.check;
  CLI::App* const check = add_command(
      app, w, "check",
      "what the TPU's compiler says of Mosaic modules or a kernel, and tessera, by device",
      [&c](const Kernels& kernels) { return module_commands().check(kernels, c); });
  check
      ->add_option("subjects", c.subjects,
                   "modules, folders of calls or of such folders; or a kernel, and name=value of "
                   "its sizes and tiles")
      ->type_name("KERNEL")
      ->required();
  check->add_option("--case", c.kernel.case_index, "of a kernel: a case by number")
      ->capture_default_str();
  check->add_option("--dtype", c.kernel.dtype, "of a kernel: f32 or bf16")
      ->type_name("f32|bf16")
      ->capture_default_str();
  check->add_option("--device", c.devices, "devices, as in tpu-v5e,tpu-v6e")
      ->type_name("DEVICE")
      ->capture_default_str();
  check
      ->add_option("--python", c.python,
                   "the Python interpreter that has jax and libtpu; TESSERA_TPU_PYTHON or "
                   "python3 if not given")
      ->type_name("FILE");
  check->add_option("--time-limit", c.time_limit, "seconds that the compiler may take for a module")
      ->check(kSeconds)
      ->capture_default_str();
  check->add_flag("--own", c.own, "tessera's own rules alone: no compiler is asked");
  check->add_flag("--brief", c.brief, "verdicts alone, without the compiler's VMEM and spills");
  check->add_flag("--schedule", c.schedule,
                  "play the schedules that it makes: cycles, what binds, bytes; of modules whose "
                  "control needs no operand's values");
  check
      ->add_option("--json", c.json,
                   "write the verdicts here (tessera.check/1); - for standard output")
      ->type_name("FILE");
}

/// What makes something to go on with.
void add_makers(CLI::App& app, CommandLine& w) {
  RunArguments& a = w.run;
  CLI::App* const build =
      add_command(app, w, "build",
                  "a kernel for a TPU: its Mosaic module, a Python file that calls it, its arrays; "
                  "or for a GPU",
                  [&w](const Kernels& kernels) { return build_command(kernels, w.run, w.build); });
  add_setting_options(*build, a);
  build->add_option("--target", w.build.target, "cuda or tpu")->type_name("cuda|tpu")->required();
  build->add_option("--out", w.build.folder, "the folder to make, for a TPU")->type_name("FOLDER");
  add_time_limit(*build, a);
  build->add_flag(
      "--no-fused", w.build.not_fused,
      "fma() as a product and a sum, which round twice, not by integers: fewer operations");
  CLI::App* const extract =
      add_command(app, w, "extract",
                  "the Mosaic kernels inside StableHLO text or a serialised jax.export artefact",
                  [&w](const Kernels&) { return module_commands().extract(w.name, w.folder); });
  extract->add_option("file", w.name, "the program")->type_name("FILE")->required();
  extract->add_option("--output", w.folder, "write each to a folder of its own in this one")
      ->type_name("FOLDER");
  CLI::App* const triton = add_command(
      app, w, "triton", "run SCRIPT: a Python program's Triton kernels (triton run --help)",
      [&w](const Kernels&) -> int { python_command(w.python); });
  triton->allow_extras()->prefix_command()->set_help_flag();
  triton->parse_complete_callback([&w, triton] {
    w.python = triton->remaining();
    w.python.insert(w.python.begin(), "triton");
  });
  CLI::App* const create =
      add_command(app, w, "new", "start a project with a kernel of your own",
                  [&w](const Kernels&) { return new_command(w.name, w.folder); });
  create->add_option("name", w.name, "kernel name, in snake_case")->required();
  create->add_option("--folder", w.folder, "where; ./NAME if not given")->type_name("FOLDER");
}

/// What shells and man are given.
void add_own_words(CLI::App& app, CommandLine& w) {
  add_command(app, w, "completion", "what completes commands in a shell, for it to read",
              [&app, &w](const Kernels& kernels) {
                const KnownNames known{kernels.names(), device_names()};
                std::fputs(completion_script(app, w.name, known).c_str(), stdout);
                return 0;
              })
      ->add_option("shell", w.name, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required();
  add_command(app, w, "man", "the manual page, as in tessera man | man -l -",
              [&app](const Kernels&) {
                std::fputs(manual_page(app, TESSERA_VERSION).c_str(), stdout);
                return 0;
              });
}

/// A mistyped command gets the nearest one, not a list of options.
void check_command_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::ranges::find(known, word) == known.end())
    throw InputError("unknown-command", "no command '" + word + "'" + suggest(word, known),
                     "tessera --help");
}

/// What the first flag that nobody knows was perhaps meant to be.
std::string nearest_flag(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> known;
  for (const CLI::Option* option : command->get_options({})) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (word.starts_with("--") && std::ranges::find(known, word) == known.end()) {
      const std::string near = suggest(word, known);
      return near.find("did you mean") != std::string::npos ? near : "";
    }
  }
  return "";
}

int dispatch(int argc, char** argv, const Kernels& kernels) {
  CLI::App app{"tessera: runs tiled accelerator kernels on a simulated memory hierarchy",
               "tessera"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "tessera " TESSERA_VERSION);
  CommandLine w;
  add_listings(app, w);
  add_run(app, w);
  add_replay(app, w);
  add_comparisons(app, w);
  add_tuning(app, w);
  add_goldens(app, w);
  add_check(app, w);
  add_makers(app, w);
  add_own_words(app, w);
  refuse_empty_values(app);
  if (argc > 1 && argv[1][0] != '-') check_command_word(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ExtrasError& error) {
    throw InputError("bad-usage", error.what() + nearest_flag(app, argc, argv), "tessera --help");
  } catch (const CLI::ParseError& error) {
    throw InputError("bad-usage", error.what(), "tessera --help");
  }
  if (w.run.time_limit > 0) limit_time(w.run.time_limit);
  return w.chosen(kernels);
}

/// What could not be read, written or held: exit code 2.
int refuse(const InputError& error) {
  std::fflush(stdout);
  const InputError said(error.slug, error.what(), as_called(error.help));
  say(said);
  return 2;
}

int run_caught(int argc, char** argv, const Kernels& kernels) {
  try {
    return dispatch(argc, argv, kernels);
  } catch (const InputError& error) {
    return refuse(error);
  } catch (const NpyError& error) {
    return refuse(InputError("bad-input", error.what()));
  } catch (const FileError& error) {
    return refuse(InputError("bad-input", error.what()));
  } catch (const std::system_error& error) {  // of the file system, or of a stream
    return refuse(InputError("bad-input", error.what()));
  } catch (const std::bad_alloc&) {
    return refuse(InputError("bad-input", "these arrays do not fit in this machine's memory"));
  } catch (const std::length_error&) {
    return refuse(InputError("bad-input", "these sizes are beyond any array"));
  } catch (const cuda::HungKernel& error) {
    refuse(InputError("hung-kernel", error.what()));
    // Ending in the usual way would wait for the device.
    std::_Exit(1);
  } catch (const cuda::CudaError& error) {
    refuse(InputError("cuda", error.what()));
    return 70;
  } catch (const KernelError& error) {
    say(error.diagnostic);
    return 1;
  } catch (const std::exception& error) {
    const Diagnostic d{
        .slug = "internal", .kind = Diagnostic::Kind::internal, .headline = error.what()};
    say(d);
    return 70;
  }
}

}  // namespace

RunArguments run_arguments(const std::vector<std::string>& words) {
  CLI::App app;
  CommandLine w;
  add_run(app, w);
  std::vector<std::string> last_first(words.rbegin(), words.rend());
  last_first.emplace_back("run");
  try {
    app.parse(std::move(last_first));
  } catch (const CLI::ParseError& error) {
    throw InputError("bad-record", joined(words) + " are no arguments of run: " + error.what());
  }
  return w.run;
}

int run_app(int argc, char** argv, const Kernels& kernels) {
  handle_signals();
  if (argc > 0) name_program(argv[0]);
  const int code = run_caught(argc, argv, kernels);
  if (stop_flag() == Stop::interrupted) return kInterrupted;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  return refuse(InputError("bad-input", "standard output cannot be written"));
}

}  // namespace tessera::cli
