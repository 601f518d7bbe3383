// expect: error
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
    *o = *x;
#ifdef BAD
    *x = *x + *x;
#else
    *o = *x + *x;
#endif
  });
}
