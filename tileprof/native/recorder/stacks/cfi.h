// How a return address leads to the caller's frame, read from the call frame information that
// compilers write for exceptions (.eh_frame; DWARF 5, section 6.4).
#pragma once

#include <cstdint>

namespace tileprof {

// Steps that a rule describes need the stack pointer and the frame pointer of the frame alone.
enum class Step : uint8_t {
  unknown,     // no information about this address
  by_sp,       // the frame's end is the stack pointer plus `end`
  by_fp,       // the frame pointer plus `end`
  through_fp,  // what memory holds at the frame pointer plus `end`: frames that are aligned anew
  outermost,   // nothing called it
  other,       // needs further registers: left to the library's unwinder
};

enum class SavedFp : uint8_t { no, from_end, from_fp };

// Distances are in bytes. The frame's end (DWARF: CFA) is the stack pointer before the call, so that
// the return address lies 8 bytes below it.
struct Rule {
  Step step = Step::unknown;
  SavedFp saved = SavedFp::no;
  int32_t end = 0;
  int32_t fp = 0;  // where the caller's frame pointer was saved

  // Distances have 28 bits.
  static constexpr int32_t kMost = (1 << 27) - 1;
  uint64_t packed() const {
    return uint64_t(step) | uint64_t(saved) << 3 | uint64_t(uint32_t(end) & 0xFFFFFFF) << 8 |
           uint64_t(uint32_t(fp) & 0xFFFFFFF) << 36;
  }
  static Rule of(uint64_t packed) {
    auto distance = [](uint64_t bits) { return int32_t(uint32_t(bits) << 4) >> 4; };
    return {Step(packed & 7), SavedFp(packed >> 3 & 3), distance(packed >> 8),
            distance(packed >> 36)};
  }
};

// The rule of a return address. Takes no lock that the program could hold while it calls us: at most
// the dynamic linker's own around its list of libraries.
Rule rule_of(uintptr_t return_address);

} // namespace tileprof
