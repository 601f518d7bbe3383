// What the vector units of SparseCores add: scans, counts, sorts, reductions of masks, packing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "pallas/rules.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::pallas {

namespace {

/// The elements of a vector of one dim; unsupported otherwise.
std::int64_t row_of(Planner& p, const Operation& op, int value) {
  const Type& t = p.type(value);
  if (t.kind != Type::Kind::vector || t.shape.rank != 1 || !t.known)
    p.unsupported(op, "of anything but vectors of one dim");
  return t.shape[0];
}
/// Throws unless the value is a vector of n elements of that type.
void expect_row(Planner& p, const Operation& op, int value, DType d, std::int64_t n) {
  if (row_of(p, op, value) != n || p.type(value).dtype != d)
    p.unsupported(op, std::string("unless it has ") + describe(d, {n}) + " here");
}

/// A mask that decides what the step does.
const std::byte* decisions(const Vector& mask, std::int64_t n, const char* what) {
  if (const Origin o = mask.first_poison(0, n)) fail_poison(o, what);
  return mask.data.bytes();
}
template <class T>
T element(const Vector& v, std::int64_t e) {
  T x;
  std::memcpy(&x, v.data.bytes() + e * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return x;
}
template <class T>
Vector row(std::int64_t n) {
  return {StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * sizeof(T)))};
}
/// A mask of which nothing is true.
Vector none_of(std::int64_t n) {
  Vector v = row<bool>(n);
  std::memset(v.data.bytes(), 0, static_cast<std::size_t>(n));
  return v;
}
template <class T>
T* elements(const Vector& v) {
  return reinterpret_cast<T*>(v.data.bytes());
}

[[noreturn]] void fail_nan(const char* op) {
  Diagnostic d{.slug = "unmodelled",
               .kind = Diagnostic::Kind::unmodelled,
               .headline = std::string(op) + " of NaN: nobody has measured what hardware does"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  add_replay_field(d);
  throw KernelError(std::move(d));
}
template <class T>
void expect_numbers(const Vector& v, std::int64_t n, const char* op) {
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t e = 0; e < n; ++e) {
      if (!v.is_poison(e) && std::isnan(element<float>(v, e))) fail_nan(op);
    }
  }
}

/// Calls f with a value of the type that compares as the unit does: integers have no sign, unless
/// the op says so.
template <class F>
void with_key(Planner& p, const Operation& op, DType d, F&& f, bool with_sign = false) {
  if (d == DType::f32) return f(float{});
  if (d == DType::i32) return with_sign ? f(std::int32_t{}) : f(std::uint32_t{});
  p.unsupported(op, std::string("of ") + name(d));
}

enum class Scan : std::uint8_t { sum, max, min };

template <class T>
T scanned(Scan kind, T before, T x) {
  switch (kind) {
    case Scan::sum:
      return before + x;
    case Scan::max:
      return before < x ? x : before;
    default:
      return x < before ? x : before;
  }
}

