// What replay.cpp has for the functions of pcs.cpp; nothing where no test replays.
#pragma once

#include <string>
#include <vector>

#include "fake.h"
#include "pc_layout.h"

// Loads a module; what its samples will name it by.
API uint64_t fake_load(const uint8_t *cubin, size_t size);

struct KeptStall {
  uint32_t number;
  std::string name;
};
const std::vector<KeptStall> &kept_stalls();
// Whether there was a read to hand over, and then CUPTI's answer.
bool replay_read(Data &data, int32_t &result);
// Whether there was something when sampling was disabled.
bool replay_last(Data &data);
void reset_replay();
