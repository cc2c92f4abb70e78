// Matrix fragments of a warp between registers and shared memory, and products of them.
// Registers are pointers to the first of several; a word holds two elements of 16 bits or four of
// 8, lowest first.  Fragments lie as the PTX manual draws them for each shape.
#pragma once
#include "base.cuh"

// -- 8 x 8 matrices of 16-bit elements; lane i gives the address of row i of matrix i / 8

#define TP_LDMATRIX(SUFFIX, TRANS)                                                               \
  TP_INLINE void tp_ldmatrix##SUFFIX##_x4(uint32_t *r, const void *row) {                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"     \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                \
                 : "r"(tp_shared_address(row)) : "memory");                                      \
  }                                                                                              \
  TP_INLINE void tp_ldmatrix##SUFFIX##_x2(uint32_t *r, const void *row) {                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0, %1}, [%2];"             \
                 : "=r"(r[0]), "=r"(r[1]) : "r"(tp_shared_address(row)) : "memory");             \
  }                                                                                              \
  TP_INLINE void tp_ldmatrix##SUFFIX##_x1(uint32_t *r, const void *row) {                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 {%0}, [%1];"                 \
                 : "=r"(r[0]) : "r"(tp_shared_address(row)) : "memory");                         \
  }
TP_LDMATRIX(, "")
TP_LDMATRIX(_trans, ".trans")
#undef TP_LDMATRIX

#define TP_STMATRIX(SUFFIX, TRANS)                                                               \
  TP_INLINE void tp_stmatrix##SUFFIX##_x4(void *row, const uint32_t *r) {                        \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 [%0], {%1, %2, %3, %4};"     \
                 ::"r"(tp_shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])       \
                 : "memory");                                                                    \
  }                                                                                              \
  TP_INLINE void tp_stmatrix##SUFFIX##_x2(void *row, const uint32_t *r) {                        \
    asm volatile("stmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 [%0], {%1, %2};"             \
                 ::"r"(tp_shared_address(row)), "r"(r[0]), "r"(r[1]) : "memory");                \
  }                                                                                              \
  TP_INLINE void tp_stmatrix##SUFFIX##_x1(void *row, const uint32_t *r) {                        \
    asm volatile("stmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 [%0], {%1};"                 \
                 ::"r"(tp_shared_address(row)), "r"(r[0]) : "memory");                           \
  }
TP_STMATRIX(, "")
TP_STMATRIX(_trans, ".trans")
#undef TP_STMATRIX

// -- d += a b; a is row-major, b column-major

#define TP_MMA(NAME, SHAPE, TYPES, D, C)                                                         \
  TP_INLINE void tp_mma_##SHAPE##_##NAME(D *d, const uint32_t *a, const uint32_t *b) {           \
    asm("mma.sync.aligned." TP_STRING(SHAPE) ".row.col." TYPES                                   \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                       \
        : "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3])                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                     \
  }
TP_MMA(f16, m16n8k16, "f32.f16.f16.f32", float, "f")
TP_MMA(bf16, m16n8k16, "f32.bf16.bf16.f32", float, "f")
TP_MMA(tf32, m16n8k8, "f32.tf32.tf32.f32", float, "f")
TP_MMA(s8, m16n8k32, "s32.s8.s8.s32", int32_t, "r")
TP_MMA(u8, m16n8k32, "s32.u8.u8.s32", int32_t, "r")
TP_MMA(s8_u8, m16n8k32, "s32.s8.u8.s32", int32_t, "r")
TP_MMA(u8_s8, m16n8k32, "s32.u8.s8.s32", int32_t, "r")
// From compute capability 8.9 on.
TP_MMA(e4m3, m16n8k32, "f32.e4m3.e4m3.f32", float, "f")
TP_MMA(e5m2, m16n8k32, "f32.e5m2.e5m2.f32", float, "f")
TP_MMA(e4m3_e5m2, m16n8k32, "f32.e4m3.e5m2.f32", float, "f")
TP_MMA(e5m2_e4m3, m16n8k32, "f32.e5m2.e4m3.f32", float, "f")
#undef TP_MMA
// Sums in half precision, two in a word.
TP_INLINE void tp_mma_m16n8k16_f16_into_f16(uint32_t *d, const uint32_t *a, const uint32_t *b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
      " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TP_INLINE void tp_mma_m8n8k4_f64(double *d, const double *a, const double *b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(d[0]), "+d"(d[1]) : "d"(a[0]), "d"(b[0]));
}
// Fragments as those of m16n8k8 with tf32, for half of K.
TP_INLINE void tp_mma_m16n8k4_f64(double *d, const double *a, const double *b) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64"
      " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(a[0]), "d"(a[1]), "d"(b[0]));
#else
  tp_mma_m8n8k4_f64(d, a, b);
  tp_mma_m8n8k4_f64(d + 2, a + 1, b);
#endif
}

// Elements in registers as words of 32 bits, lowest first, and back; N words.  Read as words they
// are kept as words in between: the compiler would carry halves around loops, and join them again.
template <class T> struct TpWord { T at[4 / sizeof(T)]; };
template <int N, class T> TP_INLINE void tp_to_words(uint32_t *words, const T *from) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) {
#ifdef __CUDACC__
    words[i] = *(const uint32_t *)(from + i * (4 / sizeof(T)));
#else
    TpWord<T> word;
    for (int j = 0; j < (int)(4 / sizeof(T)); j++) word.at[j] = from[i * (4 / sizeof(T)) + j];
    words[i] = tp_bit_cast<uint32_t>(word);
#endif
  }
}
template <int N, class T> TP_INLINE void tp_from_words(T *to, const uint32_t *words) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) {
    const TpWord<T> word = tp_bit_cast<TpWord<T>>(words[i]);
    TP_UNROLL_ALL
    for (int j = 0; j < (int)(4 / sizeof(T)); j++) to[i * (4 / sizeof(T)) + j] = word.at[j];
  }
}
