// Races: two accesses of one byte of shared memory, one of them a write, of which neither is known
// to the other.  What orders them is what threads learn at barriers and waits, not what happened to
// come first in this run, so that most races show for every seed.
#include "races.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "machine.h"

namespace tp_emulator {

bool watching;

// Memory beside memory ---------------------------------------------------------------------------

constexpr size_t WORD = 4;
constexpr int KEPT = 10;  // accesses kept of each word

struct Entry {
  uint32_t agent, number, site;
  uint8_t mask;  // bytes of the word; 0: no entry
  Way way;
  bool async_proxy, lands;  // lands: `number` is that of the site
};

struct Word {
  Entry entries[KEPT];
  uint8_t written;
};

struct Watch {
  std::vector<std::vector<Word>> words;  // of each block that runs
  std::vector<Site> sites;
  std::vector<Found> found;
  std::set<std::tuple<int, const void *, const void *>> known;
  uint32_t agents, wanted;
};
static Watch watch;

void start_watch(int32_t wanted) {
  watching = wanted > 0;
  watch.wanted = (uint32_t)std::max(wanted, 0);
  watch.found.clear();
  watch.known.clear();
}

void watch_blocks() {
  if (!watching) return;
  const size_t count = machine.blocks.size();
  watch.words.resize(std::max(count, watch.words.size()));
  for (size_t at = 0; at < count; at++) watch.words[at].assign(SHARED_ROOM / WORD, Word());
  watch.sites.clear();
  watch.agents = 0;
  for (Block &owner : machine.blocks) {
    for (Thread &thread : owner.threads) {
      thread.agent = watch.agents++;
      thread.known.happened.raise(thread.agent, 1);
    }
  }
}

uint32_t new_agent() { return watch.agents++; }

uint32_t agent_of(uint32_t &agent) {
  if (!agent) agent = new_agent();
  return agent;
}

// Clocks -----------------------------------------------------------------------------------------

static void next(Thread &thread) { thread.known.happened.at[thread.agent]++; }

void release(Thread &thread, Known &into) {
  if (!watching) return;
  into.join(thread.known);
  next(thread);
}

void acquire(Thread &thread, const Known &from) {
  if (watching) thread.known.join(from);
}

void fence(Thread &thread) {
  if (!watching) return;
  thread.known.fenced.join(thread.known.happened);
  next(thread);
}

void meet_all(Thread *const *lanes, int count) {
  if (!watching) return;
  Known all;
  for (int lane = 0; lane < count; lane++) all.join(lanes[lane]->known);
  for (int lane = 0; lane < count; lane++) {
    lanes[lane]->known = all;
    next(*lanes[lane]);
  }
}

// Findings ---------------------------------------------------------------------------------------

int64_t code_offset(const void *pc) {
  Dl_info info;
  // A call returns behind itself.
  const unsigned char *at = (const unsigned char *)pc - 1;
  if (!pc || !dladdr(at, &info)) return 0;
  return at - (const unsigned char *)info.dli_fbase;
}

static FoundSite describe(const Site &site) {
  return FoundSite{machine.blocks[(size_t)site.rank].number, code_offset(site.pc), (int32_t)site.actor,
                   (int32_t)site.way, site.thread, 0};
}

static void add_found(Fault fault, size_t byte, const Site &first, const Site &second) {
  if (watch.found.size() >= watch.wanted) return;
  if (!watch.known.insert({(int)fault, first.pc, second.pc}).second) return;
  watch.found.push_back(Found{(int32_t)fault, (int32_t)byte, describe(first), describe(second)});
}

extern "C" int32_t tp_emulator_found(Found *out, int32_t room) {
  const int32_t count = std::min((int32_t)watch.found.size(), room);
  std::copy_n(watch.found.begin(), count, out);
  return count;
}

// Accesses ---------------------------------------------------------------------------------------

static bool conflict(Way a, Way b) {
  if (a == Way::read && b == Way::read) return false;
  return !(a == Way::atomic && b == Way::atomic);
}

static uint32_t number_of(const Entry &entry) {
  if (!entry.lands) return entry.number;
  const uint32_t landed = watch.sites[entry.site].landed;
  return landed ? landed : UINT32_MAX;
}

static void check(const Entry &before, const Entry &now, const Known &known, size_t byte) {
  const uint32_t number = number_of(before);
  Fault fault = Fault::race;
  if (known.happened.of(before.agent) >= number) {
    const bool crosses = now.async_proxy && !before.async_proxy;
    if (!crosses || known.fenced.of(before.agent) >= number) return;
    fault = Fault::missing_fence;
  }
  add_found(fault, byte, watch.sites[before.site], watch.sites[now.site]);
}

// Whether a later access that races with `before` races with `now` as well.
static bool replaces(const Entry &now, const Entry &before, const Known &known) {
  if (before.mask & ~now.mask) return false;
  if (before.way != now.way && now.way != Way::write) return false;
  const Clock &order = now.async_proxy && !before.async_proxy ? known.fenced : known.happened;
  return order.of(before.agent) >= number_of(before);
}

static void note_word(Word &word, Entry now, const Known &known, size_t byte) {
  Entry *place = nullptr;
  for (Entry &before : word.entries) {
    if (!before.mask) {
      if (!place) place = &before;
      continue;
    }
    if (before.agent == now.agent && before.number == now.number && before.way == now.way &&
        !(now.mask & ~before.mask) && !now.lands)
      return;
    const bool meets = before.mask & now.mask && conflict(before.way, now.way);
    if (meets) check(before, now, known, byte);
    if (replaces(now, before, known)) {
      if (place && place->mask) before.mask = 0;
      else place = &before;
    }
  }
  if (!place) place = &word.entries[random_below(KEPT)];
  *place = now;
}

static void note_range(Block &owner, size_t at, size_t bytes, Entry now, const Known &known) {
  std::vector<Word> &words = watch.words[(size_t)(&owner - machine.blocks.data())];
  for (size_t byte = at; byte < at + bytes;) {
    const size_t word = byte / WORD, stop = std::min(at + bytes, (word + 1) * WORD);
    now.mask = (uint8_t)(((1u << (stop - byte)) - 1) << byte % WORD);
    note_word(words[word], now, known, byte);
    byte = stop;
  }
}

static uint32_t site_of(Thread &thread, Way way, const void *pc) {
  // The same statements of the same thread again, most often.
  uint32_t &kept = thread.sites[((uintptr_t)pc >> 2) % (sizeof thread.sites / sizeof *thread.sites)];
  if (kept) {
    const Site &last = watch.sites[kept - 1];
    if (last.pc == pc && last.way == way) return kept - 1;
  }
  watch.sites.push_back(Site{Actor::thread, way, (int32_t)(thread.owner - machine.blocks.data()),
                             thread.number, pc, 0});
  kept = (uint32_t)watch.sites.size();
  return kept - 1;
}

void note_thread(Thread &thread, size_t at, size_t bytes, Way way, const void *pc) {
  Entry now = {thread.agent, thread.known.happened.at[thread.agent], site_of(thread, way, pc), 0, way,
               false, false};
  note_range(*thread.owner, at, bytes, now, thread.known);
}

uint32_t add_site(Thread &thread, Actor actor, Way way) {
  watch.sites.push_back(Site{actor, way, (int32_t)(thread.owner - machine.blocks.data()),
                             thread.number, thread.pc, 0});
  return (uint32_t)watch.sites.size() - 1;
}

void note_async(Thread &thread, Block &owner, size_t at, size_t bytes, uint32_t site, uint32_t agent,
                uint32_t number, bool async_proxy) {
  const Site &noted = watch.sites[site];
  Entry now = {agent, number, site, 0, noted.way, async_proxy, noted.actor == Actor::tma_load};
  note_range(owner, at, bytes, now, thread.known);
}

void land_site(uint32_t site, uint32_t phase) { watch.sites[site].landed = phase; }

// Instrumented code ------------------------------------------------------------------------------

static void check_registers(Thread &thread, const unsigned char *at, size_t bytes, Way way,
                            const void *pc) {
  for (const Held &held : thread.held) {
    const unsigned char *first = (const unsigned char *)held.registers;
    if (!held.in_flight || at + bytes <= first || at >= first + 4 * held.values.size()) continue;
    Site now = {Actor::thread, way, (int32_t)(thread.owner - machine.blocks.data()), thread.number, pc,
                0};
    Site product = now;
    product.actor = Actor::wgmma;
    product.way = Way::write;
    product.pc = held.pc;
    add_found(Fault::early_registers, (size_t)(at - first), product, now);
  }
}

static void seen(const void *pointer, size_t bytes, Way way, const void *pc) {
  Thread *thread = machine.running;
  if (!watching || !thread || thread->unseen) return;
  const unsigned char *at = (const unsigned char *)pointer;
  const size_t offset = (size_t)(at - thread->owner->shared);
  if (offset < SHARED_ROOM) note_thread(*thread, offset, bytes, way, pc);
  else if (!thread->held.empty()) check_registers(*thread, at, bytes, way, pc);
}

void note_access(const void *at, size_t bytes, bool write) {
  seen(at, bytes, write ? Way::write : Way::read, __builtin_return_address(0));
}

void atomic_begin(const void *at, size_t bytes) {
  seen(at, bytes, Way::atomic, __builtin_return_address(0));
  self()->unseen = true;
}

void atomic_end() { self()->unseen = false; }

// What compilers call for each access with -fsanitize=thread.
#define TP_SEEN(BYTES)                                                                             \
  extern "C" void __tsan_read##BYTES(void *at) {                                                   \
    seen(at, BYTES, Way::read, __builtin_return_address(0));                                       \
  }                                                                                                \
  extern "C" void __tsan_write##BYTES(void *at) {                                                  \
    seen(at, BYTES, Way::write, __builtin_return_address(0));                                      \
  }                                                                                                \
  extern "C" void __tsan_unaligned_read##BYTES(void *at) {                                         \
    seen(at, BYTES, Way::read, __builtin_return_address(0));                                       \
  }                                                                                                \
  extern "C" void __tsan_unaligned_write##BYTES(void *at) {                                        \
    seen(at, BYTES, Way::write, __builtin_return_address(0));                                      \
  }
