// The column transform (cuTraNTT, section III): one thread block transforms one
// column of n1 residues, or several short ones, in one kernel.
//
// A block holds 2^LB neighbouring residues of a limb (whole columns of 2^LOG),
// 2^EB in the registers of each thread. The levels are merged into passes of
// EB levels (the last pass takes what is left); between passes residues are
// exchanged through shared memory, inside a warp where its residues are
// contiguous before and after. Where a block is one column in three passes,
// residues lie in an order that no access conflicts in, four of the last pass
// next to each other (Plan), and the factors of the first two passes are copied
// to shared memory before the block waits for the kernel ahead (stage).
//
// Twiddles are stored pass by pass in the order in which lanes read them: for
// the pass that starts at depth D (2^D groups) with R levels, factor g of level
// l of group h is entry 2^D + (2^l-1+g)*2^D + h. Entries n1 and n1+1 are 1/n1
// and t[1]/n1 for the inverse (tables.cu).
//
// Where residues come from and go to is the caller's: see Reads below.
#pragma once
#include "arith.cuh"

// pair and quad read shared memory. The compiler splits such loads, and joins
// neighbouring ones, in an order that differs from run to run, so that images could not
// be made again byte for byte; those for 9.0 came out the same each time, and keep what
// was measured. As assembly each load stays itself.
#if defined(EMULATED) || __CUDA_ARCH__ >= 900
DEV uint2 pair(const uint2* s) { return *s; }
DEV uint4 quad(const u32* s) { return *(const uint4*)s; }
#else
DEV uint2 pair(const uint2* s) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"((u32)__cvta_generic_to_shared(s)) : "memory");
  return v;
}
DEV uint4 quad(const u32* s) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"((u32)__cvta_generic_to_shared(s)) : "memory");
  return v;
}
#endif

// Far and Near are where a pass finds its factors: in global or shared memory.
struct Far {
  const uint2* at;
  DEV uint2 operator[](u32 i) const { return __ldg(at + i); }
};
struct Near {
  const uint2* at;
  DEV uint2 operator[](u32 i) const { return pair(at + i); }
};

// Held are the 15 factors of a last pass of 16 residues a thread, 256 entries apart.
// They are loaded where it is written, before the thread needs them: the compiler
// would wait with it until then.
struct Held {
  uint2 f[15];
  DEV void load(const uint2* at) {
#pragma unroll
    for (int i = 0; i < 15; i++) {
#ifdef EMULATED
      f[i] = __ldg(at + i * 256);
#else
      asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(f[i].x), "=r"(f[i].y) : "l"(at + i * 256));
#endif
    }
  }
  DEV uint2 operator[](u32 i) const { return f[i / 256]; }
};

// Multiples of q in registers. The assembler sees through those of twice and makes
// some again where it needs them, which saves registers; APART, by a shuffle of what
// all lanes have, it cannot, and the passes become shorter.
struct Multiples {
  u32 q, q2, nq2, nq;
  static DEV u32 apart(u32 x) {
#ifdef EMULATED
    return x;
#else
    return __shfl_sync(~0u, x, 0);
#endif
  }
  DEV Multiples(u32 q, bool APART)
      : q(q), q2(APART ? apart(2 * q) : twice(q)), nq2(APART ? apart(0 - 2 * q) : minusTwice(q)), nq(APART ? apart(0 - q) : minus(q)) {}
};

