// Driver calls and records, one by one.
#include <stdlib.h>

#include "fake.h"

namespace {

struct CallbackData {
  uint8_t bytes[72] = {};
};

} // namespace

API void fake_reset() {
  Fake &f = fake();
  std::lock_guard lock(f.mutex);
  f.callback = nullptr;
  for (auto &domain : f.listened)
    for (auto &one : domain) one = 0;
  f.kinds = 0;
  f.mute = false;
  f.queue.clear();
  f.witness.clear();
  f.dropped = 0;
  f.launching = f.replaying = f.waiting_for_events = 0;
  for (const char *name :
       {"subscribe_result", "drop", "shuffle", "stolen", "lost", "refused_kind", "flush_ms", "flush_result",
        "unfinished", "met_launches", "met_graphs", "pc_enable_result", "devices", "pc_attribute", "pc_start_result",
        "pc_stop_result", "pc_data_result", "pc_no_stalls", "pc_copies", "pc_only_stopped",
        "pc_moved", "pc_stop_ms", "device", "chip", "chip_result", "initialize_result",
        "range_enable_result", "range_size_result", "range_image_result", "range_config_result",
        "range_start_result", "range_stop_result", "range_decode_result", "range_missing",
        "evaluate_result", "pm_enable_result", "pm_config_result", "pm_start_result",
        "pm_decode_result", "pm_size_result", "pm_stop_ms", "pm_stops", "pc_stops"})
    f.options[name] = 0;
  set_sizes();
  reset_pcs();
  reset_sass();
}
API void fake_option(const char *name, uint64_t value) { fake().options[name] = value; }
API uint64_t fake_option_now(const char *name) { return option(name); }
// Makes records of a kind as long as another version of CUPTI has them.
API void fake_size(uint32_t kind, uint32_t bytes) { fake().sizes[kind] = bytes; }
API uint64_t fake_clock() { return fake().clock ? fake().clock() : 0; }
API uint64_t fake_kinds() { return fake().kinds.load(); }
API uint32_t fake_listened(uint32_t domain, uint32_t number) { return on(domain, number); }

// The context of this thread's driver calls.
static thread_local const void *current = nullptr;
API void fake_current(uint64_t context) { current = reinterpret_cast<const void *>(context); }
// The function that this thread's launches launch.
static thread_local const char *symbol = nullptr;
API void fake_symbol(const char *name) { symbol = name ? kept(name) : nullptr; }
static thread_local bool capturing = false;
API void fake_capturing(uint32_t on) { capturing = on; }

static bool launches(uint32_t number) {
  return number == 307 || number == 442 || number == 477 || number == 514 || number == 652;
}

// A launch of a graph and a wait of a stream for an event, which may never end together in CUPTI 13.0.
static void meet_graphs(uint32_t number, int32_t change) {
  Fake &f = fake();
  if (number != 514 && number != 295) return;
  (number == 514 ? f.replaying : f.waiting_for_events) += change;
  if (change > 0 && f.replaying && f.waiting_for_events) ++f.options["met_graphs"];
}

API uint32_t fake_enter(uint32_t number) {
  const uint32_t correlation = ++fake().correlation;
  CallbackData data;
  put(data.bytes, 32, symbol);
  put(data.bytes, 40, current);
  put<uint32_t>(data.bytes, 64, correlation);
  if (on(kDriver, number)) fake().callback(fake().user, kDriver, number, &data);
  if (launches(number)) ++fake().launching;
  meet_graphs(number, 1);
  return correlation;
}
API void fake_exit(uint32_t number, uint32_t correlation, int32_t returned) {
  CallbackData data;
  put<uint32_t>(data.bytes, 0, 1);
  put<const int32_t *>(data.bytes, 24, &returned);
  if (launches(number)) --fake().launching;
  meet_graphs(number, -1);
  if (launches(number) && !returned && !capturing) count_launch(current, number == 514 ? "" : symbol);
  put(data.bytes, 40, current);
  put<uint32_t>(data.bytes, 64, correlation);
  if (on(kDriver, number)) fake().callback(fake().user, kDriver, number, &data);
}
// A driver call; its correlation number.
API uint32_t fake_call(uint32_t number) {
  const uint32_t correlation = fake_enter(number);
  fake_exit(number, correlation, 0);
  return correlation;
}
// A callback about a graph's node: 13 created, 20 cloned.
API void fake_node(uint32_t number, uint64_t node, uint64_t original) {
  uint8_t graph[56] = {}, data[24] = {};
  put<uint64_t>(graph, 16, node);
  put<uint64_t>(graph, 24, original);
  put<const void *>(data, 16, graph);
  if (on(kResource, number)) fake().callback(fake().user, kResource, number, data);
}

