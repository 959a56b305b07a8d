// The last step of whole encryptions, see encrypt.cu: products of blocks modulo
// X^n2 - w and the sums, one pass over memory. V neighbouring blocks of one job
// a thread. Grid (K*n1/(128*V), limbs), 128 threads.
//
// x = K Jobs; limb l of a group goes to limb i0 + l of a job's destination. The
// transforms lie in a, a job's one after the other, as residues apart. Limb l of b
// is at position at[l].
//
// In the last launch i1 = K, else 0: then everything secret is overwritten with
// zeros, the transforms (ai times 16 bytes, of which earlier launches may have
// used more), the small integers at dst (ds times 16 bytes), the messages behind
// the jobs (bi times 16 bytes) and the jobs' secret seeds.
#include "hadamard.cuh"

struct Row {
  u32 id, q, n1, block, limb;
  const Job* job;
  u32* dst;
  DEV Row(const Args& p, u32 V) {
    n1 = 1u << (p.logN - p.logN2);
    const u32 per = 128 * V, parts = n1 > per ? n1 / per : 1;
    job = (const Job*)p.x + blockIdx.x / parts;
    block = (blockIdx.x % parts * 128 + threadIdx.x) * V;
    limb = blockIdx.y;
    id = p.limbs[limb];
    q = p.mods[id].q;
    dst = job->dst + ((u64)(p.i0 + limb) << p.logN) + block;
  }
};

template <int V, int N> DEV void roots(uint2 (&w)[V], const Args& p, const Row& h) {
#pragma unroll
  for (int v = 0; v < V; v++) w[v] = N > 1 ? root(p.tw + h.id * p.ts, h.n1, h.block + v, h.q) : make_uint2(0, 0);
}

DEV void zero(void* at, u64 n, u64 first, u64 step) {
  for (; first < n; first += step) ((uint4*)at)[first] = make_uint4(0, 0, 0, 0);
}

// wipe is this thread's share of what no thread reads any more; transforms are
// those of a job and limb.
DEV void wipe(const Args& p, u32 transforms) {
  const u64 t = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x, all = (u64)gridDim.x * gridDim.y * 128;
  Job* jobs = (Job*)p.x;
  const u64 read = (u64)transforms * p.i1 * gridDim.y << (p.logN - 2);
  zero(p.dst, p.ds, t, all);
  zero(jobs + p.i1, p.bi, t, all);
  zero((uint4*)p.a + read, p.ai > read ? p.ai - read : 0, t, all);
  if (t < p.i1)
#pragma unroll
    for (int i = 0; i < 8; i++) jobs[t].seed[i] = 0;
}

template <int V, int N> DEV void erase(u32* at, u32 n1) {
  u32 zero[V][N] = {};
  scatter<V, N>(at, zero, n1);
}

// encrypt_public: c0 = v*b + (m+e0), c1 = v*a + e1, with (b, a) at b, bs apart.
template <class M, int N, int V> DEV void encryptPublic(const Args& p) {
  if (p.i1) wipe(p, 3);
  const Row h(p, V);
  if (h.block >= h.n1) return;
  const Mod m = core(p.mods + h.id);
  uint2 w[V];
  roots<V, N>(w, p, h);
  u32* from = (u32*)p.a + (h.job - (const Job*)p.x) * 3 * p.as + ((u64)h.limb << p.logN) + h.block;
  const u32* key = p.b + ((u64)p.at[h.limb] << p.logN) + h.block;
  u32 v[V][N];
  gather<V, N>(v, from, h.n1);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    u32 z[V][N], y[V][N];
    gather<V, N>(z, from + (1 + r) * p.as, h.n1);
    gather<V, N>(y, key + r * p.bs, h.n1);
#pragma unroll
    for (int i = 0; i < V; i++) M::mul(z[i], v[i], y[i], w[i], m, p.mods + h.id);
    scatter<V, N>(h.dst + r * h.job->ds, z, h.n1);
  }
  if (p.i1)
#pragma unroll
    for (int r = 0; r < 3; r++) erase<V, N>(from + r * p.as, h.n1);
}

// encrypt_seeded: c0 = (m+e0) - c1*s, with c1 in place and s at b.
template <class M, int N, int V> DEV void encryptSeeded(const Args& p) {
  if (p.i1) wipe(p, 1);
  const Row h(p, V);
  if (h.block >= h.n1) return;
  const Mod m = core(p.mods + h.id);
  uint2 w[V];
  roots<V, N>(w, p, h);
  u32* from = (u32*)p.a + (h.job - (const Job*)p.x) * p.as + ((u64)h.limb << p.logN) + h.block;
  u32 z[V][N], x[V][N], y[V][N];
  gather<V, N>(x, h.dst + h.job->ds, h.n1);
  gather<V, N>(y, p.b + ((u64)p.at[h.limb] << p.logN) + h.block, h.n1);
  gather<V, N>(z, from, h.n1);
#pragma unroll
  for (int i = 0; i < V; i++) {
#pragma unroll
    for (int j = 0; j < N; j++) y[i][j] = neg(y[i][j], h.q);
    M::mul(z[i], x[i], y[i], w[i], m, p.mods + h.id);
  }
  scatter<V, N>(h.dst, z, h.n1);
  if (p.i1) erase<V, N>(from, h.n1);
}

// cutrantt/cuda/encrypt.go mirrors V.
KERNEL(128, 4, encrypt_public_1) { encryptPublic<Lazy<1>, 1, 4>(p); }
KERNEL(128, 4, encrypt_public_2) { encryptPublic<Lazy<2>, 2, 4>(p); }
KERNEL(128, 4, encrypt_public_4) { encryptPublic<Lazy<4>, 4, 2>(p); }
KERNEL(128, 4, encrypt_public_8) { encryptPublic<Lazy<8>, 8, 1>(p); }
KERNEL(128, 3, encrypt_public_16) { encryptPublic<Karatsuba<16>, 16, 1>(p); }
KERNEL(128, 4, encrypt_seeded_1) { encryptSeeded<Lazy<1>, 1, 4>(p); }
KERNEL(128, 4, encrypt_seeded_2) { encryptSeeded<Lazy<2>, 2, 4>(p); }
KERNEL(128, 4, encrypt_seeded_4) { encryptSeeded<Lazy<4>, 4, 2>(p); }
KERNEL(128, 4, encrypt_seeded_8) { encryptSeeded<Lazy<8>, 8, 1>(p); }
KERNEL(128, 4, encrypt_seeded_16) { encryptSeeded<Karatsuba<16>, 16, 1>(p); }