// ctPass: R Cooley-Tukey levels on 2^R residues; in and out in [0, 4q).
template <int R, class Factors> DEV void ctPass(u32 (&x)[1 << R], const Factors& tw, u32 stride, const Multiples& m) {
  const u32 q = m.q, q2 = m.q2, nq2 = m.nq2;
#pragma unroll
  for (int l = 0; l < R; l++) {
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const uint2 w = tw[((1 << l) - 1 + g) * stride];
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
template <int R, bool LAST, class Factors>
DEV void gsPass(u32 (&x)[1 << R], const Factors& tw, u32 stride, const Multiples& m, const Far& last) {
  const u32 q = m.q, q2 = m.q2, nq2 = m.nq2;
#pragma unroll
  for (int l = R - 1; l >= 0; l--) {
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const u32 a = x[ia], b = x[ib];
      BELOW(a, 2ull * q), BELOW(b, 2ull * q);
      if (LAST && l == 0) {
        x[ia] = shoup(a + b, last[0], q);
        x[ib] = shoup(b - a + q2, last[1], q);
      } else {
        const uint2 w = tw[((1 << l) - 1 + ((1 << l) - 1 - g)) * stride];
        x[ia] = fold(a + b, nq2);            // from [0, 4q)
        x[ib] = shoup(b - a + q2, w, q);    // from (0, 4q)
      }
    }
  }
}

// Plan holds the constants of a block, and where residue i of it lies in shared
// memory. With one column in three passes, residue i swaps places within its 32
// words: in the last pass a thread takes 2^LAST residues in a row, four at once,
// and eight threads must find theirs in different banks, so bits of i from 5 on
// are added to bits 2 .. LAST-1; in the pass before, 2^LAST threads take residues
// in a row and the next ones take them 2^(LAST+EB) further, so bits of i from
// LAST+EB on are added to bits LAST .. 4. Otherwise a word is left free after
// every 2^EB. With i and j that have no bit in common, place(i+j) is
// next(place(i), j).
template <int LOG, int LB, int EB> struct Plan {
  static const int threads = 1 << (LB - EB);
  static const int passes = (LOG + EB - 1) / EB;
  static const int LAST = LOG - (passes - 1) * EB;
  static const bool swaps = LB == LOG && passes == 3 && LAST >= 3;
  // near is how many factors the first two passes read, where they are copied to
  // shared memory; they follow the residues.
  static const int near = swaps ? 1 << (2 * EB) : 0;
  // holds says that a thread of a plain transform has the factors of the last pass in
  // registers, Held: on sm_90, where it was measured.
  static const bool holds = SINCE90(swaps && EB == 4 && LAST == 4, false);
  static const int words = swaps ? (1 << LB) + 2 * near : (1 << LB) + (1 << (LB - EB));
  static DEV constexpr u32 swap(u32 i) {
    return ((i >> 5 & ((1u << (LAST - 2)) - 1)) << 2) ^ ((i >> (LAST + EB) & ((1u << (5 - LAST)) - 1)) << LAST);
  }
  static DEV constexpr u32 place(u32 i) {
    if constexpr (swaps) return i ^ swap(i);
    else return i + (i >> EB);
  }
  static DEV constexpr u32 next(u32 at, u32 j) {
    if constexpr (swaps) return (at ^ (place(j) & 31)) + (j & ~31u);
    else return at + place(j);
  }
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
// Place), the modulus of the limb (id in p.mods) and the factors of its table. last,
// which only the inverse reads: the factors of its last level, 1/n1 and t[1]/n1 times
// what the result is to be multiplied by.
struct Site : Place {
  u32 id, q;
  const uint2 *tw, *last;
  DEV Site(const Args& p, u32 logPer) : Site(p, Place(p, logPer)) {}
  DEV Site(const Args& p, const Place& at) : Place(at), id(p.limbs[limb]), q(p.mods[id].q), tw(p.tw + id * p.ts) {}
};

// stage copies the factors of the first two passes to shared memory s, where the
// plan of 2^LOG residues has them there. Limbs, moduli and tables are complete
// before a kernel that reads them is queued, so this may come before settle.
template <int LOG, int LB, int EB> DEV void stageOf(const Site& at, u32* s) {
  typedef Plan<LOG, LB, EB> P;
  if constexpr (P::near > 0) {
    uint2* to = (uint2*)(s + (1 << LB));
#pragma unroll
    for (int i = 0; i < P::near; i += P::threads) to[i + threadIdx.x] = __ldg(at.tw + i + threadIdx.x);
    __syncthreads();
  }
}

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
// Neighbouring lanes have neighbouring i in load and store of both directions,
// but for Reads and Writes themselves, which move four residues of a lane at once
// where the plan swaps places (rows).
// Example: dst = (a - transform(digit)) * k mod q, digit below 2^30 from another
// limb (p.b) reduced on the way in:
//
//   COLUMNS(ModdownArgs, 12, moddown_forward_12) {
//     const Mod m = core(p.mods + at.id);
//     const u32* digit = p.b + at.poly * p.bs;
//     const u32* a = at.start(p.a, p.as, p.logN);
//     u32* dst = at.start(p.dst, p.ds, p.logN);
//     const uint2 k = p.inverses[at.limb];
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

// rows says that a loader or storer takes four residues from i on, a multiple of 4.
template <class T> struct rows { static const bool value = false; };
template <> struct rows<Reads> { static const bool value = true; };
template <> struct rows<Writes> { static const bool value = true; };

// Nothing is the fetch of a storer that needs none.
struct Nothing {
  struct Value {};
  DEV Value operator()(u64) const { return {}; }
};
template <class Store> DEV void put(const Store& store, u64 i, u32 v, Nothing::Value) { store(i, v); }
template <class Store, class T> DEV void put(const Store& store, u64 i, u32 v, const T& o) { store(i, v, o); }

// take and leave: the 2^R residues of a set of the pass with stride 2^S, in shared
// memory; four at once where they lie so.
template <class P, int R, int S> DEV void take(u32 (&x)[1 << R], const u32* s, u32 base) {
  const u32 at = P::place(base);
  if constexpr (P::swaps && S == 0) {
#pragma unroll
    for (int k = 0; k < (1 << R); k += 4) {
      const uint4 v = quad(s + P::next(at, k));
      x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < (1 << R); k++) x[k] = s[P::next(at, k << S)];
  }
}
template <class P, int R, int S> DEV void leave(const u32 (&x)[1 << R], u32* s, u32 base) {
  const u32 at = P::place(base);
  if constexpr (P::swaps && S == 0) {
#pragma unroll
    for (int k = 0; k < (1 << R); k += 4) *(uint4*)(s + P::next(at, k)) = make_uint4(x[k], x[k + 1], x[k + 2], x[k + 3]);
  } else {
#pragma unroll
    for (int k = 0; k < (1 << R); k++) s[P::next(at, k << S)] = x[k];
  }
}

// withFactors calls pass with the factors from entry i of the table on: those that
// the thread holds, or the copy in shared memory if the pass of depth D reads only it.
template <class P, int LB, int D, int R, bool SUB, bool HOLD, class Pass>
DEV void withFactors(const Site& at, const u32* s, const Held& held, u32 i, const Pass& pass) {
  if constexpr (HOLD && D + R == LB) pass(held);
  else if constexpr (!SUB && (1 << (D + R)) <= P::near) pass(Near{(const uint2*)(s + (1 << LB)) + i});
  else pass(Far{at.tw + i});
}

template <int LOG, int LB, int EB, int I, bool SUB, bool HOLD, class Load>
DEV void forwardPass(u32* s, const Site& at, const Multiples& m, u32 sub, u32 depth, Held& held, const Load& load) {
  constexpr int D = I * EB, R = LOG - D < EB ? LOG - D : EB, S = LOG - D - R;
  typedef Plan<LOG, LB, EB> P;
  typedef Set<LOG, LB, EB, D, R> Z;
  u32 x[Z::J][1 << R];
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
    if constexpr (I == 0) {
#pragma unroll
      for (int k = 0; k < (1 << R); k++) x[j][k] = load((u64)at.i + z.base + (k << S));
    } else {
      take<P, R, S>(x[j], s, z.base);
    }
  }
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
    const u32 groups = SUB ? 1u << (D + depth) : 1u << D;
    withFactors<P, LB, D, R, SUB, HOLD>(at, s, held, groups + (SUB ? sub << D : 0) + z.h, [&](const auto& tw) { ctPass<R>(x[j], tw, groups, m); });
    if constexpr (HOLD && I == P::passes - 2) held.load(at.tw + (1 << (D + R)) + threadIdx.x);
    if constexpr (I == P::passes - 1) {
#pragma unroll
      for (int k = 0; k < (1 << R); k++) x[j][k] = fold(fold(x[j][k], m.nq2), m.nq);
    }
    leave<P, R, S>(x[j], s, z.base);
  }
  between<LOG, EB, D, R>();
}

