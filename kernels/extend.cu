// Change of RNS basis on the tensor cores (sm_80 and later), with the exact rule
// of basis.cu: z_j = sum over i of y_i*c_ij + v*(-S) mod p_j.
//
// The sum is a product of byte matrices. A residue is four bytes, and the B
// operand of mma.m16n8k32 (u8 x u8 -> s32) has four consecutive bytes of a column
// in a register: residues go in as they are, one column a coefficient, 32 rows
// for 8 limbs. Byte b of limb i meets the constant c_ij*2^(8b) mod p_j, cut into
// four bytes itself, so an output is four sums s_d below 2^23, weighted by 2^(8d).
// Row g of two A tiles has bytes 0 and 2 of output g, row g+8 bytes 1 and 3, so
// that a thread gets all four of its outputs. v is one limb more, with -S.
#include "tensor.cuh"

// The constants of one change of basis, a multiple of 16 bytes: uint4 (limbs of
// the source, the first of them, groups of 8 outputs, 0); then, for C chunks of 8
// limbs, uint4 for each limb: (S/q_i)^-1 mod q_i with its quotient, q_i, and the
// limb of dst that x_i is copied to (or ~0); a u64 for each: floor(2^56/q_i); then
// the groups. A group is uint4 for each output: -p_j, 2^16 mod p_j with its
// quotient, floor(2^32/p_j); uint2 for each: -2p_j and its limb of dst (or ~0:
// none); and the A operands, [chunk][tile][lane] of uint4. Limbs and outputs are
// filled up with zeros.
template <int C> struct Group { static const int words = 8 + 4 + 64 * C; }; // of 16 bytes

// weigh: s0 + 2^8*s1 + 2^16*s2 + 2^24*s3 mod p for s below 2^23.1, in [0, p);
// k = (-p, w, quotient of w, floor(2^32/p)), w = 2^16 mod p, twice = -2p. See reduce;
// the negatives come from memory so that a correction is one instruction.
DEV u32 weigh(u32 s0, u32 s1, u32 s2, u32 s3, uint4 k, u32 twice) {
  const u32 lo = s0 + (s1 << 8), hi = s2 + (s3 << 8); // below 2^31.1
  BELOW(max(max(s0, s1), max(s2, s3)), 8990000); // 2^23.1
  const u32 n = __umulhi(hi, k.z) + __umulhi(lo, k.w);
  u32 x = hi * k.y + lo + n * k.x;
  BELOW(x, k.x ? 4ull * (0 - k.x) : 1ull << 32);
  x = min(x, x + twice);
  return min(x, x + k.x);
}

extern __shared__ uint4 groups[]; // of a block

// extend: 32 coefficients a warp, 256 a block. Grid (polys*N/256, conversions*shares).
//
// Column n of tile j is coefficient 4*(n/2) + 16*(n%2) + j, so that a thread
// loads 16 bytes of a limb for its column and stores 16 bytes for each of two.
template <int C> DEV void extend(const ExtendArgs& p) {
  const u32 lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 conversion = blockIdx.y / p.shares, share = blockIdx.y % p.shares, parts = p.logN - 8;
  const u32 poly = blockIdx.x >> parts, base = ((blockIdx.x & ((1u << parts) - 1)) << 8) + (threadIdx.x & ~31u);
  const u32* words = p.conversions + (u64)conversion * p.words;
  const uint4 h = __ldg((const uint4*)words);
  const u32 limbs = h.x, from = share * h.z / p.shares, count = (share + 1) * h.z / p.shares - from;
  const uint4* scale = (const uint4*)words + 1;
  const u64* round = (const u64*)(scale + 8 * C);
  const uint4* mine = (const uint4*)(round + 8 * C) + from * Group<C>::words;
  const u32 c = base + 4 * (g >> 1) + 16 * (g & 1);
  const u32* a = p.a + poly * p.as + ((u64)h.y << p.logN) + c;
  u32* dst = p.dst + poly * p.ds + base;

  u32 y[C][2][4];
  u64 v[4] = {0, 0, 0, 0};
#pragma unroll
  for (int k = 0; k < C; k++)
#pragma unroll
    for (int s = 0; s < 2; s++) {
      const u32 i = 8 * k + 4 * s + t;
      uint4 x = make_uint4(0, 0, 0, 0);
      if (i < limbs) x = __ldg((const uint4*)(a + ((u64)i << p.logN)));
      y[k][s][0] = x.x; y[k][s][1] = x.y; y[k][s][2] = x.z; y[k][s][3] = x.w;
    }
  for (u32 i = threadIdx.x; i < count * Group<C>::words; i += 256) copyAsync(groups + i, mine + i);
#pragma unroll
  for (int k = 0; k < C; k++)
#pragma unroll
    for (int s = 0; s < 2; s++) {
      const u32 i = 8 * k + 4 * s + t;
      const uint4 f = __ldg(scale + i);
      const u64 r = __ldg(round + i);
      if (f.w != ~0u && share == 0)
        *(uint4*)(p.dst + poly * p.ds + ((u64)f.w << p.logN) + c) = make_uint4(y[k][s][0], y[k][s][1], y[k][s][2], y[k][s][3]);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        y[k][s][j] = mulc(y[k][s][j], make_uint2(f.x, f.y), f.z); // 0 beyond the limbs
        v[j] += y[k][s][j] * r;
      }
    }
