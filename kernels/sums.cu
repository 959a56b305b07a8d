// Sums of products that share their first factors (cutrantt.SumProducts): the factors of all sums are read once.
#include "hadamard.cuh"

// once reads a word that no thread reads again, past the first-level cache.
DEV u32 once(const u32* from) {
#ifdef EMULATED
  return *from;
#else
  u32 x;
  asm("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(x) : "l"(from));
  return x;
#endif
}

// lightly: any z to a value below 2^62 + 2^32 that is congruent modulo q < 2^30.
DEV u64 lightly(u64 z, u32 r32) {
  z = (z >> 32) * r32 + (u32)z;
  BELOW(z, (1ull << 62) + (1ull << 32));
  return z;
}

// Term is what a thread reads of one term: a block of both polynomials of the pair, and of each sum's factor. Of flat
// factors only the first of W residues is read.
template <int N, int G, int W> struct Term {
  u32 a[2][1][N], b[G][W];

  // at: the pair's address and stride. from: addresses of the factors, two at a time; null: left out.
  DEV void read(const ulonglong2* at, const ulonglong2* from, u32 off, u32 n1) {
    const ulonglong2 pair = __ldg(at);
#pragma unroll
    for (int r = 0; r < G; r += 2) {
      const ulonglong2 two = __ldg(from + r / 2);
#pragma unroll
      for (int j = 0; j < W; j++) {
        b[r][j] = two.x ? once((const u32*)two.x + off + j * n1) : 0;
        b[r + 1][j] = two.y ? once((const u32*)two.y + off + j * n1) : 0;
      }
    }
    gather<1, N>(a[0], (const u32*)pair.x + off, n1);
    gather<1, N>(a[1], (const u32*)pair.x + pair.y + off, n1);
  }

  // add adds the products to z. w: the block's root.
  DEV void add(u64 (&z)[G][2][N], uint2 w, u32 q) {
#pragma unroll
    for (int r = 0; r < G; r++) {
#pragma unroll
      for (int t = N - 1; t >= 0; t--) {
#pragma unroll
        for (int j = 0; j < W; j++) {
          const int k = W == 1 ? t : (t - j) & (N - 1);
          z[r][0][t] += (u64)b[r][j] * a[0][0][k];
          z[r][1][t] += (u64)b[r][j] * a[1][0][k];
        }
        if (W > 1 && t > 0) b[r][t] = mulc(b[r][t], w, q); // for the outputs below t it wraps around
      }
    }
  }
};

// sums: pairs of polynomials times polynomials, G sums at a time, one block of N residues a thread. A pair is read
// once for G sums; the first-level cache then has it for the others. While a term is added the next one is on its way.
// An accumulator that was folded has room for 12 products more. Blocks of threads of different items that read the same
// factors follow one another, so that these come from memory once. a: see SumArgs; grid (items * n1/128, limbs).
template <int N, int G, int W> DEV void sums(const SumArgs& p) {
  const u32 n1 = 1u << (p.logN - p.logN2), block = blockIdx.x / p.items * 128 + threadIdx.x;
  if (block >= n1) return;
  const u32 id = p.limbs[blockIdx.y], q = p.mods[id].q, r32 = p.mods[id].r32;
  const uint2 w = W > 1 ? root(p.tw + id * p.ts, n1, block, q) : make_uint2(0, 0);
  const u32 off = (blockIdx.y << p.logN) + block; // below 2^30: so few primes are 1 modulo 2N
  const ulonglong2* pairs = (const ulonglong2*)p.a + blockIdx.x % p.items * (p.terms + p.sums); // address and stride
  const u32 rows = (p.sums + G - 1) / G * (G / 2); // of two addresses
  for (u32 g = 0; g < p.sums; g += G) {
    const ulonglong2* factors = (const ulonglong2*)p.a + p.items * (p.terms + p.sums) + g / 2;
    u64 z[G][2][N];
#pragma unroll
    for (int r = 0; r < G; r++)
#pragma unroll
      for (int j = 0; j < N; j++) z[r][0][j] = z[r][1][j] = 0;
    Term<N, G, W> next;
    next.read(pairs, factors, off, n1);
    u32 left = 12 / W; // terms until the accumulators are folded
    for (u32 i = 0; i < p.terms; i++) {
      Term<N, G, W> now = next;
      if (i + 1 < p.terms) next.read(pairs + i + 1, factors + (i + 1) * rows, off, n1);
      now.add(z, w, q);
      if (--left == 0 && i + 1 < p.terms) {
        left = 12 / W;
#pragma unroll
        for (int r = 0; r < G; r++)
#pragma unroll
          for (int j = 0; j < N; j++) {
            z[r][0][j] = lightly(z[r][0][j], r32);
            z[r][1][j] = lightly(z[r][1][j], r32);
          }
      }
    }
    const Mod m = core(p.mods + id);
#pragma unroll
    for (int r = 0; r < G; r++) {
      if (g + r >= p.sums) break;
      const ulonglong2 sum = __ldg(pairs + p.terms + g + r);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        u32 x[1][N];
#pragma unroll
        for (int j = 0; j < N; j++) x[0][j] = reduce(z[r][h][j], m);
        scatter<1, N>((u32*)sum.x + h * sum.y + off, x, n1);
      }
    }
  }
}

// cutrantt/cuda/hadamard.go mirrors N and G.
KERNEL(SumArgs, 128, SINCE90(4, 3), sums_4) {
  SINCE80(if (p.flat) sums<4, 4, 1>(p); else sums<4, 4, 4>(p);)
}
