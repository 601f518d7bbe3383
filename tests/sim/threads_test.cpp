// What host threads must not change. Run under TSan too.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>

#include "kernels/matmul.hpp"
#include "sim/ops/all.hpp"
#include "sim/pipeline/threads.hpp"
#include "sim/run.hpp"
#include "tests/sim/counting.hpp"

using namespace tessera;

namespace {

struct Talkative {
  static constexpr KernelInfo info{.name = "talkative", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bn"));
  auto spec(auto bn) const {
    return tessera::spec(grid(parallel(40).as("i")),
                         out<float>("o", shape(40 * bn), block(bn), [](auto i) { return at(i); }));
  }
  void operator()(auto& env, auto o) const {
    auto region = env.scope("write");
    *o = static_cast<float>(env.program_id(0));
    env.print("cell", env.program_id(0), "of", env.num_programs(0));
    env.check(env.program_id(0) < 40, "never");
  }
};

/// How often each of n was called.
std::vector<int> calls(std::int64_t n, int threads) {
  std::vector<int> counts(static_cast<std::size_t>(n));
  each_on_threads(n, threads, [&](std::int64_t i) { ++counts[static_cast<std::size_t>(i)]; });
  return counts;
}

}  // namespace

TEST_CASE("a loop on threads calls its body once for each", "[sim][threads]") {
  for (const int threads : {1, 2, 5}) {
    for (const std::int64_t n : {0, 1, 3, 1000}) {
      CAPTURE(threads, n);
      CHECK(calls(n, threads) == std::vector<int>(static_cast<std::size_t>(n), 1));
    }
  }
}

TEST_CASE("threads that give their processor away between long bodies come back",
          "[sim][threads]") {
  std::vector<int> counts(12);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  each_on_threads(12, 3, [&](std::int64_t i) {
    const int now = ++inside;
    for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++counts[static_cast<std::size_t>(i)];
    --inside;
  });
  CHECK(counts == std::vector<int>(12, 1));
  CHECK(most <= 3);
}

TEST_CASE("loops on threads run beside each other, and within each other", "[sim][threads]") {
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      std::vector<int> sums(20);
      each_on_threads(20, 3, [&](std::int64_t i) {
        const std::vector<int> inner = calls(50, 3);
        sums[static_cast<std::size_t>(i)] = std::accumulate(inner.begin(), inner.end(), 0);
      });
      right += sums == std::vector<int>(20, 50) ? 1 : 0;
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(right == 4);
}

TEST_CASE("results and ledgers are the same for every thread count and device order",
          "[sim][threads]") {
  const Array x = counting({200, 260});
  const Array y = counting({260, 300}, 777);
  for (const char* device : {"tpu-v5e", "h100"}) {
    for (const int bk : {128, 384}) {  // 384: one block of k, so that blocks stay from cell to cell
      RunOptions options{.device = load_device(device), .threads = 1};
      const kernels::Matmul<float> kernel{200, 300, 260};
      const Tiles t = tiles(32, 128, device[0] == 't' ? bk : bk / 4);
      const auto one = run(kernel, t, arrays(x, y), options);
      REQUIRE(one.ok());
      for (const int threads : {2, 3, 7}) {
        options.threads = threads;
        const auto many = run(kernel, t, arrays(x, y), options);
        REQUIRE(many.ok());
        CHECK(same_bits(one.outputs[0], many.outputs[0]));
        CHECK(one.flops == many.flops);
        for (std::size_t i = 0; i < one.ledger().refs().size(); ++i) {
          CHECK(one.ledger().refs()[i].transfers == many.ledger().refs()[i].transfers);
          CHECK(one.ledger().refs()[i].bytes == many.ledger().refs()[i].bytes);
          CHECK(one.ledger().refs()[i].elided == many.ledger().refs()[i].elided);
          CHECK(one.ledger().refs()[i].padded_bytes == many.ledger().refs()[i].padded_bytes);
        }
      }
    }
  }
}

TEST_CASE("prints come in grid order and scopes count for every thread count", "[sim][env]") {
  std::string expected;
  for (int i = 0; i < 40; ++i) expected += "cell " + std::to_string(i) + " of 40\n";
  for (const int threads : {1, 4}) {
    std::string printed;
    const auto result =
        run(Talkative{}, tiles(128), {},
            {.threads = threads, .print = [&](const std::string& s) { printed += s; }});
    REQUIRE(result.ok());
    CHECK(printed == expected);
    CHECK(result.scopes.at("write").entries == 40);
  }
}
