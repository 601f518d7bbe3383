// Wrong kernels and their good twins: one line apart.
#include <catch2/catch.hpp>

#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

/// Program x copies `%width` elements from its block of 16 of %a to %b, at x * %stride.
std::string block_copy(const std::string& mask_operands, const std::string& mask_types,
                       const std::string& segments) {
  return R"(%c16 = "arith.constant"() <{value = 16 : i32}> : () -> i32
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%first = "arith.muli"(%x, %c16) : (i32, i32) -> i32
%to = "arith.muli"(%x, %stride) : (i32, i32) -> i32
%r = "tt.make_range"() <{start = 0 : i32, end = 16 : i32}> : () -> tensor<16xi32>
%fs = "tt.splat"(%first) : (i32) -> tensor<16xi32>
%ts = "tt.splat"(%to) : (i32) -> tensor<16xi32>
%i = "arith.addi"(%fs, %r) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
%o = "arith.addi"(%ts, %r) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
%n = "tt.splat"(%width) : (i32) -> tensor<16xi32>
%on = "arith.cmpi"(%i, %n) <{predicate = 2 : i64}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
%other = "arith.constant"() <{value = dense<7.0> : tensor<16xf32>}> : () -> tensor<16xf32>
%as = "tt.splat"(%a) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>>
%ap = "tt.addptr"(%as, %i) : (tensor<16x!tt.ptr<f32>>, tensor<16xi32>) -> tensor<16x!tt.ptr<f32>>
%bs = "tt.splat"(%b) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>>
%bp = "tt.addptr"(%bs, %o) : (tensor<16x!tt.ptr<f32>>, tensor<16xi32>) -> tensor<16x!tt.ptr<f32>>
%v = "tt.load"(%ap)" +
         mask_operands + ") <{operandSegmentSizes = array<i32: " + segments +
         ">}> : (tensor<16x!tt.ptr<f32>>" + mask_types + R"() -> tensor<16xf32>
"tt.store"(%bp, %v) : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>) -> ())";
}
const std::string kArguments = "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %width: i32, %stride: i32";
std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("reads and writes outside of an allocation, with the line", "[triton][hazards]") {
  const auto text = [](const std::string& load) { return kernel_text(kArguments, load); };
  const std::string bare = block_copy("", "", "1, 0, 0");
  const std::string masked =
      block_copy(", %on, %other", ", tensor<16xi1>, tensor<16xf32>", "1, 1, 1");
  const Array a = array_of(DType::f32, {40}, [](auto i) { return double(i); });
  const Array b(DType::f32, {48});
  const Ran bad = launch_text(text(bare), {a, b}, {40, 16}, {3, 1, 1});
  CHECK(bad.slug() == "oob-index");
  CHECK(bad.text().find("it reads element 40 of a, which has 40") != std::string::npos);
  CHECK(bad.text().find("grid (x=2, y=0, z=0)") != std::string::npos);
  CHECK(bad.text().find(":20") != std::string::npos);  // of the load, in the module's text
  CHECK(bad.out(1).at(0) == 0);                        // as it was
  const Ran good = launch_text(text(masked), {a, b}, {40, 16}, {3, 1, 1});
  REQUIRE(good.ok());
  for (int i = 0; i < 48; ++i) CHECK(good.out(1).at(i) == (i < 40 ? i : 7));
  const Ran write = launch_text(text(masked), {a, Array(DType::f32, {40})}, {40, 16}, {3, 1, 1});
  CHECK(write.slug() == "oob-index");
  CHECK(write.text().find("it writes element 40 of b") != std::string::npos);
  const Ran before = launch_text(text(masked), {a, b}, {40, -16}, {3, 1, 1});
  CHECK(before.slug() == "oob-index");
  CHECK(before.text().find("it writes element -16 of b") != std::string::npos);
}

