// Whole encryptions (cutrantt.Encrypting) of K messages, in three steps: small
// integers once per polynomial, forward transforms that expand them to every
// limb on the way in, products that end in the ciphertext.
//
// x = K Jobs. Small integers of job k lie 10*N bytes from those of job k-1, in
// the order of a limb with 2^logN2 columns: m + e0 as int64, v and e1 as int8. A
// job has i0 = 3 transforms (v, m + e0, e1), or 1 (m + e0) in seeded encryption.
#include "hadamard.cuh"
#include "sample.cuh"
#include "transform.cuh"

// Small are the small integers of one job.
struct Small {
  i64* m;     // m + e0; e0 alone where the job is large
  int8_t* v;
  int8_t* e;
  DEV Small(void* base, u32 job, u32 logN) {
    char* at = (char*)base + (u64)job * (10ull << logN);
    m = (i64*)at;
    v = (int8_t*)(at + (8ull << logN));
    e = v + (1ull << logN);
  }
};

// encrypt_small: eight coefficients of one polynomial from one stream block.
// dst = small integers, i1, i2, i3 = labels of e0, v, e1. Grid (i0*N/1024, K),
// 128 threads: first all parts of m + e0, then v, then e1.
KERNEL(128, 4, encrypt_small) {
  const u32 parts = 1u << (p.logN - 10), kind = blockIdx.x >> (p.logN - 10);
  const u32 block = (blockIdx.x & (parts - 1)) * 128 + threadIdx.x;
  const Job* job = (const Job*)p.x + blockIdx.y;
  const Small to(p.dst, blockIdx.y, p.logN);
  const u32 logn1 = p.logN - p.logN2, mask = (1u << p.logN2) - 1;
  u32 w[16];
  chacha(w, job->seed, block, kind == 0 ? p.i1 : kind == 1 ? p.i2 : p.i3, 0, 0);
  if (kind == 0) {
    const double2* x = (const double2*)job->x + 4 * block;
    double m[8];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const double2 two = x[j];
      m[2 * j] = two.x;
      m[2 * j + 1] = two.y;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const u32 k = 8 * block + j;
      to.m[((k & mask) << logn1) + (k >> p.logN2)] = (job->large ? 0 : (i64)m[j]) + binomial(w[2 * j], w[2 * j + 1]);
    }
    return;
  }
  int8_t* d = kind == 1 ? to.v : to.e;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const u32 k = 8 * block + j;
    d[((k & mask) << logn1) + (k >> p.logN2)] = (int8_t)(kind == 1 ? ternary(w[2 * j], w[2 * j + 1]) : binomial(w[2 * j], w[2 * j + 1]));
  }
}

// uniform: residues [16*first, 16*(first+threads)) of a limb of c1: word j of
// attempt 0, masked to bitlen(q), and while that is not below q, word j of the
// next attempt. After the first attempt the stream blocks with words to redraw
// are listed in s (2*threads+3 words), so that warps stay full. All is public.
DEV void uniform(const u32* key, u32 label, u32 id, u32 q, u32* d, u32 first, u32 total, u32* s) {
  const u32 t = threadIdx.x, threads = blockDim.x, mask = 0xffffffffu >> __clz(q);
  u32* count = s + 2 * threads;
  if (t < 3) count[t] = 0;
  __syncthreads();
  d += 16 * first;
  u32 w[16];
  if (first + t < total) {
    chacha(w, key, first + t, label, id, 0);
    u32 left = 0;
#pragma unroll
    for (int j = 0; j < 16; j++) {
      w[j] &= mask;
      left |= (w[j] < q ? 0u : 1u) << j;
    }
    uint4* to = (uint4*)(d + 16 * t);
#pragma unroll
    for (int j = 0; j < 4; j++) to[j] = make_uint4(w[4 * j], w[4 * j + 1], w[4 * j + 2], w[4 * j + 3]);
    if (left) s[threads + atomicAdd(count + 1, 1)] = t << 16 | left;
  }
  for (u32 attempt = 1, slot = 1;; attempt++) { // the list of an attempt is in half attempt&1, its length in count[slot]
    __syncthreads();
    const u32 n = count[slot], next = slot == 2 ? 0 : slot + 1;
    if (n == 0) return;
    if (t == 0) count[next == 2 ? 0 : next + 1] = 0;
    if (t < n) {
      const u32 entry = s[(attempt & 1) * threads + t], at = entry >> 16;
      u32 left = entry & 0xffff;
      chacha(w, key, first + at, label, id, attempt);
#pragma unroll
      for (int j = 0; j < 16; j++) {
        const u32 v = w[j] & mask;
        if ((left >> j & 1) && v < q) {
          d[16 * at + j] = v;
          left ^= 1u << j;
        }
      }
      if (left) s[(~attempt & 1) * threads + atomicAdd(count + next, 1)] = at << 16 | left;
    }
    slot = next;
  }
}