void plan_scan(Planner& p, const Operation& op) {
  if (op.operands.empty() || op.operands.size() > 2 || op.results.size() != 1) p.refuse(op);
  const std::int64_t n = row_of(p, op, op.operands[0]);
  const DType from = p.type(op.operands[0]).dtype;
  // Since version 18 largest and smallest say of what: maxf, maxsi, maxui.
  const std::string kind_name = p.inner_text(op, "kind");
  const std::string of = kind_name.size() > 3 ? kind_name.substr(3) : "";
  const bool fits = of.empty() || (from == DType::f32 ? of == "f" : of == "si" || of == "ui");
  if (kind_name != "sum" &&
      (!fits || (!kind_name.starts_with("max") && !kind_name.starts_with("min"))))
    p.unsupported(op, "of kind " + kind_name);
  const Scan kind = kind_name == "sum"             ? Scan::sum
                    : kind_name.starts_with("max") ? Scan::max
                                                   : Scan::min;
  const bool masked = op.operands.size() == 2;
  if (masked) expect_row(p, op, op.operands[1], DType::boolean, n);
  const bool counts = from == DType::boolean;
  if (counts && (kind != Scan::sum || masked)) p.unsupported(op, "of a mask but its sum");
  expect_row(p, op, op.results[0], counts ? DType::i32 : from, n);
  const int source = p.vector(op.operands[0]);
  const int mask = masked ? p.vector(op.operands[1]) : -1;
  if (masked) p.read(mask);
  const int result = p.new_vector(op.results[0]);
  if (counts) {
    p.emit(
        [=](Exec& x) {
          const Vector& v = x.vector(source);
          Vector r = row<std::int32_t>(n);
          std::int32_t sum = 0;
          Origin poison = 0;
          if (v.poison) r.poison = poison_mask(n, 0);
          for (std::int64_t e = 0; e < n; ++e) {
            sum += element<bool>(v, e) ? 1 : 0;
            if (poison == 0) poison = computed_from(v.poison_at(e));
            elements<std::int32_t>(r)[e] = sum;
            if (poison != 0) r.poison.bytes()[e] = std::byte{poison};
          }
          x.vector(result) = std::move(r);
        },
        {source});
    return;
  }
  with_key(
      p, op, from,
      [&]<class T>(T) {
        p.emit(
            [=](Exec& x) {
              const Vector& v = x.vector(source);
              const std::byte* const chosen =
                  masked ? decisions(x.vector(mask), n, "a scan's mask") : nullptr;
              if (kind != Scan::sum) expect_numbers<T>(v, n, "tpu.scan");
              Vector r = row<T>(n);
              if (v.poison) r.poison = poison_mask(n, 0);
              T so_far{};
              bool any = false;
              Origin poison = 0;
              for (std::int64_t e = 0; e < n; ++e) {
                const T here = element<T>(v, e);
                if (chosen == nullptr || chosen[e] != std::byte{0}) {
                  so_far = any ? scanned(kind, so_far, here) : here;
                  if (poison == 0) poison = computed_from(v.poison_at(e));
                  any = true;
                }
                elements<T>(r)[e] = any ? so_far : here;
                if (v.poison) r.poison.bytes()[e] = std::byte{any ? poison : v.poison_at(e)};
              }
              x.vector(result) = std::move(r);
            },
            {source});
      },
      of == "si");
}

void plan_scan_count(Planner& p, const Operation& op) {
  p.expect(op, 2, 2);
  const std::int64_t n = row_of(p, op, op.operands[1]);
  expect_row(p, op, op.operands[0], DType::boolean, n);
  expect_row(p, op, op.results[0], DType::boolean, n);
  expect_row(p, op, op.results[1], DType::i32, n);
  const int mask = p.vector(op.operands[0]);
  const int values = p.vector(op.operands[1]);
  const int last = p.new_vector(op.results[0]);
  const int counts = p.new_vector(op.results[1]);
  with_key(p, op, p.type(op.operands[1]).dtype, [&]<class T>(T) {
    p.emit(
        [=](Exec& x) {
          const Vector& v = x.vector(values);
          const std::byte* const chosen = decisions(x.vector(mask), n, "a count's mask");
          if (const Origin o = v.first_poison(0, n)) fail_poison(o, "a count of values");
          expect_numbers<T>(v, n, "tpu.scan_count");
          Vector is_last = none_of(n);
          Vector count = row<std::int32_t>(n);
          for (std::int64_t e = 0; e < n; ++e) {
            std::int32_t& so_far = elements<std::int32_t>(count)[e] = 1;
            if (chosen[e] == std::byte{0}) continue;
            is_last.data.bytes()[e] = std::byte{1};
            for (std::int64_t before = 0; before < e; ++before) {
              if (chosen[before] == std::byte{0} || element<T>(v, before) != element<T>(v, e))
                continue;
              ++so_far;
              is_last.data.bytes()[before] = std::byte{0};
            }
          }
          x.vector(last) = std::move(is_last);
          x.vector(counts) = std::move(count);
        },
        {mask, values});
  });
}

