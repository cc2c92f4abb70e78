// Loading CUPTI from a path that Python found, and properties of the loaded version.
#include <dlfcn.h>

#include "cupti/cupti_api.h"

namespace tileprof {
namespace {

template <typename F> bool find(void *library, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// Finds a function without which something cannot be done; notes the first one that is missing.
template <typename F>
void need(void *library, const char *name, F &function, const char *&missing) {
  if (!find(library, name, function) && !missing) missing = name;
}

// The name of a function that is missing and without which nothing is recorded, or nullptr.
const char *find_functions(void *library, Cupti &c) {
  const char *missing = nullptr;
  need(library, "cuptiGetVersion", c.get_version, missing);
  need(library, "cuptiGetResultString", c.result_string, missing);
  need(library, "cuptiSubscribe", c.subscribe, missing);
  need(library, "cuptiUnsubscribe", c.unsubscribe, missing);
  need(library, "cuptiEnableCallback", c.enable_callback, missing);
  need(library, "cuptiGetCallbackState", c.callback_state, missing);
  need(library, "cuptiGetCallbackName", c.callback_name, missing);
  need(library, "cuptiActivityRegisterCallbacks", c.register_callbacks, missing);
  need(library, "cuptiActivityEnable", c.enable, missing);
  need(library, "cuptiActivityDisable", c.disable, missing);
  need(library, "cuptiActivityFlushAll", c.flush_all, missing);
  need(library, "cuptiActivityGetNextRecord", c.next_record, missing);
  need(library, "cuptiActivityGetNumDroppedRecords", c.dropped, missing);
  find(library, "cuptiActivityRegisterTimestampCallback", c.register_timestamp);
  find(library, "cuptiGetGraphNodeId", c.graph_node_id);
  find(library, "cuptiSubscribe_v2", c.subscribe_named);
  find(library, "cuptiRegisterComputeCrcCallback", c.register_crc);
  find(library, "cuptiGetCubinCrc", c.cubin_crc);
  c.no_pcs = nullptr;
  need(library, "cuptiPCSamplingEnable", c.pc_enable, c.no_pcs);
  need(library, "cuptiPCSamplingDisable", c.pc_disable, c.no_pcs);
  need(library, "cuptiPCSamplingStart", c.pc_start, c.no_pcs);
  need(library, "cuptiPCSamplingStop", c.pc_stop, c.no_pcs);
  need(library, "cuptiPCSamplingGetData", c.pc_data, c.no_pcs);
  need(library, "cuptiPCSamplingSetConfigurationAttribute", c.pc_configure, c.no_pcs);
  need(library, "cuptiPCSamplingGetNumStallReasons", c.pc_stall_count, c.no_pcs);
  need(library, "cuptiPCSamplingGetStallReasons", c.pc_stall_names, c.no_pcs);
  const char *no_device = nullptr;
  need(library, "cuptiGetDeviceId", c.device_of, no_device);
  need(library, "cuptiDeviceGetChipName", c.chip_name, no_device);
  need(library, "cuptiProfilerInitialize", c.profiler_initialize, no_device);
  c.no_counters = c.no_instructions = c.no_pms = no_device;
  need(library, "cuptiRangeProfilerEnable", c.range_enable, c.no_counters);
  need(library, "cuptiRangeProfilerDisable", c.range_disable, c.no_counters);
  need(library, "cuptiRangeProfilerSetConfig", c.range_configure, c.no_counters);
  need(library, "cuptiRangeProfilerStart", c.range_start, c.no_counters);
  need(library, "cuptiRangeProfilerStop", c.range_stop, c.no_counters);
  need(library, "cuptiRangeProfilerDecodeData", c.range_decode, c.no_counters);
  need(library, "cuptiRangeProfilerGetCounterDataSize", c.range_image_size, c.no_counters);
  need(library, "cuptiRangeProfilerCounterDataImageInitialize", c.range_image, c.no_counters);
  need(library, "cuptiSassMetricsGetProperties", c.sass_properties, c.no_instructions);
  need(library, "cuptiSassMetricsSetConfig", c.sass_configure, c.no_instructions);
  need(library, "cuptiSassMetricsUnsetConfig", c.sass_forget, c.no_instructions);
  need(library, "cuptiSassMetricsEnable", c.sass_enable, c.no_instructions);
  need(library, "cuptiSassMetricsDisable", c.sass_disable, c.no_instructions);
  need(library, "cuptiSassMetricsGetDataProperties", c.sass_extent, c.no_instructions);
  need(library, "cuptiSassMetricsFlushData", c.sass_flush, c.no_instructions);
  need(library, "cuptiPmSamplingEnable", c.pm_enable, c.no_pms);
  need(library, "cuptiPmSamplingDisable", c.pm_disable, c.no_pms);
  need(library, "cuptiPmSamplingSetConfig", c.pm_configure, c.no_pms);
  need(library, "cuptiPmSamplingStart", c.pm_start, c.no_pms);
  need(library, "cuptiPmSamplingStop", c.pm_stop, c.no_pms);
  need(library, "cuptiPmSamplingDecodeData", c.pm_decode, c.no_pms);
  need(library, "cuptiPmSamplingGetCounterDataSize", c.pm_image_size, c.no_pms);
  need(library, "cuptiPmSamplingCounterDataImageInitialize", c.pm_image, c.no_pms);
  need(library, "cuptiPmSamplingGetCounterDataInfo", c.pm_image_info, c.no_pms);
  need(library, "cuptiPmSamplingCounterDataGetSampleInfo", c.pm_sample_info, c.no_pms);
  need(library, "cuptiProfilerHostInitialize", c.host_initialize, c.no_pms);
  need(library, "cuptiProfilerHostDeinitialize", c.host_deinitialize, c.no_pms);
  need(library, "cuptiProfilerHostEvaluateToGpuValues", c.host_values, c.no_pms);
  return missing;
}

// The step of the library over a record of a kind, in a buffer in which every word is that kind.
uint32_t ask_record_size(const Cupti &c, uint32_t kind) {
  alignas(8) static uint32_t words[1024];
  for (uint32_t &word : words) word = kind;
  uint8_t *base = reinterpret_cast<uint8_t *>(words);
  void *record = nullptr;
  for (int step = 0; step < 2; ++step)
    if (c.next_record(base, sizeof(words), &record) != cupti::kSuccess) return 0;
  const ptrdiff_t size = static_cast<uint8_t *>(record) - base;
  return size > 0 && size % 8 == 0 && size < ptrdiff_t(sizeof(words)) ? uint32_t(size) : 0;
}

} // namespace

std::string Cupti::text_of(CuptiResult code) const {
  const char *text = nullptr;
  if (result_string && result_string(code, &text) == cupti::kSuccess && text) return text;
  return "CUPTI result " + std::to_string(code);
}

std::string Cupti::lacks(const char *function) const {
  return path + " has no function " + function;
}

std::string load_cupti(const std::string &path, Cupti &into) {
  // Deep binding would part it from the copy that a framework maps later under the same name.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return why ? why : "cannot be loaded";
  }
  Cupti found;
  found.path = path;
  if (const char *missing = find_functions(library, found))
    return found.lacks(missing);
  found.get_version(&found.version);
  into = found;
  return {};
}

std::string ask_record_sizes(Cupti &c) {
  for (uint32_t kind = 1; kind < cupti::kKinds; ++kind)
    c.record_sizes[kind] = ask_record_size(c, kind);
  for (uint32_t kind = 1; kind < cupti::kKinds; ++kind)
    if (c.record_sizes[kind] && c.record_sizes[kind] < cupti::least_bytes(kind))
      return c.path + ": records of kind " + std::to_string(kind) + " have " +
             std::to_string(c.record_sizes[kind]) + " bytes, fewer than the fields that are read";
  return {};
}

} // namespace tileprof
