// expect: the body takes 3 arguments beside the env; its spec has 2 operands for it
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
    return tessera::spec(grid(parallel(4)), in<float>("x", all, block(8, 128), rows),
                         out<float>("o", all, block(8, 128), rows));
  }
#ifdef BAD
  void operator()(auto&, auto x, auto, auto o) const { *o = *x; }
#else
  void operator()(auto&, auto x, auto o) const { *o = *x; }
#endif
};
int main() {
  const Array x(DType::f32, {32, 128});
  (void)run(Probe{}, Tiles{}, arrays(x));  // wrong
}
