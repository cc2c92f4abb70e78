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
  const char *missing = nullptr;
  const auto need = [&](const char *name, auto &function) {
    if (!find(library, name, function) && !missing) missing = name;
  };
  need("cuptiGetVersion", c.get_version);
  need("cuptiGetResultString", c.result_string);
  need("cuptiSubscribe", c.subscribe);
  need("cuptiUnsubscribe", c.unsubscribe);
  need("cuptiEnableCallback", c.enable_callback);
  need("cuptiGetCallbackState", c.callback_state);
  need("cuptiGetCallbackName", c.callback_name);
  need("cuptiActivityRegisterCallbacks", c.register_callbacks);
  need("cuptiActivityEnable", c.enable);
  need("cuptiActivityDisable", c.disable);
  need("cuptiActivityFlushAll", c.flush_all);
  need("cuptiActivityGetNextRecord", c.next_record);
  need("cuptiActivityGetNumDroppedRecords", c.dropped);
  find(library, "cuptiActivityRegisterTimestampCallback", c.register_timestamp);
  find(library, "cuptiGetGraphNodeId", c.graph_node_id);
  find(library, "cuptiSubscribe_v2", c.subscribe_named);
  find(library, "cuptiRegisterComputeCrcCallback", c.register_crc);
  find(library, "cuptiGetDeviceId", c.device_of);
#define TILEPROF_FOUND(feature, member, name) find(library, name, c.member.function);
  TILEPROF_CUPTI_CALLS(TILEPROF_FOUND)
#undef TILEPROF_FOUND
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

const char *Cupti::lacking(CuptiFeature wanted) const {
  const bool counters = wanted == CuptiFeature::Ranges || wanted == CuptiFeature::Instructions ||
                        wanted == CuptiFeature::Pms;
  if (counters && !device_of) return "cuptiGetDeviceId";
  const auto needed = [&](CuptiFeature one) {
    return one == wanted || (counters && one == CuptiFeature::Devices);
  };
#define TILEPROF_PRESENT(feature, member, name) \
  if (needed(CuptiFeature::feature) && !member.function) return name;
  TILEPROF_CUPTI_CALLS(TILEPROF_PRESENT)
#undef TILEPROF_PRESENT
  return nullptr;
}

std::string Cupti::without(const char *function) const {
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
  if (const char *missing = find_functions(library, found)) return found.without(missing);
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
