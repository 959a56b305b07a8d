// The change of basis from a few limbs in the load of a forward transform: residues
// are computed as they are loaded, by the exact rule of basis.cu and extend.cu, so
// that what is extended is neither written nor read as coefficients. The source limbs
// are read once for each output, from the second-level cache all but the first time.
#pragma once
#include "transform.cuh"

// Digits is what one output limb p needs, 4 times 16 bytes: for each of up to 3
// source limbs S/q_i mod p with its quotient, floor(2^56/q_i), which has 32 bits, and
// the limb (zeros beyond the sources, but for the limb); and -S mod p, the number of
// sources, 0, 0. The sources hold y_i = x_i*(S/q_i)^-1 mod q_i: the inverse transform
// before multiplies by that (inverse.cu).
template <int COUNT> struct Digits {
  uint4 source[COUNT];
  const u32* a[COUNT];
  u32 rest, q;
  DEV Digits(const uint4* x, const u32* from, u32 logN, u32 q) : rest(__ldg(x + 3).x), q(q) {
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      source[k] = __ldg(x + k);
      a[k] = from + ((u64)source[k].w << logN);
    }
  }
  // The residue at i: sum y_i*S/q_i - v*S mod p, in [0, 4p), which the transform
  // takes. The quotients are summed before they are cut: as y_i < 2^30, what is left
  // of the first sum is below 1.75p; v <= 3, so the second is below 3p, and 2p folded.
  DEV u32 operator()(u64 i) const {
    u64 quotients = 0, v = 1ull << 55;
    u32 sum = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      const u32 y = a[k][i];
      sum += y * source[k].x;
      quotients += (u64)y * source[k].y;
      v += (u64)y * source[k].z;
    }
    return sum - (u32)(quotients >> 32) * q + fold((u32)(v >> 56) * rest, minusTwice(q));
  }
};
