// Hadamard products (Ring.Mul, MulAdd, MulOperand, Precompute). Grid:
// (results * n1/128, limbs), one block of the ring's blocks a thread.
#include "hadamard.cuh"

// Where says which blocks of which results a thread has: V neighbouring blocks
// of R results.
struct Where {
  u32 block, result, limb, n1;
  DEV Where(const Args& p, u32 V, u32 R) {
    const u32 logn1 = p.logN - p.logN2, per = 128 * V;
    n1 = 1u << logn1;
    const u32 parts = n1 > per ? n1 / per : 1;
    result = blockIdx.x / parts * R;
    block = (blockIdx.x % parts * 128 + threadIdx.x) * V;
    limb = blockIdx.y;
  }
};

// multiply: one method, blocks of N residues, R results that share a.
template <class M, int N, int V, int R> DEV void multiply(const ProductArgs& p) {
  const Where h(p, V, R);
  if (h.block >= h.n1) return;
  const u32 id = p.limbs[h.limb];
  const Mod* k = p.mods + id;
  const Mod m = core(k);
  uint2 w[V];
#pragma unroll
  for (int v = 0; v < V; v++) w[v] = N > 1 ? root(p.tw + id * p.ts, h.n1, h.block + v, m.q) : make_uint2(0, 0);
  const u32* a = p.a + h.result * p.as + ((u64)h.limb << p.logN) + h.block;
  const u32* b = p.b + h.result * p.bs + ((u64)(p.at ? p.at[h.limb] : h.limb) << p.logN) + h.block;
  u32* d = p.dst + h.result * p.ds + ((u64)h.limb << p.logN) + h.block;
  u32 z[R][V][N];
#pragma unroll
  for (int r = 0; r < R; r++) {
    if (p.accumulate) gather<V, N>(z[r], d + r * p.ds, h.n1);
    else
#pragma unroll
      for (int v = 0; v < V; v++)
#pragma unroll
        for (int j = 0; j < N; j++) z[r][v][j] = 0;
  }
  for (u32 i = 0; i < p.terms; i++) {
    u32 x[V][N];
    gather<V, N>(x, a, h.n1);
#pragma unroll
    for (int r = 0; r < R; r++) {
      u32 y[V][N];
      gather<V, N>(y, b + r * p.bs, h.n1);
#pragma unroll
      for (int v = 0; v < V; v++) M::mul(z[r][v], x[v], y[v], w[v], m, k);
    }
    a += p.ai;
    b += p.bi;
  }
#pragma unroll
  for (int r = 0; r < R; r++) scatter<V, N>(d + r * p.ds, z[r], h.n1);
}

// prepared: the same with b as Toom-Cook-4 evaluations: word s of block i of a
// limb is at s*n1 + i, 7*n2/4 words a block.
template <int N> DEV void prepared(const ProductArgs& p) {
  typedef Toom<N> T;
  const Where h(p, 1, 1);
  if (h.block >= h.n1) return;
  const u32 id = p.limbs[h.limb];
  const Mod* k = p.mods + id;
  const Mod m = core(k);
  const uint2 w = root(p.tw + id * p.ts, h.n1, h.block, m.q);
  const u32* a = p.a + h.result * p.as + ((u64)h.limb << p.logN) + h.block;
  const u32* b = p.b + h.result * p.bs + (u64)p.at[h.limb] * (T::words * h.n1) + h.block;
  u32* d = p.dst + h.result * p.ds + ((u64)h.limb << p.logN) + h.block;
  u32 z[1][N];
#pragma unroll
  for (int j = 0; j < N; j++) z[0][j] = 0;
  for (u32 i = 0; i < p.terms; i++) {
    u32 x[1][N], fa[T::words], fb[1][T::words];
    gather<1, N>(x, a, h.n1);
    T::evaluate(fa, x[0], m.q);
    gather<1, T::words>(fb, b, h.n1);
    T::product(z[0], fa, fb[0], w, m, k);
    a += p.ai;
    b += p.bi;
  }
  scatter<1, N>(d, z, h.n1);
}

