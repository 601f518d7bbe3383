// Hazards in the bodies of modules: found as in C++ bodies, with the line of the module's location.
// Each wrong body has a right twin one line away.
#include <catch2/catch.hpp>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

const char* const kArguments =
    "%x: memref<8x128xf32, @any>, %o: memref<8x128xf32, @vmem>, %buf: memref<8x128xf32, @vmem>, "
    "%sem: memref<!tpu.dma_semaphore, @semaphore_mem>, %count: memref<!tpu.semaphore, "
    "@semaphore_mem>";
const char* const kScratch = "scratch_operands = 3 : i64";
const char* const kStart =
    "\"S.tpu.enqueue_dma\"(%x, %buf, %sem) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, "
    "priority = 0 : i32, strict_ordering = false} : (memref<8x128xf32, @any>, memref<8x128xf32, "
    "@vmem>, memref<!tpu.dma_semaphore, @semaphore_mem>) -> () loc(\"kernel.py\":7:3)\n";
const char* const kWait =
    "\"S.tpu.wait_dma2\"(%sem, %x, %buf) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, "
    "strict_ordering = false} : (memref<!tpu.dma_semaphore, @semaphore_mem>, memref<8x128xf32, "
    "@any>, memref<8x128xf32, @vmem>) -> ()\n";
const char* const kSignal =
    "\"S.tpu.sem_signal\"(%count, %one) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : "
    "(memref<!tpu.semaphore, @semaphore_mem>, i32) -> ()\n";
const char* const kSemWait =
    "\"S.tpu.sem_wait\"(%count, %one) : (memref<!tpu.semaphore, @semaphore_mem>, i32) -> () "
    "loc(\"kernel.py\":9:3)\n";
const char* const kOneI32 = "%one = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n";

std::string use() {
  return load_whole("%v", "%buf", "8x128xf32", 2) + store_whole("%v", "%o", "8x128xf32", 2);
}
std::string set() {
  return "%z = \"S.arith.constant\"() {value = dense<0.0> : vector<8x128xf32>} : () -> "
         "vector<8x128xf32>\n" +
         store_whole("%z", "%o", "8x128xf32", 2);
}
/// A slice of rows [4, 4 + size).
std::string slice(int start) {
  const std::string s = std::to_string(start);
  return "%start = \"S.arith.constant\"() {value = " + s +
         " : i32} : () -> i32\n%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n"
         "%part = \"S.tpu.memref_slice\"(%buf, %start, %zero) {operandSegmentSizes = array<i32: 1, "
         "2, 0>} : (memref<8x128xf32, @vmem>, i32, i32) -> memref<4x128xf32, @vmem> "
         "loc(\"kernel.py\":11:3)\n" +
         "%w = \"S.arith.constant\"() {value = dense<1.0> : vector<4x128xf32>} : () -> "
         "vector<4x128xf32>\n" +
         store_whole("%w", "%part", "4x128xf32", 2);
}

std::vector<Diagnostic> diagnosed(const std::string& body, const std::string& schedule) {
  RunOptions options;
  options.schedule = parse_schedule(schedule);
  const Array x = array_of(DType::f32, {8, 128}, [](auto i) { return double(i); });
  return run_text(module_text(kArguments, body, kScratch), {x}, options).result.diagnostics;
}

struct Twins {
  const char* slug;
  const char* line;  ///< in the message, "" where the module has none
  std::string bad;
  std::string good;
};

}  // namespace

TEST_CASE("a hazard of a module's body is found under every schedule, its twin is silent",
          "[pallas][hazards]") {
  const std::vector<Twins> all = {
      {"race", "kernel.py:7", kStart + use() + kWait, kStart + (kWait + use())},
      {"dma-not-awaited", "kernel.py:7", kStart + set(), kStart + (kWait + set())},
      {"deadlock", "kernel.py:9", kOneI32 + (kSemWait + set()),
       kOneI32 + (kSignal + (kSemWait + set()))},
      {"semaphore-leak", "", kOneI32 + (kSignal + set()), kOneI32 + (kSignal + (kSemWait + set()))},
      {"deadlock", "", kWait + set(), kStart + (kWait + set())},
      {"oob-index", "kernel.py:11", slice(5) + set(), slice(4) + set()},
  };
  for (const Twins& t : all) {
    CAPTURE(t.slug, t.bad);
    for (const char* schedule : {"eager", "on_wait", "adversarial", "random:1", "random:2"}) {
      CAPTURE(schedule);
      const auto found = diagnosed(t.bad, schedule);
      REQUIRE(found.size() == 1);
      CAPTURE(found[0].text());
      CHECK(found[0].slug == t.slug);
      CHECK(found[0].text().find(t.line) != std::string::npos);
      const auto none = diagnosed(t.good, schedule);
      for (const auto& d : none) UNSCOPED_INFO(d.text());
      CHECK(none.empty());
    }
  }
}

}  // namespace tessera::pallas