// forwardOf: the transform of what load gives, to store. s = Plan::words words
// of shared memory, staged (SUB: not); at.tw is the table of n1. With SUB, done
// levels were done before on each column.
template <int LOG, int LB, int EB, bool SUB, class Load, class Fetch, class Store>
DEV void forwardOf(const Site& at, u32* s, u32 done, const Load& load, const Fetch& fetch, const Store& store) {
  typedef Plan<LOG, LB, EB> P;
  constexpr bool HOLD = !SUB && P::holds && rows<Load>::value && rows<Store>::value;
  const Multiples m(at.q, HOLD);
  const u32 sub = SUB ? (at.i >> LOG) & ((1u << done) - 1) : 0, depth = SUB ? done : 0;
  Held held;
  forwardPass<LOG, LB, EB, 0, SUB, HOLD>(s, at, m, sub, depth, held, load);
  if constexpr (P::passes > 1) forwardPass<LOG, LB, EB, 1, SUB, HOLD>(s, at, m, sub, depth, held, load);
  if constexpr (P::passes > 2) forwardPass<LOG, LB, EB, 2, SUB, HOLD>(s, at, m, sub, depth, held, load);
  if constexpr (P::passes > 3) forwardPass<LOG, LB, EB, 3, SUB, HOLD>(s, at, m, sub, depth, held, load);
  const u32 t = threadIdx.x, warp = (t >> 5) * (32 << EB);
  if constexpr (P::swaps && rows<Store>::value) {
    const u32 first = warp + 4 * (t & 31), from = P::place(first);
    u32* to = store.at + at.i + first;
#pragma unroll
    for (int k = 0; k < (1 << EB) / 4; k++) *(uint4*)(to + k * 128) = quad(s + P::next(from, k * 128));
  } else {
    const u32 first = warp + (t & 31), from = P::place(first);
    decltype(fetch(0)) o[1 << EB];
#pragma unroll
    for (int k = 0; k < (1 << EB); k++) o[k] = fetch((u64)at.i + first + k * 32);
#pragma unroll
    for (int k = 0; k < (1 << EB); k++) put(store, (u64)at.i + first + k * 32, s[P::next(from, k * 32)], o[k]);
  }
}

