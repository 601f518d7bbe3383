// expect: name it with load(dot(a, b))
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *o = dot(*x, *x) * 2.f;
#else
    *o = load(dot(*x, *x)) * 2.f;
#endif
  });
}
