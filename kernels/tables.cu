// Twiddle tables, computed on the device when a ring first needs them.
#include "arith.cuh"

// table_plain: t[k] = psi^brv(k), brv reversing logN bits, as factors.
// Grid (entries/256, moduli).
// Its first n1 entries are the table of the n1-point column transform; group i
// of the level with m groups multiplies by t[m+i].
KERNEL(TableArgs, 256, 4, table_plain) {
  const u32 k = blockIdx.x * 256 + threadIdx.x;
  const Mod m = core(p.mods + blockIdx.y);
  if (k >= p.entries) return;
  const u32 w = powmod(p.mods[blockIdx.y].psi, __brev(k) >> (32 - p.logN), m);
  ((uint2*)p.dst)[blockIdx.y * p.stride + k] = pair(w, m.q);
}

// table_passes: the same factors, from the plain table tw, in the order of
// transform.cuh for columns of n1 residues; the last pass has the rest of the levels.
KERNEL(PassTableArgs, 256, 4, table_passes) {
  const u32 at = blockIdx.x * 256 + threadIdx.x, n1 = 1u << p.logColumn;
  const Mod m = core(p.mods + blockIdx.y);
  const uint2* t = p.tw + blockIdx.y * p.ts;
  uint2* out = (uint2*)p.dst + blockIdx.y * p.stride;
  if (at >= n1) return;
  if (at == 0) {
    const u32 inv = powmod(n1 % m.q, m.q - 2, m);
    out[0] = t[0];
    out[n1] = pair(inv, m.q);
    out[n1 + 1] = pair(mulmod(inv, t[1].x, m), m.q);
    return;
  }
  const u32 log = 31 - __clz(at);
  u32 d = 0;
  for (u32 r = p.first; d + r <= log; r = p.each) d += r;
  const u32 j = at >> d, h = at & ((1u << d) - 1); // j = (2^l - 1 + g) + 1
  const u32 l = 31 - __clz(j), g = j - (1u << l);
  out[at] = t[(((1u << d) + h) << l) + g];
}
