// expect: error
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *x = 1.f;
    *o = *x;
#else
    *o = 1.f;
#endif
  });
}
