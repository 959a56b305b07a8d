// Products of blocks modulo X^n2 - w (paper, Algorithms 9 and 10), one block a
// thread. Each method adds the product of a and b to z; a, b, z in [0, q).
#pragma once
#include "arith.cuh"

// root: the factor w_b of block b, from the plain table t: block 2g is modulo
// X^n2 - t[n1/2+g], block 2g+1 modulo X^n2 + it.
DEV uint2 root(const uint2* t, u32 n1, u32 b, u32 q) {
  const uint2 w = __ldg(t + n1 / 2 + b / 2);
  return b & 1 ? negc(w, q) : w;
}

// gather and scatter V neighbouring blocks of N residues; V is 1, 2 or 4.
template <int V, int N> DEV void gather(u32 (&x)[V][N], const u32* from, u32 n1) {
#pragma unroll
  for (int j = 0; j < N; j++) {
    if constexpr (V == 4) {
      const uint4 v = *(const uint4*)(from + j * n1);
      x[0][j] = v.x; x[1][j] = v.y; x[2][j] = v.z; x[3][j] = v.w;
    } else if constexpr (V == 2) {
      const uint2 v = *(const uint2*)(from + j * n1);
      x[0][j] = v.x; x[1][j] = v.y;
    } else x[0][j] = from[j * n1];
  }
}

template <int V, int N> DEV void scatter(u32* to, const u32 (&x)[V][N], u32 n1) {
#pragma unroll
  for (int j = 0; j < N; j++) {
    if constexpr (V == 4) *(uint4*)(to + j * n1) = make_uint4(x[0][j], x[1][j], x[2][j], x[3][j]);
    else if constexpr (V == 2) *(uint2*)(to + j * n1) = make_uint2(x[0][j], x[1][j]);
    else to[j * n1] = x[0][j];
  }
}

// Schoolbook reduces each term; terms that wrap are multiplied by w at the end.
template <int N> struct Schoolbook {
  static DEV void mul(u32 (&z)[N], const u32 (&a)[N], const u32 (&b)[N], uint2 w, const Mod& m, const Mod*) {
#pragma unroll
    for (int t = 0; t < N; t++) {
      u32 lo = 0, hi = 0;
#pragma unroll
      for (int i = 0; i < N; i++) {
        const u32 v = mulmod(a[i], b[(t - i) & (N - 1)], m);
        if (i <= t) lo = add(lo, v, m.q); else hi = add(hi, v, m.q);
      }
      z[t] = add(z[t], add(lo, mulc(hi, w, m.q), m.q), m.q);
    }
  }
};

// Lazy: one reduction an output; at most 16 terms below 2^60. b[t] becomes
// w*b[t] once every later output no longer needs it plain.
template <int N> struct Lazy {
  static DEV void mul(u32 (&z)[N], const u32 (&a)[N], u32 (&b)[N], uint2 w, const Mod& m, const Mod*) {
#pragma unroll
    for (int t = N - 1; t >= 0; t--) {
      u64 s = 0;
#pragma unroll
      for (int i = 0; i < N; i++) s += (u64)a[i] * b[(t - i) & (N - 1)];
      z[t] = add(z[t], reduce(s, m), m.q);
      if (t > 0) b[t] = mulc(b[t], w, m.q);
    }
  }
};

// Karatsuba: one step over a = A0(Y) + X*A1(Y), Y = X^2, modulo Y^H - w:
// P = A0*B0, Q = A1*B1, S = (A0+A1)*(B0+B1); even outputs P + Y*Q, odd outputs
// S - P - Q. Terms of S are below 2^62, so S may wrap, but S - P - Q is the sum
// of the N cross products, below 2^64, hence right modulo 2^64.
template <int N> struct Karatsuba {
  static const int H = N / 2;
  static DEV void mul(u32 (&z)[N], const u32 (&a)[N], u32 (&b)[N], uint2 w, const Mod& m, const Mod*) {
    u64 before = 0; // P at t+1
    u32 wrap = 0;   // Q at H-1
#pragma unroll
    for (int t = H - 1; t >= 0; t--) {
      u64 P = 0, Q = 0, S = 0;
#pragma unroll
      for (int i = 0; i < H; i++) {
        const int k = (t - i) & (H - 1);
        P += (u64)a[2 * i] * b[2 * k];
        Q += (u64)a[2 * i + 1] * b[2 * k + 1];
        S += (u64)(a[2 * i] + a[2 * i + 1]) * (b[2 * k] + b[2 * k + 1]);
      }
      if (t == H - 1) wrap = reduce(Q, m);
      else z[2 * t + 2] = add(z[2 * t + 2], reduce(before + Q, m), m.q);
      z[2 * t + 1] = add(z[2 * t + 1], reduce(S - P - Q, m), m.q);
      before = P;
      b[2 * t] = mulc(b[2 * t], w, m.q);
      b[2 * t + 1] = mulc(b[2 * t + 1], w, m.q);
    }
    z[0] = add(z[0], add(reduce(before, m), mulc(wrap, w, m.q), m.q), m.q);
  }
};

