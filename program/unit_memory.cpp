#include "program/unit_memory.hpp"

#include <algorithm>

#include "program/unit_shapes.hpp"

namespace tessera::program {

namespace {

/// A load or a store of what lies side by side.
bool is_plain(const Operation& op, std::string_view end) {
  const Attribute* adds = op.find("add");
  return op.name.ends_with(end) && op.name.find("strided_") == std::string::npos &&
         op.name.find("shuffled_") == std::string::npos && (adds == nullptr || adds->integer == 0);
}

}  // namespace

bool UnitMemory::Box::within(const Box& other) const {
  for (std::size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] < other.begin[d] || begin[d] + extent[d] > other.begin[d] + other.extent[d])
      return false;
  }
  return true;
}

bool UnitMemory::Box::meets(const Box& other) const {
  for (std::size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] >= other.begin[d] + other.extent[d] || other.begin[d] >= begin[d] + extent[d])
      return false;
  }
  return true;
}

UnitMemory::Box UnitMemory::place_of(const Operation& op, int memref, const Type& vector,
                                     const KnownValues& known) const {
  const Type& of = module_.type(memref);
  Box box;
  for (const int v : op.operands) {
    const Type::Kind kind = module_.type(v).kind;
    if (kind != Type::Kind::index && kind != Type::Kind::scalar) continue;
    const auto at = known.constant(v);
    if (!at) return {};
    box.begin.push_back(*at);
  }
  if (std::ssize(box.begin) != of.shape.rank || vector.shape.rank != of.shape.rank) return {};
  for (int d = 0; d < of.shape.rank; ++d) box.extent.push_back(vector.shape[d]);
  return box;
}

bool UnitMemory::whole_registers(const Box& box, DType dtype) {
  const std::size_t rank = box.begin.size();
  if (rank < 2) return false;
  return box.begin[rank - 1] % kLanes == 0 && box.extent[rank - 1] % kLanes == 0 &&
         box.begin[rank - 2] % rows_of(dtype) == 0 && box.extent[rank - 2] % rows_of(dtype) == 0;
}

UnitMemory::Noted UnitMemory::note(const Operation& op, int argument, std::size_t number,
                                   const KnownValues& known) {
  const auto is = [&](Type::Kind kind) {
    return [this, kind](int v) { return module_.type(v).kind == kind; };
  };
  const auto memref = std::ranges::find_if(op.operands, is(Type::Kind::memref));
  if (memref == op.operands.end()) return {};
  if (std::ranges::count_if(op.operands, is(Type::Kind::memref)) > 1) argument = -1;
  if (std::ranges::any_of(op.results, is(Type::Kind::memref))) return {};  // a view
  const bool loads = is_plain(op, "load") && op.results.size() == 1 &&
                     module_.type(op.results[0]).kind == Type::Kind::vector;
  const bool stores = is_plain(op, "store") && op.results.empty() &&
                      std::ranges::count_if(op.operands, is(Type::Kind::vector)) == 1;
  const auto vector = std::ranges::find_if(op.operands, is(Type::Kind::vector));
  const Box box = loads    ? place_of(op, *memref, module_.type(op.results[0]), known)
                  : stores ? place_of(op, *memref, module_.type(*vector), known)
                           : Box{};
  const auto same_argument = [&](const Store& s) { return s.argument == argument; };
  if (box.begin.empty() || argument < 0) {  // anything may be read or written
    std::erase_if(stores_, [&](const Store& s) { return argument < 0 || same_argument(s); });
    return {.after = {}, .is = {}, .unread = {}, .only_stores = stores && argument >= 0};
  }
  Noted noted{.after = {}, .is = {}, .unread = {}, .only_stores = stores};
  if (loads) {
    for (Store& s : stores_) {
      if (!same_argument(s)) continue;
      if (s.memref == *memref && s.whole && box.within(s.box) &&
          whole_registers(box, module_.type(op.results[0]).dtype)) {
        noted.forwarded = true;
        noted.after = {s.value};
        if (module_.type(s.value).text == module_.type(op.results[0]).text) noted.is = s.value;
        return noted;
      }
      if (s.memref == *memref && !box.meets(s.box)) continue;
      s.read = true;
      noted.after.push_back(s.value);
    }
    return noted;
  }
  for (const Store& s : stores_) {
    if (same_argument(s) && s.memref == *memref && s.box.within(box) && !s.read)
      noted.unread.push_back(s.number);
  }
  std::erase_if(stores_, [&](const Store& s) {
    return same_argument(s) && (s.memref != *memref || s.box.meets(box));
  });
  stores_.push_back(
      {*memref, argument, box, whole_registers(box, module_.type(*vector).dtype), *vector, number});
  return noted;
}

std::vector<std::size_t> UnitMemory::unread(const std::set<int>& arguments) const {
  std::vector<std::size_t> numbers;
  for (const Store& s : stores_)
    if (!s.read && arguments.contains(s.argument)) numbers.push_back(s.number);
  return numbers;
}

}  // namespace tessera::program
