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

// Args begin the arguments of every kernel; each kernel says which it reads.
// Pointers to residues point at limb 0 of polynomial 0; limb l of polynomial p
// starts p*stride + l*N residues further. A stride of 0 broadcasts.
struct Args {
  u32* dst;           // destination
  u64 ds;             // residues from one polynomial of dst to the next
  const u32* a;       // source
  u64 as;             // residues from one polynomial of a to the next
  const Mod* mods;    // moduli of the ring
  const u32* limbs;   // modulus index of each limb
  const uint2* tw;    // twiddles: (w, floor(w*2^32/q)), ts entries a modulus
  u64 ts;
  u32 logN, logN2;    // degree and columns
};

// The arguments of each family of kernels follow. A factor is (c, floor(c*2^32/q)).

// TableArgs: table_plain. dst holds uint2, stride of them for each modulus.
struct TableArgs : Args {
  u64 stride;
  u32 entries;        // to compute for each modulus
};

// PassTableArgs: table_passes. dst holds uint2 as in TableArgs.
struct PassTableArgs : Args {
  u64 stride;
  u32 logColumn;      // of the residues of a column
  u32 first, each;    // levels of the first pass, and of the others
};

// SplitArgs: forward_tail, inverse_tail.
struct SplitArgs : Args {
  u32 levels;         // that forward_head or inverse_head computes
};

// InverseArgs: inverse_LOG.
struct InverseArgs : Args {
  const uint2* last;  // two factors of the last level for each limb, or null: see Site
};

// UpArgs: up_LOG.
struct UpArgs : Args {
  const uint4* digits; // struct Digits of each limb
};

// RelayoutArgs: relayout.
struct RelayoutArgs : Args {
  u32 logColumns;     // of a
};

// ElementArgs: the element-wise kernels but element_constant.
struct ElementArgs : Args {
  const u32* b;       // second source, or null
  u64 bs;
  const uint2* factors; // one for each limb
};

// ConstantArgs: element_constant.
struct ConstantArgs : Args {
  const u32* constants; // one for each limb
  u32 transformed;    // whether a and dst are in the transform domain
};

// CombineArgs: combine. a points to the Slot of the first result and those of its terms, then to those of the next.
// dst, ds and as are not read.
struct CombineArgs : Args {
  const u32* factors; // one for each limb, term by term
  const u32* constants; // one for each limb, or null
  u32 terms, polys;   // polynomials of a result
  u32 logParts;       // of blocks of a polynomial
  u32 count;          // residues of the constant term
  u32 more;           // not 0: the results are added to
};

// AutomorphismArgs: automorphism_coeffs, automorphism_blocks.
struct AutomorphismArgs : Args {
  u32 galois;         // the element g of X -> X^g: odd, below 2N
};

// DigitArgs: basis_digits.
struct DigitArgs : Args {
  const void* constants;
  u32 sources;        // limbs of a
};

// BasisArgs: basis_extend.
struct BasisArgs : Args {
  const u32* b;       // the limbs that are copied
  u64 bs;
  const u32* constants;
  u32 sources;        // limbs whose digits are in a
  u32 outputs;        // limbs of dst
};

// ExtendArgs: extend_CHUNKS.
struct ExtendArgs : Args {
  const u32* conversions; // the constants of each change of basis
  u32 words;          // of one of them
  u32 shares;         // of blocks that divide the groups of outputs among them
};

// SampleArgs: sample_uniform, sample_ternary, sample_cbd.
struct SampleArgs : Args {
  u32 seed[8];        // little-endian words
  u32 label;
  u32 count;          // limbs of dst
};

// SetArgs: set_small, set_floats, set_large.
struct SetArgs : Args {
  const void* values; // N of them, in natural order
  u32 count;          // limbs of dst
};

// ProductArgs: the Hadamard products. Result r is (accumulate ? old dst : 0) + the
// sum over terms i of a at r*as + i*ai times b at r*bs + i*bi.
struct ProductArgs : Args {
  const u32* b;
  u64 bs;
  const u32* at;      // position of each limb in b; null: the same as in dst
  u64 ai, bi;
  u32 terms, accumulate;
};

// Job is one encryption of a launch of encrypt.cu, in device memory.
struct Job {
  u32 seed[8];        // secret seed of v, e0 and e1, little-endian words
  u32 mask[8];        // public seed of c1 (seeded encryption)
  const double* message; // N integral coefficients, natural order, device memory
  u32* dst;           // limb 0 of c0
  u64 ds;             // residues from c0 to c1
  u64 unused;         // jobs and what follows them lie on 16 bytes
};

