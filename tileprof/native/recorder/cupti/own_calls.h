// Calls of CUPTI's that are the recorder's own: what they do on their thread is no work of the
// program's, and its callbacks are not listened to.
#pragma once

namespace tileprof {

class OwnCall {
public:
  OwnCall() { under_way() = true; }
  ~OwnCall() { under_way() = before_; }
  OwnCall(const OwnCall &) = delete;
  OwnCall &operator=(const OwnCall &) = delete;

  // Whether this thread is in one.
  static bool &under_way() {
    thread_local bool inside = false;
    return inside;
  }

private:
  bool before_ = under_way();
};

} // namespace tileprof
