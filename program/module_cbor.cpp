#include "program/module_cbor.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tessera::program {

namespace {

using Json = nlohmann::json;

/// [a, b, ...], moved into it.
template <class... T>
Json list_of(T&&... items) {
  Json::array_t list;
  list.reserve(sizeof...(items));
  (list.emplace_back(std::forward<T>(items)), ...);
  return list;
}

Json bytes_of(const std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::binary(std::vector<std::uint8_t>(first, first + bytes.size()));
}
Json shape_of(const Shape& s) {
  Json j = Json::array();
  for (int d = 0; d < s.rank; ++d) j.push_back(s[d]);
  return j;
}

Json to_json(const Type& t) {
  return {static_cast<int>(t.kind),
          static_cast<int>(t.dtype),
          shape_of(t.shape),
          t.space,
          t.semaphore,
          t.text,
          t.known,
          t.core,
          t.pointer,
          static_cast<int>(t.pointee)};
}
Json to_json(const Attributes& attributes);
/// Kind, then what that kind has.
Json to_json(const Attribute& a) {
  using Kind = Attribute::Kind;
  Json j = Json::array({static_cast<int>(a.kind)});
  switch (a.kind) {
    case Kind::none:
      break;
    case Kind::integer:
      j.push_back(a.integer);
      break;
    case Kind::real:
      j.push_back(a.real);
      j.push_back(bytes_of(a.bytes));
      break;
    case Kind::text:
      j.push_back(a.text);
      break;
    case Kind::list:
      for (const Attribute& each : a.list) j.push_back(to_json(each));
      break;
    case Kind::dictionary:
      j.push_back(to_json(a.dictionary));
      break;
    case Kind::integers:
      j.push_back(a.integers);
      break;
    case Kind::dense:
      j.push_back(bytes_of(a.bytes));
      break;
  }
  return j;
}
Json to_json(const Attributes& attributes) {
  Json j = Json::object();
  for (const auto& [name, a] : attributes) j[name] = to_json(a);
  return j;
}

class Writer {
 public:
  Json region(const Region& r) {
    Json operations = Json::array();
    for (const Operation& op : r.operations) {
      Json regions = Json::array();
      for (const Region& each : op.regions) regions.push_back(region(each));
      operations.push_back(list_of(op.name, op.operands, op.results, dictionary(op.attributes),
                                   std::move(regions), op.location, op.successors));
    }
    Json others = Json::array();
    for (const Region& each : r.others) others.push_back(region(each));
    return list_of(r.arguments, std::move(operations), r.blocks, std::move(others));
  }
  Json dictionaries = Json::array();

 private:
  std::size_t dictionary(const std::shared_ptr<const Attributes>& a) {
    const auto [it, fresh] = numbers_.try_emplace(a, dictionaries.size());
    if (fresh) dictionaries.push_back(a == nullptr ? Json::object() : to_json(*a));
    return it->second;
  }
  std::map<std::shared_ptr<const Attributes>, std::size_t> numbers_;
};

class Reader {
 public:
  explicit Reader(const Json& j) {
    module_.dialect = j.at("dialect");
    module_.version = j.at("version");
    for (const Json& t : j.at("types")) module_.types.push_back(type(t));
    module_.values = j.at("values").get<std::vector<int>>();
    for (const int t : module_.values) {
      if (t < 0 || static_cast<std::size_t>(t) >= module_.types.size())
        throw std::runtime_error("a type that there is not");
    }
    for (const Json& d : j.at("dictionaries"))
      dictionaries_.push_back(std::make_shared<const Attributes>(attributes(d)));
    for (const Json& l : j.at("locations"))
      module_.locations.push_back({l.at(0), l.at(1), l.at(2)});
    for (const Json& f : j.at("functions"))
      module_.functions.push_back({f.at(0), region(f.at(1)), attributes(f.at(2)), f.at(3)});
  }
  Module take() { return std::move(module_); }

