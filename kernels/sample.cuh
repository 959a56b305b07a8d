// The stream, the distributions and the reductions of the samplers, bit for bit
// those of cutrantt/prng. No branch or address depends on a secret.
#pragma once
#include "arith.cuh"

typedef int64_t i64;

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

// residue: what word x of the stream gives modulo q, floor(x*q/2^32); not accepted
// where x*q mod 2^32 < below = 2^32 mod q (Lemire 2019, Algorithm 5).
DEV u32 residue(u32 x, u32 q, u32 below, bool& accepted) {
  const u64 m = (u64)x * q;
  accepted = (u32)m >= below;
  return (u32)(m >> 32);
}

// ternary and binomial: coefficient j from words 2j and 2j+1 of its stream.
DEV i32 ternary(u32 lo, u32 hi) { return (i32)__umul64hi((u64)hi << 32 | lo, 3) - 1; }
DEV i32 binomial(u32 lo, u32 hi) {
  const u32 mask = (1u << 21) - 1;
  return (i32)__popc(lo & mask) - (i32)__popc(hi & mask);
}

// natural: the coefficient at residue i of a limb with 2^logN2 columns.
DEV u32 natural(const Args& p, u32 i) {
  const u32 logn1 = p.logN - p.logN2;
  return ((i & ((1u << logn1) - 1)) << p.logN2) + (i >> logn1);
}

// signedBy negates r in [0, q) where sign is 2^32-1.
DEV u32 signedBy(u32 r, u32 sign, u32 q) { return r ^ (sign & (r ^ neg(r, q))); }

// residueOf32, residueOf64: any signed integer modulo q, in [0, q).
DEV u32 residueOf32(i32 v, const Mod& m) {
  const u32 sign = (u32)(v >> 31);
  return signedBy(reduce32(((u32)v ^ sign) - sign, m), sign, m.q);
}
DEV u32 residueOf64(i64 v, const Mod& m) {
  const u64 sign = (u64)(v >> 63);
  return signedBy(reduce(((u64)v ^ sign) - sign, m), (u32)sign, m.q);
}

// residueOfFloat: the integral float64 with these bits, of any magnitude: the
// 53-bit significand, shifted right below 2^53, times a power of 2.
DEV u32 residueOfFloat(u64 bits, const Mod& m) {
  const u32 e = (u32)(bits >> 52) & 0x7ff;
  const u64 f = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  const i32 shift = (i32)e - 1075; // |x| = f * 2^shift for e > 0
  const u64 g = shift < 0 ? (shift > -53 ? f >> -shift : 0) : f;
  const u32 up = shift > 0 ? shift : 0; // at most 971
  u32 pow = 1, base = 2;
#pragma unroll 1 // the compiler takes minutes over the unrolled chain
  for (int k = 0; k < 10; k++) {
    const u32 t = mulmod(pow, base, m);
    pow = (up >> k) & 1 ? t : pow;
    base = mulmod(base, base, m);
  }
  return signedBy(mulmod(reduce(g, m), pow, m), 0 - (u32)(bits >> 63), m.q);
}
