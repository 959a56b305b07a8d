// Modular arithmetic on 32-bit words, q < 2^30.
#pragma once
#include "args.cuh"

#define DEV __device__ __forceinline__

// BELOW states that x < bound. The emulator (cutrantt/cuda/cudatest/emulator)
// checks it; for a GPU it is nothing.
#ifdef EMULATED
#define BELOW(x, bound) ((u64)(x) < (u64)(bound) ? (void)0 : emulate::range(__FILE__, __LINE__, #x, x, bound))
#else
#define BELOW(x, bound) ((void)0)
#endif

// corr: x in [0, 2m) to [0, m), m <= 2^31.
DEV u32 corr(u32 x, u32 m) {
  BELOW(x, m ? 2ull * m : 1);
  return min(x, x - m);
}

// fold: the same with nm = 2^32 - m, one instruction on sm_90 (add and min).
DEV u32 fold(u32 x, u32 nm) {
  BELOW(x, 2ull * (0 - nm));
#if __CUDA_ARCH__ >= 900
  return __viaddmin_u32(x, nm, x);
#else
  return min(x, x + nm);
#endif
}

// Multiples of q that the compiler cannot trace to q: it would make x - 2q a
// multiplication, and the multiplier is the busiest unit of a transform.
// hidden is x << SHIFT.
template <int SHIFT> DEV u32 hidden(u32 x) {
#ifdef EMULATED
  return x << SHIFT;
#else
  u32 r;
  asm("shf.l.wrap.b32 %0, 0, %1, %2;" : "=r"(r) : "r"(x), "n"(SHIFT));
  return r;
#endif
}
DEV u32 twice(u32 q) { return hidden<1>(q); }
DEV u32 minusTwice(u32 q) { return hidden<1>(0 - q); }
DEV u32 minus(u32 q) { return hidden<0>(0 - q); }

// add, sub, neg: operands and result in [0, q).
DEV u32 add(u32 x, u32 y, u32 q) {
  BELOW(x, q), BELOW(y, q);
  return corr(x + y, q);
}
DEV u32 sub(u32 x, u32 y, u32 q) {
  BELOW(x, q), BELOW(y, q);
  u32 d = x - y;
  return min(d, d + q);
}
DEV u32 neg(u32 x, u32 q) {
  BELOW(x, q);
  return corr(q - x, q);
}

// shoup: x*w mod q in [0, 2q) for any x, with w = (w, floor(w*2^32/q)), w < q.
DEV u32 shoup(u32 x, uint2 w, u32 q) {
  BELOW(w.x, q ? q : 1), BELOW(((u64)w.x << 32) - (u64)w.y * q, q ? q : 1);
  return x * w.x - __umulhi(x, w.y) * q;
}

// mulc: the same in [0, q).
DEV u32 mulc(u32 x, uint2 w, u32 q) { return corr(shoup(x, w, q), q); }

// negc: the prepared pair of q-w, for 0 < w < q (w*2^32/q is not an integer).
DEV uint2 negc(uint2 w, u32 q) {
  BELOW(w.x - 1, q - 1);
  return make_uint2(q - w.x, ~w.y);
}

// reduced: any x to [0, 4q). Both halves are Shoup products (the low one by 1) that
// share their subtractions.
DEV u32 reduced(u64 x, const Mod& m) {
  const u32 hi = (u32)(x >> 32), lo = (u32)x;
  const u32 k = __umulhi(hi, m.r32s) + __umulhi(lo, m.ones);
  BELOW((u64)hi * m.r32 + lo - ((u64)__umulhi(hi, m.r32s) + __umulhi(lo, m.ones)) * m.q, 4ull * m.q);
  return hi * m.r32 + lo - k * m.q;
}

// reduce: any x mod q in [0, q).
DEV u32 reduce(u64 x, const Mod& m) { return corr(corr(reduced(x, m), 2 * m.q), m.q); }

