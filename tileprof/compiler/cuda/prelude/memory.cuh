// Accesses of several elements at once between registers and global or shared memory.
// N elements of T are one access of N sizeof(T) bytes, a power of two of at most 16, or several
// accesses of 16 bytes; addresses are aligned to the access.  Through plain pointers the compiler
// sees which memory is meant and may move accesses between barriers.
#pragma once
#include "numbers.cuh"

template <int BYTES> struct TpAccess;
template <> struct TpAccess<1> { typedef uint8_t type; };
template <> struct TpAccess<2> { typedef uint16_t type; };
template <> struct TpAccess<4> { typedef uint32_t type; };
template <> struct TpAccess<8> { typedef uint2 type; };
template <> struct TpAccess<16> { typedef uint4 type; };
template <class T, int N> struct TpArray { T at[N]; };

// How memory is read and written: whether it will be used again soon.
struct TpPlain {
  template <class A> TP_INLINE A load(const A *from) { return *from; }
  template <class A> TP_INLINE void store(A *to, A value) { *to = value; }
};
// Global memory that nothing writes while the kernel runs and that is read once.
struct TpStream {
#define TP_STREAM "ld.global.nc.L1::no_allocate.L2::128B."
  TP_INLINE uint4 load(const uint4 *from) {
    uint4 v;
    asm(TP_STREAM "v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(from)));
    return v;
  }
  TP_INLINE uint2 load(const uint2 *from) {
    uint2 v;
    asm(TP_STREAM "v2.u32 {%0, %1}, [%2];"
        : "=r"(v.x), "=r"(v.y) : "l"(__cvta_generic_to_global(from)));
    return v;
  }
  TP_INLINE uint32_t load(const uint32_t *from) {
    uint32_t v;
    asm(TP_STREAM "u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(from)));
    return v;
  }
#undef TP_STREAM
  template <class A> TP_INLINE A load(const A *from) { return __ldg(from); }
  // Leaves the caches first.
  template <class A> TP_INLINE void store(A *to, A value) { __stcs(to, value); }
};

// to[0..N) in registers from from[0..N) in memory.
template <class Way, int N, class T> TP_INLINE void tp_load_by(T *to, const T *from) {
  if constexpr (N * sizeof(T) > 16) {
    constexpr int n = 16 / sizeof(T);
    tp_load_by<Way, n>(to, from);
    tp_load_by<Way, N - n>(to + n, from + n);
  } else {
    typedef typename TpAccess<N * sizeof(T)>::type A;
    const TpArray<T, N> read = tp_bit_cast<TpArray<T, N>>(Way::load((const A *)from));
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) to[i] = read.at[i];
  }
}
template <class Way, int N, class T> TP_INLINE void tp_store_by(T *to, const T *from) {
  if constexpr (N * sizeof(T) > 16) {
    constexpr int n = 16 / sizeof(T);
    tp_store_by<Way, n>(to, from);
    tp_store_by<Way, N - n>(to + n, from + n);
  } else {
    typedef typename TpAccess<N * sizeof(T)>::type A;
    TpArray<T, N> written;
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) written.at[i] = from[i];
    Way::store((A *)to, tp_bit_cast<A>(written));
  }
}

// Elements as 32-bit words, converted two at a time.
template <class T, int N> TP_INLINE void tp_pack(uint32_t *words, const float *values) {
  TP_UNROLL_ALL
  for (int i = 0; i < N * (int)sizeof(T) / 4; i++)
    if constexpr (sizeof(T) == 2)
      words[i] = tp_pack2<T>(values[2 * i], values[2 * i + 1]);
    else
      words[i] = tp_pack4<T>(values[4 * i], values[4 * i + 1], values[4 * i + 2],
                             values[4 * i + 3]);
}
template <class T, int N> TP_INLINE void tp_unpack(float *values, const uint32_t *words) {
  TP_UNROLL_ALL
  for (int i = 0; i < N * (int)sizeof(T) / 4; i++)
    if constexpr (sizeof(T) == 2)
      tp_unpack2<T>(words[i], values[2 * i], values[2 * i + 1]);
    else
      tp_unpack4<T>(words[i], values[4 * i], values[4 * i + 1], values[4 * i + 2],
                    values[4 * i + 3]);
}

// Elements in memory as values in registers, and back; values are of any type.
template <class Way, int N, class T, class V>
TP_INLINE void tp_load_values_by(V *to, const T *from) {
  if constexpr (TpIsNarrow<T>::yes && sizeof(T) * N % 4 == 0) {
    uint32_t words[sizeof(T) * N / 4];
    float values[N];
    tp_load_by<Way, sizeof(T) * N / 4>(words, (const uint32_t *)from);
    tp_unpack<T, N>(values, words);
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) to[i] = (V)values[i];
  } else {
    T read[N];
    tp_load_by<Way, N>(read, from);
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) to[i] = (V)tp_value(read[i]);
  }
}
template <class Way, int N, class T, class V>
TP_INLINE void tp_store_values_by(T *to, const V *from) {
  if constexpr (TpIsNarrow<T>::yes && sizeof(T) * N % 4 == 0) {
    uint32_t words[sizeof(T) * N / 4];
    float values[N];
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) values[i] = tp_narrowing(from[i]);
    tp_pack<T, N>(words, values);
    tp_store_by<Way, sizeof(T) * N / 4>((uint32_t *)to, words);
  } else {
    T written[N];
    TP_UNROLL_ALL
    for (int i = 0; i < N; i++) written[i] = tp_store<T>(from[i]);
    tp_store_by<Way, N>(to, written);
  }
}

// tp_load_vector(array, from); tp_load_vector<N>(pointer, from) for a part of an array; the same
// with `_global`, `_shared` and `_stream`, and for `tp_store_vector(to, array)`.
#define TP_ACCESS(SUFFIX, WAY)                                                              \
  template <int N, class T> TP_INLINE void tp_load_vector##SUFFIX(T *to, const T *from) {   \
    tp_load_by<WAY, N>(to, from);                                                           \
  }                                                                                         \
  template <class T, int N> TP_INLINE void tp_load_vector##SUFFIX(T (&to)[N], const T *from) { \
    tp_load_by<WAY, N>(to, from);                                                           \
  }                                                                                         \
  template <int N, class T> TP_INLINE void tp_store_vector##SUFFIX(T *to, const T *from) {  \
    tp_store_by<WAY, N>(to, from);                                                          \
  }                                                                                         \
  template <class T, int N> TP_INLINE void tp_store_vector##SUFFIX(T *to, const T (&from)[N]) { \
    tp_store_by<WAY, N>(to, from);                                                          \
  }                                                                                         \
  template <int N, class T, class V>                                                        \
  TP_INLINE void tp_load_values##SUFFIX(V *to, const T *from) {                             \
    tp_load_values_by<WAY, N>(to, from);                                                    \
  }                                                                                         \
  template <int N, class T, class V>                                                        \
  TP_INLINE void tp_store_values##SUFFIX(T *to, const V *from) {                            \
    tp_store_values_by<WAY, N>(to, from);                                                   \
  }
TP_ACCESS(, TpPlain)
TP_ACCESS(_global, TpPlain)
TP_ACCESS(_shared, TpPlain)
TP_ACCESS(_stream, TpStream)
#undef TP_ACCESS
