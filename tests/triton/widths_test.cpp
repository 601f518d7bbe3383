// How many elements a thread accesses at once, by what is known of a kernel's arguments.
#include <catch2/catch.hpp>

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

}  // namespace tessera::triton
