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
#include "arith.cuh"

// Conversion heads the constants of one change of basis, a multiple of 16 bytes.
// There follow, for C chunks of 8 limbs: uint4 for each limb: (S/q_i)^-1 mod q_i
// with its quotient, q_i, and the limb of dst that x_i is copied to (or ~0); a
// u64 for each: floor(2^56/q_i); uint4 for each output: p_j, 2^16 mod p_j with
// its quotient, floor(2^32/p_j); a word for each: its limb of dst (or ~0: none);
// then the A operands, [group of 8 outputs][chunk][tile][lane] of uint4. Limbs
// and outputs are filled up with zeros.
struct Conversion {
  u32 limbs, first; // limbs of the source, from this one on
  u32 groups;       // of 8 outputs
  u32 pad;
};

DEV void mma(u32 (&d)[4], uint4 a, u32 b0, u32 b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#endif
}

// weigh: s0 + 2^8*s1 + 2^16*s2 + 2^24*s3 mod p for s below 2^23.1, in [0, p);
// k = (p, w, quotient of w, floor(2^32/p)), w = 2^16 mod p. See reduce.
DEV u32 weigh(u32 s0, u32 s1, u32 s2, u32 s3, uint4 k) {
  const u32 lo = s0 + (s1 << 8), hi = s2 + (s3 << 8); // below 2^31.1
  const u32 n = __umulhi(hi, k.z) + __umulhi(lo, k.w);
  return corr(corr(hi * k.y + lo - n * k.x, 2 * k.x), k.x);
}

// extend: 32 coefficients a warp, 256 a block; i0 = words of one conversion, i1
// = shares that the outputs are dealt to. Grid (polys*N/256, conversions*i1).
//
// Column n of tile j is coefficient 4*(n/2) + 16*(n%2) + j, so that a thread
// loads 16 bytes of a limb for its column and stores 16 bytes for each of two.
template <int C> DEV void extend(const Args& p) {
  const u32 lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 conversion = blockIdx.y / p.i1, share = blockIdx.y % p.i1, parts = p.logN - 8;
  const u32 poly = blockIdx.x >> parts, base = ((blockIdx.x & ((1u << parts) - 1)) << 8) + (threadIdx.x & ~31u);
  const u32* words = (const u32*)p.x + (u64)conversion * p.i0;
  const uint4 h = __ldg((const uint4*)words);
  const u32 limbs = h.x, groups = h.z;
  const uint4* scale = (const uint4*)words + 1;
  const u64* round = (const u64*)(scale + 8 * C);
  const uint4* mods = (const uint4*)(round + 8 * C);
  const u32* place = (const u32*)(mods + 8 * groups);
  const uint4* tiles = (const uint4*)(place + 8 * groups) + lane;
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

  for (u32 o = share; o < groups; o += p.i1) {
    const uint4* tile = tiles + o * (64 * C);
    const uint4 k = __ldg(mods + 8 * o + g);
    const u32 at = __ldg(place + 8 * o + g);
    u32 d[2][4][4];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) d[m][j][e] = 0;
#pragma unroll
    for (int k = 0; k < C; k++)
#pragma unroll
      for (int m = 0; m < 2; m++) {
        const uint4 f = __ldg(tile + (2 * k + m) * 32);
#pragma unroll
        for (int j = 0; j < 4; j++) mma(d[m][j], f, y[k][0][j], y[k][1][j]);
      }
    uint4 z[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      z[e].x = weigh(d[0][0][e], d[0][0][2 + e], d[1][0][e], d[1][0][2 + e], k);
      z[e].y = weigh(d[0][1][e], d[0][1][2 + e], d[1][1][e], d[1][1][2 + e], k);
      z[e].z = weigh(d[0][2][e], d[0][2][2 + e], d[1][2][e], d[1][2][2 + e], k);
      z[e].w = weigh(d[0][3][e], d[0][3][2 + e], d[1][3][e], d[1][3][2 + e], k);
    }
    if (at != ~0u) {
      uint4* to = (uint4*)(dst + ((u64)at << p.logN) + 4 * t);
      to[0] = z[0];
      to[4] = z[1];
    }
    __syncwarp(); // mma needs the whole warp
  }
}

KERNEL(256, 3, extend_1) { extend<1>(p); }
KERNEL(256, 3, extend_2) { extend<2>(p); }
KERNEL(256, 3, extend_3) { extend<3>(p); }
KERNEL(256, 2, extend_4) { extend<4>(p); }
