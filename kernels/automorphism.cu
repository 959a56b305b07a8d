// X -> X^g (Ring.Automorphism), never in place.
#include "arith.cuh"

// automorphism_coeffs: coefficient k moves to k*g mod N, negated where k*g mod
// 2N is not below N.
KERNEL(AutomorphismArgs, 256, 4, automorphism_coeffs) {
  const Place at(p, 8);
  const u32 q = p.mods[p.limbs[at.limb]].q;
  const u32 i = at.i + threadIdx.x, logn1 = p.logN - p.logN2, n = 1u << p.logN;
  const u32 k = ((i & ((1u << logn1) - 1)) << p.logN2) + (i >> logn1);
  const u64 limb = (u64)at.limb << p.logN;
  const u32 x = p.a[at.poly * p.as + limb + i];
  const u32 e = (k * p.galois) & (2 * n - 1), to = e & (n - 1);
  p.dst[at.poly * p.ds + limb + ((to & ((1u << p.logN2) - 1)) << logn1) + (to >> p.logN2)] = e >= n ? neg(x, q) : x;
}

// automorphism_blocks: block b of f(X^g) comes from the block b' with w_b' =
// w_b^g, and X^(g*j) = w_b^floor(g*j/n2) * X^(g*j mod n2); tw = plain table with
// at least n1 entries.
KERNEL(AutomorphismArgs, 256, 4, automorphism_blocks) {
  const Place at(p, 8);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32 i = at.i + threadIdx.x, logn1 = p.logN - p.logN2, n1 = 1u << logn1;
  const u32 b = i & (n1 - 1), j = i >> logn1, sh = 32 - logn1;
  const u32 o = 2 * (__brev(b) >> sh) + 1;
  const u32 from = __brev((o * p.galois & (2 * n1 - 1)) >> 1) >> sh;
  const u64 limb = (u64)at.limb << p.logN;
  const u32 x = p.a[at.poly * p.as + limb + ((u64)j << logn1) + from];
  const u32 e = p.galois * j, s = (o * (e >> p.logN2)) & (2 * n1 - 1);
  const u32 y = mulc(x, __ldg(p.tw + id * p.ts + (__brev(s & (n1 - 1)) >> sh)), q);
  p.dst[at.poly * p.ds + limb + ((u64)(e & ((1u << p.logN2) - 1)) << logn1) + b] = s >= n1 ? neg(y, q) : y;
}
