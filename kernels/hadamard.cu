// Hadamard products (Ring.Mul, MulAdd, MulOperand, Precompute). Grid:
// (results * n1/128, limbs), one block of the ring's blocks a thread.
//
// Result r is (i1 ? old dst : 0) + the sum over terms i < i0 of a at
// r*as + i*ai times b at r*bs + i*bi. Limb l of b is at position at[l].
#include "hadamard.cuh"

struct Where {
  u32 block, result, limb, n1;
  DEV Where(const Args& p) {
    const u32 logn1 = p.logN - p.logN2, blocks = n1blocks(logn1);
    n1 = 1u << logn1;
    result = blockIdx.x / blocks;
    block = (blockIdx.x % blocks) * 128 + threadIdx.x;
    limb = blockIdx.y;
  }
  static DEV u32 n1blocks(u32 logn1) { return logn1 > 7 ? 1u << (logn1 - 7) : 1; }
};

template <int N> DEV void gather(u32 (&x)[N], const u32* from, u32 n1) {
#pragma unroll
  for (int j = 0; j < N; j++) x[j] = from[j * n1];
}

// multiply: one method, blocks of N residues.
template <class M, int N> DEV void multiply(const Args& p) {
  const Where h(p);
  if (h.block >= h.n1) return;
  const u32 id = p.limbs[h.limb];
  const Mod* k = p.mods + id;
  const Mod m = core(k);
  const uint2 w = N > 1 ? root(p.tw + id * p.ts, h.n1, h.block, m.q) : make_uint2(0, 0);
  const u32* a = p.a + h.result * p.as + ((u64)h.limb << p.logN) + h.block;
  const u32* b = p.b + h.result * p.bs + ((u64)(p.at ? p.at[h.limb] : h.limb) << p.logN) + h.block;
  u32* d = p.dst + h.result * p.ds + ((u64)h.limb << p.logN) + h.block;
  u32 z[N];
  if (p.i1) gather<N>(z, d, h.n1);
  else
#pragma unroll
    for (int j = 0; j < N; j++) z[j] = 0;
  for (u32 i = 0; i < p.i0; i++) {
    u32 x[N], y[N];
    gather<N>(x, a, h.n1);
    gather<N>(y, b, h.n1);
    M::mul(z, x, y, w, m, k);
    a += p.ai;
    b += p.bi;
  }
#pragma unroll
  for (int j = 0; j < N; j++) d[j * h.n1] = z[j];
}

// prepared: the same with b as Toom-Cook-4 evaluations: word s of block i of a
// limb is at s*n1 + i, 7*n2/4 words a block.
template <int N> DEV void prepared(const Args& p) {
  typedef Toom<N> T;
  const Where h(p);
  if (h.block >= h.n1) return;
  const u32 id = p.limbs[h.limb];
  const Mod* k = p.mods + id;
  const Mod m = core(k);
  const uint2 w = root(p.tw + id * p.ts, h.n1, h.block, m.q);
  const u32* a = p.a + h.result * p.as + ((u64)h.limb << p.logN) + h.block;
  const u32* b = p.b + h.result * p.bs + (u64)p.at[h.limb] * (T::words * h.n1) + h.block;
  u32* d = p.dst + h.result * p.ds + ((u64)h.limb << p.logN) + h.block;
  u32 z[N];
#pragma unroll
  for (int j = 0; j < N; j++) z[j] = 0;
  for (u32 i = 0; i < p.i0; i++) {
    u32 x[N], fa[T::words], fb[T::words];
    gather<N>(x, a, h.n1);
    T::evaluate(fa, x, m.q);
    gather<T::words>(fb, b, h.n1);
    T::product(z, fa, fb, w, m, k);
    a += p.ai;
    b += p.bi;
  }
#pragma unroll
  for (int j = 0; j < N; j++) d[j * h.n1] = z[j];
}

// evaluations of b = a for prepared; result = polynomial.
template <int N> DEV void evaluations(const Args& p) {
  typedef Toom<N> T;
  const Where h(p);
  if (h.block >= h.n1) return;
  const u32 q = p.mods[p.limbs[h.limb]].q;
  u32 x[N], e[T::words];
  gather<N>(x, p.a + h.result * p.as + ((u64)h.limb << p.logN) + h.block, h.n1);
  T::evaluate(e, x, q);
  u32* d = p.dst + h.result * p.ds + (u64)h.limb * (T::words * h.n1) + h.block;
#pragma unroll
  for (int j = 0; j < T::words; j++) d[j * h.n1] = e[j];
}

KERNEL(128, 4, schoolbook_1)(Args p) { multiply<Lazy<1>, 1>(p); }
KERNEL(128, 4, schoolbook_2)(Args p) { multiply<Schoolbook<2>, 2>(p); }
KERNEL(128, 4, schoolbook_4)(Args p) { multiply<Schoolbook<4>, 4>(p); }
KERNEL(128, 4, schoolbook_8)(Args p) { multiply<Schoolbook<8>, 8>(p); }
KERNEL(128, 4, schoolbook_16)(Args p) { multiply<Schoolbook<16>, 16>(p); }
KERNEL(128, 4, lazy_1)(Args p) { multiply<Lazy<1>, 1>(p); }
KERNEL(128, 4, lazy_2)(Args p) { multiply<Lazy<2>, 2>(p); }
KERNEL(128, 4, lazy_4)(Args p) { multiply<Lazy<4>, 4>(p); }
KERNEL(128, 4, lazy_8)(Args p) { multiply<Lazy<8>, 8>(p); }
KERNEL(128, 4, lazy_16)(Args p) { multiply<Lazy<16>, 16>(p); }
KERNEL(128, 4, karatsuba_2)(Args p) { multiply<Karatsuba<2>, 2>(p); }
KERNEL(128, 4, karatsuba_4)(Args p) { multiply<Karatsuba<4>, 4>(p); }
KERNEL(128, 4, karatsuba_8)(Args p) { multiply<Karatsuba<8>, 8>(p); }
KERNEL(128, 4, karatsuba_16)(Args p) { multiply<Karatsuba<16>, 16>(p); }
KERNEL(128, 3, toomcook4_4)(Args p) { multiply<Toom<4>, 4>(p); }
KERNEL(128, 3, toomcook4_8)(Args p) { multiply<Toom<8>, 8>(p); }
KERNEL(128, 3, toomcook4_16)(Args p) { multiply<Toom<16>, 16>(p); }
KERNEL(128, 3, prepared_4)(Args p) { prepared<4>(p); }
KERNEL(128, 3, prepared_8)(Args p) { prepared<8>(p); }
KERNEL(128, 3, prepared_16)(Args p) { prepared<16>(p); }
KERNEL(128, 4, evaluations_4)(Args p) { evaluations<4>(p); }
KERNEL(128, 4, evaluations_8)(Args p) { evaluations<8>(p); }
KERNEL(128, 4, evaluations_16)(Args p) { evaluations<16>(p); }
