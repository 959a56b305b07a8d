// The last step of seeded encryption, see encrypt.cu: c1 is drawn, and c0 = (m+e0)
// - c1*s, with products of blocks modulo X^n2 - w. 128 threads, each with one
// block of the stream: 2048 residues, that is 2048/n2 rows of all columns, which
// meet in shared memory. Grid (K*max(N/2048, 1), limbs).
//
// Limb l of a launch goes to limb first + l of a job's destination. The transforms
// of m + e0 lie in a, one a job, as residues apart.
#include "encrypt.cuh"
#include "hadamard.cuh"

// place of residue i of a tile in shared memory, so that 16 residues of each of
// 32 lanes go to different banks.
DEV u32 place(u32 i) { return i + (i >> 4); }

// draw: the 16 residues of the stream block of each thread, to 16*threadIdx.x of
// tile: what word j of attempt 0 gives, and where that is not accepted, word j of the
// next attempt; below = 2^32 mod q. After the first attempt the blocks with words to
// redraw are listed, so that warps stay full. c1 is public.
DEV void draw(u32* tile, const u32* key, u32 label, u32 id, u32 q, u32 below, u32 block, bool any) {
  __shared__ u32 list[2][128], of[128], count[3];
  const u32 t = threadIdx.x;
  if (t < 3) count[t] = 0;
  of[t] = block;
  __syncthreads();
  u32 w[16];
  if (any) {
    chacha(w, key, block, label, id, 0);
    u32 left = 0;
#pragma unroll
    for (int j = 0; j < 16; j++) {
      bool accepted;
      tile[place(16 * t) + j] = residue(w[j], q, below, accepted);
      left |= (accepted ? 0u : 1u) << j;
    }
    if (left) list[1][atomicAdd(count + 1, 1)] = t << 16 | left;
  }
  for (u32 attempt = 1, slot = 1;; attempt++) { // the list of an attempt is list[attempt&1], its length count[slot]
    __syncthreads();
    const u32 n = count[slot], next = slot == 2 ? 0 : slot + 1;
    if (n == 0) return;
    if (t == 0) count[next == 2 ? 0 : next + 1] = 0;
    if (t < n) {
      const u32 entry = list[attempt & 1][t], at = entry >> 16;
      u32 left = entry & 0xffff;
      chacha(w, key, of[at], label, id, attempt);
#pragma unroll
      for (int j = 0; j < 16; j++) {
        bool accepted;
        const u32 r = residue(w[j], q, below, accepted);
        if ((left >> j & 1) && accepted) {
          tile[place(16 * at) + j] = r;
          left ^= 1u << j;
        }
      }
      if (left) list[~attempt & 1][atomicAdd(count + next, 1)] = at << 16 | left;
    }
    slot = next;
  }
}

// Tile is the part of a limb that a block works on. start draws c1 there, and then
// waits for the kernels before: the stream needs nothing that they make, and the
// jobs and constants were copied before them.
template <int N> struct Tile {
  static const u32 rows = 2048 / N;
  u32 k, row0, limb, id;
  Job* job;
  DEV Tile(const EncryptArgs& p, u32 logn1) {
    const u32 n1 = 1u << logn1, parts = n1 > rows ? n1 / rows : 1;
    k = blockIdx.x / parts;
    row0 = blockIdx.x % parts * rows;
    limb = blockIdx.y;
    id = p.limbs[limb];
    job = p.jobs + k;
  }
  DEV void start(const EncryptArgs& p, u32* c1, u32 logn1, u32 q) const {
    announce();
    const u32 column = threadIdx.x / (rows / 16), row = row0 + threadIdx.x % (rows / 16) * 16;
    draw(c1, job->mask, p.maskLabel, id, q, p.mods[id].r32, ((column << logn1) + row) >> 4, row < 1u << logn1);
    settle();
    if (p.last) wipe(p, 1);
  }
};

