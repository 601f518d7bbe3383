// Random bits: seeded and reproducible, statistically sound, and not the hardware's, whose
// generator is not published. Stochastic rounding.
//
// The seeds of tpu.prng_set_seed_32 are hashed (SplitMix64) into the key of a Philox 4x32-10
// counter generator (Salmon et al., SC 2011, doi:10.1145/2063384.2063405); each call goes on with
// the next counters. A core's generator starts undefined; what one parallel cell made of it is not
// another one's.
#include <cmath>

#include "memory_model/split_mix.hpp"
#include "pallas/rules.hpp"
#include "program/gather.hpp"

namespace tessera::pallas {

namespace {

std::array<std::uint32_t, 4> philox(std::uint64_t counter, std::uint64_t key) {
  std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(counter),
                                 static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xd2511f53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xcd9e8d57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

void plan_seed(Planner& p, const Operation& op) {
  std::vector<int> slots;
  for (const int v : op.operands) slots.push_back(p.scalar(v));
  p.emit([=](Exec& x) {
    std::uint64_t key = 0x7465737365726121ULL;
    for (const int s : slots)
      key = split_mix(key ^ static_cast<std::uint32_t>(x.integer(s, DType::i32, "a seed")));
    x.generator = {.key = key, .drawn = 0, .seeded_by = x.cell};
  });
}

[[noreturn]] void fail_unseeded(const Exec& x) {
  const bool by_another = x.generator.seeded_by >= 0;
  Diagnostic d{.slug = by_another ? "parallel-dependence" : "uninit-read",
               .headline = std::string("random bits of a generator that ") +
                           (by_another ? "only another parallel cell" : "nothing") + " has seeded"};
  add_kernel_field(d);
  d.fields.emplace_back("line", caller_excerpt());
  d.fields.emplace_back(
      "help", by_another
                  ? "cells of a parallel dimension may run on different cores, in any order: "
                    "seed in every cell, as in pltpu.prng_seed(seed, pl.program_id(0)), or "
                    "make the dimension arbitrary"
                  : "pltpu.prng_seed comes first");
  add_replay_field(d);
  throw KernelError(std::move(d));
}

void plan_bits(Planner& p, const Operation& op) {
  p.expect(op, 0, 1);
  const Type& t = p.type(op.results[0]);
  if (t.kind != Type::Kind::vector || t.dtype != DType::i32) p.unsupported(op, "of this type");
  const int to = p.new_vector(op.results[0]);
  const std::int64_t n = t.shape.elems();
  p.emit([=](Exec& x) {
    if (!x.dry && x.generator.seeded_by != x.cell) fail_unseeded(x);
    Vector v;
    v.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(n) * 4));
    auto* const out = reinterpret_cast<std::uint32_t*>(v.data.bytes());
    for (std::int64_t i = 0; i < n; i += 4) {
      const auto four = philox(x.generator.drawn++, x.generator.key);
      for (std::int64_t k = 0; k < std::min<std::int64_t>(4, n - i); ++k)
        out[i + k] = four[static_cast<std::size_t>(k)];
    }
    x.vector(to) = std::move(v);
  });
}

/// Adds 16 (or more) random bits below the kept ones, then cuts: x is rounded up with the
/// probability of its distance from the lower neighbour.
template <class T>
T round_stochastically(float value, std::uint32_t bits) {
  if (!std::isfinite(value)) return convert<T>(value);
  T low = convert<T>(value);
  if (static_cast<float>(low) == value) return low;
  // The two neighbours in T, by bit pattern of the magnitude.
  using Bits = decltype(T{}.bits);
  const bool above = std::fabs(static_cast<float>(low)) > std::fabs(value);
  T high = low;
  if (above)
    low.bits = static_cast<Bits>(low.bits - 1);
  else
    high.bits = static_cast<Bits>(high.bits + 1);
  const double l = static_cast<double>(static_cast<float>(low));
  const double h = static_cast<double>(static_cast<float>(high));
  if (!std::isfinite(h)) return low;
  const double fraction = (static_cast<double>(value) - l) / (h - l);
  return static_cast<double>(bits) < fraction * 4294967296.0 ? high : low;
}

void plan_stochastic(Planner& p, const Operation& op) {
  p.expect(op, 2, 1);
  const Type& t = p.type(op.results[0]);
  const Type& from = p.type(op.operands[0]);
  if (from.dtype != DType::f32 || p.type(op.operands[1]).dtype != DType::i32 || !t.known)
    p.unsupported(op, "of this type");
  ElementOp e;
  e.result = t.dtype;
  e.flops = 1;
  visit_dtype(t.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsSmallFloat<T>) {
      e.kernel = [](std::byte* out, const std::byte* const* in, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
          reinterpret_cast<T*>(out)[i] =
              round_stochastically<T>(reinterpret_cast<const float*>(in[0])[i],
                                      reinterpret_cast<const std::uint32_t*>(in[1])[i]);
      };
    }
  });
  if (e.kernel == nullptr) p.unsupported(op, "to this type");
  p.element_op(op, e, op.operands);
}

}  // namespace

Rules random_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.prng_set_seed_32", "seeds the generator", false, plan_seed},
      {"tpu.prng_random_bits", "random bits, not the hardware's", false, plan_bits},
      {"tpu.stochastic_convert", "a narrower float, rounded up or down at random", true,
       plan_stochastic},
  };
  return rules;
}

}  // namespace tessera::pallas
