// Interface of NVTX 3 for tools: numbers and layouts of its interface for tools.
//
// Facts from the public headers, github.com/NVIDIA/NVTX (nvtxDetail/nvtxTypes.h, nvToolsExt.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tileprof::nvtx {

// Tables that a program's copy of NVTX shows a tool, by number.
using GetTable = const void *(*)(uint32_t table);
inline constexpr uint32_t kCallbacks = 1, kVersions = 3;

using Function = void (*)();

// The entries of a function table point to the pointers that NVTX calls through.
struct CallbackTable {
  size_t size;
  int (*functions)(int module, Function ***table, unsigned *entries);
};

struct VersionTable {
  size_t size;
  uint32_t version, reserved;
  void (*set_tool_version)(uint32_t version);
};

inline constexpr uint32_t kVersion = 3;
inline constexpr int kCore = 1, kDomains = 5;

// Entries of the table of the core, ranges outside of domains.
enum Core : unsigned {
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
};

// Entries of the table of domains.
enum Domains : unsigned {
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

enum Message : int32_t { kText = 1, kWide = 2, kRegistered = 3 };

// Made by the tool, opaque to the program.
struct Handle;

struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  union {
    const char *text;
    const wchar_t *wide;
    Handle *registered;
  } message;
};

} // namespace tileprof::nvtx
