#include "triton/case_directory.hpp"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"
#include "triton/load.hpp"

namespace tessera::triton {

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kModule = "/kernel.generic.mlir";
constexpr std::size_t kMostBytesOfJson = std::size_t{1} << 24;

[[noreturn]] void fail(const std::string& what) {
  throw InputError("bad-input", "meta.json: " + what);
}

/// By Triton's names; of several for a type the one to write comes first.
constexpr std::pair<const char*, DType> kTypes[] = {
    {"fp64", DType::f64},         {"fp32", DType::f32},
    {"fp16", DType::f16},         {"bf16", DType::bf16},
    {"fp8e4nv", DType::f8e4m3fn}, {"fp8e5", DType::f8e5m2},
    {"i64", DType::i64},          {"i32", DType::i32},
    {"i16", DType::i16},          {"i8", DType::i8},
    {"u64", DType::i64},          {"u32", DType::u32},
    {"u16", DType::i16},          {"u8", DType::u8},
    {"i1", DType::boolean},       {"u1", DType::boolean}};

DType dtype_of(const std::string& name) {
  for (const auto& [known, dtype] : kTypes)
    if (name == known) return dtype;
  fail("no dtype " + name);
}
/// Null if it has none.
const char* name_of(DType dtype) {
  for (const auto& [name, known] : kTypes)
    if (dtype == known) return name;
  return nullptr;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Scalar scalar_of(const Json& value, const Type& type) {
  Scalar s;
  visit_dtype(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsPacked<T>) {
      fail("a scalar of less than a byte");
    } else {
      T v{};
      if (value.is_boolean())
        v = convert<T>(std::int64_t{value.get<bool>() ? 1 : 0});
      else if (value.is_number_integer())
        v = convert<T>(value.get<std::int64_t>());
      else if (value.is_string() && is_float(type.dtype))  // "nan", "inf": JSON has none
        v = convert<T>(std::stod(value.get<std::string>()));
      else
        v = convert<T>(value.get<double>());
      std::memcpy(s.bytes.data(), &v, sizeof(T));
    }
  });
  return s;
}

class Reader {
 public:
  Reader(std::string folder, Json meta, Profile profile, bool bounded)
      : folder_(std::move(folder)), meta_(std::move(meta)), profile_(profile), bounded_(bounded) {}

  Case read() {
    c_.kernel = plan_kernel(load_module_file(folder_ + kModule), profile_,
                            meta_.value("enable_fp_fusion", true), true, bounded_);
    const std::string layouts = folder_ + "/layouts.json";
    if (exists(layouts)) set_layouts(*c_.kernel, read_file(layouts, kMostBytesOfJson));
    c_.launch.kernel = c_.kernel.get();
    const Json& grid = meta_.at("grid");
    if (grid.size() > 3) fail("a grid has 3 extents");
    for (std::size_t d = 0; d < grid.size(); ++d) c_.launch.grid[d] = grid[d];
    bool floats = false;
    for (const Json& s : meta_.at("storages")) {
      LaunchStorage to;
      const std::size_t k = c_.launch.storages.size();
      const DType dtype = dtype_of(s.at("dtype"));
      to.name = "storage " + std::to_string(k);
      const std::string in = file("in", k);
      if (exists(in)) {
        to.data = read_npy_bits(in, dtype);
        undefined(s.value("undefined", Json(false)), to);
      } else {
        const auto elements = s.at("elements").get<std::int64_t>();
        if (elements < 0 || elements > (std::int64_t{1} << 36)) fail("an impossible storage");
        to.data = Array(dtype, {elements});
        poison(to.data.bytes(), dtype, elements);
        to.undefined = true;
      }
      if (is_float(dtype) && !std::exchange(floats, true)) c_.main_dtype = dtype;
      const std::string out = file("out", k);
      c_.expected.emplace_back();
      if (exists(out)) c_.expected.back() = read_npy_bits(out, dtype);
      c_.launch.storages.push_back(std::move(to));
    }
    for (const auto& [name, value] : meta_.at("args").items()) argument(name, value);
    if (c_.launch.arguments.size() != c_.kernel->parameters.size()) {
      fail("args are " + std::to_string(c_.launch.arguments.size()) + " without constexprs; " +
           c_.kernel->program.name + " takes " + std::to_string(c_.kernel->parameters.size()));
    }
    const std::string target = meta_.value("target", "");
    c_.device = target == "cuda:90" ? "h100" : target == "cuda:80" ? "a100" : "";
    return std::move(c_);
  }

 private:
  std::string file(const char* what, std::size_t k) const {
    return folder_ + "/" + what + std::to_string(k) + ".npy";
  }

  void undefined(const Json& said, LaunchStorage& to) {
    if (!said.is_array()) {
      to.undefined = said.get<bool>();
      return;
    }
    auto ranges = std::make_unique<Ranges>();
    for (const Json& range : said) {
      const auto begin = range.at(0).get<std::int64_t>();
      const auto end = range.at(1).get<std::int64_t>();
      if (begin < 0 || end > to.data.size_bytes()) fail("undefined bytes that are not there");
      ranges->add(begin, end);
    }
    to.undefined_bytes = ranges.get();
    c_.undefined.push_back(std::move(ranges));
  }

