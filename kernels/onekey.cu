// The sums of digits times key for many items under one key, on the tensor cores of
// server GPUs: what inner_4 of keyswitch.cu computes, with the same results.
//
// A row of a limb is a polynomial modulo X^4 - w, one residue in each column. There an
// item has up to 4 digits of 4 residues, and 8 results: 4 residues of both sums. A
// result is a sum of 16 products with residues of the key; those that wrap around carry
// the factor w. Over the items this is a matrix product: A has the digits, a matrix row
// for each item, and B the key, a matrix column for each result.
//
// Residues are cut into bytes for mma.m16n8k32 (u8 x u8 -> s32). A register of A holds
// four consecutive bytes of a matrix row, so residues of digits go in as they are. The
// sum of weight 2^(8k) needs byte k-a of the key's residue where A has byte a of the
// digit's: B holds the key's residue with its bytes in reverse, shifted. The seven sums
// are below 2^22. Weighted, they make the integer that inner_4 adds up in 64 bits.
//
// In the fragments of mma a lane is a group (lane/4) and a member of it (lane%4). It
// holds matrix rows group and group+8 of A and of the result, column group of B, and
// columns 2*member and 2*member+1 of the result.
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

// Tiles is the shared memory of a block, in words: the digits of the items of two
// rounds, one in use and one on its way; the results of a round; for each thread and
// digit where it copies from, as it has no registers for that; for each item the
// pointers to x and to the extension; and low of the round, where it is merged.
// A line is one column of 32 rows, in 8 chunks of 4 rows (16 bytes).
struct Tiles {
  static const u32 threads = 256, round = 16, rows = 32, digitsMost = 4;
  static const u32 digit = round * 4 * rows, digits = digitsMost * digit; // [digit][item][column][row]
  static const u32 line = rows + 4, item = 8 * line + 4; // results: [item][sum, column][row], apart for the banks
  static const u32 results = 2 * digits, sources = results + round * item, pointers = sources + digitsMost * threads;
  static const u32 itemsMost = 256; // plans.go mirrors it, and words
  static const u32 low = pointers + 4 * itemsMost, words = low + 4 * 4 * threads;

  // chunkOf is the place of a chunk of a digit. Chunks are exchanged, so that the lines
  // of 8 lanes begin in different banks.
  static DEV u32 chunkOf(u32 item, u32 column, u32 chunk) {
    return (item * 4 + column) * rows + (chunk ^ column ^ ((item & 1) << 2)) * 4;
  }
};
alignas(16) extern __shared__ u32 shared[];

const u32 fromX = 0x80000000; // a source with this bit is of x, else of the extension

// DigitCopy is the part of a thread in bringing the digits of a round to shared memory:
// one chunk of one column of two items, of each digit.
struct DigitCopy {
  u32 items, digits, first, chunk, column;
  u32* sources;

  // The constructor also puts what fetch needs into shared memory, and zeros for the
  // digits that are not there.
  DEV DigitCopy(const InnerMany& p, u32 limb, u32 row)
      : items(p.items), digits(p.digits), first(threadIdx.x >> 5), chunk(threadIdx.x & 7), column(threadIdx.x >> 3 & 3),
        sources(shared + Tiles::sources + threadIdx.x) {
    const u32 n1 = 1u << (p.logN - 2);
    for (u32 d = 0; d < digits; d++) {
      const u32 source = __ldg(p.sources + limb * digits + d);
      BELOW((u64)(source & ~fromX) << (p.logN - 2), 0x7fff0000u);
      sources[d * Tiles::threads] = ((source << (p.logN - 2)) + ((column * n1 + row) >> 2) + chunk) | (source & fromX);
    }
    for (u32 i = threadIdx.x; i < items; i += Tiles::threads) {
      u32** to = (u32**)(shared + Tiles::pointers) + 2 * i;
      to[0] = operand(p, i, &InnerItem::x).at;
      to[1] = operand(p, i, &InnerItem::extension).at;
    }
    for (u32 i = threadIdx.x; i < (Tiles::digitsMost - digits) * Tiles::digit / 4; i += Tiles::threads)
#pragma unroll
      for (int h = 0; h < 2; h++)
        *(uint4*)(shared + h * Tiles::digits + digits * Tiles::digit + 4 * i) = make_uint4(0, 0, 0, 0);
    __syncthreads();
  }

