// The column transform (cuTraNTT, section III): one thread block transforms one
// column of n1 residues, or several short ones, in one kernel.
//
// A block holds 2^LB neighbouring residues of a limb (whole columns of 2^LOG),
// 2^EB in the registers of each thread. The levels are merged into passes of
// EB levels (the last pass takes what is left); between passes residues are
// exchanged through shared memory, inside a warp where its residues are
// contiguous before and after.
//
// Twiddles are stored pass by pass in the order in which lanes read them: for
// the pass that starts at depth D (2^D groups) with R levels, factor g of level
// l of group h is entry 2^D + (2^l-1+g)*2^D + h. Entries n1 and n1+1 are 1/n1
// and t[1]/n1 for the inverse (tables.cu).
//
// Where residues come from and go to is the caller's: see Reads below.
#pragma once
#include "arith.cuh"

// ctPass: R Cooley-Tukey levels on 2^R residues; in and out in [0, 4q).
template <int R> DEV void ctPass(u32 (&x)[1 << R], const uint2* __restrict__ tw, u32 stride, u32 q) {
  const u32 q2 = twice(q), nq2 = minusTwice(q);
#pragma unroll
  for (int l = 0; l < R; l++) {
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const uint2 w = __ldg(tw + ((1 << l) - 1 + g) * stride);
      BELOW(x[ia], 4ull * q), BELOW(x[ib], 4ull * q);
      const u32 a = fold(x[ia], nq2);        // [0, 2q)
      const u32 b = shoup(x[ib], w, q);     // [0, 2q)
      x[ia] = a + b;                        // [0, 4q)
      x[ib] = a - b + q2;                   // (0, 4q)
    }
  }
}

// gsPass: the R levels undone (Gentleman-Sande); in and out in [0, 2q). tw
// points at the mirrored group: the inverse of factor t[m+i] is -t[2m-1-i], so
// the difference is taken the other way round. With LAST, level 0 multiplies by
// last[0] = 1/n1 and last[1] = t[1]/n1; the result stays in [0, 2q).
template <int R, bool LAST> DEV void gsPass(u32 (&x)[1 << R], const uint2* __restrict__ tw, u32 stride, u32 q, const uint2* __restrict__ last) {
  const u32 q2 = twice(q), nq2 = minusTwice(q);
#pragma unroll
  for (int l = R - 1; l >= 0; l--) {
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const u32 a = x[ia], b = x[ib];
      BELOW(a, 2ull * q), BELOW(b, 2ull * q);
      if (LAST && l == 0) {
        x[ia] = shoup(a + b, __ldg(last), q);
        x[ib] = shoup(b - a + q2, __ldg(last + 1), q);
      } else {
        const uint2 w = __ldg(tw + ((1 << l) - 1 + ((1 << l) - 1 - g)) * stride);
        x[ia] = fold(a + b, nq2);            // from [0, 4q)
        x[ib] = shoup(b - a + q2, w, q);    // from (0, 4q)
      }
    }
  }
}

// Plan holds the constants of a block.
template <int LOG, int LB, int EB> struct Plan {
  static const int threads = 1 << (LB - EB);
  static const int passes = (LOG + EB - 1) / EB;
  // Residue i of the block lies at pad(i) in shared memory; pad(i+j) =
  // pad(i)+pad(j) where i and j have no bit in common.
  static DEV constexpr u32 pad(u32 i) { return i + (i >> EB); }
  static const int words = (1 << LB) + (1 << (LB - EB));
};

// Set is where butterfly set j of a thread lies in the pass (D, R): group h
// (with the column above it) and residue base, base + 2^S, ...
template <int LOG, int LB, int EB, int D, int R> struct Set {
  static const int J = 1 << (EB - R), S = LOG - D - R;
  u32 h, base;
  DEV Set(int j) {
    const u32 t = threadIdx.x, u = J == 1 ? t : (t >> 5) * (32 * J) + j * 32 + (t & 31);
    h = u >> S;
    base = (h << (S + R)) | (u & ((1u << S) - 1));
    h &= (1u << D) - 1;
  }
};

// between: the barrier between the pass (D, R) and the next deeper one.
template <int LOG, int EB, int D, int R> DEV void between() {
  if (LOG - D <= 5 + EB) __syncwarp(); else __syncthreads();
}

// Site is where a block works: the columns from residue i of a limb on (see
// Place), the modulus of the limb (id in p.mods) and the factors of its table.
struct Site : Place {
  u32 id, q;
  const uint2* tw;
  DEV Site(const Args& p, u32 logPer) : Site(p, Place(p, logPer)) {}
  DEV Site(const Args& p, const Place& at) : Place(at), id(p.limbs[limb]), q(p.mods[id].q), tw(p.tw + id * p.ts) {}
};

