#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/all.hpp"
#include "sim/run.hpp"
using namespace tessera;
template <class Body>
struct Probe {
  static constexpr KernelInfo info{.name = "probe", .summary = "", .math = ""};
  static constexpr auto tiles = tile_names(tile("b"));
  Body body;
  auto spec(auto b) const {
    auto map = [](auto) { return at(0, 0); };
    return tessera::spec(grid(parallel(1)), in<float>("x", shape(b, b), block(b, b), map),
                         in<bf16>("h", shape(b, b), block(b, b), map),
                         out<float>("o", shape(b, b), block(b, b), map), accum<float>("acc", b, b));
  }
  void operator()(auto& env, auto x, auto h, auto o, auto acc) const { body(env, x, h, o, acc); }
};
template <class Body>
void probe(Body body) {
  const Array x(DType::f32, {8, 8});
  const Array h(DType::bf16, {8, 8});
  (void)run(Probe<Body>{body}, tiles(8), arrays(x, h));
}