// EmbedArgs: embed_LEVELS. dst holds N/2 complex numbers a message.
struct EmbedArgs : Args {
  const double* values; // count of each message (first pass)
  const double2* roots; // N/2: cosine and sine
  double* coeffs;     // N of each message (last pass)
  double share;       // 2/N
  double scale;
  u32 count;
  u32 each;           // values of a slot: 1, 2 for real and imaginary parts; 0 after the first pass
  u32 logStep;        // of the distance of the last level
};

// SmallArgs: encrypt_small.
struct SmallArgs : Args {
  const Job* jobs;
  u32 labelE0, labelV, labelE1;
};

// ExpandArgs: encrypt_forward_LOG.
struct ExpandArgs : Args {
  u32 transforms;     // of a job and limb: 3 (v, m + e0, e1), or 1 (m + e0)
};

// EncryptArgs: encrypt_public and encrypt_seeded. a holds the transforms; the sizes
// are in units of 16 bytes.
struct EncryptArgs : Args {
  Job* jobs;
  const u32* key;     // (b, a), or s
  u64 keyStride;      // residues from b to a
  const u32* at;      // position of each limb in key
  uint4* small;       // the small integers, for wipe
  u64 smallSize;
  u64 messageSize;    // of the messages behind the jobs; 0 if they lie elsewhere
  u64 transformSize;  // of what all launches of this encryption wrote at a
  u32 first;          // the first of the limbs, in the destination of a job
  u32 maskLabel;      // label of c1 (seeded encryption)
  u32 last;           // jobs, in the last launch of an encryption, which wipes; else 0
};

// SumArgs: sums_N2. For each item a points to the Slot of the pair of factors of each term, then that of each sum. After
// those of all items come, term by term, the addresses of the factors of all sums, null for none, and more nulls up to a
// multiple of the sums that the kernel makes at a time.
struct SumArgs : Args {
  u32 terms, sums;
  u32 flat; // not 0: only the first of a factor's N residues in a block is not 0
  u32 items;
};

// InnerArgs: inner_N2, onekey_4.
struct InnerArgs : Args {
  const u32* at;      // position of each limb in the key
  const u32* sources; // for each limb and digit a limb of the extension, or of x with the top bit
  const uint2* special; // P as a factor, for each merged limb
  u32 digits;
  u32 merged;         // limbs whose sums begin with P*low
  u32 lows;           // polynomials of low
  u32 items;          // of onekey_4
};

// DivideArgs: down_LOG, divide_LOG, down.
struct DivideArgs : Args {
  const uint4* digits; // struct Digits of each limb (divide_LOG)
  const uint2* inverses; // D^-1 as a factor, for each limb
  const uint2* roots; // twiddles in plain order, rs entries a modulus
  u64 rs;
  u32 polys;          // of an item
  u32 group;          // blocks of a limb that run together (divide_LOG)
};

// CollectArgs: collect.
struct CollectArgs : Args {
  u32 polys;          // of an item
};

// PackedLimb is where a limb of packed residues lies, and what its pairs are divided with.
struct PackedLimb {
  u64 inverse;        // floor((2^64-1)/q)
  u32 at;             // from the start of its polynomial, in words of 64 bits
  u32 bits;           // of a pair
};

// PackedArgs: packed_check, packed_load, packed_store. as is from one polynomial to the next in
// words of 32 bits, an even number.
struct PackedArgs : Args {
  const PackedLimb* packed; // of each limb
  u32* found;         // a word for each block (packed_check, packed_store)
  u32 polys;          // packed polynomials of an item (packed_load, packed_store)
};

// Slot is one operand of one item of a batch: limb 0 of polynomial 0, and the
// residues from one polynomial to the next.
struct Slot {
  u32* at;
  u64 stride;
};

// The operands of one item, for each family of kernels over items.
struct TensorItem { Slot a, b, dst; }; // dst has three polynomials
struct InnerItem { Slot key, low, x, extension; }; // strides of x and extension: Galois element of the results, its inverse
struct CollectItem { Slot from; };
struct PackedItem { Slot residues, packed; }; // packed as a and as of PackedArgs

// DivideItem: low is null if there is none. The result is (from - a)/D + low, and of
// that the image under X -> X^galois.
struct DivideNumbers { u64 galois, lows; }; // lows: polynomials of low
struct DivideItem { Slot dst, low; DivideNumbers numbers; Slot from; };

// Many are the arguments of kernels that take independent items, each with operands
// of its own: in table, or in one for one item.
template <class A, class Item> struct Many : A {
  const Item* table; // or null
  Item one;
};
typedef Many<Args, TensorItem> TensorMany;
typedef Many<InnerArgs, InnerItem> InnerMany;
typedef Many<DivideArgs, DivideItem> DivideMany;
typedef Many<CollectArgs, CollectItem> CollectMany;
typedef Many<PackedArgs, PackedItem> PackedMany;
