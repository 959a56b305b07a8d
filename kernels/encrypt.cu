// Whole encryptions (cutrantt.Encrypting) of K messages, in three steps: small
// integers once per polynomial (encrypt_small), forward transforms that expand
// them to every limb on the way in (encrypt_forward), products that end in the
// ciphertext (encrypt_public.cu, encrypt_seeded.cu).
//
// Small integers of job k lie 10*N bytes from those of job k-1, in the order of a
// limb with 2^logN2 columns: m + e0 as int64, v and e1 as int8. A job has 3
// transforms (v, m + e0, e1), or 1 (m + e0) in seeded encryption.
#include "encrypt.cuh"

// message is two coefficients. They are asked for where it is written: the compiler
// would load them behind the rounds of ChaCha20, which hide the time that they take.
DEV double2 message(const double2* x) {
#ifdef EMULATED
  return *x;
#else
  double2 v;
  asm volatile("ld.global.v2.f64 {%0, %1}, [%2];" : "=d"(v.x), "=d"(v.y) : "l"(x));
  return v;
#endif
}

// encrypt_small: eight coefficients of one polynomial from one stream block.
// dst = small integers. Grid (transforms*N/1024, K), 128 threads: first all parts of
// m + e0, then v, then e1.
KERNEL(SmallArgs, 128, 4, encrypt_small) {
  const u32 parts = 1u << (p.logN - 10), kind = blockIdx.x >> (p.logN - 10);
  const u32 block = (blockIdx.x & (parts - 1)) * 128 + threadIdx.x;
  const Job* job = p.jobs + blockIdx.y;
  const Small to(p.dst, blockIdx.y, p.logN);
  const u32 logn1 = p.logN - p.logN2, mask = (1u << p.logN2) - 1;
  u32 w[16], seed[8];
#pragma unroll
  for (int j = 0; j < 8; j++) seed[j] = job->seed[j];
  double m[8] = {};
  if (kind == 0)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const double2 two = message((const double2*)job->message + 4 * block + j);
      m[2 * j] = two.x;
      m[2 * j + 1] = two.y;
    }
  chacha(w, seed, block, kind == 0 ? p.labelE0 : kind == 1 ? p.labelV : p.labelE1, 0, 0);
  if (kind == 0) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const u32 k = 8 * block + j;
      to.m[((k & mask) << logn1) + (k >> p.logN2)] = (i64)m[j] + binomial(w[2 * j], w[2 * j + 1]);
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

// encrypt_forward_LOG: dst = transforms of the small integers a over the limbs,
// ds residues apart. Grid (transforms*K*N/2^LB, limbs).
template <int LOG> DEV void encryptForward(const ExpandArgs& p, const Site& at) {
  const u32 k = p.transforms == 1 ? at.poly : at.poly / 3, kind = p.transforms == 1 ? 1 : at.poly - 3 * k;
  expand<LOG>(p, at, shared, Small((void*)p.a, k, p.logN), kind, at.start(p.dst, p.ds, p.logN));
}
COLUMNS(ExpandArgs, 6, encrypt_forward_6) { encryptForward<6>(p, at); }
COLUMNS(ExpandArgs, 7, encrypt_forward_7) { encryptForward<7>(p, at); }
COLUMNS(ExpandArgs, 8, encrypt_forward_8) { encryptForward<8>(p, at); }
COLUMNS(ExpandArgs, 9, encrypt_forward_9) { encryptForward<9>(p, at); }
COLUMNS(ExpandArgs, 10, encrypt_forward_10) { encryptForward<10>(p, at); }
COLUMNS(ExpandArgs, 11, encrypt_forward_11) { encryptForward<11>(p, at); }
COLUMNS(ExpandArgs, 12, encrypt_forward_12) { encryptForward<12>(p, at); }
COLUMNS(ExpandArgs, 13, encrypt_forward_13) { encryptForward<13>(p, at); }
COLUMNS(ExpandArgs, 14, encrypt_forward_14) { encryptForward<14>(p, at); }
