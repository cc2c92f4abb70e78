// The part of CUPTI's interface that is used here: functions, numbers, places in its structures.
//
// They are declared here, so that nothing of NVIDIA's has to be installed to build this; the
// library is found at run time (cupti_loading.cpp). Places are those of CUPTI 12 and 13: later
// versions add to the ends of records, whose lengths the loaded library gives (`record_sizes`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tileprof {

using CuptiResult = int32_t;

namespace cupti {

// -- results
inline constexpr CuptiResult kSuccess = 0, kOutOfMemory = 8, kNoMore = 12, kHardwareBusy = 26,
                             kNoPrivilege = 35, kOtherSubscriber = 39;

// -- domains and sites of callbacks
inline constexpr uint32_t kDriver = 1, kResource = 3;
inline constexpr uint32_t kEnter = 0;
inline constexpr uint32_t kContextEnds = 2, kNodeCreated = 13, kNodeCloned = 20;

// -- kinds of records. Kind 3 (serialized kernels) is read if somebody else asks for it, never
// asked for: together with it, samples of program counters stay away.
inline constexpr uint32_t kMemcpy = 1, kMemset = 2, kSerialKernel = 3, kKernel = 10, kOverhead = 17,
                          kMemcpyPeer = 22, kMemory = 49;
inline constexpr uint32_t kKinds = 64;  // above all kinds whose length is asked for

// -- values in records
inline constexpr uint32_t kPageable = 1, kPinned = 2;
inline constexpr uint32_t kAllocation = 1;
inline constexpr uint32_t kCommandBufferFull = 6u << 16;
inline constexpr uint32_t kFlushForced = 1;

// -- places, in bytes
struct CallbackData {
  static constexpr size_t site = 0, returned = 24, symbol = 32, context = 40, correlation = 64;
};
struct ResourceData {
  static constexpr size_t context = 0, descriptor = 16;
};
struct GraphData {
  static constexpr size_t node = 16, original_node = 24;
};
struct KernelRecord {
  static constexpr size_t registers = 6, start = 16, end = 24, device = 40, stream = 48, grid = 52,
                          block = 64, static_shared = 76, dynamic_shared = 80, local = 84,
                          correlation = 92, name = 104, graph_node = 144, cluster = 176,
                          least = 188;
};
struct MemcpyRecord {
  static constexpr size_t kind = 4, source = 5, target = 6, flags = 7, bytes = 8, start = 16,
                          end = 24, device = 32, stream = 40, correlation = 44, graph_node = 64,
                          least = 72;
};
struct PeerRecord {  // as MemcpyRecord up to the stream
  static constexpr size_t source_device = 44, target_device = 52, correlation = 60, graph_node = 72,
                          least = 80;
};
struct MemsetRecord {
  static constexpr size_t bytes = 8, start = 16, end = 24, device = 32, stream = 40,
                          correlation = 44, flags = 48, memory = 50, graph_node = 64, least = 72;
};
struct OverheadRecord {
  static constexpr size_t kind = 4, start = 24, end = 32, correlation = 40, data = 48, least = 40;
};
struct MemoryRecord {
  static constexpr size_t operation = 4, memory = 8, correlation = 12, address = 16, bytes = 24,
                          device = 52, least = 56;
};

// The length from which on a record of a kind has all fields that are read; 0: none are.
constexpr size_t least_bytes(uint32_t kind) {
  switch (kind) {
  case kMemcpy: return MemcpyRecord::least;
  case kMemset: return MemsetRecord::least;
  case kKernel:
  case kSerialKernel: return KernelRecord::least;
  case kOverhead: return OverheadRecord::least;
  case kMemcpyPeer: return PeerRecord::least;
  case kMemory: return MemoryRecord::least;
  default: return 0;
  }
}

// A value at a place of a structure.
template <typename T> T read(const void *from, size_t place) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t *>(from) + place, sizeof(T));
  return value;
}

// Asks for another tool's name; the library's own parameters of its second way to subscribe.
struct SubscriberParameters {
  size_t size;
  const char *name;
  char *other_name;
  size_t other_size;
};

using Callback = void (*)(void *, uint32_t domain, uint32_t id, const void *data);
using BufferRequested = void (*)(uint8_t **buffer, size_t *size, size_t *most_records);
using BufferCompleted = void (*)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid);
using ComputeCrc = void (*)(const void *cubin, size_t size, uint64_t *crc);

} // namespace cupti