API void fake_kernel(const char *name, const FakeKernel *k) {
  Record r = {};
  // Kernels that run one after the other leave records of a kind of their own.
  put<uint32_t>(r.bytes, 0, fake().kinds.load() >> 3 & 1 ? 3 : 10);
  put<uint16_t>(r.bytes, 6, uint16_t(k->registers));
  put(r.bytes, 16, k->start);
  put(r.bytes, 24, k->end);
  put(r.bytes, 40, k->device);
  put(r.bytes, 48, k->stream);
  memcpy(r.bytes + 52, k->grid, 12);
  memcpy(r.bytes + 64, k->block, 12);
  put(r.bytes, 76, k->static_shared);
  put(r.bytes, 80, k->dynamic_shared);
  put(r.bytes, 84, k->local);
  put(r.bytes, 92, k->correlation);
  put(r.bytes, 104, name ? kept(name) : nullptr);
  put(r.bytes, 144, k->node);
  memcpy(r.bytes + 176, k->cluster, 12);
  r.ns = k->end - k->start;
  queue(r);
}
// A copy, between devices if `peer` is not 0 (the other device + 1).
API void fake_memcpy(uint32_t correlation, uint32_t kind, uint32_t source, uint32_t target,
                     uint32_t flags, uint64_t bytes, uint64_t start, uint64_t end, uint32_t device,
                     uint32_t peer, uint64_t node) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, peer ? 22 : 1);
  put(r.bytes, 4, uint8_t(kind));
  put(r.bytes, 5, uint8_t(source));
  put(r.bytes, 6, uint8_t(target));
  put(r.bytes, 7, uint8_t(flags));
  put(r.bytes, 8, bytes);
  put(r.bytes, 16, start);
  put(r.bytes, 24, end);
  put(r.bytes, 32, device);
  put<uint32_t>(r.bytes, 40, 7);
  put(r.bytes, peer ? 60 : 44, correlation);
  if (peer) put(r.bytes, 44, device), put(r.bytes, 52, peer - 1);
  put(r.bytes, peer ? 72 : 64, node);
  r.ns = end - start;
  queue(r);
}
API void fake_memset(uint32_t correlation, uint64_t bytes, uint64_t start, uint64_t end,
                     uint32_t device, uint32_t memory, uint32_t flags) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 2);
  put(r.bytes, 8, bytes);
  put(r.bytes, 16, start);
  put(r.bytes, 24, end);
  put(r.bytes, 32, device);
  put(r.bytes, 44, correlation);
  put(r.bytes, 48, uint16_t(flags));
  put(r.bytes, 50, uint16_t(memory));
  r.ns = end - start;
  queue(r);
}
// An overhead; with data on the heap that its reader has to free, if asked.
API void fake_overhead(uint32_t correlation, uint32_t kind, uint64_t start, uint64_t end,
                       uint32_t with_data) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 17);
  put(r.bytes, 4, kind);
  put(r.bytes, 24, start);
  put(r.bytes, 32, end);
  put(r.bytes, 40, correlation);
  if (with_data) put(r.bytes, 48, malloc(64));
  r.ns = end - start;
  queue(r);
}
API void fake_memory(uint32_t correlation, uint32_t operation, uint32_t memory, uint64_t address,
                     uint64_t bytes, uint32_t device, uint64_t time) {
  Record r = {};
  put<uint32_t>(r.bytes, 0, 49);
  put(r.bytes, 4, operation);
  put(r.bytes, 8, memory);
  put(r.bytes, 12, correlation);
  put(r.bytes, 16, address);
  put(r.bytes, 24, bytes);
  put(r.bytes, 32, time);
  put(r.bytes, 52, device);
  queue(r);
}
// A record of a kind that the recorder does not know.
API void fake_foreign(uint32_t kind) {
  Record r = {};
  put(r.bytes, 0, kind);
  fake().kinds |= uint64_t(1) << kind;
  queue(r);
}

API void fake_deliver() { deliver_all(); }
API uint64_t fake_delivered(uint32_t kind) { return fake().witness[kind].records; }
API uint64_t fake_delivered_ns(uint32_t kind) { return fake().witness[kind].ns; }
API uint64_t fake_undelivered() { return fake().queue.size(); }
