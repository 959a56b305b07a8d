// The last step of public-key encryption, see encrypt.cu: c0 = v*b + (m+e0), c1 =
// v*a + e1, products of blocks modulo X^n2 - w, in one pass over memory. 128
// threads.
//
// Limb l of a launch goes to limb first + l of a job's destination. The transforms
// lie in a, three a job, as residues apart.
#include "encrypt.cuh"
#include "hadamard.cuh"

// One block of n2 = 16 a thread, n1 = 2^LOG. The limbs come in the reverse of the
// order in which they were transformed: the last ones are still in the cache.
// Grid (K*n1/128, limbs).
template <int LOG> DEV void public16(const EncryptArgs& p) {
  if (p.last) wipe(p, 3);
  constexpr u32 n1 = 1u << LOG, parts = n1 > 128 ? n1 / 128 : 1;
  const u32 k = blockIdx.x / parts, row = blockIdx.x % parts * 128 + threadIdx.x, limb = gridDim.y - 1 - blockIdx.y;
  if (row >= n1) return;
  const u32 id = p.limbs[limb];
  const Job* job = p.jobs + k;
  const Mod m = core(p.mods + id);
  const uint2 w = root(p.tw + id * p.ts, n1, row, m.q);
  u32* v = (u32*)p.a + k * 3 * p.as + ((u64)limb << (LOG + 4)) + row;
  const u32* key = p.key + ((u64)p.at[limb] << (LOG + 4)) + row;
  u32* to = job->dst + ((u64)(p.first + limb) << (LOG + 4)) + row;
  u32 a[16], b[16];
#pragma unroll
  for (int j = 0; j < 16; j++) a[j] = v[j * n1];
#pragma unroll 1
  for (u32 r = 0; r < 2; r++) {
#pragma unroll
    for (int j = 0; j < 16; j++) b[j] = key[r * p.keyStride + j * n1];
    product16<n1>(v + (r + 1) * p.as, to + r * job->ds, a, b, w, m);
  }
  if (p.last)
#pragma unroll 1
    for (u32 r = 0; r < 3; r++)
#pragma unroll
      for (int j = 0; j < 16; j++) v[r * p.as + j * n1] = 0;
}
#define PUBLIC16(LOG) KERNEL(EncryptArgs, 128, SINCE90(6, 5), encrypt_public16_##LOG) { public16<LOG>(p); }
PUBLIC16(6)
PUBLIC16(7)
PUBLIC16(8)
PUBLIC16(9)
PUBLIC16(10)
PUBLIC16(11)
PUBLIC16(12)
PUBLIC16(13)

// V neighbouring blocks of smaller n2 a thread. Grid (K*n1/(128*V), limbs).
template <int N, int V> DEV void publicRows(const EncryptArgs& p) {
  if (p.last) wipe(p, 3);
  const u32 n1 = 1u << (p.logN - p.logN2), parts = n1 > 128 * V ? n1 / (128 * V) : 1;
  const u32 k = blockIdx.x / parts, row = (blockIdx.x % parts * 128 + threadIdx.x) * V, limb = blockIdx.y, id = p.limbs[limb];
  if (row >= n1) return;
  const Job* job = p.jobs + k;
  const Mod m = core(p.mods + id);
  uint2 w[V];
#pragma unroll
  for (int i = 0; i < V; i++) w[i] = N > 1 ? root(p.tw + id * p.ts, n1, row + i, m.q) : make_uint2(0, 0);
  u32* from = (u32*)p.a + k * 3 * p.as + ((u64)limb << p.logN) + row;
  const u32* key = p.key + ((u64)p.at[limb] << p.logN) + row;
  u32* to = job->dst + ((u64)(p.first + limb) << p.logN) + row;
  u32 v[V][N];
  gather<V, N>(v, from, n1);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    u32 z[V][N], y[V][N];
    gather<V, N>(z, from + (1 + r) * p.as, n1);
    gather<V, N>(y, key + r * p.keyStride, n1);
#pragma unroll
    for (int i = 0; i < V; i++) Lazy<N>::mul(z[i], v[i], y[i], w[i], m, p.mods + id);
    scatter<V, N>(to + r * job->ds, z, n1);
  }
  if (p.last) {
    const u32 zeros[V][N] = {};
#pragma unroll
    for (int r = 0; r < 3; r++) scatter<V, N>(from + r * p.as, zeros, n1);
  }
}
// cutrantt/cuda/encrypt.go mirrors V.
KERNEL(EncryptArgs, 128, 4, encrypt_public_1) { publicRows<1, 4>(p); }
KERNEL(EncryptArgs, 128, 4, encrypt_public_2) { publicRows<2, 4>(p); }
KERNEL(EncryptArgs, 128, 4, encrypt_public_4) { publicRows<4, 2>(p); }
KERNEL(EncryptArgs, 128, 4, encrypt_public_8) { publicRows<8, 1>(p); }
