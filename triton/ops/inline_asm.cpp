// tt.elementwise_inline_asm: PTX on registers (ptx.hpp), for some elements at a time.
//
// Elements of less than 32 bits that one run of the assembly takes are packed into registers of 32,
// the first one lowest. What a run reads of undefined elements makes all that it gives undefined.
#include <algorithm>
#include <cmath>

#include "program/rules.hpp"
#include "sim/numerics/op_state.hpp"
#include "triton/operand.hpp"
#include "triton/ptx.hpp"
#include "triton/rules.hpp"

namespace tessera::triton {

namespace {

/// Elements of an operand or a result in registers.
struct Packed {
  Operand where;
  std::int64_t width = 4;     ///< bytes of an element
  std::int64_t together = 1;  ///< elements in a register
  DType dtype = DType::i32;
};

/// What bounds in a register are of: floats of this type, or none that have any.
ptx::Bound bound_of(DType d) {
  return {.off = {},
          .kind = d == DType::bf16                     ? 'h'
                  : d == DType::f16 || d == DType::f32 ? 'f'
                                                       : 'b',
          .width = static_cast<int>(bit_width(d))};
}

std::vector<std::string> constraints_of(const std::string& text) {
  std::vector<std::string> all;
  std::string one;
  for (const char c : text + ",") {
    if (c == ',') {
      if (!one.empty() && one[0] != '~') all.push_back(one);
      one.clear();
    } else if (c != ' ' && c != '&') {
      one += c;
    }
  }
  return all;
}

/// Of `some` elements from e on, of n.
void keep_bounds(Vector& to, const ptx::Bound& bound, const Packed& k, std::int64_t e,
                 std::int64_t some, std::int64_t n) {
  if (bound.exact()) return;
  const ptx::Bound wanted = bound_of(k.dtype);
  if (bound.kind != wanted.kind || bound.width != wanted.width || some > 2)
    fail_bounds_of("of inline PTX that gives bits of another type");
  if (!to.bound) to.bound = no_bounds(n);
  for (std::int64_t j = 0; j < some; ++j) {
    const auto off = static_cast<float>(bound.off[static_cast<std::size_t>(j)]);
    floats(to.bound)[e + j] = std::nextafter(off, INFINITY);
  }
}

void plan_inline_asm(Planner& p, const Operation& op) {
  const std::int64_t pack = p.integer(op, "packed_element");
  if (op.results.empty() || pack < 1) p.refuse(op);
  const std::int64_t n = elements(p.type(op.results[0]));
  const auto packed = [&](int value, auto&& place) {
    const Type& t = p.type(value);
    if (!t.known || bit_width(t.dtype) < 8) p.unsupported(op, "of these types");
    if (elements(t) != n) p.refuse(op);
    Packed k;
    k.width = register_bytes(t.dtype);
    k.dtype = t.dtype;
    k.together = std::min(pack, std::max<std::int64_t>(1, 4 / k.width));
    if (pack % k.together != 0) p.unsupported(op, "of elements that fill no registers");
    k.where = place(p, value);
    return k;
  };
  std::vector<Packed> in;
  std::vector<Packed> out;
  for (const int v : op.operands) in.push_back(packed(v, operand));
  for (const int v : op.results) out.push_back(packed(v, new_result));
  const auto registers = [pack](const std::vector<Packed>& all) {
    std::size_t count = 0;
    for (const Packed& k : all) count += static_cast<std::size_t>(pack / k.together);
    return count;
  };
  // $N is a register of its own, or that of the result whose number its constraint is.
  const std::vector<std::string> constraints = constraints_of(p.text(op, "constraints"));
  const std::size_t outputs = registers(out);
  if (constraints.size() != outputs + registers(in))
    p.unsupported(op, "with other constraints than it has registers");
  std::vector<int> named;
  for (const std::string& c : constraints) {
    const bool tied = c[0] >= '0' && c[0] <= '9';
    const std::size_t to = tied ? static_cast<std::size_t>(std::stoi(c)) : named.size();
    if (to >= outputs && tied) p.unsupported(op, "with the constraint " + c);
    named.push_back(static_cast<int>(to));
  }
  std::shared_ptr<const ptx::Assembly> assembly;
  try {
    assembly = std::make_shared<const ptx::Assembly>(p.text(op, "asm_string"), named);
  } catch (const ptx::Refused& why) {
    p.unsupported(op, std::string("of ") + why.what());
  }
  for (const Packed& k : in) {
    if (k.where.tensor) p.read(k.where.slot);
  }
  p.emit([=](Exec& x) {
    const bool bounded = op_state.error_model != nullptr;
    ptx::Bounds bounds(bounded ? static_cast<std::size_t>(assembly->registers()) : 0);
    std::vector<Vector> from;
    std::vector<Vector> to;
    for (const Packed& k : in) from.push_back(k.where.get(x));
    for (const Packed& k : out)
      to.push_back({StorageHandle(
          Storage::allocate(static_cast<std::size_t>(std::max<std::int64_t>(8, n * k.width))))});
    ptx::Registers r(static_cast<std::size_t>(assembly->registers()));
    for (std::int64_t first = 0; first < n; first += pack) {
      std::ranges::fill(r, 0);
      const std::int64_t last = std::min(n, first + pack);
      Origin poison = 0;
      std::size_t next = outputs;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const Packed& k = in[i];
        if (poison == 0) poison = from[i].first_poison(first, last - first);
        for (std::int64_t e = first; e < first + pack; e += k.together) {
          const std::int64_t some = std::clamp<std::int64_t>(last - e, 0, k.together);
          const auto at = static_cast<std::size_t>(named[next++]);
          std::memcpy(&r[at], from[i].data.bytes() + e * k.width,
                      static_cast<std::size_t>(some * k.width));
          if (!bounded) continue;
          bounds[at] = bound_of(k.dtype);
          for (std::int64_t j = 0; j < some && from[i].bound; ++j) {
            if (j > 1) fail_bounds_of("of inline PTX on so many numbers in a register");
            bounds[at].off[static_cast<std::size_t>(j)] = from[i].bounds()[e + j];
          }
        }
      }
      try {
        bounded ? assembly->run(r, bounds) : assembly->run(r);
      } catch (const ptx::Refused& why) {
        fail_bounds_of(std::string("of inline PTX: ") + why.what());
      }
      next = 0;
      for (std::size_t i = 0; i < out.size(); ++i) {
        const Packed& k = out[i];
        for (std::int64_t e = first; e < first + pack; e += k.together) {
          const std::int64_t some = std::clamp<std::int64_t>(last - e, 0, k.together);
          if (bounded) keep_bounds(to[i], bounds[next], k, e, some, n);
          std::memcpy(to[i].data.bytes() + e * k.width, &r[next++],
                      static_cast<std::size_t>(some * k.width));
        }
        if (poison == 0) continue;
        if (!to[i].poison) to[i].poison = poison_mask(n, 0);
        std::fill_n(to[i].poison.bytes() + first, last - first, std::byte{computed_from(poison)});
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i].where.set(x, std::move(to[i]), out[i].width);
  });
  p.carries_bounds();
}

}  // namespace

Rules inline_asm_rules() {
  static const std::vector<Rule> rules = {
      {"tt.elementwise_inline_asm", "PTX on registers, some elements at a time", true,
       plan_inline_asm},
  };
  return rules;
}

}  // namespace tessera::triton