TEST_CASE("undefined values that reach memory", "[triton][hazards]") {
  const Array a = array_of(DType::f32, {48}, [](auto i) { return double(i); });
  const Array b(DType::f32, {48});
  const std::string without = block_copy(", %on", ", tensor<16xi1>", "1, 1, 0");
  const std::string other =
      block_copy(", %on, %other", ", tensor<16xi1>, tensor<16xf32>", "1, 1, 1");
  const Ran bad = launch_text(kernel_text(kArguments, without), {a, b}, {40, 16}, {3, 1, 1});
  CHECK(bad.slug() == "uninit-read");
  CHECK(bad.text().find("8 of 48 elements of b depend on") != std::string::npos);
  CHECK(bad.text().find("first at element 40") != std::string::npos);
  CHECK(bad.text().find(":20") != std::string::npos);
  CHECK(launch_text(kernel_text(kArguments, other), {a, b}, {40, 16}, {3, 1, 1}).ok());
  // Stored under the same mask it reaches nothing.
  const std::string same =
      with(without, "\"tt.store\"(%bp, %v) : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>)",
           "\"tt.store\"(%bp, %v, %on) : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>, tensor<16xi1>)");
  CHECK(launch_text(kernel_text(kArguments, same), {a, b}, {40, 16}, {3, 1, 1}).ok());
  // Memory of which the launch says that nothing has written it.
  const std::string bare = block_copy("", "", "1, 0, 0");
  const Ran empty =
      launch_text(kernel_text(kArguments, bare), {a, b}, {48, 16}, {3, 1, 1}, {}, {true});
  CHECK(empty.slug() == "uninit-read");
  CHECK(launch_text(kernel_text(kArguments, bare), {a, b}, {48, 16}, {3, 1, 1}, {}, {false, true})
            .ok());
}

TEST_CASE("programs that write what others read or write", "[triton][hazards]") {
  const Array a = array_of(DType::f32, {64}, [](auto i) { return double(i); });
  const std::string bare = block_copy("", "", "1, 0, 0");
  // Blocks of 16, 8 apart: the second half of one is the first of the next.
  const Ran bad =
      launch_text(kernel_text(kArguments, bare), {a, Array(DType::f32, {64})}, {64, 8}, {4, 1, 1});
  CHECK(bad.slug() == "race");
  CHECK(bad.text().find("two programs access element 8 of b, and write different values there") !=
        std::string::npos);
  CHECK(bad.text().find("program 0") != std::string::npos);
  CHECK(bad.text().find("program 1") != std::string::npos);
  CHECK(
      launch_text(kernel_text(kArguments, bare), {a, Array(DType::f32, {64})}, {64, 16}, {4, 1, 1})
          .ok());
  SECTION("the same values are no race") {
    const Array same = array_of(DType::f32, {64}, [](auto) { return 3.0; });
    CHECK(launch_text(kernel_text(kArguments, bare), {same, Array(DType::f32, {64})}, {64, 8},
                      {4, 1, 1})
              .ok());
  }
  SECTION("a read of what another writes") {
    // In place, one block further: both arguments are the same storage.
    const std::string one = "%a: !tt.ptr<f32>, %width: i32, %stride: i32, %far: i32";
    const std::string body =
        "%b = \"tt.addptr\"(%a, %far) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>\n" + bare;
    const Array twice = array_of(DType::f32, {128}, [](auto i) { return double(i); });
    const Ran moved = launch_text(kernel_text(one, body), {twice}, {64, 16, 16}, {4, 1, 1});
    CHECK(moved.slug() == "race");
    CHECK(moved.text().find("one of them changes it") != std::string::npos);
    CHECK(launch_text(kernel_text(one, body), {twice}, {64, 16, 64}, {4, 1, 1}).ok());
  }
  SECTION("two lanes of a store") {
    const auto body = [](const char* divisor) {
      return std::string(
                 R"(%r = "tt.make_range"() <{start = 0 : i32, end = 16 : i32}> : () -> tensor<16xi32>
%d = "arith.constant"() <{value = dense<)") +
             divisor + R"(> : tensor<16xi32>}> : () -> tensor<16xi32>
%i = "arith.remsi"(%r, %d) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
%as = "tt.splat"(%a) : (!tt.ptr<i32>) -> tensor<16x!tt.ptr<i32>>
%p = "tt.addptr"(%as, %i) : (tensor<16x!tt.ptr<i32>>, tensor<16xi32>) -> tensor<16x!tt.ptr<i32>>
"tt.store"(%p, %r) : (tensor<16x!tt.ptr<i32>>, tensor<16xi32>) -> ())";
    };
    const Ran lanes =
        launch_text(kernel_text("%a: !tt.ptr<i32>", body("8")), {Array(DType::i32, {16})});
    CHECK(lanes.slug() == "race");
    CHECK(lanes.text().find("two lanes of a store write different values to element 0 of a") !=
          std::string::npos);
    CHECK(launch_text(kernel_text("%a: !tt.ptr<i32>", body("16")), {Array(DType::i32, {16})}).ok());
  }
}

