// What the CUDA compiler declares for device code, for the emulator: included
// before each kernel source, which g++ then compiles as C++. See README.md.
#pragma once
#include <cstdint>
#include <cstring>

#define EMULATED 1
#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ thread_local // one operating system thread runs all blocks
#define __align__(n) __attribute__((aligned(n)))
#ifndef BOUNDS                  // build.sh reads the bounds of the kernels
#define __launch_bounds__(...)
#endif

struct uint2 { unsigned x, y; } __attribute__((aligned(8)));
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
struct ulonglong2 { unsigned long long x, y; } __attribute__((aligned(16)));
struct double2 { double x, y; } __attribute__((aligned(16)));
static __forceinline__ uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static __forceinline__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// The runtime (block.cpp, memory.cpp). The indices are constants of a thread of
// the device, so a function that reads them is one, too.
namespace emulate {
__attribute__((const)) uint3 thread();
__attribute__((const)) uint3 block();
__attribute__((const)) uint3 threads();
__attribute__((const)) uint3 blocks();
void barrier();
void warpBarrier(unsigned mask);
uint64_t shuffleXor(unsigned mask, uint64_t v, unsigned lane);
unsigned vote(unsigned mask, bool v);
uint4 mma(uint4 sum, uint4 a, unsigned b0, unsigned b1);
void announce();
void settle();
void copyAsync(void* to, const void* from); // 16 bytes, there when copied was called
void copied();
// The copy engine: an mbarrier for one arrival a phase, a copy that arrives and whose
// bytes end the phase, and the wait for the end of a phase of this parity.
void arrivalInit(uint64_t* at);
void arrivalCopy(uint64_t* at, void* to, const void* from, unsigned bytes);
void arrivalWait(uint64_t* at, unsigned parity);
unsigned atomicAdd(unsigned* at, unsigned v);
void constant(const void* at, unsigned bytes); // a load by the read-only path
void range(const char* file, int line, const char* what, uint64_t value, uint64_t bound);

// Entry is a kernel of the library, called with its parameter P.
struct Entry {
  const char* name;
  void (*call)(void (*kernel)(), const void* parameter);
  void (*kernel)();
  unsigned bytes, threads;
  Entry* next;
  template <class P> __attribute__((no_sanitize_thread)) static void with(void (*kernel)(), const void* parameter) {
    P p;
    memcpy((void*)&p, parameter, sizeof p);
    ((void (*)(P))kernel)(p);
  }
  template <class P> __attribute__((no_sanitize_thread)) Entry(const char* name, void (*f)(P), unsigned threads)
      : name(name), call(with<P>), kernel((void (*)())f), bytes(sizeof(P)), threads(threads) { add(); }
  template <class P> __attribute__((no_sanitize_thread)) Entry(const char* name, void (*f)(P), unsigned threads, unsigned) : Entry(name, f, threads) {}
  void add();
};
} // namespace emulate

#define threadIdx (emulate::thread())
#define blockIdx (emulate::block())
#define blockDim (emulate::threads())
#define gridDim (emulate::blocks())
#define __syncthreads() emulate::barrier()
static __forceinline__ void __syncwarp(unsigned mask = ~0u) { emulate::warpBarrier(mask); }
static __forceinline__ unsigned __ballot_sync(unsigned mask, bool v) { return emulate::vote(mask, v); }
static __forceinline__ bool __any_sync(unsigned mask, bool v) { return emulate::vote(mask, v) != 0; }
static __forceinline__ bool __all_sync(unsigned mask, bool v) { return emulate::vote(mask, !v) == 0; }
template <class T> static __forceinline__ T __shfl_xor_sync(unsigned mask, T v, unsigned lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words only");
  return (T)emulate::shuffleXor(mask, (uint64_t)v, lane);
}
static __forceinline__ unsigned atomicAdd(unsigned* at, unsigned v) { return emulate::atomicAdd(at, v); }
template <class T> static __forceinline__ T __ldg(const T* at) {
  emulate::constant(at, sizeof(T));
  return *at;
}

static __forceinline__ unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
static __forceinline__ unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }
static __forceinline__ unsigned __viaddmin_u32(unsigned x, unsigned y, unsigned z) { return min(x + y, z); }
static __forceinline__ unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }
static __forceinline__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return (unsigned __int128)x * y >> 64; }
static __forceinline__ unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return (unsigned)((((uint64_t)hi << 32 | lo) << (n & 31)) >> 32); }
static __forceinline__ unsigned __byte_perm(unsigned a, unsigned b, unsigned pick) {
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= (unsigned)(uint8_t)(((uint64_t)b << 32 | a) >> 8 * (pick >> 4 * i & 7)) << 8 * i;
  return r;
}
// Rounded one by one: build.sh lets no product and sum be fused.
static __forceinline__ double __dadd_rn(double x, double y) { return x + y; }
static __forceinline__ double __dsub_rn(double x, double y) { return x - y; }
static __forceinline__ double __dmul_rn(double x, double y) { return x * y; }
static __forceinline__ double rint(double x) { return __builtin_rint(x); }
static __forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
static __forceinline__ int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static __forceinline__ unsigned __brev(unsigned x) {
  x = __builtin_bswap32(x);
  x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
  x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
  return (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
}
