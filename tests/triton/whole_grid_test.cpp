// Programs that run together, beside the same kernels planned so that each runs by itself: the same
// bytes, traffic and words.
#include <catch2/catch.hpp>

#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

constexpr std::int64_t kBlock = 64;

/// o[i] = x[i] + y[i] for i < n, a block of 64 a program; `offset` is added to where it is stored,
/// `spread` is the distance of programs in blocks; `after`: ops behind the store.
std::string add_text(const std::string& offset = "0", const std::string& spread = "64",
                     bool masked = true, const std::string& out = "%o",
                     const std::string& after = "") {
  const std::string mask = masked ? ", %m" : "";
  const std::string mask_type = masked ? ", tensor<64xi1>" : "";
  const std::string sizes = masked ? "1, 1, 0" : "1, 0, 0";
  const auto at = [](const std::string& name, const std::string& of, const std::string& index) {
    return name + "b = \"tt.splat\"(" + of + ") : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>>\n" +
           name + "p = \"tt.addptr\"(" + name + "b, " + index +
           ") : (tensor<64x!tt.ptr<f32>>, tensor<64xi32>) -> " + "tensor<64x!tt.ptr<f32>>\n";
  };
  const auto load = [&](const std::string& name) {
    return name + "v = \"tt.load\"(" + name + "p" + mask +
           ") <{operandSegmentSizes = array<i32: " + sizes + ">}> : (tensor<64x!tt.ptr<f32>>" +
           mask_type + ") -> tensor<64xf32>\n";
  };
  return kernel_text(
      "%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32",
      "%id = \"tt.get_program_id\"() <{axis = 0 : i32}> : () -> i32\n"
      "%block = \"arith.constant\"() <{value = " +
          spread +
          " : i32}> : () -> i32\n"
          "%first = \"arith.muli\"(%id, %block) : (i32, i32) -> i32\n"
          "%range = \"tt.make_range\"() <{start = 0 : i32, end = 64 : i32}> : () -> "
          "tensor<64xi32>\n"
          "%firsts = \"tt.splat\"(%first) : (i32) -> tensor<64xi32>\n"
          "%i = \"arith.addi\"(%firsts, %range) : (tensor<64xi32>, tensor<64xi32>) -> "
          "tensor<64xi32>\n"
          "%ns = \"tt.splat\"(%n) : (i32) -> tensor<64xi32>\n"
          "%m = \"arith.cmpi\"(%i, %ns) <{predicate = 2 : i64}> : (tensor<64xi32>, tensor<64xi32>) "
          "-> "
          "tensor<64xi1>\n"
          "%by = \"arith.constant\"() <{value = " +
          offset +
          " : i32}> : () -> i32\n"
          "%bys = \"tt.splat\"(%by) : (i32) -> tensor<64xi32>\n"
          "%k = \"arith.addi\"(%i, %bys) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>\n" +
          at("%x", "%x", "%i") + at("%y", "%y", "%i") + at("%o", out, "%k") + load("%x") +
          load("%y") +
          "%s = \"arith.addf\"(%xv, %yv) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>\n"
          "\"tt.store\"(%op, %s" +
          mask + ") : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>" + mask_type + ") -> ()\n" + after);
}

Ran run(const std::string& text, std::int64_t elements, std::int64_t n, std::int64_t programs,
        bool together, int threads = 1, bool undefined = false) {
  RunOptions options;
  options.threads = threads;
  std::vector<Array> arrays;
  for (int k = 0; k < 3; ++k) {
    arrays.push_back(array_of(DType::f32, {elements}, [&](std::int64_t i) {
      return static_cast<double>(i % 1000) + k * 0.25;
    }));
  }
  return launch_text(text, std::move(arrays), {n}, {programs, 1, 1}, options,
                     {false, false, undefined}, together);
}

void check_same(const Ran& a, const Ran& b) {
  CHECK(a.text() == b.text());
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(std::memcmp(a.out(s).bytes(), b.out(s).bytes(),
                      static_cast<std::size_t>(a.out(s).size_bytes())) == 0);
  }
  REQUIRE(a.result.lines.size() == b.result.lines.size());
  for (std::size_t i = 0; i < a.result.lines.size(); ++i) {
    CHECK(a.result.lines[i].requested.times == b.result.lines[i].requested.times);
    CHECK(a.result.lines[i].requested.read_bytes == b.result.lines[i].requested.read_bytes);
    CHECK(a.result.lines[i].requested.written_bytes == b.result.lines[i].requested.written_bytes);
  }
  CHECK(a.result.run.flops == b.result.run.flops);
}

}  // namespace

TEST_CASE("programs that run together do what each does alone", "[triton][together]") {
  for (const std::int64_t programs : {4, 5, 33, 700}) {
    for (const std::int64_t less : {0, 1, 63, 64, 200}) {
      const std::int64_t n = programs * kBlock - less;
      CAPTURE(programs, less);
      const Ran alone = run(add_text(), n, n, programs, false);
      REQUIRE(alone.ok());
      CHECK(alone.kernel->form == nullptr);
      for (const int threads : {1, 2, 4}) {
        const Ran together = run(add_text(), n, n, programs, true, threads);
        REQUIRE(together.kernel->form != nullptr);
        check_same(together, alone);
      }
    }
  }
}

