// The two calls of OpenBLAS that we compare with. (Its cblas.h clashes with nothing, but is not
// installed in one place on every Debian.)
#pragma once

extern "C" {
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
void openblas_set_num_threads(int threads);
}

namespace tessera::bench {

/// c += a @ b, row-major, square.
inline void sgemm(int n, const float* a, const float* b, float* c) {
  cblas_sgemm(101, 111, 111, n, n, n, 1.f, a, n, b, n, 1.f, c, n);
}

}  // namespace tessera::bench
