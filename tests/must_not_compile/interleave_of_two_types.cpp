// expect: element types differ
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = split_rows<2>(interleave_rows(*x, *h)).first;
#else
    *o = split_rows<2>(interleave_rows(*x, cast<float>(*h))).first;
#endif
  });
}
