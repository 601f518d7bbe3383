// expect: element types differ: cast<T>(value)
#include "sim/ops/mul.hpp"
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)acc;
#ifdef BAD
    *o = *x * *h;  // wrong
#else
    *o = *x * cast<float>(*h);
#endif
  });
}