// The functions of a loaded library; those below the line are null where it lacks them.
struct Cupti {
  CuptiResult (*get_version)(uint32_t *) = nullptr;
  CuptiResult (*result_string)(CuptiResult, const char **) = nullptr;
  CuptiResult (*subscribe)(void **, cupti::Callback, void *) = nullptr;
  CuptiResult (*unsubscribe)(void *) = nullptr;
  CuptiResult (*enable_callback)(uint32_t, void *, uint32_t, uint32_t) = nullptr;
  CuptiResult (*callback_state)(uint32_t *, void *, uint32_t, uint32_t) = nullptr;
  CuptiResult (*callback_name)(uint32_t, uint32_t, const char **) = nullptr;
  CuptiResult (*register_callbacks)(cupti::BufferRequested, cupti::BufferCompleted) = nullptr;
  CuptiResult (*enable)(uint32_t) = nullptr;
  CuptiResult (*disable)(uint32_t) = nullptr;
  CuptiResult (*flush_all)(uint32_t) = nullptr;
  CuptiResult (*next_record)(uint8_t *, size_t, void **) = nullptr;
  CuptiResult (*dropped)(void *, uint32_t, size_t *) = nullptr;
  // -- not in every version
  CuptiResult (*register_timestamp)(uint64_t (*)()) = nullptr;
  CuptiResult (*graph_node_id)(void *, uint64_t *) = nullptr;
  CuptiResult (*subscribe_named)(void **, cupti::Callback, void *,
                                 cupti::SubscriberParameters *) = nullptr;
  // Samples of program counters; the structures that they take are in cupti_pc.h.
  CuptiResult (*pc_enable)(void *) = nullptr;
  CuptiResult (*pc_disable)(void *) = nullptr;
  CuptiResult (*pc_start)(void *) = nullptr;
  CuptiResult (*pc_stop)(void *) = nullptr;
  CuptiResult (*pc_data)(void *) = nullptr;
  CuptiResult (*pc_configure)(void *) = nullptr;
  CuptiResult (*pc_stall_count)(void *) = nullptr;
  CuptiResult (*pc_stall_names)(void *) = nullptr;
  CuptiResult (*register_crc)(cupti::ComputeCrc) = nullptr;
  CuptiResult (*cubin_crc)(void *) = nullptr;
  // Hardware counters; the structures that they take are in cupti_range.h.
  CuptiResult (*device_of)(void *, uint32_t *) = nullptr;
  CuptiResult (*chip_name)(void *) = nullptr;
  CuptiResult (*profiler_initialize)(void *) = nullptr;
  CuptiResult (*range_enable)(void *) = nullptr;
  CuptiResult (*range_disable)(void *) = nullptr;
  CuptiResult (*range_configure)(void *) = nullptr;
  CuptiResult (*range_start)(void *) = nullptr;
  CuptiResult (*range_stop)(void *) = nullptr;
  CuptiResult (*range_decode)(void *) = nullptr;
  CuptiResult (*range_image_size)(void *) = nullptr;
  CuptiResult (*range_image)(void *) = nullptr;
  // Counts by instruction; the structures that they take are in cupti_sass.h.
  CuptiResult (*sass_properties)(void *) = nullptr;
  CuptiResult (*sass_configure)(void *) = nullptr;
  CuptiResult (*sass_forget)(void *) = nullptr;
  CuptiResult (*sass_enable)(void *) = nullptr;
  CuptiResult (*sass_disable)(void *) = nullptr;
  CuptiResult (*sass_extent)(void *) = nullptr;
  CuptiResult (*sass_flush)(void *) = nullptr;
  // Hardware counters over time; the structures that they take are in cupti_pm.h.
  CuptiResult (*pm_enable)(void *) = nullptr;
  CuptiResult (*pm_disable)(void *) = nullptr;
  CuptiResult (*pm_configure)(void *) = nullptr;
  CuptiResult (*pm_start)(void *) = nullptr;
  CuptiResult (*pm_stop)(void *) = nullptr;
  CuptiResult (*pm_decode)(void *) = nullptr;
  CuptiResult (*pm_image_size)(void *) = nullptr;
  CuptiResult (*pm_image)(void *) = nullptr;
  CuptiResult (*pm_image_info)(void *) = nullptr;
  CuptiResult (*pm_sample_info)(void *) = nullptr;
  CuptiResult (*host_initialize)(void *) = nullptr;
  CuptiResult (*host_deinitialize)(void *) = nullptr;
  CuptiResult (*host_values)(void *) = nullptr;

  uint32_t version = 0;
  std::string path;
  // Bytes of a record of each kind; 0: not known, the library is asked at each.
  uint32_t record_sizes[cupti::kKinds] = {};

  // The first function that is missing for samples of program counters, counters of launches,
  // counts by instruction, and counters over time; null where all are there.
  const char *no_pcs = "", *no_counters = "", *no_instructions = "", *no_pms = "";

  std::string text_of(CuptiResult code) const;
  // A sentence on a function that is missing.
  std::string lacks(const char *function) const;
};

// Loads a library; an empty string, or why not.
std::string load_cupti(const std::string &path, Cupti &into);
// Fills in the lengths of records, for which some versions need a driver; an empty string, or what
// is wrong with them.
std::string ask_record_sizes(Cupti &cupti);

} // namespace tileprof
