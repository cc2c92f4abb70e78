// The part of CUPTI's interface that reads hardware counters of launches: structures and numbers,
// declared anew. Each structure says its own size: where its last field ends, which may be before
// the padding behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace tileprof {
namespace cupti {

// A range for each launch, which is repeated until all counters have been read.
inline constexpr uint32_t kAutoRange = 1, kKernelReplay = 2;

struct ProfilerStart {
  size_t size;
  void *own;
};
struct ChipName {
  size_t size;
  void *own;
  size_t device;
  const char *name;
};
struct RangeEnable {
  size_t size;
  void *own, *context, *profiler;
};
struct RangeProfiler {  // of starting and disabling
  size_t size;
  void *own, *profiler;
};
struct RangeStop {
  size_t size;
  void *own, *profiler;
  size_t pass, level;
  uint8_t complete;
};
struct RangeDecode {
  size_t size;
  void *own, *profiler;
  size_t dropped;
};
struct RangeImageSize {
  size_t size;
  void *own, *profiler;
  const char **metrics;
  size_t count, most_ranges;
  uint32_t most_nodes;
  size_t bytes;
};
struct RangeImage {
  size_t size;
  void *own, *profiler;
  size_t bytes;
  uint8_t *image;
};
struct RangeConfig {
  size_t size;
  void *own, *profiler;
  size_t config_bytes;
  const uint8_t *config;
  size_t image_bytes;
  uint8_t *image;
  uint32_t range, replay;
  size_t most_ranges;
  uint16_t levels, least_level;
  size_t pass;
  uint16_t level;
};

inline constexpr size_t kRangeStopBytes = offsetof(RangeStop, complete) + 1;
inline constexpr size_t kRangeConfigBytes = offsetof(RangeConfig, level) + 2;

static_assert(sizeof(ProfilerStart) == 16 && sizeof(ChipName) == 32 && sizeof(RangeEnable) == 32);
static_assert(sizeof(RangeProfiler) == 24 && kRangeStopBytes == 41 && sizeof(RangeDecode) == 32);
static_assert(sizeof(RangeImageSize) == 64 && sizeof(RangeImage) == 40 && kRangeConfigBytes == 90);

} // namespace cupti
} // namespace tileprof
