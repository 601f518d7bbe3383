// The Python module tessera._triton: objects of a program on one side, triton_launches.hpp on the
// other.
//
// An argument that is a pointer is an object with data_ptr(): a DeviceArray of ours (attributes
// _tessera_base, _tessera_bytes, writable of its allocation, _tessera_view of what of it is the
// array's), a tensor with untyped_storage(), as torch's, or what Triton wraps around one (base).
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "memory_model/device_spec.hpp"
#include "program/importer.hpp"
#include "python/errors.hpp"
#include "python/interrupts.hpp"
#include "python/triton_launches.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace nb = nanobind;

namespace {

using namespace tessera;
using live::Launched;
using live::Pointer;
using live::Specialisation;

live::Interrupts& interrupts() {
  static live::Interrupts all(&live::interrupt_launches, &live::resume_launches);
  return all;
}

/// What a launch asks of its arguments, by names that are made once.
struct Names {
  nb::object data_ptr = nb::str("data_ptr");
  nb::object base_address = nb::str("_tessera_base");
  nb::object bytes = nb::str("_tessera_bytes");
  nb::object writable = nb::str("writable");
  nb::object untyped_storage = nb::str("untyped_storage");
  nb::object nbytes = nb::str("nbytes");
  nb::object view = nb::str("_tessera_view");
  nb::object shape = nb::str("shape");
  nb::object stride = nb::str("stride");
  nb::object element_size = nb::str("element_size");
  nb::object base = nb::str("base");
};
const Names& names() {
  static auto* const all = new Names;
  return *all;
}

nb::object ask(nb::handle of, const nb::object& method) {
  PyObject* const self = of.ptr();
  PyObject* const answer = PyObject_VectorcallMethod(method.ptr(), &self, 1, nullptr);
  if (answer == nullptr) throw nb::python_error();
  return nb::steal(answer);
}
/// None if there is none.
nb::object look(nb::handle of, const nb::object& attribute) {
  PyObject* const answer = PyObject_GetAttr(of.ptr(), attribute.ptr());
  if (answer != nullptr) return nb::steal(answer);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
  PyErr_Clear();
  return nb::none();
}
std::int64_t integer(const nb::object& o) { return nb::cast<std::int64_t>(o); }

std::byte* address(std::int64_t a) { return reinterpret_cast<std::byte*>(a); }  // NOLINT

/// What of its storage a tensor of torch's has.
void note_view(nb::handle tensor, std::int64_t at, Pointer& p) {
  const nb::object bytes = look(tensor, names().nbytes);
  if (bytes.is_none() || integer(bytes) == p.bytes) return;
  const nb::object extents = look(tensor, names().shape);
  const nb::object strides = ask(tensor, names().stride);
  std::int64_t last = 0;
  for (std::size_t d = 0; d < nb::len(extents); ++d) {
    const auto extent = nb::cast<std::int64_t>(extents[d]);
    if (extent == 0) return;
    last += (extent - 1) * nb::cast<std::int64_t>(strides[d]);
  }
  p.begin = at - reinterpret_cast<std::int64_t>(p.base);  // NOLINT
  p.end = p.begin + (last + 1) * integer(ask(tensor, names().element_size));
}

/// `views`: what of its allocation is the argument's is asked, too.
Pointer pointer_of(nb::handle argument, bool views) {
  Pointer p;
  if (argument.is_none()) return p;
  const std::int64_t at = integer(ask(argument, names().data_ptr));
  nb::object of = nb::borrow(argument);
  for (;;) {
    if (const nb::object base = look(of, names().base_address); !base.is_none()) {
      p.base = address(integer(base));
      p.bytes = integer(look(of, names().bytes));
      p.writable = nb::cast<bool>(look(of, names().writable));
      const nb::object view = views ? look(of, names().view) : nb::none();
      if (!view.is_none()) {
        p.begin = nb::cast<std::int64_t>(view[0]);
        p.end = nb::cast<std::int64_t>(view[1]);
      }
      break;
    }
    if (nb::hasattr(of, names().untyped_storage)) {
      const nb::object storage = ask(of, names().untyped_storage);
      p.base = address(integer(ask(storage, names().data_ptr)));
      p.bytes = integer(ask(storage, names().nbytes));
      if (views) note_view(of, at, p);
      break;
    }
    of = look(of, names().base);  // triton.reinterpret
    if (of.is_none()) {
      throw InputError("bad-input",
                       std::string("an argument of type ") +
                           nb::cast<std::string>(nb::str(argument.type())) +
                           " does not say how large its allocation is",
                       "pass a tensor of torch's, or tessera.DeviceArray(array)");
    }
  }
  p.offset = at - reinterpret_cast<std::int64_t>(p.base);  // NOLINT
  if (p.bytes == 0 || at == 0) return {};
  return p;
}

/// As the bits of both: which a parameter takes is its type's to say.
program::Scalar scalar_of(nb::handle argument, DType dtype) {
  program::Scalar s;
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsPacked<T>) {
      throw InputError("bad-input", "a scalar of less than a byte");
    } else {
      T v{};
      if constexpr (std::is_integral_v<T> || std::is_same_v<T, bool>) {
        const std::uint64_t bits = PyLong_AsUnsignedLongLongMask(argument.ptr());
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        v = static_cast<T>(bits);
      } else {
        const double value = PyFloat_AsDouble(argument.ptr());
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        v = convert<T>(value);
      }
      std::memcpy(s.bytes.data(), &v, sizeof(T));
    }
  });
  return s;
}

