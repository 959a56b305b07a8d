// The products of a ciphertext product and of a key switch, fused: every operand
// is read once and every result written once. Blocks modulo X^N - w as in
// hadamard.cuh, V neighbouring blocks a thread; grid (items * n1/(128*V), limbs).
#include "hadamard.cuh"
#include "many.cuh"

// Rows says which blocks of which item a thread has.
struct Rows {
  u32 n1, item, block;
  DEV Rows(const Args& p, u32 V) {
    n1 = 1u << (p.logN - p.logN2);
    const u32 per = 128 * V, parts = n1 > per ? n1 / per : 1;
    item = blockIdx.x / parts;
    block = (blockIdx.x % parts * 128 + threadIdx.x) * V;
  }
};

template <int V> struct Words;
template <> struct Words<1> { typedef u32 T; };
template <> struct Words<2> { typedef uint2 T; };
template <> struct Words<4> { typedef uint4 T; };

// read, write: N columns of V neighbouring blocks.
template <int V, int N> DEV void read(u32 (&x)[N][V], const u32* from, u32 n1) {
#pragma unroll
  for (int j = 0; j < N; j++) *(typename Words<V>::T*)x[j] = *(const typename Words<V>::T*)(from + j * n1);
}
template <int V> DEV void write(u32* to, u32 (&x)[V]) { *(typename Words<V>::T*)to = *(typename Words<V>::T*)x; }

// folded: any x to a value below 2^32 that is congruent modulo q < 2^30; see reduce.
DEV u32 folded(u64 x, const Mod& m) {
  const u32 hi = (u32)(x >> 32), lo = (u32)x;
  const u32 k = __umulhi(hi, m.r32s) + __umulhi(lo, m.ones);
  BELOW((u64)hi * m.r32 + lo - ((u64)__umulhi(hi, m.r32s) + __umulhi(lo, m.ones)) * m.q, 1ull << 32);
  return hi * m.r32 + lo - k * m.q;
}

// wrap multiplies column t of a by w, for the outputs below t.
template <int V, int N> DEV void wrap(u32 (&a)[N][V], int t, const uint2 (&w)[V], u32 q) {
#pragma unroll
  for (int v = 0; v < V; v++) a[t][v] = mulc(a[t][v], w[v], q);
}

// tensor: (a0*b0, a0*b1 + a1*b0, a1*b1), the middle one for N < 16 from
// (a0+a1)*(b0+b1). With SQUARE, b is a.
template <int N, int V, bool SQUARE> DEV void tensor(const TensorMany& p) {
  const Rows h(p, V);
  if (h.block >= h.n1) return;
  const u32 id = p.limbs[blockIdx.y];
  const Mod k = core(p.mods + id);
  uint2 w[V];
#pragma unroll
  for (int v = 0; v < V; v++) w[v] = N > 1 ? root(p.tw + id * p.ts, h.n1, h.block + v, k.q) : make_uint2(0, 0);
  const u64 off = ((u64)blockIdx.y << p.logN) + h.block;
  const Slot a = operand(p, h.item, &TensorItem::a), b = operand(p, h.item, &TensorItem::b), d = operand(p, h.item, &TensorItem::dst);
  u32 a0[N][V], a1[N][V], b0[N][V], b1[N][V];
  read(a0, a.at + off, h.n1);
  read(a1, a.at + a.stride + off, h.n1);
  if (SQUARE) {
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
      for (int v = 0; v < V; v++) { b0[j][v] = a0[j][v]; b1[j][v] = a1[j][v]; }
  } else {
    read(b0, b.at + off, h.n1);
    read(b1, b.at + b.stride + off, h.n1);
  }
#pragma unroll
  for (int t = N - 1; t >= 0; t--) {
    u32 z[3][V];
#pragma unroll
    for (int v = 0; v < V; v++) {
      u64 s0 = 0, s1 = 0, s2 = 0; // at most 16 products below 2^60 in s0 and s2
#pragma unroll
      for (int i = 0; i < N; i++) {
        const int j = (t - i) & (N - 1);
        s0 += (u64)a0[i][v] * b0[j][v];
        s2 += (u64)a1[i][v] * b1[j][v];
        if (SQUARE) s1 += (u64)a0[i][v] * b1[j][v];
        else if (N < 16) s1 += (u64)(a0[i][v] + a1[i][v]) * (b0[j][v] + b1[j][v]);
        else s1 += (u64)a0[i][v] * b1[j][v];
      }
      z[0][v] = reduce(s0, k);
      z[2][v] = reduce(s2, k);
      if (SQUARE) { // s1 is half of it
        z[1][v] = reduce(s1, k);
        z[1][v] = add(z[1][v], z[1][v], k.q);
      } else if (N < 16) z[1][v] = reduce(s1 - s0 - s2, k); // 2N products below 2^60: right modulo 2^64
      else {
        s1 = folded(s1, k);
#pragma unroll
        for (int i = 0; i < N; i++) s1 += (u64)a1[i][v] * b0[(t - i) & (N - 1)][v];
        z[1][v] = reduce(s1, k);
      }
    }
    if (t > 0) { wrap(a0, t, w, k.q); wrap(a1, t, w, k.q); }
#pragma unroll
    for (int r = 0; r < 3; r++) write(d.at + r * d.stride + off + t * h.n1, z[r]);
  }
}

