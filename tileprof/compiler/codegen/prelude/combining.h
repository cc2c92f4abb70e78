// How two elements become one, on a CPU and on a GPU; included by `atomics.h` and `atomics.cuh`.
struct TpAdd { template <class V> TP_INLINE V join(V a, V b) { return (V)(a + b); } };
struct TpLarger { template <class V> TP_INLINE V join(V a, V b) { return tp_max(a, b); } };
struct TpSmaller { template <class V> TP_INLINE V join(V a, V b) { return tp_min(a, b); } };
struct TpAnd { template <class V> TP_INLINE V join(V a, V b) { return (V)(a & b); } };
struct TpOr { template <class V> TP_INLINE V join(V a, V b) { return (V)(a | b); } };
struct TpXor { template <class V> TP_INLINE V join(V a, V b) { return (V)(a ^ b); } };
struct TpExchange { template <class V> TP_INLINE V join(V, V b) { return b; } };

// In a buffer that no other thread writes; gives what was there.
template <class Kind, class T, class V> TP_INLINE V tp_combine(T *at, V value) {
  const V old = tp_value(*at);
  *at = tp_store<T>(Kind::join(old, value));
  return old;
}
