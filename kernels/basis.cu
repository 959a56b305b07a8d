// Change of RNS basis (Ring.Extend, DivRound) with the exact fixed-point rule:
// y_i = x_i*(S/q_i)^-1 mod q_i, v = (sum y_i*floor(2^56/q_i) + 2^55) >> 56,
// x = sum y_i*(S/q_i) - v*S.
#include "arith.cuh"

// digits: dst holds, for each polynomial, the limbs y_i and one more of v; a the
// residues x_i. constants: for each i 64 bits floor(2^56/q_i), then for each i four
// words: the factor (S/q_i)^-1, q_i, 0. Grid (polys*N/256, 1).
KERNEL(DigitArgs, 256, 4, basis_digits) {
  const Place at(p, 8);
  const u64* round = (const u64*)p.constants;
  const uint4* scale = (const uint4*)(round + p.sources + (p.sources & 1));
  const u32 c = at.i + threadIdx.x;
  const u32* a = p.a + at.poly * p.as + c;
  u32* d = p.dst + at.poly * p.ds + c;
  u64 v = 1ull << 55;
#pragma unroll 8
  for (u32 i = 0; i < p.sources; i++) {
    const uint4 s = __ldg(scale + i);
    const u32 y = mulc(a[(u64)i << p.logN], make_uint2(s.x, s.y), s.z);
    d[(u64)i << p.logN] = y;
    v += y * __ldg(round + i); // at most 255 terms below 2^56
  }
  d[(u64)p.sources << p.logN] = (u32)(v >> 56);
}

// extend: limbs of dst from the digits a, eight limbs a thread, so that a digit
// is read once for them. constants: for each eight limbs 48 + 8*sources words: -S mod
// p_j, the limb of b to copy or 2^32-1, the constants of p_j (four words each), and
// S/q_i mod p_j for each i. Grid (polys*N/256, limbs/8).
static const int G = 8;

DEV void digit(u64 (&acc)[G], u32 y, const uint4* h) {
  const uint4 a = __ldg(h), b = __ldg(h + 1);
  acc[0] += (u64)y * a.x; acc[1] += (u64)y * a.y; acc[2] += (u64)y * a.z; acc[3] += (u64)y * a.w;
  acc[4] += (u64)y * b.x; acc[5] += (u64)y * b.y; acc[6] += (u64)y * b.z; acc[7] += (u64)y * b.w;
}

KERNEL(BasisArgs, 256, 3, basis_extend) {
  const Place at(p, 8);
  const u32 first = blockIdx.y * G, c = at.i + threadIdx.x;
  const u32* x = p.constants + (u64)blockIdx.y * (6 * G + G * p.sources);
  const uint4* mods = (const uint4*)(x + 2 * G); // q, r32, r32s, ones
  const uint4* h = mods + G;
  const u32* y = p.a + at.poly * p.as + c;
  u64 acc[G];
  const u32 v = y[(u64)p.sources << p.logN];
#pragma unroll
  for (int j = 0; j < G; j++) acc[j] = (u64)v * __ldg(x + j); // below 2^38
  u32 i = 0;
  for (; i + 11 < p.sources; i += 11) { // 11 terms below 2^60, and 2^63
#pragma unroll
    for (int t = 0; t < 11; t++) digit(acc, y[(u64)(i + t) << p.logN], h + 2 * (i + t));
#pragma unroll
    for (int j = 0; j < G; j++) acc[j] = (acc[j] >> 32) * __ldg(&mods[j].y) + (u32)acc[j]; // below 2^63
  }
#pragma unroll 4
  for (; i < p.sources; i++) digit(acc, y[(u64)i << p.logN], h + 2 * i);
#pragma unroll
  for (int j = 0; j < G; j++) {
    if (first + j >= p.outputs) break;
    const u32 copy = __ldg(x + G + j);
    const uint4 k = __ldg(mods + j);
    Mod m;
    m.q = k.x; m.r32 = k.y; m.r32s = k.z; m.ones = k.w;
    u32 z = reduce(acc[j], m);
    if (copy != ~0u) z = p.b[at.poly * p.bs + ((u64)copy << p.logN) + c];
    p.dst[at.poly * p.ds + ((u64)(first + j) << p.logN) + c] = z;
  }
}
