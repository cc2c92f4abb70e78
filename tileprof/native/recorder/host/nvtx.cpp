// NVTX ranges of the program, as entries of its threads.
//
// In: calls of NVTX by any library of the process. Each has a copy of NVTX of its own, which at its
// first use loads the library that NVTX_INJECTION64_PATH names and hands it a table of functions.
// That variable is set to the module's SONAME instead of its path (profiler/device/nvtx.py): where the
// module is loaded the dynamic linker finds it by that name, and a child process that inherits the
// variable but is not profiled finds nothing, and its NVTX does what it does without a tool.
//
// Marks, categories, and names of threads and resources are left to NVTX, which ignores them.
#include <cstdlib>
#include <string_view>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "host/nvtx_api.h"
#include "host/recorder.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

using namespace nvtx;

// Whether Python has loaded the module: in a process of another Python it must do nothing.
bool imported = false;
std::atomic<uint32_t> attached{0};

bool recording() { return recorder().epoch.load(std::memory_order_relaxed) != 0; }

// -- names

std::string utf8(const wchar_t *wide) {
  std::string text;
  for (; *wide; ++wide) {
    const uint32_t c = uint32_t(*wide);
    if (c < 0x80) {
      text += char(c);
    } else if (c < 0x800) {
      text += {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
    } else if (c < 0x10000) {
      text += {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    } else {
      text += {char(0xF0 | (c >> 18 & 7)), char(0x80 | (c >> 12 & 0x3F)),
               char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    }
  }
  return text;
}

// PyTorch's ranges say the number of each call, in which no two calls are the same.
std::string_view without_number(std::string_view text) {
  return text.substr(0, text.find(", seq = "));
}

NameId name_of(const char *text) {
  return recorder().names.intern(text ? without_number(text) : "");
}
NameId name_of(const wchar_t *wide) { return name_of(wide ? utf8(wide).c_str() : ""); }

// Handles of domains and registered strings are the numbers of their names; nullptr is the domain
// of those who have none.
Handle *handle_of(NameId name) { return reinterpret_cast<Handle *>(uintptr_t(name) + 1); }
NameId name_of(Handle *handle) {
  return handle ? NameId(reinterpret_cast<uintptr_t>(handle) - 1) : name_of("");
}

NameId name_of(const Attributes *attributes) {
  if (!attributes || attributes->size < sizeof(Attributes)) return name_of("");
  switch (attributes->message_type) {
  case kText: return name_of(attributes->message.text);
  case kWide: return name_of(attributes->message.wide);
  case kRegistered: return name_of(attributes->message.registered);
  default: return name_of("");
  }
}

// -- ranges that are pushed and popped

// Ranges that a thread has pushed in a domain, also while nobody records: 0 for one that the recorder
// does not know, so that pops go with their pushes.
struct Pushed {
  Handle *domain;
  std::vector<uint64_t> ranges;
};

std::vector<uint64_t> &pushed_in(Handle *domain) {
  // Never freed: ranges may be popped by destructors that run when the thread's own are gone.
  thread_local auto *all = new std::vector<Pushed>;
  for (Pushed &each : *all)
    if (each.domain == domain) return each.ranges;
  return all->emplace_back(Pushed{domain, {}}).ranges;
}

// Both return the depth of the range in its domain, from 0.
template <typename Message> int push(Handle *domain, Message message) {
  uint64_t range = 0;
  if (recording()) range = this_thread().open_range(name_of(message), name_of(domain));
  std::vector<uint64_t> &ranges = pushed_in(domain);
  ranges.push_back(range);
  return int(ranges.size()) - 1;
}

int pop(Handle *domain) {
  std::vector<uint64_t> &ranges = pushed_in(domain);
  if (ranges.empty()) return -1;
  const uint64_t range = ranges.back();
  ranges.pop_back();
  if (range) this_thread().close_range(range);
  return int(ranges.size());
}

// -- ranges that are started and ended, by any thread

struct Started {
  std::atomic<uint64_t> id{0};  // 0: free
  std::atomic<Thread *> thread{nullptr};
  std::atomic<uint64_t> range{0};
};

// A range has the slot of its number, or one of the next; where all are taken it is left out.
constexpr uint64_t kSlots = 4096, kTries = 64, kTaken = ~uint64_t(0);
Started started[kSlots];
std::atomic<uint64_t> numbers{0};

template <typename Message> uint64_t start(Handle *domain, Message message) {
  uint64_t id = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!recording()) return id;
  for (uint64_t tries = 0; tries < kTries; ++tries) {
    Started &slot = started[id % kSlots];
    uint64_t free = 0;
    if (slot.id.compare_exchange_strong(free, kTaken)) {
      Thread &thread = this_thread();
      slot.thread = &thread;
      slot.range = thread.open_range(name_of(message), name_of(domain));
      slot.id = slot.range ? id : 0;
      return id;
    }
    id = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  return id;
}

void end(uint64_t id) {
  Started &slot = started[id % kSlots];
  uint64_t expected = id;
  if (!id || !slot.id.compare_exchange_strong(expected, kTaken)) return;
  Thread *thread = slot.thread;
  const uint64_t range = slot.range;
  slot.id = 0;
  if (thread == &this_thread())
    thread->close_range(range);
  else
    thread->ended_elsewhere(range);
}

// -- the functions that NVTX calls

int push_ex(const Attributes *a) noexcept { return push(nullptr, a); }
int push_text(const char *text) noexcept { return push(nullptr, text); }
int push_wide(const wchar_t *text) noexcept { return push(nullptr, text); }
int pop_any() noexcept { return pop(nullptr); }
uint64_t start_ex(const Attributes *a) noexcept { return start(nullptr, a); }
uint64_t start_text(const char *text) noexcept { return start(nullptr, text); }
uint64_t start_wide(const wchar_t *text) noexcept { return start(nullptr, text); }
void end_any(uint64_t id) noexcept { end(id); }
int domain_push(Handle *domain, const Attributes *a) noexcept { return push(domain, a); }
int domain_pop(Handle *domain) noexcept { return pop(domain); }
uint64_t domain_start(Handle *domain, const Attributes *a) noexcept { return start(domain, a); }
void domain_end(Handle *, uint64_t id) noexcept { end(id); }
Handle *create_text(const char *name) noexcept { return handle_of(name_of(name)); }
Handle *create_wide(const wchar_t *name) noexcept { return handle_of(name_of(name)); }
Handle *register_text(Handle *, const char *text) noexcept { return handle_of(name_of(text)); }
Handle *register_wide(Handle *, const wchar_t *text) noexcept { return handle_of(name_of(text)); }

struct Callback {
  unsigned number;
  Function function;
};

template <typename F> Function plain(F *function) { return reinterpret_cast<Function>(function); }

const Callback kCoreCallbacks[] = {
    {kRangePushEx, plain(push_ex)},     {kRangePushA, plain(push_text)},
    {kRangePushW, plain(push_wide)},    {kRangePop, plain(pop_any)},
    {kRangeStartEx, plain(start_ex)},   {kRangeStartA, plain(start_text)},
    {kRangeStartW, plain(start_wide)},  {kRangeEnd, plain(end_any)},
};

const Callback kDomainCallbacks[] = {
    {kDomainRangePushEx, plain(domain_push)},      {kDomainRangePop, plain(domain_pop)},
    {kDomainRangeStartEx, plain(domain_start)},    {kDomainRangeEnd, plain(domain_end)},
    {kDomainRegisterStringA, plain(register_text)}, {kDomainRegisterStringW, plain(register_wide)},
    {kDomainCreateA, plain(create_text)},          {kDomainCreateW, plain(create_wide)},
};

template <size_t N>
bool attach(const CallbackTable &callbacks, int module, const Callback (&ours)[N]) {
  Function **table = nullptr;
  unsigned entries = 0;
  if (!callbacks.functions(module, &table, &entries) || !table) return false;
  for (const Callback &each : ours)
    if (each.number < entries && table[each.number]) *table[each.number] = each.function;
  return true;
}

void bind(nb::module_ &m) {
  imported = true;
  m.def("nvtx_attached", [] { return attached.load(); });
  // The variable as C sees it: os.environ is what it was when Python began.
  m.def("getenv", [](const std::string &name) {
    const char *value = getenv(name.c_str());
    return std::string(value ? value : "");
  });
  m.def("push_range", [](const std::string &name, const std::string &domain) {
    return push(domain.empty() ? nullptr : handle_of(name_of(domain.c_str())), name.c_str());
  });
  m.def("pop_range", [](const std::string &domain) {
    return pop(domain.empty() ? nullptr : handle_of(name_of(domain.c_str())));
  });
}

} // namespace

void bind_nvtx(nb::module_ &m) { bind(m); }

} // namespace tileprof

// Called by each copy of NVTX in the process, once. Returns 0 to be left alone.
extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(tileprof::nvtx::GetTable get_table) {
  using namespace tileprof;
  const auto *callbacks = static_cast<const CallbackTable *>(get_table(kCallbacks));
  if (!imported || !callbacks || callbacks->size < sizeof(CallbackTable)) return 0;
  if (!attach(*callbacks, kCore, kCoreCallbacks)) return 0;
  attach(*callbacks, kDomains, kDomainCallbacks);  // version 1 of NVTX has none
  const auto *versions = static_cast<const VersionTable *>(get_table(kVersions));
  if (versions && versions->set_tool_version) versions->set_tool_version(kVersion);
  attached.fetch_add(1);
  return 1;
}
