// Matrix fragments of a warp: between registers and shared memory, and their products.
#pragma once
#include "numbers.cuh"

#define TP_MATRICES(SUFFIX, COUNT, TRANS)                                          \
  TP_INLINE void tp_ldmatrix##SUFFIX(uint32_t *r, const void *row) {               \
    tp_emulator::load_matrices(r, COUNT, row, TRANS);                              \
  }                                                                                \
  TP_INLINE void tp_stmatrix##SUFFIX(void *row, const uint32_t *r) {               \
    tp_emulator::store_matrices(row, r, COUNT, TRANS);                             \
  }
TP_MATRICES(_x1, 1, false) TP_MATRICES(_x2, 2, false) TP_MATRICES(_x4, 4, false)
TP_MATRICES(_trans_x1, 1, true) TP_MATRICES(_trans_x2, 2, true) TP_MATRICES(_trans_x4, 4, true)
#undef TP_MATRICES

#define TP_MMA(NAME, SUM, A, B)                                                    \
  TP_INLINE void tp_mma_##NAME(SUM *d, const uint32_t *a, const uint32_t *b) {     \
    tp_emulator::mma(tp_emulator::Number::A, tp_emulator::Number::B, d, a, b);     \
  }
TP_MMA(m16n8k16_f16, float, f16, f16)
TP_MMA(m16n8k16_bf16, float, bf16, bf16)
TP_MMA(m16n8k8_tf32, float, tf32, tf32)
TP_MMA(m16n8k32_s8, int32_t, s8, s8)
TP_MMA(m16n8k32_u8, int32_t, u8, u8)
TP_MMA(m16n8k32_s8_u8, int32_t, s8, u8)
TP_MMA(m16n8k32_u8_s8, int32_t, u8, s8)
TP_MMA(m16n8k32_e4m3, float, e4m3, e4m3)
TP_MMA(m16n8k32_e5m2, float, e5m2, e5m2)
TP_MMA(m16n8k32_e4m3_e5m2, float, e4m3, e5m2)
TP_MMA(m16n8k32_e5m2_e4m3, float, e5m2, e4m3)
#undef TP_MMA
TP_INLINE void tp_mma_m16n8k16_f16_into_f16(uint32_t *d, const uint32_t *a, const uint32_t *b) {
  float sums[4];
  for (int i = 0; i < 2; i++) tp_unpack2<TpHalf>(d[i], sums[2 * i], sums[2 * i + 1]);
  tp_mma_m16n8k16_f16(sums, a, b);
  for (int i = 0; i < 2; i++) d[i] = tp_pack2<TpHalf>(sums[2 * i], sums[2 * i + 1]);
}
TP_INLINE void tp_mma_m8n8k4_f64(double *d, const double *a, const double *b) {
  tp_emulator::mma_f64(d, a, b);
}
TP_INLINE void tp_mma_m16n8k4_f64(double *d, const double *a, const double *b) {
  tp_mma_m8n8k4_f64(d, a, b);
  tp_mma_m8n8k4_f64(d + 2, a + 1, b);
}

// Elements in registers as words of 32 bits, lowest first, and back; N words.
template <class T> struct TpWord { T at[4 / sizeof(T)]; };
template <int N, class T> TP_INLINE void tp_to_words(uint32_t *words, const T *from) {
  TP_UNROLL_ALL
  for (int i = 0; i < N; i++) {
    TpWord<T> word;
    TP_UNROLL_ALL
    for (int j = 0; j < (int)(4 / sizeof(T)); j++) word.at[j] = from[i * (4 / sizeof(T)) + j];
    words[i] = tp_bit_cast<uint32_t>(word);
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
