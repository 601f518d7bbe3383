// expect: round_tf32 is of f32
#include "sim/ops/tf32.hpp"
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)acc;
#ifdef BAD
    *o = round_tf32(*h);
#else
    *o = round_tf32(cast<float>(*h));
#endif
  });
}
