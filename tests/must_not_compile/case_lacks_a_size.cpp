// expect: every Case gives a value for each of the kernel's sizes and tiles
#include "cli/handle.hpp"
#include "kernels/entry.hpp"
using namespace tessera;
template <class T>
struct Copy {
  static constexpr KernelInfo info{.name = "copy", .summary = "", .math = ""};
  int rows = 0;
  int cols = 0;
  static constexpr auto sizes =
      params(size("rows", &Copy::rows, ""), size("cols", &Copy::cols, ""));
  static constexpr auto tiles = tile_names(tile("b"));
#ifdef BAD
  static constexpr std::array cases{Case{"aligned", {8}, {8}}};
#else
  static constexpr std::array cases{Case{"aligned", {8, 128}, {8}}};
#endif
  auto spec(auto b) const {
    const auto map = [](auto i) { return at(i, 0); };
    return tessera::spec(grid(parallel(ceil_div(rows, b))),
                         in<T>("x", shape(rows, cols), block(b, cols), map),
                         out<T>("y", shape(rows, cols), block(b, cols), map));
  }
  Bytes hbm_bytes(const Tiles&, Target) const { return {}; }
  void operator()(auto&, auto x, auto y) const { *y = *x; }
};
int main() {
  (void)cli::handle<float>(
      entry<Copy>([](const auto&, const OracleInputs&) { return reference::Expected{}; }));
}
