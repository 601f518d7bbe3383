// Kernels whose bodies do not end, or end the program (tests/cli/ill_behaved.sh).
#include <array>
#include <cstdio>
#include <vector>

#include "cli/app.hpp"
#include "kernels/entry.hpp"
#include "sim/ops/add.hpp"

namespace {

using namespace tessera;

/// What a mode of bad behaviour does.
enum class Mode { nothing, loop_of_reads, empty_loop, null, deep, twice_wrong };

volatile int* nowhere = nullptr;
volatile bool for_ever = true;

[[gnu::noinline]] int deeper(int n) {
  std::array<volatile char, 4096> here;
  here[0] = static_cast<char>(n);
  return n < 0 ? 0 : deeper(n + 1) + here[0];
}

template <class T>
struct IllBehaved {
  static constexpr KernelInfo info{.name = "ill_behaved", .summary = "", .math = ""};
  int mode = 0;
  int blocks = 0;
  static constexpr auto sizes = params(size("mode", &IllBehaved::mode, "see Mode"),
                                       size("blocks", &IllBehaved::blocks, "steps"));
  static constexpr auto tiles = kNoTiles;
  static constexpr std::array cases{Case{"well", {0, 4}, {}}};
  auto spec() const {
    const auto map = [](auto i) { return at(i, 0); };
    return tessera::spec(
        grid(parallel(blocks).as("i")),
        in<T>("x", shape(8 * blocks, Int<128>{}), block(Int<8>{}, Int<128>{}), map),
        out<T>("y", shape(8 * blocks, Int<128>{}), block(Int<8>{}, Int<128>{}), map));
  }
  Bytes hbm_bytes(const Tiles&, Target) const {
    return {blocks * 8 * 128 * kBytes<T>, blocks * 8 * 128 * kBytes<T>};
  }
  void operator()(auto& env, auto x, auto y) const {
    *y = *x;
    const auto m = static_cast<Mode>(mode);
    env.check(m != Mode::twice_wrong || env.program_id(0) != 1, "the second step is right");
    env.check(m != Mode::twice_wrong || env.program_id(0) != 3, "the last step is right");
    if (env.program_id(0) != 2) return;
    if (m == Mode::loop_of_reads) {
      while (for_ever) *y = *x;
    }
    while (m == Mode::empty_loop && for_ever) {
    }
    if (m == Mode::null) *nowhere = 1;
    if (m == Mode::deep) *nowhere = deeper(0);
  }
};

}  // namespace

int main(int argc, char** argv) {
  return cli::run_app(argc, argv,
                      {cli::handle<float>(entry<IllBehaved>(
                          [](const auto&, const OracleInputs& in) -> reference::Expected {
                            return {in["x"], in["x"]};
                          }))});
}
