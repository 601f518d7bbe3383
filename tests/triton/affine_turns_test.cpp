// Turns of a loop as one step (triton/affine_turns.hpp), beside the same loop turn by turn; random
// loops are in regular_test.cpp.
#include <catch2/catch.hpp>

#include "program/print.hpp"
#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

constexpr std::int64_t kRows = 8;
constexpr std::int64_t kDepth = 4;
constexpr std::int64_t kCols = 16;

/// c = 0.5 + a b: a of kRows x %k, b of %k x kCols; the last turn's mask leaves out what is behind
/// %k. `predicate`: of the mask.
std::string product_text(int predicate = 2) {
  const auto range = [](const std::string& name, std::int64_t n) {
    return name + " = \"tt.make_range\"() <{start = 0 : i32, end = " + std::to_string(n) +
           " : i32}> : () -> " + tensor(std::to_string(n), "i32") + "\n";
  };
  const auto wider = [](const std::string& to, const std::string& from, const std::string& n,
                        int axis) {
    const std::string shape = axis == 0 ? "1x" + n : n + "x1";
    return to + " = \"tt.expand_dims\"(" + from + ") <{axis = " + std::to_string(axis) +
           " : i32}> : (" + tensor(n, "i32") + ") -> " + tensor(shape, "i32") + "\n";
  };
  const auto op = [](const std::string& to, const std::string& name, const std::string& operands,
                     const std::string& from, const std::string& type,
                     const std::string& attributes = "") {
    return to + " = \"" + name + "\"(" + operands + ") <{" + attributes + "}> : (" + from +
           ") -> " + type + "\n";
  };
  const auto splat = [&](const std::string& to, const std::string& of, const std::string& shape,
                         const std::string& type) {
    return op(to, "tt.splat", of, type, tensor(shape, type));
  };
  const std::string pointer = "!tt.ptr<f32>";
  const auto tile = [&](const std::string& name, const std::string& base, const std::string& rows,
                        const std::string& row_step, const std::string& columns,
                        const std::string& along, const std::string& n, const std::string& m) {
    const std::string shape = n + "x" + m;
    const auto two = [](const std::string& t) { return t + ", " + t; };
    std::string s = wider(name + "_r", rows, n, 1) + wider(name + "_c", columns, m, 0);
    s += splat(name + "_by", row_step, n + "x1", "i32");
    s += op(name + "_down", "arith.muli", name + "_r, " + name + "_by",
            two(tensor(n + "x1", "i32")), tensor(n + "x1", "i32"));
    for (const auto& [part, from] : {std::pair{"_down", n + "x1"}, {"_c", "1x" + m}})
      s += op(name + part + "_all", "tt.broadcast", name + part, tensor(from, "i32"),
              tensor(shape, "i32"));
    s += op(name + "_o", "arith.addi", name + "_down_all, " + name + "_c_all",
            two(tensor(shape, "i32")), tensor(shape, "i32"));
    s += splat(name + "_b", base, shape, pointer);
    s += op(name + "_at", "tt.addptr", name + "_b, " + name + "_o",
            tensor(shape, pointer) + ", " + tensor(shape, "i32"), tensor(shape, pointer));
    if (along.empty()) return s;
    s += splat(name + "_k", "%k", along, "i32");
    s += op(name + "_in", "arith.cmpi",
            (along == n + "x1" ? name + "_r" : name + "_c") + ", " + name + "_k",
            two(tensor(along, "i32")), tensor(along, "i1"),
            "predicate = " + std::to_string(predicate) + " : i64");
    s += op(name + "_m", "tt.broadcast", name + "_in", tensor(along, "i1"), tensor(shape, "i1"));
    s += op(name + "_z", "arith.constant", "", "", tensor(shape, "f32"),
            "value = dense<0.0> : " + tensor(shape, "f32"));
    s += op(name, "tt.load", name + "_at, " + name + "_m, " + name + "_z",
            tensor(shape, pointer) + ", " + tensor(shape, "i1") + ", " + tensor(shape, "f32"),
            tensor(shape, "f32"), "operandSegmentSizes = array<i32: 1, 1, 1>");
    return s;
  };
  const std::string m = std::to_string(kRows);
  const std::string k = std::to_string(kDepth);
  const std::string n = std::to_string(kCols);
  const std::string sum = tensor(m + "x" + n, "f32");
  std::string body = range("%rows", kRows) + range("%deep", kDepth) + range("%cols", kCols);
  const auto number = [&](const std::string& name, std::int64_t value) {
    return op(name, "arith.constant", "", "", "i32", "value = " + std::to_string(value) + " : i32");
  };
  body += number("%zero", 0) + number("%step", kDepth) + number("%width", kCols);
  body += op("%start", "arith.constant", "", "", sum, "value = dense<0.5> : " + sum);
  body += "%sum = \"scf.for\"(%zero, %k, %step, %start) ({\n^bb0(%i: i32, %acc: " + sum + "):\n";
  body += splat("%from", "%i", k, "i32");
  body += op("%at", "arith.addi", "%from, %deep", tensor(k, "i32") + ", " + tensor(k, "i32"),
             tensor(k, "i32"));
  body += tile("%x", "%a", "%rows", "%k", "%at", "1x" + k, m, k);
  body += tile("%y", "%b", "%at", "%width", "%cols", k + "x1", k, n);
  body += op("%made", "tt.dot", "%x, %y, %acc",
             tensor(m + "x" + k, "f32") + ", " + tensor(k + "x" + n, "f32") + ", " + sum, sum,
             "inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32");
  body += "\"scf.yield\"(%made) : (" + sum + ") -> ()\n}) : (i32, i32, i32, " + sum + ") -> " +
          sum + "\n";
  body += tile("%o", "%c", "%rows", "%width", "%cols", "", m, n);
  body += "\"tt.store\"(%o_at, %sum) : (" + tensor(m + "x" + n, pointer) + ", " + sum + ") -> ()\n";
  return kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %k: i32", body);
}

