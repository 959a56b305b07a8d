// Inverse transforms, blocks to coefficients (Ring.Inverse). The table of
// launches in cutrantt/cuda/plans.go mirrors the parameters here.
#include "transform.cuh"

// a in [0, q), dst in [0, q); reads limbs, tw of n1 = 2^LOG.
#define INVERSE(LOG)                                                                              \
  PLAIN(InverseArgs, LOG, inverse_##LOG) {                                                                     \
    Site to = at;                                                                                 \
    to.last = p.last ? p.last + 2 * at.limb : at.tw + (1u << LOG);                                \
    inverse<LOG>(to, shared, Reads{at.start(p.a, p.as, p.logN)}, Writes{at.start(p.dst, p.ds, p.logN)}); \
  }
INVERSE(6)
INVERSE(7)
INVERSE(8)
INVERSE(9)
INVERSE(10)
INVERSE(11)
INVERSE(12)
INVERSE(13)
INVERSE(14)
INVERSE(15)

// The deepest 12 levels of longer columns; p.levels levels are left, dst in [0, 2q).
KERNEL(SplitArgs, Shape<12>::threads, Shape<12>::blocks, inverse_tail) {
  typedef Shape<12> T;
  const Site at(p, T::LB);
  inverseOf<12, T::LB, T::EB, true>(at, shared, p.levels, Reads{at.start(p.a, p.as, p.logN)}, Nothing(), Writes{at.start(p.dst, p.ds, p.logN)});
}

// The last R levels undone and the factor 1/n1: a in [0, 2q), dst in [0, q).
template <int R> DEV void head(const Args& p) {
  const Place at(p, 8 + R);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32 logn1 = p.logN - p.logN2, step = 1u << (logn1 - R);
  const u32 set = (at.i >> R) + threadIdx.x;
  const u64 off = at.poly * p.as + ((u64)at.limb << p.logN) + ((set >> (logn1 - R)) << logn1) + (set & (step - 1));
  const u64 to = off + at.poly * (p.ds - p.as);
  const uint2* tw = p.tw + id * p.ts;
  u32 x[1 << R];
#pragma unroll
  for (int k = 0; k < (1 << R); k++) x[k] = p.a[off + k * step];
  gsPass<R, true>(x, Far{tw + 1}, 1, Multiples(q, false), Far{tw + (1u << logn1)});
#pragma unroll
  for (int k = 0; k < (1 << R); k++) p.dst[to + k * step] = fold(x[k], minus(q));
}
KERNEL(Args, 256, 2, inverse_head_1) { head<1>(p); }
KERNEL(Args, 256, 2, inverse_head_2) { head<2>(p); }
KERNEL(Args, 256, 2, inverse_head_3) { head<3>(p); }
KERNEL(Args, 256, 2, inverse_head_4) { head<4>(p); }
KERNEL(Args, 256, 2, inverse_head_5) { head<5>(p); }
