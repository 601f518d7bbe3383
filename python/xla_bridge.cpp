// The Python module tessera._xla: XLA's custom calls on one side (typed FFI, xla/ffi/api/ffi.h of
// jaxlib), live_calls.hpp on the other.
//
// An op `tessera_mosaic_call` has the operands and results of the tpu_custom_call that it stands
// for, after them the logical id of its device (u32); attributes: name, of the kernel, may be
// empty; config, the backend_config; devices, of the mesh; alone, whether it is its program's only
// op; synchronised, whether that has collectives of XLA's; aliases, pairs of operand and result.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "memory_model/device_spec.hpp"
#include "program/importer.hpp"
#include "python/errors.hpp"
#include "python/interrupts.hpp"
#include "python/live_calls.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/machine/schedule.hpp"
#include "tpu_compiler/tpu_compiler.hpp"
#include "xla/ffi/api/ffi.h"

namespace nb = nanobind;
namespace ffi = xla::ffi;

namespace {

using namespace tessera;

DType dtype_of(ffi::DataType t) {
  switch (t) {
    case ffi::DataType::PRED:
      return DType::boolean;
    case ffi::DataType::S2:
      return DType::i2;
    case ffi::DataType::S4:
      return DType::i4;
    case ffi::DataType::S8:
      return DType::i8;
    case ffi::DataType::S16:
      return DType::i16;
    case ffi::DataType::S32:
      return DType::i32;
    case ffi::DataType::S64:
      return DType::i64;
    case ffi::DataType::U2:
      return DType::u2;
    case ffi::DataType::U4:
      return DType::u4;
    case ffi::DataType::U8:
      return DType::u8;
    case ffi::DataType::U16:
      return DType::i16;  // Mosaic's integers have no sign
    case ffi::DataType::U32:
      return DType::u32;
    case ffi::DataType::F16:
      return DType::f16;
    case ffi::DataType::F32:
      return DType::f32;
    case ffi::DataType::F64:
      return DType::f64;
    case ffi::DataType::BF16:
      return DType::bf16;
    case ffi::DataType::F8E5M2:
      return DType::f8e5m2;
    case ffi::DataType::F8E4M3FN:
      return DType::f8e4m3fn;
    case ffi::DataType::F8E4M3B11FNUZ:
      return DType::f8e4m3b11fnuz;
    case ffi::DataType::F8E8M0FNU:
      return DType::f8e8m0fnu;
    case ffi::DataType::F4E2M1FN:
      return DType::f4e2m1fn;
    default:
      throw InputError("unsupported", "an operand or result of a type that tessera lacks");
  }
}

live::View view_of(const ffi::AnyBuffer& buffer) {
  live::View v;
  v.dtype = dtype_of(buffer.element_type());
  const auto dims = buffer.dimensions();
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw InputError("unsupported", "an array of " + std::to_string(dims.size()) +
                                        " dims; at most " + std::to_string(kMaxRank));
  }
  for (const std::int64_t extent : dims) v.shape.push_back(extent);
  v.bytes = static_cast<std::byte*>(buffer.untyped_data());
  return v;
}

/// An op of a program: XLA makes one for all devices.
struct Site {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
};
ffi::TypeId Site::id = {};
ffi::TypeInfo Site::info = ffi::MakeTypeInfo<Site>();

ffi::ErrorOr<std::unique_ptr<Site>> make_site() { return std::make_unique<Site>(); }

ffi::Future call_kernel(Site* site, ffi::RunId run, ffi::RemainingArgs operands,
                        ffi::RemainingRets results, std::string_view name, std::string_view config,
                        std::int64_t devices, bool alone, bool synchronised,
                        ffi::Span<const std::int64_t> aliases) {
  ffi::Promise promise;
  ffi::Future future(promise);
  const auto done = [promise](const std::string& error) mutable {
    if (error.empty())
      promise.SetAvailable();
    else
      promise.SetError(ffi::Error::Internal(error));
  };
  try {
    live::DeviceCall call;
    call.name = name;
    call.config = config;
    call.program = run.run_id;
    call.site = site;
    call.devices = static_cast<int>(devices);
    call.alone = alone;
    call.synchronised = synchronised;
    for (std::size_t i = 0; i < operands.size(); ++i)
      call.operands.push_back(view_of(operands.get<ffi::AnyBuffer>(i).value()));
    std::uint32_t device = 0;
    std::memcpy(&device, call.operands.back().bytes, sizeof(device));
    call.operands.pop_back();
    call.device = static_cast<int>(device);
    for (std::size_t j = 0; j < results.size(); ++j)
      call.results.push_back(view_of(*results.get<ffi::AnyBuffer>(j).value()));
    for (std::size_t i = 0; i + 1 < aliases.size(); i += 2) {
      call.aliases.emplace_back(static_cast<std::size_t>(aliases[i]),
                                static_cast<int>(aliases[i + 1]));
    }
    call.done = done;
    live::submit(std::move(call));
  } catch (const InputError& e) {
    auto refuse = done;
    refuse(e.text());
  }
  return future;
}

