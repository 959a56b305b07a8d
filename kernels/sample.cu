// Small integers, floats and the samplers of cutrantt/prng, bit for bit.
#include "arith.cuh"

template <int K> DEV u32 rotate(u32 x) { return __funnelshift_l(x, x, K); }

DEV void quarter(u32& a, u32& b, u32& c, u32& d) {
  a += b; d = rotate<16>(d ^ a);
  c += d; b = rotate<12>(b ^ c);
  a += b; d = rotate<8>(d ^ a);
  c += d; b = rotate<7>(b ^ c);
}

// chacha: block counter of the ChaCha20 stream (RFC 8439) with the nonce
// (label, index, attempt).
DEV void chacha(u32 (&w)[16], const u32* key, u32 counter, u32 label, u32 index, u32 attempt) {
  const u32 s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1], key[2], key[3],
                     key[4], key[5], key[6], key[7], counter, label, index, attempt};
#pragma unroll
  for (int i = 0; i < 16; i++) w[i] = s[i];
#pragma unroll 1
  for (int r = 0; r < 10; r++) {
    quarter(w[0], w[4], w[8], w[12]);
    quarter(w[1], w[5], w[9], w[13]);
    quarter(w[2], w[6], w[10], w[14]);
    quarter(w[3], w[7], w[11], w[15]);
    quarter(w[0], w[5], w[10], w[15]);
    quarter(w[1], w[6], w[11], w[12]);
    quarter(w[2], w[7], w[8], w[13]);
    quarter(w[3], w[4], w[9], w[14]);
  }
#pragma unroll
  for (int i = 0; i < 16; i++) w[i] += s[i];
}

// sample_uniform: residue j of the limb is word j of attempt 0, masked to
// bitlen(q); while it is not below q, word j of the next attempt. One stream
// block a thread; i0 = label. Grid (N/2048, limbs), 128 threads.
KERNEL(128, 4, sample_uniform) {
  const u32 id = p.limbs[blockIdx.y], q = p.mods[id].q, mask = 0xffffffffu >> __clz(q);
  const u32 block = blockIdx.x * 128 + threadIdx.x;
  if (block >= 1u << (p.logN - 4)) return;
  u32 z[16], worst;
#pragma unroll
  for (int j = 0; j < 16; j++) z[j] = ~0u;
  u32 attempt = 0;
  do {
    u32 w[16];
    chacha(w, p.key, block, p.i0, id, attempt++);
    worst = 0;
#pragma unroll
    for (int j = 0; j < 16; j++) {
      z[j] = z[j] < q ? z[j] : w[j] & mask;
      worst = max(worst, z[j]);
    }
  } while (worst >= q);
  uint4* d = (uint4*)(p.dst + ((u64)blockIdx.y << p.logN)) + block * 4;
#pragma unroll
  for (int j = 0; j < 4; j++) d[j] = make_uint4(z[4 * j], z[4 * j + 1], z[4 * j + 2], z[4 * j + 3]);
}

// fromSmall: a signed integer above -2^31 modulo q, without a branch on it.
DEV u32 fromSmall(i32 v, const Mod& m) {
  const u32 sign = (u32)(v >> 31), r = reduce32(((u32)v ^ sign) - sign, m);
  return r ^ (sign & (r ^ neg(r, m.q)));
}

// small: eight coefficients from one stream block, modulo up to eight limbs; i0
// = label, i1 = limbs. f is at most 21 in magnitude, below every q. Grid
// (N/1024, limbs/8), 128 threads.
template <class F> DEV void small(const Args& p, F f) {
  const u32 block = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * 8;
  u32 q[8], w[16];
#pragma unroll
  for (int l = 0; l < 8; l++) q[l] = p.mods[p.limbs[min(first + l, p.i1 - 1)]].q;
  chacha(w, p.key, block, p.i0, 0, 0);
  const u32 logn1 = p.logN - p.logN2, mask = (1u << p.logN2) - 1;
  u32* d = p.dst + ((u64)first << p.logN);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const i32 v = f(w[2 * j], w[2 * j + 1]);
    const u32 k = 8 * block + j, sign = (u32)(v >> 31);
    u32* to = d + ((k & mask) << logn1) + (k >> p.logN2);
#pragma unroll
    for (int l = 0; l < 8; l++)
      if (first + l < p.i1) to[(u64)l << p.logN] = (u32)v + (q[l] & sign);
  }
}
KERNEL(128, 4, sample_ternary) {
  small(p, [](u32 lo, u32 hi) { return (i32)__umul64hi((u64)hi << 32 | lo, 3) - 1; });
}
KERNEL(128, 4, sample_cbd) {
  const u32 mask = (1u << 21) - 1;
  small(p, [mask](u32 lo, u32 hi) { return (i32)__popc(lo & mask) - (i32)__popc(hi & mask); });
}

// natural: the coefficient at residue i of a limb with 2^logN2 columns.
DEV u32 natural(const Args& p, u32 i) {
  const u32 logn1 = p.logN - p.logN2;
  return ((i & ((1u << logn1) - 1)) << p.logN2) + (i >> logn1);
}

// set_small: dst from signed integers x in natural order, |x| < 2^31.
KERNEL(256, 4, set_small) {
  const Place at(p, 8);
  const Mod m = core(p.mods + p.limbs[at.limb]);
  const u32 i = at.i + threadIdx.x;
  const i32 v = ((const i32*)p.x)[natural(p, i)];
  p.dst[((u64)at.limb << p.logN) + i] = fromSmall(v, m);
}

// set_floats: dst from integral float64 x in natural order: the 53-bit
// significand, shifted right below 2^53, times a power of 2. No branch depends
// on the value.
KERNEL(256, 4, set_floats) {
  const Place at(p, 8);
  const Mod m = core(p.mods + p.limbs[at.limb]);
  const u32 i = at.i + threadIdx.x;
  const u64 bits = ((const u64*)p.x)[natural(p, i)];
  const u32 e = (u32)(bits >> 52) & 0x7ff, sign = 0 - (u32)(bits >> 63);
  const u64 f = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  const i32 shift = (i32)e - 1075; // x = f * 2^shift for e > 0
  const u64 g = shift < 0 ? (shift > -53 ? f >> -shift : 0) : f;
  const u32 up = shift > 0 ? shift : 0; // at most 971
  u32 pow = 1, base = 2;
#pragma unroll 1 // the compiler takes minutes over the unrolled chain
  for (int k = 0; k < 10; k++) {
    const u32 t = mulmod(pow, base, m);
    pow = (up >> k) & 1 ? t : pow;
    base = mulmod(base, base, m);
  }
  const u32 r = mulmod(reduce(g, m), pow, m);
  p.dst[((u64)at.limb << p.logN) + i] = r ^ (sign & (r ^ neg(r, m.q)));
}