// evaluations of b = a for prepared; result = polynomial.
template <int N> DEV void evaluations(const Args& p) {
  typedef Toom<N> T;
  const Where h(p, 1, 1);
  if (h.block >= h.n1) return;
  const u32 q = p.mods[p.limbs[h.limb]].q;
  u32 x[1][N], e[1][T::words];
  gather<1, N>(x, p.a + h.result * p.as + ((u64)h.limb << p.logN) + h.block, h.n1);
  T::evaluate(e[0], x[0], q);
  u32* d = p.dst + h.result * p.ds + (u64)h.limb * (T::words * h.n1) + h.block;
  scatter<1, T::words>(d, e, h.n1);
}

// V neighbouring blocks a thread for small n2; cutrantt/cuda/hadamard.go mirrors.
KERNEL(ProductArgs, 128, 4, schoolbook_1) { multiply<Lazy<1>, 1, 4, 1>(p); }
KERNEL(ProductArgs, 128, 4, schoolbook_2) { multiply<Schoolbook<2>, 2, 1, 1>(p); }
KERNEL(ProductArgs, 128, 4, schoolbook_4) { multiply<Schoolbook<4>, 4, 1, 1>(p); }
KERNEL(ProductArgs, 128, 4, schoolbook_8) { multiply<Schoolbook<8>, 8, 1, 1>(p); }
KERNEL(ProductArgs, 128, 2, schoolbook_16) { multiply<Schoolbook<16>, 16, 1, 1>(p); }
KERNEL(ProductArgs, 128, 4, lazy_1) { multiply<Lazy<1>, 1, 4, 1>(p); }
KERNEL(ProductArgs, 128, 4, lazy_2) { multiply<Lazy<2>, 2, 4, 1>(p); }
KERNEL(ProductArgs, 128, 4, lazy_4) { multiply<Lazy<4>, 4, 2, 1>(p); }
KERNEL(ProductArgs, 128, 4, lazy_8) { multiply<Lazy<8>, 8, 1, 1>(p); }
KERNEL(ProductArgs, 128, 4, lazy_16) { multiply<Lazy<16>, 16, 1, 1>(p); }
KERNEL(ProductArgs, 128, 4, karatsuba_2) { multiply<Karatsuba<2>, 2, 4, 1>(p); }
KERNEL(ProductArgs, 128, 4, karatsuba_4) { multiply<Karatsuba<4>, 4, 2, 1>(p); }
KERNEL(ProductArgs, 128, 4, karatsuba_8) { multiply<Karatsuba<8>, 8, 1, 1>(p); }
KERNEL(ProductArgs, 128, 4, karatsuba_16) { multiply<Karatsuba<16>, 16, 1, 1>(p); }
KERNEL(ProductArgs, 128, 3, toomcook4_4) { multiply<Toom<4>, 4, 1, 1>(p); }
KERNEL(ProductArgs, 128, 3, toomcook4_8) { multiply<Toom<8>, 8, 1, 1>(p); }
KERNEL(ProductArgs, 128, SINCE90(3, 2), toomcook4_16) { multiply<Toom<16>, 16, 1, 1>(p); }
// Two results that share a (encryption).
KERNEL(ProductArgs, 128, 4, lazy2_1) { multiply<Lazy<1>, 1, 4, 2>(p); }
KERNEL(ProductArgs, 128, 4, lazy2_2) { multiply<Lazy<2>, 2, 4, 2>(p); }
KERNEL(ProductArgs, 128, 4, lazy2_4) { multiply<Lazy<4>, 4, 2, 2>(p); }
KERNEL(ProductArgs, 128, 4, lazy2_8) { multiply<Lazy<8>, 8, 1, 2>(p); }
KERNEL(ProductArgs, 128, 3, lazy2_16) { multiply<Lazy<16>, 16, 1, 2>(p); }
KERNEL(ProductArgs, 128, 3, karatsuba2_16) { multiply<Karatsuba<16>, 16, 1, 2>(p); }
KERNEL(ProductArgs, 128, 3, prepared_4) { prepared<4>(p); }
KERNEL(ProductArgs, 128, 3, prepared_8) { prepared<8>(p); }
KERNEL(ProductArgs, 128, 3, prepared_16) { prepared<16>(p); }
KERNEL(ProductArgs, 128, 4, evaluations_4) { evaluations<4>(p); }
KERNEL(ProductArgs, 128, 4, evaluations_8) { evaluations<8>(p); }
KERNEL(ProductArgs, 128, 4, evaluations_16) { evaluations<16>(p); }
