// Hopper's arithmetic against what a GPU computed (hopper.txt), and products of whole tiles against
// it step by step.
#include "sim/numerics/tensor_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/matmul.hpp"
#include "sim/ops/tensor_core.hpp"
#include "sim/run.hpp"

namespace tessera {

namespace {

constexpr int kLineBytes = 32;

std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }

struct Recorded {
  std::array<unsigned char, kLineBytes> a;
  std::array<unsigned char, kLineBytes> b;
  float c = 0;
  float by_mma = 0;
  float by_wgmma = 0;
};

std::map<std::string, std::vector<Recorded>> read_recorded() {
  std::ifstream file(TESSERA_HOPPER_RECORD);
  std::map<std::string, std::vector<Recorded>> of_type;
  const auto number = [](const std::string& text) {
    return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string type, a, b, c, by_mma, by_wgmma;
    words >> type >> a >> b >> c >> by_mma >> by_wgmma;
    Recorded r;
    for (std::size_t i = 0; i < kLineBytes; ++i) {
      r.a[i] = static_cast<unsigned char>(number(a.substr(2 * i, 2)));
      r.b[i] = static_cast<unsigned char>(number(b.substr(2 * i, 2)));
    }
    r.c = std::bit_cast<float>(number(c));
    r.by_mma = std::bit_cast<float>(number(by_mma));
    r.by_wgmma = std::bit_cast<float>(number(by_wgmma));
    of_type[type].push_back(r);
  }
  return of_type;
}

template <class T>
void compare(const std::vector<Recorded>& records) {
  constexpr TensorCoreStep kStep = hopper_step<T>();
  constexpr std::size_t kK = kLineBytes / sizeof(T);
  REQUIRE(records.size() == 64);
  for (const Recorded& r : records) {
    std::array<T, kK> a;
    std::array<T, kK> b;
    std::memcpy(a.data(), r.a.data(), kLineBytes);
    std::memcpy(b.data(), r.b.data(), kLineBytes);
    const float by_wgmma = tensor_core_add<kStep>(r.c, a.data(), 1, b.data(), 1, int{kK});
    CHECK(bits_of(by_wgmma) == bits_of(r.by_wgmma));
    float by_mma = by_wgmma;
    if constexpr (sizeof(T) == 1) by_mma = fp8_mma_sync(r.c, a.data(), b.data());
    CHECK(bits_of(by_mma) == bits_of(r.by_mma));
  }
}

template <class T>
std::vector<T> random_values(std::mt19937& rng, int count, int of_class) {
  std::vector<T> values;
  std::normal_distribution<float> normal;
  for (int i = 0; i < count; ++i) {
    float v = normal(rng);
    if (of_class == 1) v = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (of_class == 2) v = std::ldexp(v, static_cast<int>(rng() % 40) - 20);
    if (of_class == 3) v = static_cast<float>(static_cast<int>(rng() % 5) - 2);
    values.push_back(convert<T>(v));
  }
  return values;
}

}  // namespace

TEST_CASE("Hopper's tensor cores computed these bits", "[sim][tensor_core]") {
  const auto recorded = read_recorded();
  REQUIRE(recorded.size() == 5);
  compare<bf16>(recorded.at("bf16"));
  compare<f16>(recorded.at("f16"));
  compare<float>(recorded.at("tf32"));
  compare<f8e4m3fn>(recorded.at("f8e4m3fn"));
  compare<f8e5m2>(recorded.at("f8e5m2"));
}

TEST_CASE("a sum on a tensor core is cut, not rounded", "[sim][tensor_core]") {
  constexpr TensorCoreStep kStep = hopper_step<bf16>();
  const auto sum = [](float c, std::vector<float> products) {
    std::vector<bf16> a;
    for (const float p : products) a.push_back(convert<bf16>(p));
    const std::vector<bf16> ones(a.size(), convert<bf16>(1.f));
    return tensor_core_add<kStep>(c, a.data(), 1, ones.data(), 1, static_cast<int>(a.size()));
  };
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(sum(1, {0x1p-23f}) == 1 + 0x1p-23f);
  CHECK(sum(1, {0x1.8p-24f}) == 1);                               // nearest is 1 + 2^-23
  CHECK(sum(1, {0x1p-25f, 0x1p-25f, 0x1p-24f}) == 1 + 0x1p-23f);  // 25 bits are kept
  CHECK(sum(1, {0x1p-26f, 0x1p-26f, 0x1p-25f, 0x1p-24f}) == 1);   // and no more
  CHECK(sum(0x1p30f, {1, -0x1p30f}) == 0);                        // exactly 1
  CHECK(bits_of(sum(-0.f, {-0.f})) == 0);
  CHECK(sum(inf, {1}) == inf);
  CHECK(bits_of(sum(inf, {-inf})) == 0x7fffffff);
  CHECK(sum(0x1.fffffep127f, {0x1.fep127f}) == inf);
}