#pragma unroll
  for (int j = 0; j < 4; j++) {
    v[j] += __shfl_xor_sync(~0u, v[j], 1);
    v[j] += __shfl_xor_sync(~0u, v[j], 2);
    v[j] = (v[j] + (1ull << 55)) >> 56;
  }
#pragma unroll
  for (int k = 0; k < C; k++)
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (8 * k + 4 * s + t == limbs) y[k][s][j] = (u32)v[j];

  copied();
  const auto sums = [&](u32 (&d)[2][4][4], u32 o) {
    const uint4* tile = groups + o * Group<C>::words + 12 + lane;
#pragma unroll
    for (int k = 0; k < C; k++)
#pragma unroll
      for (int m = 0; m < 2; m++) {
        const uint4 f = tile[(2 * k + m) * 32];
#pragma unroll
        for (int j = 0; j < 4; j++) {
          if (k == 0) mma<false>(d[m][j], f, y[k][0][j], y[k][1][j]);
          else mma<true>(d[m][j], f, y[k][0][j], y[k][1][j]);
        }
      }
  };
  const auto finish = [&](const u32 (&d)[2][4][4], u32 o) {
    const uint4 k = groups[o * Group<C>::words + g];
    const uint2 e = ((const uint2*)(groups + o * Group<C>::words + 8))[g];
    uint4 z[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      z[i].x = weigh(d[0][0][i], d[0][0][2 + i], d[1][0][i], d[1][0][2 + i], k, e.x);
      z[i].y = weigh(d[0][1][i], d[0][1][2 + i], d[1][1][i], d[1][1][2 + i], k, e.x);
      z[i].z = weigh(d[0][2][i], d[0][2][2 + i], d[1][2][i], d[1][2][2 + i], k, e.x);
      z[i].w = weigh(d[0][3][i], d[0][3][2 + i], d[1][3][i], d[1][3][2 + i], k, e.x);
    }
    u32* to = dst + ((u64)e.y << p.logN) + 4 * t;
    if (e.y != ~0u) store(to, z[0]);
    if (e.y != ~0u) store(to + 16, z[1]);
  };
  u32 d0[2][4][4];
  if constexpr (C == 3) { // two groups at a time: it has the registers, and the sums to overlap
    if (count == 0) return; // limbs are copied only
    u32 d1[2][4][4];
    sums(d0, 0);
    for (u32 o = 0; o + 2 <= count; o += 2) {
      __syncwarp(); // mma needs the whole warp
      sums(d1, o + 1);
      finish(d0, o);
      sums(d0, min(o + 2, count - 1));
      finish(d1, o + 1);
    }
    if (count & 1) finish(d0, count - 1);
  } else {
    for (u32 o = 0; o < count; o++) {
      __syncwarp();
      sums(d0, o);
      finish(d0, o);
    }
  }
}

KERNEL(ExtendArgs, 256, 3, extend_1) { extend<1>(p); }
KERNEL(ExtendArgs, 256, 3, extend_2) { extend<2>(p); }
KERNEL(ExtendArgs, 256, 2, extend_3) { extend<3>(p); }
KERNEL(ExtendArgs, 256, 2, extend_4) { extend<4>(p); }
