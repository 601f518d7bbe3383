// expect: an accumulator is read and written whole
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *acc = 0.f;
    *o = *acc.slice(ds(0, 8), ds(0, 8));
#else
    *acc = 0.f;
    *o = *acc;
#endif
  });
}
