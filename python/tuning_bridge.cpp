// The tiers of tuning/ for Python: _tuning. Values of configurations are JSON texts here.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "memory_model/device_spec.hpp"
#include "memory_model/file.hpp"
#include "python/errors.hpp"
#include "python/record_bridge.hpp"
#include "tuning/configurations.hpp"

namespace nb = nanobind;

namespace tessera {

namespace {

using namespace tuning;
using Names = std::vector<std::string>;
/// Configuration, tier, seconds, and tier and words of each that was asked.
using Resolved = std::tuple<Configuration, std::string, double,
                            std::vector<std::pair<std::string, std::string>>>;

/// Why a function with these parameters cannot have a configuration.
std::string other_names(const Configuration& configuration, const Names& parameters) {
  Names names;
  for (const auto& [name, value] : configuration) names.push_back(name);
  if (std::is_permutation(names.begin(), names.end(), parameters.begin(), parameters.end()))
    return "";
  std::string wanted;
  for (const std::string& name : parameters) wanted += (wanted.empty() ? "" : ", ") + name;
  return "its parameters are " + wanted;
}

Resolved resolve(Configurations& configurations, const Key& key, const Names& parameters,
                 Configuration given, const std::vector<const Overlay*>& overlays,
                 const nb::object& autotune, const std::string& no_autotune) {
  Question q{.key = key, .given = std::move(given), .overlays = overlays};
  q.why_not = [&](const Configuration& c) { return other_names(c, parameters); };
  q.no_autotune = no_autotune;
  if (!autotune.is_none()) q.autotune = [&] { return nb::cast<std::optional<Entry>>(autotune()); };
  const Answer answer = configurations.resolve(q);
  Resolved resolved{answer.configuration, name(answer.tier), answer.seconds, {}};
  for (const Said& said : answer.said)
    std::get<3>(resolved).emplace_back(name(said.tier), said.what);
  return resolved;
}

Overlay overlay_of_file(const std::string& path) {
  constexpr std::size_t kLargestFile = std::size_t{1} << 24;
  try {
    return {path, entries_of(read_file(path, kLargestFile), path)};
  } catch (const FileError& error) {
    throw InputError("bad-input", error.what());
  }
}

Overlay overlay_of(const std::string& origin,
                   const std::vector<std::pair<std::string, Configuration>>& configurations) {
  Overlay overlay{origin, {}};
  for (const auto& [operation, configuration] : configurations)
    overlay.entries.push_back({{.operation = operation}, configuration});
  return overlay;
}

Key key_on(const std::string& operation, const std::string& device, const std::string& fingerprint,
           const Sizes& sizes, const std::string& dtype, int cores) {
  Key key = key_of(operation, device, fingerprint, sizes, dtype, {1});
  if (cores > 1) key.mesh += " of " + std::to_string(cores) + " cores";
  return key;
}

}  // namespace

NB_MODULE(_tuning, m) {
  nb::set_leak_warnings(false);
  raise_input_errors_as_value_errors();
  nb::class_<Key>(m, "Key")
      .def_ro("device", &Key::device)
      .def_ro("sizes", &Key::sizes)
      .def_ro("shapes", &Key::shapes);
  nb::class_<Overlay>(m, "Overlay").def_ro("origin", &Overlay::origin);
  nb::class_<Entry>(m, "Entry")
      .def_ro("configuration", &Entry::configuration)
      .def_ro("seconds", &Entry::seconds)
      .def_ro("candidates", &Entry::candidates);
  nb::class_<Evaluated>(m, "Evaluated")
      .def_ro("configuration", &Evaluated::configuration)
      .def_ro("seconds", &Evaluated::seconds)
      .def_ro("binds", &Evaluated::binds)
      .def_ro("reason", &Evaluated::reason);
  bind_records(m);
  m.def("key", &key_on);
  m.def("fingerprint", &fingerprint);
  m.def("device", [](const std::string& name) {
    const DeviceSpec device = load_device(name);
    return std::pair(device.name, device.json);
  });
  m.def("default_store", &default_store);
  m.def("overlay_of_file", &overlay_of_file);
  m.def("overlay_of", &overlay_of);
  nb::class_<Configurations>(m, "Configurations")
      .def(nb::init<std::string>())
      .def("resolve", &resolve, nb::arg("key"), nb::arg("parameters"), nb::arg("given"),
           nb::arg("overlays"), nb::arg("autotune").none(), nb::arg("no_autotune"))
      .def("forget", &Configurations::forget)
      .def("keep",
           [](Configurations& c, const Key& key, Configuration configuration, double seconds,
              const std::string& binds, const std::string& reason) {
             const nb::gil_scoped_release others_go_on;
             c.store().keep(key, {std::move(configuration), seconds, binds, reason});
           })
      .def("choose",
           [](Configurations& c, const Key& key, const std::string& how) {
             const nb::gil_scoped_release others_go_on;
             return c.store().choose(key, how);
           })
      .def("candidate",
           [](Configurations& c, const Key& key, const Configuration& configuration) {
             return c.store().candidate(key, configuration);
           })
      .def("candidates",
           [](Configurations& c, const Key& key) { return c.store().candidates(key); })
      .def("exported", [](Configurations& c) { return c.store().exported(); })
      .def("take", [](Configurations& c, const std::string& json, const std::string& origin) {
        return c.store().import(json, origin);
      });
}

}  // namespace tessera
