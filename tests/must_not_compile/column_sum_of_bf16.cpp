// expect: reduce in f32
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = *x + cast<float>(col_sum(*h));
#else
    *o = *x + col_sum(cast<float>(*h));
#endif
  });
}
