// expect: fields of 1, 2, 4, 8 or 16 bits
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = cast<float>(unpack_rows<3>(cast<std::int32_t>(*x)));
#else
    *o = cast<float>(split_rows<2>(unpack_rows<16>(cast<std::int32_t>(*x))).first);
#endif
  });
}
