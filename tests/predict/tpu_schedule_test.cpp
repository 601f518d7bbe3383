// Schedules of a TPU core, as listings written by hand: what is read, what is played, what is said.
#include "predict/tpu_schedule.hpp"

#include <catch2/catch.hpp>

#include "report/run_report.hpp"

namespace tessera::predict {
namespace {

/// A listing of the slots of each bundle; what the utilization file would count is left empty but
/// for one VALU slot in bundles that have a vector op.
Listing listing_of(const std::string& bundles) {
  std::string use =
      "== CAPACTIY:\n"
      "MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU\n"
      "    4     3     4     2     1     3     3     1     1     2\n"
      "== UTILIZATION:\n";
  std::size_t at = 0;
  while (at < bundles.size()) {
    const std::size_t end = std::min(bundles.find('\n', at), bundles.size());
    const std::string line = bundles.substr(at, end - at);
    at = end + 1;
    if (line.find('{') == std::string::npos) continue;
    use +=
        line.find("vadd") != std::string::npos ? "0 0 1 0 0 0 0 0 0 0\n" : "0 0 0 0 0 0 0 0 0 0\n";
  }
  return read_listing(bundles, use);
}

TpuSchedule schedule(const std::string& bundles, const std::vector<const Array*>& values = {},
                     const char* device = "tpu-v5e") {
  return schedule_of(listing_of(bundles), values, load_device(device));
}

/// Copies a block of 4096 bytes in, waits for it, adds, copies it out.
const std::string kCopies = R"(= control target key start
LH: loop header

