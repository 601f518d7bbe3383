// expect: bitcast keeps the number of bits
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = bitcast<float>(*h);
#else
    *o = bitcast<float>(bitcast<std::int32_t>(*x));
#endif
  });
}
