// Inline PTX against what the instructions are written out as here.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "memory_model/dtype.hpp"
#include "tests/triton/ttir.hpp"
#include "triton/ptx.hpp"

namespace tessera::triton {

namespace {

using Words = std::vector<std::uint64_t>;

/// The first `outputs` of $0, $1, ...; `inputs` are those after them.
Words run(const std::string& text, std::size_t outputs, const Words& inputs) {
  std::vector<int> named;
  for (std::size_t i = 0; i < outputs + inputs.size(); ++i) named.push_back(static_cast<int>(i));
  const ptx::Assembly assembly(text, named);
  ptx::Registers r(static_cast<std::size_t>(assembly.registers()));
  std::copy(inputs.begin(), inputs.end(), r.begin() + static_cast<std::ptrdiff_t>(outputs));
  assembly.run(r);
  r.resize(outputs);
  return r;
}
std::uint64_t one(const std::string& text, const Words& inputs) { return run(text, 1, inputs)[0]; }
std::uint64_t f32(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t half(float x) { return std::bit_cast<std::uint16_t>(convert<f16>(x)); }
std::uint64_t brain(float x) { return std::bit_cast<std::uint16_t>(convert<bf16>(x)); }

constexpr std::uint64_t kA = 0x89abcdef;
constexpr std::uint64_t kB = 0x01234567;
constexpr std::uint64_t kC = 0xf0f0a5a5;

}  // namespace

TEST_CASE("PTX: logic, shifts and fields", "[triton][ptx]") {
  CHECK(one("lop3.b32 $0, $1, $2, $3, 0xf8;", {kA, kB, kC}) == (kA | (kB & kC)));
  CHECK(one("lop3.b32 $0, $1, $2, $3, 0xea;", {kA, kB, kC}) == ((kA & kB) | kC));
  CHECK(one("lop3.b32 $0, $1, $2, $3, 0x96;", {kA, kB, kC}) == (kA ^ kB ^ kC));
  CHECK(one("prmt.b32 $0, $1, $2, 0x5410;", {kA, kB}) == 0x4567cdef);
  CHECK(one("prmt.b32 $0, $1, $2, 0x98;", {kA, kB}) == 0xefefffff);  // signs, and byte 0
  CHECK(one("shf.l.wrap.b32 $0, $1, $2, 12;", {kA, kB}) == ((kB << 12 | kA >> 20) & 0xffffffff));
  CHECK(one("shf.r.clamp.b32 $0, $1, $2, 40;", {kA, kB}) == kB);
  CHECK(one("shl.b32 $0, $1, 33;", {kA}) == 0);
  CHECK(one("shr.s32 $0, $1, 4;", {kA}) == 0xf89abcde);
  CHECK(one("shr.u32 $0, $1, 4;", {kA}) == 0x089abcde);
  CHECK(one("bfe.s32 $0, $1, 4, 8;", {kA}) == 0xffffffde);
  CHECK(one("bfe.u32 $0, $1, 4, 8;", {kA}) == 0xde);
  CHECK(one("bfi.b32 $0, $1, $2, 8, 4;", {0xe, kB}) == 0x01234e67);
  CHECK(one("brev.b32 $0, $1;", {1}) == 0x80000000);
  CHECK(one("{ .reg .b32 t; not.b32 t, $1; popc.b32 $0, t; }", {0xf}) == 28);
  CHECK(one("clz.b32 $0, $1;", {0xf}) == 28);
}

TEST_CASE("PTX: integers", "[triton][ptx]") {
  CHECK(one("mad.lo.u32 $0, $1, 2, 0x00800080;", {kA}) == ((2 * kA + 0x800080) & 0xffffffff));
  CHECK(one("mul.hi.u32 $0, $1, $2;", {kA, kC}) == (kA * kC) >> 32);
  CHECK(one("mul.wide.s32 $0, $1, $2;", {kA, 3}) ==
        static_cast<std::uint64_t>(3 * std::int64_t{static_cast<std::int32_t>(kA)}));
  CHECK(one("max.s32 $0, $1, $2;", {kA, kB}) == kB);
  CHECK(one("max.u32 $0, $1, $2;", {kA, kB}) == kA);
  CHECK(one("sub.u32 $0, $1, $2;", {kB, kA}) == ((kB - kA) & 0xffffffff));
  CHECK(one("cvt.s32.s8 $0, $1;", {0x80}) == 0xffffff80);
  CHECK(one("cvt.sat.s8.s32 $0, $1;", {1000}) == 127);
  const Words parts =
      run("{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $4; cvt.u32.u8 $0, t0; cvt.u32.u8 $1, t1;"
          " cvt.u32.u8 $2, t2; cvt.u32.u8 $3, t3; }  // apart",
          4, {kA});
  CHECK(parts == Words{0xef, 0xcd, 0xab, 0x89});
}

TEST_CASE("PTX: floats", "[triton][ptx]") {
  CHECK(one("fma.rn.f32 $0, $1, $2, 0f3F800000;", {f32(3), f32(0.1f)}) ==
        f32(std::fma(3.f, 0.1f, 1.f)));
  CHECK(one("ex2.approx.ftz.f32 $0, $1;", {f32(-3)}) == f32(0.125f));
  CHECK(one("max.f32 $0, $1, $2;", {f32(NAN), f32(2)}) == f32(2));
  CHECK(one("max.NaN.f32 $0, $1, $2;", {f32(NAN), f32(2)}) == 0x7fffffff);
  CHECK(one("max.NaN.xorsign.abs.f32 $0, $1, $2;", {f32(-3), f32(2)}) == f32(-3));
  CHECK(one("max.NaN.xorsign.abs.f32 $0, $1, $2;", {f32(-1), f32(-2)}) == f32(2));
  CHECK(one("min.xorsign.abs.f32 $0, $1, $2;", {f32(3), f32(-2)}) == f32(-2));
  CHECK(one("max.NaN.xorsign.abs.f32 $0, $1, $2;", {f32(NAN), f32(-2)}) == 0x7fffffff);
  CHECK(one("add.ftz.f32 $0, $1, $2;", {f32(1e-40f), f32(0)}) == 0);
  CHECK(one("add.f32 $0, $1, $2;", {f32(1e-40f), f32(0)}) == f32(1e-40f));
  CHECK(one("cvt.rn.f32.s32 $0, $1;", {kA}) ==
        f32(static_cast<float>(static_cast<std::int32_t>(kA))));
  CHECK(one("cvt.rni.s32.f32 $0, $1;", {f32(-2.5f)}) == 0xfffffffe);
  CHECK(one("cvt.rzi.u32.f32 $0, $1;", {f32(-2.5f)}) == 0);
  CHECK(one("cvt.rn.bf16x2.f32 $0, $1, $2;", {f32(1.01f), f32(-7.77f)}) ==
        (brain(1.01f) << 16 | brain(-7.77f)));
  CHECK(one("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", {f32(1e9f), f32(-0.5f)}) == 0x7eb0);
  CHECK(one("cvt.rn.f16x2.e4m3x2 $0, $1;", {0x7eb0}) == (half(448) << 16 | half(-0.5f)));
  CHECK(one("cvt.rz.bf16.f32 $0, $1;", {0x3f80ffff}) == 0x3f80);
  CHECK(one("cvt.rn.bf16.f32 $0, $1;", {0x3f80ffff}) == 0x3f81);
  CHECK(one("cvt.rna.tf32.f32 $0, $1;", {0x3f801000}) == 0x3f802000);
  CHECK(one("cvt.rn.tf32.f32 $0, $1;", {0x3f801000}) == 0x3f800000);
  CHECK(one("cvt.rn.tf32.f32 $0, $1;", {0x3f803000}) == 0x3f804000);
  CHECK(one("cvt.rn.tf32.f32 $0, $1;", {0x3f801001}) == 0x3f802000);
  CHECK(one("min.f16x2 $0, $1, $2;", {half(3) << 16 | half(-1), half(2) << 16 | half(5)}) ==
        (half(2) << 16 | half(-1)));
  CHECK(one("add.f64 $0, $1, $2;",
            {std::bit_cast<std::uint64_t>(0.1), std::bit_cast<std::uint64_t>(0.2)}) ==
        std::bit_cast<std::uint64_t>(0.1 + 0.2));
}

TEST_CASE("PTX: predicates", "[triton][ptx]") {
  const std::string text = R"({
    .reg .pred p, q;
    setp.lt.f32 p, $1, $2;
    setp.geu.f32 q, $1, $2;
    selp.b32 $0, 7, 9, p;
    @!p mov.b32 $0, 11;  /* 11 where it is not less */
    @q add.u32 $0, $0, 100;
  })";
  CHECK(one(text, {f32(1), f32(2)}) == 7);
  CHECK(one(text, {f32(2), f32(1)}) == 111);
  CHECK(one(text, {f32(NAN), f32(1)}) == 111);
}