// Sum is an accumulator of products: 32 bits, folded after each term, where one
// term has 16 products, else 64 bits, folded after 16 products.
template <int N> struct Sum { typedef u64 T; };
template <> struct Sum<16> { typedef u32 T; };

// turned writes both sums, or their images under X -> X^g (see automorphism_blocks). A thread has all columns of its
// two blocks, which stay neighbours: block b' goes to b with w_b' = w_b^g, its column j to g*j mod 4, times
// w_b^floor(g*j/4). inverse is that of g modulo twice the degree.
DEV void turned(const InnerMany& p, const Rows& h, const Mod& k, u32* d, u64 (&z)[2][4][2], const uint2* roots, u32 g, u32 inverse) {
  const u32 sh = 32 - (p.logN - p.logN2), mask = 2 * h.n1 - 1;
  u32 o[2];
#pragma unroll
  for (int v = 0; v < 2; v++) o[v] = ((2 * (__brev(h.block + v) >> sh) + 1) * inverse) & mask;
  const u32 to = __brev(o[0] >> 1) >> sh;
  d += to & ~1u;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    u32 y[2][2];
#pragma unroll
    for (int v = 0; v < 2; v++) {
      y[0][v] = reduce(z[0][j][v], k);
      y[1][v] = reduce(z[1][j][v], k);
      if (j > 0 && g > 1) {
        const u32 s = (o[v] * (g * j >> 2)) & mask;
        uint2 w = __ldg(roots + (__brev(s & (h.n1 - 1)) >> sh));
        if (s >= h.n1) w = negc(w, k.q);
        y[0][v] = mulc(y[0][v], w, k.q);
        y[1][v] = mulc(y[1][v], w, k.q);
      }
    }
    u32* column = d + (g * j & 3) * h.n1;
#pragma unroll
    for (int r = 0; r < 2; r++, column += p.ds) *(uint2*)column = to & 1 ? make_uint2(y[r][1], y[r][0]) : make_uint2(y[r][0], y[r][1]);
  }
}

// inner: both sums over the digits of digit*key, and P*low on the merged limbs. The key
// has the polynomials b_0, a_0, b_1, ...; dst two polynomials an item, ds apart.
template <int N, int V> DEV void inner(const InnerMany& p) {
  typedef typename Sum<N>::T T;
  const Rows h(p, V);
  if (h.block >= h.n1) return;
  const u32 limb = blockIdx.y, id = p.limbs[limb];
  const Mod k = core(p.mods + id);
  uint2 w[V];
#pragma unroll
  for (int v = 0; v < V; v++) w[v] = N > 1 ? root(p.tw + id * p.ts, h.n1, h.block + v, k.q) : make_uint2(0, 0);
  const u32* from = p.sources + limb * p.digits;
  const Slot key = operand(p, h.item, &InnerItem::key), low = operand(p, h.item, &InnerItem::low);
  const Slot x = operand(p, h.item, &InnerItem::x), e = operand(p, h.item, &InnerItem::extension);
  const u32* b = key.at + ((u64)p.at[limb] << p.logN) + h.block;
  T z[2][N][V];
  if (limb < p.merged) {
    const uint2 f = p.special[limb];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      u32 y[N][V];
#pragma unroll
      for (int j = 0; j < N; j++)
#pragma unroll
        for (int v = 0; v < V; v++) y[j][v] = 0;
      if (r < p.lows) read(y, low.at + r * low.stride + ((u64)limb << p.logN) + h.block, h.n1);
#pragma unroll
      for (int j = 0; j < N; j++)
#pragma unroll
        for (int v = 0; v < V; v++) z[r][j][v] = shoup(y[j][v], f, k.q);
    }
  } else {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int j = 0; j < N; j++)
