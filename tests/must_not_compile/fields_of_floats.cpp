// expect: fields are those of u32 and i32
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = cast<float>(unpack_rows<16>(split_rows<2>(*x).first));
#else
    *o = cast<float>(unpack_rows<16>(bitcast<std::int32_t>(split_rows<2>(*x).first)));
#endif
  });
}