TEST_CASE("a kernel's products are those of the profile", "[sim][tensor_core]") {
  constexpr int kN = 64;
  std::mt19937 rng(7);
  auto a = random_values<bf16>(rng, kN * kN, 0);
  auto b = random_values<bf16>(rng, kN * kN, 0);
  // 2^25 + 1 - 2^25: a tensor core keeps the 1, which a chain rounds off.
  for (int j = 0; j < kN; ++j) {
    a[j] = convert<bf16>(j == 0 ? 0x1p25f : j == 1 ? 1.f : j == 2 ? -0x1p25f : 0.f);
    for (int p = 0; p < 3; ++p) b[p * kN + j] = convert<bf16>(1.f);
  }
  const auto array_of = [](const std::vector<bf16>& values) {
    Array array(DType::bf16, {kN, kN});
    std::memcpy(array.bytes(), values.data(), values.size() * sizeof(bf16));
    return array;
  };
  const Array x = array_of(a);
  const Array y = array_of(b);
  const auto product = [&](Profile profile) {
    const RunResult result =
        run(kernels::Matmul<bf16>{.m = kN, .n = kN, .k = kN}, tiles(32, kN, 16), arrays(x, y),
            {.device = load_device("h100"), .profile = profile});
    REQUIRE(result.ok());
    return result.outputs[0];
  };
  const Array exact = product(Profile::exact);
  const Array on_tensor_cores = product(Profile::tensorcore_hopper);
  int others = 0;
  int wrong = 0;
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      float chain = 0;
      for (int p = 0; p < kN; p += 16)
        sum = tensor_core_add<hopper_step<bf16>()>(sum, &a[i * kN + p], 1, &b[p * kN + j], kN, 16);
      for (int p = 0; p < kN; ++p)
        chain = std::fma(convert<float>(a[i * kN + p]), convert<float>(b[p * kN + j]), chain);
      const std::int64_t at = i * kN + j;
      wrong += static_cast<float>(on_tensor_cores.at(at)) != convert<float>(convert<bf16>(sum));
      wrong += static_cast<float>(exact.at(at)) != convert<float>(convert<bf16>(chain));
      others += on_tensor_cores.at(at) != exact.at(at);
    }
  }
  CHECK(wrong == 0);
  CHECK(others >= kN);
}

TEMPLATE_TEST_CASE("products of tiles are the steps of their elements", "[sim][tensor_core]", bf16,
                   f16, float, f8e4m3fn, f8e5m2) {
  constexpr TensorCoreStep kStep = hopper_step<TestType>();
  const auto [m, n, k] = GENERATE(table<int, int, int>({{3, 64, 64}, {2, 70, 40}, {1, 1, 7}}));
  std::mt19937 rng(static_cast<std::uint32_t>(n));
  for (int of_class = 0; of_class < 4; ++of_class) {
    const auto a = random_values<TestType>(rng, m * k, of_class);
    const auto b = random_values<TestType>(rng, k * n, of_class);
    const auto start = random_values<float>(rng, m * n, of_class);
    auto c = start;
    // b column by column: strides are honoured.
    tensor_core_accumulate<TestType>(c.data(), n, {a.data(), k, 1}, {b.data(), 1, k}, m, n, k);
    int wrong = 0;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float sum = start[static_cast<std::size_t>(i * n + j)];
        for (int p = 0; p < k; p += kStep.group) {
          sum = tensor_core_add<kStep>(sum, a.data() + i * k + p, 1, b.data() + j * k + p, 1,
                                       std::min(kStep.group, k - p));
        }
        wrong += bits_of(sum) != bits_of(c[static_cast<std::size_t>(i * n + j)]) ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace tessera
