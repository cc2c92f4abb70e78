// The part of CUPTI's interface that samples hardware counters over time (PM sampling), and what
// turns samples into values of metrics: structures and numbers, declared anew. Each structure says
// its own size: where its last field ends, which may be before the padding behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace tileprof {
namespace cupti {

// A sample every so many nanoseconds; a full buffer keeps what it has, and says so.
inline constexpr uint32_t kEachInterval = 1, kKeepOldest = 0;
// Why a decoding ended: the image was full.
inline constexpr uint32_t kImageFull = 1;
// Purposes of a host object.
inline constexpr uint32_t kForPmSampling = 1;

struct PmEnable {
  size_t size;
  void *own;
  size_t device;
  void *sampler;
};
struct PmSampler {  // of starting, stopping and disabling
  size_t size;
  void *own, *sampler;
};
struct PmConfig {
  size_t size;
  void *own, *sampler;
  size_t config_bytes;
  const uint8_t *config;
  size_t buffer_bytes;
  uint64_t interval;  // ns
  uint32_t trigger, append;
};
struct PmImageSize {
  size_t size;
  void *own, *sampler;
  const char **metrics;
  size_t count;
  uint32_t most_samples;
  size_t bytes;
};
struct PmImage {
  size_t size;
  void *own, *sampler;
  size_t bytes;
  uint8_t *image;
};
struct PmDecode {
  size_t size;
  void *own, *sampler;
  uint8_t *image;
  size_t bytes;
  uint32_t reason;
  uint8_t overflow;
};
struct PmImageInfo {
  size_t size;
  void *own;
  const uint8_t *image;
  size_t bytes, room, populated, completed;
};
struct PmSampleInfo {
  size_t size;
  void *own, *sampler;
  const uint8_t *image;
  size_t bytes, index;
  uint64_t start, end;
};
struct HostStart {
  size_t size;
  void *own;
  uint32_t kind;
  const char *chip;
  const uint8_t *availability;
  void *host;
};
struct HostEnd {
  size_t size;
  void *own, *host;
};
struct HostValues {
  size_t size;
  void *own, *host;
  const uint8_t *image;
  size_t bytes, index;
  const char **metrics;
  size_t count;
  double *values;
};

inline constexpr size_t kPmDecodeBytes = offsetof(PmDecode, overflow) + 1;

static_assert(sizeof(PmEnable) == 32 && sizeof(PmSampler) == 24 && sizeof(PmConfig) == 64);
static_assert(offsetof(PmConfig, interval) == 48 && offsetof(PmConfig, append) == 60);
static_assert(sizeof(PmImageSize) == 56 && offsetof(PmImageSize, bytes) == 48);
static_assert(sizeof(PmImage) == 40 && kPmDecodeBytes == 45 && offsetof(PmDecode, reason) == 40);
static_assert(sizeof(PmImageInfo) == 56 && sizeof(PmSampleInfo) == 64);
static_assert(sizeof(HostStart) == 48 && sizeof(HostEnd) == 24 && sizeof(HostValues) == 72);

} // namespace cupti
} // namespace tileprof
