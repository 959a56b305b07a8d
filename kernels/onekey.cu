// The sums of digits times key for many items under one key, on the tensor cores of
// server GPUs: what inner_4 of keyswitch.cu computes, with the same results.
//
// At one place of a limb (a block of 4 residues, one in each column) an item has up to
// 4 digits of 4 residues, and both sums together 8 residues, each a sum of 16 products
// with residues of the key, those that wrap times the block's factor. Over the items
// this is a matrix product. Residues are cut into bytes: the A operand of
// mma.m16n8k32 (u8 x u8 -> s32) has four consecutive bytes of a row in a register, so
// residues of digits go in as they are, a row an item. Column (r, j) of B for the sum of
// weight 2^(8k) holds, across byte a of the digit's residue, byte k-a of the key's: the
// key's residue with its bytes in reverse, shifted. The seven sums are below 2^22, and
// together the integer that inner_4 adds up in 64 bits.
#include "hadamard.cuh"
#include "many.cuh"
#include "tensor.cuh"

// Orin and desktop GPUs get none of it, since evaluators do not run there.
#if defined(EMULATED) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 900
#define SERVERS(...) __VA_ARGS__
#else
#define SERVERS(...)
#endif

typedef int64_t i64;

// kept makes x a value that the compiler cannot compute again where it needs it.
template <class T> DEV T kept(T x) {
#ifndef EMULATED
  if constexpr (sizeof(T) == 4) asm volatile("" : "+r"(x));
  else asm volatile("" : "+l"(x));
#endif
  return x;
}

// opaque hides where x comes from, so that the compiler adds it by itself.
DEV u32 opaque(u32 x) {
#ifndef EMULATED
  asm("" : "+r"(x));
#endif
  return x;
}

// word is one word of shared memory by an instruction of its own.
DEV u32 word(const u32* s) {
#ifdef EMULATED
  return *s;
#else
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"((u32)__cvta_generic_to_shared(s)) : "memory");
  return v;
#endif
}

// Tiles is the shared memory of a block: the digits of 16 items, twice, 256 rows (digit,
// item, column) of 32 places in quarters, exchanged so that the rows of 8 lanes begin in
// different banks; their results, of an item 8 rows (sum, column), likewise apart; what
// each thread copies of each digit, for which it has no registers; where x and the
// extension of each item are, two pointers; and low of the round, if it is added.
struct Tiles {
  static const u32 digit = 64 * 32, digits = 4 * digit, row = 36, item = 8 * row + 4; // in words
  static const u32 results = 2 * digits, sources = results + 16 * item, slots = sources + 4 * 256, most = 256;
  static const u32 low = slots + 4 * most, words = low + 4 * 4 * 256; // plans.go mirrors it, and most
  static DEV u32 at(u32 item, u32 column, u32 quarter) {
    return (item * 4 + column) * 32 + (quarter ^ column ^ ((item & 1) << 2)) * 4;
  }
};
alignas(16) extern __shared__ u32 shared[];

// onekey: arguments as inner of keyswitch.cu, the key that of item 0, i0 <= 4 digits,
// ai <= Tiles::most items. 32 places a block, four a warp; 16 items at a time, those of
// the next round on their way meanwhile. Grid (n1/32, limbs), 256 threads.
DEV void onekey(const Many& m) {
  const Args& p = m.p;
  const u32 n1 = 1u << (p.logN - 2), limb = blockIdx.y, id = p.limbs[limb], place = blockIdx.x * 32, items = (u32)p.ai;
  const u32 warp = threadIdx.x >> 5, g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3, quarter = threadIdx.x & 7, column = threadIdx.x >> 3 & 3;
  const Mod k = core(p.mods + id);
  const u32 nq = minus(k.q), nq2 = minusTwice(k.q);

  // This thread copies a quarter of a column of items warp and warp+8, of each digit: 16
  // bytes from the limbs of the extension or, with the top bit, of x.
  u32* sources = shared + Tiles::sources + threadIdx.x;
  for (u32 d = 0; d < p.i0; d++) {
    const u32 l = __ldg((const u32*)p.x + limb * p.i0 + d);
    sources[d * 256] = ((l << (p.logN - 2)) + ((column * n1 + place) >> 2) + quarter) | (l & 0x80000000);
    BELOW((u64)(l & 0x7fffffff) << (p.logN - 2), 0x7fff0000u);
  }
  const auto fetch = [&](u32 round) {
    uint4 from[2]; // pointers to x and to the extension
    u32 s[4];
#pragma unroll
    for (int h = 0; h < 2; h++) from[h] = four(shared + Tiles::slots + 4 * min(round * 16 + warp + 8 * h, items - 1));
#pragma unroll
    for (int d = 0; d < 4; d++) s[d] = d < p.i0 ? sources[d * 256] : 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint4 *x = (const uint4*)((u64)from[h].y << 32 | from[h].x), *e = (const uint4*)((u64)from[h].w << 32 | from[h].z);
      u32* to = shared + (round & 1) * Tiles::digits + Tiles::at(warp + 8 * h, column, quarter);
#pragma unroll
      for (int d = 0; d < 4; d++)
        if (d < p.i0) copyAsync((uint4*)(to + d * Tiles::digit), ((i32)s[d] < 0 ? x : e) + (s[d] & 0x7fffffff));
    }
  };
  for (u32 i = threadIdx.x; i < items; i += 256) {
    u32** to = (u32**)(shared + Tiles::slots) + 2 * i;
    to[0] = slot(m, i, 2).at;
    to[1] = slot(m, i, 3).at;
  }
  for (u32 i = threadIdx.x; i < (4 - p.i0) * Tiles::digit / 4; i += 256)
