// expect: dot() is of floats and 8-bit integers
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto&, auto x, auto h, auto o, auto acc) {
    (void)h;
#ifdef BAD
    *acc = cast<float>(load(dot(cast<std::int32_t>(*x), cast<std::int32_t>(*x))));
#else
    *acc = cast<float>(load(dot(cast<std::int8_t>(*x), cast<std::int8_t>(*x))));
#endif
    *o = *acc;
  });
}
