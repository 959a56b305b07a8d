// The end of a division by dropped limbs (ModDown, RESCALE), in the forward
// transform of the remainder: dst = (c - transform(a))/D + low, and its image
// under X -> X^g. One kernel instead of three, four with the automorphism.
//
// a: the remainder, coefficients, of the polynomials of all items; or for divide_LOG
// the dropped limbs, up to 3, of which digits.cuh makes it. c is DivideItem::from.
#include "digits.cuh"
#include "many.cuh"

// Division is what one polynomial of one item needs.
struct Division {
  const u32 *a, *c, *low;
  u32 *dst, galois;
  uint2 inverse;
  DEV Division(const DivideMany& p, const Place& at) {
    const u32 item = at.poly / p.polys, k = at.poly % p.polys;
    const u64 limb = (u64)at.limb << p.logN;
    const Slot out = operand(p, item, &DivideItem::dst), add = operand(p, item, &DivideItem::low), from = operand(p, item, &DivideItem::from);
    const DivideNumbers numbers = operand(p, item, &DivideItem::numbers);
    a = p.a + at.poly * p.as;
    c = from.at + k * from.stride + limb;
    dst = out.at + k * out.stride + limb;
    low = add.at && k < numbers.lows ? add.at + k * add.stride + limb : nullptr;
    galois = (u32)numbers.galois;
    inverse = p.inverses[at.limb];
  }
  // fetch and divide: (c, low) of a residue, and the result from them and v.
  DEV uint2 fetch(u64 i) const { return make_uint2(c[i], low ? low[i] : 0); }
  DEV u32 divide(u32 v, uint2 o, u32 q) const { return add(mulc(o.x - v + q, inverse, q), o.y, q); }
};

// grouped is Place in another order: p.group blocks of every limb at a time, so that
// what they read in common is still in the cache.
DEV Place grouped(const DivideMany& p, u32 logPer) {
  const u32 of = p.group * gridDim.y, linear = blockIdx.y * gridDim.x + blockIdx.x, first = linear / of * p.group;
  const u32 rest = linear % of, count = min(p.group, gridDim.x - first), parts = p.logN - logPer;
  const u32 x = first + rest % count;
  return Place(rest / count, x >> parts, (x & ((1u << parts) - 1)) << logPer);
}

// downColumns: with g = d.galois > 1 the results go to their place in shared memory first,
// and from there to the image under X -> X^g (see automorphism_blocks): column j
// goes to column g*j mod n2, block b comes from the block b' with w_b' = w_b^g
// and is multiplied by w_b^floor(g*j/n2). Residue t+k*32 of a thread takes its
// factor as a product: brv(t + k*32) = brv(t) + brv(k*32), as the bits of t and
// k*32 differ, so w_b = w_t * psi^(2*n2*brv(k*32)).
// COUNT: the dropped limbs, 0 for the remainder.
template <int LOG, int COUNT> DEV void downColumns(const DivideMany& p, const Site& at) {
  typedef Shape<LOG> H;
  typedef Plan<LOG, H::LB, H::EB> P;
  const Division d(p, at);
  const auto transform = [&](const auto& load) {
    forward<LOG>(at, shared, load, [&](u64 i) { return d.fetch(i); },
                 [&](u64 i, u32 v, uint2 o) {
                   const u32 z = d.divide(v, o, at.q);
                   if (d.galois > 1) shared[P::place((u32)i - at.i)] = z; else d.dst[i] = z;
                 });
  };
  if constexpr (COUNT > 0) transform(Digits<COUNT>(p.digits + 4 * at.limb, d.a, p.logN, at.q));
  else transform(Reads{d.a + ((u64)at.limb << p.logN)});
  if (d.galois <= 1) return; // the same for the whole block
  __syncthreads();
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << H::EB) + (t & 31), n1 = 1u << LOG, sh = 32 - LOG;
  const uint2* roots = p.roots + at.id * p.rs;
  const auto power = [&](u32 s) { // psi^(n2*s), a factor
    s &= 2 * n1 - 1;
    const uint2 w = __ldg(roots + (__brev(s & (n1 - 1)) >> sh));
    return s < n1 ? w : negc(w, at.q);
  };
  const u32 turns = d.galois * ((at.i + first) >> LOG) >> p.logN2; // of the only column, or of the first
  const uint2 own = power((2 * (__brev(first & (n1 - 1)) >> sh) + 1) * turns);
#pragma unroll 4
  for (int k = 0; k < (1 << H::EB); k++) {
    const u32 i = first + k * 32, b = i & (n1 - 1), e = d.galois * ((at.i + i) >> LOG);
    const u32 o = 2 * (__brev(b) >> sh) + 1, from = __brev((o * d.galois & (2 * n1 - 1)) >> 1) >> sh;
    u32 y = shared[P::place((i & ~(n1 - 1)) | from)];
    if (H::LB == LOG) y = shoup(shoup(y, own, at.q), power(2 * (__brev((u32)k * 32) >> sh) * turns), at.q);
    else y = shoup(y, power(o * (e >> p.logN2)), at.q);
    d.dst[((u64)(e & ((1u << p.logN2) - 1)) << LOG) + b] = corr(y, at.q);
  }
}
#define DOWN(LOG, NAME, PLACE, ...)                                                              \
  extern "C" __global__ void __launch_bounds__(Shape<LOG>::threads, Shape<LOG>::blocks) NAME##_##LOG(const __grid_constant__ DivideMany p) { \
    announce();                                                                                  \
    const Site at(p, PLACE(p, Shape<LOG>::LB));                                                  \
    stage<LOG>(at, shared);                                                                      \
    settle();                                                                                    \
    __VA_ARGS__                                                                                  \
  }
