// Products of warp groups (wgmma): they read shared memory and give their results late.  Between the
// issue and the wait accumulators hold poison.
#include <string.h>

#include <algorithm>

#include "elements.h"
#include "machine.h"

namespace tp_emulator {

// Matrices in shared memory -----------------------------------------------------------------------

// A descriptor as the hardware decodes it, of a matrix with `size`-byte elements.
struct Matrix {
  const unsigned char *shadow;
  Number type;
  int size, mode;  // mode 0: no swizzle, 1: 128 bytes, 2: 64, 3: 32
  int64_t start, leading, stride;
  bool transposed;  // M or N runs fastest, not K
};

static Matrix decode(const Block &owner, uint64_t bits, Number type, bool transposed) {
  if (bits >> 49 & 7) fail("matrix descriptors with a base offset are not emulated");
  Matrix matrix;
  matrix.shadow = owner.shadow;
  matrix.type = type;
  matrix.size = size_of(type);
  matrix.mode = (int)(bits >> 62);
  matrix.start = (int64_t)(bits & 0x3fff) << 4;
  matrix.leading = (int64_t)(bits >> 16 & 0x3fff) << 4;
  matrix.stride = (int64_t)(bits >> 32 & 0x3fff) << 4;
  matrix.transposed = transposed;
  if (transposed && matrix.size != 2) fail("only 16-bit elements may be M- or N-major");
  return matrix;
}

// Bytes of a line of the swizzle.
static int64_t line_of(const Matrix &matrix) {
  static const int64_t lines[] = {16, 128, 64, 32};
  return lines[matrix.mode];
}

static int64_t offset(const Matrix &matrix, int mn, int k) {
  const int64_t line = line_of(matrix);
  if (!matrix.transposed) {
    const int64_t rows = mn % 8 * line + mn / 8 * matrix.stride, along = (int64_t)k * matrix.size;
    return rows + (matrix.mode ? along : along / 16 * matrix.leading + along % 16);
  }
  const int64_t along = (int64_t)mn * matrix.size;
  const int64_t far = matrix.mode ? matrix.leading : matrix.stride;
  const int64_t next = matrix.mode ? matrix.stride : matrix.leading;
  return along % line + along / line * far + k % 8 * line + k / 8 * next;
}

static size_t place(const Matrix &matrix, int mn, int k) {
  static const int64_t masks[] = {0, 7, 3, 1};
  int64_t address = matrix.start + offset(matrix, mn, k);
  address ^= (address >> 7 & masks[matrix.mode]) << 4;
  const int64_t at = address - SHARED_START;
  if (at < 0 || at + matrix.size > machine.launch->shared)
    fail("a matrix descriptor leads to byte %lld of shared memory, which has %d", (long long)at,
         machine.launch->shared);
  return (size_t)at;
}

static float element(const Matrix &matrix, int mn, int k) {
  return value_of(matrix.type, matrix.shadow + place(matrix, mn, k));
}

// Products ----------------------------------------------------------------------------------------

// The rows of a warp.
static void read_a(const Block &owner, const Multiply &job, int warp, std::vector<float> &a) {
  const int k = job.product.k;
  if (!job.product.a_in_registers) {
    const Matrix matrix = decode(owner, job.a_descriptor, job.product.a_type, job.product.a_transposed);
    for (int m = 0; m < 16; m++)
      for (int x = 0; x < k; x++) a[m * k + x] = element(matrix, 16 * warp + m, x);
    return;
  }
  const int size = size_of(job.product.a_type), each = 4 / size;
  for (int lane = 0; lane < 32; lane++) {
    for (int i = 0; i < 4; i++) {
      const int row = lane / 4 + 8 * (i % 2);
      const int first = lane % 4 * each + i / 2 * 4 * each;
      const unsigned char *bytes = (const unsigned char *)&job.a[32 * warp + lane][i];
      for (int j = 0; j < each; j++)
        a[row * k + first + j] = value_of(job.product.a_type, bytes + j * size);
    }
  }
}

// B as k rows of n, so that the inner loop runs along memory.
static void read_b(const Block &owner, const Multiply &job, std::vector<float> &b) {
  const Matrix matrix = decode(owner, job.b_descriptor, job.product.b_type, job.product.b_transposed);
  const int n = job.product.n;
  for (int x = 0; x < job.product.k; x++)
    for (int column = 0; column < n; column++) b[x * n + column] = element(matrix, column, x);
}

// Whole numbers stay below 2^24 in one product, so floats hold their sums exactly.
static void multiply(const Multiply &job, const std::vector<float> &a, const std::vector<float> &b,
                     std::vector<float> &sums) {
  const int n = job.product.n, k = job.product.k;
  for (int m = 0; m < 16; m++) {
    float *row = &sums[m * n];
    for (int x = 0; x < k; x++) {
      const float factor = a[m * k + x];
      const float *other = &b[x * n];
      for (int column = 0; column < n; column++) row[column] += factor * other[column];
    }
  }
}

static Held *find(Thread &thread, const void *registers) {
  for (Held &held : thread.held)
    if (held.registers == registers) return &held;
  return nullptr;
}

static bool of_integers(const Product &product) {
  return product.a_type == Number::s8 || product.a_type == Number::u8;
}

static void hand_out_half(unsigned char *at, bool accumulate, float sum) {
  if (!accumulate) memset(at, 0, 2);
  const float total = value_of(Number::f16, at) + sum;
  store_half(at, total);
}

// A lane holds rows lane / 4 and 8 below of its warp's 16, and two columns of each 8.
static void hand_out(Thread &thread, const Multiply &job, const std::vector<float> &sums) {
  Held *held = find(thread, job.registers[thread.number % 128]);
  for (int i = 0; i < job.product.n / 2; i++) {
    const int row = thread.lane / 4 + 8 * (i / 2 % 2);
    const int column = i / 4 * 8 + 2 * (thread.lane % 4) + i % 2;
    const float sum = sums[row * job.product.n + column];
    if (job.product.half_sums) {
      hand_out_half((unsigned char *)held->values.data() + 2 * i, job.accumulate, sum);
      continue;
    }
    uint32_t &value = held->values[i];
    if (of_integers(job.product)) {
      value = (job.accumulate ? value : 0u) + (uint32_t)(int32_t)sum;
    } else {
      float before = 0;
      if (job.accumulate) memcpy(&before, &value, 4);
      const float after = before + sum;
      memcpy(&value, &after, 4);
    }
  }
}

static void pop_executed(WarpGroup &group) {
  while (*std::min_element(group.parts, group.parts + 4) > group.executed) {
    group.queue.pop_front();
    group.executed++;
  }
}

bool multiply_part(WarpGroup &group, int warp) {
  const size_t at = (size_t)(group.parts[warp] - group.executed);
  if (at >= group.queue.size() || group.queue[at].filled[warp] < 32) return false;
  const Multiply &job = group.queue[at];
  const size_t n = (size_t)job.product.n, k = (size_t)job.product.k;
  std::vector<float> a(16 * k), b(k * n), sums(16 * n);
  read_a(*group.owner, job, warp, a);
  read_b(*group.owner, job, b);
  multiply(job, a, b, sums);
  for (int lane = 0; lane < 32; lane++) hand_out(*group.threads[32 * warp + lane], job, sums);
  group.parts[warp]++;
  pop_executed(group);
  return true;
}

// All that can be done up to product `until`; whether it is done.
static bool multiply_until(WarpGroup &group, int64_t until) {
  for (int warp = 0; warp < 4; warp++)
    while (group.parts[warp] < until && multiply_part(group, warp)) {
    }
  return group.executed >= until;
}

// Issue -------------------------------------------------------------------------------------------

static bool same(const Product &a, const Product &b) {
  return a.n == b.n && a.k == b.k && a.a_type == b.a_type && a.b_type == b.b_type &&
         a.a_in_registers == b.a_in_registers && a.a_transposed == b.a_transposed &&
         a.b_transposed == b.b_transposed && a.half_sums == b.half_sums;
}

// Whether registers differ from what they held at the last fence.
static bool changed(const Thread &thread, const void *registers, size_t bytes) {
  const size_t at = (size_t)((const unsigned char *)registers - thread.fenced_from);
  const size_t room = thread.fenced_stack.size();
  if (at >= room || at + bytes > room) return false;
  return memcmp(registers, thread.fenced_stack.data() + at, bytes) != 0;
}

static void check_fence(const Thread &thread, const Held *held, const Product &product,
                        const void *d, size_t d_bytes, const uint32_t *a) {
  if (thread.products_fenced) {
    const bool in_flight = held && held->in_flight;
    if ((a && changed(thread, a, 16)) || (!in_flight && changed(thread, d, d_bytes)))
      fail("a product whose registers were written since tp_wgmma_fence()");
    return;
  }
  const size_t bytes = held ? held->values.size() * 4 : 0;
  const bool chained = held && held->in_flight;
  const bool untouched = held && !memcmp(held->registers, held->values.data(), bytes);
  if (product.a_in_registers || (!chained && !untouched))
    fail("a product without tp_wgmma_fence() since its registers were written");
}

// From here on the registers hold poison; their true values are kept aside.
static void take(Thread &thread, void *registers, int count) {
  Held *held = find(thread, registers);
  if (!held) {
    thread.held.push_back(Held{registers, {}, 0, nullptr});
    held = &thread.held.back();
  }
  if (!held->in_flight) {
    held->values.resize((size_t)count);
    memcpy(held->values.data(), registers, (size_t)count * 4);
    memset(registers, POISON, (size_t)count * 4);
  }
  if (held->values.size() != (size_t)count)
    fail("products of different shapes on the same accumulators at once");
  held->in_flight++;
}

static Multiply &slot(WarpGroup &group, int64_t index, const Product &product, uint64_t a, uint64_t b,
                      bool accumulate) {
  const size_t at = (size_t)(index - group.executed);
  if (at == group.queue.size()) {
    group.queue.emplace_back();
    Multiply &made = group.queue.back();
    made.product = product;
    made.a_descriptor = a;
    made.b_descriptor = b;
    made.accumulate = accumulate;
    std::fill(made.filled, made.filled + 4, 0);
  }
  Multiply &job = group.queue[at];
  if (!same(job.product, product) || job.a_descriptor != a || job.b_descriptor != b ||
      job.accumulate != accumulate)
    fail("threads of a warp group issue different products");
  return job;
}

static void note_matrix(Thread &thread, const Matrix &matrix, int first, int rows, int k, uint32_t site,
                        uint32_t number) {
  // Sixteen bytes lie together, along what runs fastest.
  const int each = 16 / matrix.size, mn_step = matrix.transposed ? each : 1;
  const int k_step = matrix.transposed ? 1 : each;
  for (int mn = first; mn < first + rows; mn += mn_step)
    for (int x = 0; x < k; x += k_step)
      note_async(thread, *thread.owner, place(matrix, mn, x), 16, site,
                 agent_of(thread.warp->products_agent), number, true);
}

// What a warp's part of a product reads of shared memory.
static void note_operands(Thread &thread, const Multiply &job, int warp, uint32_t number) {
  const Product &product = job.product;
  const uint32_t site = add_site(thread, Actor::wgmma, Way::read);
  const Block &owner = *thread.owner;
  if (!product.a_in_registers)
    note_matrix(thread, decode(owner, job.a_descriptor, product.a_type, product.a_transposed),
                16 * warp, 16, product.k, site, number);
  note_matrix(thread, decode(owner, job.b_descriptor, product.b_type, product.b_transposed), 0,
              product.n, product.k, site, number);
}

void wgmma(const Product &product, void *d, int registers, const uint32_t *a, uint64_t a_descriptor,
           uint64_t b_descriptor, bool accumulate) {
  TP_CALLED_HERE;
  Thread &thread = *self();
  WarpGroup &group = *thread.group;
  if (!group.threads[127]) fail("a product by a warp group that lacks threads");
  check_fence(thread, find(thread, d), product, d, (size_t)registers * 4, a);
  take(thread, d, registers);
  Multiply &job =
      slot(group, thread.issued++, product, a_descriptor, b_descriptor, accumulate);
  thread.pending_registers.push_back(d);
  const int t = thread.number % 128;
  job.registers[t] = d;
  if (a) memcpy(job.a[t], a, sizeof job.a[t]);
  find(thread, d)->pc = thread.pc;
  if (++job.filled[t / 32] == 32) {
    if (watching) note_operands(thread, job, t / 32, (uint32_t)thread.issued);
    wake_all(group.waiters);
    // The hardware may read its operands at once, before other warps come.
    while (random_below(4) == 0 && multiply_part(group, t / 32)) {
    }
  }
  glance();
}

void wgmma_fence() {
  TP_CALLED_HERE;
  Thread &thread = *self();
  thread.products_fenced = true;
  if (watching) {
    thread.fenced_from = (const unsigned char *)__builtin_frame_address(0);
    thread.fenced_stack.assign(thread.fenced_from, (const unsigned char *)thread.stack + STACK_BYTES);
  }
  glance();
}

void wgmma_commit() {
  Thread &thread = *self();
  thread.commits.push_back(thread.issued);
  glance();
}

// Waits -------------------------------------------------------------------------------------------

// The oldest product's accumulators are given back, unless a later product has them too.
static void give_back(Thread &thread) {
  unsigned char *registers = (unsigned char *)thread.pending_registers.front();
  thread.pending_registers.pop_front();
  Held *held = find(thread, registers);
  if (--held->in_flight) return;
  const size_t bytes = held->values.size() * 4;
  for (size_t i = 0; i < bytes; i++)
    if (registers[i] != POISON) fail("accumulators were written while a product was under way");
  memcpy(registers, held->values.data(), bytes);
}

void wgmma_wait(int groups_left) {
  TP_CALLED_HERE;
  Thread &thread = *self();
  WarpGroup &group = *thread.group;
  const int64_t last = (int64_t)thread.commits.size() - groups_left;
  const int64_t until = last > 0 ? thread.commits[(size_t)last - 1] : 0;
  while (!multiply_until(group, until)) {
    group.waiters.push_back(&thread);
    block("tp_wgmma_wait");
  }
  for (; thread.retired < until; thread.retired++) give_back(thread);
  if (watching) thread.known.happened.raise(agent_of(thread.warp->products_agent), (uint32_t)until);
  // From here on registers may be used, so the next products need a fence again.
  thread.products_fenced = false;
  glance();
}

void products_end(Thread *thread) {
  if (thread->retired < thread->issued) fail("ended without tp_wgmma_wait<0>() for its products");
}

}  // namespace tp_emulator