// Given is a loader of residues that are in registers already, in the order in
// which the first pass asks for them.
template <int COUNT> struct Given {
  const u32 (&x)[COUNT];
  mutable int at;
  DEV u32 operator()(u64) const { return x[at++]; }
};

// encrypt_forward_LOG: dst = transforms of the small integers a over the limbs,
// i0 a job, ds residues apart. In seeded encryption i1 blocks a job and limb draw
// c1 (label i2) besides, into the jobs' destinations from limb i3 on. Grid
// (ai + i1*K, limbs), ai = i0*K*N/2^LB.
template <int LOG> DEV void encryptForward(const Args& p) {
  typedef Shape<LOG> T;
  constexpr int EB = T::EB, R = LOG < EB ? LOG : EB, S = LOG - R;
  typedef Set<LOG, T::LB, EB, 0, R> Z;
  if (blockIdx.x >= p.ai) {
    const u32 part = blockIdx.x - (u32)p.ai, id = p.limbs[blockIdx.y];
    const Job* job = (const Job*)p.x + part / p.i1;
    u32* d = job->dst + job->ds + ((u64)(p.i3 + blockIdx.y) << p.logN);
    uniform(job->mask, p.i2, id, p.mods[id].q, d, part % p.i1 * blockDim.x, 1u << (p.logN - 4), shared);
    return;
  }
  const Site at(p, T::LB);
  const u32 k = p.i0 == 1 ? at.poly : at.poly / 3, kind = p.i0 == 1 ? 1 : at.poly - 3 * k;
  const Small from((void*)p.a, k, p.logN);
  u32 x[1 << EB];
  if (kind == 1) {
    const Mod m = core(p.mods + at.id);
    const i64* v = from.m + at.i;
#pragma unroll
    for (int j = 0; j < Z::J; j++)
#pragma unroll
      for (int i = 0; i < (1 << R); i++) x[(j << R) + i] = residueOf64(v[Z(j).base + (i << S)], m);
    const Job* job = (const Job*)p.x + k;
    if (job->large) {
      const u64* f = (const u64*)job->x;
#pragma unroll
      for (int j = 0; j < Z::J; j++)
#pragma unroll
        for (int i = 0; i < (1 << R); i++)
          x[(j << R) + i] = add(x[(j << R) + i], residueOfFloat(f[natural(p, at.i + Z(j).base + (i << S))], m), at.q);
    }
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
  forward<LOG>(at, shared, Given<1 << EB>{x, 0}, Writes{at.start(p.dst, p.ds, p.logN)});
}
COLUMNS(6, encrypt_forward_6) { encryptForward<6>(p); }
COLUMNS(7, encrypt_forward_7) { encryptForward<7>(p); }
COLUMNS(8, encrypt_forward_8) { encryptForward<8>(p); }
COLUMNS(9, encrypt_forward_9) { encryptForward<9>(p); }
COLUMNS(10, encrypt_forward_10) { encryptForward<10>(p); }
COLUMNS(11, encrypt_forward_11) { encryptForward<11>(p); }
COLUMNS(12, encrypt_forward_12) { encryptForward<12>(p); }
COLUMNS(13, encrypt_forward_13) { encryptForward<13>(p); }
COLUMNS(14, encrypt_forward_14) { encryptForward<14>(p); }
COLUMNS(15, encrypt_forward_15) { encryptForward<15>(p); }
