// expect: counters are u32
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = *x + cast<float>(philox({1, 2}, *x, *x, *x, *x).word[0]);
#else
    *o = *x + cast<float>(random_bits({1, 2}, row_ids(*x), col_ids(*x)));
#endif
  });
}
