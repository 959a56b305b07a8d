// Residues as they travel (docs/wire-ciphertext.md, "Residues"): pairs r + q*s in as many
// bits as q^2-1 has, one straight after the other, from the lowest bit of each limb on. A
// limb has whole words of 64 bits. Grid: (polynomials*N/1024, limbs).
#include "many.cuh"

// Packed is the part of a limb that a block unpacks: 512 pairs, two a thread.
struct Packed {
  const u64* words;
  PackedLimb limb;
  u32 first, q;
  DEV Packed(const PackedArgs& p, const u32* a, const Place& at)
      : limb(p.packed[at.limb]), first(at.i / 2 + threadIdx.x), q(p.mods[p.limbs[at.limb]].q) {
    words = (const u64*)a + limb.at;
  }

  // pair gives pair i of the limb as (r, s), of which s is below q if the pair is below q^2.
  DEV uint2 pair(u32 i) const {
    const u32 bit = i * limb.bits, at = bit >> 6, shift = bit & 63;
    u64 v = words[at] >> shift;
    if (shift + limb.bits > 64) v |= words[at + 1] << (64 - shift);
    v &= (1ull << limb.bits) - 1;
    const u64 s = __umul64hi(v, limb.inverse); // v/q, or one less
    const u32 r = (u32)(v - s * q), more = r >= q;
    BELOW(v - s * q, 2ull * q);
    return make_uint2(r - more * q, (u32)s + more);
  }
};

// tell writes what the threads of a block found: bit 0 if a pair is not below q^2, bit 1 if a
// residue is not 0.
DEV void tell(u32* to, bool beyond, bool some) {
  __shared__ u32 found[8];
  beyond = __any_sync(~0u, beyond);
  some = __any_sync(~0u, some);
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = (beyond ? 1 : 0) | (some ? 2 : 0);
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 all = 0;
#pragma unroll 1
    for (u32 w = 0; w < 8; w++) all |= found[w];
    to[blockIdx.y * gridDim.x + blockIdx.x] = all;
  }
}

// packed_check: what there is to tell of each block.
KERNEL(PackedArgs, 256, 4, packed_check) {
  const Place at(p, 10);
  const Packed from(p, p.a + at.poly * p.as, at);
  bool beyond = false, some = false;
#pragma unroll
  for (u32 k = 0; k < 2; k++) {
    const uint2 v = from.pair(from.first + k * 256);
    beyond |= v.y >= from.q;
    some |= (v.x | v.y) != 0;
  }
  tell(p.found, beyond, some);
}

// packed_load: the residues of the leading polynomials of dst; all pairs are below q^2.
KERNEL(PackedMany, 256, 4, packed_load) {
  const Place at(p, 10);
  const u32 item = at.poly / p.polys, poly = at.poly % p.polys;
  const Slot to = operand(p, item, &PackedItem::residues), source = operand(p, item, &PackedItem::packed);
  const Packed from(p, source.at + poly * source.stride, at);
  uint2* dst = (uint2*)(to.at + poly * to.stride + ((u64)at.limb << p.logN));
#pragma unroll
  for (u32 k = 0; k < 2; k++) {
    const u32 i = from.first + k * 256;
    const uint2 v = from.pair(i);
    BELOW(v.x, from.q), BELOW(v.y, from.q);
    dst[i] = v;
  }
}

// packed_store: the leading polynomials of src, packed, a word of 64 bits a thread at a time.
// What there is to tell of the block goes to found.
KERNEL(PackedMany, 256, 4, packed_store) {
  const Place at(p, 10);
  const u32 item = at.poly / p.polys, poly = at.poly % p.polys;
  const Slot source = operand(p, item, &PackedItem::residues), to = operand(p, item, &PackedItem::packed);
  const PackedLimb limb = p.packed[at.limb];
  const u32 q = p.mods[p.limbs[at.limb]].q;
  const uint2* from = (const uint2*)(source.at + poly * source.stride + ((u64)at.limb << p.logN) + at.i);
  u64* words = (u64*)(to.at + poly * to.stride) + limb.at + (at.i >> 7) * limb.bits; // 512 pairs are 8*bits words
  bool some = false;
  const auto pair = [&](u32 i) {
    const uint2 x = from[i];
    BELOW(x.x, q), BELOW(x.y, q);
    some |= (x.x | x.y) != 0;
    return x.x + (u64)q * x.y;
  };
#pragma unroll 1
  for (u32 j = threadIdx.x; j < 8 * limb.bits; j += 256) {
    u32 i = 64 * j / limb.bits, have = (i + 1) * limb.bits - 64 * j; // of pair i, from bit 64*j on
    u64 v = pair(i) >> (limb.bits - have);
#pragma unroll 1
    for (; have < 64; have += limb.bits) v |= pair(++i) << have;
    words[j] = v;
  }
  tell(p.found, false, some);
}
