// Change of RNS basis (Ring.Extend, DivRound) with the exact fixed-point rule:
// y_i = x_i*(S/q_i)^-1 mod q_i, v = (sum y_i*floor(2^56/q_i) + 2^55) >> 56,
// x = sum y_i*(S/q_i) - v*S.
#include "arith.cuh"

// digits: dst holds, for each polynomial, i0 limbs of y_i and one of v; a the
// residues x_i. x: i0 words of 64 bits floor(2^56/q_i), then i0 factors.
// Grid (polys*N/256, 1).
KERNEL(256, 4, basis_digits) {
  const Place at(p, 8);
  const u64* round = (const u64*)p.x;
  const uint2* scale = (const uint2*)(round + p.i0);
  const u32 c = at.i + threadIdx.x;
  const u32* a = p.a + at.poly * p.as + c;
  u32* d = p.dst + at.poly * p.ds + c;
  u64 v = 1ull << 55;
  for (u32 i = 0; i < p.i0; i++) {
    const u32 y = mulc(a[(u64)i << p.logN], __ldg(scale + i), p.mods[p.limbs[i]].q);
    d[(u64)i << p.logN] = y;
    v += y * __ldg(round + i); // at most 255 terms below 2^56
  }
  d[(u64)p.i0 << p.logN] = (u32)(v >> 56);
}

// extend: limb j of dst from the digits a. x: for each limb of dst i0+2 words:
// -S mod p_j, the limb of b to copy or 2^32-1, and S/q_i mod p_j. Grid
// (polys*N/256, limbs).
KERNEL(256, 4, basis_extend) {
  const Place at(p, 8);
  const u32* x = (const u32*)p.x + (u64)at.limb * (p.i0 + 2);
  const u32 c = at.i + threadIdx.x, copy = __ldg(x + 1);
  const Mod m = core(p.mods + p.limbs[at.limb]);
  u32* d = p.dst + at.poly * p.ds + ((u64)at.limb << p.logN) + c;
  if (copy != ~0u) {
    *d = p.b[at.poly * p.bs + ((u64)copy << p.logN) + c];
    return;
  }
  const u32* y = p.a + at.poly * p.as + c;
  u64 acc = (u64)y[(u64)p.i0 << p.logN] * __ldg(x); // below 2^38
  x += 2;
  for (u32 i = 0; i < p.i0;) {
    const u32 end = min(p.i0, i + 15); // 15 terms below 2^60, and 2^38
    for (; i < end; i++) acc += (u64)y[(u64)i << p.logN] * __ldg(x + i);
    if (i < p.i0) acc = reduce(acc, m);
  }
  *d = reduce(acc, m);
}