TP_SEEN(1) TP_SEEN(2) TP_SEEN(4) TP_SEEN(8) TP_SEEN(16)
#undef TP_SEEN
extern "C" void __tsan_read_range(void *at, size_t bytes) {
  seen(at, bytes, Way::read, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void *at, size_t bytes) {
  seen(at, bytes, Way::write, __builtin_return_address(0));
}
extern "C" void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  seen(from, bytes, Way::read, __builtin_return_address(0));
  seen(to, bytes, Way::write, __builtin_return_address(0));
  return __builtin_memcpy(to, from, bytes);
}
extern "C" void *__tsan_memmove(void *to, const void *from, size_t bytes) {
  seen(from, bytes, Way::read, __builtin_return_address(0));
  seen(to, bytes, Way::write, __builtin_return_address(0));
  return __builtin_memmove(to, from, bytes);
}
extern "C" void *__tsan_memset(void *to, int value, size_t bytes) {
  seen(to, bytes, Way::write, __builtin_return_address(0));
  return __builtin_memset(to, value, bytes);
}
// What they call for the atomic operations of C++, of which those of the prelude are made.
#define TP_ATOMIC(BITS, TYPE)                                                                      \
  extern "C" TYPE __tsan_atomic##BITS##_load(const volatile TYPE *at, int) {                       \
    seen((const void *)at, sizeof *at, Way::atomic, __builtin_return_address(0));                  \
    return *at;                                                                                    \
  }                                                                                                \
  extern "C" void __tsan_atomic##BITS##_store(volatile TYPE *at, TYPE value, int) {                \
    seen((const void *)at, sizeof *at, Way::atomic, __builtin_return_address(0));                  \
    *at = value;                                                                                   \
  }                                                                                                \
  extern "C" TYPE __tsan_atomic##BITS##_exchange(volatile TYPE *at, TYPE value, int) {             \
    seen((const void *)at, sizeof *at, Way::atomic, __builtin_return_address(0));                  \
    const TYPE before = *at;                                                                       \
    *at = value;                                                                                   \
    return before;                                                                                 \
  }                                                                                                \
  extern "C" TYPE __tsan_atomic##BITS##_fetch_add(volatile TYPE *at, TYPE value, int) {            \
    seen((const void *)at, sizeof *at, Way::atomic, __builtin_return_address(0));                  \
    const TYPE before = *at;                                                                       \
    *at = (TYPE)(before + value);                                                                  \
    return before;                                                                                 \
  }                                                                                                \
  static bool exchange_if(volatile TYPE *at, TYPE *expected, TYPE value, const void *pc) {         \
    seen((const void *)at, sizeof *at, Way::atomic, pc);                                           \
    const TYPE before = *at;                                                                       \
    const bool same = before == *expected;                                                         \
    if (same) *at = value;                                                                         \
    *expected = before;                                                                            \
    return same;                                                                                   \
  }                                                                                                \
  extern "C" int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE *at, TYPE *expected,  \
                                                               TYPE value, int, int) {             \
    return exchange_if(at, expected, value, __builtin_return_address(0));                          \
  }                                                                                                \
  extern "C" int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE *at, TYPE *expected,    \
                                                             TYPE value, int, int) {               \
    return exchange_if(at, expected, value, __builtin_return_address(0));                          \
  }                                                                                                \
  extern "C" TYPE __tsan_atomic##BITS##_compare_exchange_val(volatile TYPE *at, TYPE expected,     \
                                                             TYPE value, int, int) {               \
    exchange_if(at, &expected, value, __builtin_return_address(0));                                \
    return expected;                                                                               \
  }
TP_ATOMIC(8, uint8_t) TP_ATOMIC(16, uint16_t) TP_ATOMIC(32, uint32_t) TP_ATOMIC(64, uint64_t)
#undef TP_ATOMIC
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}

}  // namespace tp_emulator
