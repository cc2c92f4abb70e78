// The functions of CUPTI that the recorder loads.
#include <chrono>
#include <thread>

#include "fake.h"

namespace {

const std::map<uint32_t, const char *> kNames = {
    {1, "cuInit"},
    {17, "cuCtxSynchronize"},
    {126, "cuStreamSynchronize"},
    {528, "cuStreamBeginCapture_v2"},
    {529, "cuStreamEndCapture"},
    {530, "cuGraphAddKernelNode_v2"},
    {211, "cuEventQuery"},
    {216, "cuMemsetD8Async"},
    {243, "cuMemAlloc_v2"},
    {245, "cuMemFree_v2"},
    {276, "cuMemcpyHtoD_v2"},
    {277, "cuMemcpyHtoDAsync_v2"},
    {278, "cuMemcpyDtoH_v2"},
    {279, "cuMemcpyDtoHAsync_v2"},
    {295, "cuStreamWaitEvent"},
    {307, "cuLaunchKernel"},
    {319, "cuMemcpyPeerAsync"},
    {442, "cuLaunchKernel_ptsz"},
    {477, "cuLaunchCooperativeKernel"},
    {514, "cuGraphLaunch"},
    {527, "cuLaunchHostFunc"},
    {652, "cuLaunchKernelEx"},
};

} // namespace

API int32_t cuptiGetVersion(uint32_t *version) {
  *version = 130001;
  return 0;
}
API int32_t cuptiGetResultString(int32_t result, const char **text) {
  *text = result == kOther ? "FAKE_MULTIPLE_SUBSCRIBERS" : "FAKE_ERROR";
  return 0;
}
API int32_t cuptiSubscribe(void **handle, Callback callback, void *user) {
  if (const uint64_t result = option("subscribe_result")) return int32_t(result);
  if (fake().callback) return kOther;
  fake().user = user;
  fake().callback = callback;
  *handle = &fake();
  return 0;
}
API int32_t cuptiSubscribe_v2(void **, Callback, void *, void *parameters) {
  const size_t size = get<size_t>(parameters, 24);
  char *name = get<char *>(parameters, 16);
  strncpy(name, "CUPTI for Somebody", size);
  return kOther;
}
API int32_t cuptiUnsubscribe(void *) {
  fake().callback = nullptr;
  for (auto &domain : fake().listened)
    for (auto &one : domain) one = 0;
  return 0;
}
API int32_t cuptiEnableCallback(uint32_t enable, void *, uint32_t domain, uint32_t number) {
  if (domain >= 4 || number >= kCalls) return kInvalidParameter;
  fake().listened[domain][number] = uint8_t(enable);
  return 0;
}
API int32_t cuptiGetCallbackState(uint32_t *enabled, void *, uint32_t domain, uint32_t number) {
  if (!fake().callback || fake().mute || option("lost")) return kInvalidParameter;
  *enabled = on(domain, number);
  return 0;
}
API int32_t cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
  auto found = kNames.find(number);
  if (domain != kDriver || found == kNames.end()) return kInvalidParameter;
  *name = found->second;
  return 0;
}
API int32_t cuptiGetGraphNodeId(void *node, uint64_t *number) {
  *number = uint64_t(node);
  return node ? 0 : kInvalidParameter;
}
API int32_t cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  fake().requested = requested;
  fake().completed = completed;
  return 0;
}
API int32_t cuptiActivityEnable(uint32_t kind) {
  if (option("refused_kind") == kind) return 27;
  fake().kinds |= uint64_t(1) << kind;
  return 0;
}
API int32_t cuptiActivityDisable(uint32_t kind) {
  fake().kinds &= ~(uint64_t(1) << kind);
  return 0;
}
API int32_t cuptiActivityFlushAll(uint32_t flag) {
  if (fake().launching) ++fake().options["met_launches"];
  sleep_while("flush_ms");
  // As of a context that a kernel has made unusable.
  if (const uint64_t result = option("flush_result")) return int32_t(result);
  if (option("unfinished")) {
    // Buffers with records of work that is under way stay, or are handed over without its times.
    if (!flag) {
      fake().options["unfinished"] -= 1;
      return 0;
    }
    std::lock_guard lock(fake().mutex);
    for (Record &record : fake().queue) memset(record.bytes + 16, 0, 16);
  }
  deliver_all();
  return 0;
}
API int32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
  uint8_t *next = buffer;
  if (*record) {
    uint8_t *at = static_cast<uint8_t *>(*record);
    next = at + fake().sizes[get<uint32_t>(at, 0) % kKinds];
  }
  if (next + 8 > buffer + valid) return kMaxLimit;
  const uint32_t kind = get<uint32_t>(next, 0);
  if (kind >= kKinds || !fake().sizes[kind]) return kInvalidKind;
  *record = next;
  return 0;
}
API int32_t cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *dropped) {
  std::lock_guard lock(fake().mutex);
  *dropped = fake().dropped;
  fake().dropped = 0;
  return 0;
}
API int32_t cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  fake().clock = clock;
  return 0;
}