void plan_sort(Planner& p, const Operation& op) {
  if (op.operands.size() < 2 || op.operands.size() > 3 || op.results.size() != 3) p.refuse(op);
  const std::int64_t n = row_of(p, op, op.operands[0]);
  const DType key = p.type(op.operands[0]).dtype;
  const DType value = p.type(op.operands[1]).dtype;
  if (value != DType::i32 && value != DType::f32)
    p.unsupported(op, std::string("of values of ") + name(value));
  expect_row(p, op, op.operands[1], value, n);
  const bool masked = op.operands.size() == 3;
  if (masked) expect_row(p, op, op.operands[2], DType::boolean, n);
  expect_row(p, op, op.results[0], DType::boolean, n);
  expect_row(p, op, op.results[1], key, n);
  expect_row(p, op, op.results[2], value, n);
  const bool descending = p.integer_or(op, "descending", 0) != 0;
  const int keys = p.vector(op.operands[0]);
  const int values = p.vector(op.operands[1]);
  const int mask = masked ? p.vector(op.operands[2]) : -1;
  if (masked) p.read(mask);
  const int sorted_mask = p.new_vector(op.results[0]);
  const int sorted_keys = p.new_vector(op.results[1]);
  const int sorted_values = p.new_vector(op.results[2]);
  with_key(p, op, key, [&]<class T>(T) {
    p.emit(
        [=](Exec& x) {
          const Vector& k = x.vector(keys);
          const Vector& v = x.vector(values);
          const std::byte* const valid =
              masked ? decisions(x.vector(mask), n, "a sort's mask") : nullptr;
          const auto is_valid = [&](std::int64_t e) {
            return valid == nullptr || valid[e] != std::byte{0};
          };
          for (std::int64_t e = 0; e < n; ++e) {
            const Origin o = is_valid(e) ? k.poison_at(e) : Origin{0};
            if (o != 0) fail_poison(o, "a sort's key");
          }
          expect_numbers<T>(k, n, "tpu.sort");
          std::vector<std::int64_t> order(static_cast<std::size_t>(n));
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
            if (!is_valid(a) || !is_valid(b)) return is_valid(a) && !is_valid(b);
            const T first = element<T>(k, a);
            const T second = element<T>(k, b);
            return descending ? second < first : first < second;
          });
          const auto moved = [&](const Vector& from) {
            Vector to = row<T>(n);
            if (from.poison) to.poison = poison_mask(n, 0);
            for (std::int64_t e = 0; e < n; ++e) {
              const std::int64_t source = order[static_cast<std::size_t>(e)];
              elements<std::uint32_t>(to)[e] = element<std::uint32_t>(from, source);
              if (from.poison) to.poison.bytes()[e] = std::byte{from.poison_at(source)};
            }
            return to;
          };
          Vector out_mask = none_of(n);
          for (std::int64_t e = 0; e < n; ++e) {
            if (is_valid(order[static_cast<std::size_t>(e)]))
              out_mask.data.bytes()[e] = std::byte{1};
          }
          Vector out_keys = moved(k);
          Vector out_values = moved(v);
          x.vector(sorted_mask) = std::move(out_mask);
          x.vector(sorted_keys) = std::move(out_keys);
          x.vector(sorted_values) = std::move(out_values);
        },
        {keys, values});
  });
}

/// Of a mask: every element of the result is its number of true elements, or the index of the
/// first.
void plan_all_reduce(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const std::int64_t n = row_of(p, op, op.operands[0]);
  const std::string kind = p.inner_text(op, "kind");
  if (p.type(op.operands[0]).dtype != DType::boolean || (kind != "sum" && kind != "find_first_set"))
    p.unsupported(op, "of kind " + kind + " on " + name(p.type(op.operands[0]).dtype));
  const std::int64_t out = row_of(p, op, op.results[0]);
  expect_row(p, op, op.results[0], DType::i32, out);
  const bool first = kind == "find_first_set";
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(source);
        const std::byte* const from = v.data.bytes();
        const auto found = first ? std::find(from, from + n, std::byte{1}) - from
                                 : std::count(from, from + n, std::byte{1});
        Vector r = row<std::int32_t>(out);
        std::fill_n(elements<std::int32_t>(r), out, static_cast<std::int32_t>(found));
        if (const Origin o = v.first_poison(0, n)) r.poison = poison_mask(out, computed_from(o));
        x.vector(result) = std::move(r);
      },
      {source});
}

/// How a pair of wide vectors lies in one narrow one: first all of one, or in turns.
bool interleaved(Planner& p, const Operation& op) {
  const std::string format = p.inner_text(op, "pack_format");
  if (format != "interleaved" && format != "compressed") p.unsupported(op, "as " + format);
  return format == "interleaved";
}
bool is_pair(DType wide, DType narrow) {
  return (wide == DType::f32 && narrow == DType::bf16) ||
         (wide == DType::i32 && narrow == DType::i16) ||
         (wide == DType::i16 && narrow == DType::i8);
}
/// Calls f with values of a pair of types.
template <class F>
void with_pair(DType wide, F&& f) {
  if (wide == DType::f32) return f(float{}, bf16{});
  if (wide == DType::i32) return f(std::int32_t{}, std::int16_t{});
  f(std::int16_t{}, std::int8_t{});
}

