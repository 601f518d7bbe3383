// Registers that hold the same, in whatever vector, as the TPU's compiler computes them: once.
#include <catch2/catch.hpp>
#include <map>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

/// Rows and times of a body that makes %y of %x, both 96 x 256: 12 x 2 registers.
std::map<std::string, std::int64_t> asked_of(const std::string& body) {
  const std::string shape = "96x256xf32";
  return asked(*plan_module(load_module(
      module_text("%a: " + vmem(shape) + ", %o: " + vmem(shape),
                  load_whole("%x", "%a", shape, 2) + body + store_whole("%y", "%o", shape, 2)),
      "the test's module")));
}

std::string splat(const std::string& name, const std::string& number, const std::string& type) {
  return name + " = \"S.arith.constant\"() {value = dense<" + number + "> : vector<96x256x" + type +
         ">} : () -> vector<96x256x" + type + ">\n";
}
std::string two(const std::string& name, const std::string& op, const std::string& of,
                const std::string& type, const std::string& more = "") {
  const std::string vector = "vector<96x256x" + type + ">";
  return name + " = \"S.arith." + op + "\"(" + of + ")" + more + " : (" + vector + ", " + vector +
         ") -> " + (op == "cmpi" ? "vector<96x256xi1>" : vector) + "\n";
}
const char* const kFast = " {fastmath = #arith.fastmath<none>}";
/// %m, where the number of the row or column is below.
std::string below(const std::string& bound, const char* dim) {
  return std::string("%n = \"S.tpu.iota\"() {dimensions = array<i32: ") + dim +
         ">} : () -> vector<96x256xi32>\n" + splat("%c", bound, "i32") +
         two("%m", "cmpi", "%n, %c", "i32", " {predicate = 2 : i64}");
}
std::string select(const std::string& name, const std::string& of) {
  return name + " = \"S.arith.select\"(" + of +
         ") : (vector<96x256xi1>, vector<96x256xf32>, vector<96x256xf32>) -> vector<96x256xf32>\n";
}
std::string roll(const std::string& name, const std::string& of, const std::string& by) {
  return "%by" + by + " = \"S.arith.constant\"() {value = " + by + " : i32} : () -> i32\n" + name +
         " = \"S.tpu.dynamic_rotate\"(" + of + ", %by" + by +
         ") {dimension = 0 : si32} : (vector<96x256xf32>, i32) -> vector<96x256xf32>\n";
}

}  // namespace

TEST_CASE("of registers that hold the same one is computed", "[pallas][units]") {
  // The right half is zeros, and what is rotated or multiplied of it the same in each row.
  const std::string left =
      splat("%z", "0.0", "f32") + below("128", "1") + select("%l", "%m, %x, %z");
  const auto rows =
      asked_of(left + roll("%r", "%l", "1") + two("%y", "mulf", "%l, %r", "f32", kFast));
  CHECK(rows.at("tpu.dynamic_rotate b32 sublanes") == 12 + 1);
  CHECK(rows.at("arith.mulf f32") == 12 + 1);
  // Rotated by whole registers nothing is computed.
  const auto whole =
      asked_of(left + roll("%r", "%l", "8") + two("%y", "mulf", "%l, %r", "f32", kFast));
  CHECK_FALSE(whole.contains("tpu.dynamic_rotate b32 sublanes"));
  CHECK(whole.at("arith.mulf f32") == 12 + 1);
}

TEST_CASE("a rotation asks for what it turns, of registers that nobody made before too",
          "[pallas][units]") {
  CHECK_FALSE(asked_of(roll("%y", "%x", "16")).contains("tpu.dynamic_rotate b32 sublanes"));
  const auto rows = asked_of(roll("%y", "%x", "3"));
  CHECK(rows.at("tpu.dynamic_rotate b32 sublanes") == 24);
  CHECK(rows.at("tpu.dynamic_rotate b32 sublanes down") == 24 * 5);  // 3 up
}

TEST_CASE("a mask of what falls is known where it is one of what rises", "[pallas][units]") {
  // 95 - row >= 5, or row + 0 >= 5: of the rows of registers one is mixed, the others are x.
  const std::string factor = GENERATE("-1", "1");
  const auto rows = asked_of(
      "%n = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> vector<96x256xi32>\n" +
      splat("%f", factor, "i32") + splat("%e", factor == "1" ? "0" : "95", "i32") +
      splat("%c", "5", "i32") + splat("%z", "0.0", "f32") + two("%k", "muli", "%n, %f", "i32") +
      two("%b", "addi", "%k, %e", "i32") +
      two("%m", "cmpi", "%b, %c", "i32", " {predicate = 5 : i64}") + select("%y", "%m, %x, %z"));
  CHECK(rows.at("arith.cmpi i32") == 1);
  CHECK(rows.at("arith.select f32") == 2);
}

}  // namespace tessera::pallas
