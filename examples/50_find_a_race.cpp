// Double buffering with one semaphore for both slots: it works, until a copy overtakes another.
//
// A wait takes bytes off the semaphore; it does not say whose. With two copies under way on one
// semaphore, the wait for the first may be satisfied by the second.
#include <cstdio>

#include "sim/body/kernel.hpp"
#include "sim/body/spec.hpp"
#include "sim/ops/add.hpp"
#include "sim/run.hpp"

using namespace tessera;

struct SumBlocks {
  static constexpr KernelInfo info{.name = "sum_blocks", .summary = "", .math = "o = sum_i x[i]"};
  static constexpr auto tiles = tile_names(tile("rows"));
  int blocks;

  auto spec(auto rows) const {
    return tessera::spec(
        grid(arbitrary(blocks).as("i")), hbm_in<float>("x", shape(blocks * rows, 128)),
        out<float>("o", shape(rows, 128), block(rows, 128), [](auto) { return at(0, 0); }),
        vmem<float>("buf", 2, rows, 128), dma_sem("sem"));
  }
  void operator()(auto& env, auto x, auto o, auto buf, auto sem) const {
    const auto copy = [&](int i) {
      const auto slot = buf.slot(i % 2);
      // The bug: one semaphore for both slots. dma_sem("sem", 2) and sem[i % 2] is right.
      return make_async_copy(x.slice(ds(i * slot.rows, slot.rows), ds(0, 128)), slot, sem);
    };
    const int i = env.program_id(0);
    if (env.first(0)) copy(0).start();
    if (!env.last(0)) copy(i + 1).start();
    copy(i).wait();
    if (env.first(0)) *o = 0.f;
    *o += *buf.slot(i % 2);
  }
};

int main() {
  const Array x(DType::f32, {64, 128});
  const RunResult result = run(SumBlocks{8}, tiles(8), arrays(x));
  for (const auto& d : result.diagnostics) std::fputs(d.text().c_str(), stdout);
}
// clang-format off
/* expected output
error[race]: buf is read while a DMA may still be writing it
  kernel  sum_blocks, grid (i=0)
  read    examples/50_find_a_race.cpp:36  *o += *buf.slot(i % 2);
  write   examples/50_find_a_race.cpp:32  if (env.first(0)) copy(0).start();   DMA 0
  ref     buf: VMEM f32[16, 128]
  bytes   both touch [0, 4096)
  help    several transfers share sem, and a wait does not tell which of them is complete: give each its own
*/
