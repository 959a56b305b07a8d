// The canonical embedding of slots (cutrantt.Embedding), before the kernels of encrypt.cu: from
// the values of N/2 slots to N integral coefficients. Each product, sum and difference is
// rounded on its own and in the processor's order (henc/internal/embed), so the bits are the
// processor's.
//
// A pass does R levels in registers, from distance 2^(logStep+R-1) to 2^logStep, in place on N/2
// complex numbers a message. The first one reads the values instead, the last one writes the
// coefficients. Grid (N/2^(R+7), messages), 64 threads.
#include "arith.cuh"

// value: slot i of a message, 0 beyond the last value.
DEV double2 value(const EmbedArgs& p, const double* from, u32 i) {
  double2 x = {0, 0};
  if (p.each == 1 && i < p.count) x.x = from[i];
  if (p.each == 2) {
    if (2 * i < p.count) x.x = from[2 * i];
    if (2 * i + 1 < p.count) x.y = from[2 * i + 1];
  }
  return x;
}

template <int R> DEV void embed(const EmbedArgs& p) {
  const u32 log = p.logN - 1, n = 1u << log, t = blockIdx.x * 64 + threadIdx.x;
  // Results of the last pass are stored in the order of the threads.
  const u32 set = p.logStep ? t : __brev(t) >> (32 - (log - R));
  const u32 r = set & ((1u << p.logStep) - 1), base = ((set >> p.logStep) << (p.logStep + R)) + r;
  double2* work = (double2*)p.dst + ((u64)blockIdx.y << log);
  double2 x[1 << R];
#pragma unroll
  for (u32 k = 0; k < (1 << R); k++) {
    const u32 i = base + (k << p.logStep);
    x[k] = p.each ? value(p, p.values + (u64)blockIdx.y * p.count, i) : work[i];
  }
#pragma unroll
  for (int l = R - 1; l >= 0; l--)
#pragma unroll
    for (u32 i = 0; i < (1 << (R - 1)); i++) {
      const u32 k = i & ((1 << l) - 1), ia = ((i >> l) << (l + 1)) + k, ib = ia + (1 << l);
      const double2 w = __ldg(p.roots + (((1 << l) + k) << p.logStep) + r);
      const double re = __dsub_rn(x[ia].x, x[ib].x), im = __dsub_rn(x[ia].y, x[ib].y);
      x[ia].x = __dadd_rn(x[ia].x, x[ib].x);
      x[ia].y = __dadd_rn(x[ia].y, x[ib].y);
      x[ib].x = __dadd_rn(__dmul_rn(re, w.x), __dmul_rn(im, w.y));
      x[ib].y = __dsub_rn(__dmul_rn(im, w.x), __dmul_rn(re, w.y));
    }
  if (p.logStep) {
#pragma unroll
    for (u32 k = 0; k < (1 << R); k++) work[base + (k << p.logStep)] = x[k];
    return;
  }
  double* to = p.coeffs + ((u64)blockIdx.y << p.logN);
#pragma unroll
  for (u32 k = 0; k < (1 << R); k++) {
    const u32 j = ((__brev(k) >> (32 - R)) << (log - R)) + t; // the bits of base + k reversed
    to[j] = rint(__dmul_rn(__dmul_rn(x[k].x, p.share), p.scale));
    to[n + j] = rint(__dmul_rn(__dmul_rn(x[k].y, p.share), p.scale));
  }
}
KERNEL(EmbedArgs, 64, 4, embed_2) { embed<2>(p); }
KERNEL(EmbedArgs, 64, 4, embed_3) { embed<3>(p); }
