#include "program/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/bounds/elementwise.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/numerics/op_state.hpp"

namespace tessera::program {

namespace {

constexpr std::int64_t kStrip = 2048;

template <class T>
void expand(T* to, const Lane& lane, const T* from, std::int64_t first, std::int64_t n) {
  switch (lane.kind) {
    case Lane::Kind::splat:
      std::fill_n(to, n, *from);
      break;
    case Lane::Kind::rows:
      for (std::int64_t i = 0; i < n;) {
        const std::int64_t row = (first + i) / lane.period;
        const std::int64_t run = std::min(n - i, (row + 1) * lane.period - (first + i));
        std::fill_n(to + i, run, from[row]);
        i += run;
      }
      break;
    case Lane::Kind::columns:
      for (std::int64_t i = 0; i < n;) {
        const std::int64_t column = (first + i) % lane.period;
        const std::int64_t run = std::min(n - i, lane.period - column);
        std::copy_n(from + column, run, to + i);
        i += run;
      }
      break;
    case Lane::Kind::dense:
      std::copy_n(from + first, n, to);
      break;
    case Lane::Kind::result:
      break;
  }
}

/// Memory of one run, from the thread's free list.
struct Scratch {
  explicit Scratch(std::size_t bytes) : handle(Storage::allocate(bytes)) {}
  StorageHandle handle;
  std::byte* take(std::size_t bytes) {
    std::byte* const at = handle.bytes() + used;
    used += (bytes + 63) / 64 * 64;
    return at;
  }
  std::size_t used = 0;
};

}  // namespace

void expand_lane(std::byte* to, const Lane& lane, const std::byte* from, std::int64_t elem_bytes,
                 std::int64_t first, std::int64_t n) {
  with_width(elem_bytes, [&]<class T>(T) {
    expand(reinterpret_cast<T*>(to), lane, reinterpret_cast<const T*>(from), first, n);
  });
}

const std::byte* lane_data(const Exec& x, const Lane& l) {
  const auto slot = static_cast<std::size_t>(l.slot);
  return l.kind == Lane::Kind::splat ? x.scalars[slot].bytes.data() : x.vectors[slot].data.bytes();
}

Vector expanded(const Exec& x, const Lane& l, std::int64_t elems) {
  const std::int64_t width = register_bytes(l.dtype);
  const auto slot = static_cast<std::size_t>(l.slot);
  Vector v{StorageHandle(Storage::allocate(static_cast<std::size_t>(elems * width)))};
  expand_lane(v.data.bytes(), l, lane_data(x, l), width, 0, elems);
  const std::byte* mask = nullptr;
  if (l.kind == Lane::Kind::splat)
    mask = x.scalars[slot].poison != 0 ? reinterpret_cast<const std::byte*>(&x.scalars[slot].poison)
                                       : nullptr;
  else if (x.vectors[slot].poison)
    mask = x.vectors[slot].poison.bytes();
  if (mask != nullptr) {
    v.poison = StorageHandle(Storage::allocate(static_cast<std::size_t>(elems)));
    expand_lane(v.poison.bytes(), l, mask, 1, 0, elems);
  }
  const float* bounds = nullptr;
  if (l.kind == Lane::Kind::splat)
    bounds = x.scalars[slot].bound > 0 ? &x.scalars[slot].bound : nullptr;
  else
    bounds = x.vectors[slot].bounds();
  if (bounds != nullptr) {
    v.bound = bound_storage(elems);
    expand_lane(v.bound.bytes(), l, reinterpret_cast<const std::byte*>(bounds), sizeof(float), 0,
                elems);
  }
  return v;
}

StorageHandle ElementOp::bounds(const std::byte* result_bytes, std::span<const std::byte* const> in,
                                std::span<const DType> types, std::span<const float* const> of,
                                std::int64_t n) const {
  const bool exact = std::all_of(of.begin(), of.end(), [](const float* b) { return b == nullptr; });
  const auto view = [n](const std::byte* bytes, DType dtype, const float* off) {
    return bounds::TileView{bytes, dtype, 1, static_cast<int>(n), n, off};
  };
  const bounds::TileView z = view(result_bytes, result, nullptr);
  const auto operand = [&](std::size_t i) { return view(in[i], types[i], of[i]); };
  switch (bound.kind) {
    case BoundRule::Kind::stated:
      if (!op_state.error_model->states(bound.op)) {
        fail_bounds_of(
            fmt::format("of {}, which hardware approximates: say how far off it may be "
                        "with --ulp {}=N",
                        name, bound.op));
      }
      [[fallthrough]];
    case BoundRule::Kind::rule: {
      const bounds::Rule& rule = bounds::rule_of(bound.op);
      const ErrorModel& model = *op_state.error_model;
      if (in.size() == 1) return bounds::elementwise(rule, model, z, {operand(0)});
      if (in.size() == 2) return bounds::elementwise(rule, model, z, {operand(0), operand(1)});
      return bounds::elementwise(rule, model, z, {operand(0), operand(1), operand(2)});
    }
    case BoundRule::Kind::cast:
      return bounds::cast(z, operand(0));
    case BoundRule::Kind::unknown:
      fail_bounds_of(std::string("of ") + name + ": no standard says how far another build may be");
    case BoundRule::Kind::exact:
      break;
  }
  if (!exact) fail_bounds_of(std::string("through ") + name);
  return {};
}

int Group::lane(const Lane& l) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == l) return static_cast<int>(i);
  }
  lanes.push_back(l);
  return static_cast<int>(lanes.size()) - 1;
}