void plan_pack(Planner& p, const Operation& op) {
  if (op.operands.size() != 2 || op.results.size() != 1 ||
      p.integers(op, "positions") != std::vector<std::int64_t>{0, 1})
    p.unsupported(op, "of anything but a pair");
  const std::int64_t n = row_of(p, op, op.operands[0]);
  const DType wide = p.type(op.operands[0]).dtype;
  const Type& to = p.type(op.results[0]);
  expect_row(p, op, op.operands[1], wide, n);
  if (!is_pair(wide, to.dtype) || to.shape.elems() != 2 * n)
    p.unsupported(op, std::string("to ") + describe(to.dtype, to.shape));
  const bool in_turns = interleaved(p, op);
  const std::array<int, 2> sources{p.vector(op.operands[0]), p.vector(op.operands[1])};
  const int result = p.new_vector(op.results[0]);
  with_pair(wide, [&]<class Wide, class Narrow>(Wide, Narrow) {
    p.emit(
        [=](Exec& x) {
          Vector r = row<Narrow>(2 * n);
          if (x.vector(sources[0]).poison || x.vector(sources[1]).poison)
            r.poison = poison_mask(2 * n, 0);
          for (int k = 0; k < 2; ++k) {
            const Vector& v = x.vector(sources[static_cast<std::size_t>(k)]);
            for (std::int64_t e = 0; e < n; ++e) {
              const std::int64_t at = in_turns ? 2 * e + k : k * n + e;
              elements<Narrow>(r)[at] = static_cast<Narrow>(element<Wide>(v, e));
              if (v.is_poison(e)) r.poison.bytes()[at] = std::byte{v.poison_at(e)};
            }
          }
          x.vector(result) = std::move(r);
        },
        {sources[0], sources[1]});
  });
}

void plan_unpack(Planner& p, const Operation& op) {
  p.expect(op, 1, 1);
  const Type& from = p.type(op.operands[0]);
  const std::int64_t n = row_of(p, op, op.results[0]);
  const DType wide = p.type(op.results[0]).dtype;
  const std::int64_t k = p.integer(op, "index");
  if (!is_pair(wide, from.dtype) || from.shape.elems() != 2 * n || k < 0 || k > 1)
    p.unsupported(op, "of anything but half of a pair");
  if (p.integer_or(op, "sign_extended", 1) == 0 || p.integer_or(op, "integer_extended", 1) == 0 ||
      p.integer_or(op, "unsigned_integers", 0) != 0)
    p.unsupported(op, "without the sign");
  const bool in_turns = interleaved(p, op);
  const int source = p.vector(op.operands[0]);
  const int result = p.new_vector(op.results[0]);
  with_pair(wide, [&]<class Wide, class Narrow>(Wide, Narrow) {
    p.emit(
        [=](Exec& x) {
          const Vector& v = x.vector(source);
          Vector r = row<Wide>(n);
          if (v.poison) r.poison = poison_mask(n, 0);
          for (std::int64_t e = 0; e < n; ++e) {
            const std::int64_t at = in_turns ? 2 * e + k : k * n + e;
            elements<Wide>(r)[e] = static_cast<Wide>(element<Narrow>(v, at));
            if (v.is_poison(at)) r.poison.bytes()[e] = std::byte{v.poison_at(at)};
          }
          x.vector(result) = std::move(r);
        },
        {source});
  });
}

}  // namespace

Rules sparse_vector_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.scan",
       "running sums, largest or smallest of what a mask chooses (integers without sign, unless "
       "the "
       "kind says so); before the first of them, the operand",
       true, plan_scan},
      {"tpu.scan_count",
       "how often each value came so far among what a mask chooses, 1 elsewhere; and where it "
       "comes last",
       true, plan_scan_count},
      {"tpu.sort",
       "keys (integers without sign) and values in the order of the keys, equal ones in theirs, "
       "what a mask leaves out last",
       true, plan_sort},
      {"tpu.all_reduce", "how many elements of a mask are true, or the index of the first", true,
       plan_all_reduce},
      {"tpu.pack_subelements",
       "two vectors, narrowed, one after the other or in turns; integers lose their upper bits",
       true, plan_pack},
      {"tpu.unpack_subelements", "one of the two vectors of such a pair, widened with its sign",
       true, plan_unpack},
  };
  return rules;
}

}  // namespace tessera::pallas
