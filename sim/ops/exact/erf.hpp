// The error function of f32, correctly rounded.
//
// Around each multiple c of 1/4 up to 4: erf(c + d) = erf(c) + d P(d) with |d| <= 1/8, P of degree
// 10 through the Chebyshev points, within 2^-54.7 of its function; around 0 P is even. From 3.92 on
// the result is 1.
#pragma once

#include "sim/ops/exact/f64.hpp"

namespace tessera::exact {

/// 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.
TESSERA_FN float erf(float x) {
  constexpr int kCenters = 17;
  constexpr int kTerms = 12;
  // Of each center: P, the highest power first, then erf(c).
  static constexpr double kRows[kCenters][kTerms] = {
      {-0x1.bd78cc666c405p-11, 0, 0x1.565a72faeef0ep-8, 0, -0x1.b82ce27b33877p-6, 0,
       0x1.ce2f21a027b9cp-4, 0, -0x1.812746b0379d1p-2, 0, 0x1.20dd750429b6dp+0, 0},
      {-0x1.64e1a729e3cb1p-12, -0x1.e2aff1b483b22p-10, 0x1.5561615f5be2ap-9, 0x1.3db5582de1d05p-7,
       -0x1.08d9469f6ac37p-6, -0x1.4c0b24857ee6ap-5, 0x1.47e5cfee3897cp-4, 0x1.040e8a6d61d72p-3,
       -0x1.3c974458cbdf0p-2, -0x1.0f5d1602f7e0cp-2, 0x1.0f5d1602f7e41p+0, 0x1.1af54e232d609p-2},
      {0x1.02d74bb67f001p-11, -0x1.993a7df05e4eap-10, -0x1.1c145cc8af867p-9, 0x1.493c2df577ffcp-7,
       0x1.623c5fd34be61p-8, -0x1.99f13aab4b9d3p-5, 0x1.dfeeb5a514aa3p-8, 0x1.76f27de7f37adp-3,
       -0x1.2bf531866e02ap-3, -0x1.c1efca49a4feep-2, 0x1.c1efca49a5011p-1, 0x1.0a7ef5c18edd2p-1},
      {0x1.4571f5f9a8528p-11, 0x1.7c9fab7955f9dp-13, -0x1.040f832a342d7p-8, 0x1.2db592c56665ep-9,
       0x1.2e0afaac87261p-6, -0x1.b84779eb8b105p-6, -0x1.b42a1890ac431p-5, 0x1.349b5eaa2034bp-3,
       0x1.b6e8591f66d82p-6, -0x1.edc5644353c3ap-2, 0x1.492e42d78d2c5p-1, 0x1.6c1c9759d0e5fp-1},
      {0x1.6a0f563957f73p-14, 0x1.3f37c151b307ep-10, -0x1.ee31af3241a67p-10, -0x1.390f0851c925cp-8,
       0x1.f096fd9edb095p-7, 0x1.2e45a178ef2b4p-8, -0x1.1b614b0f56abcp-4, 0x1.1b614b0f7f59ap-4,
       0x1.1b614b0f52820p-3, -0x1.a911f096fbc4ap-2, 0x1.a911f096fbc26p-2, 0x1.af767a741088bp-1},
      {-0x1.512f8b788d201p-12, 0x1.9ed6b0b64ec5cp-11, 0x1.cc1d52cfae4a1p-11, -0x1.75669488ed1d1p-8,
       0x1.db43cba33fc69p-9, 0x1.5d00036cc13afp-6, -0x1.8281ce0b4e02ap-5, -0x1.93a9a7bac04d2p-8,
       0x1.571d01c5c56d2p-3, -0x1.2ebf3dcc9f239p-2, 0x1.e4652fadcb6b2p-3, 0x1.d8865d98abe01p-1},
      {-0x1.09ffaeb3a7bf5p-12, -0x1.77c746665451dp-14, 0x1.c0373ce0746a5p-10, -0x1.35b00b5938ec8p-9,
       -0x1.36d73a0721a35p-8, 0x1.3ca3d78d94915p-6, -0x1.e723726ba2b22p-7, -0x1.6d5a95d0c474ap-5,
       0x1.1c2a02beb6abep-3, -0x1.6d5a95d0a1b63p-3, 0x1.e723726b824a9p-4, 0x1.eea5557137ae0p-1},
      {-0x1.a048324a975cep-18, -0x1.cd2b4efb721b9p-12, 0x1.d4d0a0e4d468ep-11, 0x1.7ebba58922112p-11,
       -0x1.8d10fbc442f35p-8, 0x1.25b37975f71e0p-7, 0x1.b22257dd40853p-8, -0x1.8a0da54324ef9p-5,
       0x1.7148c3d57c306p-4, -0x1.7a4a8a2bdcde1p-4, 0x1.b055303221015p-5, 0x1.f92d077f8d56dp-1},
      {0x1.b04d5fb78abbep-14, -0x1.1353eb06b2951p-12, -0x1.a454f83e795fep-15, 0x1.a113f64b9287ap-10,
       -0x1.bae0ac411c78dp-9, 0x1.e19360596547dp-12, 0x1.ace7404c4855dp-7, -0x1.1a2c59757d1ffp-5,
       0x1.8b0ae3a47890cp-5, -0x1.529b9e8cf9a16p-5, 0x1.529b9e8cf9a1ep-6, 0x1.fd9ae142795e3p-1},
      {0x1.10f39262ce1c2p-14, -0x1.a154ef9979ffbp-17, -0x1.83528e21f77aep-12, 0x1.0603e78104780p-10,
       -0x1.5f8313ee28a89p-11, -0x1.7cae0e294acc5p-9, 0x1.5d3b17bbe3697p-7, -0x1.38a9832774bdcp-6,
       0x1.63ef61e824421p-6, -0x1.074b60f8df38ap-6, 0x1.d4143a9dfe965p-8, 0x1.ff404760319b4p-1},
      {0x1.6636faaf5a527p-18, 0x1.47fae69a91391p-14, -0x1.067250245f7aep-12, 0x1.1157a7420587dp-12,
       0x1.1c610c87f5293p-11, -0x1.6ecdbff5d0cc9p-9, 0x1.90e81283e9dd4p-8, -0x1.1a89b97cd16a0p-7,
       0x1.119da0c46ccccp-7, -0x1.64e3dcd3af55dp-8, 0x1.1d83170fbf6fbp-9, 0x1.ffcaa8f4c9beap-1},
      {-0x1.07e0a0588e8f8p-16, 0x1.ccf400650e010p-15, -0x1.2abd2cb380cf7p-14,
       -0x1.7556a6a1358b6p-14, 0x1.52b626ab8c2a5p-11, -0x1.b2755c13cfa12p-10, 0x1.6935960651773p-9,
       -0x1.ab0c273aba642p-9, 0x1.69cf466ccdfa0p-9, -0x1.a6a519a114da3p-10, 0x1.3360ccd23db3ap-11,
       0x1.fff2cfb0453d9p-1},
      {-0x1.69fd443d338bbp-17, 0x1.082c406f79332p-16, 0x1.d2a27d9747357p-17, -0x1.1aa6f85d4003bp-13,
       0x1.998b47d0d740fp-12, -0x1.82f23536b2b4ap-11, 0x1.0a7b5546b3334p-10, -0x1.11c85b1ebb615p-10,
       0x1.9db74b1d1dceap-11, -0x1.b60d5e974c992p-12, 0x1.2408e9ba3327fp-13, 0x1.fffd1ac4135f9p-1},
      {-0x1.839750308fac8p-19, -0x1.2d9789844a0f8p-19, 0x1.b2c4b309fd6d0p-16,
       -0x1.5675d94105487p-14, 0x1.647f71c3fa0adp-13, -0x1.1454645063e15p-12, 0x1.490a4d232e206p-12,
       -0x1.2c7d5ef0c1c0bp-12, 0x1.9aa489e3cac57p-13, -0x1.8de3cd290a242p-14, 0x1.e9b5e8d00ce77p-16,
       0x1.ffff6f9f67e55p-1},
      {0x1.cf92552106f6dp-22, -0x1.362a9fbd69632p-18, 0x1.013604cfc78ddp-16, -0x1.1f63a9e498b84p-15,
       0x1.e827fa37a1ab6p-15, -0x1.46153f2904f9ap-14, 0x1.586bafc9ff2e1p-14, -0x1.1c07721b2f436p-14,
       0x1.62ccea63caf07p-15, -0x1.3d0e43d673c34p-16, 0x1.6a597219a93dap-18, 0x1.ffffe710d565ep-1},
      {0x1.9eee30a19de2dp-21, -0x1.5dec64b3ac7d5p-19, 0x1.99f6701aeb0f3p-18, -0x1.75663c1ac70cap-17,
       0x1.110de4513d705p-16, -0x1.4357b5c6ae80ep-16, 0x1.3436bc9ff9e44p-16, -0x1.d06f585ff0dc3p-17,
       0x1.0b6a7b0f1b430p-17, -0x1.bba3ac4cf8c98p-19, 0x1.d9371e2ff7c35p-21, 0x1.fffffc2f171e3p-1},
      {0x1.af212e909e2a0p-22, -0x1.05d7c6130f1cfp-20, 0x1.f4239a0707b2ep-20, -0x1.88c4eaf23d125p-19,
       0x1.fd7c661f5c2dcp-19, -0x1.105055e2901c1p-18, 0x1.da5f10dbd4accp-19, -0x1.4980e24f11860p-19,
       0x1.603a5308c5407p-20, -0x1.10b1488aede78p-21, 0x1.10b1488aeb235p-23, 0x1.ffffff7b91176p-1}};
  double v = std::fabs(static_cast<double>(x));
  v = v > 4 ? 4 : v;
  const double shifted = (v == v ? v : 0.0) * 4 + kToInteger;
  const double* const row = kRows[std::bit_cast<std::uint64_t>(shifted) & 31];
  const double d = v - 0.25 * (shifted - kToInteger);
  double p = row[0];
  for (int i = 1; i < kTerms - 1; ++i) p = std::fma(p, d, row[i]);
  const double y = std::fma(p, d, row[kTerms - 1]);
  return static_cast<float>(std::copysign(y, static_cast<double>(x)));
}

}  // namespace tessera::exact
