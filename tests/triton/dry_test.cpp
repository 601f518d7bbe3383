// Dry runs: what is counted from addresses alone, beside what a run counts; arrays that have no
// memory.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <iostream>

#include "tests/triton/recorded.hpp"
#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

/// Addresses that may not be touched.
class Nowhere {
 public:
  explicit Nowhere(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        at_(::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0)) {
    REQUIRE(at_ != MAP_FAILED);
  }
  ~Nowhere() { ::munmap(at_, bytes_); }
  Nowhere(const Nowhere&) = delete;
  Nowhere& operator=(const Nowhere&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(at_), bytes_}; }

 private:
  std::size_t bytes_;
  void* at_;
};

/// o[row, col] = x[row, col] + 1 of rows of `%n` elements, a row of 1,024 columns a program; the
/// row's offset in 32 or 64 bits.
std::string rows_text(bool wide) {
  const std::string type = wide ? "i64" : "i32";
  std::string body = "%id = \"tt.get_program_id\"() <{axis = 0 : i32}> : () -> i32\n";
  if (wide)
    body +=
        "%row = \"arith.extsi\"(%id) : (i32) -> i64\n%len = \"arith.extsi\"(%n) : (i32) -> i64\n"
        "%at = \"arith.muli\"(%row, %len) : (i64, i64) -> i64\n";
  else
    body += "%at = \"arith.muli\"(%id, %n) : (i32, i32) -> i32\n";
  body +=
      "%r = \"tt.make_range\"() <{start = 0 : i32, end = 1024 : i32}> : () -> tensor<1024xi32>\n";
  for (const std::string name : {"%x", "%o"}) {
    body += name + "q = \"tt.addptr\"(" + name + ", %at) : (!tt.ptr<f32>, " + type +
            ") -> !tt.ptr<f32>\n" + name + "b = \"tt.splat\"(" + name +
            "q) : (!tt.ptr<f32>) -> tensor<1024x!tt.ptr<f32>>\n" + name + "p = \"tt.addptr\"(" +
            name + "b, %r) : (tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>) -> " +
            "tensor<1024x!tt.ptr<f32>>\n";
  }
  body +=
      "%v = \"tt.load\"(%xp) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : "
      "(tensor<1024x!tt.ptr<f32>>) -> tensor<1024xf32>\n"
      "%one = \"arith.constant\"() <{value = dense<1.0> : tensor<1024xf32>}> : () -> "
      "tensor<1024xf32>\n"
      "%s = \"arith.addf\"(%v, %one) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>\n"
      "\"tt.store\"(%op, %s) : (tensor<1024x!tt.ptr<f32>>, tensor<1024xf32>) -> ()\n";
  return kernel_text("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32", body);
}

LaunchResult dry_rows(const Kernel& kernel, std::int64_t rows, std::int32_t columns,
                      std::int64_t elements) {
  const Nowhere x(elements * 4);
  const Nowhere o(elements * 4);
  Launch launch;
  launch.kernel = &kernel;
  launch.grid = {rows, 1, 1};
  launch.storages.resize(2);
  launch.storages[0].name = "x";
  launch.storages[1].name = "o";
  launch.storages[0].outside = x.bytes();
  launch.storages[1].outside = o.bytes();
  launch.arguments.resize(3);
  launch.arguments[0].storage = 0;
  launch.arguments[1].storage = 1;
  std::memcpy(launch.arguments[2].value.bytes.data(), &columns, sizeof(columns));
  RunOptions options;
  options.device = load_device("h100");
  options.dry = true;
  return run_launch(launch, options);
}

}  // namespace

TEST_CASE("a dry run of 2^31 elements touches none and counts all", "[triton][dry]") {
  constexpr std::int64_t kRows = std::int64_t{1} << 17;
  constexpr std::int32_t kColumns = 1 << 14;
  constexpr std::int64_t kElements = kRows * kColumns;
  for (const bool regular : {true, false}) {
    CAPTURE(regular);
    const std::int64_t rows = regular ? kRows : 512;
    const auto kernel = [&](bool wide) {
      return plan_kernel(load_module(rows_text(wide), "the test's module"), Profile::exact, true,
                         regular);
    };
    const LaunchResult wide = dry_rows(*kernel(true), rows, kColumns, kElements);
    for (const Diagnostic& d : wide.run.diagnostics) FAIL(d.text());
    CHECK(wide.run.dry);
    CHECK(wide.run.ledger().hbm_read_bytes() == rows * 1024 * 4);
    CHECK(wide.run.ledger().hbm_write_bytes() == rows * 1024 * 4);
    CHECK(wide.run.flops == rows * 1024);
  }
}