  // fetch starts the copies of a round. Beyond the last item it copies that one again.
  DEV void fetch(u32 round) const {
    uint4 at[2];
    u32 source[4];
#pragma unroll
    for (int h = 0; h < 2; h++)
      at[h] = four(shared + Tiles::pointers + 4 * min(round * Tiles::round + first + 8 * h, items - 1));
#pragma unroll
    for (int d = 0; d < 4; d++) source[d] = d < digits ? sources[d * Tiles::threads] : 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint4* x = (const uint4*)((u64)at[h].y << 32 | at[h].x);
      const uint4* extension = (const uint4*)((u64)at[h].w << 32 | at[h].z);
      u32* to = shared + (round & 1) * Tiles::digits + Tiles::chunkOf(first + 8 * h, column, chunk);
#pragma unroll
      for (int d = 0; d < 4; d++)
        if (d < digits) copyAsync((uint4*)(to + d * Tiles::digit), ((i32)source[d] < 0 ? x : extension) + (source[d] & ~fromX));
    }
  }
};

// loadKey: for digit d and row first + r the key's residue that column member of the
// digit meets in result group, with its bytes in reverse.
DEV void loadKey(u32 (&key)[4][4], const InnerMany& p, u32 limb, u32 first, u32 group, u32 member, u32 id, u32 q) {
  const u32 n1 = 1u << (p.logN - 2), result = group & 3; // its column; sum group/4
  const Slot from = operand(p, 0, &InnerItem::key);
  const u32* at = from.at + (group >> 2) * from.stride + ((u64)p.at[limb] << p.logN) + ((result - member) & 3) * n1 + first;
  uint2 w[4];
#pragma unroll
  for (int r = 0; r < 4; r++) w[r] = root(p.tw + id * p.ts, n1, first + r, q);
#pragma unroll
  for (int d = 0; d < 4; d++) {
    uint4 y = make_uint4(0, 0, 0, 0);
    if (d < p.digits) y = *(const uint4*)(at + 2 * d * from.stride);
    const u32 own[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const u32 factor = member > result ? mulc(own[r], w[r], q) : own[r]; // w where the product wraps around
      key[d][r] = kept(__byte_perm(factor, 0, 0x0123));
    }
  }
}

// keyBytes is the register of B for the sum of weight 2^(8k).
DEV u32 keyBytes(u32 reversed, int k) { return k < 3 ? reversed >> 8 * (3 - k) : reversed << 8 * (k - 3); }

// weighted: the integer that seven sums below 2^22 make, modulo q in [0, 4q). It is a
// sum of 16 products below 2^60, so 64 bits hold it.
DEV u32 weighted(u32 s0, u32 s1, u32 s2, u32 s3, u32 s4, u32 s5, u32 s6, const Mod& m, u32 nq) {
  const u32 low = s0 + (s1 << 8), mid = s2 + (s3 << 8) + (low >> 16);
  const u32 lo = __byte_perm(low, mid, 0x5410), hi = (mid >> 16) + s4 + (s5 << 8) + (s6 << 16);
  const u32 n = opaque(__umulhi(hi, m.r32s)) + opaque(__umulhi(lo, m.ones)); // as reduced
  const u32 x = kept(hi * m.r32 + lo + n * nq);
  BELOW(x, 4ull * m.q);
  return x;
}

// multiplyRow: the results of a lane for one row; digits are those of the round there.
DEV void multiplyRow(u32 (&z)[4], const u32* digits, const u32 (&key)[4][4], int row, bool more, const Mod& m, u32 nq) {
  u32 a[8], s[7][4]; // a: of digit i/2 and item group + 8*(i%2)
#pragma unroll
  for (int i = 0; i < 8; i++) a[i] = word(digits + row + (i >> 1) * Tiles::digit + (i & 1) * (Tiles::digit / 2));
#pragma unroll
  for (int k = 0; k < 7; k++)
    mma<false>(s[k], make_uint4(a[0], a[1], a[2], a[3]), keyBytes(key[0][row], k), keyBytes(key[1][row], k));
  if (more)
#pragma unroll
    for (int k = 0; k < 7; k++)
      mma<true>(s[k], make_uint4(a[4], a[5], a[6], a[7]), keyBytes(key[2][row], k), keyBytes(key[3][row], k));
#pragma unroll
  for (int i = 0; i < 4; i++) z[i] = weighted(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], s[5][i], s[6][i], m, nq);
}

