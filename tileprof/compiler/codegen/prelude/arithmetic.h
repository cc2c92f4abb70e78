// Arithmetic that a CPU and a GPU have in common; included by `base.h` and `base.cuh`.

// 0 <= index < size.
TP_INLINE bool tp_within(int64_t index, int64_t size) { return (uint64_t)index < (uint64_t)size; }

// How many of `size` elements are there when `left` are.
TP_INLINE int64_t tp_clip(int64_t left, int64_t size) {
  return left < 0 ? 0 : left < size ? left : size;
}

// Whole-number division; by 0 it gives 0, as NumPy does, and not a signal.
template <class T> TP_INLINE T tp_truncdiv(T a, T b) {
  if (b == 0) return 0;
  return (T)-1 < 0 && b == (T)-1 ? (T)(0 - a) : (T)(a / b);
}
template <class T> TP_INLINE T tp_truncmod(T a, T b) {
  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
  return (T)(a % b);
}
template <class T> TP_INLINE T tp_floormod(T a, T b) {
  T r = tp_truncmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? (T)(r + b) : r;
}
template <class T> TP_INLINE T tp_floordiv(T a, T b) {
  T q = tp_truncdiv(a, b), r = tp_truncmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? (T)(q - 1) : q;
}

// Shifts by the width or more leave nothing but the sign.
template <class T> TP_INLINE T tp_shl(T a, T by) {
  const T bits = sizeof(T) * 8;
  return by < 0 || by >= bits ? (T)0 : (T)(a << by);
}
template <class T> TP_INLINE T tp_shr(T a, T by) {
  const T bits = sizeof(T) * 8;
  return by < 0 || by >= bits ? (T)(a < 0 ? -1 : 0) : (T)(a >> by);
}

template <class T> TP_INLINE T tp_abs(T a) { return a < 0 ? (T)(0 - a) : a; }
TP_INLINE float tp_abs(float a) { return TP_BUILTIN(fabsf)(a); }
TP_INLINE double tp_abs(double a) { return TP_BUILTIN(fabs)(a); }

// Floats divide as Python does: the remainder has the sign of the divisor.
TP_INLINE float tp_truncmod(float a, float b) { return TP_BUILTIN(fmodf)(a, b); }
TP_INLINE double tp_truncmod(double a, double b) { return TP_BUILTIN(fmod)(a, b); }
TP_INLINE float tp_truncdiv(float a, float b) { return TP_BUILTIN(truncf)(a / b); }
TP_INLINE double tp_truncdiv(double a, double b) { return TP_BUILTIN(trunc)(a / b); }
TP_INLINE float tp_whole(float x) { return TP_BUILTIN(floorf)(x); }
TP_INLINE double tp_whole(double x) { return TP_BUILTIN(floor)(x); }
template <class T> TP_INLINE T tp_floormod_of(T a, T b) {
  const T rest = tp_truncmod(a, b);
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
template <class T> TP_INLINE T tp_floordiv_of(T a, T b) {
  const T rest = tp_truncmod(a, b), quotient = (a - rest) / b;
  const T down = rest != 0 && ((rest < 0) != (b < 0)) ? quotient - 1 : quotient;
  const T whole = tp_whole(down);
  return b == 0 ? a / b : down - whole > (T)0.5 ? whole + 1 : whole;
}
TP_INLINE float tp_floordiv(float a, float b) { return tp_floordiv_of(a, b); }
TP_INLINE double tp_floordiv(double a, double b) { return tp_floordiv_of(a, b); }
TP_INLINE float tp_floormod(float a, float b) { return tp_floormod_of(a, b); }
TP_INLINE double tp_floormod(double a, double b) { return tp_floormod_of(a, b); }