/// `kinds`: per parameter "*" or Triton's name of a scalar's type.
class Signature {
 public:
  explicit Signature(const std::vector<std::string>& types) {
    static const std::map<std::string, DType> all = {
        {"fp64", DType::f64},   {"fp32", DType::f32},  {"fp16", DType::f16}, {"bf16", DType::bf16},
        {"i64", DType::i64},    {"i32", DType::i32},   {"i16", DType::i16},  {"i8", DType::i8},
        {"u64", DType::i64},    {"u32", DType::i32},   {"u16", DType::i16},  {"u8", DType::i8},
        {"i1", DType::boolean}, {"u1", DType::boolean}};
    for (const std::string& t : types) {
      const auto it = all.find(t);
      if (!t.starts_with('*') && it == all.end())
        throw InputError("unsupported", "an argument of type " + t);
      of_.push_back(t.starts_with('*') ? std::nullopt : std::optional(it->second));
    }
  }

  /// Null: all is well.
  std::shared_ptr<Launched> launch(Specialisation& which, std::int64_t x, std::int64_t y,
                                   std::int64_t z, const nb::list& arguments) const {
    if (arguments.size() != of_.size())
      throw InputError("bad-input", "another number of arguments than the kernel's");
    std::vector<program::Scalar> scalars(of_.size());
    std::vector<Pointer> pointers(of_.size());
    const bool views = live::launches_take_views();
    for (std::size_t i = 0; i < of_.size(); ++i) {
      if (of_[i])
        scalars[i] = scalar_of(arguments[i], *of_[i]);
      else
        pointers[i] = pointer_of(arguments[i], views);
    }
    interrupts().heed();
    std::shared_ptr<Launched> launched;
    {
      const nb::gil_scoped_release release;
      launched = live::launch(which, {x, y, z}, scalars, pointers);
    }
    interrupts().ignore();
    return launched;
  }

 private:
  std::vector<std::optional<DType>> of_;  ///< nothing: a pointer
};

DeviceSpec gpu(const std::string& device) {
  DeviceSpec spec = load_device(device);
  if (spec.kind != DeviceSpec::Kind::gpu)
    throw InputError("bad-input", device + " is no GPU; Triton kernels need one");
  return spec;
}