// reduce32: any 32-bit x mod q in [0, q).
DEV u32 reduce32(u32 x, const Mod& m) { return corr(x - __umulhi(x, m.ones) * m.q, m.q); }

// mulmod: x*y mod q in [0, q), for any x and y.
DEV u32 mulmod(u32 x, u32 y, const Mod& m) { return reduce((u64)x * y, m); }

// powmod: x^e mod q, e public.
DEV u32 powmod(u32 x, u32 e, const Mod& m) {
  u32 r = 1;
  for (; e; e >>= 1) {
    if (e & 1) r = mulmod(r, x, m);
    x = mulmod(x, x, m);
  }
  return r;
}

// pair: w < q as a factor for shoup.
DEV uint2 pair(u32 w, u32 q) {
  BELOW(w, q);
  return make_uint2(w, (u32)(((u64)w << 32) / q));
}

// load constants of a modulus into registers, without the Toom-Cook tables.
DEV Mod core(const Mod* p) {
  Mod m;
  m.q = p->q; m.r32 = p->r32; m.r32s = p->r32s; m.ones = p->ones;
  return m;
}

// The grid of element-wise kernels: x is polynomial * N/PER + part, y the limb,
// PER residues a block.
struct Place {
  u32 limb, poly, i;
  DEV Place(u32 limb, u32 poly, u32 i) : limb(limb), poly(poly), i(i) {}
  DEV Place(const Args& p, u32 logPer) {
    const u32 parts = p.logN - logPer;
    limb = blockIdx.y;
    poly = blockIdx.x >> parts;
    i = (blockIdx.x & ((1u << parts) - 1)) << logPer;
  }
  DEV u32* in(u32* base, u64 stride, u32 logN) const { return base + poly * stride + ((u64)limb << logN) + i; }
  DEV const u32* in(const u32* base, u64 stride, u32 logN) const { return base + poly * stride + ((u64)limb << logN) + i; }

  // start is the beginning of the limb that in points into.
  DEV u32* start(u32* base, u64 stride, u32 logN) const { return base + poly * stride + ((u64)limb << logN); }
  DEV const u32* start(const u32* base, u64 stride, u32 logN) const { return base + poly * stride + ((u64)limb << logN); }
};

// announce lets the next kernel of the stream be placed while this one runs,
// settle waits for the results of all kernels before (programmatic dependent
// launch). The host asks for it on sm_90 only; elsewhere kernels follow each
// other as ever. Every kernel does both, as a rule at once (ready); what comes
// before settle must touch no memory that a kernel still running may write or
// read.
DEV void announce() {
#ifdef EMULATED
  emulate::announce();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEV void settle() {
#ifdef EMULATED
  emulate::settle();
#elif __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEV void ready() {
  announce();
  settle();
}

// SINCE90(a, b): a on sm_90 and later, b before, where a kernel needs more
// registers: the blocks that a multiprocessor is to hold leave room for all values,
// as no kernel spills any.
#if __CUDA_ARCH__ >= 900
#define SINCE90(a, b) a
#else
#define SINCE90(a, b) b
#endif

// SINCE80(code): nothing before sm_80, where no key switch is fused: the conversions
// of its other digits need the tensor cores (extend.cu).
#if __CUDA_ARCH__ >= 800
#define SINCE80(...) __VA_ARGS__
#else
#define SINCE80(...)
#endif

// ahead asks for the bytes at an address, both multiples of 16, to be in the second-
// level cache soon; one call a block. It changes nothing that a kernel could see, so
// it may come before settle.
DEV void ahead(const void* at, u32 bytes) {
#if __CUDA_ARCH__ >= 900 && !defined(EMULATED)
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(bytes) : "memory");
#endif
}

// KERNEL(T, threads, blocks, name) { body with the arguments p, of type T }
#define KERNEL(T, threads, blocks, name)                                                         \
  DEV void name##_body(const T& p);                                                              \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ T p) {                \
    ready();                                                                                     \
    name##_body(p);                                                                              \
  }                                                                                              \
  DEV void name##_body(const T& p)
