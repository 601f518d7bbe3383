// expect: the block of operand 1 of the spec has another number of extents than its index map
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/run.hpp"
using namespace tessera;
struct Probe {
  static constexpr KernelInfo info{.name = "probe", .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  auto spec() const {
    const auto rows = [](auto i) { return at(i, 0); };
    const auto all = shape(32, 128);
    const auto o = out<float>("o", all, block(8, 128), rows);
#ifdef BAD
    const auto x = in<float>("x", all, block(8), rows);
    return tessera::spec(grid(parallel(4)), x, o);  // wrong
#else
    const auto x = in<float>("x", all, block(8, 128), rows);
    return tessera::spec(grid(parallel(4)), x, o);
#endif
  }
  void operator()(auto&, auto x, auto o) const { *o = *x; }
};
int main() {
  const Array x(DType::f32, {32, 128});
  (void)run(Probe{}, Tiles{}, arrays(x));
}
