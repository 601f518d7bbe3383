// expect: runs are the first arbitrary dimension, and others are behind it
#include "sim/body/grid.hpp"
using namespace tessera;
int main() {
#ifdef BAD
  (void)grid(parallel(3), arbitrary(2), runs(4));
#else
  (void)grid(parallel(3), runs(4), arbitrary(2));
#endif
}
