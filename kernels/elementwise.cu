// Element-wise operations, four residues a thread; residues in [0, q) before
// and after. Grid: (polys*N/1024, limbs).
#include "arith.cuh"

template <class F> DEV void each(const ElementArgs& p, F f) {
  const Place at(p, 10);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q, i = threadIdx.x;
  const uint4 x = ((const uint4*)at.in(p.a, p.as, p.logN))[i];
  const uint4 y = p.b ? ((const uint4*)at.in(p.b, p.bs, p.logN))[i] : x;
  ((uint4*)at.in(p.dst, p.ds, p.logN))[i] = make_uint4(f(x.x, y.x, q, at.limb), f(x.y, y.y, q, at.limb), f(x.z, y.z, q, at.limb), f(x.w, y.w, q, at.limb));
}

// dst = a + b, a - b, -a
KERNEL(ElementArgs, 256, 4, element_add) { each(p, [](u32 x, u32 y, u32 q, u32) { return add(x, y, q); }); }
KERNEL(ElementArgs, 256, 4, element_sub) { each(p, [](u32 x, u32 y, u32 q, u32) { return sub(x, y, q); }); }
KERNEL(ElementArgs, 256, 4, element_neg) { each(p, [](u32 x, u32, u32 q, u32) { return neg(x, q); }); }
KERNEL(ElementArgs, 256, 4, element_copy) { each(p, [](u32 x, u32, u32, u32) { return x; }); }

// dst = c*a, c a factor for each limb
KERNEL(ElementArgs, 256, 4, element_scale) {
  const uint2* c = p.factors;
  each(p, [c](u32 x, u32, u32 q, u32 l) { return mulc(x, c[l], q); });
}

// dst = c*(a - b), the end of DivRound
KERNEL(ElementArgs, 256, 4, element_subscale) {
  const uint2* c = p.factors;
  each(p, [c](u32 x, u32 y, u32 q, u32 l) { return mulc(x - y + q, c[l], q); });
}

// dst = 0
KERNEL(Args, 256, 4, element_zero) {
  const Place at(p, 10);
  ((uint4*)at.in(p.dst, p.ds, p.logN))[threadIdx.x] = make_uint4(0, 0, 0, 0);
}

// dst = a + c, c a constant for each limb: to residue 0, or in the transform domain
// to all of column 0.
KERNEL(ConstantArgs, 256, 4, element_constant) {
  const Place at(p, 10);
  const u32 q = p.mods[p.limbs[at.limb]].q, c = p.constants[at.limb];
  const u32 n = p.transformed ? 1u << (p.logN - p.logN2) : 1;
  const u32* a = at.in(p.a, p.as, p.logN);
  u32* d = at.in(p.dst, p.ds, p.logN);
  for (u32 i = threadIdx.x; i < 1024; i += 256) d[i] = add(a[i], at.i + i < n ? c : 0, q);
}
