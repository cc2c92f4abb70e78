// CUPTI, with what it hands over of sampled program counters kept in a file: pc_layout.h says how.
//
// It stands before the library that it is linked to, LIBRARY, from which all other functions come.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <mutex>
#include <vector>

#include "pc_layout.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

using Bytes = std::vector<uint8_t>;
using Crc = void (*)(const void *, size_t, uint64_t *);

std::mutex mutex;
FILE *file = nullptr;
Crc answering = nullptr;
Data *configured = nullptr;

template <typename F> F next(const char *name) {
  static void *library = dlopen(LIBRARY, RTLD_NOW);
  return reinterpret_cast<F>(dlsym(library, name));
}

void add(Bytes &to, const void *bytes, size_t size) {
  const uint8_t *at = static_cast<const uint8_t *>(bytes);
  to.insert(to.end(), at, at + size);
}

void keep(uint32_t kind, int32_t result, const Bytes &bytes) {
  std::lock_guard lock(mutex);
  if (!file) return;
  const Piece piece{kind, result, bytes.size()};
  const uint8_t zeros[8] = {};
  fwrite(&piece, sizeof(piece), 1, file);
  fwrite(bytes.data(), 1, bytes.size(), file);
  fwrite(zeros, 1, -bytes.size() % 8, file);
  fflush(file);
}

// The read in one piece, with places for pointers.
Bytes in_one(const Data &read) {
  const size_t records = read.records < read.room ? read.records : read.room;
  size_t stalls = 0;
  for (size_t i = 0; i < records; ++i) stalls += read.pc[i].stalls;
  size_t stall_at = sizeof(Data) + records * sizeof(Pc), name_at = stall_at + stalls * sizeof(Stall);
  Bytes held, behind, names;
  Data data = read;
  data.records = records;
  data.pc = reinterpret_cast<Pc *>(sizeof(Data));
  add(held, &data, sizeof(data));
  for (size_t i = 0; i < records; ++i) {
    Pc pc = read.pc[i];
    const char *name = pc.name ? pc.name : "";
    add(behind, pc.stall, pc.stalls * sizeof(Stall));
    pc.stall = reinterpret_cast<Stall *>(stall_at);
    pc.name = reinterpret_cast<char *>(name_at + names.size());
    add(names, name, strlen(name) + 1);
    stall_at += pc.stalls * sizeof(Stall);
    add(held, &pc, sizeof(pc));
  }
  add(held, behind.data(), behind.size());
  add(held, names.data(), names.size());
  return held;
}

void answer(const void *cubin, size_t size, uint64_t *crc) {
  answering(cubin, size, crc);
  Bytes held;
  add(held, crc, sizeof(*crc));
  add(held, cubin, size);
  keep(kModule, 0, held);
}

} // namespace

// Keeps all from now on in a file, nothing with nullptr.
API void keep_into(const char *path) {
  std::lock_guard lock(mutex);
  if (file) fclose(file);
  file = path ? fopen(path, "wb") : nullptr;
}

API int32_t cuptiRegisterComputeCrcCallback(Crc crc) {
  answering = crc;
  return next<int32_t (*)(Crc)>("cuptiRegisterComputeCrcCallback")(answer);
}
API int32_t cuptiPCSamplingGetStallReasons(Params *p) {
  const int32_t result = next<int32_t (*)(Params *)>("cuptiPCSamplingGetStallReasons")(p);
  Bytes held;
  char **names = static_cast<char **>(p->third);
  for (size_t i = 0; i < size_t(p->first); ++i) add(held, names[i], kStallName);
  add(held, p->second, size_t(p->first) * sizeof(uint32_t));
  keep(kStalls, result, held);
  return result;
}
API int32_t cuptiPCSamplingSetConfigurationAttribute(Params *p) {
  const Attribute *all = static_cast<const Attribute *>(p->second);
  for (size_t i = 0; i < size_t(p->first); ++i)
    if (all[i].type == kBufferAttribute) configured = reinterpret_cast<Data *>(all[i].value);
  return next<int32_t (*)(Params *)>("cuptiPCSamplingSetConfigurationAttribute")(p);
}
API int32_t cuptiPCSamplingGetData(Params *p) {
  const int32_t result = next<int32_t (*)(Params *)>("cuptiPCSamplingGetData")(p);
  const Data &read = *static_cast<const Data *>(p->first);
  if (read.records || read.total || read.full) keep(kRead, result, in_one(read));
  return result;
}
API int32_t cuptiPCSamplingDisable(Params *p) {
  const int32_t result = next<int32_t (*)(Params *)>("cuptiPCSamplingDisable")(p);
  if (configured) keep(kLast, result, in_one(*configured));
  configured = nullptr;
  return result;
}
