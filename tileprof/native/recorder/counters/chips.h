// Why counters cannot be read although CUPTI refused nothing.
#pragma once

#include <string>

#include "counters/cupti_range.h"

namespace tileprof {

// Beside CUPTI's own codes: the device is of another kind than counters were chosen for; the loaded
// version lacks a function for counters of launches or by instruction.
inline constexpr CuptiResult kOtherChip = -11, kCannotCount = -12;

// 0, or a code with what it is about.
inline CuptiResult chip_problem(const Cupti &cupti, uint32_t device, const std::string &wanted,
                                std::string &text) {
  cupti::ChipName parameters{sizeof(parameters), nullptr, device, nullptr};
  const CuptiResult result = cupti.chip_name(&parameters);
  const std::string name = parameters.name ? parameters.name : "?";
  if (result != cupti::kSuccess)
    text = "cuptiDeviceGetChipName: " + cupti.text_of(result);
  else if (name != wanted)
    text = "device " + std::to_string(device) + " is a " + name +
           ", and counters were chosen for a " + wanted;
  else
    return cupti::kSuccess;
  return result != cupti::kSuccess ? result : kOtherChip;
}

} // namespace tileprof
