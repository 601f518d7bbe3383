// expect: an accumulator is read and written whole
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *acc = 0.f;
    *o = *x + *acc.row(0);
#else
    *acc = 0.f;
    *o = *x + *acc;
#endif
  });
}
