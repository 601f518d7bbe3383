// expect: scan in f32
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)x, (void)h, (void)acc;
#ifdef BAD
    *o = cast<float>(linear_scan_rows(*h, *h));
#else
    *o = linear_scan_rows(cast<float>(*h), *x);
#endif
  });
}
