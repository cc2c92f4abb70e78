#include "stacks/modules.h"

#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <Python.h>

namespace tileprof {
namespace {

uint64_t changes_of(const dl_phdr_info *info) { return info->dlpi_adds + info->dlpi_subs; }

int count(dl_phdr_info *info, size_t, void *into) {
  *static_cast<uint64_t *>(into) = changes_of(info);
  return 1;
}

std::string build_id_in(const char *at, size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof(note));
    const size_t name = (note.n_namesz + 3) & ~size_t(3), held = (note.n_descsz + 3) & ~size_t(3);
    if (size - sizeof(note) < name + held) return {};
    const char *content = at + sizeof(note);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(content, "GNU", 4)) {
      std::string text;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        const unsigned byte = static_cast<unsigned char>(content[name + i]);
        for (unsigned digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
      }
      return text;
    }
    at = content + name + held;
    size -= sizeof(note) + name + held;
  }
  return {};
}

std::string file_of(const char *name) {
  char path[PATH_MAX] = {};
  if (!name || !*name) {
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    return length > 0 ? std::string(path, size_t(length)) : "[program]";
  }
  if (!strchr(name, '/')) return std::string("[").append(name).append("]");  // the kernel's own
  return realpath(name, path) ? path : name;
}

bool holds(const Module &module, uintptr_t address) {
  return address >= module.begin && address < module.end;
}

void describe(Module &module) {
  const std::string_view path = module.path;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  auto begins = [&](std::string_view text) { return file.substr(0, text.size()) == text; };
  static const int here = 0;
  module.driver = begins("libcuda.so") || begins("libcupti.so") || begins("libnvidia-") ||
                  holds(module, reinterpret_cast<uintptr_t>(&here));
  module.starts_threads = begins("libc.so") || begins("libstdc++.so") || begins("libpthread") ||
                          begins("ld-") || holds(module, reinterpret_cast<uintptr_t>(&PyObject_Call));
}

struct Found {
  uint64_t changes = 0;
  std::vector<Module> modules;
};

// Whether a part of a file lies in one that can be read in memory. Tools that edit files may leave
// notes that do not.
bool is_loaded(const dl_phdr_info &info, const ElfW(Phdr) &part) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr) &whole = info.dlpi_phdr[i];
    if (whole.p_type != PT_LOAD || !(whole.p_flags & PF_R)) continue;
    if (part.p_vaddr < whole.p_vaddr || part.p_memsz > whole.p_filesz) continue;
    if (part.p_vaddr - whole.p_vaddr <= whole.p_filesz - part.p_memsz) return true;
  }
  return false;
}

int find(dl_phdr_info *info, size_t, void *into) {
  Found &found = *static_cast<Found *>(into);
  found.changes = changes_of(info);
  Module module;
  module.bias = info->dlpi_addr;
  module.begin = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &part = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) {
      module.begin = std::min(module.begin, start);
      module.end = std::max(module.end, start + part.p_memsz);
    } else if (part.p_type == PT_NOTE && module.build_id.empty() && is_loaded(*info, part)) {
      module.build_id = build_id_in(reinterpret_cast<const char *>(start), part.p_memsz);
    }
  }
  if (module.begin >= module.end) return 0;
  module.name = info->dlpi_name ? info->dlpi_name : "";
  found.modules.push_back(std::move(module));
  return 0;
}

bool same(const Module &a, const Module &b) {
  return a.bias == b.bias && a.end == b.end && a.build_id == b.build_id && a.name == b.name;
}

} // namespace

Modules::Modules() { all_.push_back({"", "[generated code]", "", 0, 0, 0, false, false}); }

bool Modules::refresh() {
  uint64_t now = 0;
  dl_iterate_phdr(count, &now);
  if (now == changes_.load(std::memory_order_acquire)) return false;
  Found found;
  dl_iterate_phdr(find, &found);
  std::lock_guard lock(mutex_);
  if (found.changes <= changes_.load(std::memory_order_relaxed)) return true;  // another thread did
  std::vector<uint32_t> loaded;
  for (Module &module : found.modules) {
    auto known = std::find_if(loaded_.begin(), loaded_.end(),
                              [&](uint32_t number) { return same(all_[number], module); });
    // Unloaded ones stay: their code was called. One that comes back where it was is the same.
    uint32_t number = known != loaded_.end() ? *known : uint32_t(all_.size());
    for (uint32_t i = 1; number == all_.size() && i < all_.size(); ++i)
      if (same(all_[i], module)) number = i;
    if (number == all_.size()) {
      if (number >> (64 - CodePlace::kBits)) continue;
      module.path = file_of(module.name.c_str());
      describe(module);
      all_.push_back(std::move(module));
    }
    loaded.push_back(number);
  }
  std::sort(loaded.begin(), loaded.end(),
            [&](uint32_t a, uint32_t b) { return all_[a].begin < all_[b].begin; });
  loaded_ = std::move(loaded);
  generation_.fetch_add(1, std::memory_order_release);
  changes_.store(found.changes, std::memory_order_release);
  return true;
}

CodePlace Modules::place_of(uintptr_t address) const {
  std::lock_guard lock(mutex_);
  auto after = std::upper_bound(
      loaded_.begin(), loaded_.end(), address,
      [&](uintptr_t wanted, uint32_t number) { return wanted < all_[number].begin; });
  if (after == loaded_.begin()) return {};
  const Module &module = all_[*--after];
  if (!holds(module, address)) return {};
  return {*after, uint64_t(address - module.bias)};
}

Module Modules::at(uint32_t number) const {
  std::lock_guard lock(mutex_);
  return number < all_.size() ? all_[number] : Module{};
}

uint32_t Modules::size() const {
  std::lock_guard lock(mutex_);
  return uint32_t(all_.size());
}

} // namespace tileprof
