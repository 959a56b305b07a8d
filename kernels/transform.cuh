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
#pragma once
#include "arith.cuh"

// ctPass: R Cooley-Tukey levels on 2^R residues; in and out in [0, 4q).
template <int R> DEV void ctPass(u32 (&x)[1 << R], const uint2* __restrict__ tw, u32 stride, u32 q) {
  const u32 q2 = 2 * q;
#pragma unroll
  for (int l = 0; l < R; l++) {
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const uint2 w = __ldg(tw + ((1 << l) - 1 + g) * stride);
      const u32 a = corr(x[ia], q2);        // [0, 2q)
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
  const u32 q2 = 2 * q;
#pragma unroll
  for (int l = R - 1; l >= 0; l--) {
#pragma unroll
    for (int i = 0; i < (1 << (R - 1)); i++) {
      const int sh = R - 1 - l, g = i >> sh, k = i & ((1 << sh) - 1), ia = ((2 * g) << sh) + k, ib = ia + (1 << sh);
      const u32 a = x[ia], b = x[ib];
      if (LAST && l == 0) {
        x[ia] = shoup(a + b, __ldg(last), q);
        x[ib] = shoup(b - a + q2, __ldg(last + 1), q);
      } else {
        const uint2 w = __ldg(tw + ((1 << l) - 1 + ((1 << l) - 1 - g)) * stride);
        x[ia] = corr(a + b, q2);            // from [0, 4q)
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

template <int LOG, int LB, int EB, int I, bool SUB>
DEV void forwardPass(u32* s, const u32* src, const uint2* tw, u32 sub, u32 depth, u32 q) {
  constexpr int D = I * EB, R = LOG - D < EB ? LOG - D : EB, S = LOG - D - R;
  typedef Plan<LOG, LB, EB> P;
  typedef Set<LOG, LB, EB, D, R> Z;
  u32 x[Z::J][1 << R];
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
#pragma unroll
    for (int k = 0; k < (1 << R); k++) x[j][k] = I == 0 ? src[z.base + (k << S)] : s[P::pad(z.base) + P::pad(k << S)];
  }
#pragma unroll
  for (int j = 0; j < Z::J; j++) {
    const Z z(j);
    if (SUB) ctPass<R>(x[j], tw + ((1u << (D + depth)) + (sub << D) + z.h), 1u << (D + depth), q);
    else ctPass<R>(x[j], tw + (1 << D) + z.h, 1 << D, q);
#pragma unroll
    for (int k = 0; k < (1 << R); k++) {
      u32 v = x[j][k];
      if (I == P::passes - 1) v = corr(corr(v, 2 * q), q);
      s[P::pad(z.base) + P::pad(k << S)] = v;
    }
  }
  between<LOG, EB, D, R>();
}

// forward: dst = transform of a. limbs, tw (of n1), i0 = levels done before on
// each column (SUB; a then holds residues in [0, 4q)), else residues in [0, q).
template <int LOG, int LB, int EB, bool SUB> DEV void forward(const Args& p, u32* s) {
  typedef Plan<LOG, LB, EB> P;
  const Place at(p, LB);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32* src = at.in(p.a, p.as, p.logN);
  u32* dst = at.in(p.dst, p.ds, p.logN);
  const uint2* tw = p.tw + id * p.ts;
  const u32 sub = SUB ? (at.i >> LOG) & ((1u << p.i0) - 1) : 0, depth = SUB ? p.i0 : 0;
  forwardPass<LOG, LB, EB, 0, SUB>(s, src, tw, sub, depth, q);
  if constexpr (P::passes > 1) forwardPass<LOG, LB, EB, 1, SUB>(s, src, tw, sub, depth, q);
  if constexpr (P::passes > 2) forwardPass<LOG, LB, EB, 2, SUB>(s, src, tw, sub, depth, q);
  if constexpr (P::passes > 3) forwardPass<LOG, LB, EB, 3, SUB>(s, src, tw, sub, depth, q);
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << EB) + (t & 31);
#pragma unroll
  for (int k = 0; k < (1 << EB); k++) dst[first + k * 32] = s[P::pad(first) + P::pad(k * 32)];
}

template <int LOG, int LB, int EB, int I, bool SUB>
DEV void inversePass(u32* s, u32* dst, const uint2* tw, const uint2* last, u32 sub, u32 depth, u32 q) {
  constexpr int D = I * EB, R = LOG - D < EB ? LOG - D : EB, S = LOG - D - R;
  typedef Plan<LOG, LB, EB> P;
  typedef Set<LOG, LB, EB, D, R> Z;
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
    gsPass<R, I == 0 && !SUB>(x[j], tw + (2 * groups - 1 - (SUB ? sub << D : 0) - z.h), groups, q, last);
#pragma unroll
    for (int k = 0; k < (1 << R); k++) {
      if (I > 0) s[P::pad(z.base) + P::pad(k << S)] = x[j][k];
      else dst[z.base + (k << S)] = SUB ? x[j][k] : corr(x[j][k], q);
    }
  }
}

// inverse: dst = inverse transform of a, residues in [0, q). With SUB, i0 levels
// and the factor 1/n1 are left to do and dst's residues are in [0, 2q).
template <int LOG, int LB, int EB, bool SUB> DEV void inverse(const Args& p, u32* s) {
  typedef Plan<LOG, LB, EB> P;
  const Place at(p, LB);
  const u32 id = p.limbs[at.limb], q = p.mods[id].q;
  const u32* src = at.in(p.a, p.as, p.logN);
  u32* dst = at.in(p.dst, p.ds, p.logN);
  const uint2* tw = p.tw + id * p.ts;
  const uint2* last = tw + (1u << LOG);
  const u32 sub = SUB ? (at.i >> LOG) & ((1u << p.i0) - 1) : 0, depth = SUB ? p.i0 : 0;
  const u32 t = threadIdx.x, first = (t >> 5) * (32 << EB) + (t & 31);
#pragma unroll
  for (int k = 0; k < (1 << EB); k++) s[P::pad(first) + P::pad(k * 32)] = src[first + k * 32];
  __syncwarp();
  if constexpr (P::passes > 3) inversePass<LOG, LB, EB, 3, SUB>(s, dst, tw, last, sub, depth, q);
  if constexpr (P::passes > 2) inversePass<LOG, LB, EB, 2, SUB>(s, dst, tw, last, sub, depth, q);
  if constexpr (P::passes > 1) inversePass<LOG, LB, EB, 1, SUB>(s, dst, tw, last, sub, depth, q);
  inversePass<LOG, LB, EB, 0, SUB>(s, dst, tw, last, sub, depth, q);
}
