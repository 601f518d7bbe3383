// expect: parallel dimensions come before arbitrary ones
#include "sim/body/grid.hpp"
using namespace tessera;
int main() {
#ifdef BAD
  (void)grid(arbitrary(2), parallel(3));
#else
  (void)grid(parallel(3), arbitrary(2));
#endif
}
