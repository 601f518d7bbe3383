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
    auto one = [](auto) { return at(0, 0); };
    return tessera::spec(grid(parallel(1)), in<float>("x", shape(8, 128), block(bm, bn), one),
                         out<bf16>("o", shape(8, 128), block(bm, bn), one));
  }
  void operator()(auto&, auto x, auto o) const {
    auto v = *x + 0.5f;
    auto narrow = cast<bf16>(v);
    *o = narrow;  // gdb stops here
  }
};

int main() {
  Array x(DType::f32, {8, 128});
  for (int i = 0; i < 8 * 128; ++i) x.data<float>()[i] = static_cast<float>(i % 128);
  return run(Stepped{}, tiles(8, 128), arrays(x)).ok() ? 0 : 1;
}