     0   :  { %s0_s0 = inlined_call_operand.hbm [shape: f32[8,128], index: 0, kind: input, shape index: {}] /* a remark */  ;;  %s1_s1 = inlined_call_operand.hbm [shape: f32[8,128], index: 1, kind: output, shape index: {}] } /* entry bundle */
   0x1   :  { %s2_s2 = sshll.u32 %s0_s0, 4  ;;  %s3_s2 = int_to_ptr.hbm [resolvable:$true] %s2_s2 }
   0x2   :  { %s4_s3 = sshll.u32 %s1_s1, 4 }
   0x3   :  { %9 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s3_s2, /*size_in_granules=*/128, /*vmem=*/[#allocation2], /*dst_syncflagno=*/[#allocation1] /* 
base_bounds: (1, 1) */ }
   0x4   :  { %10 = dma.done.wait [#allocation1], 128 }
   0x5   :  { %11 = vsyncadd [#allocation1], 4294967168  ;;  %v1_v1 = vadd.f32 %v0_v0, %v0_v0 }
   0x6   :  { %12 = dma.vmem_to_hbm [thread:$0]  [#allocation2], 128, %s4_s3, [#allocation1] }
   0x7   :  { %13 = dma.done.wait [#allocation1], 128 }
)";

TEST_CASE("a schedule's copies are counted per operand, and waits last until they land",
          "[predict][tpu_schedule]") {
  const TpuSchedule s = schedule(kCopies);
  REQUIRE(s.unmodelled.empty());
  REQUIRE(s.operands.size() == 2);
  CHECK(s.operands[0].bytes.read == 4096);
  CHECK(s.operands[0].bytes.written == 0);
  CHECK(s.operands[1].bytes.written == 4096);
  CHECK(s.operands[1].output);
  // 4096 bytes at 820 GB/s and 1.5 GHz. Both copies are issued in bundles that take a cycle.
  const double copy = 4096 / 820e9 * 1.5e9;
  CHECK(s.issued == 8);
  CHECK(s.waiting == Approx(2 * copy - 2));
  CHECK(s.cycles == Approx(6 + 2 * copy));
  CHECK(s.timeline.seconds == Approx((6 + 2 * copy) / 1.5e9));
  CHECK(s.timeline.binds == "HBM");
}

TEST_CASE("a report names what XLA keeps in VMEM, where nothing is copied",
          "[predict][tpu_schedule]") {
  const auto text = [](const std::string& bundles) {
    report::RunReport report;
    report.compiled = schedule(bundles);
    REQUIRE(report.compiled->unmodelled.empty());
    REQUIRE(report.compiled->operands.size() == 2);
    report.compiled->operands[0].name = "q";
    return report::text_of(report);
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(text(kCopies), !Contains("XLA keeps"));
  CHECK_THAT(
      text("     0   :  { %s0_s0 = inlined_call_operand.vmem [shape: f32[8,128], index: 0, kind: "
           "input, shape index: {}]  ;;  %s1_s1 = inlined_call_operand.hbm [shape: f32[8,128], "
           "index: 1, kind: output, shape index: {}] }\n"
           "   0x1   :  { %v1_v1 = vadd.f32 %v0_v0, %v0_v0 }\n"),
      Contains("XLA keeps q in VMEM"));
}

/// Adds in a loop of `trips`; the back branch takes effect behind four more bundles.
std::string loop(const std::string& trips) {
  return "     0   :  { %s0_s0 = inlined_call_operand.smem [shape: s32[2], index: 0, kind: input, "
         "shape index: {}]  ;;  %s1_s1 = smov 0 }\n"
         "   0x1   :  { %s9_s4 = sld [smem:[%s0_s0 + $0x1]] }\n"
         "   0x2 LB: > { %v1_v1 = vadd.f32 %v0_v0, %v0_v0  ;;  %s3_s1 = sadd.s32 1, %s2_s1  ;;  "
         "%s2_s1 = sphi %s1_s1, %s3_s1 } /* Start region 7 */\n"
         "   0x3   : > { %p1_p0 = scmp.ge.s32.totalorder %s3_s1, " +
         trips +
         " }\n"
         "   0x4   : > { %5 = sbr.rel (!%p1_p0) target = $region7 }\n"
         "   0x5   : > {}\n   0x6   : > {}\n   0x7   : > {}\n   0x8   : > {}\n   0x9   :  {}\n";
}

TEST_CASE("a copy of many strides goes where its remark says; without one it is refused",
          "[predict][tpu_schedule]") {
  const auto general = [](const std::string& remark) {
    std::string bundles = kCopies;
    const std::string plain = "dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s3_s2";
    bundles.replace(bundles.find(plain), plain.size(), "dma.general /*src=*/%s3_s2");
    const std::string end = "/* \nbase_bounds: (1, 1) */";
    bundles.replace(bundles.find(end), end.size(), remark);
    return schedule(bundles);
  };
  const TpuSchedule s = general("/* hbm-to-vmem */");
  REQUIRE(s.unmodelled.empty());
  CHECK(s.operands[0].bytes.read == 4096);
  CHECK(s.cycles == schedule(kCopies).cycles);
  CHECK_THAT(general("").unmodelled, Catch::Matchers::Contains("dma.general"));
}

TEST_CASE("a loop runs as often as its scalars say", "[predict][tpu_schedule]") {
  Array scalars(DType::i32, Shape{2});
  scalars.set(1, 5);
  SECTION("a constant") { CHECK(schedule(loop("3")).cycles == 2 + 3 * 7 + 1); }
  SECTION("a prefetched scalar") {
    CHECK(schedule(loop("%s9_s4"), {&scalars}).cycles == 2 + 5 * 7 + 1);
  }
  SECTION("one that nobody gives is refused, with the slot it comes from") {
    const TpuSchedule s = schedule(loop("%s9_s4"), {nullptr});
    CHECK(s.unmodelled ==
          "bundle 0x4: whether sbr.rel acts depends on what is not known: %s9_s4 = sld");
  }
}

TEST_CASE("where empty bundles are listed as one, that one fills a branch's delay up",
          "[predict][tpu_schedule]") {
  // Behind the loop a flag is taken back for which the next round still waits.
  const auto played = [](const std::string& delay, const char* device) {
    return schedule(
               "     0   :  { %s1_s1 = smov 0  ;;  %6 = vsyncadd [#allocation1], 5 }\n"
               "   0x1 LB: > { %7 = dma.done.wait [#allocation1], 5  ;;  %s3_s1 = sadd.s32 1, "
               "%s2_s1  "
               ";;  %s2_s1 = sphi %s1_s1, %s3_s1 } /* Start region 7 */\n"
               "   0x2   : > { %p1_p0 = scmp.ge.s32.totalorder %s3_s1, 3 }\n"
               "   0x3   : > { %5 = sbr.rel (!%p1_p0) target = $region7 }\n" +
                   delay +
                   "   0x6   :  { %8 = vsyncpa [#allocation1], 1 }\n   0x7   :  { %9 = sfence }\n"
                   "   0x8   :  { %10 = sfence }\n   0x9   :  { %11 = sfence }\n",
               {}, device)
        .unmodelled;
  };
  const std::string moved = "   0x4   : > { %s7_s7 = smov 0 }\n";
  const std::string empty = "   0x5   :  {}\n";
  const std::string full = "   0x5   : > { %s8_s8 = smov 0 }\n";
  const std::string waits = "it waits for what no copy of this core brings";
  CHECK(played(moved + empty, "tpu-v7x") == "");
  CHECK_THAT(played(moved + full, "tpu-v7x"), Catch::Matchers::Contains(waits));
  CHECK_THAT(played(moved + empty, "tpu-v5e"), Catch::Matchers::Contains(waits));
  // What acts only where the branch does not is in its delay too.
  CHECK(played("   0x4   :  {}\n   0x5   : > { %s8_s8 = smov (%p1_p0, 0), 0 }\n", "tpu-v7x") == "");
}

TEST_CASE("a quotient hands over what it is asked for", "[predict][tpu_schedule]") {
  // A copy of as many times 32 bytes as slots give.
  const auto read_of = [](const std::string& slots) {
    std::string text = kCopies;
    const auto put = [&](const std::string& old, const std::string& now) {
      text.replace(text.find(old), old.size(), now);
    };
    put("%s4_s3 = sshll.u32 %s1_s1, 4", "%s4_s3 = sshll.u32 %s1_s1, 4" + slots);
    put("/*size_in_granules=*/128", "%s9_s9");
    put("dma.done.wait [#allocation1], 128", "dma.done.wait [#allocation1], %s9_s9");
    put("vsyncadd [#allocation1], 4294967168", "vsyncpa [#allocation1], 0");
    const TpuSchedule s = schedule(text);
    CHECK(s.unmodelled == "");
    return s.operands.empty() ? 0 : s.operands[0].bytes.read / 32;
  };
  const auto read = [&](const std::string& parts, int taken) {
    std::string slots = "  ;;  %14 = sdivrem.u32 1000, 7 /* " + parts + " */";
    for (int i = 0; i < taken; ++i) slots += "  ;;  %s9_s9 = spop.drf %14";
    return read_of(slots);
  };
  CHECK(read("kDiv", 1) == 142);
  CHECK(read("kRem", 1) == 6);
  CHECK(read("kDivAndRem", 1) == 142);
  CHECK(read("kDivAndRem", 2) == 6);
  // By 3, twice: the high word of a product by two thirds of 2^32.
  CHECK(read_of("  ;;  %s9_s9 = smulhi.u32 2863311531, 300") == 200);
}

TEST_CASE("what binds, and the overhead, are said by region", "[predict][tpu_schedule]") {
  const TpuSchedule s = schedule(loop("3"));
  REQUIRE(!s.regions.empty());
  CHECK(s.regions[0].begin == 2);
  CHECK(s.regions[0].end == 9);
  CHECK(s.regions[0].times == 3);
  CHECK(s.regions[0].used[static_cast<std::size_t>(Unit::valu)] == Approx(1 / 28.));
  CHECK(s.regions[0].binds == "latency");
  CHECK(s.overhead == 2 + 3 * 6 + 1);  // all but the bundles that add
}

TEST_CASE("a guard decides; a move that it stops gives the other value",
          "[predict][tpu_schedule]") {
  const auto bytes = [](const std::string& first) {
    std::string text = kCopies;
    const std::string slot = "%s4_s3 = sshll.u32 %s1_s1, 4";
    text.replace(text.find(slot), slot.size(),
                 slot + "  ;;  %p1_p1 = scmp.eq.s32.totalorder " + first +
                     ", 7  ;;  %s8_s8 = smov (%p1_p1, 64), 128");
    const std::string copy = "/*size_in_granules=*/128";
    text.replace(text.find(copy), copy.size(), "%s8_s8");
    const std::string wait = "dma.done.wait [#allocation1], 128";
    text.replace(text.find(wait), wait.size(), "dma.done.wait [#allocation1], %s8_s8");
    const std::string take = "vsyncadd [#allocation1], 4294967168";
    text.replace(text.find(take), take.size(), "vsyncpa [#allocation1], 0");
    return schedule(text).operands.at(0).bytes.read;
  };
  CHECK(bytes("7") == 4096);
  CHECK(bytes("6") == 2048);
}

TEST_CASE("what is not known is refused by name", "[predict][tpu_schedule]") {
  const auto with = [](const std::string& slot) {
    return schedule(kCopies + "   0x8   :  { " + slot + " }\n").unmodelled;
  };
  CHECK(with("%p1_p1 = por 0, 1") == "");
  CHECK(with("%14 = sfrobnicate %s0_s0") == "bundle 0x8: no slot sfrobnicate is known");
  CHECK(with("%14 = vsyncadd.remote %s0_s0, 1") == "bundle 0x8: no slot vsyncadd.remote is known");
  CHECK(with("%14 = dma.done.wait [#allocation1], 999") ==
        "bundle 0x8: it waits for what no copy of this core brings");
  CHECK(with("%14 = dma.general 0, 1, 0, 0").find("dma.general: a copy whose way") !=
        std::string::npos);
  CHECK(with("%14 = shalt.err (!%p9_p9)") == "");  // of a check that is not followed
  CHECK(with("%14 = sbr.rel target = $region3") == "bundle 0x8: no region 3");
}

TEST_CASE("other versions, chips and forms are refused", "[predict][tpu_schedule]") {
  CHECK_NOTHROW(require_known_version("0.0.42.1"));
  CHECK_THROWS_AS(require_known_version("0.0.421"), ListingError);
  CHECK_THROWS_WITH(require_known_version("0.0.43"),
                    "listings of libtpu 0.0.43 have not been read; those of 0.0.42 have");
  CHECK_THROWS_AS(listed_chip(DeviceSpec{}), ListingError);
  CHECK_THROWS_AS(read_listing("", ""), ListingError);
  CHECK_THROWS_AS(read_listing("  0x1   :  {}\n", ""), ListingError);  // the first is 0
  CHECK_THROWS_AS(read_listing("   0   :  {}\n", ""), ListingError);   // no utilization
  CHECK_THROWS_AS(read_listing("   0   :  { /* }\n", ""), ListingError);
}

TEST_CASE("a core that has no part in the kernel leaves through a region without code",
          "[predict][tpu_schedule]") {
  // Only core 0 loops; the region behind, 4, begins at the exit bundle, by its label alone.
  const auto of_core = [](const std::string& exit_label) {
    return "     0   :  { %s1_s1 = sld [smem:[#allocation0]] /* core id */ }\n"
           "   0x1   :  { %p1_p1 = scmp.ne.s32.totalorder %s1_s1, 0  ;;  %s2_s2 = smov 0 }\n"
           "   0x2   :  { %14 = sbr.rel (%p1_p1) target = $region4 }\n"
           "   0x3   :  {}\n   0x4   :  {}\n   0x5   :  {}\n   0x6   :  {}\n"
           "   0x7 LB: > { %s4_s2 = sadd.s32 1, %s3_s2  ;;  %s3_s2 = sphi %s2_s2, %s4_s2 } /* "
           "Start "
           "region 7 */\n"
           "   0x8   : > { %p2_p0 = scmp.ge.s32.totalorder %s4_s2, 3 }\n"
           "   0x9   : > { %5 = sbr.rel (!%p2_p0) target = $region7 }\n"
           "   0xa   : > {}\n   0xb   : > {}\n   0xc   : > {}\n   0xd   : > {}\n"
           "   0xe " +
           exit_label + ":  {} /* exit bundle: %name.1 = custom-call(%Arg_0.1) */\n";
  };
  DeviceSpec two = load_device("tpu-v5e");
  two.cores = 2;
  const TpuSchedule s = schedule_of(listing_of(of_core("PF")), {}, two);
  REQUIRE(s.unmodelled == "");
  CHECK(s.issued == 7 + 3 * 7 + 1);
  CHECK(schedule(of_core("  ")).unmodelled == "bundle 0x2: no region 4");
}

TEST_CASE("comments nest, and a store's value follows its address without a comma",
          "[predict][tpu_schedule]") {
  const Listing l = listing_of(
      "   0   :  { %1 = sst [smem:[#allocation1_spill]] %s1_s1  ;;  %2 = shalt.err (!%p1_p1) /* "
      "for "
      "/*hbm=*/%s2 */ } /* Start region 1 :: Start/End empty region 2 */\n");
  REQUIRE(l.bundles.size() == 1);
  REQUIRE(l.bundles[0].slots.size() == 2);
  CHECK(l.bundles[0].slots[0].operands ==
        std::vector<std::string>{"[smem:[#allocation1_spill]]", "%s1_s1"});
  CHECK(l.bundles[0].slots[1].operands.empty());
  CHECK(l.bundles[0].slots[1].guard_negated);
  CHECK(l.region_begin == std::vector<int>{-1, 0, 0});
}

TEST_CASE("scalars of SMEM lie in tiles; narrow ones share words", "[predict][tpu_schedule]") {
  // Copies a [3, 2] array of bytes to SMEM and runs as often as element [2, 1] says: rows 0 to 3
  // of column 1 are the bytes of word 1.
  const std::string text =
      "     0   :  { %s0_s0 = inlined_call_operand.hbm [shape: s8[3,2], index: 0, kind: input, "
      "shape "
      "index: {}] }\n"
      "   0x1   :  { %s2_s2 = sshll.u32 %s0_s0, 4 }\n"
      "   0x2   :  { %9 = dma.hbm_to_smem %s2_s2, 16, [#allocation3], [#allocation1] }\n"
      "   0x3   :  { %10 = dma.done.wait [#allocation1], 16 }\n"
      "   0x4   :  { %s3_s3 = sld [smem:[#allocation3 + $0x1]]  ;;  %s1_s1 = smov 0 }\n"
      "   0x5   :  { %s4_s3 = sshrl.u32 %s3_s3, 16 }\n"
      "   0x6   :  { %s5_s3 = sand.u32 255, %s4_s3 }\n"
      "   0x7 LB: > { %s7_s1 = sadd.s32 1, %s6_s1  ;;  %s6_s1 = sphi %s1_s1, %s7_s1 } /* Start "
      "region "
      "7 */\n"
      "   0x8   : > { %p1_p0 = scmp.lt.s32.totalorder %s7_s1, %s5_s3 }\n"
      "   0x9   : > { %5 = sbr.rel (%p1_p0) target = $region7 }\n"
      "   0xa   : > {}\n   0xb   : > {}\n   0xc   : > {}\n   0xd   : > {}\n";
  Array bytes(DType::i8, Shape{3, 2});
  bytes.set(5, 9);
  const TpuSchedule s = schedule(text, {&bytes});
  REQUIRE(s.unmodelled.empty());
  CHECK(s.issued == 7 + 9 * 7);
}

}  // namespace
}  // namespace tessera::predict
