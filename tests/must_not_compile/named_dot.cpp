// expect: dot() is a right-hand side
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    auto d = dot(*x, *x);
    *acc += d;
    *o = *acc;
#else
    auto d = load(dot(*x, *x));
    *acc = d;
    *o = *acc;
#endif
  });
}
