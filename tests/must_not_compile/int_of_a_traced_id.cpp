// expect: cannot convert
#include "mosaic/emit.hpp"
using namespace tessera;
struct Probe {
  static constexpr KernelInfo info{.name = "probe", .summary = "", .math = ""};
  static constexpr auto tiles = kNoTiles;
  auto spec() const {
    auto map = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(parallel(4)), in<float>("x", shape(32, 128), block(8, 128), map),
                         out<float>("o", shape(32, 128), block(8, 128), map));
  }
  void operator()(auto& env, auto x, auto o) const {
#ifdef BAD
    const int i = env.program_id(0);
#else
    const auto i = env.program_id(0);
#endif
    if (i == 0) *o = *x;
  }
};
int main() { (void)mosaic::emit(Probe{}, {}); }