// Toom-Cook-4 over the stride split a = sum over j < 4 of X^j * A_j(Z), Z = X^4,
// modulo Z^H - w (paper, Algorithm 10, with 8*r0+2*r2 in lines 8 and 19 and j up
// to 6 in line 31): evaluation at 0, 1, -1, 2, -2, 1/2 (times 8), infinity.
template <int N> struct Toom {
  static const int H = N / 4, words = 7 * H;

  // evaluate: word 7*i+p is the value of group i at point p, in [0, q).
  static DEV void evaluate(u32 (&e)[words], const u32 (&a)[N], u32 q) {
#pragma unroll
    for (int i = 0; i < H; i++) {
      const u32 x0 = a[4 * i], x1 = a[4 * i + 1], x2 = a[4 * i + 2], x3 = a[4 * i + 3];
      const u32 s = add(x0, x2, q), t = add(x1, x3, q);
      const u32 u = corr(corr(x0 + 2 * add(x2, x2, q), 2 * q), q); // x0+4*x2, from [0, 3q)
      u32 v = corr(corr(x1 + 2 * add(x3, x3, q), 2 * q), q);       // x1+4*x3
      v = add(v, v, q);
      u32 y = corr(corr(2 * x0 + x1, 2 * q), q); // 8*x0+4*x1+2*x2+x3 by Horner's rule
      y = corr(corr(2 * y + x2, 2 * q), q);
      y = corr(corr(2 * y + x3, 2 * q), q);
      e[7 * i] = x0;
      e[7 * i + 1] = add(s, t, q);
      e[7 * i + 2] = sub(s, t, q);
      e[7 * i + 3] = add(u, v, q);
      e[7 * i + 4] = sub(u, v, q);
      e[7 * i + 5] = y;
      e[7 * i + 6] = x3;
    }
  }

  // interpolate: c_0, ..., c_6 in [0, q) from the values, below 2^62 each. With
  // s1, d1 = v(1) +- v(-1), s2, d2 = v(2) +- v(-2) and h = v(1/2) - 64*c0 - 16*c2
  // - 4*c4 - c6: 24*c2 = 16*s1-s2-30*c0+96*c6, 24*c4 = s2-4*s1+6*c0-120*c6,
  // 180*c1 = d2-40*d1+8*h, 36*c3 = 34*d1-d2-2*h, 90*c5 = 2*d2-20*d1+h.
  static DEV void interpolate(u32 (&c)[7], const u64 (&v)[7], const Mod& m, const Mod* k) {
    const u64 lift = k->lift, q = m.q;
    const u64 x0 = reduce(v[0], m), x6 = reduce(v[6], m);
    const u64 s1 = reduce(v[1] + v[2], m), d1 = reduce(v[1] + lift - v[2], m);
    const u64 s2 = reduce(v[3] + v[4], m), d2 = reduce(v[3] + lift - v[4], m);
    c[0] = (u32)x0;
    c[6] = (u32)x6;
    c[2] = reduce(x0 * k->c2[0] + s1 * k->c2[1] + s2 * k->c2[2] + x6 * k->c2[3], m);
    c[4] = reduce(x0 * k->c4[0] + s1 * k->c4[1] + s2 * k->c4[2] + x6 * k->c4[3], m);
    const u64 h = reduce(v[5] + 64 * (q - x0) + 16 * (q - c[2]) + 4 * (q - c[4]) + (q - x6), m);
    c[1] = reduce(d1 * k->c1[0] + d2 * k->c1[1] + h * k->c1[2], m);
    c[3] = reduce(d1 * k->c3[0] + d2 * k->c3[1] + h * k->c3[2], m);
    c[5] = reduce(d1 * k->c5[0] + d2 * k->c5[1] + h * k->c5[2], m);
  }

  // product of evaluated factors; fb is overwritten.
  static DEV void product(u32 (&z)[N], const u32 (&fa)[words], u32 (&fb)[words], uint2 w, const Mod& m, const Mod* k) {
#pragma unroll
    for (int t = H - 1; t >= 0; t--) {
      u64 v[7];
#pragma unroll
      for (int p = 0; p < 7; p++) {
        v[p] = 0;
#pragma unroll
        for (int i = 0; i < H; i++) v[p] += (u64)fa[7 * i + p] * fb[7 * ((t - i) & (H - 1)) + p];
      }
      u32 c[7];
      interpolate(c, v, m, k);
#pragma unroll
      for (int j = 0; j < 4; j++) z[4 * t + j] = add(z[4 * t + j], c[j], m.q);
#pragma unroll
      for (int j = 4; j < 7; j++) { // only the last group wraps around
        const int to = (4 * t + j) & (N - 1);
        z[to] = add(z[to], t == H - 1 ? mulc(c[j], w, m.q) : c[j], m.q);
      }
      if (t > 0) {
#pragma unroll
        for (int p = 0; p < 7; p++) fb[7 * t + p] = mulc(fb[7 * t + p], w, m.q);
      }
    }
  }

  static DEV void mul(u32 (&z)[N], const u32 (&a)[N], const u32 (&b)[N], uint2 w, const Mod& m, const Mod* k) {
    u32 fa[words], fb[words];
    evaluate(fa, a, m.q);
    evaluate(fb, b, m.q);
    product(z, fa, fb, w, m, k);
  }
};
