// Kernels for SparseCores: what their ops do, by hand, and what their cores share.
#include <catch2/catch.hpp>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

const char* const kSemaphore = "memref<!tpu.dma_semaphore, @semaphore_mem>";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string attributes_of(const std::string& kind, const std::vector<int>& grid, int scratch) {
  std::string bounds;
  for (const int extent : grid) bounds += (bounds.empty() ? "" : ", ") + std::to_string(extent);
  return "iteration_bounds = array<i64: " + bounds +
         ">, scratch_operands = " + std::to_string(scratch) +
         " : i64, tpu.core_type = #tpu.core_type<" + kind + ">";
}

std::string parallel(const std::string& text, std::size_t dims) {
  std::string semantics;
  for (std::size_t d = 0; d < dims; ++d)
    semantics += std::string(d > 0 ? ", " : "") + "#tpu.dimension_semantics<parallel>";
  return replaced(
      replaced(text, "dimension_semantics = []", "dimension_semantics = [" + semantics + "]"),
      "@hbm", "#tpu.memory_space<hbm>");
}

/// A kernel for the vector subcores of one SparseCore.
std::string on_subcores(int subcores, const std::string& arguments, const std::string& body,
                        int scratch = 0) {
  return replaced(parallel(module_text("%core: i32, %subcore: i32, " + arguments, body,
                                       attributes_of("sc_vector_subcore", {1, subcores}, scratch)),
                           2),
                  "@shared", "#tpu.memory_space<vmem_shared>");
}

std::string index(int i) {
  return "%i" + std::to_string(i) + " = \"S.arith.constant\"() {value = " + std::to_string(i) +
         " : index} : () -> index\n";
}
std::string mask(const std::string& name, const std::vector<int>& bits) {
  std::string values;
  for (const int b : bits)
    values += std::string(values.empty() ? "" : ", ") + (b ? "true" : "false");
  return name + " = \"S.arith.constant\"() {value = dense<[" + values +
         "]> : vector<8xi1>} : () -> "
         "vector<8xi1>\n";
}
std::string row(const std::string& name, const std::vector<int>& numbers) {
  std::string values;
  for (const int n : numbers) values += (values.empty() ? "" : ", ") + std::to_string(n);
  return name + " = \"S.arith.constant\"() {value = dense<[" + values +
         "]> : vector<8xi32>} : () -> "
         "vector<8xi32>\n";
}
std::string load(const std::string& name, const std::string& ref,
                 const std::string& type = "8xi32") {
  return load_whole(name, ref, type, 1);
}
std::string store(const std::string& name, const std::string& ref,
                  const std::string& type = "8xi32") {
  return store_whole(name, ref, type, 1);
}
std::string row_ref(const std::string& name, const std::string& type = "8xi32") {
  return name + ": " + vmem(type);
}

