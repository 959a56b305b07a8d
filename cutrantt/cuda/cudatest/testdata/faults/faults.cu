// Kernels with one fault each, and some in order, for the tests of the emulator.
#include "arith.cuh"

struct FaultArgs {
  u32* dst;         // 64 words
  const u32 *a, *b; // 64 words each; a is written
  const void* host; // memory that is not the device's
  u32 count;        // 64
};

extern __shared__ __align__(16) u32 shared[];

KERNEL(FaultArgs, 64, 1, good_exchange) {
  const u32 t = threadIdx.x;
  shared[t] = p.a[t];
  __syncthreads();
  p.dst[t] = shared[63 - t];
}
KERNEL(FaultArgs, 64, 1, good_warp) {
  const u32 t = threadIdx.x;
  shared[t] = p.a[t];
  __syncwarp();
  p.dst[t] = shared[t ^ 31];
}
KERNEL(FaultArgs, 64, 1, good_shuffle) {
  u64 v = threadIdx.x;
  for (int k = 1; k < 32; k *= 2) v += __shfl_xor_sync(~0u, v, k);
  p.dst[threadIdx.x] = (u32)v;
}
KERNEL(FaultArgs, 64, 1, good_count) {
  __shared__ u32 count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, threadIdx.x);
  __syncthreads();
  p.dst[threadIdx.x] = count;
}
// bulk copies the 64 words of a to shared memory by the copy engine, on an mbarrier
// for one arrival.
DEV void bulk(u64* arrival, const FaultArgs& p, u32 bytes) {
  if (threadIdx.x == 0) emulate::arrivalInit(arrival);
  __syncthreads();
  if (threadIdx.x == 0) emulate::arrivalCopy(arrival, shared, p.a, bytes);
}
KERNEL(FaultArgs, 64, 1, good_bulk) { // all wait; again, where the engine writes over what was read before a barrier
  __shared__ u64 arrival;
  bulk(&arrival, p, 256);
  emulate::arrivalWait(&arrival, 0);
  const u32 v = shared[63 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) emulate::arrivalCopy(&arrival, shared, p.a, 256);
  emulate::arrivalWait(&arrival, 1);
  p.dst[threadIdx.x] = shared[63 - threadIdx.x] + v;
}
KERNEL(FaultArgs, 64, 1, good_bulk_barrier) { // one waits, the others follow it through a barrier
  __shared__ u64 arrival;
  bulk(&arrival, p, 256);
  if (threadIdx.x == 9) emulate::arrivalWait(&arrival, 0);
  __syncthreads();
  p.dst[threadIdx.x] = shared[63 - threadIdx.x];
}
KERNEL(FaultArgs, 64, 1, bad_bulk_hurry) { // no wait
  __shared__ u64 arrival;
  bulk(&arrival, p, 256);
  __syncthreads();
  if (threadIdx.x != 5) emulate::arrivalWait(&arrival, 0);
  p.dst[threadIdx.x] = shared[63 - threadIdx.x];
}
KERNEL(FaultArgs, 64, 1, bad_bulk_end) {
  __shared__ u64 arrival;
  bulk(&arrival, p, 256);
  p.dst[threadIdx.x] = 1;
}
KERNEL(FaultArgs, 64, 1, bad_bulk_reuse) { // over what others may still read
  __shared__ u64 arrival;
  bulk(&arrival, p, 256);
  emulate::arrivalWait(&arrival, 0);
  __syncthreads();
  const u32 v = shared[63 - threadIdx.x];
  if (threadIdx.x == 0) emulate::arrivalCopy(&arrival, shared, p.a, 256);
  emulate::arrivalWait(&arrival, 1);
  p.dst[threadIdx.x] = v;
}
KERNEL(FaultArgs, 64, 1, bad_bulk_parity) { // for a phase that never ends
  __shared__ u64 arrival;
  bulk(&arrival, p, 256);
  emulate::arrivalWait(&arrival, 0);
  emulate::arrivalWait(&arrival, 1);
  p.dst[threadIdx.x] = shared[threadIdx.x];
}
KERNEL(FaultArgs, 64, 1, bad_bulk_size) {
  __shared__ u64 arrival;
  bulk(&arrival, p, 100);
  emulate::arrivalWait(&arrival, 0);
  p.dst[threadIdx.x] = 1;
}
KERNEL(FaultArgs, 64, 1, bad_bulk_init) { // no barrier after the initialisation
  __shared__ u64 arrival;
  if (threadIdx.x == 0) {
    emulate::arrivalInit(&arrival);
    emulate::arrivalCopy(&arrival, shared, p.a, 256);
  }
  emulate::arrivalWait(&arrival, 0);
  p.dst[threadIdx.x] = shared[threadIdx.x];
}
KERNEL(FaultArgs, 64, 1, good_blocks) { p.dst[blockIdx.x * 32 + threadIdx.x] = gridDim.x; }