TEST_CASE("a row's offset of 32 bits wraps at 2^31 elements, and is told by a dry run",
          "[triton][dry]") {
  constexpr std::int64_t kRows = (std::int64_t{1} << 17) + 1;
  constexpr std::int32_t kColumns = 1 << 14;
  const auto kernel = [](bool wide) {
    return plan_kernel(load_module(rows_text(wide), "the test's module"));
  };
  const LaunchResult narrow = dry_rows(*kernel(false), kRows, kColumns, kRows * kColumns);
  REQUIRE(narrow.run.diagnostics.size() == 1);
  CHECK(narrow.run.diagnostics[0].slug == "oob-index");
  const std::string text = narrow.run.diagnostics[0].text();
  CHECK(text.find("depends on an offset that does not fit its type, and wraps") !=
        std::string::npos);
  CHECK(text.find("grid (x=131072, y=0, z=0)") != std::string::npos);
  // The good twins: in 64 bits, and a row less.
  CHECK(dry_rows(*kernel(true), kRows, kColumns, kRows * kColumns).run.ok());
  CHECK(dry_rows(*kernel(false), kRows - 1, kColumns, kRows * kColumns).run.ok());
  // An allocation that ends too early.
  const LaunchResult late = dry_rows(*kernel(true), kRows, kColumns, kRows * kColumns - kColumns);
  REQUIRE(late.run.diagnostics.size() == 1);
  CHECK(late.run.diagnostics[0].slug == "oob-index");
}

TEST_CASE("a loop writes through the pointer that it stores through alone", "[triton][dry]") {
  // `swapped`: the loop carries them crosswise, so that both are stored through.
  const auto written = [](bool swapped) {
    const std::string next = swapped ? "%g, %f" : "%f, %g";
    const std::string loop =
        "%b = \"arith.constant\"() <{value = 0 : i32}> : () -> i32\n"
        "%c = \"arith.constant\"() <{value = 1 : i32}> : () -> i32\n"
        "%r:2 = \"scf.for\"(%b, %n, %c, %x, %y) ({\n"
        "^bb0(%i: i32, %f: !tt.ptr<f32>, %g: !tt.ptr<f32>):\n"
        "%v = \"tt.load\"(%f) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<f32>) -> "
        "f32\n"
        "\"tt.store\"(%g, %v) : (!tt.ptr<f32>, f32) -> ()\n"
        "\"scf.yield\"(" +
        next +
        ") : (!tt.ptr<f32>, !tt.ptr<f32>) -> ()\n"
        "}) : (i32, i32, i32, !tt.ptr<f32>, !tt.ptr<f32>) -> (!tt.ptr<f32>, !tt.ptr<f32>)\n";
    const auto kernel = plan_kernel(load_module(
        kernel_text("%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32", loop), "the test's module"));
    return std::pair(kernel->parameters.at(0).written, kernel->parameters.at(1).written);
  };
  CHECK(written(false) == std::pair(false, true));
  CHECK(written(true) == std::pair(true, true));
}

TEST_CASE("dry runs of real kernels ask for what runs ask for", "[triton][corpus][dry]") {
  int same = 0;
  int refused = 0;
  int all = 0;
  for (const std::string& folder : corpus()) {
    const std::string name = std::filesystem::path(folder).filename();
    CAPTURE(name);
    Case c = read_case(folder);
    Launch dry = c.launch;
    RunOptions options;
    options.threads = 1;
    const LaunchResult r = run_launch(c.launch, options);
    if (!r.run.ok()) continue;
    ++all;
    options.dry = true;
    LaunchResult d;
    try {
      d = run_launch(dry, options);
    } catch (const InputError& e) {
      std::cerr << "no dry run of " << name << ": " << e.text() << "\n";
      ++refused;
      continue;
    }
    if (!d.run.ok()) {
      const Diagnostic& why = d.run.diagnostics.front();
      CHECK(why.kind == Diagnostic::Kind::unsupported);
      std::cerr << "no dry run of " << name << ": " << why.headline << "\n";
      ++refused;
      continue;
    }
    ++same;
    REQUIRE(d.lines.size() == r.lines.size());
    for (std::size_t i = 0; i < r.lines.size(); ++i) {
      CHECK(d.lines[i].storage == r.lines[i].storage);
      CHECK(d.lines[i].requested.times == r.lines[i].requested.times);
      CHECK(d.lines[i].requested.read_bytes == r.lines[i].requested.read_bytes);
      CHECK(d.lines[i].requested.written_bytes == r.lines[i].requested.written_bytes);
    }
    CHECK(d.run.flops == r.run.flops);
    for (std::size_t k = 0; k < dry.storages.size(); ++k) {
      const Array before = read_case(folder).launch.storages[k].data;
      CHECK(std::memcmp(before.bytes(), dry.storages[k].data.bytes(),
                        static_cast<std::size_t>(before.size_bytes())) == 0);
    }
  }
  if (all == 0) return;
  CHECK(same >= 225);
  CHECK(same + refused == all);
}

}  // namespace tessera::triton
