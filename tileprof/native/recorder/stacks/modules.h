// Libraries and the program that are or were loaded: where each lay, and what its file is called.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tileprof {

struct Module {
  std::string name;      // as the dynamic linker has it
  std::string path;      // of the file; a name in brackets for code without one
  std::string build_id;  // as the linker wrote it, in hexadecimal; may be empty
  uintptr_t bias = 0;    // what is added to the file's addresses
  uintptr_t begin = 0, end = 0;
  bool driver = false;       // of NVIDIA's driver, of CUPTI, or ourselves: what is in them is no news
  bool starts_threads = false;  // of the libraries of C and C++, or of Python's interpreter
};

// Where an instruction is: its module, and the address in its file.
struct CodePlace {
  static constexpr uint32_t kNowhere = 0;
  static constexpr unsigned kBits = 48;
  uint32_t module = kNowhere;
  uint64_t address = 0;
  uint64_t packed() const { return uint64_t(module) << kBits | address; }
};

class Modules {
public:
  Modules();
  // Counts the changes of what is loaded, as far as they have been noticed.
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Looks whether something was loaded or unloaded; whether that is so.
  bool refresh();
  CodePlace place_of(uintptr_t address) const;
  // The module of that number, from 0 on; the first stands for code that belongs to none.
  Module at(uint32_t number) const;
  uint32_t size() const;
  void after_fork() { new (&mutex_) std::mutex; }

private:
  // Never held while the dynamic linker is asked: its lock may be held by who waits for this one.
  mutable std::mutex mutex_;
  std::vector<Module> all_;
  std::vector<uint32_t> loaded_;  // in the order of their addresses
  std::atomic<uint64_t> changes_{0};  // as the dynamic linker counts
  std::atomic<uint32_t> generation_{0};
};

} // namespace tileprof
