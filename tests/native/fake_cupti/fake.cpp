// What is queued, and how it is handed over.
#include "fake.h"

#include <algorithm>
#include <chrono>
#include <thread>

Fake &fake() {
  static Fake *one = new Fake;
  return *one;
}

uint64_t option(const char *name) {
  // All exist from fake_reset on, so that reading needs no lock.
  auto found = fake().options.find(name);
  return found == fake().options.end() ? 0 : found->second.load();
}

void sleep_while(const char *name) {
  for (uint64_t ms = 0; ms < option(name); ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void set_sizes() {
  uint32_t *sizes = fake().sizes;
  const std::map<uint32_t, uint32_t> all = {{1, 96}, {2, 88},  {3, 216}, {4, 40},  {5, 40},
                                            {10, 216}, {17, 56}, {22, 96}, {38, 56}, {49, 128}};
  for (auto [kind, size] : all) sizes[kind] = size;
}

bool on(uint32_t domain, uint32_t number) {
  return fake().callback && !fake().mute && number < kCalls && fake().listened[domain][number].load();
}

void queue(Record record) {
  Fake &f = fake();
  const uint32_t kind = get<uint32_t>(record.bytes, 0);
  if (!(f.kinds.load() >> kind & 1)) return;
  record.size = f.sizes[kind];
  std::lock_guard lock(f.mutex);
  auto drop = f.options.find("drop");
  if (drop != f.options.end() && drop->second.load() && kind == 10) {
    drop->second -= 1;
    ++f.dropped;
    return;
  }
  f.queue.push_back(record);
}

// Shuffled within windows, as records of several threads and streams come.
static void shuffle(std::vector<Record> &records) {
  const size_t window = option("shuffle");
  if (window < 2) return;
  for (size_t first = 0; first < records.size(); first += window)
    std::shuffle(records.begin() + long(first),
                 records.begin() + long(std::min(first + window, records.size())), fake().random);
}

static void hand_over(uint8_t *buffer, size_t size, size_t valid) {
  if (option("stolen")) return;  // another client's callback gets it
  fake().completed(nullptr, 0, buffer, size, valid);
}

static void deliver(std::vector<Record> records) {
  Fake &f = fake();
  size_t next = 0;
  while (next < records.size()) {
    uint8_t *buffer = nullptr;
    size_t size = 0, most = 0;
    if (!option("stolen") && f.requested) f.requested(&buffer, &size, &most);
    if (!buffer) {
      std::lock_guard lock(f.mutex);
      if (!option("stolen")) f.dropped += records.size() - next;
      return;
    }
    size_t valid = 0;
    std::map<uint32_t, Witness> seen;
    for (; next < records.size() && valid + records[next].size <= size; ++next) {
      memcpy(buffer + valid, records[next].bytes, records[next].size);
      valid += records[next].size;
      Witness &witness = seen[get<uint32_t>(records[next].bytes, 0)];
      ++witness.records;
      witness.ns += records[next].ns;
    }
    {
      std::lock_guard lock(f.mutex);
      for (auto &[kind, witness] : seen) {
        f.witness[kind].records += witness.records;
        f.witness[kind].ns += witness.ns;
      }
    }
    hand_over(buffer, size, valid);
  }
}

void deliver_all() {
  std::vector<Record> records;
  {
    std::lock_guard lock(fake().mutex);
    records.swap(fake().queue);
    shuffle(records);
  }
  std::thread(deliver, std::move(records)).join();
  deliver_soak();
}

const char *kept(const char *name) {
  std::lock_guard lock(fake().mutex);
  return fake().names.insert(name).first->c_str();
}
