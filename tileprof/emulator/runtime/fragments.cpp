// What a warp does with matrix fragments at once: ldmatrix, stmatrix and mma.
#include <string.h>

#include "elements.h"
#include "machine.h"

namespace tp_emulator {

// ldmatrix and stmatrix: lane 8 i + r brings the address of row r of matrix i; of each matrix lane l
// holds row l / 4, columns 2 (l % 4) and the next one, or those of the transposed matrix.
struct Matrices {
  uint32_t *r;
  unsigned char *row;
  int count;
  bool transposed, store;
};

static unsigned char *element(void **lanes, int matrix, int lane, int half, bool transposed) {
  const int row = lane / 4, column = 2 * (lane % 4) + half;
  const int of = transposed ? column : row, at = transposed ? row : column;
  return ((Matrices *)lanes[8 * matrix + of])->row + 2 * at;
}

// A lane reads or writes its two elements; those of a transposed matrix lie in two rows.
static void note_half_row(const Matrices &own, const unsigned char *at, int lane) {
  Thread &thread = *self()->warp->lanes[lane];
  const size_t place = (size_t)(at - thread.owner->shared);
  note_thread(thread, place, own.transposed ? 2 : 4, own.store ? Way::write : Way::read, thread.row_pc);
}

static void move_matrices(void **lanes) {
  for (int lane = 0; lane < 32; lane++) {
    const Matrices &own = *(Matrices *)lanes[lane];
    for (int matrix = 0; matrix < own.count; matrix++) {
      for (int half = 0; half < 2; half++) {
        unsigned char *at = element(lanes, matrix, lane, half, own.transposed);
        unsigned char *held = (unsigned char *)&own.r[matrix] + 2 * half;
        memcpy(own.store ? at : held, own.store ? held : at, 2);
        if (watching && (half == 0 || own.transposed)) note_half_row(own, at, lane);
      }
    }
  }
}

static void meet_for(Matrices mine) {
  static const char *const names[2][2] = {{"ldmatrix", "ldmatrix.trans"},
                                          {"stmatrix", "stmatrix.trans"}};
  const char *name = names[mine.store][mine.transposed];
  if (self()->lane < 8 * mine.count) {
    check_aligned(mine.row, 16, name);
    shared_address(mine.row);
  }
  glance();
  meet(name, &mine, move_matrices);
}

void load_matrices(uint32_t *r, int count, const void *row, bool transposed) {
  self()->row_pc = __builtin_return_address(0);
  meet_for(Matrices{r, (unsigned char *)row, count, transposed, false});
}

void store_matrices(void *row, const uint32_t *r, int count, bool transposed) {
  self()->row_pc = __builtin_return_address(0);
  meet_for(Matrices{(uint32_t *)r, (unsigned char *)row, count, transposed, true});
}

// mma: register i of A holds row lane / 4 + 8 (i % 2), and of B column lane / 4; a register holds
// elements lane % 4 of each half of k.
struct Fragments {
  Number a_type, b_type;
  void *d;
  const uint32_t *a, *b;
};

static void unpack(void **lanes, bool of_a, float *matrix, int k) {
  for (int lane = 0; lane < 32; lane++) {
    const Fragments &own = *(Fragments *)lanes[lane];
    const Number type = of_a ? own.a_type : own.b_type;
    const int size = size_of(type), each = 4 / size;
    for (int i = 0; i < (of_a ? 4 : 2); i++) {
      const int row = lane / 4 + (of_a ? 8 * (i % 2) : 0);
      const int first = (lane % 4) * each + (of_a ? i / 2 : i) * 4 * each;
      const unsigned char *bytes = (const unsigned char *)((of_a ? own.a : own.b) + i);
      for (int j = 0; j < each; j++)
        matrix[row * k + first + j] = value_of(type, bytes + j * size);
    }
  }
}

template <class Sum> static void accumulate(void **lanes, const float *a, const float *b, int k) {
  for (int lane = 0; lane < 32; lane++) {
    Sum *d = (Sum *)((Fragments *)lanes[lane])->d;
    for (int i = 0; i < 4; i++) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      Sum sum = d[i];
      for (int x = 0; x < k; x++) sum += (Sum)(a[row * k + x] * b[column * k + x]);
      d[i] = sum;
    }
  }
}

static void multiply(void **lanes) {
  const Number type = ((Fragments *)lanes[0])->a_type;
  const int k = 32 / size_of(type);
  float a[16 * 32], b[8 * 32];
  unpack(lanes, true, a, k);
  unpack(lanes, false, b, k);
  if (type == Number::s8 || type == Number::u8) accumulate<int32_t>(lanes, a, b, k);
  else accumulate<float>(lanes, a, b, k);
}

struct Doubles {
  double *d;
  const double *a, *b;
};

static void multiply_f64(void **lanes) {
  for (int lane = 0; lane < 32; lane++) {
    for (int i = 0; i < 2; i++) {
      const int row = lane / 4, column = 2 * (lane % 4) + i;
      double &d = ((Doubles *)lanes[lane])->d[i];
      for (int x = 0; x < 4; x++)
        d += *((Doubles *)lanes[4 * row + x])->a * *((Doubles *)lanes[4 * column + x])->b;
    }
  }
}

void mma_f64(double *d, const double *a, const double *b) {
  Doubles mine = {d, a, b};
  meet("mma f64", &mine, multiply_f64);
}

void mma(Number a_type, Number b_type, void *d, const uint32_t *a, const uint32_t *b) {
  Fragments mine = {a_type, b_type, d, a, b};
  meet("mma", &mine, multiply);
}

}  // namespace tp_emulator
