// Kernels over independent items (struct Many).
#pragma once
#include "arith.cuh"

// operand is one operand, 16 bytes, of an item.
template <class A, class Item, class T> DEV T operand(const Many<A, Item>& m, u32 item, T Item::*of) {
  static_assert(sizeof(T) == sizeof(ulonglong2) && sizeof(Item) % sizeof(T) == 0, "read 16 bytes at a time");
  if (!m.table) return m.one.*of;
  const ulonglong2 words = __ldg((const ulonglong2*)&(m.table[item].*of));
  T value;
  memcpy(&value, &words, sizeof value);
  return value;
}

// ITEMS(T, threads, blocks, name) { body with the arguments p, of type T }: as KERNEL.
#define ITEMS(T, threads, blocks, name)                                                          \
  DEV void name##_body(const T& p);                                                              \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ T p) { \
    ready();                                                                                     \
    name##_body(p);                                                                              \
  }                                                                                              \
  DEV void name##_body(const T& p)
