// What the TPU's compiler does not compute since only ops that it knows read it.
#include <catch2/catch.hpp>
#include <map>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

/// Rows and times of a body that makes %y of %x, both 128 x 128.
std::map<std::string, std::int64_t> rows_asked_by(const std::string& body) {
  const std::string shape = "128x128xf32";
  return asked(*plan_module(load_module(
      module_text("%a: " + vmem(shape) + ", %b: " + vmem("128x128xi32") + ", %o: " + vmem(shape),
                  load_whole("%x", "%a", shape, 2) + load_whole("%bound", "%b", "128x128xi32", 2) +
                      body + store_whole("%y", "%o", shape, 2)),
      "the test's module")));
}

std::string vector_of(const std::string& type) { return "vector<128x128x" + type + ">"; }
std::string constant(const std::string& name, const std::string& number) {
  return name + " = \"S.arith.constant\"() {value = dense<" + number + "> : " + vector_of("i32") +
         "} : () -> " + vector_of("i32") + "\n";
}
std::string compare(const std::string& name, const std::string& of, int predicate) {
  return name + " = \"S.arith.cmpi\"(" + of + ") {predicate = " + std::to_string(predicate) +
         " : i64} : (" + vector_of("i32") + ", " + vector_of("i32") + ") -> " + vector_of("i1") +
         "\n";
}
std::string integers(const std::string& name, const std::string& op, const std::string& of) {
  return name + " = \"S.arith." + op + "\"(" + of + ") : (" + vector_of("i32") + ", " +
         vector_of("i32") + ") -> " + vector_of("i32") + "\n";
}

}  // namespace

TEST_CASE("what is read by what is known alone is not computed", "[pallas][units]") {
  // floor_divide(n, d) as JAX writes it: n / d less one where the signs are not the same and
  // something is left, of which by 1 nothing is.
  const std::string divisor = GENERATE("1", "3");
  const auto rows = rows_asked_by(
      "%n = \"S.tpu.iota\"() {dimensions = array<i32: 0>} : () -> " + vector_of("i32") + "\n" +
      constant("%zero", "0") + constant("%one", "1") + constant("%d", divisor) +
      integers("%q", "divsi", "%n, %d") + compare("%above", "%n, %zero", 4) +
      "%sign = \"S.arith.extui\"(%above) : (" + vector_of("i1") + ") -> " + vector_of("i32") +
      "\n" + compare("%signs", "%sign, %one", 1) + integers("%rest", "remsi", "%n, %d") +
      compare("%some", "%rest, %zero", 1) + "%both = \"S.arith.andi\"(%signs, %some) : (" +
      vector_of("i1") + ", " + vector_of("i1") + ") -> " + vector_of("i1") + "\n" +
      integers("%less", "subi", "%q, %one") + "%row = \"S.arith.select\"(%both, %less, %q) : (" +
      vector_of("i1") + ", " + vector_of("i32") + ", " + vector_of("i32") + ") -> " +
      vector_of("i32") + "\n" + compare("%m", "%row, %bound", 5) +
      "%x2 = \"S.arith.addf\"(%x, %x) {fastmath = #arith.fastmath<none>} : (" + vector_of("f32") +
      ", " + vector_of("f32") + ") -> " + vector_of("f32") +
      "\n%y = \"S.arith.select\"(%m, %x, %x2) : (" + vector_of("i1") + ", " + vector_of("f32") +
      ", " + vector_of("f32") + ") -> " + vector_of("f32") + "\n");
  if (divisor == "3") {
    CHECK(rows.contains("arith.extui bool i32"));
    CHECK(rows.at("arith.cmpi i32") > 2 * 16);
    return;
  }
  CHECK_FALSE(rows.contains("arith.extui bool i32"));
  CHECK_FALSE(rows.contains("arith.subi i32"));
  CHECK(rows.at("arith.cmpi i32") == 16);  // with %bound alone
}

TEST_CASE("a select between two of the same value is that value", "[pallas][units]") {
  // fma(x, f, 0) as it is made of integers: whether its exact steps hold is asked, but either way
  // it is the product.
  const std::string other = GENERATE("%x", "%x2");
  const std::string floats = " {fastmath = #arith.fastmath<none>} : (" + vector_of("f32") + ", " +
                             vector_of("f32") + ") -> " + vector_of("f32") + "\n";
  const auto rows =
      rows_asked_by(constant("%three", "3") + integers("%k", "muli", "%bound, %three") +
                    compare("%m", "%k, %three", 2) + "%x2 = \"S.arith.addf\"(%x, %x)" + floats +
                    "%s = \"S.arith.select\"(%m, " + other + ", %x2) : (" + vector_of("i1") + ", " +
                    vector_of("f32") + ", " + vector_of("f32") + ") -> " + vector_of("f32") + "\n" +
                    "%y = \"S.arith.addf\"(%s, %x)" + floats);
  const bool same = other == "%x2";
  CHECK(rows.at("arith.addf f32") == 32);
  CHECK(rows.contains("arith.select f32") == !same);
  CHECK(rows.contains("arith.cmpi i32") == !same);
  CHECK(rows.contains("arith.muli i32 splat") == !same);
}

}  // namespace tessera::pallas
