// expect: a power of two of entries
#include "tests/must_not_compile/preamble.hpp"
int main() {
  probe([](auto& env, auto x, auto h, auto o, auto acc) {
    (void)env, (void)h, (void)acc;
#ifdef BAD
    *o = lookup(cast<std::int32_t>(*x), lookup_table(1.f, 2.f, 3.f));
#else
    *o = lookup(cast<std::int32_t>(*x), lookup_table(1.f, 2.f, 3.f, 4.f));
#endif
  });
}