std::vector<double> numbers(const Array& a) {
  std::vector<double> r;
  for (std::int64_t i = 0; i < a.elems(); ++i) r.push_back(a.at(i));
  return r;
}
Array row_of(DType d, const std::vector<double>& values) {
  return array_of(d, {std::ssize(values)},
                  [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
}
using Numbers = std::vector<double>;

const char* const kMaskedLoad =
    "%v = \"S.tpu.vector_load\"(%x, %i0, %m) {operandSegmentSizes = array<i32: 1, 1, 1>, strides = "
    "array<i32>} : (memref<8xi32, @vmem>, index, vector<8xi1>) -> vector<8xi32>\n";
std::string masked_store(bool add) {
  return std::string(
             "\"S.tpu.vector_store\"(%v, %o, %i0, %m) {operandSegmentSizes = array<i32: 1, "
             "1, 1, 1>, strides = array<i32>, add = ") +
         (add ? "true" : "false") +
         "} : (vector<8xi32>, memref<8xi32, @vmem>, index, vector<8xi1>) -> ()\n";
}

}  // namespace

TEST_CASE("a masked load of a SparseCore expands, a masked store compresses", "[pallas][sparse]") {
  const Array x = row_of(DType::i32, {10, 11, 12, 13, 14, 15, 16, 17});
  const std::string arguments = row_ref("%x") + ", " + row_ref("%o");
  const std::string chosen = mask("%m", {0, 1, 0, 1, 1, 0, 0, 1}) + index(0);
  const std::string zero = row("%z", std::vector<int>(8, 0)) + store("%z", "%o");
  SECTION("load") {
    const Ran r = run_text(
        on_subcores(1, arguments,
                    chosen + kMaskedLoad + row("%z", std::vector<int>(8, -1)) +
                        "%w = \"S.arith.select\"(%m, %v, %z) : (vector<8xi1>, vector<8xi32>, "
                        "vector<8xi32>) -> vector<8xi32>\n" +
                        store("%w", "%o")),
        {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == Numbers{-1, 10, -1, 11, 12, -1, -1, 13});
  }
  SECTION("store") {
    const Ran r = run_text(
        on_subcores(1, arguments, zero + chosen + load("%v", "%x") + masked_store(false)), {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == Numbers{11, 13, 14, 17, 0, 0, 0, 0});
  }
  SECTION("store that adds") {
    const Ran r = run_text(
        on_subcores(1, arguments,
                    zero + chosen + load("%v", "%x") + masked_store(true) + masked_store(true)),
        {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == Numbers{22, 26, 28, 34, 0, 0, 0, 0});
  }
  SECTION("what a mask leaves out is not touched") {
    const Ran r = run_text(
        on_subcores(1, arguments,
                    replaced(zero, "%i0", "%k") + mask("%m", {0, 1, 0, 1, 0, 0, 0, 0}) +
                        "%i0 = \"S.arith.constant\"() {value = 6 : index} : () -> index\n" +
                        load("%v", "%x") + masked_store(false)),
        {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == Numbers{0, 0, 0, 0, 0, 0, 11, 13});
  }
  SECTION("a TensorCore does not add") {
    CHECK_THROWS_AS(
        run_text(module_text(arguments, zero + chosen + load("%v", "%x") + masked_store(true)),
                 {x}),
        KernelError);
  }
}

TEST_CASE("loads and stores of a SparseCore as JAX 0.12 writes them", "[pallas][sparse]") {
  const Array x = row_of(DType::i32, {10, 11, 12, 13, 14, 15, 16, 17});
  const std::string arguments = row_ref("%x") + ", " + row_ref("%o");
  const std::string types = "(memref<8xi32, @vmem>, index";
  const std::string zero = row("%z", std::vector<int>(8, 0));
  for (const bool of_register : {false, true}) {
    const std::string expand = of_register
                                   ? "expand_load_vreg\"(%x, %i0, %m)"
                                   : "vector_expand_load\"(%x, %i0, %m) {expand_dim = 0 : i32}";
    const std::string compress =
        of_register
            ? "compress_store_vreg\"(%w, %o, %i0, %m) {add = true}"
            : "vector_compress_store\"(%w, %o, %i0, %m) {add = true, compress_dim = 0 : i32}";
    const Ran r = run_text(
        on_subcores(
            1, arguments,
            mask("%m", {0, 1, 0, 1, 1, 0, 0, 1}) + index(0) + zero +
                "\"S.tpu.store\"(%z, %o, %i0) {add = false, operandSegmentSizes = array<i32: 1, 1, "
                "1, 0>, sublane_mask = array<i1: true, true>} : (vector<8xi32>, "
                "memref<8xi32, @vmem>, index) -> ()\n"
                "%a = \"S.tpu.load\"(%x, %i0) {sublane_mask = array<i1: true, true>} : " +
                types + ") -> vector<8xi32>\n%v = \"S.tpu." + expand + " : " + types +
                ", vector<8xi1>) -> vector<8xi32>\n"
                "%w = \"S.arith.select\"(%m, %v, %a) : (vector<8xi1>, vector<8xi32>, "
                "vector<8xi32>) -> vector<8xi32>\n" +
                "\"S.tpu." + compress +
                " : (vector<8xi32>, memref<8xi32, @vmem>, index, vector<8xi1>) -> ()\n"),
        {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == Numbers{10, 11, 12, 13, 0, 0, 0, 0});
  }
  SECTION("along another dim") {
    CHECK_THROWS_AS(
        run_text(on_subcores(1, arguments,
                             mask("%m", {0, 1, 0, 1, 1, 0, 0, 1}) + index(0) +
                                 "%v = \"S.tpu.vector_expand_load\"(%x, %i0, %m) {expand_dim = 1 : "
                                 "i32} : " +
                                 types + ", vector<8xi1>) -> vector<8xi32>\n" + store("%v", "%o")),
                 {x}),
        KernelError);
  }
}

TEST_CASE("gathers and scatters in VMEM", "[pallas][sparse]") {
  const Array x = row_of(DType::i32, {10, 11, 12, 13, 14, 15, 16, 17});
  const std::string arguments = row_ref("%x") + ", " + row_ref("%o");
  const auto scatter = [](bool add) {
    return std::string(
               "\"S.tpu.vector_store_idx\"(%v, %o, %at, %m) {operandSegmentSizes = "
               "array<i32: 1, 1, 1, 1>, add = ") +
           (add ? "true" : "false") +
           "} : (vector<8xi32>, memref<8xi32, @vmem>, vector<8xi32>, vector<8xi1>) -> ()\n";
  };
  const std::string gather =
      "%v = \"S.tpu.vector_load_idx\"(%x, %at) {operandSegmentSizes = array<i32: 1, 1, 0>} : "
      "(memref<8xi32, @vmem>, vector<8xi32>) -> vector<8xi32>\n";
  SECTION("gather") {
    const Ran r =
        run_text(on_subcores(1, arguments,
                             row("%at", {7, 0, 3, 3, 1, 6, 2, 5}) + gather + store("%v", "%o")),
                 {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == Numbers{17, 10, 13, 13, 11, 16, 12, 15});
  }
  SECTION("an index of no element") {
    const Ran r =
        run_text(on_subcores(1, arguments,
                             row("%at", {7, 0, 3, 3, 8, 6, 2, 5}) + gather + store("%v", "%o")),
                 {x});
    REQUIRE(r.result.diagnostics.size() == 1);
    CHECK(r.result.diagnostics[0].slug == "oob-index");
  }
  SECTION("scatter: of equal indices the last counts, and sums take all") {
    for (const bool add : {false, true}) {
      const Ran r =
          run_text(on_subcores(1, arguments,
                               row("%z", std::vector<int>(8, 1)) + store("%z", "%o") +
                                   load("%v", "%x") + mask("%m", {1, 1, 1, 1, 0, 0, 0, 1}) +
                                   row("%at", {4, 2, 4, 0, 100, 1, 1, 4}) + scatter(add)),
                   {x});
      REQUIRE(r.result.ok());
      CHECK(numbers(r.out()) ==
            (add ? Numbers{14, 1, 12, 1, 40, 1, 1, 1} : Numbers{13, 1, 11, 1, 17, 1, 1, 1}));
    }
  }
}

TEST_CASE("scans, counts and reductions of a SparseCore", "[pallas][sparse]") {
  const Array x = row_of(DType::f32, {5, 2, 9, 1, 9, 4, 2, 2});
  const std::string arguments = row_ref("%x", "8xf32") + ", " + row_ref("%o", "8xf32");
  const auto scan = [](const std::string& kind) {
    return "%s = \"S.tpu.scan\"(%v, %m) {kind = #tpu.reduction_kind<" + kind +
           ">} : (vector<8xf32>, vector<8xi1>) -> vector<8xf32>\n";
  };
  const std::string chosen = mask("%m", {0, 1, 0, 1, 1, 0, 1, 1});
  for (const auto& [kind, expected] :
       {std::pair<const char*, Numbers>{"sum", {5, 2, 2, 3, 12, 12, 14, 16}},
        {"max", {5, 2, 2, 2, 9, 9, 9, 9}},
        {"min", {5, 2, 2, 1, 1, 1, 1, 1}}}) {
    const Ran r = run_text(
        on_subcores(1, arguments,
                    load("%v", "%x", "8xf32") + chosen + scan(kind) + store("%s", "%o", "8xf32")),
        {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out()) == expected);
  }
  SECTION("integers have no sign, unless the kind says so") {
    const auto run = [&](const std::string& kind) {
      return run_text(
          on_subcores(1, row_ref("%x") + ", " + row_ref("%o"),
                      load("%v", "%x") +
                          "%s = \"S.tpu.scan\"(%v) {dimension = 0 : i64, kind = "
                          "#tpu.reduction_kind<" +
                          kind + ">} : (vector<8xi32>) -> vector<8xi32>\n" + store("%s", "%o")),
          {row_of(DType::i32, {1, 3, 2, -1, 4, 5, -2, 7})});
    };
    for (const auto& [kind, expected] :
         {std::pair<const char*, Numbers>{"max", {1, 3, 3, -1, -1, -1, -1, -1}},
          {"maxui", {1, 3, 3, -1, -1, -1, -1, -1}},
          {"maxsi", {1, 3, 3, 3, 4, 5, 5, 7}},
          {"minsi", {1, 1, 1, -1, -1, -1, -2, -2}}}) {
      const Ran r = run(kind);
      REQUIRE(r.result.ok());
      CHECK(numbers(r.out()) == expected);
    }
    CHECK_THROWS_AS(run("maxf"), KernelError);
  }
  SECTION("how often each value came, and where it comes last") {
    const Ran r = run_text(
        on_subcores(1, arguments + ", " + row_ref("%c"),
                    load("%v", "%x", "8xf32") + mask("%m", {1, 1, 1, 1, 1, 1, 0, 1}) +
                        "%last, %n = \"S.tpu.scan_count\"(%m, %v) : (vector<8xi1>, vector<8xf32>) "
                        "-> (vector<8xi1>, vector<8xi32>)\n"
                        "%z = \"S.arith.constant\"() {value = dense<0.0> : vector<8xf32>} : () -> "
                        "vector<8xf32>\n"
                        "%w = \"S.arith.select\"(%last, %v, %z) : (vector<8xi1>, vector<8xf32>, "
                        "vector<8xf32>) -> vector<8xf32>\n" +
                        store("%w", "%o", "8xf32") + store("%n", "%c")),
        {x});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out(0)) == Numbers{5, 0, 0, 1, 9, 4, 0, 2});
    CHECK(numbers(r.out(1)) == Numbers{1, 1, 1, 1, 2, 1, 1, 2});
  }
  SECTION("how many are true, and which is the first") {
    for (const auto& [kind, bits, expected] :
         {std::tuple<const char*, std::vector<int>, double>{"sum", {0, 0, 1, 1, 0, 1, 0, 0}, 3},
          {"find_first_set", {0, 0, 1, 1, 0, 1, 0, 0}, 2},
          {"find_first_set", {0, 0, 0, 0, 0, 0, 0, 0}, 8}}) {
      const Ran r = run_text(
          on_subcores(1, row_ref("%o"),
                      mask("%m", bits) +
                          "%n = \"S.tpu.all_reduce\"(%m) {dim = 0 : i64, kind = "
                          "#tpu.reduction_kind<" +
                          kind + ">} : (vector<8xi1>) -> vector<8xi32>\n" + store("%n", "%o")),
          {});
      REQUIRE(r.result.ok());
      CHECK(numbers(r.out()) == Numbers(8, expected));
    }
  }
}

TEST_CASE("a sort of keys and values", "[pallas][sparse]") {
  const Array keys = row_of(DType::f32, {3, 1, 2, 3, -5, 1, 8, 0});
  const Array values = row_of(DType::i32, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto run = [&](bool descending) {
    return run_text(
        on_subcores(1,
                    row_ref("%k", "8xf32") + ", " + row_ref("%x") + ", " + row_ref("%a", "8xf32") +
                        ", " + row_ref("%b") + ", " + row_ref("%c"),
                    load("%u", "%k", "8xf32") + load("%v", "%x") +
                        mask("%m", {1, 1, 1, 1, 0, 1, 0, 1}) +
                        "%p, %q, %s = \"S.tpu.sort\"(%u, %v, %m) {descending = " +
                        (descending ? "true" : "false") +
                        "} : (vector<8xf32>, vector<8xi32>, vector<8xi1>) -> (vector<8xi1>, "
                        "vector<8xf32>, vector<8xi32>)\n"
                        "%n = \"S.arith.extui\"(%p) : (vector<8xi1>) -> vector<8xi32>\n" +
                        store("%q", "%a", "8xf32") + store("%s", "%b") + store("%n", "%c")),
        {keys, values});
  };
  const Ran up = run(false);
  REQUIRE(up.result.ok());
  CHECK(numbers(up.out(0)) == Numbers{0, 1, 1, 2, 3, 3, -5, 8});
  CHECK(numbers(up.out(1)) == Numbers{7, 1, 5, 2, 0, 3, 4, 6});
  CHECK(numbers(up.out(2)) == Numbers{1, 1, 1, 1, 1, 1, 0, 0});
  const Ran down = run(true);
  REQUIRE(down.result.ok());
  CHECK(numbers(down.out(0)) == Numbers{3, 3, 2, 1, 1, 0, -5, 8});
  CHECK(numbers(down.out(1)) == Numbers{0, 3, 2, 1, 5, 7, 4, 6});
}

TEST_CASE("a pair of vectors in one, and back", "[pallas][sparse]") {
  const Array a = row_of(DType::i32, {0, 1, 2, 3, 4, 5, 6, 7});
  const Array b = row_of(DType::i32, {-1, -2, -3, -4, -5, -6, -7, 70000});
  for (const bool in_turns : {false, true}) {
    const std::string format = std::string("pack_format = #tpu.pack_format<") +
                               (in_turns ? "interleaved" : "compressed") + ">";
    const std::string packed = in_turns ? "16xi16" : "8x2xi16";
    const auto half = [&](int k) {
      return "%h" + std::to_string(k) +
             " = \"S.tpu.unpack_subelements\"(%p) {index = " + std::to_string(k) +
             " : i32, sign_extended = true, " + format + "} : (vector<" + packed +
             ">) -> vector<8xi32>\n";
    };
    const Ran r = run_text(
        on_subcores(1,
                    row_ref("%a") + ", " + row_ref("%b") + ", " + row_ref("%p16", packed) + ", " +
                        row_ref("%c") + ", " + row_ref("%d"),
                    load("%u", "%a") + load("%v", "%b") +
                        "%p = \"S.tpu.pack_subelements\"(%u, %v) {positions = array<i32: 0, 1>, " +
                        format + "} : (vector<8xi32>, vector<8xi32>) -> vector<" + packed + ">\n" +
                        store_whole("%p", "%p16", packed, in_turns ? 1 : 2) + half(0) + half(1) +
                        store("%h0", "%c") + store("%h1", "%d")),
        {a, b});
    REQUIRE(r.result.ok());
    CHECK(numbers(r.out(0)) ==
          (in_turns ? Numbers{0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6, 6, -7, 7, 4464}
                    : Numbers{0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -6, -7, 4464}));
    CHECK(numbers(r.out(1)) == numbers(a));
    CHECK(numbers(r.out(2)) == Numbers{-1, -2, -3, -4, -5, -6, -7, 4464});
  }
}

TEST_CASE("a vector as one of another width", "[pallas][sparse]") {
  const Array x = row_of(DType::i32, {1, 2, 3, 65536 * 7 + 4, 5, 6, 7, -1});
  const Ran r = run_text(
      on_subcores(1, row_ref("%x") + ", " + row_ref("%o", "16xi16"),
                  load("%v", "%x") +
                      "%w = \"S.vector.bitcast\"(%v) : (vector<8xi32>) -> vector<16xi16>\n" +
                      store("%w", "%o", "16xi16")),
      {x});
  REQUIRE(r.result.ok());
  CHECK(numbers(r.out()) == Numbers{1, 0, 2, 0, 3, 0, 4, 7, 5, 0, 6, 0, 7, 0, -1, -1});
}

namespace {

/// Copies row `row` of one memref to another of one row, or back, and waits.
std::string copy(const std::string& from, const std::string& from_type, const std::string& to,
                 const std::string& to_type) {
  const std::string types = "memref<" + from_type + ">, memref<" + to_type + ">, " + kSemaphore;
  return "\"S.tpu.enqueue_dma\"(" + from + ", " + to +
         ", %sem) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>, priority = 0 : i32} : (" +
         types + ") -> ()\n\"S.tpu.wait_dma2\"(%sem, " + from + ", " + to +
         ") {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (" + kSemaphore + ", memref<" +
         from_type + ">, memref<" + to_type + ">) -> ()\n";
}
std::string slice(const std::string& name, const std::string& of, const std::string& at, int rows,
                  const std::string& space) {
  return name + " = \"S.tpu.memref_slice\"(" + of + ", " + at +
         ", %zero) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<" + std::to_string(rows) +
         "x8xi32, " + space + ">, i32, i32) -> memref<1x8xi32, " + space + ">\n";
}
const char* const kZero = "%zero = \"S.arith.constant\"() {value = 0 : i32} : () -> i32\n";

/// Every subcore puts its row into memory that all share, and takes that of the next one.
std::string turned(bool barrier) {
  return on_subcores(
      4,
      std::string("%x: memref<4x8xi32, @hbm>, %o: memref<4x8xi32, @hbm>, %all: memref<4x8xi32, "
                  "@shared>, %sem: ") +
          kSemaphore,
      std::string(kZero) +
          "%one = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n"
          "%three = \"S.arith.constant\"() {value = 3 : i32} : () -> i32\n"
          "%more = \"S.arith.addi\"(%subcore, %one) : (i32, i32) -> i32\n"
          "%next = \"S.arith.andi\"(%more, %three) : (i32, i32) -> i32\n" +
          index(0) + slice("%mine", "%x", "%subcore", 4, "@hbm") +
          slice("%out", "%o", "%subcore", 4, "@hbm") +
          slice("%put", "%all", "%subcore", 4, "@shared") +
          slice("%take", "%all", "%next", 4, "@shared") +
          copy("%mine", "1x8xi32, @hbm", "%put", "1x8xi32, @shared") +
          (barrier ? "\"S.tpu.barrier\"(%i0) : (index) -> ()\n" : "") +
          copy("%take", "1x8xi32, @shared", "%out", "1x8xi32, @hbm"),
      2);
}

}  // namespace

TEST_CASE("subcores share memory, and a barrier orders what they do there", "[pallas][sparse]") {
  const Array x = array_of(DType::i32, {4, 8}, [](auto i) { return double(i); });
  for (const char* schedule : {"eager", "on_wait", "adversarial", "random:3"}) {
    RunOptions options;
    options.schedule = parse_schedule(schedule);
    const Ran right = run_text(turned(true), {x}, options);
    REQUIRE(right.result.ok());
    for (std::int64_t i = 0; i < 32; ++i) REQUIRE(right.out().at(i) == double((i + 8) % 32));
    const Ran wrong = run_text(turned(false), {x}, options);
    REQUIRE(wrong.result.diagnostics.size() == 1);
    const std::string& slug = wrong.result.diagnostics[0].slug;
    CHECK((slug == "race" || slug == "uninit-read"));
  }
}

TEST_CASE("copies of several subcores that write the same values are no race", "[pallas][sparse]") {
  const Array x = array_of(DType::i32, {4, 8}, [](auto i) { return double(i / 16); });
  const auto run = [&](const std::string& to) {
    return run_text(
        on_subcores(2,
                    std::string("%x: memref<4x8xi32, @hbm>, %o: memref<1x8xi32, @hbm>, %sem: ") +
                        kSemaphore,
                    std::string(kZero) + slice("%mine", "%x", to, 4, "@hbm") +
                        copy("%mine", "1x8xi32, @hbm", "%o", "1x8xi32, @hbm"),
                    1),
        {x});
  };
  const Ran same = run("%subcore");  // rows 0 and 1 are alike
  REQUIRE(same.result.ok());
  CHECK(numbers(same.out()) == Numbers(8, 0.0));
  REQUIRE(same.result.notes.size() == 1);
  CHECK(same.result.notes[0].find("out0") != std::string::npos);

  const Array y = array_of(DType::i32, {4, 8}, [](auto i) { return double(i / 8); });
  const Ran other = run_text(
      on_subcores(
          2,
          std::string("%x: memref<4x8xi32, @hbm>, %o: memref<1x8xi32, @hbm>, %sem: ") + kSemaphore,
          std::string(kZero) + slice("%mine", "%x", "%subcore", 4, "@hbm") +
              copy("%mine", "1x8xi32, @hbm", "%o", "1x8xi32, @hbm"),
          1),
      {y});
  REQUIRE(other.result.diagnostics.size() == 1);
  CHECK(other.result.diagnostics[0].slug == "race");
}

TEST_CASE("an indirect copy adds rows, and leaves out what it is told to", "[pallas][sparse]") {
  const Array x = array_of(DType::i32, {4, 8}, [](auto i) { return double(i); });
  const auto run = [&](bool add, bool leave_out) {
    const std::string operands = leave_out ? ", %two" : "";
    return run_text(
        on_subcores(
            1,
            std::string("%x: memref<4x8xi32, @hbm>, %at: memref<8xi32, @vmem>, %o: memref<8x8xi32, "
                        "@hbm>, %rows: memref<8x8xi32, @vmem>, %sem: ") +
                kSemaphore,
            "%two = \"S.arith.constant\"() {value = 2 : i32} : () -> i32\n"
            "%z = \"S.arith.constant\"() {value = dense<100> : vector<8x8xi32>} : () -> "
            "vector<8x8xi32>\n" +
                store_whole("%z", "%rows", "8x8xi32", 2) +
                "\"S.tpu.enqueue_indirect_dma\"(%x, %rows, %at, %sem" + operands +
                ") {add = " + (add ? "true" : "false") +
                "} : (memref<4x8xi32, @hbm>, memref<8x8xi32, @vmem>, memref<8xi32, @vmem>, " +
                kSemaphore + (leave_out ? ", i32" : "") +
                ") -> ()\n\"S.tpu.wait_indirect_dma\"(%sem, %x, %rows) : (" + kSemaphore +
                ", memref<4x8xi32, @hbm>, memref<8x8xi32, @vmem>) -> ()\n" +
                copy("%rows", "8x8xi32, @vmem", "%o", "8x8xi32, @hbm"),
            2),
        {x, row_of(DType::i32, {3, 2, 0, 1, 2, 3, 3, 0})});
  };
  for (const bool add : {false, true}) {
    for (const bool leave_out : {false, true}) {
      const Ran r = run(add, leave_out);
      REQUIRE(r.result.ok());
      const std::vector<int> at{3, 2, 0, 1, 2, 3, 3, 0};
      for (int i = 0; i < 64; ++i) {
        const int from = at[static_cast<std::size_t>(i / 8)];
        const double there = from * 8 + i % 8;
        const bool left = leave_out && from == 2;
        REQUIRE(r.out().at(i) == (left ? 100 : add ? 100 + there : there));
      }
    }
  }
}

TEST_CASE("a scalar subcore reads, adds and writes in SMEM", "[pallas][sparse]") {
  const std::string body =
      copy("%x", "8xi32, @hbm", "%s", "8xi32, @smem") + index(2) + index(5) +
      "%a = \"S.memref.load\"(%s, %i2) : (memref<8xi32, @smem>, index) -> i32\n"
      "%b = \"S.arith.addi\"(%a, %a) : (i32, i32) -> i32\n"
      "\"S.memref.store\"(%b, %s, %i5) : (i32, memref<8xi32, @smem>, index) -> ()\n" +
      copy("%s", "8xi32, @smem", "%o", "8xi32, @hbm");
  const Ran r = run_text(
      parallel(module_text(std::string("%core: i32, %x: memref<8xi32, @hbm>, %o: memref<8xi32, "
                                       "@hbm>, %s: memref<8xi32, @smem>, %sem: ") +
                               kSemaphore,
                           body, attributes_of("sc_scalar_subcore", {1}, 2)),
               1),
      {row_of(DType::i32, {1, 2, 30, 4, 5, 6, 7, 8})});
  REQUIRE(r.result.ok());
  CHECK(numbers(r.out()) == Numbers{1, 2, 30, 4, 5, 60, 7, 8});
}

namespace {

/// Two vector subcores copy rows 0 and 1 of x, and tell the scalar one, which copies the last two
/// rows of o: from there if it waits for them.
std::string two_kinds(bool waits) {
  const std::string arguments = std::string(
                                    "%x: memref<4x8xi32, @hbm>, %o: memref<4x8xi32, @hbm>, %done: "
                                    "memref<!tpu.semaphore, @DONE>, %sem: ") +
                                kSemaphore;
  const std::string one = "%one = \"S.arith.constant\"() {value = 1 : i32} : () -> i32\n";
  const std::string two = "%two = \"S.arith.constant\"() {value = 2 : i32} : () -> i32\n";
  const std::string vectors = replaced(
      std::string(kZero) + one + slice("%mine", "%x", "%subcore", 4, "@hbm") +
          slice("%out", "%o", "%subcore", 4, "@hbm") +
          copy("%mine", "1x8xi32, @hbm", "%out", "1x8xi32, @hbm") +
          "\"S.tpu.sem_signal\"(%done, %one, %core) {operandSegmentSizes = array<i32: 1, 1, 0, 1, "
          "0>} : (memref<!tpu.semaphore, @DONE>, i32, i32) -> ()\n",
      "@DONE", "#tpu.memory_space<semaphore_mem, sc_scalar_subcore>");
  const auto half = [](const std::string& name, const std::string& at) {
    return name + " = \"S.tpu.memref_slice\"(%o, " + at +
           ", %zero) {operandSegmentSizes = array<i32: 1, 2, 0>} : (memref<4x8xi32, @hbm>, i32, "
           "i32) -> memref<2x8xi32, @hbm>\n";
  };
  const std::string scalars =
      std::string(kZero) + two + half("%from", "%zero") + half("%to", "%two") +
      (waits ? "\"S.tpu.sem_wait\"(%done, %two) : (memref<!tpu.semaphore, @semaphore_mem>, i32) -> "
               "()\n"
             : "") +
      copy("%from", "2x8xi32, @hbm", "%to", "2x8xi32, @hbm");
  const auto function = [&](const std::string& name, const std::string& ids,
                            const std::string& body, const std::string& kind,
                            const std::vector<int>& grid) {
    const bool scalar = kind == "sc_scalar_subcore";
    return parallel(
        replaced(replaced(module_text(ids + arguments, body, attributes_of(kind, grid, 2)),
                          "kernel", name),
                 "@DONE",
                 scalar ? "#tpu.memory_space<semaphore_mem>"
                        : "#tpu.memory_space<semaphore_mem, sc_scalar_subcore>"),
        grid.size());
  };
  const std::string first =
      function("vectors", "%core: i32, %subcore: i32, ", vectors, "sc_vector_subcore", {1, 2});
  const std::string second = function("scalars", "%core: i32, ", scalars, "sc_scalar_subcore", {1});
  const std::size_t begin = second.find('\n') + 1;
  const std::size_t end = second.rfind("}) {stable_mosaic");
  std::string both = first;
  both.insert(both.rfind("}) {stable_mosaic"), second.substr(begin, end - begin));
  return both;
}

}  // namespace

TEST_CASE("vector and scalar subcores run their own functions on the same arrays",
          "[pallas][sparse]") {
  const Array x = array_of(DType::i32, {4, 8}, [](auto i) { return double(i); });
  for (const char* schedule : {"eager", "adversarial", "random:5"}) {
    RunOptions options;
    options.schedule = parse_schedule(schedule);
    const Ran right = run_text(two_kinds(true), {x}, options);
    REQUIRE(right.result.ok());
    for (std::int64_t i = 0; i < 32; ++i) REQUIRE(right.out().at(i) == double(i % 16));
    const Ran wrong = run_text(two_kinds(false), {x}, options);
    REQUIRE(wrong.result.diagnostics.size() == 1);
  }
}

}  // namespace tessera::pallas