DOWN(9, down, Place, downColumns<9, 0>(p, at);)
DOWN(10, down, Place, downColumns<10, 0>(p, at);)
DOWN(11, down, Place, downColumns<11, 0>(p, at);)
DOWN(12, down, Place, downColumns<12, 0>(p, at);)
DOWN(13, down, Place, downColumns<13, 0>(p, at);)
DOWN(11, divide, grouped, SINCE80(downColumns<11, 3>(p, at);))
DOWN(12, divide, grouped, SINCE80(downColumns<12, 3>(p, at);))

// downQuads: downColumns without an image, for long columns, whose threads have no registers for what all their
// residues are fetched with: it comes for 16 residues at a time, four a load, when the transform has ended.
template <int LOG> DEV void downQuads(const DivideMany& p, const Site& at) {
  typedef Shape<LOG> H;
  typedef Plan<LOG, H::LB, H::EB> P;
  static_assert(P::swaps, "four neighbours lie together");
  forward<LOG>(at, shared, Reads{p.a + at.poly * p.as + ((u64)at.limb << p.logN)}, [](u64, u32) {}); // they stay
  const Division d(p, at);
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << H::EB) + 4 * (t & 31), from = P::place(first);
#pragma unroll
  for (int k = 0; k < (1 << H::EB) / 4; k += 4) {
    uint4 c[4], low[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const u32 i = at.i + first + (k + j) * 128;
      c[j] = *(const uint4*)(d.c + i);
      low[j] = d.low ? *(const uint4*)(d.low + i) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const uint4 v = quad(shared + P::next(from, (k + j) * 128));
      *(uint4*)(d.dst + at.i + first + (k + j) * 128) =
          make_uint4(d.divide(v.x, make_uint2(c[j].x, low[j].x), at.q), d.divide(v.y, make_uint2(c[j].y, low[j].y), at.q),
                     d.divide(v.z, make_uint2(c[j].z, low[j].z), at.q), d.divide(v.w, make_uint2(c[j].w, low[j].w), at.q));
    }
  }
}
extern "C" __global__ void __launch_bounds__(Shape<14>::threads, Shape<14>::blocks) down_14(const __grid_constant__ DivideMany p) {
  SINCE90(announce(); const Site at(p, Place(p, Shape<14>::LB)); stage<14>(at, shared); settle(); downQuads<14>(p, at);, )
}

// turned is what down makes and its image under X -> X^g in one (see automorphism_blocks): the four residues
// from i on, of blocks b to b+3, go to another column. They come from four neighbours too, in another order.
DEV void turned(const DivideMany& p, const Division& d, const Place& at, u32 i, u32 q) {
  const u32 logn1 = p.logN - p.logN2, n1 = 1u << logn1, sh = 32 - logn1;
  const u32 b = i & (n1 - 1), e = d.galois * (i >> logn1);
  const u32* a = d.a + ((u64)at.limb << p.logN);
  const uint2* roots = p.roots + p.limbs[at.limb] * p.rs;
  u32 z[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const u32 o = 2 * (__brev(b + j) >> sh) + 1;
    const u32 from = i - b + (__brev((o * d.galois & (2 * n1 - 1)) >> 1) >> sh);
    const u32 s = (o * (e >> p.logN2)) & (2 * n1 - 1);
    const u32 y = mulc(d.divide(a[from], d.fetch(from), q), __ldg(roots + (__brev(s & (n1 - 1)) >> sh)), q);
    z[j] = s >= n1 ? neg(y, q) : y;
  }
  *(uint4*)(d.dst + ((e & ((1u << p.logN2) - 1)) << logn1) + b) = make_uint4(z[0], z[1], z[2], z[3]);
}

// down: the same for an a that is transformed already; four residues a thread.
ITEMS(DivideMany, 256, 4, down) {
  const Place at(p, 10);
  const u32 q = p.mods[p.limbs[at.limb]].q, i = at.i + 4 * threadIdx.x;
  const Division d(p, at);
  if (d.galois > 1) return turned(p, d, at, i, q); // the same for the whole block
  const uint4 v = *(const uint4*)(d.a + ((u64)at.limb << p.logN) + i);
  u32 z[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int j = 0; j < 4; j++) z[j] = d.divide(z[j], d.fetch(i + j), q);
  *(uint4*)(d.dst + i) = make_uint4(z[0], z[1], z[2], z[3]);
}

// collect: the limbs of all items next to each other.
ITEMS(CollectMany, 256, 4, collect) {
  const Place at(p, 10);
  const u32 item = at.poly / p.polys, k = at.poly % p.polys;
  const Slot s = operand(p, item, &CollectItem::from);
  const u64 i = ((u64)at.limb << p.logN) + at.i + 4 * threadIdx.x;
  *(uint4*)(p.dst + at.poly * p.ds + i) = *(const uint4*)(s.at + k * s.stride + i);
}
