// Stopped in gdb by print_tiles.gdb.
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/cast.hpp"
#include "sim/run.hpp"

using namespace tessera;

struct Stepped {
  static constexpr KernelInfo info{.name = "stepped", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("bm"), tile("bn"));
  auto spec(auto bm, auto bn) const {
    auto one = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(arbitrary(2)), in<float>("x", shape(16, 128), block(bm, bn), one),
                         out<bf16>("o", shape(16, 128), block(bm, bn), one));
  }
  void operator()(auto&, auto x, auto o) const {
    auto v = *x + 0.5f;
    auto narrow = cast<bf16>(v);
    *o = narrow;  // gdb stops here
  }
};

int main() {
  Array x(DType::f32, {16, 128});
  for (int i = 0; i < 16 * 128; ++i)
    x.data<float>()[i] = static_cast<float>(i % 128 + 1000 * (i / 1024));
  return run(Stepped{}, tiles(8, 128), arrays(x)).ok() ? 0 : 1;
}
