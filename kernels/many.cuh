// Kernels over independent items (struct Many).
#pragma once
#include "arith.cuh"

// slot k of an item.
DEV Slot slot(const Many& m, u32 item, int k) {
  if (!m.table) return m.one[k];
  const ulonglong2 s = __ldg((const ulonglong2*)(m.table + 4 * item + k));
  Slot r;
  r.at = (u32*)s.x;
  r.stride = s.y;
  return r;
}

// ITEMS(threads, blocks, name) { body with the arguments m }: as KERNEL.
#define ITEMS(threads, blocks, name)                                                             \
  DEV void name##_body(const Many& m);                                                           \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Many m) { \
    ready();                                                                                     \
    name##_body(m);                                                                              \
  }                                                                                              \
  DEV void name##_body(const Many& m)
