// The tensor cores, asynchronous copies (sm_80 and later), and 16 bytes at once.
#pragma once
#include "arith.cuh"

// mma: d = a*b, or d += a*b with SUM.
template <bool SUM> DEV void mma(u32 (&d)[4], uint4 a, u32 b0, u32 b1) {
#ifdef EMULATED
  const uint4 z = emulate::mma(SUM ? make_uint4(d[0], d[1], d[2], d[3]) : make_uint4(0, 0, 0, 0), a, b0, b1);
  d[0] = z.x; d[1] = z.y; d[2] = z.z; d[3] = z.w;
#elif __CUDA_ARCH__ >= 800
  if (SUM)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "r"(0));
#endif
}

// copyAsync brings 16 bytes to shared memory, copied waits for all of a block's.
DEV void copyAsync(uint4* to, const uint4* from) {
#ifdef EMULATED
  emulate::copyAsync(to, from);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#endif
}
DEV void copied() {
#ifdef EMULATED
  emulate::copied();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

// store is 16 bytes in one instruction, which the compiler else takes apart.
DEV void store(u32* to, uint4 v) {
#ifdef EMULATED
  *(uint4*)to = v;
#else
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}

// four are 16 bytes of shared memory by one instruction, likewise.
DEV uint4 four(const u32* s) {
#ifdef EMULATED
  return *(const uint4*)s;
#else
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"((u32)__cvta_generic_to_shared(s)) : "memory");
  return v;
#endif
}
