// The extension of digits of a few limbs (ModUp) in the forward transform of what it
// extends to: residues are computed as they are loaded, by the exact rule of
// basis.cu and extend.cu, so that the extended digits are neither written nor read as
// coefficients. The source limbs are read once for each output, from the second-level
// cache all but the first time.
#include "transform.cuh"

// Digits is what one output limb needs, 6 times 16 bytes in Args::x: of each of up to
// 4 source limbs (S/q_i)^-1 mod q_i with its quotient, -q_i and floor(2^56/q_i), which
// has 32 bits (zeros beyond the sources); their factors S/q_i mod p; and -S mod p, the
// first source limb, their number, 0.
struct Digits {
  static const int most = 4, words = 6;
  uint4 source[most], factor, rest;
  const u32* a[most];
  Mod m;
  DEV Digits(const Args& p, const Site& at) : m(core(p.mods + at.id)) {
    const uint4* x = (const uint4*)p.x + at.limb * words;
#pragma unroll
    for (int k = 0; k < most; k++) source[k] = __ldg(x + k);
    factor = __ldg(x + most);
    rest = __ldg(x + most + 1);
#pragma unroll
    for (int k = 0; k < most; k++) a[k] = p.a + at.poly * p.as + ((u64)(rest.y + k) << p.logN);
  }
  DEV void term(int k, u64 i, u32 f, u64& sum, u64& v) const {
    if (k >= rest.z) return; // the same for the whole grid row
    const u32 x = a[k][i], nq = source[k].z; // y as by mulc: corrections with -q are one instruction
    const u32 y = fold(x * source[k].x + __umulhi(x, source[k].y) * nq, nq);
    sum += (u64)y * f;
    v += (u64)y * source[k].w;
  }
  // The residue at i: sum y_i*S/q_i - v*S mod p, in [0, 4p), which the transform takes
  DEV u32 operator()(u64 i) const {
    u64 sum = 0, v = 1ull << 55;
    term(0, i, factor.x, sum, v);
    term(1, i, factor.y, sum, v);
    term(2, i, factor.z, sum, v);
    term(3, i, factor.w, sum, v);
    return reduced(sum + (v >> 56) * rest.x, m); // below 4*2^60 + 2^33
  }
};

// a: the sources, coefficients; dst: the transforms; grid as forward_LOG.
#define UP(LOG)                                                                     \
  COLUMNS(LOG, up_##LOG) {                                                          \
    forward<LOG>(at, shared, Digits(p, at), Writes{at.start(p.dst, p.ds, p.logN)}); \
  }
UP(11)
UP(12)