#pragma unroll
    for (int h = 0; h < 2; h++) *(uint4*)(shared + h * Tiles::digits + p.i0 * Tiles::digit + 4 * i) = make_uint4(0, 0, 0, 0);
  __syncthreads();
  fetch(0);

  u32 key[4][4]; // of digit d, place v: the key's residue for column t of the digit and result g
  {
    const u32 j = g & 3, first = place + 4 * warp;
    const Slot from = slot(m, 0, 0);
    const u32* at = from.at + (g >> 2) * from.stride + ((u64)p.at[limb] << p.logN) + ((j - t) & 3) * n1 + first;
    uint2 w[4];
#pragma unroll
    for (int v = 0; v < 4; v++) w[v] = root(p.tw + id * p.ts, n1, first + v, k.q);
#pragma unroll
    for (int d = 0; d < 4; d++) {
      uint4 y = make_uint4(0, 0, 0, 0);
      if (d < p.i0) y = *(const uint4*)(at + 2 * d * from.stride);
      const u32 own[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int v = 0; v < 4; v++) key[d][v] = kept(__byte_perm(t > j ? mulc(own[v], w[v], k.q) : own[v], 0, 0x0123));
    }
  }
  const auto bytes = [](u32 y, int i) { return i < 3 ? y >> 8 * (3 - i) : y << 8 * (i - 3); }; // of weight 2^(8i)

  const bool merged = limb < p.i1;
  const u32 from = Tiles::at(g, t, warp), result = Tiles::results + g * Tiles::item + 2 * t * Tiles::row + 4 * warp;
  // This thread stores the results of item mine of a round, columns c and c+2 of both sums.
  const u32 mine = threadIdx.x >> 3 & 15, c = threadIdx.x >> 7, done = Tiles::results + mine * Tiles::item + c * Tiles::row + 4 * quarter;
#pragma unroll 1
  for (u32 round = 0; round * 16 < items; round++) {
    const u32 item = round * 16 + mine;
    const u64 off = ((u64)limb << p.logN) + c * n1 + place + 4 * quarter;
    copied();
    if (merged && item < items) {
      const Slot low = slot(m, item, 1);
      for (u32 i = 0; i < 2 * p.i3; i++)
        copyAsync((uint4*)(shared + Tiles::low) + i * 256 + threadIdx.x, (const uint4*)(low.at + (i >> 1) * low.stride + off + 2 * (i & 1) * n1));
    }
    if ((round + 1) * 16 < items) fetch(round + 1);
#pragma unroll
    for (int h = 0; h < 2; h++) { // places h and h+2: loads of neighbours would be joined, and words moved about for mma
      u32 z[4][2];
#pragma unroll
      for (int v = 0; v < 2; v++) {
        u32 a[8], s[7][4]; // digits of items g and g+8
#pragma unroll
        for (int i = 0; i < 8; i++) a[i] = word(shared + (round & 1) * Tiles::digits + from + h + 2 * v + (i >> 1) * Tiles::digit + (i & 1) * 1024);
#pragma unroll
        for (int i = 0; i < 7; i++) mma<false>(s[i], make_uint4(a[0], a[1], a[2], a[3]), bytes(key[0][h + 2 * v], i), bytes(key[1][h + 2 * v], i));
        if (p.i0 > 2)
#pragma unroll
          for (int i = 0; i < 7; i++) mma<true>(s[i], make_uint4(a[4], a[5], a[6], a[7]), bytes(key[2][h + 2 * v], i), bytes(key[3][h + 2 * v], i));
#pragma unroll
        for (int i = 0; i < 4; i++) { // 16 products below 2^60: right in 64 bits
          const u32 low = s[0][i] + (s[1][i] << 8), mid = s[2][i] + (s[3][i] << 8) + (low >> 16);
          const u32 lo = __byte_perm(low, mid, 0x5410), hi = (mid >> 16) + s[4][i] + (s[5][i] << 8) + (s[6][i] << 16);
          const u32 n = opaque(__umulhi(hi, k.r32s)) + opaque(__umulhi(lo, k.ones)); // as reduced
          z[i][v] = kept(hi * k.r32 + lo + n * nq);
          BELOW(z[i][v], 4ull * k.q);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; i++) // item g + 8*(i/2), result 2t + i%2
        *(uint2*)(shared + result + 2 * h + (i & 1) * Tiles::row + (i >> 1) * 8 * Tiles::item) = make_uint2(z[i][0], z[i][1]);
    }
    if (merged) copied();
    else __syncthreads();
    if (item >= items) break; // the last round
#pragma unroll
    for (int i = 0; i < 4; i++) { // sum i/2, column c + 2*(i%2)
      const u32 r = i >> 1;
      const uint4 y = four(shared + done + (4 * r + 2 * (i & 1)) * Tiles::row);
      u32 x[4] = {y.x, y.z, y.y, y.w}; // places 0, 2, 1, 3
      if (merged && r < p.i3) {
        const uint2 f = __ldg((const uint2*)((const u32*)p.x + p.i2) + limb);
        const uint4 low = four(shared + Tiles::low + 4 * (i * 256 + threadIdx.x));
        x[0] = fold(x[0], nq2) + shoup(low.x, f, k.q);
        x[1] = fold(x[1], nq2) + shoup(low.y, f, k.q);
        x[2] = fold(x[2], nq2) + shoup(low.z, f, k.q);
        x[3] = fold(x[3], nq2) + shoup(low.w, f, k.q);
      }
#pragma unroll
      for (int l = 0; l < 4; l++) x[l] = fold(fold(x[l], nq2), nq);
      store(p.dst + (2 * item + r) * p.ds + off + 2 * (i & 1) * n1, make_uint4(x[0], x[1], x[2], x[3]));
    }
  }
}
ITEMS(256, 2, onekey_4) { SERVERS(onekey(m);) }
