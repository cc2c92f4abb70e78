// Reads of sampled program counters that were kept on a GPU, handed over again: pc_layout.h says
// how they are kept.
#include <stdlib.h>

#include <algorithm>
#include <deque>

#include "fake.h"
#include "pc_layout.h"
#include "replay.h"

namespace {

struct Kept {
  std::mutex mutex;
  std::vector<uint8_t> bytes;
  std::vector<KeptStall> stalls;
  std::deque<const Piece *> reads;
  size_t given = 0;  // records of the first of them
  const Piece *last = nullptr;
  std::map<uint64_t, uint64_t> modules;  // what the recorder answers now, by what it answered then
  std::map<std::string, char *> names;
};
Kept &kept() {
  static Kept *one = new Kept;
  return *one;
}

char *name_of(const char *name) {
  char *&known = kept().names[name];
  if (!known || option("pc_copies")) known = strdup(name);
  return known;
}

// Hands over records from `first` on, as many as fit; how many.
size_t hand_over(const Piece &piece, size_t first, Data &to) {
  const uint8_t *begin = reinterpret_cast<const uint8_t *>(&piece + 1);
  const Data &from = *reinterpret_cast<const Data *>(begin);
  const Pc *records = reinterpret_cast<const Pc *>(begin + size_t(from.pc));
  const size_t count = std::min(from.records - first, to.room);
  for (size_t i = 0; i < count; ++i) {
    const Pc &record = records[first + i];
    Pc &pc = to.pc[i];
    Stall *stalls = pc.stall;
    pc = record;
    pc.stall = stalls;
    memcpy(stalls, begin + size_t(record.stall), record.stalls * sizeof(Stall));
    pc.name = name_of(reinterpret_cast<const char *>(begin + size_t(record.name)));
    auto module = kept().modules.find(record.module);
    if (module != kept().modules.end()) pc.module = module->second;
  }
  to.records = count;
  if (!first) {
    to.total += from.total;
    to.dropped += from.dropped;
    to.non_user += from.non_user;
  }
  to.full = from.full;
  to.remaining = from.remaining + (from.records - first - count);
  return count;
}

} // namespace

void reset_replay() {
  std::lock_guard lock(kept().mutex);
  kept().stalls.clear();
  kept().reads.clear();
  kept().last = nullptr;
  kept().given = 0;
  kept().modules.clear();
}

const std::vector<KeptStall> &kept_stalls() { return kept().stalls; }

bool replay_read(Data &data, int32_t &result) {
  std::lock_guard lock(kept().mutex);
  if (kept().reads.empty()) return false;
  const Piece &piece = *kept().reads.front();
  const Data &whole = *reinterpret_cast<const Data *>(&piece + 1);
  kept().given += hand_over(piece, kept().given, data);
  const bool all = kept().given == whole.records;
  result = all ? piece.result : kMoreThanFits;
  if (all) {
    kept().reads.pop_front();
    kept().given = 0;
  }
  return true;
}

bool replay_last(Data &data) {
  std::lock_guard lock(kept().mutex);
  if (!kept().last) return false;
  hand_over(*kept().last, 0, data);
  kept().last = nullptr;
  return true;
}

// Hands over what was kept, from the next read on; after sampling was begun, since the modules are
// loaded by this.
API void fake_replay(const uint8_t *bytes, size_t size) {
  reset_replay();
  kept().bytes.assign(bytes, bytes + size);
  std::map<uint64_t, uint64_t> modules;
  for (size_t at = 0; at < size;) {
    const Piece &piece = *reinterpret_cast<const Piece *>(kept().bytes.data() + at);
    const uint8_t *data = reinterpret_cast<const uint8_t *>(&piece + 1);
    at += sizeof(Piece) + (piece.bytes + 7) / 8 * 8;
    if (piece.kind == kModule)
      modules[get<uint64_t>(data, 0)] = fake_load(data + 8, piece.bytes - 8);
    std::lock_guard lock(kept().mutex);
    if (piece.kind == kRead) kept().reads.push_back(&piece);
    if (piece.kind == kLast) kept().last = &piece;
    const size_t stalls = piece.kind == kStalls ? piece.bytes / (kStallName + 4) : 0;
    for (size_t i = 0; i < stalls; ++i)
      kept().stalls.push_back({get<uint32_t>(data, stalls * kStallName + 4 * i),
                               reinterpret_cast<const char *>(data + i * kStallName)});
  }
  std::lock_guard lock(kept().mutex);
  kept().modules = modules;
}
API uint64_t fake_reads_left() {
  std::lock_guard lock(kept().mutex);
  return kept().reads.size();
}