void start(const std::string& device, int threads, const std::string& profile, double time_limit,
           std::size_t most_launched, bool views, bool dry) {
  live::LaunchSettings s;
  s.views = views;
  s.options.device = gpu(device);
  s.options.threads = threads;
  s.options.dry = dry;
  s.options.profile = named(kProfiles, profile, "profile");
  s.time_limit = time_limit;
  s.most_launched = most_launched;
  live::open_launches(std::move(s));
}

}  // namespace

NB_MODULE(_triton, m) {
  nb::set_leak_warnings(false);
  raise_input_errors_as_value_errors();
  m.def("device_names", &device_names);
  m.def("set_importer", [](const std::string& path) { program::set_importer(path); });
  m.def("gpu", [](const std::string& device) {
    const DeviceSpec spec = gpu(device);
    return nb::make_tuple(spec.name, spec.title, spec.cores, spec.vmem_bytes, spec.hbm_bytes);
  });
  m.def("start", &start, nb::arg("device"), nb::arg("threads"), nb::arg("profile"),
        nb::arg("time_limit"), nb::arg("most_launched"), nb::arg("views") = false,
        nb::arg("dry") = false);
  m.def("record_in", &live::record_launches_in);
  m.def("stop", &live::close_launches, nb::call_guard<nb::gil_scoped_release>());
  m.def("take_launched", &live::take_launched);
  m.def("left_out", &live::launches_left_out);
  m.def("clock", [] {
    const live::DeviceClock c = live::device_clock();
    return nb::make_tuple(c.seconds, c.unknown);
  });
  m.def("declare_undefined", [](std::int64_t base, std::int64_t bytes) {
    live::declare_undefined(address(base), bytes);
  });
  m.def("declare_defined", [](std::int64_t base) { live::declare_defined(address(base)); });
  m.def("note_allocation",
        [](std::int64_t base, std::int64_t bytes) { live::note_allocation(address(base), bytes); });
  m.def("forget_allocation", [](std::int64_t base) { live::forget_allocation(address(base)); });
  m.def("any_undefined", &live::any_declared_undefined);
  m.def("undefined", [](std::int64_t base) { return live::declared_undefined(address(base)); });
  nb::class_<Specialisation>(m, "Specialisation")
      .def(
          "__init__",
          [](Specialisation* made, std::string ttir, std::string name, bool fusion,
             std::string layouts, int warps, int stages, int registers, std::int64_t shared_bytes) {
            new (made) Specialisation(std::move(ttir), std::move(name), fusion, std::move(layouts),
                                      {warps, stages, registers, shared_bytes});
          },
          nb::arg("ttir"), nb::arg("name"), nb::arg("fusion"), nb::arg("layouts") = "",
          nb::arg("warps") = 4, nb::arg("stages") = 3, nb::arg("registers") = 0,
          nb::arg("shared_bytes") = -1)
      .def_prop_ro("name", &Specialisation::name)
      .def_prop_ro("ttir", &Specialisation::ttir);
  nb::class_<Signature>(m, "Signature")
      .def(nb::init<const std::vector<std::string>&>(), nb::arg("types"))
      .def("launch", &Signature::launch);
  nb::class_<live::LaunchFinding>(m, "Finding")
      .def_ro("slug", &live::LaunchFinding::slug)
      .def_ro("kind", &live::LaunchFinding::kind)
      .def_ro("text", &live::LaunchFinding::text);
  nb::class_<Launched>(m, "Launched")
      .def_ro("findings", &Launched::findings)
      .def_ro("printed", &Launched::printed)
      .def_ro("kernel", &Launched::kernel)
      .def_ro("predicted_seconds", &Launched::predicted_seconds)
      .def_ro("waits", &Launched::waits)
      .def_ro("predicted_dram_read", &Launched::predicted_dram_read)
      .def_ro("predicted_dram_written", &Launched::predicted_dram_written)
      .def_prop_ro("json", &Launched::json)
      .def_prop_ro("text", &Launched::text)
      .def_prop_ro("page", &Launched::page);
}
