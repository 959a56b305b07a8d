// Element-wise operations, four residues a thread; residues in [0, q) before
// and after. Grid: (polys*N/1024, limbs).
#include "arith.cuh"

template <class F> DEV void each(const Args& p, F f) {
  const Place at(p, 10);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q, i = threadIdx.x;
  const uint4 x = ((const uint4*)at.in(p.a, p.as, p.logN))[i];
  const uint4 y = p.b ? ((const uint4*)at.in(p.b, p.bs, p.logN))[i] : x;
  ((uint4*)at.in(p.dst, p.ds, p.logN))[i] = make_uint4(f(x.x, y.x, q, at.limb), f(x.y, y.y, q, at.limb), f(x.z, y.z, q, at.limb), f(x.w, y.w, q, at.limb));
}

// dst = a + b, a - b, -a
KERNEL(256, 4, element_add) { each(p, [](u32 x, u32 y, u32 q, u32) { return add(x, y, q); }); }
KERNEL(256, 4, element_sub) { each(p, [](u32 x, u32 y, u32 q, u32) { return sub(x, y, q); }); }
KERNEL(256, 4, element_neg) { each(p, [](u32 x, u32, u32 q, u32) { return neg(x, q); }); }
KERNEL(256, 4, element_copy) { each(p, [](u32 x, u32, u32, u32) { return x; }); }

// dst = c*a; x = one factor (uint2) for each limb
KERNEL(256, 4, element_scale) {
  const uint2* c = (const uint2*)p.x;
  each(p, [c](u32 x, u32, u32 q, u32 l) { return mulc(x, c[l], q); });
}

// dst = c*(a - b); x as above (the end of DivRound)
KERNEL(256, 4, element_subscale) {
  const uint2* c = (const uint2*)p.x;
  each(p, [c](u32 x, u32 y, u32 q, u32 l) { return mulc(x - y + q, c[l], q); });
}

// dst = 0
KERNEL(256, 4, element_zero) {
  const Place at(p, 10);
  ((uint4*)at.in(p.dst, p.ds, p.logN))[threadIdx.x] = make_uint4(0, 0, 0, 0);
}

// dst = a + c, the constant polynomial; x = one word for each limb. i0 = 0:
// coefficients, only residue 0 changes; i0 = 1: blocks, all of column 0.
KERNEL(256, 4, element_constant) {
  const Place at(p, 10);
  const u32 q = p.mods[p.limbs[at.limb]].q, c = ((const u32*)p.x)[at.limb];
  const u32 n = p.i0 ? 1u << (p.logN - p.logN2) : 1;
  const u32* a = at.in(p.a, p.as, p.logN);
  u32* d = at.in(p.dst, p.ds, p.logN);
  for (u32 i = threadIdx.x; i < 1024; i += 256) d[i] = add(a[i], at.i + i < n ? c : 0, q);
}
