// Changes of the number of columns (Ring.Convert), never in place.
#include "transform.cuh"

// finish: R more levels over all columns: blocks modulo X^(n2*2^R) become blocks
// modulo X^n2. A set is block b and the columns c, c+n2, ...; residues in
// [0, q). logN2 is that of dst; tw = plain table with at least N/n2 entries.
template <int R> DEV void finish(const Args& p) {
  const Place at(p, R + 31 - __clz(blockDim.x)); // small rings have small blocks
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32 logn1 = p.logN - p.logN2 - R, set = (at.i >> R) + threadIdx.x;
  const u32 b = set & ((1u << logn1) - 1), c = set >> logn1;
  const u32* a = p.a + at.poly * p.as + ((u64)at.limb << p.logN);
  u32* d = p.dst + at.poly * p.ds + ((u64)at.limb << p.logN);
  const uint2* t = p.tw + id * p.ts;
  u32 x[1 << R];
#pragma unroll
  for (int k = 0; k < (1 << R); k++) x[k] = a[((c + (k << p.logN2)) << logn1) + b];
#pragma unroll
  for (int l = 0; l < R; l++)
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const u32 v = mulc(x[ib], __ldg(t + (((1u << logn1) + b) << l) + g), q), u = x[ia];
      x[ia] = add(u, v, q);
      x[ib] = sub(u, v, q);
    }
#pragma unroll
  for (int k = 0; k < (1 << R); k++) d[(c << (logn1 + R)) + (b << R) + k] = x[k];
}
KERNEL(Args, 256, 2, finish_1) { finish<1>(p); }
KERNEL(Args, 256, 2, finish_2) { finish<2>(p); }
KERNEL(Args, 256, 2, finish_3) { finish<3>(p); }
KERNEL(Args, 256, 2, finish_4) { finish<4>(p); }

// undo: the inverse of finish; logN2 is that of a.
template <int R> DEV void undo(const Args& p) {
  const Place at(p, R + 31 - __clz(blockDim.x)); // small rings have small blocks
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32 logn1 = p.logN - p.logN2 - R, set = (at.i >> R) + threadIdx.x;
  const u32 b = set & ((1u << logn1) - 1), c = set >> logn1;
  const u32* a = p.a + at.poly * p.as + ((u64)at.limb << p.logN);
  u32* d = p.dst + at.poly * p.ds + ((u64)at.limb << p.logN);
  const uint2* t = p.tw + id * p.ts;
  u32 x[1 << R];
#pragma unroll
  for (int k = 0; k < (1 << R); k++) x[k] = a[(c << (logn1 + R)) + (b << R) + k];
#pragma unroll
  for (int l = R - 1; l >= 0; l--)
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const u32 m = 1u << (logn1 + l), h = (b << l) + g; // the inverse of t[m+h] is -t[2m-1-h]
      const u32 u = add(x[ia], x[ib], q), v = mulc(x[ib] - x[ia] + q, __ldg(t + 2 * m - 1 - h), q);
      x[ia] = (u + (q & (0 - (u & 1)))) >> 1; // halves modulo the odd q
      x[ib] = (v + (q & (0 - (v & 1)))) >> 1;
    }
#pragma unroll
  for (int k = 0; k < (1 << R); k++) d[((c + (k << p.logN2)) << logn1) + b] = x[k];
}
KERNEL(Args, 256, 2, undo_1) { undo<1>(p); }
KERNEL(Args, 256, 2, undo_2) { undo<2>(p); }
KERNEL(Args, 256, 2, undo_3) { undo<3>(p); }
KERNEL(Args, 256, 2, undo_4) { undo<4>(p); }

// relayout: coefficients from 2^logColumns columns in a to 2^logN2 in dst. Coefficient
// k lies in column k mod n2, row k/n2.
KERNEL(RelayoutArgs, 256, 4, relayout) {
  const Place at(p, 8);
  const u32 i = at.i + threadIdx.x, logn1 = p.logN - p.logN2;
  const u32 k = ((i & ((1u << logn1) - 1)) << p.logN2) + (i >> logn1);
  const u32 from = ((k & ((1u << p.logColumns) - 1)) << (p.logN - p.logColumns)) + (k >> p.logColumns);
  const u64 limb = (u64)at.limb << p.logN;
  p.dst[at.poly * p.ds + limb + i] = p.a[at.poly * p.as + limb + from];
}
