// Elements through the narrow types of the `cpu` prelude.
#include "elements.h"

#include <string.h>

// Of the `cpu` prelude.
#include "numbers.h"

namespace tp_emulator {

int size_of(Number type) {
  switch (type) {
    case Number::e4m3: case Number::e5m2: case Number::s8: case Number::u8: return 1;
    case Number::f16: case Number::bf16: case Number::b16: return 2;
    case Number::f64: case Number::s64: case Number::u64: return 8;
    default: return 4;
  }
}

template <class T> static T read(const unsigned char *at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

float value_of(Number type, const unsigned char *at) {
  switch (type) {
    case Number::f16: return tp_value(read<TpHalf>(at));
    case Number::bf16: return tp_value(read<TpBfloat>(at));
    case Number::e4m3: return tp_value(read<TpE4m3>(at));
    case Number::e5m2: return tp_value(read<TpE5m2>(at));
    case Number::s8: return (float)read<int8_t>(at);
    case Number::u8: return (float)read<uint8_t>(at);
    // The tensor cores do not look at the low 13 bits.
    case Number::tf32: return tp_float(read<uint32_t>(at) & 0xffffe000u);
    default: fail("elements of type %d in a matrix product", (int)type);
  }
}

void store_half(unsigned char *at, float value) {
  const TpHalf half = tp_store<TpHalf>(value);
  memcpy(at, &half, sizeof half);
}

template <class T> static void join_as(char how, unsigned char *target, const unsigned char *by) {
  const auto a = tp_value(read<T>(target)), b = tp_value(read<T>(by));
  const T joined = tp_store<T>(how == '+' ? a + b : how == '<' ? tp_min(a, b) : tp_max(a, b));
  memcpy(target, &joined, sizeof joined);
}

void join_with(Number type, char how, unsigned char *target, const unsigned char *by) {
  switch (type) {
    case Number::f16: return join_as<TpHalf>(how, target, by);
    case Number::bf16: return join_as<TpBfloat>(how, target, by);
    case Number::f32: return join_as<float>(how, target, by);
    case Number::f64: return join_as<double>(how, target, by);
    case Number::s32: return join_as<int32_t>(how, target, by);
    case Number::u32: return join_as<uint32_t>(how, target, by);
    case Number::s64: return join_as<int64_t>(how, target, by);
    case Number::u64: return join_as<uint64_t>(how, target, by);
    default: fail("a tensor reduction of type %d", (int)type);
  }
}

}  // namespace tp_emulator