  void argument(const std::string& name, const Json& value) {
    if (value.contains("constexpr")) return;
    if (const auto tuple = value.find("tuple"); tuple != value.end()) {
      for (const Json& each : *tuple) argument(name, each);
      return;
    }
    const std::size_t i = c_.launch.arguments.size();
    if (i >= c_.kernel->parameters.size())
      fail(c_.kernel->program.name + " has no argument for " + name);
    const Parameter& p = c_.kernel->parameters[i];
    Argument a;
    if (const auto pointer = value.find("pointer"); pointer != value.end()) {
      if (!p.type.pointer) fail(name + " is a pointer, and the kernel takes " + p.type.text);
      if (!pointer->is_null()) {
        a.storage = value.at("storage");
        a.offset = value.value("offset", std::int64_t{0});
        a.begin = value.value("begin", std::int64_t{0});
        a.end = value.value("end", std::int64_t{-1});
        constexpr std::int64_t kFar = std::int64_t{1} << 36;
        if (a.offset > kFar || a.offset < -kFar) fail(name + " has an impossible offset");
        if (a.storage < 0 || a.storage >= std::ssize(c_.launch.storages))
          fail(name + " points into a storage that there is not");
        std::string& of = c_.launch.storages[static_cast<std::size_t>(a.storage)].name;
        of = of.starts_with("storage ") ? name : of + ", " + name;
      }
    } else {
      if (p.type.pointer) fail(name + " is no pointer, and the kernel takes " + p.type.text);
      a.value = scalar_of(value.at("value"), p.type);
    }
    c_.launch.arguments.push_back(a);
  }

  std::string folder_;
  Json meta_;
  Profile profile_;
  bool bounded_;
  Case c_;
};

}  // namespace

namespace {

Json value_of(const Scalar& s, DType dtype) {
  Json json;
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!kIsPacked<T>) {
      T v{};
      std::memcpy(&v, s.bytes.data(), sizeof(T));
      if constexpr (std::is_same_v<T, bool>) {
        json = v ? 1 : 0;
      } else if constexpr (std::is_integral_v<T>) {
        json = static_cast<std::int64_t>(v);
      } else {
        const auto value = convert<double>(v);
        json = std::isnan(value)   ? Json("nan")
               : std::isinf(value) ? Json(value > 0 ? "inf" : "-inf")
                                   : Json(value);
      }
    }
  });
  return json;
}

Json argument_json(const Parameter& p, const Argument& a) {
  if (!p.type.pointer)
    return {{"scalar", name(p.type.dtype)}, {"value", value_of(a.value, p.type.dtype)}};
  if (a.storage < 0) return {{"pointer", nullptr}};
  Json json{{"pointer", p.type.text}, {"storage", a.storage}, {"offset", a.offset}};
  if (a.begin != 0) json["begin"] = a.begin;
  if (a.end != -1) json["end"] = a.end;
  return json;
}

}  // namespace

std::string why_not_recorded(const Launch& launch) {
  if (launch.kernel->loads_pointers) return "the kernel follows pointers in memory";
  for (const LaunchStorage& s : launch.storages) {
    const char* const name = name_of(s.data.dtype());
    if (name == nullptr)
      return std::string("Triton has no name for ") + tessera::name(s.data.dtype());
    if (s.size_bytes() % program::register_bytes(s.data.dtype()) != 0)
      return "the allocation of " + s.name + " ends within an element";
  }
  return "";
}

Array storage_array(const LaunchStorage& s) {
  if (s.outside.data() == nullptr) return s.data;
  const std::int64_t elements = s.size_bytes() / program::register_bytes(s.data.dtype());
  return Array::lent(s.data.dtype(), {elements}, s.outside.data());
}

std::vector<std::pair<std::string, std::string>> case_files(const CaseToRecord& c) {
  const Launch& launch = *c.launch;
  const Kernel& kernel = *launch.kernel;
  Json storages = Json::array();
  for (const LaunchStorage& s : launch.storages) {
    storages.push_back(
        {{"dtype", name_of(s.data.dtype())}, {"elements", storage_array(s).elems()}});
    if (s.undefined) storages.back()["undefined"] = true;
    if (s.undefined_bytes == nullptr || s.undefined_bytes->empty()) continue;
    Json ranges = Json::array();
    for (const auto& [begin, end] : s.undefined_bytes->all()) ranges.push_back({begin, end});
    storages.back()["undefined"] = ranges;
  }
  Json arguments = Json::object();
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& p = kernel.parameters[i];
    // Parts of a tuple may have one name.
    const std::string name = arguments.contains(p.name) ? p.name + "." + std::to_string(i) : p.name;
    arguments[name] = argument_json(p, launch.arguments[i]);
  }
  const Json meta{{"kernel", kernel.program.name},
                  {"grid", launch.grid},
                  {"args", arguments},
                  {"storages", storages},
                  {"enable_fp_fusion", c.fusion}};
  std::vector<std::pair<std::string, std::string>> files{{std::string(kModule).substr(1), c.module},
                                                         {"meta.json", meta.dump(1) + "\n"}};
  if (!c.layouts.empty()) files.emplace_back("layouts.json", c.layouts);
  return files;
}

bool is_case(const std::string& path) { return exists(path + kModule); }

Case read_case(const std::string& folder, Profile profile, bool bounded) {
  try {
    // In the order of the file: that of the arguments.
    const Json meta = Json::parse(read_file(folder + "/meta.json", kMostBytesOfJson));
    return Reader(folder, meta, profile, bounded).read();
  } catch (const FileError& e) {
    throw InputError("bad-input", e.what());
  } catch (const NpyError& e) {
    throw InputError("bad-input", e.what());
  } catch (const Json::exception& e) {
    throw InputError("bad-input", folder + "/meta.json: " + e.what());
  } catch (const std::logic_error&) {  // of std::stod
    throw InputError("bad-input", folder + "/meta.json: a scalar that is no number");
  }
}

}  // namespace tessera::triton