KERNEL(FaultArgs, 64, 1, bad_store) { p.dst[threadIdx.x + 1] = 1; }
KERNEL(FaultArgs, 64, 1, bad_load) { p.dst[threadIdx.x] = p.a[(i32)threadIdx.x - 1]; }
KERNEL(FaultArgs, 64, 1, bad_fresh) { p.dst[threadIdx.x] = p.b[threadIdx.x]; }
KERNEL(FaultArgs, 64, 1, bad_shared) { shared[threadIdx.x + 1] = 1; }
KERNEL(FaultArgs, 64, 1, bad_shared_fresh) {
  if (threadIdx.x & 1) shared[threadIdx.x] = 1;
  p.dst[threadIdx.x] = shared[threadIdx.x];
}
KERNEL(FaultArgs, 64, 1, bad_exchange) {
  shared[threadIdx.x] = p.a[threadIdx.x];
  __syncwarp();
  p.dst[threadIdx.x] = shared[63 - threadIdx.x];
}
KERNEL(FaultArgs, 64, 1, bad_warp) {
  shared[threadIdx.x] = p.a[threadIdx.x];
  p.dst[threadIdx.x] = shared[threadIdx.x ^ 1];
}
KERNEL(FaultArgs, 64, 1, bad_reuse) { // a store before all have loaded
  const u32 t = threadIdx.x;
  shared[t] = p.a[t];
  __syncthreads();
  const u32 v = shared[63 - t];
  shared[t] = v + 1;
  __syncthreads();
  p.dst[t] = shared[63 - t];
}
KERNEL(FaultArgs, 64, 1, bad_place) { // in place, against the order of another thread
  const u32 v = p.dst[63 - threadIdx.x];
  p.dst[threadIdx.x] = v;
}
KERNEL(FaultArgs, 64, 1, bad_blocks) { p.dst[threadIdx.x] = blockIdx.x; }
KERNEL(FaultArgs, 64, 1, bad_return) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  p.dst[threadIdx.x] = 1;
}
KERNEL(FaultArgs, 64, 1, bad_lane) {
  if (threadIdx.x == 5) return;
  __syncwarp();
  p.dst[threadIdx.x] = 1;
}
KERNEL(FaultArgs, 64, 1, bad_meeting) {
  if (threadIdx.x & 1) __syncwarp(); else __syncthreads();
  p.dst[threadIdx.x] = 1;
}
KERNEL(FaultArgs, 64, 1, bad_vector) { *(uint4*)(p.dst + threadIdx.x % 2) = make_uint4(1, 2, 3, 4); }
KERNEL(FaultArgs, 64, 1, bad_ldg) {
  p.dst[threadIdx.x] = 1;
  p.dst[threadIdx.x] = __ldg(p.dst + threadIdx.x) + 1;
}
KERNEL(FaultArgs, 64, 1, bad_range) { p.dst[threadIdx.x] = add(17, 3, 17); }
KERNEL(FaultArgs, 64, 1, bad_factor) { p.dst[threadIdx.x] = mulc(5, make_uint2(3, 4), 17); }
KERNEL(FaultArgs, 64, 1, bad_shift) { p.dst[threadIdx.x] = 1u << p.count / 2; }
KERNEL(FaultArgs, 64, 1, bad_index) {
  u32 x[4] = {1, 2, 3, 4};
  p.dst[threadIdx.x] = x[p.count / 16];
}
KERNEL(FaultArgs, 64, 1, bad_pointer) { p.dst[threadIdx.x] = *(const u32*)p.host; }
extern "C" __global__ void __launch_bounds__(64, 1) bad_early(const FaultArgs p) {
  announce();
  const u32 v = p.a[threadIdx.x];
  settle();
  p.dst[threadIdx.x] = v;
}
extern "C" __global__ void __launch_bounds__(64, 1) bad_hurry(const FaultArgs p) { p.dst[threadIdx.x] = 1; }
