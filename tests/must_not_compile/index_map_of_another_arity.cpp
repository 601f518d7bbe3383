// expect: the index map of operand 1 of the spec takes another number of program ids
#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/run.hpp"
using namespace tessera;
struct Probe {
  static constexpr KernelInfo info{.name = "probe", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("b"));
  auto spec(auto b) const {
    const auto rows = [](auto i) { return at(i, 0); };
    const auto all = shape(32, 128);
    const auto o = out<float>("o", all, block(b, 128), rows);
#ifdef BAD
    const auto x = in<float>("x", all, block(b, 128), [](auto i, auto j) { return at(i, j); });
    return tessera::spec(grid(parallel(4)), x, o);  // wrong
#else
    const auto x = in<float>("x", all, block(b, 128), rows);
    return tessera::spec(grid(parallel(4)), x, o);
#endif
  }
  void operator()(auto&, auto x, auto o) const { *o = *x; }
};
int main() {
  const Array x(DType::f32, {32, 128});
  (void)run(Probe{}, tiles(8), arrays(x));
}