XLA_FFI_DEFINE_HANDLER(kMakeSite, make_site, ffi::Ffi::BindInstantiate());
XLA_FFI_DEFINE_HANDLER(kCallKernel, call_kernel,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<Site>>()
                           .Ctx<ffi::RunId>()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::string_view>("name")
                           .Attr<std::string_view>("config")
                           .Attr<std::int64_t>("devices")
                           .Attr<bool>("alone")
                           .Attr<bool>("synchronised")
                           .Attr<ffi::Span<const std::int64_t>>("aliases"));

nb::capsule handler(XLA_FFI_Handler* function) {
  return nb::capsule(reinterpret_cast<void*>(function));
}

nb::dict registrations() {
  nb::dict d;
  d["instantiate"] = handler(kMakeSite);
  d["execute"] = handler(kCallKernel);
  return d;
}
nb::dict site_type() {
  nb::dict d;
  d["type_id"] = nb::capsule(static_cast<void*>(&Site::id));
  d["type_info"] = nb::capsule(static_cast<void*>(&Site::info));
  return d;
}

ErrorModel error_model(const std::string& accumulate, const std::string& operands,
                       const std::map<std::string, double>& ulp, bool fused, bool other_blocks) {
  ErrorModel m;
  m.accumulate = unit_roundoff(accumulate);
  if (!operands.empty()) m.operands = unit_roundoff(operands);
  m.fused = fused;
  m.other_blocks = other_blocks;
  for (const auto& [op, value] : ulp) m.set_ulp(op, value);
  return m;
}

/// What JAX takes the device for.
std::string device_kind(const std::string& device) {
  const DeviceSpec spec = load_device(device);
  if (spec.jax.device_kind.empty())
    throw InputError("bad-input", device + ": JAX must know which TPU it is",
                     "in its file, beside \"kind\": \"jax\": {\"device_kind\": \"TPU v6 lite\", "
                     "\"chip\": \"v6e\", \"source\": \"...\"}");
  return spec.jax.device_kind;
}

/// Ctrl-C while programs with kernels run.
live::Interrupts& interrupts() {
  static live::Interrupts all(&live::interrupt, &live::resume);
  return all;
}

/// Its process stays for the next one who asks, if it is for schedules. Throws InputError.
std::shared_ptr<tpu_compiler::TpuCompiler> compiler_in(const std::string& python, bool schedules) {
  static std::map<std::string, std::shared_ptr<tpu_compiler::TpuCompiler>> known;
  std::shared_ptr<tpu_compiler::TpuCompiler> compiler = schedules ? known[python] : nullptr;
  if (!compiler) {
    tpu_compiler::Settings asked;
    asked.python = python;
    if (schedules) asked.listings = tpu_compiler::Settings::Listings::schedule;
    asked.note = [](const std::string& text) {
      std::fprintf(stderr, "tessera: %s\n", text.c_str());
    };
    compiler = std::make_shared<tpu_compiler::TpuCompiler>(std::move(asked));
  }
  compiler->require();
  if (schedules) known[python] = compiler;
  return compiler;
}