// encrypt_seeded_n2, n2 < 16.
template <int N> DEV void seededRows(const EncryptArgs& p) {
  __shared__ u32 tile[2048 + 128];
  const u32 logn1 = p.logN - p.logN2, n1 = 1u << logn1;
  const Tile<N> h(p, logn1);
  const Mod m = core(p.mods + h.id);
  h.start(p, tile, logn1, m.q);
  u32* from = (u32*)p.a + h.k * p.as + ((u64)h.limb << p.logN);
  const u32* s = p.key + ((u64)p.at[h.limb] << p.logN);
  u32* c0 = h.job->dst + ((u64)(p.first + h.limb) << p.logN);
  u32* c1 = c0 + h.job->ds;
#pragma unroll 1
  for (u32 i = threadIdx.x; i < h.rows && h.row0 + i < n1; i += 128) {
    const u32 row = h.row0 + i;
    const uint2 w = N > 1 ? root(p.tw + h.id * p.ts, n1, row, m.q) : make_uint2(0, 0);
    u32 x[1][N], y[1][N], z[1][N];
    gather<1, N>(z, from + row, n1);
    gather<1, N>(y, s + row, n1);
#pragma unroll
    for (int j = 0; j < N; j++) {
      x[0][j] = tile[place(j * h.rows + i)];
      y[0][j] = neg(y[0][j], m.q);
    }
    scatter<1, N>(c1 + row, x, n1);
    Lazy<N>::mul(z[0], x[0], y[0], w, m, p.mods + h.id);
    scatter<1, N>(c0 + row, z, n1);
    if (p.last) {
      const u32 zeros[1][N] = {};
      scatter<1, N>(from + row, zeros, n1);
    }
  }
}
#define SEEDED(N, MINB) \
  extern "C" __global__ void __launch_bounds__(128, MINB) encrypt_seeded_##N(const __grid_constant__ EncryptArgs p) { seededRows<N>(p); }
SEEDED(1, 8)
SEEDED(2, 8)
SEEDED(4, 8)
SEEDED(8, SINCE90(6, 5))

// Drawn is column j of a row of the tile.
struct Drawn {
  const u32* at;
  DEV u32 operator[](int j) const { return at[place(j * 128)]; }
};

// encrypt_seeded16_LOG: n2 = 16, n1 = 2^LOG, one row a thread.
template <int LOG> DEV void seeded16(const EncryptArgs& p) {
  __shared__ u32 tile[2048 + 128];
  constexpr u32 n1 = 1u << LOG;
  const Tile<16> h(p, LOG);
  const Mod m = core(p.mods + h.id);
  h.start(p, tile, LOG, m.q);
  const u32 row = h.row0 + threadIdx.x;
  if (row >= n1) return;
  const uint2 w = root(p.tw + h.id * p.ts, n1, row, m.q);
  u32* from = (u32*)p.a + h.k * p.as + ((u64)h.limb << (LOG + 4)) + row;
  const u32* s = p.key + ((u64)p.at[h.limb] << (LOG + 4)) + row;
  u32* c0 = h.job->dst + ((u64)(p.first + h.limb) << (LOG + 4)) + row;
  u32* c1 = c0 + h.job->ds;
  u32 b[16];
#pragma unroll
  for (int j = 0; j < 16; j++) b[j] = s[j * n1];
  const Drawn a{tile + place(threadIdx.x)};
#pragma unroll
  for (int j = 0; j < 16; j++) {
    b[j] = neg(b[j], m.q);
    c1[j * n1] = a[j];
  }
  product16<n1>(from, c0, a, b, w, m);
  if (p.last)
#pragma unroll
    for (int j = 0; j < 16; j++) from[j * n1] = 0;
}
#define SEEDED16(LOG, MINB) \
  extern "C" __global__ void __launch_bounds__(128, MINB) encrypt_seeded16_##LOG(const __grid_constant__ EncryptArgs p) { seeded16<LOG>(p); }
SEEDED16(6, 8)
SEEDED16(7, 8)
SEEDED16(8, 8)
SEEDED16(9, 8)
SEEDED16(10, 8)
SEEDED16(11, 8)
SEEDED16(12, 8)
SEEDED16(13, 8)
