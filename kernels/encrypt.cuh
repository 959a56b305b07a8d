// What the kernels of whole encryptions share, see encrypt.cu.
#pragma once
#include "sample.cuh"
#include "transform.cuh"

// Small are the small integers of one job.
struct Small {
  i64* m; // m + e0
  int8_t* v;
  int8_t* e;
  DEV Small(void* base, u32 job, u32 logN) {
    char* at = (char*)base + (u64)job * (10ull << logN);
    m = (i64*)at;
    v = (int8_t*)(at + (8ull << logN));
    e = v + (1ull << logN);
  }
};

// Given is a loader of residues that are in registers already, in the order in
// which the first pass asks for them.
template <int COUNT> struct Given {
  const u32 (&x)[COUNT];
  mutable int at;
  DEV u32 operator()(u64) const { return x[at++]; }
};

// expand: the transform at site of small integers, modulo its prime: v, m + e0 or
// e1 for kind 0, 1, 2. dst = the limb.
template <int LOG> DEV void expand(const Args& p, const Site& at, u32* s, const Small& from, u32 kind, u32* dst) {
  typedef Shape<LOG> T;
  constexpr int EB = T::EB, R = LOG < EB ? LOG : EB, S = LOG - R;
  typedef Set<LOG, T::LB, EB, 0, R> Z;
  u32 x[1 << EB];
  if (kind == 1) {
    const Mod m = core(p.mods + at.id);
    const i64* v = from.m + at.i;
#pragma unroll
    for (int j = 0; j < Z::J; j++)
#pragma unroll
      for (int i = 0; i < (1 << R); i++) x[(j << R) + i] = residueOf64(v[Z(j).base + (i << S)], m);
  } else {
    const int8_t* v = (kind == 0 ? from.v : from.e) + at.i;
#pragma unroll
    for (int j = 0; j < Z::J; j++)
#pragma unroll
      for (int i = 0; i < (1 << R); i++) {
        const i32 c = v[Z(j).base + (i << S)];
        x[(j << R) + i] = (u32)c + (at.q & (u32)(c >> 31));
      }
  }
  forward<LOG>(at, s, Given<1 << EB>{x, 0}, Writes{dst});
}

// product16: d = e + a*b modulo X^16 - w by one Karatsuba step (hadamard.cuh), with
// the sums from and to memory as they are complete, so that they need no
// registers. e, d: n1 residues from one to the next; b is overwritten; a[j] may come from
// memory, too.
template <u32 n1, class A> DEV void product16(const u32* e, u32* d, const A& a, u32 (&b)[16], uint2 w, const Mod& m) {
  u64 before = 0; // P at t+1
  u32 wrap = 0;   // Q at 7
  u32 odd = e[15 * n1], even = *e; // addends of the next two outputs
#pragma unroll
  for (int t = 7; t >= 0; t--) {
    const u32 o = odd, v = even;
    odd = t > 0 ? e[(2 * t - 1) * n1] : 0;
    even = t > 0 ? e[2 * t * n1] : 0;
    u64 P = 0, Q = 0, S = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int k = (t - i) & 7;
      P += (u64)a[2 * i] * b[2 * k];
      Q += (u64)a[2 * i + 1] * b[2 * k + 1];
      S += (u64)(a[2 * i] + a[2 * i + 1]) * (b[2 * k] + b[2 * k + 1]);
    }
    if (t == 7) wrap = add(mulc(reduce(Q, m), w, m.q), v, m.q); // of output 0
    else d[(2 * t + 2) * n1] = add(v, reduce(before + Q, m), m.q);
    d[(2 * t + 1) * n1] = add(o, reduce(S - P - Q, m), m.q);
    before = P;
    b[2 * t] = mulc(b[2 * t], w, m.q);
    b[2 * t + 1] = mulc(b[2 * t + 1], w, m.q);
  }
  d[0] = add(wrap, reduce(before, m), m.q);
}


// zero and wipe overwrite what is secret, in the last launch of an encryption
// (p.last jobs), where no thread reads it any more: the small integers, the messages
// behind the jobs, the jobs' secret seeds, and the part of the transforms that only
// earlier launches used.
DEV void zero(void* at, u64 n, u64 first, u64 step) {
  for (; first < n; first += step) ((uint4*)at)[first] = make_uint4(0, 0, 0, 0);
}
DEV void wipe(const EncryptArgs& p, u32 transforms) {
  const u64 t = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x, all = (u64)gridDim.x * gridDim.y * blockDim.x;
  const u64 used = (u64)transforms * p.last * gridDim.y << (p.logN - 2);
  zero(p.small, p.smallSize, t, all);
  zero(p.jobs + p.last, p.messageSize, t, all);
  zero((uint4*)p.a + used, p.transformSize > used ? p.transformSize - used : 0, t, all);
  for (u64 i = t; i < p.last; i += all)
#pragma unroll
    for (int j = 0; j < 8; j++) p.jobs[i].seed[j] = 0;
}
