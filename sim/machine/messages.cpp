#include "sim/machine/messages.hpp"

#include <mutex>
#include <set>

namespace tessera {

namespace {

Json to_json(const Shape& s) {
  return std::vector<std::int64_t>(s.dims.begin(), s.dims.begin() + s.rank);
}
Shape shape_from(const Json& j) {
  Shape s;
  for (const auto& extent : j) s.push_back(extent.get<std::int64_t>());
  return s;
}

/// File names of other ranks, kept: a Here does not own its own. Ranks may be threads, in tests.
const char* keep(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> kept;
  const std::lock_guard lock(mutex);
  return kept.insert(name).first->c_str();
}

template <class T>
Json binary(const std::vector<T>& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::binary(std::vector<std::uint8_t>(first, first + bytes.size()));
}

}  // namespace

// Return addresses mean nothing in another process: the line goes along if the call carried it.
Json to_json(const Site& site) {
  return {{"file", site.at.file}, {"line", site.at.line}, {"core", site.core}, {"ids", site.ids}};
}
Site site_from(const Json& j) {
  Site site;
  site.at = {keep(j.at("file")), j.at("line")};
  site.core = j.at("core");
  site.ids = j.at("ids");
  return site;
}

Json to_json(const Diagnostic& d) {
  return {{"slug", d.slug},
          {"kind", static_cast<int>(d.kind)},
          {"headline", d.headline},
          {"fields", d.fields}};
}
Diagnostic diagnostic_from(const Json& j) {
  return {.slug = j.at("slug"),
          .kind = static_cast<Diagnostic::Kind>(j.at("kind").get<int>()),
          .headline = j.at("headline"),
          .fields = j.at("fields")};
}

Json to_json(const Ref::View& v) {
  return {{"dtype", static_cast<int>(v.dtype)}, {"extents", to_json(v.extents)},
          {"strides", to_json(v.strides)},      {"offset", v.offset},
          {"unit_bits", v.unit_bits},           {"pack", {v.pack, v.pack_stride}},
          {"cut", {v.cut, v.cut_dim}}};
}
Ref::View view_from(const Json& j) {
  Ref::View v;
  v.dtype = static_cast<DType>(j.at("dtype").get<int>());
  v.extents = shape_from(j.at("extents"));
  v.strides = shape_from(j.at("strides"));
  v.offset = j.at("offset");
  v.unit_bits = j.at("unit_bits");
  v.pack = j.at("pack").at(0);
  v.pack_stride = j.at("pack").at(1);
  v.cut = j.at("cut").at(0);
  v.cut_dim = j.at("cut").at(1);
  return v;
}

Json to_json(const Staged& s) { return {{"bytes", binary(s.bytes)}, {"states", binary(s.states)}}; }
Staged staged_from(const Json& j) {
  Staged s;
  const auto& bytes = j.at("bytes").get_binary();
  const auto& states = j.at("states").get_binary();
  s.bytes.resize(bytes.size());
  s.states.resize(states.size());
  std::transform(bytes.begin(), bytes.end(), s.bytes.begin(), [](auto b) { return std::byte{b}; });
  std::transform(states.begin(), states.end(), s.states.begin(),
                 [](auto b) { return static_cast<Shadow::State>(b); });
  return s;
}

}  // namespace tessera
