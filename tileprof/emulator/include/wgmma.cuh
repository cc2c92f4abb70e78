// Warp-group products that the tensor cores work off later; `generated_wgmma.h` has those that the
// text names.
#pragma once
#include "base.cuh"

TP_INLINE uint64_t tp_descriptor(const void *at, int leading_bytes, int stride_bytes, int swizzle) {
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    tp_emulator::fail("a descriptor with a swizzle of %d bytes", swizzle);
  if (leading_bytes % 16 || stride_bytes % 16 || leading_bytes < 0 || stride_bytes < 0 ||
      leading_bytes >= 1 << 18 || stride_bytes >= 1 << 18)
    tp_emulator::fail("a descriptor with steps of %d and %d bytes", leading_bytes, stride_bytes);
  tp_emulator::check_aligned(at, 16, "matrix descriptor");
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return (uint64_t)(tp_shared_address(at) >> 4 & 0x3fff) | (uint64_t)(leading_bytes >> 4) << 16 |
         (uint64_t)(stride_bytes >> 4) << 32 | mode << 62;
}
TP_INLINE uint64_t tp_descriptor_advance(uint64_t descriptor, int bytes) {
  return descriptor + (uint64_t)(int64_t)(bytes >> 4);
}
TP_INLINE void tp_descriptor_anew(uint64_t &) {}
TP_INLINE uint64_t tp_descriptor_uniform(uint64_t descriptor) { return descriptor; }
TP_INLINE void tp_wgmma_fence() { tp_emulator::wgmma_fence(); }
TP_INLINE void tp_wgmma_commit() { tp_emulator::wgmma_commit(); }
template <int N> TP_INLINE void tp_wgmma_wait() { tp_emulator::wgmma_wait(N); }
template <int N> TP_INLINE void tp_wgmma_wait_behind(int) { tp_wgmma_wait<N>(); }
template <int N> TP_INLINE void tp_wgmma_after(const float (&)[N]) {}
template <int N, class T> TP_INLINE void tp_wgmma_hold(T *) {}
template <class T, int N> TP_INLINE void tp_wgmma_hold(T (&)[N]) {}

// The rest is the product: n, k, types, whether A is in registers, A and B transposed, half sums.
#define TP_PRODUCT(N, K, A, B, ...) \
  const tp_emulator::Product product = {N, K, tp_emulator::Number::A, tp_emulator::Number::B, __VA_ARGS__}
#define TP_WGMMA_SS(NAME, SUM, REGISTERS, ...)                                           \
  TP_INLINE void NAME(SUM *d, uint64_t a, uint64_t b, int accumulate) {                  \
    TP_PRODUCT(__VA_ARGS__);                                                             \
    tp_emulator::wgmma(product, d, REGISTERS, nullptr, a, b, accumulate != 0);           \
  }
#define TP_WGMMA_RS(NAME, SUM, REGISTERS, ...)                                           \
  TP_INLINE void NAME(SUM *d, const uint32_t *a, uint64_t b, int accumulate) {           \
    TP_PRODUCT(__VA_ARGS__);                                                             \
    tp_emulator::wgmma(product, d, REGISTERS, a, 0, b, accumulate != 0);                 \
  }
#include "generated_wgmma.h"
