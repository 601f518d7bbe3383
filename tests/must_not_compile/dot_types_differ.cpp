// expect: cast<T>() one of them
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *acc = dot(*x, *h);
    *o = *acc;
#else
    *acc = dot(*x, cast<float>(*h));
    *o = *acc;
#endif
  });
}
