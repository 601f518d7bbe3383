// Triton kernels as a GPU computes them (--profile gpu:hopper): what is fused, what is refused.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/diagnostics/diagnostic.hpp"
#include "tests/triton/recorded.hpp"
#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

const std::string kF32 = "tensor<4xf32>";
std::string two(const char* op) { return std::string(" = \"arith.") + op + "\""; }
std::string binary(const std::string& to, const char* op, const std::string& a,
                   const std::string& b) {
  return to + two(op) + "(" + a + ", " + b + ") : (" + kF32 + ", " + kF32 + ") -> " + kF32 + "\n";
}

/// The kernel's last storage: what it makes of three arrays, as that profile has it.
std::vector<double> made(const std::string& body, const std::vector<Array>& in, Profile profile,
                         bool fusion = true) {
  std::string arguments;
  std::string text;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string n = std::to_string(i);
    arguments += "%p" + n + ": !tt.ptr<f32>, ";
    text += load("%x" + n, "%p" + n, "4", "f32");
  }
  text += body + store("%y", "%q", "4", "f32");
  Launch launch;
  const auto kernel = plan_kernel(
      load_module(kernel_text(arguments + "%q: !tt.ptr<f32>", text), "the test's module"), profile,
      fusion);
  launch.kernel = kernel.get();
  for (std::size_t i = 0; i <= in.size(); ++i) {
    launch.arguments.push_back({{}, static_cast<int>(i), 0});
    launch.storages.push_back({"s" + std::to_string(i), i < in.size() ? in[i] : in[0]});
  }
  RunOptions options;
  options.device = load_device("h100");
  options.threads = 1;
  options.profile = profile;
  const LaunchResult r = run_launch(launch, options);
  REQUIRE(r.run.ok());
  std::vector<double> values;
  for (int i = 0; i < 4; ++i) values.push_back(launch.storages.back().data.at(i));
  return values;
}

const std::vector<Array>& arrays() {
  static const std::vector<Array> all = [] {
    std::vector<Array> a;
    for (const double first : {1.1, 0.7, -0.77}) {
      a.push_back(array_of(DType::f32, {4}, [&](auto i) { return first + 0.01 * double(i); }));
    }
    return a;
  }();
  return all;
}
float element(std::size_t array, int i) { return static_cast<float>(arrays()[array].at(i)); }

}  // namespace

TEST_CASE("a product and a sum in one block are one fused multiply-add", "[triton][gpu]") {
  const std::string product = binary("%m", "mulf", "%x0", "%x1");
  const std::string sum = product + binary("%y", "addf", "%m", "%x2");
  const std::string minus = product + binary("%y", "subf", "%x2", "%m");
  const auto exact = made(sum, arrays(), Profile::exact);
  const auto fused = made(sum, arrays(), Profile::gpu_hopper);
  const auto apart = made(sum, arrays(), Profile::gpu_hopper, false);
  const auto less = made(minus, arrays(), Profile::gpu_hopper);
  bool differ = false;
  for (int i = 0; i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float m = element(0, i) * element(1, i);
    CHECK(exact[at] == static_cast<double>(m + element(2, i)));
    CHECK(apart[at] == exact[at]);
    CHECK(fused[at] == static_cast<double>(std::fma(element(0, i), element(1, i), element(2, i))));
    CHECK(less[at] == static_cast<double>(std::fma(-element(0, i), element(1, i), element(2, i))));
    differ = differ || fused[at] != exact[at];
  }
  CHECK(differ);
}

TEST_CASE("of two products the one that fewer ops take is fused", "[triton][gpu]") {
  const std::string body = binary("%a", "mulf", "%x0", "%x1") + binary("%b", "mulf", "%x1", "%x2") +
                           binary("%d", "subf", "%a", "%b");
  const auto once =
      made(body + binary("%y", "maximumf", "%d", "%d"), arrays(), Profile::gpu_hopper);
  const auto shared = made(body + binary("%y", "addf", "%d", "%a"), arrays(), Profile::gpu_hopper);
  for (int i = 0; i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float x = element(0, i);
    const float y = element(1, i);
    const float z = element(2, i);
    CHECK(once[at] == static_cast<double>(std::fma(x, y, -(y * z))));
    CHECK(shared[at] == static_cast<double>(std::fma(x, y, std::fma(-y, z, x * y))));
  }
}

TEST_CASE("a function of libdevice that nobody modelled is refused", "[triton][gpu]") {
  const auto of = [](const std::string& name) {
    return "%y = \"tt.extern_elementwise\"(%x0) <{libname = \"\", libpath = \"\", pure = true, "
           "symbol = \"__nv_" +
           name + "\"}> : (" + kF32 + ") -> " + kF32 + "\n";
  };
  CHECK(made(of("tanhf"), arrays(), Profile::gpu_hopper).size() == 4);
  CHECK(made(of("atanf"), arrays(), Profile::exact).size() == 4);
  try {
    made(of("atanf"), arrays(), Profile::gpu_hopper);
    FAIL("it ran");
  } catch (const KernelError& e) {
    CHECK(e.diagnostic.kind == Diagnostic::Kind::unmodelled);
    CHECK(e.diagnostic.headline.find("__nv_atanf") != std::string::npos);
  }
}

TEST_CASE("Triton kernels that an H200 ran, with its functions", "[triton][corpus]") {
  int exact = 0;
  int ran = 0;
  for (const std::string& folder : corpus()) {
    CAPTURE(folder);
    if (!std::filesystem::exists(folder + "/h200.npz")) continue;
    Case c = read_case(folder, Profile::gpu_hopper);
    RunOptions options;
    options.profile = Profile::gpu_hopper;
    if (!run_launch(c.launch, options).run.ok()) continue;
    bool bits = true;
    bool any = false;
    for (std::size_t k = 0; k < c.expected.size(); ++k) {
      const Array& got = c.launch.storages[k].data;
      if (!c.expected[k]) continue;
      const auto w = read_npz(folder + "/h200.npz", "out" + std::to_string(k), got.dtype());
      if (!w) continue;
      any = true;
      bits = bits && compare(got, *w).bits;
    }
    ran += any ? 1 : 0;
    exact += any && bits ? 1 : 0;
  }
  if (ran == 0) return;
  CHECK(ran == 179);
  CHECK(exact == 130);
}

}  // namespace tessera::triton