template <int LOG, int LB, int EB, int I, bool SUB, bool HOLD, class Fetch, class Store>
DEV void inversePass(u32* s, const Site& at, const Multiples& m, u32 sub, u32 depth, const Held& held, const Fetch& fetch, const Store& store) {
  constexpr int D = I * EB, R = LOG - D < EB ? LOG - D : EB, S = LOG - D - R;
  typedef Plan<LOG, LB, EB> P;
  typedef Set<LOG, LB, EB, D, R> Z;
  u32 x[Z::J][1 << R];
  between<LOG, EB, D, R>();
#pragma unroll
  for (int j = 0; j < Z::J; j++) take<P, R, S>(x[j], s, Z(j).base);
  const Far last{at.last};
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
    const u32 groups = SUB ? 1u << (D + depth) : 1u << D;
    withFactors<P, LB, D, R, SUB, HOLD>(at, s, held, 2 * groups - 1 - (SUB ? sub << D : 0) - z.h, [&](const auto& tw) { gsPass<R, I == 0 && !SUB>(x[j], tw, groups, m, last); });
    if constexpr (I > 0) {
      leave<P, R, S>(x[j], s, z.base);
    } else {
      decltype(fetch(0)) o[1 << R];
#pragma unroll
      for (int k = 0; k < (1 << R); k++) o[k] = fetch((u64)at.i + z.base + (k << S));
#pragma unroll
      for (int k = 0; k < (1 << R); k++) put(store, (u64)at.i + z.base + (k << S), SUB ? x[j][k] : fold(x[j][k], m.nq), o[k]);
    }
  }
}

