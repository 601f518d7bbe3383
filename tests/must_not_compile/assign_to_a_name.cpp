// expect: use of deleted function
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    auto v = *o;
    v = *x;  // wrong
    *o = v;
#else
    *o = *x;
#endif
  });
}
