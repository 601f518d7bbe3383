// Inline PTX against what the instructions are written out as here.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

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

}  // namespace tessera::triton
