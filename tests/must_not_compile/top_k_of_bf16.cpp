// expect: top_k in f32
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)x, (void)h, (void)acc;
#ifdef BAD
    *o = cast<float>(top_k<8>(*h).values);
#else
    *o = top_k<8>(cast<float>(*h)).values;
#endif
  });
}
