// Small integers, floats and the samplers of cutrantt/prng, bit for bit.
#include "sample.cuh"

// sample_uniform: residue j of the limb is what word j of attempt 0 gives, or of
// the first later attempt whose word is accepted. One stream block a thread.
// Grid (N/2048, limbs), 128 threads.
KERNEL(SampleArgs, 128, 4, sample_uniform) {
  const u32 id = p.limbs[blockIdx.y], q = p.mods[id].q, below = p.mods[id].r32;
  const u32 block = blockIdx.x * 128 + threadIdx.x;
  if (block >= 1u << (p.logN - 4)) return;
  u32 z[16] = {}, left = 0xffff; // bit j: z[j] has no value yet
  for (u32 attempt = 0; left; attempt++) {
    u32 w[16];
    chacha(w, p.seed, block, p.label, id, attempt);
#pragma unroll
    for (int j = 0; j < 16; j++) {
      bool accepted;
      const u32 r = residue(w[j], q, below, accepted);
      z[j] = left >> j & 1 ? r : z[j];
      left &= ~((accepted ? 1u : 0u) << j);
    }
  }
  uint4* d = (uint4*)(p.dst + ((u64)blockIdx.y << p.logN)) + block * 4;
#pragma unroll
  for (int j = 0; j < 4; j++) d[j] = make_uint4(z[4 * j], z[4 * j + 1], z[4 * j + 2], z[4 * j + 3]);
}

// small: eight coefficients from one stream block, modulo up to eight limbs. f is at most 21 in magnitude, below every q. Grid
// (N/1024, limbs/8), 128 threads.
template <class F> DEV void small(const SampleArgs& p, F f) {
  const u32 block = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * 8;
  u32 q[8], w[16];
#pragma unroll
  for (int l = 0; l < 8; l++) q[l] = p.mods[p.limbs[min(first + l, p.count - 1)]].q;
  chacha(w, p.seed, block, p.label, 0, 0);
  const u32 logn1 = p.logN - p.logN2, mask = (1u << p.logN2) - 1;
  u32* d = p.dst + ((u64)first << p.logN);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const i32 v = f(w[2 * j], w[2 * j + 1]);
    const u32 k = 8 * block + j, sign = (u32)(v >> 31);
    u32* to = d + ((k & mask) << logn1) + (k >> p.logN2);
#pragma unroll
    for (int l = 0; l < 8; l++)
      if (first + l < p.count) to[(u64)l << p.logN] = (u32)v + (q[l] & sign);
  }
}
KERNEL(SampleArgs, 128, 4, sample_ternary) {
  small(p, [](u32 lo, u32 hi) { return ternary(lo, hi); });
}
KERNEL(SampleArgs, 128, 4, sample_cbd) {
  small(p, [](u32 lo, u32 hi) { return binomial(lo, hi); });
}

// spread: residues of up to eight limbs from value(k) for coefficient k, which
// is read once for them; residue(v, m) is v modulo the prime of m.
// Grid (N/256, limbs/8).
template <class V, class R> DEV void spread(const SetArgs& p, V value, R residue) {
  const u32 i = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * 8;
  const auto v = value(natural(p, i));
  u32* d = p.dst + ((u64)first << p.logN) + i;
#pragma unroll 4
  for (u32 l = 0; l < min(8u, p.count - first); l++) d[(u64)l << p.logN] = residue(v, core(p.mods + p.limbs[first + l]));
}

// set_small: dst from signed 32-bit integers in natural order.
KERNEL(SetArgs, 256, 4, set_small) {
  spread(p, [&](u32 k) { return ((const i32*)p.values)[k]; }, [](i32 v, const Mod& m) { return residueOf32(v, m); });
}

// set_floats: dst from integral float64 below 2^63 in magnitude.
KERNEL(SetArgs, 256, 4, set_floats) {
  spread(p, [&](u32 k) { return (i64)((const double*)p.values)[k]; }, [](i64 v, const Mod& m) { return residueOf64(v, m); });
}

// set_large: dst from integral float64 of any magnitude.
KERNEL(SetArgs, 256, 4, set_large) {
  spread(p, [&](u32 k) { return ((const u64*)p.values)[k]; }, [](u64 bits, const Mod& m) { return residueOfFloat(bits, m); });
}