#pragma unroll
        for (int v = 0; v < V; v++) z[r][j][v] = 0;
  }
  for (u32 i = 0; i < p.digits; i++) {
    const u32 l = __ldg(from + i);
    const u32* s = ((i32)l < 0 ? x.at : e.at) + ((u64)(l & 0x7fffffff) << p.logN) + h.block;
    u32 a[N][V], b0[N][V], b1[N][V];
    read(a, s, h.n1);
    read(b0, b, h.n1);
    read(b1, b + key.stride, h.n1);
    b += 2 * key.stride;
#pragma unroll
    for (int t = N - 1; t >= 0; t--) {
#pragma unroll
      for (int v = 0; v < V; v++) {
        u64 s0 = z[0][t][v], s1 = z[1][t][v];
#pragma unroll
        for (int j = 0; j < N; j++) {
          s0 += (u64)a[j][v] * b0[(t - j) & (N - 1)][v];
          s1 += (u64)a[j][v] * b1[(t - j) & (N - 1)][v];
        }
        if (N == 16) { s0 = folded(s0, k); s1 = folded(s1, k); }
        z[0][t][v] = (T)s0;
        z[1][t][v] = (T)s1;
      }
      if (t > 0) wrap(a, t, w, k.q);
    }
    if (N < 16 && (i & (16 / N - 1)) == 16 / N - 1 && i + 1 < p.digits)
#pragma unroll
      for (int r = 0; r < 2; r++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
          for (int v = 0; v < V; v++) z[r][j][v] = folded(z[r][j][v], k);
  }
  u32* d = p.dst + 2 * h.item * p.ds + ((u64)limb << p.logN);
  if constexpr (N == 4) turned(p, h, k, d, z, p.tw + id * p.ts, x.stride, e.stride);
  else {
    d += h.block;
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int j = 0; j < N; j++) {
        u32 y[V];
#pragma unroll
        for (int v = 0; v < V; v++) y[v] = reduce(z[r][j][v], k);
        write(d + r * p.ds + j * h.n1, y);
      }
  }
}

// V by n2; cutrantt/cuda/keyswitch.go mirrors it.
ITEMS(TensorMany, 128, 6, tensor_1) { tensor<1, 4, false>(p); }
ITEMS(TensorMany, 128, SINCE90(6, 5), tensor_2) { tensor<2, 4, false>(p); }
ITEMS(TensorMany, 128, 5, tensor_4) { tensor<4, 2, false>(p); }
ITEMS(TensorMany, 128, 6, tensor_8) { tensor<8, 1, false>(p); }
ITEMS(TensorMany, 128, 2, tensor_16) { tensor<16, 1, false>(p); }
ITEMS(TensorMany, 128, 5, square_4) { tensor<4, 2, true>(p); }
ITEMS(TensorMany, 128, 5, square_8) { tensor<8, 1, true>(p); }
ITEMS(InnerMany, 128, 6, inner_1) { SINCE80(inner<1, 4>(p);) }
ITEMS(InnerMany, 128, 5, inner_2) { SINCE80(inner<2, 4>(p);) }
ITEMS(InnerMany, 128, 5, inner_4) { SINCE80(inner<4, 2>(p);) }
ITEMS(InnerMany, 128, 5, inner_8) { SINCE80(inner<8, 1>(p);) }
ITEMS(InnerMany, 128, 3, inner_16) { SINCE80(inner<16, 1>(p);) }
