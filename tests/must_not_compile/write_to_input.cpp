// expect: no match for ‘operator=’ (operand types are ‘tessera::Tile<float>’ and ‘float’)
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)x, (void)h, (void)acc;
#ifdef BAD
    *x = 1.f;  // wrong
    *o = *x;
#else
    *o = 1.f;
#endif
  });
}
