// The memory layouts that host and device share. cutrantt/cuda/args.go mirrors
// them; build.sh writes their sizes into zkernels.go and a test compares.
#pragma once
#include <cstdint>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;

// Mod is one prime q < 2^30 with its constants.
struct Mod {
  u32 q;       // the prime
  u32 r32;     // 2^32 mod q
  u32 r32s;    // floor(r32 * 2^32 / q)
  u32 ones;    // floor(2^32 / q)
  u64 lift;    // the multiple of q in (2^62, 2^62 + q]
  u32 psi;     // primitive 2N-th root of unity
  u32 c2[4];   // Toom-Cook-4 interpolation, of v(0), s1, s2, v(inf)
  u32 c4[4];
  u32 c1[3];   // of d1, d2, h
  u32 c3[3];
  u32 c5[3];
};

// Args are the arguments of every kernel; each kernel says which it reads.
// Pointers to residues point at limb 0 of polynomial 0; limb l of polynomial p
// starts p*stride + l*N residues further. A stride of 0 broadcasts.
struct Args {
  u32* dst;           // destination
  const u32* a;       // sources
  const u32* b;
  u64 ds, as, bs;     // residues from one polynomial to the next
  const Mod* mods;    // moduli of the ring
  const u32* limbs;   // modulus index of each limb
  const u32* at;      // position of each limb in b, for operands
  const uint2* tw;    // twiddles: (w, floor(w*2^32/q)), ts entries a modulus
  u64 ts;
  const void* x;      // constants or host data of the kernel
  u32 logN, logN2;    // degree and columns
  u32 i0, i1, i2, i3; // small numbers
  const uint2* roots; // a second table, of kernels that transform and multiply
  u64 rs;
  u64 ai, bi;         // residues from one term of a sum to the next, in a and b
  u32 key[8];         // seed of the samplers, little-endian words
};

// Job is one encryption of a launch of encrypt.cu, in device memory.
struct Job {
  u32 seed[8];        // secret seed of v, e0 and e1, little-endian words
  u32 mask[8];        // public seed of c1 (seeded encryption)
  const double* x;    // N integral coefficients, natural order, device memory
  u32* dst;           // limb 0 of c0
  u64 ds;             // residues from c0 to c1
  u64 pad;            // jobs and what follows them lie on 16 bytes
};

// Slot is one operand of one item of a batch: limb 0 of polynomial 0, and the
// residues from one polynomial to the next. Some slots hold numbers instead.
struct Slot {
  u32* at;
  u64 stride;
};

// Many are the arguments of kernels that take independent items, each with
// operands of its own: four slots an item, in table, or in one for one item.
struct Many {
  Args p;
  const Slot* table; // or null
  const uint2* roots; // a second table of twiddles, rs entries a modulus
  u64 rs;
  Slot one[4];
};
