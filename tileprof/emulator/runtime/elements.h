// Elements by their type: sizes, and values through the narrow types of the `cpu` prelude.
#pragma once
#include "../include/emulator.h"

namespace tp_emulator {

int size_of(Number type);
// Elements of up to 16 bits, and tf32; an int32_t for whole numbers is exact in a float here.
float value_of(Number type, const unsigned char *at);
void store_half(unsigned char *at, float value);
// Sum, smaller or larger (+ < >) of two elements, rounded to the type, into the first.
void join_with(Number type, char how, unsigned char *target, const unsigned char *by);

}  // namespace tp_emulator