TEST_CASE("a lock orders what it protects", "[triton][hazards]") {
  // Each program adds its number to a cell, under a lock or not.
  const auto body = [](bool locked, const char* release) {
    const std::string take = R"("scf.while"() ({
  %got = "tt.atomic_cas"(%lock, %zero, %one) <{scope = 1 : i32, sem = 2 : i32}> : (!tt.ptr<i32>, i32, i32) -> i32
  %busy = "arith.cmpi"(%got, %one) <{predicate = 0 : i64}> : (i32, i32) -> i1
  "scf.condition"(%busy) : (i1) -> ()
}, {
  "scf.yield"() : () -> ()
}) : () -> ()
)";
    const std::string give =
        std::string(
            "%was = \"tt.atomic_rmw\"(%lock, %zero, %yes) <{atomic_rmw_op = 10 "
            ": i32, scope = 1 : i32, sem = ") +
        release + " : i32}> : (!tt.ptr<i32>, i32, i1) -> i32";
    return std::string(R"(%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%yes = "arith.constant"() <{value = true}> : () -> i1
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
)") + (locked ? take : "") +
           R"(%v = "tt.load"(%cell) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<i32>) -> i32
%w = "arith.addi"(%v, %x) : (i32, i32) -> i32
"tt.store"(%cell, %w) : (!tt.ptr<i32>, i32) -> ()
)" + (locked ? give : "");
  };
  const std::string arguments = "%lock: !tt.ptr<i32>, %cell: !tt.ptr<i32>";
  const auto run = [&](bool locked, const char* release) {
    return launch_text(kernel_text(arguments, body(locked, release)),
                       {Array(DType::i32, {1}), Array(DType::i32, {1})}, {}, {8, 1, 1});
  };
  // sem: 1 relaxed, 2 acquire, 3 release, 4 both.
  const Ran good = run(true, "3");
  REQUIRE(good.ok());
  CHECK(good.out(1).at(0) == 28);
  CHECK(run(false, "3").slug() == "race");
  CHECK(run(true, "1").slug() == "race");  // given back without a release
}