// Reads and Writes are the loader and the storer of a plain transform: residues
// of one limb. A fused kernel brings its own, as functors or lambdas over u64 i,
// the index of the residue in the limb (column after column):
//
//   load(i)         the residue at i, in [0, 4q) forward, [0, 2q) inverse: from
//                   memory, or computed (a small integer, a base conversion)
//   store(i, v)     takes the result v in [0, q)
//   fetch(i)        optional: what the storer needs besides, loaded for all
//                   residues of a thread before the first is stored, so that
//                   the loads are in flight together
//   store(i, v, o)  the same with o = fetch(i)
//
// Each is called once for each residue of the block, in unrolled loops; all
// loads come before all stores of a block. i is 64 bits wide so that p[i] costs
// one addition for the thread and a constant offset for each residue.
// Neighbouring lanes have neighbouring i in load and store of both directions.
// Example: dst = (a - transform(digit)) * k mod q, digit below 2^30 from another
// limb (Args::b) reduced on the way in:
//
//   COLUMNS(12, moddown_forward_12) {
//     const Site at(p, Shape<12>::LB);
//     const Mod m = core(p.mods + at.id);
//     const u32* digit = p.b + at.poly * p.bs;
//     const u32* a = at.start(p.a, p.as, p.logN);
//     u32* dst = at.start(p.dst, p.ds, p.logN);
//     const uint2 k = ((const uint2*)p.x)[at.limb];
//     forward<12>(at, shared,
//       [&](u64 i) { return reduce32(digit[i], m); },
//       [&](u64 i) { return a[i]; },
//       [&](u64 i, u32 v, u32 o) { dst[i] = mulc(o - v + m.q, k, m.q); });
//   }
//
// launched by Go's ring.columns with the plan of its columns (plans.go).
struct Reads {
  const u32* at;
  DEV u32 operator()(u64 i) const { return at[i]; }
};
struct Writes {
  u32* at;
  DEV void operator()(u64 i, u32 v) const { at[i] = v; }
};

// Nothing is the fetch of a storer that needs none.
struct Nothing {
  struct Value {};
  DEV Value operator()(u64) const { return {}; }
};
template <class Store> DEV void put(const Store& store, u64 i, u32 v, Nothing::Value) { store(i, v); }
template <class Store, class T> DEV void put(const Store& store, u64 i, u32 v, const T& o) { store(i, v, o); }

template <int LOG, int LB, int EB, int I, bool SUB, class Load>
DEV void forwardPass(u32* s, const Site& at, u32 sub, u32 depth, const Load& load) {
  constexpr int D = I * EB, R = LOG - D < EB ? LOG - D : EB, S = LOG - D - R;
  typedef Plan<LOG, LB, EB> P;
  typedef Set<LOG, LB, EB, D, R> Z;
  const u32 q = at.q;
  u32 x[Z::J][1 << R];
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
#pragma unroll
    for (int k = 0; k < (1 << R); k++) {
      if constexpr (I == 0) x[j][k] = load((u64)at.i + z.base + (k << S));
      else x[j][k] = s[P::pad(z.base) + P::pad(k << S)];
    }
  }
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
    if (SUB) ctPass<R>(x[j], at.tw + ((1u << (D + depth)) + (sub << D) + z.h), 1u << (D + depth), q);
    else ctPass<R>(x[j], at.tw + (1 << D) + z.h, 1 << D, q);
#pragma unroll
    for (int k = 0; k < (1 << R); k++) {
      u32 v = x[j][k];
      if (I == P::passes - 1) v = fold(fold(v, minusTwice(q)), minus(q));
      s[P::pad(z.base) + P::pad(k << S)] = v;
    }
  }
  between<LOG, EB, D, R>();
}

// forwardOf: the transform of what load gives, to store. s = Plan::words words
// of shared memory; at.tw is the table of n1. With SUB, done levels were done
// before on each column.
template <int LOG, int LB, int EB, bool SUB, class Load, class Fetch, class Store>
DEV void forwardOf(const Site& at, u32* s, u32 done, const Load& load, const Fetch& fetch, const Store& store) {
  typedef Plan<LOG, LB, EB> P;
  const u32 sub = SUB ? (at.i >> LOG) & ((1u << done) - 1) : 0, depth = SUB ? done : 0;
  forwardPass<LOG, LB, EB, 0, SUB>(s, at, sub, depth, load);
  if constexpr (P::passes > 1) forwardPass<LOG, LB, EB, 1, SUB>(s, at, sub, depth, load);
  if constexpr (P::passes > 2) forwardPass<LOG, LB, EB, 2, SUB>(s, at, sub, depth, load);
  if constexpr (P::passes > 3) forwardPass<LOG, LB, EB, 3, SUB>(s, at, sub, depth, load);
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << EB) + (t & 31);
  decltype(fetch(0)) o[1 << EB];
#pragma unroll
  for (int k = 0; k < (1 << EB); k++) o[k] = fetch((u64)at.i + first + k * 32);
#pragma unroll
  for (int k = 0; k < (1 << EB); k++) put(store, (u64)at.i + first + k * 32, s[P::pad(first) + P::pad(k * 32)], o[k]);
}

