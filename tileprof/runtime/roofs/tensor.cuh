// What tensor cores do at most: products of operands that are there already, again and again.
// `WORDS` of random bits are made numbers of magnitude 0.5 to 2 (integers of any): how much power a
// product takes, and so the clock that it can have, depends on its bits.
#pragma once
#include "base.cuh"

TP_INLINE uint32_t tp_random(uint32_t seed) {
  seed = (seed ^ 61u) ^ seed >> 16;
  seed *= 9u;
  seed ^= seed >> 4;
  seed *= 0x27d4eb2du;
  return seed ^ seed >> 15;
}
// Elements of a word that have random bits where `keep` has some, and those of `set`.
TP_INLINE uint32_t tp_operand(uint32_t at, uint32_t keep, uint32_t set) {
  return (tp_random(at * 2654435761u + blockIdx.x) & keep) | set;
}
TP_INLINE bool tp_impossible(float x) { return x == -1.2345678e-30f; }
TP_INLINE bool tp_impossible(int32_t x) { return x == -1234567891; }
