// expect: no matching function for call to
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = full<float>(x.rows, x.cols, 1.f);
#else
    *o = full<float>(env, x.rows, x.cols, 1.f);
#endif
  });
}