TEST_CASE("a program may wait for an earlier one and for a later one, not for nobody",
          "[triton][hazards]") {
  // Program %first raises the flag; the other one waits for it, then stores.
  const std::string text = R"(%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%yes = "arith.constant"() <{value = true}> : () -> i1
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%raises = "arith.cmpi"(%x, %first) <{predicate = 0 : i64}> : (i32, i32) -> i1
"scf.if"(%raises) ({
  RAISE
  "scf.yield"() : () -> ()
}, {
  "scf.while"() ({
    %got = LOOK
    %down = "arith.cmpi"(%got, %zero) <{predicate = 0 : i64}> : (i32, i32) -> i1
    "scf.condition"(%down) : (i1) -> ()
  }, {
    "scf.yield"() : () -> ()
  }) : () -> ()
  "tt.store"(%cell, %one) : (!tt.ptr<i32>, i32) -> ()
  "scf.yield"() : () -> ()
}) : (i1) -> ())";
  const struct {
    const char* raise;
    const char* look;
  } ways[] = {
      {"%was = \"tt.atomic_rmw\"(%flag, %one, %yes) <{atomic_rmw_op = 10 : i32, scope = 1 : i32, "
       "sem = 3 : i32}> : (!tt.ptr<i32>, i32, i1) -> i32",
       "\"tt.atomic_rmw\"(%flag, %zero, %yes) <{atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = 2 "
       ": i32}> : (!tt.ptr<i32>, i32, i1) -> i32"},
      {"\"tt.atomic_store\"(%flag, %one) <{scope = 1 : i32, sem = 3 : i32}> : (!tt.ptr<i32>, "
       "i32) -> ()",
       "\"tt.atomic_load\"(%flag) <{scope = 1 : i32, sem = 2 : i32}> : (!tt.ptr<i32>) -> i32"}};
  for (const auto& way : ways) {
    std::string body = text;
    body.replace(body.find("RAISE"), 5, way.raise);
    body.replace(body.find("LOOK"), 4, way.look);
    CAPTURE(way.raise);
    const auto run = [&](std::int64_t first) {
      return launch_text(kernel_text("%flag: !tt.ptr<i32>, %cell: !tt.ptr<i32>, %first: i32", body),
                         {Array(DType::i32, {1}), Array(DType::i32, {1})}, {first}, {2, 1, 1});
    };
    const Ran earlier = run(0);
    REQUIRE(earlier.ok());
    CHECK(earlier.out(1).at(0) == 1);
    const Ran later = run(1);
    REQUIRE(later.ok());
    CHECK(later.out(1).at(0) == 1);
    CHECK(later.result.run.ledger().refs()[0].read_bytes > 4);
    const Ran nobody = run(2);
    CHECK(nobody.slug() == "deadlock");
    CHECK(nobody.text().find("2 of 2 programs wait, and nobody is left to change what they read") !=
          std::string::npos);
    CHECK(nobody.text().find("program (x=1, y=0, z=0), element 0 of flag") != std::string::npos);
    CHECK(nobody.out(1).at(0) == 0);
  }
}

/// Long enough for threads: each program sums 256 rows of 64, and writes them from %to on.
std::string sums_of_rows(const std::string& to) {
  return R"(%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%rows = "arith.constant"() <{value = 256 : i32}> : () -> i32
%c64 = "arith.constant"() <{value = 64 : i32}> : () -> i32
%start = "arith.constant"() <{value = dense<0.0> : tensor<64xf32>}> : () -> tensor<64xf32>
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%r = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
%as = "tt.splat"(%a) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>>
%sum = "scf.for"(%zero, %rows, %one, %start) ({
^bb0(%k: i32, %acc: tensor<64xf32>):
  %row = "arith.muli"(%k, %c64) : (i32, i32) -> i32
  %rs = "tt.splat"(%row) : (i32) -> tensor<64xi32>
  %i = "arith.addi"(%rs, %r) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
  %p = "tt.addptr"(%as, %i) : (tensor<64x!tt.ptr<f32>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f32>>
  %v = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<64x!tt.ptr<f32>>) -> tensor<64xf32>
  %s = "arith.addf"(%acc, %v) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  "scf.yield"(%s) : (tensor<64xf32>) -> ()
}) : (i32, i32, i32, tensor<64xf32>) -> tensor<64xf32>
)" + to + R"(%ts = "tt.splat"(%to) : (i32) -> tensor<64xi32>
%o = "arith.addi"(%ts, %r) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
%bs = "tt.splat"(%b) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>>
%bp = "tt.addptr"(%bs, %o) : (tensor<64x!tt.ptr<f32>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f32>>
%xf = "arith.sitofp"(%x) : (i32) -> f32
%xs = "tt.splat"(%xf) : (f32) -> tensor<64xf32>
%w = "arith.addf"(%sum, %xs) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
"tt.store"(%bp, %w) : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> ())";
}

