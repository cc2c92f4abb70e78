// Copies that land late: cp.async, bulk copies and tensor maps.  Until a load lands its target holds
// poison; stores read the async proxy's view of shared memory, which lacks what was not fenced.
#include <string.h>

#include <algorithm>
#include <memory>

#include "elements.h"
#include "machine.h"

namespace tp_emulator {

// cp.async --------------------------------------------------------------------------------------

// What an arrival knows that comes when a thread's copies have landed.
static void copies_arrived(Block &owner, uint64_t *barrier, uint32_t agent, uint32_t last) {
  if (!watching || !agent) return;
  Known known;
  known.happened.raise(agent, last);
  arrived_knowing(owner, barrier, known);
}

static void land_copy(std::vector<Copy> &copies, size_t at) {
  const Copy copy = copies[at];
  copies.erase(copies.begin() + (ptrdiff_t)at);
  memset(copy.target, 0, (size_t)copy.bytes);
  memcpy(copy.target, copy.source, (size_t)copy.there);
}

void copy_async(void *target, const void *source, int bytes, int there) {
  TP_CALLED_HERE;
  Thread *thread = self();
  shared_address(target);
  check_aligned(target, (size_t)bytes, "target of cp.async");
  if (there < 0 || there > bytes) fail("cp.async of %d of %d bytes", there, bytes);
  if (there) check_aligned(source, (size_t)bytes, "source of cp.async");
  glance();
  if (watching) {
    const size_t at = shared_address(target) - SHARED_START;
    const uint32_t site = add_site(*thread, Actor::cp_async, Way::write);
    note_async(*thread, *thread->owner, at, (size_t)bytes, site, agent_of(thread->copies_agent),
               (uint32_t)thread->copies_issued + 1, false);
  }
  memset(target, POISON, (size_t)bytes);
  thread->copies.push_back(Copy{(unsigned char *)target, (const unsigned char *)source, bytes, there,
                                thread->copy_groups, thread->copies_issued++});
}

void copy_commit() {
  Thread *thread = self();
  thread->copy_groups++;
  if (watching) thread->copies_before.push_back((uint32_t)thread->copies_issued);
}

void copy_wait(int groups_left) {
  Thread *thread = self();
  const int64_t until = thread->copy_groups - groups_left;
  if (watching && thread->copies_agent && until > 0)
    thread->known.happened.raise(thread->copies_agent, thread->copies_before[(size_t)until - 1]);
  for (size_t i = 0; i < thread->copies.size();)
    if (thread->copies[i].group < until) land_copy(thread->copies, i);
    else i++;
  glance();
}

// An arrival under way: when it comes, the copies that were issued before have landed.
void copy_arrive(uint64_t *barrier) {
  Thread *thread = self();
  Block &owner = *thread->owner;
  shared_address(barrier);
  const int64_t last = thread->copies_issued;
  owner.loads++;
  machine.loads.push_back(Load{&owner, [=, &owner] {
    for (size_t i = 0; i < thread->copies.size();)
      if (thread->copies[i].serial < last) land_copy(thread->copies, i);
      else i++;
    owner.loads--;
    copies_arrived(owner, barrier, thread->copies_agent, (uint32_t)last);
    arrive_at(owner, barrier);
  }});
  glance();
}

// Loads -----------------------------------------------------------------------------------------

static void poison(Block &owner, size_t at, size_t bytes) {
  memset(owner.shared + at, POISON, bytes);
  memset(owner.shadow + at, POISON, bytes);
}

static void write_both(Block &owner, size_t at, const unsigned char *from, size_t bytes) {
  memcpy(owner.shared + at, from, bytes);
  memcpy(owner.shadow + at, from, bytes);
}

static size_t place_of(const void *shared, size_t bytes, const char *what) {
  check_aligned(shared, 16, what);
  const size_t at = shared_address(shared) - SHARED_START;
  if (at + bytes > (size_t)machine.launch->shared)
    fail("%s: bytes %zu to %zu of shared memory, which has %d", what, at, at + bytes,
         machine.launch->shared);
  return at;
}

static void add_load(Block &owner, uint64_t *barrier, size_t at, size_t bytes,
                     std::function<void()> write) {
  check_for_load(owner, barrier);
  uint32_t site = 0;
  if (watching) {
    site = add_site(*self(), Actor::tma_load, Way::write);
    note_async(*self(), owner, at, bytes, site, agent_of_barrier(owner, barrier), UINT32_MAX, true);
  }
  poison(owner, at, bytes);
  owner.loads++;
  machine.loads.push_back(Load{&owner, [=, &owner] {
    if (!owner.live) fail("a load landed in block %lld, which has ended", (long long)owner.number);
    owner.loads--;
    write();
    const uint32_t phase = complete_bytes(owner, barrier, (int64_t)bytes);
    if (watching) land_site(site, phase);
  }});
}

bool land_load() {
  if (machine.loads.empty()) return false;
  const size_t at = random_below((uint32_t)machine.loads.size());
  const std::function<void()> land = std::move(machine.loads[at].land);
  machine.loads.erase(machine.loads.begin() + (ptrdiff_t)at);
  land();
  return true;
}

void bulk_load(void *target, const void *source, int bytes, uint64_t *barrier) {
  TP_CALLED_HERE;
  check_aligned(source, 16, "source of a bulk load");
  if (bytes % 16 || bytes <= 0) fail("a bulk load of %d bytes", bytes);
  const size_t at = place_of(target, (size_t)bytes, "target of a bulk load");
  Block &owner = *self()->owner;
  glance();
  add_load(owner, barrier, at, (size_t)bytes,
           [=, &owner] { write_both(owner, at, (const unsigned char *)source, (size_t)bytes); });
  glance();
}

// Tensor maps -----------------------------------------------------------------------------------

static size_t swizzled(size_t at, int bytes) {
  const size_t address = at + SHARED_START;
  const size_t bits = bytes == 128 ? 7 : bytes == 64 ? 3 : bytes == 32 ? 1 : 0;
  return at ^ ((address >> 7 & bits) << 4);
}

static size_t box_bytes(const Map &map) {
  size_t bytes = (size_t)size_of((Number)map.type);
  for (int d = 0; d < map.rank; d++) bytes *= (size_t)map.box[d];
  return bytes;
}

// A box of the tensor with its corner.
struct Box {
  Map map;
  int corner[5];
};

static Box box_of(const void *map, int rank, const int *corner) {
  Box box;
  memcpy(&box.map, map, sizeof(Map));
  if (box.map.rank != rank) fail("%d coordinates for a map of rank %d", rank, box.map.rank);
  memcpy(box.corner, corner, sizeof(int) * (size_t)rank);
  const int64_t first = int64_t(corner[0]) * int64_t(size_of((Number)box.map.type));
  if (first % 16) fail("a box begins at byte %lld of a row: no multiple of 16", (long long)first);
  return box;
}

// Every element of the box: its place in shared memory, and in the tensor or null outside it.
template <class Visit> static void visit(const Box &box, size_t at, Visit each) {
  const Map &map = box.map;
  const size_t size = (size_t)size_of((Number)map.type);
  const size_t count = box_bytes(map) / size;
  for (size_t i = 0; i < count; i++) {
    size_t rest = i;
    unsigned char *element = map.data;
    for (int d = 0; d < map.rank; d++) {
      const int64_t index = (int64_t)box.corner[d] + (int64_t)(rest % (size_t)map.box[d]);
      rest /= (size_t)map.box[d];
      if (index < 0 || index >= map.extent[d]) element = nullptr;
      if (element) element += index * (d ? map.stride[d] : (int64_t)size);
    }
    each(swizzled(at + i * size, map.swizzle), element, size);
  }
}

static void load_box(Block &owner, size_t at, const Box &box) {
  static const unsigned char zeros[8] = {};
  visit(box, at, [&](size_t place, const unsigned char *element, size_t size) {
    write_both(owner, place, element ? element : zeros, size);
  });
}

static size_t place_of_box(const void *shared, const Map &map, const char *what) {
  const size_t at = place_of(shared, box_bytes(map), what);
  if (at % 128) fail("%s is not aligned to 128 bytes", what);
  return at;
}

void map_load(void *target, const void *map, uint64_t *barrier, uint32_t mask, int rank,
              const int *corner) {
  TP_CALLED_HERE;
  Block &own = *self()->owner;
  const Box box = box_of(map, rank, corner);
  const size_t at = place_of_box(target, box.map, "target of a tensor load");
  const size_t word = shared_address(barrier) - SHARED_START;
  glance();
  for (Block &owner : machine.blocks) {
    if (mask ? !(mask >> owner.rank & 1) : &owner != &own) continue;
    add_load(owner, (uint64_t *)(owner.shared + word), at, box_bytes(box.map),
             [=, &owner] { load_box(owner, at, box); });
  }
  if (mask >> machine.blocks.size()) fail("multicast to blocks 0x%x of the cluster", mask);
  glance();
}

// Stores ----------------------------------------------------------------------------------------

static void read_store(Store &store) {
  if (!store.was_read) store.read();
  store.was_read = true;
}

static void add_store(size_t at, size_t bytes, std::function<void()> read,
                      std::function<void()> write) {
  Thread *thread = self();
  thread->stores_issued++;
  if (watching) {
    const uint32_t site = add_site(*thread, Actor::bulk_store, Way::read);
    note_async(*thread, *thread->owner, at, bytes, site, agent_of(thread->stores_agent),
               (uint32_t)thread->stores_issued, true);
  }
  thread->stores.push_back(Store{std::move(read), std::move(write), false, thread->store_groups});
  glance();
}

void bulk_store(void *target, const void *source, int bytes) {
  TP_CALLED_HERE;
  check_aligned(target, 16, "target of a bulk store");
  if (bytes % 16 || bytes <= 0) fail("a bulk store of %d bytes", bytes);
  const size_t at = place_of(source, (size_t)bytes, "source of a bulk store");
  const unsigned char *from = self()->owner->shadow + at;
  auto between = std::make_shared<std::vector<unsigned char>>((size_t)bytes);
  add_store(at, (size_t)bytes, [=] { memcpy(between->data(), from, (size_t)bytes); },
            [=] { memcpy(target, between->data(), (size_t)bytes); });
}

void map_store(const void *map, const void *source, int rank, const int *corner, char how) {
  TP_CALLED_HERE;
  Block &owner = *self()->owner;
  const Box box = box_of(map, rank, corner);
  const size_t at = place_of_box(source, box.map, "source of a tensor store");
  // A swizzle moves chunks inside lines of 128 bytes.
  const size_t bytes = (box_bytes(box.map) + 127) / 128 * 128;
  auto between = std::make_shared<std::vector<unsigned char>>(bytes);
  const auto read = [=, &owner] { memcpy(between->data(), owner.shadow + at, bytes); };
  const auto write = [=] {
    visit(box, at, [&](size_t place, unsigned char *element, size_t size) {
      if (!element) return;
      const unsigned char *from = between->data() + (place - at);
      if (how == '=') memcpy(element, from, size);
      else join_with((Number)box.map.type, how, element, from);
    });
  };
  add_store(at, box_bytes(box.map), read, write);
}

void bulk_commit() {
  Thread *thread = self();
  thread->store_groups++;
  if (watching) thread->stores_before.push_back((uint32_t)thread->stores_issued);
}

void bulk_wait(int groups_left, bool only_read) {
  Thread *thread = self();
  const int64_t until = thread->store_groups - groups_left;
  if (watching && thread->stores_agent && until > 0)
    thread->known.happened.raise(thread->stores_agent, thread->stores_before[(size_t)until - 1]);
  for (size_t i = 0; i < thread->stores.size();) {
    Store &store = thread->stores[i];
    if (store.group >= until) {
      i++;
      continue;
    }
    read_store(store);
    if (only_read) {
      i++;
    } else {
      store.write();
      thread->stores.erase(thread->stores.begin() + (ptrdiff_t)i);
    }
  }
  thread->store_groups_read = std::max(thread->store_groups_read, until);
  glance();
}

void copies_end(Thread *thread) {
  copy_wait(0);
  copy_commit();
  copy_wait(0);
  for (Store &store : thread->stores) {
    if (store.group >= thread->store_groups_read)
      fail("ended while a bulk store may still read shared memory: no wait for it");
    store.write();
  }
  thread->stores.clear();
}

// Progress --------------------------------------------------------------------------------------

static void land_of(Thread &thread) {
  if (!thread.copies.empty() && random_below(2))
    return land_copy(thread.copies, random_below((uint32_t)thread.copies.size()));
  if (thread.stores.empty()) return;
  const size_t at = random_below((uint32_t)thread.stores.size());
  if (!thread.stores[at].was_read) return read_store(thread.stores[at]);
  thread.stores[at].write();
  thread.stores.erase(thread.stores.begin() + (ptrdiff_t)at);
}

void land_something() {
  if (random_below(2) && land_load()) return;
  Block &owner = machine.blocks[random_below((uint32_t)machine.blocks.size())];
  if (random_below(2)) {
    multiply_part(owner.groups[random_below((uint32_t)owner.groups.size())], (int)random_below(4));
    return;
  }
  for (int tries = 0; tries < 4; tries++)
    land_of(owner.threads[random_below((uint32_t)owner.threads.size())]);
}

}  // namespace tp_emulator
