// What the TPU's compiler refuses, refused here: each bad module with its good twin. The verdicts
// are libtpu 0.0.42's (pallas/COMPILER.md).
#include <catch2/catch.hpp>
#include <filesystem>

#include "module_text.hpp"
#include "pallas/call_directory.hpp"

namespace tessera::pallas {
namespace {

/// The slug of what is refused before a run on the chip; "" if nothing is.
std::string refused(const std::string& text, const std::string& chip, bool jax_0_11 = false) {
  const auto program = plan_module(load_module(text, "the test's module"));
  for (const Refusal& r : program->refusals) {
    if (r.until_jax_0_11 && jax_0_11) continue;
    if (r.chips.empty() || r.chips.contains(chip)) return r.diagnostic.slug;
  }
  return "";
}

const char* const kEveryChip[] = {"v4", "v5e", "v5p", "v6e", "v7x"};

/// The chips that refuse it.
std::string refusing(const std::string& text, bool jax_0_11 = false) {
  std::string chips;
  for (const char* chip : kEveryChip) {
    if (!refused(text, chip, jax_0_11).empty())
      chips += (chips.empty() ? "" : " ") + std::string(chip);
  }
  return chips;
}
const char* const kAll = "v4 v5e v5p v6e v7x";

/// An op of two whole operands of one type.
std::string binary(const std::string& op, const std::string& attributes, const std::string& type,
                   const std::string& result) {
  return module_text("%a: " + vmem(type) + ", %b: " + vmem(type) + ", %o: " + vmem(result),
                     load_whole("%x", "%a", type, 2) + load_whole("%y", "%b", type, 2) +
                         "%r = \"S." + op + "\"(%x, %y) {" + attributes + "} : (vector<" + type +
                         ">, vector<" + type + ">) -> vector<" + result + ">\n" +
                         store_whole("%r", "%o", result, 2));
}

std::string compared(const std::string& predicate, const std::string& type) {
  return module_text(
      "%a: " + vmem(type) + ", %o: " + vmem(type),
      load_whole("%x", "%a", type, 2) + "%m = \"S.arith.cmpi\"(%x, %x) {predicate = " + predicate +
          " : i64} : (vector<" + type + ">, vector<" + type + ">) -> vector<" +
          type.substr(0, type.rfind('x') + 1) + "i1>\n" +
          "%r = \"S.arith.select\"(%m, %x, %x) : (vector<" + type.substr(0, type.rfind('x') + 1) +
          "i1>, vector<" + type + ">, vector<" + type + ">) -> vector<" + type + ">\n" +
          store_whole("%r", "%o", type, 2));
}

std::string product(const std::string& left, const std::string& right, const std::string& sum,
                    const std::string& precision = "") {
  return module_text(
      "%a: " + vmem("32x128x" + left) + ", %b: " + vmem("128x128x" + right) +
          ", %c: " + vmem("32x128x" + sum),
      load_whole("%x", "%a", "32x128x" + left, 2) + load_whole("%y", "%b", "128x128x" + right, 2) +
          load_whole("%z", "%c", "32x128x" + sum, 2) +
          "%r = \"S.tpu.matmul\"(%x, %y, %z) {dimension_numbers = #tpu.dot_dimension_numbers<[1], "
          "[0], [0], [1], [0, 0, 1, 1], [], []>" +
          precision + "} : (vector<32x128x" + left + ">, vector<128x128x" + right +
          ">, vector<32x128x" + sum + ">) -> vector<32x128x" + sum + ">\n" +
          store_whole("%r", "%c", "32x128x" + sum, 2));
}

std::string gather(const std::string& shape, const std::string& type, const std::string& index,
                   const std::string& dim) {
  const std::string t = shape + "x" + type;
  const std::string i = shape + "x" + index;
  return module_text("%a: " + vmem(t) + ", %b: " + vmem(i) + ", %o: " + vmem(t),
                     load_whole("%x", "%a", t, 2) + load_whole("%y", "%b", i, 2) +
                         "%r = \"S.tpu.dynamic_gather\"(%x, %y) {dimensions = array<i32: " + dim +
                         ">} : (vector<" + t + ">, vector<" + i + ">) -> vector<" + t + ">\n" +
                         store_whole("%r", "%o", t, 2));
}

std::string reshaped(const std::string& from, const std::string& to, int to_rank = 2) {
  return module_text("%a: " + vmem(from) + ", %o: " + vmem(to),
                     load_whole("%x", "%a", from, 2) +
                         "%r = \"S.vector.shape_cast\"(%x) : (vector<" + from + ">) -> vector<" +
                         to + ">\n" + store_whole("%r", "%o", to, to_rank));
}

/// Loads rows at `offset`, a scalar that the body makes of %n.
std::string loaded_at(const std::string& offset, const std::string& array,
                      const std::string& rows) {
  return module_text("%s: memref<1xi32, @smem>, %a: " + vmem(array) + ", %o: " + vmem(rows),
                     "%zero = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
                     "%n = \"S.memref.load\"(%s, %zero) : (memref<1xi32, @smem>, index) -> i32\n" +
                         offset +
                         "%i = \"S.arith.index_cast\"(%k) : (i32) -> index\n"
                         "%x = \"S.vector.load\"(%a, %i, %zero) : (" +
                         vmem(array) + ", index, index) -> vector<" + rows + ">\n" +
                         store_whole("%x", "%o", rows, 2));
}
const char* const kAnywhere = "%k = \"S.arith.addi\"(%n, %n) : (i32, i32) -> i32\n";
const char* const kEights =
    "%eight = \"S.arith.constant\"() {value = 8 : i32} : () -> i32\n"
    "%k = \"S.arith.muli\"(%n, %eight) : (i32, i32) -> i32\n";
const char* const kAssumed =
    "%k = \"S.tpu.assume_multiple\"(%n) {multiple = 32 : i32} : (i32) -> i32\n";

/// What constants fold to, as a pipeline's floor division of a program id in a grid of one step:
/// `dividend` // 2.
std::string folded(int dividend) {
  return "%d = \"S.arith.constant\"() {value = " + std::to_string(dividend) +
         " : i32} : () -> i32\n"
         "%two = \"S.arith.constant\"() {value = 2 : i32} : () -> i32\n"
         "%none = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
         "%rest = \"S.arith.remsi\"(%d, %two) : (i32, i32) -> i32\n"
         "%below = \"S.arith.cmpi\"(%rest, %none) {predicate = 2 : i64} : (i32, i32) -> i1\n"
         "%less = \"S.arith.extsi\"(%below) : (i1) -> i32\n"
         "%whole = \"S.arith.divsi\"(%d, %two) : (i32, i32) -> i32\n"
         "%floor = \"S.arith.addi\"(%whole, %less) : (i32, i32) -> i32\n"
         "%k = \"S.arith.select\"(%below, %floor, %whole) : (i1, i32, i32) -> i32\n";
}

/// Rows rotate by %k, which `by` makes of %n.
std::string rotated(const std::string& by, const std::string& type,
                    const std::string& how = "dimension = 0 : si32", int rank = 2) {
  return module_text("%s: memref<1xi32, @smem>, %a: " + vmem(type) + ", %o: " + vmem(type),
                     "%zero = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
                     "%n = \"S.memref.load\"(%s, %zero) : (memref<1xi32, @smem>, index) -> i32\n" +
                         by + load_whole("%x", "%a", type, rank) +
                         "%r = \"S.tpu.dynamic_rotate\"(%x, %k) {" + how + "} : (vector<" + type +
                         ">, i32) -> vector<" + type + ">\n" + store_whole("%r", "%o", type, rank));
}

/// A slice of an array in HBM, [%k, `column`] of size `part`; `by` makes %k of %n.
std::string sliced_by(const std::string& by, const std::string& column, const std::string& array,
                      const std::string& part) {
  return module_text(
      "%s: memref<1xi32, @smem>, %a: memref<" + array + ", @any>, %o: memref<" + part +
          ", @any>, %sem: memref<!tpu.dma_semaphore, @semaphore_mem>",
      "%zero = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
      "%n = \"S.memref.load\"(%s, %zero) : (memref<1xi32, @smem>, index) -> i32\n" +
          by + "%c = \"S.arith.constant\"() {value = " + column +
          " : i32} : () -> i32\n"
          "%part = \"S.tpu.memref_slice\"(%a, %k, %c) {operandSegmentSizes = array<i32: 1, 2, 0>} "
          ": (memref<" +
          array + ", @any>, i32, i32) -> memref<" + part +
          ", @any>\n"
          "\"S.tpu.enqueue_dma\"(%part, %o, %sem) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, "
          "0>, priority = 0 : i32} : (memref<" +
          part + ", @any>, memref<" + part +
          ", @any>, memref<!tpu.dma_semaphore, @semaphore_mem>) -> ()\n",
      "scratch_operands = 1 : i64");
}
std::string sliced(const std::string& row, const std::string& column, const std::string& array,
                   const std::string& part) {
  return sliced_by("%k = \"S.arith.constant\"() {value = " + row + " : i32} : () -> i32\n", column,
                   array, part);
}

/// The same of arrays of one dim in `space`; where not `copied`, an element of the part is read.
std::string part_of_line(const std::string& by, const std::string& array, const std::string& part,
                         const std::string& space = "any", bool copied = true) {
  const std::string source = "memref<" + array + ", @" + space + ">";
  const std::string taken = "memref<" + part + ", @" + space + ">";
  return module_text(
      "%s: memref<1xi32, @smem>, %a: " + source + ", %o: memref<" + part +
          ", @any>, %sem: memref<!tpu.dma_semaphore, @semaphore_mem>",
      "%zero = \"S.arith.constant\"() {value = 0 : index} : () -> index\n"
      "%n = \"S.memref.load\"(%s, %zero) : (memref<1xi32, @smem>, index) -> i32\n" +
          by +
          "%part = \"S.tpu.memref_slice\"(%a, %k) {operandSegmentSizes = array<i32: 1, 1, 0>} : (" +
          source + ", i32) -> " + taken + "\n" +
          (copied
               ? "\"S.tpu.enqueue_dma\"(%part, %o, %sem) {operandSegmentSizes = array<i32: 1, 0, "
                 "1, 1, 0, 0>, priority = 0 : i32} : (" +
                     taken + ", memref<" + part +
                     ", @any>, memref<!tpu.dma_semaphore, @semaphore_mem>) -> ()\n"
               : "%e = \"S.memref.load\"(%part, %zero) : (" + taken + ", index) -> i32\n" +
                     "\"S.memref.store\"(%e, %s, %zero) : (i32, memref<1xi32, @smem>, index) -> "
                     "()\n"),
      "scratch_operands = 1 : i64");
}
std::string from(std::int64_t element) {
  return "%k = \"S.arith.constant\"() {value = " + std::to_string(element) +
         " : i32} : () -> i32\n";
}
std::string from_some(std::int64_t multiple) {
  return "%k = \"S.tpu.assume_multiple\"(%n) {multiple = " + std::to_string(multiple) +
         " : i32} : (i32) -> i32\n";
}

TEST_CASE("an array of bytes whose rows fill tiles of 32 is cut at those", "[pallas][limits]") {
  const auto slug = [](std::int64_t rows, std::int64_t block, const std::string& type,
                       DType dtype) {
    const std::string part = std::to_string(block) + "x128x" + type;
    const std::string map =
        "\"S.func.func\"() ({\n^bb0(%i: i32):\n"
        "%z = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
        "\"S.func.return\"(%i, %z) : (i32, i32) -> ()\n}) "
        "{function_type = (i32) -> (i32, i32), sym_name = \"at\"} : () -> ()\n";
    const std::string window =
        "{transform_indices = @at, window_bounds = array<i64: " + std::to_string(block) + ", 128>}";
    const std::string text = module_text(
        "%i: i32, %a: " + vmem(part) + ", %o: " + vmem(part),
        load_whole("%x", "%a", part, 2) + store_whole("%x", "%o", part, 2),
        "iteration_bounds = array<i64: " + std::to_string(rows / block) +
            ">, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, window_params = [" + window +
            ", " + window + "]",
        map);
    const Array x = array_of(dtype, {rows, 128}, [](auto i) { return static_cast<double>(i % 7); });
    const RunResult result = run_text(text, {x}).result;
    return result.ok() ? "" : result.diagnostics[0].slug;
  };
  CHECK(slug(64, 16, "i8", DType::i8) == "illegal-block-shape");
  CHECK(slug(96, 48, "i8", DType::i8) == "illegal-block-shape");
  CHECK(slug(32, 8, "f8E4M3FN", DType::f8e4m3fn) == "illegal-block-shape");
  CHECK(slug(64, 32, "i8", DType::i8).empty());
  CHECK(slug(48, 16, "i8", DType::i8).empty());
  CHECK(slug(32, 8, "i16", DType::i16).empty());
}

TEST_CASE("arithmetic on bytes is refused, on words and halves it is not", "[pallas][limits]") {
  CHECK(refusing(binary("arith.addi", "", "32x128xi8", "32x128xi8")) == kAll);
  CHECK(refusing(binary("arith.addi", "", "32x128xi16", "32x128xi16")).empty());
  CHECK(refusing(binary("arith.remsi", "", "32x128xi16", "32x128xi16")) == kAll);
  CHECK(refusing(binary("arith.remsi", "", "32x128xi32", "32x128xi32")).empty());
}

TEST_CASE("atan2 is of f32 alone", "[pallas][limits]") {
  CHECK(refusing(binary("math.atan2", "", "32x128xbf16", "32x128xbf16")) == kAll);
  CHECK(refusing(binary("math.atan2", "", "32x128xf32", "32x128xf32")).empty());
}

TEST_CASE("bytes are compared for equality alone, halves as signed numbers alone",
          "[pallas][limits]") {
  const char* const kEqual = "0";
  const char* const kSignedLess = "2";
  const char* const kUnsignedLess = "6";
  CHECK(refusing(compared(kSignedLess, "32x128xi8")) == kAll);
  CHECK(refusing(compared(kEqual, "32x128xi8")).empty());
  CHECK(refusing(compared(kUnsignedLess, "32x128xi16")) == kAll);
  CHECK(refusing(compared(kSignedLess, "32x128xi16")).empty());
}

TEST_CASE("a TPU v4 casts no integers of two bits", "[pallas][limits]") {
  const auto cast = [](const std::string& op, const std::string& from, const std::string& to) {
    return refusing(module_text("%a: " + vmem("64x128x" + from) + ", %o: " + vmem("64x128x" + to),
                                load_whole("%x", "%a", "64x128x" + from, 2) + "%r = \"S." + op +
                                    "\"(%x) : (vector<64x128x" + from + ">) -> vector<64x128x" +
                                    to + ">\n" + store_whole("%r", "%o", "64x128x" + to, 2)));
  };
  CHECK(cast("arith.extsi", "i2", "i32") == "v4");
  CHECK(cast("arith.trunci", "i32", "i2") == "v4");
  CHECK(cast("arith.sitofp", "i2", "f32") == "v4");
  CHECK(cast("arith.extsi", "i4", "i32").empty());
  CHECK(cast("arith.trunci", "i32", "i4").empty());
  CHECK(refusing(module_text("%a: " + vmem("64x128xi2") + ", %o: " + vmem("64x128xi2"),
                             load_whole("%x", "%a", "64x128xi2", 2) +
                                 store_whole("%x", "%o", "64x128xi2", 2)))
            .empty());
}

TEST_CASE("no TensorCore loads f16", "[pallas][limits]") {
  CHECK(refusing(binary("arith.addf", "", "32x128xf16", "32x128xf16")) == kAll);
  CHECK(refusing(binary("arith.addf", "", "32x128xbf16", "32x128xbf16")).empty());
}

TEST_CASE("the types of a product are those of the generation", "[pallas][limits]") {
  CHECK(refusing(product("i8", "i8", "i32")) == "v4");
  CHECK(refusing(product("f32", "f8E4M3FN", "f32")) == "v4");
  CHECK(refusing(product("bf16", "i8", "f32")).empty());
  for (const char* wide : {"i16", "i32"}) {
    CHECK(refusing(product("bf16", wide, "f32")).empty());
    CHECK(refusing(product(wide, "f32", "f32")).empty());
  }
  CHECK(refusing(product("i8", "i4", "i32")) == "v4 v5e v5p v6e");
  CHECK_THROWS_WITH(refusing(product("i16", "i16", "i32")),  // tessera cannot plan it either
                    "tpu.matmul: Bad lhs/rhs type: 'i16' by 'i16'");
  const char* const kExact = ", precision = #tpu.contract_precision<fp32>";
  CHECK(refusing(product("bf16", "bf16", "f32", kExact)) == kAll);
  CHECK(refusing(product("f32", "f32", "f32", kExact)).empty());
}

TEST_CASE("rows of bytes do not rotate, nor packed rows by what the run decides",
          "[pallas][limits]") {
  const char* const kOne = "%k = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n";
  CHECK(refusing(rotated(kOne, "32x128xi8")) == kAll);
  CHECK(refusing(rotated(kOne, "32x128xbf16")).empty());
  CHECK(refusing(rotated(kAnywhere, "32x128xbf16")) == kAll);
  CHECK(refusing(rotated(kAnywhere, "32x128xf32")).empty());
  CHECK(refusing(rotated(kAnywhere, "12x128xf32")) == kAll);
}

// Asked of libtpu 0.0.46, JAX 0.11's.
TEST_CASE("JAX 0.11's compiler rotates what the one before it does not", "[pallas][limits]") {
  const auto refused = [](const std::string& type, const std::string& how) {
    return refusing(rotated(kAnywhere, type, how), true);
  };
  const std::string rows = "dimension = 0 : si32";
  CHECK(refused("32x128xbf16", rows).empty());
  CHECK(refused("12x128xf32", rows).empty());
  const std::string planes = "dimension = 2 : si32, stride = 1 : si32, stride_dimension = 0 : si32";
  const std::string strided = rotated(kAnywhere, "2x8x128xf32", planes, 3);
  CHECK(refusing(strided) == kAll);
  CHECK(refusing(strided, true) == "v4");
}

TEST_CASE("lanes rotate by a stride within a register", "[pallas][limits]") {
  const auto refused = [](int by, int stride, const std::string& type) {
    return refusing(rotated(
        "%k = \"S.arith.constant\"() {value = " + std::to_string(by) + " : i32} : () -> i32\n",
        type,
        "dimension = 1 : si32, stride = " + std::to_string(stride) +
            " : si32, stride_dimension = 0 : si32"));
  };
  // Each asked of libtpu 0.0.42.
  CHECK(refused(121, 1, "8x128xf32") == "v4");
  CHECK(refused(122, 1, "8x128xf32") == kAll);
  CHECK(refused(250, 1, "8x256xf32") == kAll);
  CHECK(refused(100, 20, "8x128xf32") == "v4");
  CHECK(refused(104, 20, "8x128xf32") == kAll);
  CHECK(refused(127, 40, "8x128xf32") == "v4");
  CHECK(refused(98, 2, "16x128xf32") == "v4");
  CHECK(refused(99, 2, "16x128xf32") == kAll);
  CHECK(refused(113, 2, "16x128xf32") == "v4");
  CHECK(refusing(rotated(
            kAnywhere, "8x128xf32",
            "dimension = 1 : si32, stride = 20 : si32, stride_dimension = 0 : si32")) == "v4");
}

TEST_CASE("a gather takes from one register", "[pallas][limits]") {
  CHECK(refusing(gather("16x128", "f32", "i32", "0")) == kAll);
  CHECK(refusing(gather("8x128", "f32", "i32", "0")) == "v4");
  CHECK(refusing(gather("8x256", "f32", "i32", "1")) == kAll);
  CHECK(refusing(gather("8x128", "f32", "i32", "1")).empty());
  CHECK(refusing(gather("8x128", "bf16", "i32", "1")) == kAll);
}

TEST_CASE("rows become lanes by whole registers or whole rows", "[pallas][limits]") {
  CHECK(refusing(reshaped("64x64xf32", "32x128xf32")) == kAll);
  CHECK(refusing(reshaped("64x128xf32", "32x256xf32")).empty());
  CHECK(refusing(reshaped("8x64xf32", "1x512xf32")).empty());
  CHECK(refusing(reshaped("16x64xf32", "64x16xf32")) == "v4");
  CHECK(refusing(reshaped("8x128xbf16", "128x8xbf16")) == "v4");
  CHECK(refusing(reshaped("6x64xf32", "64x6xf32")) == kAll);
  CHECK(refusing(reshaped("4x256xf32", "256x4xf32")) == kAll);
  CHECK(refusing(reshaped("16x128xbf16", "16x128x1xbf16", 3)) == "v4 v5e v5p");
  CHECK(refusing(reshaped("16x128xf32", "16x128x1xf32", 3)).empty());
}

TEST_CASE("an offset that the run decides is known to be a multiple of the tile",
          "[pallas][limits]") {
  CHECK(refused(loaded_at(kAnywhere, "64x256xf32", "8x256xf32"), "v5e") == "misaligned-slice");
  CHECK(refusing(loaded_at(kEights, "64x256xf32", "8x256xf32")).empty());
  CHECK(refusing(loaded_at(kAnywhere, "64x256xf32", "1x256xf32")).empty());  // a row of words
  CHECK(refusing(loaded_at(kAnywhere, "64x128xf32", "8x128xf32")).empty());  // lanes filled once
  CHECK(refusing(loaded_at(kEights, "64x256xi8", "8x256xi8")) == kAll);      // tiles of 32 rows
  CHECK(refusing(loaded_at(kAssumed, "64x256xi8", "8x256xi8")).empty());
  CHECK(refusing(rotated(folded(16), "32x128xbf16")).empty());   // known after all: 8
  CHECK(refusing(rotated(folded(-31), "32x128xbf16")).empty());  // -16
}

TEST_CASE(
    "what is known of an offset survives choices, minima and remainders, not maxima and shifts",
    "[pallas][limits]") {
  const auto at = [](const std::string& op, const std::string& left, const std::string& right) {
    const std::string more =
        std::string(kEights).substr(0, std::string(kEights).find("%k")) +
        "%four = \"S.arith.constant\"() {value = 4 : i32} : () -> i32\n"
        "%three = \"S.arith.constant\"() {value = 3 : i32} : () -> i32\n"
        "%eights = \"S.arith.muli\"(%n, %eight) : (i32, i32) -> i32\n"
        "%fours = \"S.arith.muli\"(%n, %four) : (i32, i32) -> i32\n"
        "%chosen = \"S.arith.cmpi\"(%n, %three) {predicate = 2 : i64} : (i32, i32) -> i1\n";
    const bool choice = op == "select";
    return refusing(loaded_at(more + "%k = \"S.arith." + op + "\"(" + (choice ? "%chosen, " : "") +
                                  left + ", " + right + ") : (" + (choice ? "i1, " : "") +
                                  "i32, i32) -> i32\n",
                              "64x256xf32", "8x256xf32"));
  };
  CHECK(at("select", "%eights", "%eight").empty());
  CHECK(at("select", "%eights", "%four") == kAll);
  CHECK(at("minsi", "%eights", "%eight").empty());
  CHECK(at("minsi", "%fours", "%eight") == kAll);
  CHECK(at("remsi", "%eights", "%eight").empty());
  CHECK(at("remsi", "%eights", "%four") == kAll);
  CHECK(at("maxsi", "%eights", "%eight") == kAll);
  CHECK(at("shli", "%n", "%three") == kAll);
  CHECK(at("muli", "%fours", "%four").empty());  // by a constant
  CHECK(at("muli", "%fours", "%fours") == kAll);
  CHECK(at("muli", "%eights", "%n").empty());
}

TEST_CASE("a copy of a part of a line takes 512 bytes at a time", "[pallas][limits]") {
  CHECK(refused(part_of_line(from(64), "1024xf32", "128xf32"), "v5e") == "misaligned-slice");
  CHECK(refusing(part_of_line(from(64), "1024xf32", "128xf32")) == kAll);
  CHECK(refusing(part_of_line(from(128), "1024xf32", "128xf32")).empty());
  CHECK(refusing(part_of_line(from(0), "1024xf32", "64xf32")) == kAll);
  CHECK(refusing(part_of_line(from(0), "1024xf32", "896xf32")).empty());
  // What is left of it, and all of it.
  CHECK(refusing(part_of_line(from(896), "1000xf32", "104xf32")).empty());
  CHECK(refusing(part_of_line(from(896), "1000xf32", "100xf32")) == kAll);
  CHECK(refusing(part_of_line(from(0), "100xf32", "100xf32")).empty());
  CHECK(refusing(part_of_line(from(128), "512xbf16", "256xbf16")) == kAll);
  CHECK(refusing(part_of_line(from(256), "512xbf16", "256xbf16")).empty());
  CHECK(refusing(part_of_line(from(256), "1024xi8", "512xi8")) == kAll);
  CHECK(refusing(part_of_line(from(512), "1024xi8", "512xi8")).empty());
  // From where the run decides.
  CHECK(refusing(part_of_line(from_some(64), "1024xi32", "128xi32")) == kAll);
  CHECK(refusing(part_of_line(from_some(128), "1024xi32", "128xi32")).empty());
  CHECK(refusing(part_of_line(from_some(128), "1024xi32", "8xi32")) == kAll);
  CHECK(refusing(part_of_line(from_some(64), "64xi32", "64xi32")) == kAll);
  // Scalars are read from anywhere in a tile, and copied from there no more than vectors.
  CHECK(refusing(part_of_line(from(8), "64xi32", "8xi32", "smem", false)).empty());
  CHECK(refusing(part_of_line(from(8), "64xi32", "8xi32", "smem")) == kAll);
  CHECK(refusing(part_of_line(from(760), "1000xi32", "8xi32", "smem", false)).empty());
  CHECK(refusing(part_of_line(from(761), "1000xi32", "8xi32", "smem", false)) == kAll);
}

TEST_CASE("a copy takes whole lanes and whole words", "[pallas][limits]") {
  CHECK(refused(sliced("0", "0", "64x256xf32", "64x16xf32"), "v5e") == "misaligned-slice");
  CHECK(refusing(sliced("0", "128", "64x256xf32", "64x128xf32")).empty());
  CHECK(refusing(sliced("0", "64", "64x256xf32", "64x128xf32")) == kAll);
  CHECK(refusing(sliced("1", "0", "64x256xf32", "1x256xf32")).empty());
  CHECK(refusing(sliced("1", "0", "64x256xbf16", "1x256xbf16")) == kAll);  // half a word
  CHECK(refusing(sliced("2", "0", "64x256xbf16", "2x256xbf16")).empty());
  // More than a row of words: in a tile of 8 rows, or whole ones.
  CHECK(refusing(sliced("6", "0", "64x256xbf16", "4x256xbf16")) == kAll);
  CHECK(refusing(sliced("4", "0", "64x256xbf16", "4x256xbf16")).empty());
  CHECK(refusing(sliced("4", "0", "64x256xbf16", "8x256xbf16")) == kAll);
  CHECK(refusing(sliced("8", "0", "64x256xbf16", "12x256xbf16")) == kAll);
  CHECK(refusing(sliced("8", "0", "64x256xbf16", "16x256xbf16")).empty());
  CHECK(refusing(sliced("3", "0", "64x128xf32", "8x128xf32")).empty());
  CHECK(refusing(sliced("3", "0", "64x256xf32", "5x256xf32")).empty());
  CHECK(refusing(sliced("3", "0", "64x256xf32", "8x256xf32")) == kAll);
  CHECK(refusing(sliced("3", "0", "64x256xf32", "8x128xf32")) == kAll);
  CHECK(refusing(sliced("8", "0", "64x256xf32", "12x256xf32")) == kAll);
  CHECK(refusing(sliced("8", "0", "20x256xf32", "12x256xf32")).empty());
  // Where the run decides the row, what divides a tile.
  CHECK(refusing(sliced_by(kEights, "0", "64x256xf32", "4x256xf32")).empty());
  CHECK(refusing(sliced_by(kEights, "0", "64x256xf32", "6x256xf32")) == kAll);
  CHECK(refusing(sliced_by(kEights, "0", "64x256xbf16", "6x256xbf16")) == kAll);
  CHECK(refusing(sliced_by(kAssumed, "0", "64x256xi8", "24x256xi8")).empty());
  CHECK(refusing(sliced_by(kAssumed, "0", "64x256xi8", "12x256xi8")) == kAll);
  CHECK(refusing(sliced_by(kAnywhere, "0", "64x256xf32", "1x256xf32")).empty());
  CHECK(refusing(sliced_by(kAnywhere, "0", "64x256xf32", "2x256xf32")) == kAll);
  CHECK(refusing(sliced_by(kAnywhere, "0", "64x128xf32", "2x128xf32")).empty());
  // Of 32 where the array has whole ones of bytes.
  CHECK(refusing(sliced("4", "0", "64x256xi8", "28x256xi8")).empty());
  CHECK(refusing(sliced("8", "0", "64x256xi8", "32x256xi8")) == kAll);
  CHECK(refusing(sliced("4", "0", "48x256xi8", "8x256xi8")) == kAll);
  CHECK(refusing(sliced("8", "0", "48x256xi8", "32x256xi8")).empty());
}

TEST_CASE("of the corpus nothing is refused on a v5e", "[pallas][limits][corpus]") {
  const std::filesystem::path corpus = TESSERA_CORPUS;
  if (!std::filesystem::exists(corpus)) {
    WARN("no corpus at " << corpus << ": skipped");
    return;
  }
  RunOptions options;
  options.device = load_device("tpu-v5e");
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    if (!std::filesystem::exists(entry.path() / "kernel.mlirbc")) continue;
    INFO(entry.path());
    const RecordedCall call = read_call_shapes(entry.path().string());
    options.mesh = {call.devices};
    CHECK_NOTHROW(planned_vmem_bytes(call.call, options));
    ++checked;
  }
  CHECK(checked == 48);
}

}  // namespace
}  // namespace tessera::pallas
