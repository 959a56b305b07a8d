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

// combine: linear combinations of a result's terms, with a constant for each limb of polynomial 0. Four terms are read
// before the first is added. A sum of 15 products, an old residue and a constant is below 2^64.
// Grid: (results * polys << logParts, limbs).
KERNEL(CombineArgs, 256, 4, combine) {
  BELOW(p.terms, 16);
  const u32 limb = blockIdx.y, poly = blockIdx.x >> p.logParts, k = poly % p.polys;
  const u32 first = ((blockIdx.x & ((1u << p.logParts) - 1)) << 10) + 4 * threadIdx.x;
  const u64 off = ((u64)limb << p.logN) + first;
  const ulonglong2* slots = (const ulonglong2*)p.a + poly / p.polys * (p.terms + 1); // addresses and strides
  const auto at = [&](u32 i) {
    const ulonglong2 s = __ldg(slots + i);
    return (uint4*)((u32*)s.x + k * s.y + off);
  };
  const Mod m = core(p.mods + p.limbs[limb]);
  uint4* const d = at(0);
  u64 z[4] = {0, 0, 0, 0};
  if (p.more) {
    const uint4 x = *d;
    z[0] = x.x, z[1] = x.y, z[2] = x.z, z[3] = x.w;
  }
  if (p.constants && k == 0) {
    const u32 c = p.constants[limb];
#pragma unroll
    for (u32 j = 0; j < 4; j++) z[j] += first + j < p.count ? c : 0;
  }
  for (u32 t = 0; t < p.terms; t += 4) {
    uint4 x[4];
    u32 c[4];
#pragma unroll
    for (u32 r = 0; r < 4; r++) {
      const bool is = t + r < p.terms;
      x[r] = is ? *at(t + r + 1) : make_uint4(0, 0, 0, 0);
      c[r] = is ? p.factors[(t + r) * gridDim.y + limb] : 0;
    }
#pragma unroll
    for (u32 r = 0; r < 4; r++) {
      z[0] += (u64)c[r] * x[r].x;
      z[1] += (u64)c[r] * x[r].y;
      z[2] += (u64)c[r] * x[r].z;
      z[3] += (u64)c[r] * x[r].w;
    }
  }
  *d = make_uint4(reduce(z[0], m), reduce(z[1], m), reduce(z[2], m), reduce(z[3], m));
}