// inverseOf: the inverse transform of what load gives. With SUB, done levels and
// the factor 1/n1 are left to do, and store gets residues in [0, 2q).
template <int LOG, int LB, int EB, bool SUB, class Load, class Fetch, class Store>
DEV void inverseOf(const Site& at, u32* s, u32 done, const Load& load, const Fetch& fetch, const Store& store) {
  typedef Plan<LOG, LB, EB> P;
  constexpr bool HOLD = !SUB && P::holds && rows<Load>::value && rows<Store>::value;
  const Multiples m(at.q, HOLD);
  const u32 sub = SUB ? (at.i >> LOG) & ((1u << done) - 1) : 0, depth = SUB ? done : 0;
  const u32 t = threadIdx.x, warp = (t >> 5) * (32 << EB);
  Held held;
  if constexpr (HOLD) held.load(at.tw + (2 << (2 * EB)) - 1 - t);
  if constexpr (P::swaps && P::threads <= 256 && rows<Load>::value) { // with more, 64 registers do not hold all
    const u32 first = warp + 4 * (t & 31), to = P::place(first);
    const u32* from = load.at + at.i + first;
    uint4 x[(1 << EB) / 4];
#pragma unroll
    for (int k = 0; k < (1 << EB) / 4; k++) x[k] = *(const uint4*)(from + k * 128);
#pragma unroll
    for (int k = 0; k < (1 << EB) / 4; k++) *(uint4*)(s + P::next(to, k * 128)) = x[k];
  } else {
    const u32 first = warp + (t & 31), to = P::place(first);
#pragma unroll
    for (int k = 0; k < (1 << EB); k++) s[P::next(to, k * 32)] = load((u64)at.i + first + k * 32);
  }
  __syncwarp();
  if constexpr (P::passes > 3) inversePass<LOG, LB, EB, 3, SUB, HOLD>(s, at, m, sub, depth, held, fetch, store);
  if constexpr (P::passes > 2) inversePass<LOG, LB, EB, 2, SUB, HOLD>(s, at, m, sub, depth, held, fetch, store);
  if constexpr (P::passes > 1) inversePass<LOG, LB, EB, 1, SUB, HOLD>(s, at, m, sub, depth, held, fetch, store);
  inversePass<LOG, LB, EB, 0, SUB, HOLD>(s, at, m, sub, depth, held, fetch, store);
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

// stage, forward, inverse: transforms of whole columns by one kernel, in its shape.
template <int LOG> DEV void stage(const Site& at, u32* s) { stageOf<LOG, Shape<LOG>::LB, Shape<LOG>::EB>(at, s); }
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

alignas(16) extern __shared__ u32 shared[];

// COLUMNS(T, LOG, name) { body with the arguments p, of type T, at its site }: a kernel
// in the shape of LOG, staged. PLAIN is the same for a body that reads its residues at a,
// which begin to come before the kernel ahead has ended.
#define COLUMNS_AFTER(T, LOG, name, FIRST)                                                       \
  DEV void name##_body(const T& p, const Site& at);                                              \
  extern "C" __global__ void __launch_bounds__(Shape<LOG>::threads, Shape<LOG>::blocks) name(const __grid_constant__ T p) { \
    announce();                                                                                  \
    const Site at(p, Shape<LOG>::LB);                                                            \
    FIRST;                                                                                       \
    stage<LOG>(at, shared);                                                                      \
    settle();                                                                                    \
    name##_body(p, at);                                                                          \
  }                                                                                              \
  DEV void name##_body(const T& p, const Site& at)
#define COLUMNS(T, LOG, name) COLUMNS_AFTER(T, LOG, name, )
#define PLAIN(T, LOG, name) COLUMNS_AFTER(T, LOG, name, ahead(at.in(p.a, p.as, p.logN), 4 << Shape<LOG>::LB))
