// The part of CUPTI's interface that counts by instruction: structures and numbers, declared here.
// Each structure says its own size: where its last field ends, which may be before the padding
// behind it; that of a flush ends, in CUPTI 12 and 13, before its last field.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace tileprof {
namespace cupti {

// One value of a metric for all of a device.
inline constexpr uint8_t kWholeDevice = 0;

struct SassMetric {
  uint64_t number;
  const char *name, *text;
};
struct SassProperties {
  size_t size;
  void *own;
  const char *chip, *name;
  SassMetric metric;
};
struct SassConfig {
  uint64_t metric;
  uint8_t level;
};
struct SassConfigure {
  size_t size;
  void *own;
  size_t count;
  SassConfig *configs;
  uint32_t device;
};
struct SassForget {
  size_t size;
  void *own;
  uint32_t device;
};
struct SassEnable {
  size_t size;
  void *own, *context;
  uint8_t lazy;  // functions are patched when they are launched first
};
struct SassDisable {
  size_t size;
  void *own, *context;
  size_t dropped;
};
struct SassExtent {
  size_t size;
  void *own, *context;
  size_t records, values;  // instructions; values of each
};
struct SassValue {
  uint64_t metric, value;
};
struct SassRecord {
  size_t size;
  void *own;
  uint32_t module;  // what the callback for cubins answered, else a sum that CUPTI works out
  uint32_t index;
  char *name;  // to be freed
  uint32_t offset;
  SassValue *values;
};
struct SassFlush {
  size_t size;
  void *own, *context;
  size_t records, values;
  SassRecord *record;
};

inline constexpr size_t kSassConfigureBytes = offsetof(SassConfigure, device) + 4;
inline constexpr size_t kSassForgetBytes = offsetof(SassForget, device) + 4;
inline constexpr size_t kSassEnableBytes = offsetof(SassEnable, lazy) + 1;
inline constexpr size_t kSassFlushBytes = offsetof(SassFlush, record);

static_assert(sizeof(SassProperties) == 56 && sizeof(SassConfig) == 16);
static_assert(kSassConfigureBytes == 36 && kSassForgetBytes == 20 && kSassEnableBytes == 25);
static_assert(sizeof(SassDisable) == 32 && sizeof(SassExtent) == 40 && sizeof(SassValue) == 16);
static_assert(sizeof(SassRecord) == 48 && sizeof(SassFlush) == 48 && kSassFlushBytes == 40);

} // namespace cupti
} // namespace tileprof
