// expect: element types differ: assign cast<T>(value)
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *o = *h;  // wrong
#else
    *o = cast<float>(*h);
#endif
  });
}
