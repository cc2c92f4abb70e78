// Loading CUPTI from a path that Python found, and properties of the loaded version.
#include <dlfcn.h>

#include "cupti/cupti_api.h"

namespace tileprof {
namespace {

template <typename F> bool find(void *library, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// The name of a function that is missing, or nullptr.
const char *find_functions(void *library, Cupti &c) {
  if (!find(library, "cuptiGetVersion", c.get_version)) return "cuptiGetVersion";
  if (!find(library, "cuptiGetResultString", c.result_string)) return "cuptiGetResultString";
  if (!find(library, "cuptiSubscribe", c.subscribe)) return "cuptiSubscribe";
  if (!find(library, "cuptiUnsubscribe", c.unsubscribe)) return "cuptiUnsubscribe";
  if (!find(library, "cuptiEnableCallback", c.enable_callback)) return "cuptiEnableCallback";
  if (!find(library, "cuptiGetCallbackState", c.callback_state)) return "cuptiGetCallbackState";
  if (!find(library, "cuptiGetCallbackName", c.callback_name)) return "cuptiGetCallbackName";
  if (!find(library, "cuptiActivityRegisterCallbacks", c.register_callbacks))
    return "cuptiActivityRegisterCallbacks";
  if (!find(library, "cuptiActivityEnable", c.enable)) return "cuptiActivityEnable";
  if (!find(library, "cuptiActivityDisable", c.disable)) return "cuptiActivityDisable";
  if (!find(library, "cuptiActivityFlushAll", c.flush_all)) return "cuptiActivityFlushAll";
  if (!find(library, "cuptiActivityGetNextRecord", c.next_record))
    return "cuptiActivityGetNextRecord";
  if (!find(library, "cuptiActivityGetNumDroppedRecords", c.dropped))
    return "cuptiActivityGetNumDroppedRecords";
  find(library, "cuptiActivityRegisterTimestampCallback", c.register_timestamp);
  find(library, "cuptiGetGraphNodeId", c.graph_node_id);
  find(library, "cuptiSubscribe_v2", c.subscribe_named);
  find(library, "cuptiPCSamplingEnable", c.pc_enable);
  find(library, "cuptiPCSamplingDisable", c.pc_disable);
  find(library, "cuptiPCSamplingStart", c.pc_start);
  find(library, "cuptiPCSamplingStop", c.pc_stop);
  find(library, "cuptiPCSamplingGetData", c.pc_data);
  find(library, "cuptiPCSamplingSetConfigurationAttribute", c.pc_configure);
  find(library, "cuptiPCSamplingGetNumStallReasons", c.pc_stall_count);
  find(library, "cuptiPCSamplingGetStallReasons", c.pc_stall_names);
  find(library, "cuptiRegisterComputeCrcCallback", c.register_crc);
  find(library, "cuptiGetCubinCrc", c.cubin_crc);
  find(library, "cuptiGetDeviceId", c.device_of);
  find(library, "cuptiDeviceGetChipName", c.chip_name);
  find(library, "cuptiProfilerInitialize", c.profiler_initialize);
  find(library, "cuptiRangeProfilerEnable", c.range_enable);
  find(library, "cuptiRangeProfilerDisable", c.range_disable);
  find(library, "cuptiRangeProfilerSetConfig", c.range_configure);
  find(library, "cuptiRangeProfilerStart", c.range_start);
  find(library, "cuptiRangeProfilerStop", c.range_stop);
  find(library, "cuptiRangeProfilerDecodeData", c.range_decode);
  find(library, "cuptiRangeProfilerGetCounterDataSize", c.range_image_size);
  find(library, "cuptiRangeProfilerCounterDataImageInitialize", c.range_image);
  find(library, "cuptiSassMetricsGetProperties", c.sass_properties);
  find(library, "cuptiSassMetricsSetConfig", c.sass_configure);
  find(library, "cuptiSassMetricsUnsetConfig", c.sass_forget);
  find(library, "cuptiSassMetricsEnable", c.sass_enable);
  find(library, "cuptiSassMetricsDisable", c.sass_disable);
  find(library, "cuptiSassMetricsGetDataProperties", c.sass_extent);
  find(library, "cuptiSassMetricsFlushData", c.sass_flush);
  find(library, "cuptiPmSamplingEnable", c.pm_enable);
  find(library, "cuptiPmSamplingDisable", c.pm_disable);
  find(library, "cuptiPmSamplingSetConfig", c.pm_configure);
  find(library, "cuptiPmSamplingStart", c.pm_start);
  find(library, "cuptiPmSamplingStop", c.pm_stop);
  find(library, "cuptiPmSamplingDecodeData", c.pm_decode);
  find(library, "cuptiPmSamplingGetCounterDataSize", c.pm_image_size);
  find(library, "cuptiPmSamplingCounterDataImageInitialize", c.pm_image);
  find(library, "cuptiPmSamplingGetCounterDataInfo", c.pm_image_info);
  find(library, "cuptiPmSamplingCounterDataGetSampleInfo", c.pm_sample_info);
  find(library, "cuptiProfilerHostInitialize", c.host_initialize);
  find(library, "cuptiProfilerHostDeinitialize", c.host_deinitialize);
  find(library, "cuptiProfilerHostEvaluateToGpuValues", c.host_values);
  return nullptr;
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

std::string load_cupti(const std::string &path, Cupti &into) {
  // Deep binding would part it from the copy that a framework maps later under the same name.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return why ? why : "cannot be loaded";
  }
  Cupti found;
  if (const char *missing = find_functions(library, found))
    return path + " has no function " + missing;
  found.get_version(&found.version);
  found.path = path;
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
