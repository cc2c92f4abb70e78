// Bytes that come from outside, under a sanitizer: buffers of records whose fields are drawn, cut and
// mixed up, as a CUPTI with other lengths or a torn buffer would hand them over; and cubins.
//
// Usage: records_fuzz RUNS SEED. Prints the buffers that were read, and the records in them.
//
// Names and data of records are addresses of the library's own and stay right: nothing that reads
// them could tell.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "bare_host.h"
#include "pcs/pc_modules.h"

using namespace tileprof;

namespace {

std::mt19937_64 drawn;

uint64_t below(uint64_t limit) { return drawn() % limit; }

constexpr struct {
  uint32_t kind, bytes;
} kUsual[] = {{1, 96}, {2, 88}, {3, 216}, {4, 40}, {5, 40}, {10, 216}, {17, 56}, {22, 96}, {49, 128}};
const char *const kNames[] = {nullptr, "", "kernel", "_Z6kernelPf"};

// The library's own walk: by lengths that a version before or after this one may have.
uint32_t lengths[cupti::kKinds];

CuptiResult next_record(uint8_t *buffer, size_t valid, void **record) {
  uint8_t *next = buffer;
  if (*record) {
    uint32_t kind;
    std::memcpy(&kind, *record, 4);
    next = static_cast<uint8_t *>(*record) + (kind < cupti::kKinds ? lengths[kind] : 0);
    if (next == *record) return 21;
  }
  if (next + 8 > buffer + valid) return 12;
  uint32_t kind;
  std::memcpy(&kind, next, 4);
  if (kind >= cupti::kKinds || !lengths[kind]) return 21;
  *record = next;
  return 0;
}

// A value near a border, or any.
uint64_t value() {
  static constexpr uint64_t kBorders[] = {0, 1, 255, 65535, UINT32_MAX, uint64_t(1) << 32,
                                          uint64_t(1) << 63, UINT64_MAX};
  return below(2) ? kBorders[below(std::size(kBorders))] : drawn();
}

void put(uint8_t *at, size_t place, size_t size, uint64_t number) {
  std::memcpy(at + place, &number, size);
}

// Appends a record of a kind, of as many bytes as the library says, with drawn fields.
void append(std::vector<uint8_t> &to, uint32_t kind) {
  const size_t begin = to.size(), size = lengths[kind] ? lengths[kind] : 8 + 8 * below(30);
  to.resize(begin + size);
  uint8_t *record = to.data() + begin;
  for (size_t at = 0; at + 8 <= size; at += 8) put(record, at, 8, below(3) ? below(1000) : value());
  put(record, 0, 4, kind);
  if ((kind == cupti::kKernel || kind == cupti::kSerialKernel) && size >= 112)
    put(record, cupti::KernelRecord::name, 8,
        reinterpret_cast<uint64_t>(kNames[below(std::size(kNames))]));
  if (kind == cupti::kOverhead && size >= 8) {
    const bool data = size >= cupti::OverheadRecord::data + 8 && below(2);
    put(record, cupti::OverheadRecord::kind, 4, data ? cupti::kCommandBufferFull : 1);
    if (data)
      put(record, cupti::OverheadRecord::data, 8, reinterpret_cast<uint64_t>(std::malloc(8)));
  }
}

void read_one(Correlations &correlations, Graphs &graphs) {
  Activities activities(correlations, graphs);
  Cupti cupti;
  cupti.next_record = next_record;
  for (const auto &[kind, usual] : kUsual) {
    lengths[kind] = usual;
    // Another version's, of which a library may not say how long they are.
    if (!below(4)) lengths[kind] = uint32_t(8 + 8 * below(40));
    const bool told = below(4) && lengths[kind] >= cupti::least_bytes(kind);
    cupti.record_sizes[kind] = told ? lengths[kind] : 0;
  }
  activities.begin(cupti, drawn(), below(2) ? 0 : 100);
  for (int buffers = 0; buffers < 3; ++buffers) {
    std::vector<uint8_t> bytes;
    static constexpr uint32_t kKinds[] = {1, 2, 3, 10, 10, 10, 17, 22, 49, 5, 38, 0, 63};
    for (uint64_t count = below(12); count; --count) append(bytes, kKinds[below(std::size(kKinds))]);
    const size_t valid = below(3) ? bytes.size() : below(bytes.size() + 1);
    // Exactly as long as it is: reading behind it is seen.
    auto buffer = std::make_unique<uint8_t[]>(valid);
    std::copy(bytes.begin(), bytes.begin() + ptrdiff_t(valid), buffer.get());
    activities.parse(buffer.get(), valid);
  }
  activities.interrupt(value());
  activities.drain(below(2));
  activities.variants(0);
  activities.memory_state();
}

} // namespace

int main(int, char **arguments) {
  const uint64_t runs = strtoull(arguments[1], nullptr, 10);
  drawn.seed(strtoull(arguments[2], nullptr, 10));
  auto correlations = std::make_unique<Correlations>();
  Graphs graphs;
  PcModules modules;
  for (uint32_t i = 1; i < 1000; ++i)
    correlations->put(i, {i, i % 3, value(), value(), CallKind(i % 7), Blocked(i % 3)});
  for (uint64_t run = 0; run < runs; ++run) {
    read_one(*correlations, graphs);
    std::string cubin(below(100), char(below(4)));
    if (!cubin.empty()) cubin[below(cubin.size())] = char(drawn());
    const uint64_t answer = modules.answer(cubin.data(), cubin.size());
    if (modules.cubin(modules.number_of(answer)) != cubin) return 2;
    modules.number_of(value());
    modules.number_of_part(uint32_t(value()));
    modules.foreign(uint32_t(value()));
  }
  printf("%llu\n", (unsigned long long)runs);
  return 0;
}