void start(const std::string& device, const std::string& schedule, bool find_races, bool keep_going,
           bool may_leave_unwritten, int cores, int threads, const std::string& capture,
           double patience, const std::string& profile, const std::string& golden,
           std::optional<ErrorModel> error_model, bool dry, double time_limit,
           std::int64_t report_bytes, bool check_compiles, bool by_schedule, bool jax_0_11,
           const std::string& python) {
  live::Settings s;
  s.options.device = load_device(device);
  if (s.options.device.kind != DeviceSpec::Kind::tpu)
    throw InputError("bad-input", device + " is no TPU; Pallas kernels of a TPU need one");
  if (!schedule.empty()) s.options.schedule = parse_schedule(schedule);
  s.options.find_races = find_races;
  s.options.cores = cores;
  s.options.threads = threads;
  s.options.profile = named(kProfiles, profile, "profile");
  s.keep_going = keep_going;
  s.may_leave_unwritten = may_leave_unwritten;
  s.options.keep_going = keep_going;
  s.capture = capture;
  s.golden = golden;
  s.options.error_model = std::move(error_model);
  s.options.keep_checksums = s.options.error_model.has_value();
  s.patience = patience;
  s.time_limit = time_limit;
  s.report_bytes = static_cast<std::size_t>(report_bytes);
  s.options.dry = dry;
  if (check_compiles || by_schedule) s.compiler = compiler_in(python, by_schedule);
  s.by_schedule = by_schedule;
  s.jax_0_11 = jax_0_11;
  live::open(std::move(s));
}

}  // namespace

NB_MODULE(_xla, m) {
  nb::set_leak_warnings(false);
  raise_input_errors_as_value_errors();
  m.def("registrations", &registrations);
  m.def("site_type", &site_type);
  m.def("device_names", &device_names);
  m.def("device_cores", [](const std::string& name) { return load_device(name).cores; });
  m.def("device_kind", &device_kind);
  m.def("set_importer", [](const std::string& path) { program::set_importer(path); });
  nb::class_<ErrorModel>(m, "ErrorModel");
  m.def("error_model", &error_model);
  m.def("start", &start, nb::arg("device"), nb::arg("schedule"), nb::arg("find_races"),
        nb::arg("keep_going"), nb::arg("may_leave_unwritten"), nb::arg("cores"), nb::arg("threads"),
        nb::arg("capture"), nb::arg("patience"), nb::arg("profile"), nb::arg("golden"),
        nb::arg("error_model").none(), nb::arg("dry"), nb::arg("time_limit"),
        nb::arg("report_bytes"), nb::arg("check_compiles"), nb::arg("by_schedule"),
        nb::arg("jax_0_11"), nb::arg("python"));
  m.def("stop", &live::close, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "count_alone",
      [](bool alone, const std::optional<std::string>& compiler) {
        live::count_alone(alone, compiler ? compiler_in(*compiler, true) : nullptr);
      },
      nb::arg("alone"), nb::arg("compiler") = nb::none());
  m.def("compiler_version",
        [](const std::string& python) { return compiler_in(python, true)->version(); });
  m.def("record_in", &live::record_in);
  nb::class_<live::Within>(m, "Within")
      .def(nb::init<std::string, std::string, std::vector<std::pair<std::string, std::string>>>());
  m.def("program_begins", &live::program_begins);
  m.def("program_ends", &live::program_ends);
  m.def("heed_interrupts", [] { interrupts().heed(); });
  m.def("ignore_interrupts", [] { interrupts().ignore(); });
  nb::class_<live::Finding>(m, "Finding")
      .def_ro("slug", &live::Finding::slug)
      .def_ro("kind", &live::Finding::kind)
      .def_ro("text", &live::Finding::text)
      .def_ro("by_compiler", &live::Finding::by_compiler);
  nb::class_<live::Finished>(m, "Finished")
      .def_prop_ro("json", [](const live::Finished& f) { return f.report ? f.report->json() : ""; })
      .def_prop_ro("text", [](const live::Finished& f) { return f.report ? f.report->text() : ""; })
      .def_prop_ro("page", [](const live::Finished& f) { return f.report ? f.report->page() : ""; })
      .def_ro("findings", &live::Finished::findings)
      .def_ro("note", &live::Finished::note)
      .def_ro("warnings", &live::Finished::warnings)
      .def_ro("printed", &live::Finished::printed)
      .def_ro("folder", &live::Finished::folder)
      .def_ro("golden", &live::Finished::golden)
      .def_ro("replaced", &live::Finished::replaced)
      .def_ro("compiler", &live::Finished::compiler);
  m.def("take_finished", &live::take_finished);
  m.def("left_out", &live::left_out);
  m.def("under_way", [] {
    const live::UnderWay u = live::under_way();
    return std::pair(u.bytes, u.started_by);
  });
}