Work Group::work() const {
  Work w;
  for (const Member& m : members) {
    w.flops += elems * m.op.flops;
    w.elements += elems;
    if (m.op.transcendental) w.transcendentals += elems;
  }
  return w;
}

void Group::run(Exec& x) const {
  bool poison = false;
  for (const Lane& l : lanes) {
    if (l.kind == Lane::Kind::splat)
      poison = poison || x.scalars[static_cast<std::size_t>(l.slot)].poison != 0;
    else if (l.kind != Lane::Kind::result)
      poison = poison || static_cast<bool>(x.vector(l.slot).poison);
  }
  if (poison || op_state.error_model != nullptr || op_state.trap_nan) {
    run_apart(x);
    return;
  }
  if (members.size() == 1 &&
      std::ranges::all_of(lanes, [](const Lane& l) { return l.kind == Lane::Kind::dense; })) {
    const Member& m = members.front();
    Vector made{StorageHandle(
        Storage::allocate(static_cast<std::size_t>(elems * register_bytes(m.op.result))))};
    std::array<const std::byte*, 4> in{};
    for (std::size_t k = 0; k < m.operands.size(); ++k)
      in[k] = lane_data(x, lanes[static_cast<std::size_t>(m.operands[k])]);
    m.op.kernel(made.data.bytes(), in.data(), elems);
    x.vector(m.vector) = std::move(made);
    return;
  }
  const std::int64_t strip = std::min(kStrip, elems);
  const auto bytes = static_cast<std::size_t>(strip) * 8 + 64;
  Scratch scratch((lanes.size() + members.size()) * bytes);
  std::vector<std::byte*> held(lanes.size());
  std::vector<const std::byte*> source(lanes.size());
  std::vector<std::byte*> results(members.size());
  std::vector<StorageHandle> kept(members.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Lane& l = lanes[i];
    if (l.kind == Lane::Kind::result) continue;
    source[i] = lane_data(x, l);
    if (l.kind == Lane::Kind::dense) continue;
    held[i] = scratch.take(bytes);
    if (l.kind == Lane::Kind::splat)
      expand_lane(held[i], l, source[i], register_bytes(l.dtype), 0, strip);
  }
  // Results that stay inside take turns with the memory of those that nobody reads any more.
  std::vector<std::byte*> spare;
  std::vector<std::pair<int, std::byte*>> busy;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& m = members[i];
    if (m.vector >= 0) {
      kept[i] = StorageHandle(
          Storage::allocate(static_cast<std::size_t>(elems * register_bytes(m.op.result))));
    } else {
      if (spare.empty()) spare.push_back(scratch.take(bytes));
      results[i] = spare.back();
      spare.pop_back();
      busy.emplace_back(m.last_use, results[i]);
    }
    std::erase_if(busy, [&](const auto& b) {
      if (b.first > static_cast<int>(i)) return false;
      spare.push_back(b.second);
      return true;
    });
  }
  for (std::int64_t first = 0; first < elems; first += strip) {
    const std::int64_t n = std::min(strip, elems - first);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Lane& l = lanes[i];
      if (l.kind == Lane::Kind::rows || l.kind == Lane::Kind::columns)
        expand_lane(held[i], l, source[i], register_bytes(l.dtype), first, n);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Member& m = members[i];
      std::array<const std::byte*, 4> in{};
      for (std::size_t k = 0; k < m.operands.size(); ++k) {
        const auto at = static_cast<std::size_t>(m.operands[k]);
        const Lane& l = lanes[at];
        if (l.kind == Lane::Kind::dense)
          in[k] = source[at] + first * register_bytes(l.dtype);
        else if (l.kind == Lane::Kind::result)
          in[k] = results[static_cast<std::size_t>(l.slot)];
        else
          in[k] = held[at];
      }
      if (kept[i]) results[i] = kept[i].bytes() + first * register_bytes(m.op.result);
      m.op.kernel(results[i], in.data(), n);
    }
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (kept[i]) x.vector(members[i].vector) = {std::move(kept[i])};
  }
}