std::vector<Array> operands(std::int64_t k) {
  std::vector<Array> all;
  for (const std::int64_t size : {kRows * k, k * kCols, kRows * kCols})
    all.push_back(array_of(DType::f32, {size}, [](auto e) { return double(e % 29) / 8; }));
  return all;
}

/// The same launch with what its programs ask for, and with bytes of b undefined.
LaunchResult again(Ran& r, Ranges undefined = {}) {
  r.launch.footprint = true;
  r.launch.storages[1].undefined_bytes = undefined.empty() ? nullptr : &undefined;
  return run_launch(r.launch, {});
}

bool at_once(const Ran& r) {
  return print(r.kernel->program).find("turns at once") != std::string::npos;
}

}  // namespace

TEST_CASE("turns at once are counted as turns one by one", "[triton][affine_turns]") {
  for (const std::int64_t k : {4, 8, 12, 64, 62, 61}) {
    CAPTURE(k);
    Ran fast = launch_text(product_text(), operands(k), {k});
    Ran slow = launch_text(product_text(), operands(k), {k}, {1, 1, 1}, {}, {}, false);
    REQUIRE(at_once(fast));
    REQUIRE(!at_once(slow));
    REQUIRE(fast.text().empty());
    CHECK(std::memcmp(fast.out(2).bytes(), slow.out(2).bytes(), kRows * kCols * 4) == 0);
    const LaunchResult a = again(fast);
    const LaunchResult b = again(slow);
    CHECK(a.run.flops == 2 * kRows * kCols * kDepth * ((k + kDepth - 1) / kDepth));
    CHECK(a.run.flops == b.run.flops);
    REQUIRE(a.lines.size() == b.lines.size());
    for (std::size_t i = 0; i < a.lines.size(); ++i) {
      CHECK(a.lines[i].requested.times == b.lines[i].requested.times);
      CHECK(a.lines[i].requested.read_bytes == b.lines[i].requested.read_bytes);
    }
    CHECK(a.tiles.begins == b.tiles.begins);
    REQUIRE(a.tiles.accesses.size() == b.tiles.accesses.size());
    for (std::size_t i = 0; i < a.tiles.accesses.size(); ++i)
      CHECK(a.tiles.accesses[i].tile == b.tiles.accesses[i].tile);
  }
}

TEST_CASE("what is undefined for one turn in the middle is found", "[triton][affine_turns]") {
  constexpr std::int64_t k = 64;
  Ran fast = launch_text(product_text(), operands(k), {k});
  Ran slow = launch_text(product_text(), operands(k), {k}, {1, 1, 1}, {}, {}, false);
  Ranges undefined;
  undefined.add(30 * kCols * 4, 30 * kCols * 4 + 4);
  const LaunchResult a = again(fast, undefined);
  const LaunchResult b = again(slow, undefined);
  REQUIRE(!a.run.ok());
  CHECK(a.run.diagnostics.at(0).slug == "uninit-read");
  CHECK(a.run.diagnostics.at(0).text() == b.run.diagnostics.at(0).text());
}

TEST_CASE("a turn between that reaches out of bounds is told as ever", "[triton][affine_turns]") {
  constexpr std::int64_t k = 64;
  std::vector<Array> few = operands(k);
  few[1] = array_of(DType::f32, {40 * kCols}, [](auto) { return 1.0; });
  const Ran fast = launch_text(product_text(), few, {k});
  const Ran slow = launch_text(product_text(), few, {k}, {1, 1, 1}, {}, {}, false);
  CHECK(fast.slug() == "oob-index");
  CHECK(fast.text() == slow.text());
}

TEST_CASE("a mask that holds at both ends holds between, but for !=", "[triton][affine_turns]") {
  constexpr int kNotEqual = 1;
  CHECK(at_once(launch_text(product_text(), operands(16), {16})));
  CHECK(!at_once(launch_text(product_text(kNotEqual), operands(16), {16})));
}

}  // namespace tessera::triton
