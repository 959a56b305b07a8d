// The end of a division by dropped limbs (ModDown, RESCALE), in the forward
// transform of the remainder: dst = (c - transform(a))/D + low, and its image
// under X -> X^g. One kernel instead of three, four with the automorphism.
//
// a: the remainder, coefficients, or for divide_LOG the dropped limbs, up to 3, of
// which digits.cuh makes it (b: its constants); i0 polynomials an item. Slots: dst, low (null:
// none), the number g and the polynomials of low, c. x: for each limb the factor
// D^-1 with its quotient.
#include "digits.cuh"
#include "many.cuh"

// Division is what one polynomial of one item needs.
struct Division {
  const u32 *a, *c, *low;
  u32 *dst, g;
  uint2 inverse;
  DEV Division(const Many& m, const Place& at) {
    const Args& p = m.p;
    const u32 item = at.poly / p.i0, k = at.poly % p.i0;
    const u64 limb = (u64)at.limb << p.logN;
    const Slot out = slot(m, item, 0), add = slot(m, item, 1), num = slot(m, item, 2), from = slot(m, item, 3);
    a = p.a + at.poly * p.as;
    c = from.at + k * from.stride + limb;
    dst = out.at + k * out.stride + limb;
    low = add.at && k < num.stride ? add.at + k * add.stride + limb : nullptr;
    g = (u32)(u64)num.at;
    inverse = ((const uint2*)p.x)[at.limb];
  }
  // fetch and divide: (c, low) of a residue, and the result from them and v.
  DEV uint2 fetch(u64 i) const { return make_uint2(c[i], low ? low[i] : 0); }
  DEV u32 divide(u32 v, uint2 o, u32 q) const { return add(mulc(o.x - v + q, inverse, q), o.y, q); }
};

// grouped is Place in another order: i1 blocks of every limb at a time, so that what
// they read in common is still in the cache.
DEV Place grouped(const Args& p, u32 logPer) {
  const u32 of = p.i1 * gridDim.y, linear = blockIdx.y * gridDim.x + blockIdx.x, first = linear / of * p.i1;
  const u32 rest = linear % of, count = min(p.i1, gridDim.x - first), parts = p.logN - logPer;
  const u32 x = first + rest % count;
  return Place(rest / count, x >> parts, (x & ((1u << parts) - 1)) << logPer);
}

// downColumns: with g > 1 the results go to their place in shared memory first,
// and from there to the image under X -> X^g (see automorphism_blocks): column j
// goes to column g*j mod n2, block b comes from the block b' with w_b' = w_b^g
// and is multiplied by w_b^floor(g*j/n2). Residue t+k*32 of a thread takes its
// factor as a product: brv(t + k*32) = brv(t) + brv(k*32), as the bits of t and
// k*32 differ, so w_b = w_t * psi^(2*n2*brv(k*32)).
// COUNT: the dropped limbs, 0 for the remainder.
template <int LOG, int COUNT> DEV void downColumns(const Many& m, const Site& at) {
  typedef Shape<LOG> H;
  typedef Plan<LOG, H::LB, H::EB> P;
  const Args& p = m.p;
  const Division d(m, at);
  const auto transform = [&](const auto& load) {
    forward<LOG>(at, shared, load, [&](u64 i) { return d.fetch(i); },
                 [&](u64 i, u32 v, uint2 o) {
                   const u32 z = d.divide(v, o, at.q);
                   if (d.g > 1) shared[P::place((u32)i - at.i)] = z; else d.dst[i] = z;
                 });
  };
  if constexpr (COUNT > 0) transform(Digits<COUNT>((const uint4*)p.b + 4 * at.limb, d.a, p.logN, at.q));
  else transform(Reads{d.a + ((u64)at.limb << p.logN)});
  if (d.g <= 1) return; // the same for the whole block
  __syncthreads();
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << H::EB) + (t & 31), n1 = 1u << LOG, sh = 32 - LOG;
  const uint2* roots = m.roots + at.id * m.rs;
  const auto power = [&](u32 s) { // psi^(n2*s), a factor
    s &= 2 * n1 - 1;
    const uint2 w = __ldg(roots + (__brev(s & (n1 - 1)) >> sh));
    return s < n1 ? w : negc(w, at.q);
  };
  const u32 turns = d.g * ((at.i + first) >> LOG) >> p.logN2; // of the only column, or of the first
  const uint2 own = power((2 * (__brev(first & (n1 - 1)) >> sh) + 1) * turns);
#pragma unroll 4
  for (int k = 0; k < (1 << H::EB); k++) {
    const u32 i = first + k * 32, b = i & (n1 - 1), e = d.g * ((at.i + i) >> LOG);
    const u32 o = 2 * (__brev(b) >> sh) + 1, from = __brev((o * d.g & (2 * n1 - 1)) >> 1) >> sh;
    u32 y = shared[P::place((i & ~(n1 - 1)) | from)];
    if (H::LB == LOG) y = shoup(shoup(y, own, at.q), power(2 * (__brev((u32)k * 32) >> sh) * turns), at.q);
    else y = shoup(y, power(o * (e >> p.logN2)), at.q);
    d.dst[((u64)(e & ((1u << p.logN2) - 1)) << LOG) + b] = corr(y, at.q);
  }
}
#define DOWN(LOG, NAME, PLACE, ...)                                                              \
  extern "C" __global__ void __launch_bounds__(Shape<LOG>::threads, Shape<LOG>::blocks) NAME##_##LOG(const __grid_constant__ Many m) { \
    announce();                                                                                  \
    const Site at(m.p, PLACE(m.p, Shape<LOG>::LB));                                              \
    stage<LOG>(at, shared);                                                                      \
    settle();                                                                                    \
    __VA_ARGS__                                                                                  \
  }
DOWN(9, down, Place, downColumns<9, 0>(m, at);)
DOWN(10, down, Place, downColumns<10, 0>(m, at);)
DOWN(11, down, Place, downColumns<11, 0>(m, at);)
DOWN(12, down, Place, downColumns<12, 0>(m, at);)
DOWN(13, down, Place, downColumns<13, 0>(m, at);)
DOWN(11, divide, grouped, SINCE80(downColumns<11, 3>(m, at);))
DOWN(12, divide, grouped, SINCE80(downColumns<12, 3>(m, at);))

// down: the same for an a that is transformed already; four residues a thread.
ITEMS(256, 4, down) {
  const Place at(m.p, 10);
  const u32 q = m.p.mods[m.p.limbs[at.limb]].q, i = at.i + 4 * threadIdx.x;
  const Division d(m, at);
  const uint4 v = *(const uint4*)(d.a + ((u64)at.limb << m.p.logN) + i);
  u32 z[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int j = 0; j < 4; j++) z[j] = d.divide(z[j], d.fetch(i + j), q);
  *(uint4*)(d.dst + i) = make_uint4(z[0], z[1], z[2], z[3]);
}

// collect: the limbs of slot 0 of each item next to each other.
ITEMS(256, 4, collect) {
  const Place at(m.p, 10);
  const u32 item = at.poly / m.p.i0, k = at.poly % m.p.i0;
  const Slot s = slot(m, item, 0);
  const u64 i = ((u64)at.limb << m.p.logN) + at.i + 4 * threadIdx.x;
  *(uint4*)(m.p.dst + at.poly * m.p.ds + i) = *(const uint4*)(s.at + k * s.stride + i);
}