/// Stops at the first element that is NaN though no operand is.
void Group::trap_nan(Exec& x, const Member& m, const Vector& result,
                     std::span<const Vector* const> operands, std::span<const DType> types) {
  for (std::int64_t e = 0; e < m.shape.elems(); ++e) {
    if (!std::isnan(element(result, m.op.result, e))) continue;
    if (result.is_poison(e)) continue;
    std::string values;
    bool carried = false;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const double v = element(*operands[k], types[k], e);
      carried = carried || std::isnan(v);
      values += fmt::format("{}{}", values.empty() ? "" : ", ", v);
    }
    if (carried) continue;
    x.at(m.location);
    throw KernelError(nan_born(m.op.name, unravel(m.shape, e), values));
  }
}

/// The same, op by op, with which elements are poison, and with bounds.
void Group::run_apart(Exec& x) const {
  const auto n = static_cast<std::size_t>(elems);
  std::vector<Vector> inputs(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].kind != Lane::Kind::result) inputs[i] = expanded(x, lanes[i], elems);
  }
  std::vector<Vector> results(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& m = members[i];
    std::array<const std::byte*, 4> in{};
    std::array<const Vector*, 4> value{};
    std::array<DType, 4> types{};
    std::array<const float*, 4> bounds{};
    bool any = false;
    for (std::size_t k = 0; k < m.operands.size(); ++k) {
      const auto at = static_cast<std::size_t>(m.operands[k]);
      const Lane& l = lanes[at];
      value[k] =
          l.kind == Lane::Kind::result ? &results[static_cast<std::size_t>(l.slot)] : &inputs[at];
      in[k] = value[k]->data.bytes();
      types[k] = l.dtype;
      bounds[k] = value[k]->bounds();
      any = any || static_cast<bool>(value[k]->poison);
    }
    results[i].data =
        StorageHandle(Storage::allocate(n * static_cast<std::size_t>(register_bytes(m.op.result))));
    m.op.kernel(results[i].data.bytes(), in.data(), elems);
    if (op_state.error_model != nullptr) {
      const std::size_t count = m.operands.size();
      results[i].bound = m.op.bounds(results[i].data.bytes(), {in.data(), count},
                                     {types.data(), count}, {bounds.data(), count}, elems);
    }
    if (any) {
      results[i].poison = StorageHandle(Storage::allocate(n));
      std::byte* const out = results[i].poison.bytes();
      const auto width = static_cast<std::size_t>(
          register_bytes(lanes[static_cast<std::size_t>(m.operands[0])].dtype));
      const auto zero = [&](std::size_t k, std::size_t e) {
        return std::all_of(in[k] + e * width, in[k] + (e + 1) * width,
                           [](std::byte b) { return b == std::byte{0}; });
      };
      bool left = false;
      for (std::size_t e = 0; e < n; ++e) {
        const Origin p = poisoned(
            m.op.poison, m.operands.size(),
            [&](std::size_t k) { return value[k]->poison_at(static_cast<std::int64_t>(e)); },
            [&](std::size_t k) { return zero(k, e); });
        out[e] = std::byte{p};
        left = left || p != 0;
      }
      if (!left) results[i].poison = StorageHandle();
    }
    if (op_state.trap_nan && is_float(m.op.result))
      trap_nan(x, m, results[i], {value.data(), m.operands.size()}, types);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].vector >= 0) x.vector(members[i].vector) = std::move(results[i]);
  }
}

}  // namespace tessera::program