// onekey: InnerArgs, with the key of item 0 for all; up to Tiles::digitsMost digits and
// Tiles::itemsMost items. 32 rows a block, four a warp; 16 items a round, and the digits
// of the next round are on their way meanwhile. Grid (n1/32, limbs), 256 threads.
DEV void onekey(const InnerMany& p) {
  const u32 n1 = 1u << (p.logN - 2), limb = blockIdx.y, id = p.limbs[limb], row = blockIdx.x * Tiles::rows;
  const u32 warp = threadIdx.x >> 5, group = (threadIdx.x & 31) >> 2, member = threadIdx.x & 3, chunk = threadIdx.x & 7;
  const Mod m = core(p.mods + id);
  const u32 nq = minus(m.q), nq2 = minusTwice(m.q);
  const DigitCopy copy(p, limb, row);
  copy.fetch(0);
  u32 key[4][4];
  loadKey(key, p, limb, row + 4 * warp, group, member, id, m.q);

  const bool merged = limb < p.merged;
  const u32 from = Tiles::chunkOf(group, member, warp);
  const u32 result = Tiles::results + group * Tiles::item + 2 * member * Tiles::line + 4 * warp;
  // This thread stores the results of one item of a round, columns column and column+2 of both sums.
  const u32 mine = threadIdx.x >> 3 & 15, column = threadIdx.x >> 7;
  const u32 done = Tiles::results + mine * Tiles::item + column * Tiles::line + 4 * chunk;
#pragma unroll 1
  for (u32 round = 0; round * Tiles::round < p.items; round++) {
    const u32 item = round * Tiles::round + mine;
    const u64 off = ((u64)limb << p.logN) + column * n1 + row + 4 * chunk;
    copied();
    if (merged && item < p.items) {
      const Slot low = operand(p, item, &InnerItem::low);
      for (u32 i = 0; i < 2 * p.lows; i++)
        copyAsync((uint4*)(shared + Tiles::low) + i * Tiles::threads + threadIdx.x, (const uint4*)(low.at + (i >> 1) * low.stride + off + 2 * (i & 1) * n1));
    }
    if ((round + 1) * Tiles::round < p.items) copy.fetch(round + 1);
#pragma unroll
    for (int h = 0; h < 2; h++) { // rows h and h+2: loads of neighbours would be joined, and words moved about for mma
      u32 z[2][4];
#pragma unroll
      for (int v = 0; v < 2; v++) multiplyRow(z[v], shared + (round & 1) * Tiles::digits + from, key, h + 2 * v, p.digits > 2, m, nq);
#pragma unroll
      for (int i = 0; i < 4; i++) // item group + 8*(i/2), result 2*member + i%2
        *(uint2*)(shared + result + 2 * h + (i & 1) * Tiles::line + (i >> 1) * 8 * Tiles::item) = make_uint2(z[0][i], z[1][i]);
    }
    if (merged) copied();
    else __syncthreads();
    if (item >= p.items) break; // the last round
#pragma unroll
    for (int i = 0; i < 4; i++) { // column + 2*(i%2) of the sum
      const u32 sum = i >> 1;
      const uint4 y = four(shared + done + (4 * sum + 2 * (i & 1)) * Tiles::line);
      u32 x[4] = {y.x, y.z, y.y, y.w}; // they lie as rows 0, 2, 1, 3
      if (merged && sum < p.lows) {
        const uint2 factor = __ldg(p.special + limb);
        const uint4 low = four(shared + Tiles::low + 4 * (i * Tiles::threads + threadIdx.x));
        x[0] = fold(x[0], nq2) + shoup(low.x, factor, m.q);
        x[1] = fold(x[1], nq2) + shoup(low.y, factor, m.q);
        x[2] = fold(x[2], nq2) + shoup(low.z, factor, m.q);
        x[3] = fold(x[3], nq2) + shoup(low.w, factor, m.q);
      }
#pragma unroll
      for (int l = 0; l < 4; l++) x[l] = fold(fold(x[l], nq2), nq);
      store(p.dst + (2 * item + sum) * p.ds + off + 2 * (i & 1) * n1, make_uint4(x[0], x[1], x[2], x[3]));
    }
  }
}
ITEMS(InnerMany, 256, 2, onekey_4) { SERVERS(onekey(p);) }
