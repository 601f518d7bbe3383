// expect: bits are those of integers
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = cast<float>(*x & 1);
#else
    *o = cast<float>(cast<std::int32_t>(*x) & 1);
#endif
  });
}