TEST_CASE("PTX that is not arithmetic is refused by name", "[triton][ptx]") {
  CHECK_THROWS_WITH(one("ld.global.b32 $0, [$1];", {0}), "ld, which accesses memory");
  CHECK_THROWS_WITH(one("mov.u32 $0, %smid;", {}), "the register %smid");
  CHECK_THROWS_WITH(one("bar.sync 0;", {}), "bar.sync");
  CHECK_THROWS_WITH(one("add.rm.f32 $0, $1, $1;", {0}), "add.rm.f32");
  CHECK_THROWS_WITH(one("mov.b32 $0, $7;", {}),
                    "the operand $7, which the constraints do not have");
  CHECK_THROWS_WITH(one("mov.b32 $0, x;", {}), "the name x");
}

TEST_CASE("inline assembly takes elements in packs", "[triton][ptx]") {
  const auto attributes = [](const std::string& text, const std::string& constraints, int pack) {
    return "asm_string = \"" + text + "\", constraints = \"" + constraints +
           "\", packed_element = " + std::to_string(pack) + " : i32, pure = true";
  };
  SECTION("bytes four at a time") {
    const Array x = array_of(DType::i8, {64}, [](auto i) { return double(i * 5 % 128); });
    const Ran r = run_op("tt.elementwise_inline_asm",
                         attributes("and.b32 $0, $1, 0x1f1f1f1f; shl.b32 $0, $0, 3;", "=r,r", 4),
                         {x}, DType::i8, {64});
    REQUIRE(r.ok());
    for (int i = 0; i < 64; ++i) REQUIRE(r.out(1).bits(i) == ((x.bits(i) & 0x1f) << 3));
  }
  SECTION("Triton's own fp8e4b15 to f16: four bits of exponent, three of mantissa") {
    const Array x = array_of(DType::i8, {256}, [](auto i) { return double(i) - 128; });
    const Ran r = run_op(
        "tt.elementwise_inline_asm",
        attributes(
            "{ .reg .b32 a<2>, b<2>; prmt.b32 a0, 0, $2, 0x5746; and.b32 b0, a0, 0x7f007f00; "
            "and.b32 b1, a0, 0x00ff00ff; and.b32 a1, a0, 0x00800080; shr.b32  b0, b0, 1; "
            "add.u32 b1, b1, a1; lop3.b32 $0, b0, 0x80008000, a0, 0xf8; shl.b32 $1, b1, 7; }",
            "=r,=r,r", 4),
        {x}, DType::f16, {256});
    REQUIRE(r.ok());
    for (int i = 0; i < 256; ++i) {
      const auto bits = static_cast<int>(x.bits(i));
      const int exponent = bits >> 3 & 15;
      const double mantissa = (bits & 7) / 8.0;
      const double value =
          std::ldexp(exponent == 0 ? mantissa : 1 + mantissa, (exponent == 0 ? 1 : exponent) - 15);
      REQUIRE(r.out(1).at(i) == ((bits & 128) != 0 ? -value : value));
    }
  }
  SECTION("an operand that lies where the result does") {
    const Array x = array_of(DType::i32, {8}, [](auto i) { return double(i); });
    const Ran r = run_op("tt.elementwise_inline_asm", attributes("add.s32 $0, $1, 5;", "=r,0", 1),
                         {x}, DType::i32, {8});
    REQUIRE(r.ok());
    for (int i = 0; i < 8; ++i) REQUIRE(r.out(1).at(i) == i + 5);
  }
  SECTION("what is refused says the line") {
    const Array x(DType::i32, {8});
    CHECK_THROWS_WITH(run_op("tt.elementwise_inline_asm", attributes("bar.sync 0;", "=r,r", 1), {x},
                             DType::i32, {8}),
                      Catch::Contains("tt.elementwise_inline_asm: of bar.sync"));
  }
}

