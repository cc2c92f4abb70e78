// c += a b on tiles of one block: packing, and a micro-kernel that keeps a piece of c in registers.
//
// All extents and strides are known at compile time.  The micro-kernel works on ROWS x (VECTORS
// vectors) of c; rows are split evenly so that at most two heights are compiled.
#pragma once
#include "tiles.h"

// Products and sums may be contracted here, and only here: a matrix product promises no order.
#if defined(__clang__)
#define TP_CONTRACT
#define TP_CONTRACT_BODY _Pragma("clang fp contract(fast)")
#elif defined(__GNUC__)
#define TP_CONTRACT __attribute__((optimize("fp-contract=fast")))
#define TP_CONTRACT_BODY
#endif

template <class T> struct TpVector {
  typedef T type __attribute__((vector_size(TP_VECTOR_BYTES)));
  typedef T memory __attribute__((vector_size(TP_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
  enum { lanes = TP_VECTOR_BYTES / sizeof(T) };
};

// An operand as the micro-kernel wants it: converted, rows next to each other, the columns from
// COLUMNS to ROW_SIZE zero.
template <int ROWS, int COLUMNS, int ROW_SIZE, class D, class S>
static inline void tp_pack(D *to, const S *from, int64_t row_stride, int64_t column_stride) {
  for (int64_t r = 0; r < ROWS; r++) {
    tp_copy_row(to + r * ROW_SIZE, 1, from + r * row_stride, column_stride, COLUMNS);
    if constexpr (COLUMNS < ROW_SIZE)
      tp_fill_row(to + r * ROW_SIZE + COLUMNS, 1, D{}, ROW_SIZE - COLUMNS);
  }
}

// A_ROW, A_DEPTH: strides of a along rows of c and along the summed dimension; b and c lie with
// columns next to each other, B_ROW and C_ROW apart.
template <class T, int ROWS, int VECTORS, int64_t A_ROW, int64_t A_DEPTH, int64_t B_ROW,
          int64_t C_ROW>
static __attribute__((noinline)) TP_CONTRACT void tp_gemm_piece(int64_t depth, const T *a,
                                                                const T *b, T *c, bool clear) {
  TP_CONTRACT_BODY
  typedef typename TpVector<T>::type Vector;
  typedef typename TpVector<T>::memory Memory;
  const int lanes = TpVector<T>::lanes;
  Vector sum[ROWS][VECTORS];
  if (clear) {
    for (int r = 0; r < ROWS; r++)
      for (int v = 0; v < VECTORS; v++) sum[r][v] = Vector{};
  } else {
    for (int r = 0; r < ROWS; r++)
      for (int v = 0; v < VECTORS; v++) sum[r][v] = *(const Memory *)(c + r * C_ROW + v * lanes);
  }
  for (int64_t k = 0; k < depth; k++) {
    Vector right[VECTORS];
    for (int v = 0; v < VECTORS; v++) right[v] = *(const Memory *)(b + v * lanes);
    for (int r = 0; r < ROWS; r++) {
      const Vector left = a[r * A_ROW] - Vector{};
      for (int v = 0; v < VECTORS; v++) sum[r][v] += left * right[v];
    }
    a += A_DEPTH;
    b += B_ROW;
  }
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < VECTORS; v++) *(Memory *)(c + r * C_ROW + v * lanes) = sum[r][v];
}

// One panel of c, VECTORS vectors wide, from top to bottom.
template <class T, int VECTORS, int M, int64_t A_ROW, int64_t A_DEPTH, int64_t B_ROW, int64_t C_ROW>
TP_INLINE void tp_gemm_panel(int64_t depth, const T *a, const T *b, T *c, bool clear) {
  // Registers hold the piece of c, one row of b and one element of a.
  constexpr int most = (TP_VECTOR_REGISTERS - 1 - VECTORS) / VECTORS;
  constexpr int pieces = (M + most - 1) / most, rows = M / pieces, taller = M % pieces;
  if constexpr (taller != 0)
    for (int p = 0; p < taller; p++)
      tp_gemm_piece<T, rows + 1, VECTORS, A_ROW, A_DEPTH, B_ROW, C_ROW>(
          depth, a + p * (rows + 1) * A_ROW, b, c + p * (rows + 1) * C_ROW, clear);
  a += taller * (rows + 1) * A_ROW;
  c += taller * (rows + 1) * C_ROW;
  for (int p = 0; p < pieces - taller; p++)
    tp_gemm_piece<T, rows, VECTORS, A_ROW, A_DEPTH, B_ROW, C_ROW>(depth, a + p * rows * A_ROW, b,
                                                                  c + p * rows * C_ROW, clear);
}

// c (M x N) += a (M x K) b (K x N); N is a multiple of 64 bytes.  `panel` has room for
// min(K, TP_GEMM_DEPTH) rows of two vectors.
enum { TP_GEMM_DEPTH = 256 };
template <class T, int M, int N, int K, int64_t A_ROW, int64_t A_DEPTH, int64_t B_ROW, int64_t C_ROW>
static void tp_gemm(const T *a, const T *b, T *c, bool clear, T *panel) {
  typedef typename TpVector<T>::memory Memory;
  constexpr int lanes = TpVector<T>::lanes, wide = 2 * lanes;
  // Rows of b that far apart fall on few cache sets; copying a panel costs one pass over it.
  constexpr bool pack = B_ROW * sizeof(T) >= 1024 && M > 16;
  for (int k = 0; k < K; k += TP_GEMM_DEPTH) {
    const int depth = K - k < TP_GEMM_DEPTH ? K - k : TP_GEMM_DEPTH;
    const bool first = clear && k == 0;
    const T *left = a + k * A_DEPTH, *right = b + k * B_ROW;
    for (int n = 0; n + wide <= N; n += wide) {
      if constexpr (pack) {
        for (int r = 0; r < depth; r++)
          for (int v = 0; v < 2; v++)
            *(Memory *)(panel + r * wide + v * lanes) =
                *(const Memory *)(right + n + r * B_ROW + v * lanes);
        tp_gemm_panel<T, 2, M, A_ROW, A_DEPTH, wide, C_ROW>(depth, left, panel, c + n, first);
      } else {
        tp_gemm_panel<T, 2, M, A_ROW, A_DEPTH, B_ROW, C_ROW>(depth, left, right + n, c + n, first);
      }
    }
    if constexpr (N % wide != 0)
      tp_gemm_panel<T, 1, M, A_ROW, A_DEPTH, B_ROW, C_ROW>(depth, left, right + N / wide * wide,
                                                           c + N / wide * wide, first);
  }
}
