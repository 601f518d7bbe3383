// Dry runs of modules: scalars, copies and control run, vectors have no values.
#include <catch2/catch.hpp>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

/// Stores %x to %o where the condition %t holds.
std::string store_if() {
  return "\"S.scf.if\"(%t) ({\n" + store_whole("%x", "%o", "8x128xf32", 2) +
         "\"S.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n";
}
const char* const kByValue =
    "%s = \"S.vector.extract\"(%x) {static_position = array<i64: 0, 0>} : (vector<8x128xf32>) -> "
    "f32\n%zero = \"S.arith.constant\"() {value = 0.0 : f32} : () -> f32\n"
    "%t = \"S.arith.cmpf\"(%s, %zero) {predicate = 1 : i64} : (f32, f32) -> i1\n";
const char* const kByNumber =
    "%one = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n"
    "%two = \"S.arith.addi\"(%one, %one) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> "
    "i32\n%t = \"S.arith.cmpi\"(%one, %two) {predicate = 2 : i64} : (i32, i32) -> i1\n";
const char* const kTwice =
    "%y = \"S.arith.addf\"(%x, %x) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>, "
    "vector<8x128xf32>) -> vector<8x128xf32>\n";

const char* const kCopying =
    "%a: memref<8x128xf32, @any>, %o: memref<8x128xf32, @vmem>, %buf: memref<8x128xf32, @vmem>, "
    "%sem: memref<!tpu.dma_semaphore, @semaphore_mem>";
const char* const kCopy =
    "\"S.tpu.enqueue_dma\"(%a, %buf, %sem) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, "
    "priority = 0 : i32, strict_ordering = false} : (memref<8x128xf32, @any>, memref<8x128xf32, "
    "@vmem>, memref<!tpu.dma_semaphore, @semaphore_mem>) -> ()\n"
    "\"S.tpu.wait_dma2\"(%sem, %a, %buf) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, "
    "strict_ordering = false} : (memref<!tpu.dma_semaphore, @semaphore_mem>, memref<8x128xf32, "
    "@any>, memref<8x128xf32, @vmem>) -> ()\n";

RunResult run(const std::string& text, bool dry) {
  RunOptions options;
  options.dry = dry;
  const Array x = array_of(DType::f32, {8, 128}, [](auto i) { return double(i) + 1; });
  return run_text(text, {x}, options).result;
}

}  // namespace

TEST_CASE("a dry run of a module counts the work of what runs", "[pallas][dry]") {
  const std::string arguments = "%a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32");
  const std::string text = module_text(
      arguments, load_whole("%x", "%a", "8x128xf32", 2) + kByNumber + "\"S.scf.if\"(%t) ({\n" +
                     kTwice + store_whole("%y", "%o", "8x128xf32", 2) +
                     "\"S.scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()\n");
  const RunResult full = run(text, false);
  const RunResult dry = run(text, true);
  REQUIRE(full.ok());
  REQUIRE(dry.ok());
  CHECK(dry.no_work.empty());
  CHECK(full.flops == 8 * 128);
  CHECK(dry.flops == full.flops);
  CHECK(dry.ledger().hbm_read_bytes() == full.ledger().hbm_read_bytes());
  CHECK(dry.ledger().hbm_write_bytes() == full.ledger().hbm_write_bytes());
}

TEST_CASE("a body that decides by values has no work to count, and its blocks still move",
          "[pallas][dry]") {
  const std::string arguments = "%a: " + vmem("8x128xf32") + ", %o: " + vmem("8x128xf32");
  const std::string text =
      module_text(arguments, load_whole("%x", "%a", "8x128xf32", 2) + kByValue + store_if());
  const RunResult full = run(text, false);
  const RunResult dry = run(text, true);
  REQUIRE(full.ok());
  REQUIRE(dry.ok());
  CHECK(dry.no_work.find("decides by values") != std::string::npos);
  CHECK(dry.ledger().hbm_read_bytes() == full.ledger().hbm_read_bytes());
  CHECK(dry.ledger().hbm_write_bytes() == full.ledger().hbm_write_bytes());
}

TEST_CASE("copies of a module are counted dry, unless values decide", "[pallas][dry]") {
  const std::string load = load_whole("%x", "%buf", "8x128xf32", 2);
  const auto text = [&](const char* decision) {
    return module_text(kCopying, kCopy + load + decision + store_if(),
                       "scratch_operands = 2 : i64");
  };
  const RunResult full = run(text(kByNumber), false);
  const RunResult dry = run(text(kByNumber), true);
  REQUIRE(full.ok());
  REQUIRE(dry.ok());
  CHECK(full.ledger().hbm_read_bytes() == 8 * 128 * 4);
  CHECK(dry.ledger().hbm_read_bytes() == full.ledger().hbm_read_bytes());
  CHECK(dry.ledger().hbm_write_bytes() == full.ledger().hbm_write_bytes());
  REQUIRE(run(text(kByValue), false).ok());
  const RunResult bad = run(text(kByValue), true);
  REQUIRE(bad.diagnostics.size() == 1);
  CHECK(bad.diagnostics[0].slug == "unsupported");
  CHECK(bad.diagnostics[0].headline.find("decides by values") != std::string::npos);
}

}  // namespace tessera::pallas