namespace {

Ran bounded_asm(const std::string& text, const std::string& constraints, int pack,
                const std::vector<Array>& in, DType out) {
  RunOptions options;
  options.error_model = ErrorModel{};
  return run_op("tt.elementwise_inline_asm",
                "asm_string = \"" + text + "\", constraints = \"" + constraints +
                    "\", packed_element = " + std::to_string(pack) + " : i32, pure = true",
                in, out, in[0].shape(), "", options);
}

}  // namespace

TEST_CASE("PTX: bounds hold for functions that miss by as much as is stated", "[triton][bounds]") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(-1, 1);
  const Array x = array_of(DType::f32, {64}, [&](auto) { return 3 * any(random); });
  const Array y = array_of(DType::f32, {64}, [&](auto) { return any(random); });
  // Values between, of f32, as a GPU that misses each function by `miss` of what is stated has
  // them.
  struct Program {
    const char* text;
    DType out;
    std::function<double(double x, double y, const std::function<double(double, double)>& miss)> f;
    double far = 64;  ///< of what is stated, and found
  };
  const auto f32_of = [](double v) { return static_cast<double>(static_cast<float>(v)); };
  const Program programs[] = {
      {"{ .reg .f32 t; ex2.approx.ftz.f32 t, $1; fma.rn.f32 $0, t, $2, t; }", DType::f32,
       [&](double a, double b, auto& miss) {
         const double t = f32_of(miss(std::exp2(a), std::exp2(a) * 0x1p-22));
         return f32_of(t * b + t);
       }},
      {"{ .reg .f32 t, u; tanh.approx.f32 t, $1; sub.rn.f32 u, t, $2; rcp.approx.ftz.f32 $0, u; }",
       DType::f32,
       [&](double a, double b, auto& miss) {
         const double t = f32_of(miss(std::tanh(a), std::tanh(a) * 0x1p-11));
         const double u = f32_of(t - b);
         return f32_of(miss(1 / u, 0x1p-23 / u));
       }},
      {"{ .reg .f32 t; sin.approx.f32 t, $1; max.f32 t, t, $2; neg.f32 $0, t; }", DType::f32,
       [&](double a, double b, auto& miss) {
         return -std::max(f32_of(miss(std::sin(a), std::exp2(-20.5))), b);
       }},
      {"{ .reg .f32 t; abs.f32 t, $1; lg2.approx.f32 t, t; div.full.f32 $0, $2, t; }", DType::f32,
       [&](double a, double b, auto& miss) {
         const double l = std::log2(std::fabs(a));
         const bool near = std::fabs(a) > 0.5 && std::fabs(a) < 2;
         const double t = f32_of(miss(l, near ? 0x1p-22 : 0x1p-22 * l));
         return f32_of(miss(b / t, b / t * 0x1p-22));
       }},
      {"{ .reg .f32 t; abs.f32 t, $1; rsqrt.approx.ftz.f32 t, t; cvt.rn.bf16.f32 $0, t; }",
       DType::bf16,
       [&](double a, double, auto& miss) {
         const double r = 1 / std::sqrt(std::fabs(a));
         return static_cast<double>(
             convert<float>(convert<bf16>(static_cast<float>(miss(r, r * std::exp2(-22.9))))));
       },
       0x1p17}};
  for (const Program& p : programs) {
    const Ran r = bounded_asm(p.text, "=r,r,r", 1, {x, y}, p.out);
    INFO(p.text << r.text());
    REQUIRE(r.ok());
    const Array& bounds = r.result.run.bounds.at(2);
    double closest = 1e9;
    bool beyond = false;
    for (int i = 0; i < 64; ++i) {
      const double ours = r.out(2).at(i);
      double farthest = 0;
      for (int trial = 0; trial < 50; ++trial) {
        const std::function<double(double, double)> within = [&](double exact, double off) {
          return exact + 0.99 * off * any(random);
        };
        farthest = std::max(farthest, std::fabs(p.f(x.at(i), y.at(i), within) - ours));
      }
      REQUIRE(farthest <= bounds.at(i));
      if (farthest > 0) closest = std::min(closest, bounds.at(i) / farthest);
      const std::function<double(double, double)> far = [&](double exact, double off) {
        return exact + (exact < 0 ? -1 : 1) * p.far * std::fabs(off);
      };
      beyond = beyond || std::fabs(p.f(x.at(i), y.at(i), far) - ours) > bounds.at(i);
    }
    REQUIRE(beyond);
    // The bound is of what may happen, where bf16 does not round it away.
    if (p.out == DType::f32) REQUIRE(closest < 20);
  }
}

