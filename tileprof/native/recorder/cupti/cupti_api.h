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
                          time = 32, device = 52, least = 56;
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

// Functions that not every version has: for what they are, our name, CUPTI's. Each takes one structure
// of parameters: those of samples of program counters are in cupti_pc.h, of launches' counters in
// cupti_range.h, of counts by instruction in cupti_sass.h, of counters over time in cupti_pm.h.
#define TILEPROF_CUPTI_CALLS(X) \
  X(Pcs, pc_enable, "cuptiPCSamplingEnable") \
  X(Pcs, pc_disable, "cuptiPCSamplingDisable") \
  X(Pcs, pc_start, "cuptiPCSamplingStart") \
  X(Pcs, pc_stop, "cuptiPCSamplingStop") \
  X(Pcs, pc_data, "cuptiPCSamplingGetData") \
  X(Pcs, pc_configure, "cuptiPCSamplingSetConfigurationAttribute") \
  X(Pcs, pc_stall_count, "cuptiPCSamplingGetNumStallReasons") \
  X(Pcs, pc_stall_names, "cuptiPCSamplingGetStallReasons") \
  X(Cubins, cubin_crc, "cuptiGetCubinCrc") \
  X(Devices, chip_name, "cuptiDeviceGetChipName") \
  X(Devices, profiler_initialize, "cuptiProfilerInitialize") \
  X(Ranges, range_enable, "cuptiRangeProfilerEnable") \
  X(Ranges, range_disable, "cuptiRangeProfilerDisable") \
  X(Ranges, range_configure, "cuptiRangeProfilerSetConfig") \
  X(Ranges, range_start, "cuptiRangeProfilerStart") \
  X(Ranges, range_stop, "cuptiRangeProfilerStop") \
  X(Ranges, range_decode, "cuptiRangeProfilerDecodeData") \
  X(Ranges, range_image_size, "cuptiRangeProfilerGetCounterDataSize") \
  X(Ranges, range_image, "cuptiRangeProfilerCounterDataImageInitialize") \
  X(Instructions, sass_properties, "cuptiSassMetricsGetProperties") \
  X(Instructions, sass_configure, "cuptiSassMetricsSetConfig") \
  X(Instructions, sass_forget, "cuptiSassMetricsUnsetConfig") \
  X(Instructions, sass_enable, "cuptiSassMetricsEnable") \
  X(Instructions, sass_disable, "cuptiSassMetricsDisable") \
  X(Instructions, sass_extent, "cuptiSassMetricsGetDataProperties") \
  X(Instructions, sass_flush, "cuptiSassMetricsFlushData") \
  X(Pms, pm_enable, "cuptiPmSamplingEnable") \
  X(Pms, pm_disable, "cuptiPmSamplingDisable") \
  X(Pms, pm_configure, "cuptiPmSamplingSetConfig") \
  X(Pms, pm_start, "cuptiPmSamplingStart") \
  X(Pms, pm_stop, "cuptiPmSamplingStop") \
  X(Pms, pm_decode, "cuptiPmSamplingDecodeData") \
  X(Pms, pm_image_size, "cuptiPmSamplingGetCounterDataSize") \
  X(Pms, pm_image, "cuptiPmSamplingCounterDataImageInitialize") \
  X(Pms, pm_image_info, "cuptiPmSamplingGetCounterDataInfo") \
  X(Pms, pm_sample_info, "cuptiPmSamplingCounterDataGetSampleInfo") \
  X(Pms, host_initialize, "cuptiProfilerHostInitialize") \
  X(Pms, host_deinitialize, "cuptiProfilerHostDeinitialize") \
  X(Pms, host_values, "cuptiProfilerHostEvaluateToGpuValues")

// For what a version may have functions: all of them, or it cannot do it.
enum class CuptiFeature { Pcs, Cubins, Devices, Ranges, Instructions, Pms };

// A function with its name; null where the library lacks it.
struct CuptiCall {
  const char *name;
  CuptiResult (*function)(void *) = nullptr;
  explicit operator bool() const { return function; }
  CuptiResult operator()(void *parameters) const { return function(parameters); }
};

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
  CuptiResult (*register_crc)(cupti::ComputeCrc) = nullptr;
  CuptiResult (*device_of)(void *, uint32_t *) = nullptr;
#define TILEPROF_DECLARED(feature, member, name) CuptiCall member{name};
  TILEPROF_CUPTI_CALLS(TILEPROF_DECLARED)
#undef TILEPROF_DECLARED

  uint32_t version = 0;
  std::string path;
  // Bytes of a record of each kind; 0: not known, the library is asked at each.
  uint32_t record_sizes[cupti::kKinds] = {};

  std::string text_of(CuptiResult code) const;
  // The first function that this version lacks for a feature, null where it has all. Counters need
  // those of devices, too.
  const char *lacking(CuptiFeature feature) const;
  // A sentence on a function that is missing.
  std::string without(const char *function) const;
};

// Loads a library; an empty string, or why not.
std::string load_cupti(const std::string &path, Cupti &into);
// Fills in the lengths of records, for which some versions need a driver; an empty string, or what
// is wrong with them.
std::string ask_record_sizes(Cupti &cupti);

} // namespace tileprof
