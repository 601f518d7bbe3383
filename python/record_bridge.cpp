// Records of functions of Python: part of _tuning. Those of kernels are written where they run.
#include "python/record_bridge.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "record/folder.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace nb = nanobind;

namespace tessera {

namespace {

using record::Noted;
using record::Record;

DType dtype_named(const std::string& text) {
  for (int i = 0; i < kDTypes; ++i) {
    if (text == name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw InputError("bad-input", "no type '" + text + "'");
}

Noted noted(std::string name, const std::string& dtype, const std::vector<std::int64_t>& extents,
            std::string sha256) {
  Noted n{std::move(name), dtype_named(dtype), {}, std::move(sha256), ""};
  for (const std::int64_t extent : extents) {
    if (n.shape.rank == kMaxRank)
      throw InputError("unsupported", "an array of more than 8 dims is not recorded");
    n.shape.push_back(extent);
  }
  return n;
}

}  // namespace

void bind_records(nb::module_& m) {
  nb::class_<Noted>(m, "Noted").def_ro("sha256", &Noted::sha256);
  m.def("noted", &noted);
  nb::class_<Record>(m, "Record")
      .def(nb::init<>())
      .def_rw("operation", &Record::operation)
      .def_rw("frontend", &Record::frontend)
      .def_rw("key", &Record::key)
      .def_rw("configuration", &Record::configuration)
      .def_rw("tier", &Record::tier)
      .def_rw("said", &Record::said)
      .def_rw("requested", &Record::requested)
      .def_rw("ran", &Record::ran)
      .def_rw("why", &Record::why)
      .def_rw("device", &Record::device)
      .def_rw("cores", &Record::cores)
      .def_rw("inputs", &Record::inputs)
      .def_rw("outputs", &Record::outputs)
      .def_rw("diagnostics", &Record::diagnostics)
      .def_rw("within", &Record::within)
      .def_rw("seconds", &Record::seconds);
  nb::class_<record::Folder>(m, "RecordFolder")
      .def(nb::init<std::string>())
      .def("append", [](const record::Folder& folder, const Record& record) {
        const nb::gil_scoped_release others_go_on;
        folder.append(record);
      });
  m.def("read_records", [](const std::string& path) {
    const auto read = record::Folder::existing(path).read();
    std::vector<std::string> lines;
    lines.reserve(read.records.size());
    for (const Record& record : read.records) lines.push_back(line_of(record));
    return lines;
  });
}

}  // namespace tessera