TEST_CASE("PTX: what is exact has no bounds, and bits that may be others are refused",
          "[triton][bounds]") {
  const Array x = array_of(DType::f32, {64}, [](auto i) { return double(i) / 8; });
  const Ran exact = bounded_asm("{ .reg .b32 t; shl.b32 t, $1, 1; shr.b32 $0, t, 1; }", "=r,r", 1,
                                {x}, DType::f32);
  INFO(exact.text());
  REQUIRE(exact.ok());
  for (int i = 0; i < 64; ++i) REQUIRE(exact.result.run.bounds.at(1).at(i) == 0);
  const Ran bits =
      bounded_asm("{ .reg .b32 t; ex2.approx.f32 t, $1; shl.b32 t, t, 1; shr.b32 $0, t, 1; }",
                  "=r,r", 1, {x}, DType::f32);
  REQUIRE(!bits.ok());
  REQUIRE(bits.text().find("inline PTX: shl.b32 of bits that may be others") != std::string::npos);
  const Ran other = bounded_asm("ex2.approx.f32 $0, $1;", "=r,r", 1, {x}, DType::i32);
  REQUIRE(!other.ok());
  REQUIRE(other.text().find("gives bits of another type") != std::string::npos);
  // Two halves in a register keep a bound each.
  const Array h = array_of(DType::f16, {64}, [](auto i) { return double(i % 5) / 8; });
  const Ran pairs = bounded_asm("tanh.approx.f16x2 $0, $1;", "=r,r", 2, {h}, DType::f16);
  INFO(pairs.text());
  REQUIRE(pairs.ok());
  for (int i = 0; i < 64; ++i) REQUIRE(pairs.result.run.bounds.at(1).at(i) >= std::exp2(-10.987));
}

}  // namespace tessera::triton
