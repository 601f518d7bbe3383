#include "cli/app.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/signals.hpp"
#include "memory_model/file.hpp"

namespace tessera::cli {

namespace {

void add_setting_options(CLI::App& command, RunArguments& a) {
  command
      .add_option("kernel", a.kernel,
                  "kernel name (tessera list), or a Mosaic module or the folder of a call")
      ->required();
  command.add_option("parameters", a.assignments, "sizes and tiles, as in m=512 bm=128");
  command.add_option("--case", a.case_index, "start from this case of the kernel (tessera show)");
  command.add_option("--device", a.device, "device name (tessera devices) or spec file")
      ->capture_default_str()
      ->each([&a](const std::string&) { a.device_given = true; });
  command.add_option("--dtype", a.dtype, "element type of the operands")->capture_default_str();
  command.add_option("--seed", a.seed, "seed of the inputs that are made")->capture_default_str();
  command.add_option("--devices", a.mesh, "devices of the mesh, as in 8 or 2x4");
  command.add_option("--cores", a.cores, "cores of a device, which share its parallel cells")
      ->capture_default_str();
  command
      .add_option("--inputs", a.input_kind,
                  "what made-up inputs hold: uniform, binary, integers, cancellation, wide or "
                  "special (NaN, inf)")
      ->capture_default_str();
  command.add_option("--input", a.inputs,
                     "ref=file.npy: an input or a prefetched array from a file; of a module, the "
                     "operand's number");
}

int dispatch(int argc, char** argv, const Kernels& kernels) {
  CLI::App app{"tessera: runs tiled accelerator kernels on a simulated memory hierarchy",
               "tessera"};
  app.require_subcommand(1);
  RunArguments a;
  bool markdown = false;
  std::string name;
  std::string folder;

  CLI::App* list = app.add_subcommand("list", "the kernels there are");
  list->add_flag("--markdown", markdown, "as a table for docs/");
  CLI::App* show =
      app.add_subcommand("show", "a kernel's equation, parameters, signature, cases and bytes");
  add_setting_options(*show, a);
  show->add_flag("--steps", a.steps,
                 "of a Mosaic module: the program that was planned, step by step");
  CLI::App* run = app.add_subcommand("run", "run a kernel: validate it, count its bytes");
  add_setting_options(*run, a);
  run->add_option("--output", a.output, "write the outputs to this folder as .npy");
  run->add_option("--threads", a.threads, "host threads; 0 takes all")->capture_default_str();
  run->add_option("--schedule", a.schedule,
                  "eager, on_wait, adversarial, random:SEED or explore:N (N of them)");
  run->add_flag("--no-races", a.no_races, "do not look for races");
  run->add_option("--json", a.json, "write the report here (tessera.run/1); - for standard output");
  run->add_option("--report", a.report,
                  "write a page with numbers and pictures here, as in --report out.html");
  run->add_option(
      "--trace", a.trace,
      "write the predicted timeline here for ui.perfetto.dev, as in --trace out.pftrace");
  run->add_option("--at", a.at, "i,j,k: print every block before this grid step");
  run->add_flag("--break", a.break_at, "stop in gdb there, before the body");
  run->add_option("--trap", a.trap, "nan: stop at the first op that makes a NaN from numbers");
  run->add_option("--profile", a.profile,
                  "how products are computed: exact; mxu (f32 operands rounded to bf16), mxu:x3 or "
                  "mxu:x6 (three or six passes); or tensorcore:hopper (f16, bf16 and fp8 as "
                  "wgmma, bit by bit)")
      ->capture_default_str();
  run->add_flag("--no-check", a.no_check, "do not compare with the reference");
  run->add_flag("--dry", a.dry,
                "count alone, from the grid, the index maps and bodies without data: no "
                "arithmetic, any size");
  run->add_flag("--timeline", a.timeline,
                "predict the time of a run of more than 131,072 steps too");
  run->add_option("--backend", a.backend,
                  "auto (cuda where there is a GPU), cuda, interpret or reference")
      ->envname("TESSERA_BACKEND")
      ->capture_default_str();
  run->add_option("--rounds", a.rounds, "on cuda: time this many runs after the first");
  run->add_option("--time-limit", a.time_limit,
                  "seconds that the run may take; on cuda 300 unless given")
      ->check(CLI::PositiveNumber);
  const auto oversubscribe = [&](CLI::App* command) {
    command->add_flag("--oversubscribe", a.oversubscribe,
                      "on cuda: run several devices of a mesh on one GPU");
  };
  oversubscribe(run);
  CLI::App* compare = app.add_subcommand(
      "compare",
      "every case of a kernel on a backend and interpreted, bit by bit; or two reports of runs: "
      "A.json B.json");
  add_setting_options(*compare, a);
  compare->add_option("--backend", a.backend, "cuda or reference");
  CLI::App* sweep = app.add_subcommand(
      "sweep", "bytes, VMEM and predicted time over block shapes and devices: bm=64,128 bn=128");
  add_setting_options(*sweep, a);
  sweep->add_option("--csv", name, "write the table here; - for standard output");
  sweep->add_option("--json", a.json,
                    "write the rows here (tessera.sweep/1); - for standard output");
  sweep->add_option("--report", a.report, "write a page with the table and a picture here");
  sweep->add_option("--threads", a.threads, "host threads; 0 takes all")->capture_default_str();
  CLI::App* advise = app.add_subcommand(
      "advise", "which limit binds, and the smallest change of the block shape that moves it");
  add_setting_options(*advise, a);
  oversubscribe(compare);
  GoldenArguments g;
  const auto error_model = [&](CLI::App* command) {
    command
        ->add_option("--accumulate", g.accumulate,
                     "the format that the other side adds in: f32, tf32, f16 or bf16")
        ->capture_default_str();
    command
        ->add_option("--operands", g.operands,
                     "what it rounds f32 operands of dots to: tf32, or bf16 (one pass of an MXU)")
        ->capture_default_str();
    command->add_option("--ulp", g.ulps,
                        "op=N: what its elementary functions may be off by, as exp=2");
    command->add_flag("--other-blocks", g.other_blocks,
                      "its blocks may have other sizes: an online softmax rounds elsewhere");
    command->add_flag("--no-fused", g.not_fused, "it never fuses a product into an addition");
  };
  CLI::App* golden = app.add_subcommand(
      "golden", "outputs with error bounds that another build of a kernel is held to");
  golden->require_subcommand(1);
  CLI::App* make = golden->add_subcommand("make", "run a kernel and write its golden");
  add_setting_options(*make, a);
  make->add_option("--out", g.folder, "the folder to make")->required();
  make->add_option("--threads", a.threads, "host threads; 0 takes all")->capture_default_str();
  make->add_option("--profile", a.profile, "how products are computed")->capture_default_str();
  error_model(make);
  CLI::App* check = golden->add_subcommand(
      "check", "another build against a golden: bit-exact, within the bound, or wrong");
  check->add_option("golden", g.folder, "the folder of the golden")->required();
  check->add_option("--outputs", g.outputs, "the other build's NAME.npy, in this folder");
  check->add_option("--backend", g.backend, "run this backend on the golden's inputs: cuda");
  oversubscribe(check);
  CLI::App* bisect = golden->add_subcommand(
      "bisect", "the first grid step and ref whose blocks differ from the other side's");
  bisect->add_option("golden", g.folder, "the folder of the golden")->required();
  bisect->add_option("--outputs", g.outputs,
                     "the other side's steps.npy, or a folder with it, or with its outputs alone");
  bisect->add_option("--backend", g.backend, "run this backend on the golden's inputs: cuda");
  oversubscribe(bisect);
  CLI::App* bless = app.add_subcommand(
      "bless", "make the goldens of a kernel that a library checks in: small, covering edges");
  bless->add_option("kernel", a.kernel, "kernel name (tessera list)")->required();
  bless->add_option("--device", a.device, "the device whose build will be held to them")
      ->capture_default_str();
  bless->add_option("--out", g.folder, "the folder to make; goldens/KERNEL if not given");
  error_model(bless);
  CLI::App* devices = app.add_subcommand("devices", "the device specs, or one with its sources");
  devices->add_option("name", name, "device");
  CLI::App* ops = app.add_subcommand("ops", "the ops that bodies can use");
  ops->add_flag("--markdown", markdown, "as a table for docs/");
  CLI::App* extract = app.add_subcommand(
      "extract", "the Mosaic kernels inside StableHLO text or a serialised jax.export artefact");
  extract->add_option("file", name, "the program")->required();
  extract->add_option("--output", folder, "write each to a folder of its own in this one");
  CLI::App* create = app.add_subcommand("new", "start a project with a kernel of your own");
  create->add_option("name", name, "kernel name, in snake_case")->required();
  create->add_option("--folder", folder, "where; ./NAME if not given");

  // A mistyped command gets the nearest one, not a list of options.
  if (argc > 1 && argv[1][0] != '-') {
    const std::string word = argv[1];
    std::vector<std::string> known;
    for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      throw InputError("unknown-command", "no command '" + word + "'" + suggest(word, known),
                       "tessera --help");
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    throw InputError("bad-usage", error.what(), "tessera --help");
  }
  if (a.time_limit > 0) limit_time(a.time_limit);
  if (*list) return list_command(kernels, markdown);
  if (*show) return is_module(a.kernel) ? show_module_command(a) : show_command(kernels, a);
  if (*run) return is_module(a.kernel) ? run_module_command(a) : run_command(kernels, a);
  if (*compare && a.kernel.ends_with(".json") && a.assignments.size() == 1)
    return compare_reports(a.kernel, a.assignments.front());
  if (*compare) return compare_command(kernels, a);
  if (*sweep) return sweep_command(kernels, a, name);
  if (*advise) return advise_command(kernels, a);
  if (*bless) return bless_command(kernels, a, g);
  if (*make) return golden_make_command(kernels, a, g);
  if (*check) return golden_check_command(kernels, a, g);
  if (*bisect) return golden_bisect_command(kernels, a, g);
  if (*devices) return devices_command(name);
  if (*ops) return ops_command(markdown);
  if (*extract) return extract_command(name, folder);
  return new_command(name, folder);
}

/// What could not be read, written or held: exit code 2.
int refuse(const InputError& error) {
  std::fflush(stdout);
  std::fputs(error.text().c_str(), stderr);
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
    std::fputs(error.diagnostic.text().c_str(), stderr);
    return 1;
  } catch (const std::exception& error) {
    const Diagnostic d{
        .slug = "internal", .kind = Diagnostic::Kind::internal, .headline = error.what()};
    std::fputs(d.text().c_str(), stderr);
    return 70;
  }
}

}  // namespace

int run_app(int argc, char** argv, const Kernels& kernels) {
  handle_signals();
  const int code = run_caught(argc, argv, kernels);
  if (stop_flag() == Stop::interrupted) return kInterrupted;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  return refuse(InputError("bad-input", "standard output cannot be written"));
}

}  // namespace tessera::cli