TEST_CASE("the same bits, traffic and words for every number of threads", "[triton]") {
  const std::string body = sums_of_rows("%to = \"arith.muli\"(%x, %stride) : (i32, i32) -> i32\n");
  const std::string text = kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %stride: i32", body);
  const Array a = array_of(DType::f32, {256 * 64}, [](auto i) { return 1 / (double(i) + 3); });
  // `seconds`: what programs are said to have taken before.
  const auto run = [&](int threads, std::int64_t stride, double seconds = 0) {
    RunOptions options;
    options.threads = threads;
    const Array b(DType::f32, {64 * 64});
    Ran r = launch_text(text, {a, b}, {stride}, {64, 1, 1}, options);
    if (seconds == 0) return r;
    r.launch.storages[1].data = b;
    r.launch.program_seconds = seconds;
    options.device = load_device("h100");
    r.result = run_launch(r.launch, options);
    return r;
  };
  const Ran one = run(1, 64);
  REQUIRE(one.ok());
  for (const auto& [threads, seconds] : std::vector<std::pair<int, double>>{{2, 0}, {5, 1}}) {
    const Ran more = run(threads, 64, seconds);
    REQUIRE(more.ok());
    CHECK(more.result.program_seconds > 0);
    for (int i = 0; i < 64 * 64; ++i) REQUIRE(more.out(1).bits(i) == one.out(1).bits(i));
    REQUIRE(more.result.run.flops == one.result.run.flops);
    for (std::size_t s = 0; s < 2; ++s) {
      const RefTotals& x = one.result.run.ledger().refs()[s];
      const RefTotals& y = more.result.run.ledger().refs()[s];
      for (const auto count : Ledger::kCounts) REQUIRE(x.*count == y.*count);
    }
    // Rows of 64 of which each program but the last writes half of the next one's.
    CHECK(run(threads, 32, seconds).slug() == "race");
    CHECK(run(threads, 32, seconds).text() == run(1, 32).text());
  }
  // By hand: 64 programs read all of a, and write 64 elements each.
  const RefTotals& read = one.result.run.ledger().refs()[0];
  const RefTotals& written = one.result.run.ledger().refs()[1];
  CHECK(read.name == "a");
  CHECK(read.read_bytes == 64LL * 256 * 64 * 4);
  CHECK(read.write_bytes == 0);
  CHECK(written.write_bytes == 64LL * 64 * 4);
  REQUIRE(one.result.lines.size() == 2);
  CHECK(one.result.lines[0].requested.times == 64 * 256);
  CHECK(one.result.lines[0].line.line == 18);
  CHECK(one.result.run.flops == 64LL * 256 * 64 + 64 * 64);
}

TEST_CASE("threads take the programs in the order in which an earlier launch wrote", "[triton]") {
  const std::string text =
      kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %stride: i32",
                  sums_of_rows(R"(%y = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
%left = "arith.muli"(%x, %stride) : (i32, i32) -> i32
%right = "arith.muli"(%y, %c64) : (i32, i32) -> i32
%to = "arith.addi"(%left, %right) : (i32, i32) -> i32
)"));
  const Array a = array_of(DType::f32, {256 * 64}, [](auto i) { return 1 / (double(i) + 3); });
  const Array b(DType::f32, {6 * 3 * 64});
  RunOptions options;
  options.threads = 2;
  options.device = load_device("h100");
  // Programs along y write side by side.
  const auto run = [&] { return launch_text(text, {a, b}, {3 * 64}, {6, 3, 1}, options); };
  const Ran first = run();
  REQUIRE(first.ok());
  CHECK(first.result.axes == std::array<int, 3>{1, 0, 2});
  Ran next = run();
  next.launch.storages[1].data = b;
  next.launch.program_seconds = 1;
  next.launch.axes = first.result.axes;
  next.result = run_launch(next.launch, options);
  REQUIRE(next.ok());
  CHECK(next.result.axes == first.result.axes);
  for (int i = 0; i < 6 * 3 * 64; ++i) REQUIRE(next.out(1).bits(i) == first.out(1).bits(i));
  CHECK(next.out(1).bits(0) != next.out(1).bits(64 * 3));
}

}  // namespace tessera::triton