template <int LOG, int LB, int EB, int I, bool SUB, class Fetch, class Store>
DEV void inversePass(u32* s, const Site& at, u32 sub, u32 depth, const Fetch& fetch, const Store& store) {
  constexpr int D = I * EB, R = LOG - D < EB ? LOG - D : EB, S = LOG - D - R;
  typedef Plan<LOG, LB, EB> P;
  typedef Set<LOG, LB, EB, D, R> Z;
  const u32 q = at.q;
  u32 x[Z::J][1 << R];
  between<LOG, EB, D, R>();
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
#pragma unroll
    for (int k = 0; k < (1 << R); k++) x[j][k] = s[P::pad(z.base) + P::pad(k << S)];
  }
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
    const u32 groups = SUB ? 1u << (D + depth) : 1u << D;
    gsPass<R, I == 0 && !SUB>(x[j], at.tw + (2 * groups - 1 - (SUB ? sub << D : 0) - z.h), groups, q, at.tw + (1u << LOG));
    if constexpr (I > 0) {
#pragma unroll
      for (int k = 0; k < (1 << R); k++) s[P::pad(z.base) + P::pad(k << S)] = x[j][k];
    } else {
      decltype(fetch(0)) o[1 << R];
#pragma unroll
      for (int k = 0; k < (1 << R); k++) o[k] = fetch((u64)at.i + z.base + (k << S));
#pragma unroll
      for (int k = 0; k < (1 << R); k++) put(store, (u64)at.i + z.base + (k << S), SUB ? x[j][k] : fold(x[j][k], minus(q)), o[k]);
    }
  }
}

// inverseOf: the inverse transform of what load gives. With SUB, done levels and
// the factor 1/n1 are left to do, and store gets residues in [0, 2q).
template <int LOG, int LB, int EB, bool SUB, class Load, class Fetch, class Store>
DEV void inverseOf(const Site& at, u32* s, u32 done, const Load& load, const Fetch& fetch, const Store& store) {
  typedef Plan<LOG, LB, EB> P;
  const u32 sub = SUB ? (at.i >> LOG) & ((1u << done) - 1) : 0, depth = SUB ? done : 0;
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << EB) + (t & 31);
#pragma unroll
  for (int k = 0; k < (1 << EB); k++) s[P::pad(first) + P::pad(k * 32)] = load((u64)at.i + first + k * 32);
  __syncwarp();
  if constexpr (P::passes > 3) inversePass<LOG, LB, EB, 3, SUB>(s, at, sub, depth, fetch, store);
  if constexpr (P::passes > 2) inversePass<LOG, LB, EB, 2, SUB>(s, at, sub, depth, fetch, store);
  if constexpr (P::passes > 1) inversePass<LOG, LB, EB, 1, SUB>(s, at, sub, depth, fetch, store);
  inversePass<LOG, LB, EB, 0, SUB>(s, at, sub, depth, fetch, store);
}

// Shape is how one kernel transforms columns of 2^LOG residues, see Plan; at
// least blocks blocks share a multiprocessor. cutrantt/cuda/plans.go mirrors it.
template <int LOG> struct Shape;
#define SHAPE(LOG, LB_, EB_, MINB)                                              \
  template <> struct Shape<LOG> {                                              \
    static const int LB = LB_, EB = EB_, threads = 1 << (LB_ - EB_), blocks = MINB; \
  };
SHAPE(6, 10, 3, 8)
SHAPE(7, 10, 4, 8)
SHAPE(8, 10, 4, 8)
SHAPE(9, 10, 3, 8)
SHAPE(10, 10, 4, 8)
SHAPE(11, 11, 4, 8)
SHAPE(12, 12, 4, 4)
SHAPE(13, 13, 5, 2)
SHAPE(14, 14, 5, 2)
SHAPE(15, 15, 5, 1)
#undef SHAPE

// forward, inverse: transforms of whole columns by one kernel, in its shape.
template <int LOG, class Load, class Fetch, class Store>
DEV void forward(const Site& at, u32* s, const Load& load, const Fetch& fetch, const Store& store) {
  forwardOf<LOG, Shape<LOG>::LB, Shape<LOG>::EB, false>(at, s, 0, load, fetch, store);
}
template <int LOG, class Load, class Store> DEV void forward(const Site& at, u32* s, const Load& load, const Store& store) {
  forward<LOG>(at, s, load, Nothing(), store);
}
template <int LOG, class Load, class Fetch, class Store>
DEV void inverse(const Site& at, u32* s, const Load& load, const Fetch& fetch, const Store& store) {
  inverseOf<LOG, Shape<LOG>::LB, Shape<LOG>::EB, false>(at, s, 0, load, fetch, store);
}
template <int LOG, class Load, class Store> DEV void inverse(const Site& at, u32* s, const Load& load, const Store& store) {
  inverse<LOG>(at, s, load, Nothing(), store);
}

extern __shared__ u32 shared[];

// COLUMNS(LOG, name) { body with the arguments p }: a kernel in the shape of LOG.
#define COLUMNS(LOG, name) KERNEL(Shape<LOG>::threads, Shape<LOG>::blocks, name)
