// expect: transpose() is an operand of dot
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *o = transpose(*x) + 1.f;
#else
    *o = load(transpose(*x)) + 1.f;
#endif
  });
}