TEST_CASE("results that no cache keeps are the same, wherever their lines begin",
          "[triton][together]") {
  constexpr std::int64_t kPrograms = 8200;  // of more than 2 MiB
  constexpr std::int64_t kFrom = 3;
  constexpr std::int64_t kElements = kPrograms * kBlock;
  const auto ran = [&](bool together, int threads) {
    return run(add_text(std::to_string(kFrom)), kElements + kFrom, kElements, kPrograms, together,
               threads);
  };
  const Ran alone = ran(false, 1);
  REQUIRE(alone.ok());
  for (const int threads : {1, 3}) {
    const Ran together = ran(true, threads);
    REQUIRE(together.kernel->form != nullptr);
    check_same(together, alone);
  }
}

TEST_CASE("where its result was undefined it is defined by programs that run together",
          "[triton][together]") {
  check_same(run(add_text(), 1000, 1000, 16, true, 1, true),
             run(add_text(), 1000, 1000, 16, false, 1, true));
}

TEST_CASE("what does more than to give results that nobody wants is no program to run together",
          "[triton][together]") {
  const std::string store =
      "\"tt.store\"(%yp, %xv) : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> ()\n";
  const std::string bounds =
      "%from = \"arith.constant\"() <{value = 0 : i32}> : () -> i32\n"
      "%step = \"arith.constant\"() <{value = 1 : i32}> : () -> i32\n";
  const std::string loop = bounds +
                           "%last = \"scf.for\"(%from, %step, %step, %xv) ({\n"
                           "^bb0(%c: i32, %carried: tensor<64xf32>):\n" +
                           store +
                           "\"scf.yield\"(%carried) : (tensor<64xf32>) -> ()\n"
                           "}) : (i32, i32, i32, tensor<64xf32>) -> tensor<64xf32>\n";
  const std::string branch =
      "%some = \"arith.cmpi\"(%n, %id) <{predicate = 4 : i64}> : (i32, i32) -> i1\n"
      "\"scf.if\"(%some) ({\n" +
      store +
      "\"scf.yield\"() : () -> ()\n"
      "}, {\n}) : (i1) -> ()\n";
  const std::string atomic =
      "%was = \"tt.atomic_rmw\"(%yp, %xv, %m) <{atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = 1 "
      ": i32}> : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>, tensor<64xi1>) -> tensor<64xf32>\n";
  const std::string asserted =
      "\"tt.assert\"(%m) <{message = \"all of them\"}> : (tensor<64xi1>) -> ()\n";
  const std::string pure =
      "%unused = \"arith.mulf\"(%xv, %yv) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>\n";
  constexpr std::int64_t kPrograms = 8;
  constexpr std::int64_t kElements = kPrograms * kBlock;
  for (const std::string& after : {loop, branch, atomic, asserted, pure}) {
    CAPTURE(after);
    const std::string text = add_text("0", "64", true, "%o", after);
    const std::int64_t n = kElements - (after == asserted ? 1 : 0);
    const Ran together = run(text, kElements, n, kPrograms, true);
    const Ran alone = run(text, kElements, n, kPrograms, false);
    CHECK((together.kernel->form != nullptr) == (after == pure));
    CHECK(together.ok() == (after != asserted));
    check_same(together, alone);
    if (after == loop || after == branch) CHECK(together.out(1).at(7) == 7);
  }
}

TEST_CASE("what is wrong with programs that could run together is found", "[triton][together]") {
  constexpr std::int64_t kPrograms = 40;
  constexpr std::int64_t kElements = kPrograms * kBlock;
  struct Wrong {
    const char* what;
    std::string text;
    std::int64_t n;
    std::string slug;
  };
  const std::vector<Wrong> all = {
      {"a mask that lets one element too many in", add_text(), kElements, "oob-index"},
      {"blocks that meet", add_text("0", "63", true, "%x"), kElements - 64, "race"},
      {"the good twin: they write the same there", add_text("0", "63"), kElements - 64, ""},
      {"a result that the next program reads", add_text("64", "64", true, "%x"), kElements - 65,
       "race"},
      {"the good twin: in place", add_text("0", "64", true, "%x"), kElements - 1, ""},
      {"the good twin: apart", add_text("0", "65"), kElements - 1, ""},
      {"offsets that wrap", add_text("0", "99999999"), kElements - 1, "oob-index"},
  };
  for (const Wrong& w : all) {
    CAPTURE(w.what);
    const std::int64_t elements = w.slug.empty() ? kElements + kPrograms : kElements - 1;
    const Ran together = run(w.text, elements, w.n, kPrograms, true, 2);
    const Ran alone = run(w.text, elements, w.n, kPrograms, false, 1);
    REQUIRE(together.kernel->form != nullptr);
    CHECK(together.slug() == w.slug);
    check_same(together, alone);
  }
}

}  // namespace tessera::triton
