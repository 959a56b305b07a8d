// Forward transforms, coefficients to blocks (Ring.Forward). The table of
// launches in cutrantt/cuda/plans.go mirrors the parameters here.
#include "transform.cuh"

// a in [0, q), dst in [0, q); reads limbs, tw of n1 = 2^LOG.
#define FORWARD(LOG)                                                                              \
  PLAIN(Args, LOG, forward_##LOG) {                                                                   \
    forward<LOG>(at, shared, Reads{at.start(p.a, p.as, p.logN)}, Writes{at.start(p.dst, p.ds, p.logN)}); \
  }
FORWARD(6)
FORWARD(7)
FORWARD(8)
FORWARD(9)
FORWARD(10)
FORWARD(11)
FORWARD(12)
FORWARD(13)
FORWARD(14)
FORWARD(15)

// The last 12 levels of longer columns; a in [0, 4q), p.levels levels done.
KERNEL(SplitArgs, Shape<12>::threads, Shape<12>::blocks, forward_tail) {
  typedef Shape<12> T;
  const Site at(p, T::LB);
  forwardOf<12, T::LB, T::EB, true>(at, shared, p.levels, Reads{at.start(p.a, p.as, p.logN)}, Nothing(), Writes{at.start(p.dst, p.ds, p.logN)});
}

// The first R levels of columns too long for one block, 2^R residues a thread;
// a in [0, q), dst in [0, 4q); may be in place.
template <int R> DEV void head(const Args& p) {
  const Place at(p, 8 + R);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32 logn1 = p.logN - p.logN2, step = 1u << (logn1 - R);
  const u32 set = (at.i >> R) + threadIdx.x; // sets of a limb: column, then place
  const u64 off = at.poly * p.as + ((u64)at.limb << p.logN) + ((set >> (logn1 - R)) << logn1) + (set & (step - 1));
  const u64 to = off + at.poly * (p.ds - p.as);
  u32 x[1 << R];
#pragma unroll
  for (int k = 0; k < (1 << R); k++) x[k] = p.a[off + k * step];
  ctPass<R>(x, Far{p.tw + id * p.ts + 1}, 1, Multiples(q, false));
#pragma unroll
  for (int k = 0; k < (1 << R); k++) p.dst[to + k * step] = x[k];
}
KERNEL(Args, 256, 2, forward_head_1) { head<1>(p); }
KERNEL(Args, 256, 2, forward_head_2) { head<2>(p); }
KERNEL(Args, 256, 2, forward_head_3) { head<3>(p); }
KERNEL(Args, 256, 2, forward_head_4) { head<4>(p); }
KERNEL(Args, 256, 2, forward_head_5) { head<5>(p); }
