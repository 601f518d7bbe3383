// Modules that make no sense are refused, or run within their memory: never a crash.
#include <catch2/catch.hpp>
#include <random>

#include "sim/diagnostics/diagnostic.hpp"
#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

/// Loads, stores, an atomic, reductions, a scan, a product and shapes: no loop, which might not
/// end.
std::string rich() {
  const std::string body = load("%x", "%a", "4x16", "f32") + R"(
%t = "tt.trans"(%x) <{order = array<i32: 1, 0>}> : (tensor<4x16xf32>) -> tensor<16x4xf32>
%z = "arith.constant"() <{value = dense<0.0> : tensor<4x4xf32>}> : () -> tensor<4x4xf32>
%d = "tt.dot"(%x, %t, %z) <{inputPrecision = 0 : i32, maxNumImpreciseAcc = 0 : i32}> : (tensor<4x16xf32>, tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
%s = "tt.scan"(%d) <{axis = 1 : i32, reverse = false}> ({
^bb0(%p: f32, %q: f32):
  %m = "arith.addf"(%p, %q) : (f32, f32) -> f32
  "tt.scan.return"(%m) : (f32) -> ()
}) : (tensor<4x4xf32>) -> tensor<4x4xf32>
%r = "tt.reduce"(%s) <{axis = 0 : i32}> ({
^bb0(%p: f32, %q: f32):
  %m = "arith.maxnumf"(%p, %q) : (f32, f32) -> f32
  "tt.reduce.return"(%m) : (f32) -> ()
}) : (tensor<4x4xf32>) -> tensor<4xf32>
%j = "tt.join"(%r, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4x2xf32>
%l, %h = "tt.split"(%j) : (tensor<4x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
%c = "tt.cat"(%l, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
%i = "tt.make_range"() <{start = 0 : i32, end = 8 : i32}> : () -> tensor<8xi32>
%g = "tt.gather"(%c, %i) <{axis = 0 : i32}> : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>
%n = "tt.histogram"(%i) : (tensor<8xi32>) -> tensor<8xi32>
%e = "arith.constant"() <{value = dense<3> : tensor<8xi32>}> : () -> tensor<8xi32>
%on = "arith.cmpi"(%i, %e) <{predicate = 2 : i64}> : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
%bs = "tt.splat"(%b) : (!tt.ptr<f32>) -> tensor<8x!tt.ptr<f32>>
%bp = "tt.addptr"(%bs, %i) : (tensor<8x!tt.ptr<f32>>, tensor<8xi32>) -> tensor<8x!tt.ptr<f32>>
%old = "tt.atomic_rmw"(%bp, %g, %on) <{atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = 4 : i32}> : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>
%f = "arith.sitofp"(%n) : (tensor<8xi32>) -> tensor<8xf32>
%y = "tt.load"(%bp, %on, %f) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<8x!tt.ptr<f32>>, tensor<8xi1>, tensor<8xf32>) -> tensor<8xf32>
"tt.store"(%bp, %y, %on) : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xi1>) -> ()
)";
  return kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>", body);
}

}  // namespace

TEST_CASE("mutated kernels never crash", "[triton]") {
  const Module good = load_module(rich(), "the test's module");
  REQUIRE(launch_text(rich(), {array_of(DType::f32, {64}, [](auto i) { return double(i % 7); }),
                               Array(DType::f32, {64})})
              .ok());
  std::mt19937 draw(5);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw() % n); };
  int planned = 0;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    Module m = good;
    std::vector<Operation>& ops = m.functions[0].body.operations;
    for (int change = 0; change < 1 + static_cast<int>(below(2)); ++change) {
      Operation* op = &ops[below(ops.size())];
      if (!op->regions.empty() && below(2) == 0)
        op = &op->regions[0].operations[below(op->regions[0].operations.size())];
      switch (below(6)) {
        case 0:
          if (!op->operands.empty())
            op->operands[below(op->operands.size())] = static_cast<int>(below(m.values.size()));
          break;
        case 1:
          if (!op->operands.empty()) op->operands.pop_back();
          break;
        case 2:
          m.values[below(m.values.size())] = static_cast<int>(below(m.types.size()));
          break;
        case 3:
          op->name = ops[below(ops.size())].name;
          break;
        case 4: {
          Attributes all = op->attributes == nullptr ? Attributes() : *op->attributes;
          for (auto& [name, a] : all) {
            a.integer = static_cast<std::int64_t>(below(5)) - 1;
            for (std::int64_t& n : a.integers) n = static_cast<std::int64_t>(below(4)) - 1;
          }
          op->attributes = std::make_shared<const Attributes>(std::move(all));
          break;
        }
        default:
          if (!op->results.empty() && below(2) == 0)
            op->results.pop_back();
          else
            op->operands.push_back(static_cast<int>(below(m.values.size())));
      }
    }
    try {
      Launch launch;
      const auto kernel = plan_kernel(m);
      launch.kernel = kernel.get();
      launch.storages = {{"a", Array(DType::f32, {64}), false},
                         {"b", Array(DType::f32, {64}), false}};
      for (const Parameter& p : kernel->parameters) {
        Argument a;
        if (p.type.pointer) a.storage = static_cast<int>(launch.arguments.size());
        launch.arguments.push_back(a);
      }
      RunOptions options;
      options.threads = 1;
      run_launch(launch, options);
      ++planned;
    } catch (const InputError&) {
      ++refused;
    } catch (const KernelError&) {
      ++refused;
    }
  }
  CHECK(planned > 100);
  CHECK(refused > 1000);
}

}  // namespace tessera::triton
