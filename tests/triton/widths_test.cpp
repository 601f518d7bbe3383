// How many elements a thread accesses at once, by what is known of a kernel's arguments.
#include <catch2/catch.hpp>
#include <regex>

#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

/// A program loads 1,024 elements of a row of `%n`, those before `%m`, and stores them. `known`:
/// arguments that are multiples of 16, of %x, %o, %n, %m.
std::vector<int> widths(const std::string& type, const std::string& known, bool masked,
                        int Site::*of = &Site::width) {
  std::string attributes;
  for (const char argument : std::string("xonm")) {
    attributes += attributes.empty() ? "" : ", ";
    attributes += known.find(argument) != std::string::npos ? "{tt.divisibility = 16 : i32}" : "{}";
  }
  const std::string ptr = "!tt.ptr<" + type + ">";
  const std::string ptrs = tensor("1024", ptr);
  const std::string segments = masked ? "1, 1, 0" : "1, 0, 0";
  std::string text =
      "\"builtin.module\"() ({\n\"tt.func\"() <{arg_attrs = [" + attributes +
      "], function_type = (" + ptr + ", " + ptr +
      ", i32, i32) -> (), sym_name = \"kernel\", "
      "sym_visibility = \"public\"}> ({\n^bb0(%x: " +
      ptr + ", %o: " + ptr +
      ", %n: i32, %m: i32):\n"
      "%id = \"tt.get_program_id\"() <{axis = 0 : i32}> : () -> i32\n"
      "%at = \"arith.muli\"(%id, %n) : (i32, i32) -> i32\n"
      "%r = \"tt.make_range\"() <{start = 0 : i32, end = 1024 : i32}> : () -> tensor<1024xi32>\n"
      "%ms = \"tt.splat\"(%m) : (i32) -> tensor<1024xi32>\n"
      "%mask = \"arith.cmpi\"(%r, %ms) <{predicate = 2 : i64}> : (tensor<1024xi32>, "
      "tensor<1024xi32>) -> tensor<1024xi1>\n";
  for (const std::string name : {"%x", "%o"}) {
    text += name + "q = \"tt.addptr\"(" + name + ", %at) : (" + ptr + ", i32) -> " + ptr + "\n" +
            name + "b = \"tt.splat\"(" + name + "q) : (" + ptr + ") -> " + ptrs + "\n" + name +
            "p = \"tt.addptr\"(" + name + "b, %r) : (" + ptrs + ", tensor<1024xi32>) -> " + ptrs +
            "\n";
  }
  const std::string value = tensor("1024", type);
  text += "%v = \"tt.load\"(%xp" + std::string(masked ? ", %mask" : "") +
          ") <{operandSegmentSizes = array<i32: " + segments + ">}> : (" + ptrs +
          (masked ? ", tensor<1024xi1>" : "") + ") -> " + value + "\n\"tt.store\"(%op, %v" +
          (masked ? ", %mask" : "") + ") : (" + ptrs + ", " + value +
          (masked ? ", tensor<1024xi1>" : "") +
          ") -> ()\n\"tt.return\"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n";
  std::vector<int> all;
  const auto kernel = plan_kernel(load_module(text, "the test's module"));
  for (const Site& s : kernel->sites) all.push_back(s.*of);
  return all;
}

}  // namespace

TEST_CASE("16 bytes at once, where rows are known to begin at multiples of them") {
  CHECK(widths("f32", "xonm", true) == std::vector<int>{4, 4});
  CHECK(widths("bf16", "xonm", true) == std::vector<int>{8, 8});
  CHECK(widths("f32", "xon", false) == std::vector<int>{4, 4});
  CHECK(widths("bf16", "on", false) == std::vector<int>{1, 8});
}

TEST_CASE("rows of any length, and masks that end anywhere, are accessed one by one") {
  CHECK(widths("f32", "xom", true) == std::vector<int>{1, 1});
  CHECK(widths("bf16", "xon", true) == std::vector<int>{1, 1});
  // A layout does not know of masks: where rows begin decides what a thread has together.
  CHECK(widths("bf16", "xon", true, &Site::run) == std::vector<int>{8, 8});
  CHECK(widths("bf16", "xom", true, &Site::run) == std::vector<int>{1, 1});
}

TEST_CASE("an access has the stages of the tl.range that it is directly in") {
  const std::string access = R"(
  %v@ = "tt.load"(%p) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<64x!tt.ptr<f32>>) -> tensor<64xf32>
  "tt.store"(%p, %v@) : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> ())";
  const auto numbered = [&](const std::string& n) {
    return std::regex_replace(access, std::regex("@"), n);
  };
  const std::string text = kernel_text("%a: !tt.ptr<f32>, %n: i32", R"(
%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%r = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
%as = "tt.splat"(%a) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>>
%p = "tt.addptr"(%as, %r) : (tensor<64x!tt.ptr<f32>>, tensor<64xi32>) -> tensor<64x!tt.ptr<f32>>
"scf.for"(%zero, %n, %one) ({
^bb0(%i: i32):)" + numbered("1") + R"(
  "scf.for"(%zero, %n, %one) ({
  ^bb1(%j: i32):)" + numbered("2") + R"(
    "scf.yield"() : () -> ()
  }) : (i32, i32, i32) -> ()
  "scf.yield"() : () -> ()
}) {tt.num_stages = 3 : i32} : (i32, i32, i32) -> ())");
  const auto kernel = plan_kernel(load_module(text, "the test's module"));
  std::vector<int> stages;
  for (const Site& s : kernel->sites) stages.push_back(s.stages);
  CHECK(stages == std::vector<int>{3, 3, 1, 1});
}

}  // namespace tessera::triton
