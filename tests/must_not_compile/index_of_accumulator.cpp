// expect: at(i) is of inputs, outputs and vmem scratch
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)x, (void)h, (void)acc;
#ifdef BAD
    *o = *acc.at(0);
#else
    *o = *acc;
#endif
  });
}