 private:
  static Type type(const Json& j) {
    Type t;
    t.kind = static_cast<Type::Kind>(j.at(0).get<int>());
    const auto dtype = [&](std::size_t at) {
      const int number = j.at(at);
      if (number < 0 || number >= kDTypes) throw std::runtime_error("a type that there is not");
      return static_cast<DType>(number);
    };
    if (j.at(2).size() > static_cast<std::size_t>(kMaxRank))
      throw std::runtime_error("a type that there is not");
    for (const Json& extent : j.at(2)) t.shape.push_back(extent);
    t.space = j.at(3);
    t.semaphore = j.at(4);
    t.text = j.at(5);
    t.known = j.at(6);
    t.core = j.at(7);
    t.dtype = dtype(1);
    t.pointer = j.at(8);
    t.pointee = dtype(9);
    return t;
  }
  static Attribute attribute(const Json& j) {
    using Kind = Attribute::Kind;
    Attribute a;
    a.kind = static_cast<Kind>(j.at(0).get<int>());
    const auto bytes = [&](const Json& from) {
      for (const std::uint8_t b : from.get_binary()) a.bytes.push_back(std::byte{b});
    };
    switch (a.kind) {
      case Kind::none:
        break;
      case Kind::integer:
        a.integer = j.at(1);
        break;
      case Kind::real:
        a.real = j.at(1).is_number() ? j.at(1).get<double>() : 0;
        bytes(j.at(2));
        break;
      case Kind::text:
        a.text = j.at(1);
        break;
      case Kind::list:
        for (std::size_t i = 1; i < j.size(); ++i) a.list.push_back(attribute(j[i]));
        break;
      case Kind::dictionary:
        a.dictionary = attributes(j.at(1));
        break;
      case Kind::integers:
        a.integers = j.at(1).get<std::vector<std::int64_t>>();
        break;
      case Kind::dense:
        bytes(j.at(1));
        break;
      default:
        throw std::runtime_error("an attribute that there is not");
    }
    return a;
  }
  static Attributes attributes(const Json& j) {
    Attributes all;
    for (const auto& [name, a] : j.items()) all[name] = attribute(a);
    return all;
  }
  std::vector<int> values(const Json& j) const {
    auto numbers = j.get<std::vector<int>>();
    for (const int v : numbers) {
      if (v < 0 || static_cast<std::size_t>(v) >= module_.values.size())
        throw std::runtime_error("a value that there is not");
    }
    return numbers;
  }
  Operation operation(const Json& j) const {
    Operation op;
    op.name = j.at(0);
    op.operands = values(j.at(1));
    op.results = values(j.at(2));
    op.attributes = dictionaries_.at(j.at(3).get<std::size_t>());
    for (const Json& r : j.at(4)) op.regions.push_back(region(r));
    op.location = j.at(5);
    if (op.location < 0 || static_cast<std::size_t>(op.location) >= module_.locations.size())
      throw std::runtime_error("a location that there is not");
    op.successors = j.at(6).get<std::vector<int>>();
    return op;
  }
  Region region(const Json& j) const {
    Region r;
    r.arguments = values(j.at(0));
    for (const Json& op : j.at(1)) r.operations.push_back(operation(op));
    r.blocks = j.at(2);
    for (const Json& other : j.at(3)) r.others.push_back(region(other));
    return r;
  }

  Module module_;
  std::vector<std::shared_ptr<const Attributes>> dictionaries_;
};

}  // namespace

std::vector<std::uint8_t> to_cbor(const Module& m) {
  Json types = Json::array();
  for (const Type& t : m.types) types.push_back(to_json(t));
  Json locations = Json::array();
  for (const Location& l : m.locations) locations.push_back({l.file, l.line, l.column});
  Json functions = Json::array();
  Writer writer;
  for (const Function& f : m.functions)
    functions.push_back({f.name, writer.region(f.body), to_json(f.attributes), f.argument_names});
  return Json::to_cbor(Json{{"dialect", m.dialect},
                            {"version", m.version},
                            {"types", types},
                            {"values", m.values},
                            {"locations", locations},
                            {"dictionaries", writer.dictionaries},
                            {"functions", functions}});
}

Module module_from_cbor(const std::vector<std::uint8_t>& bytes) {
  try {
    return Reader(Json::from_cbor(bytes)).take();
  } catch (const Json::exception& e) {
    throw std::runtime_error(e.what());
  } catch (const std::out_of_range& e) {
    throw std::runtime_error(e.what());
  }
}

}  // namespace tessera::program
