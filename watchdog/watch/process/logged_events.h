// What the program says has happened (ncclwatch/annotate.h), from its own black box into events.jsonl.
#pragma once

#include <cstdint>

#include "ncclwatch/format/event.h"
#include "watchdog/watch/base/event_file.h"

namespace ncclwatch::watch {

class LoggedEvents {
 public:
  explicit LoggedEvents(const Context& context)
      : context_(context), events_(format::OwnEvents(context.own)), file_(context) {}
  void Update();  // at every tick

 private:
  enum class Outcome { kTaken, kNotYet, kLost };
  Outcome Take(std::uint64_t number);
  void SayLosses();

  const Context& context_;
  format::Events* const events_;  // of the own box; null: there are none
  EventFile file_;
  std::uint64_t next_ = 0;
  std::uint64_t lost_ = 0;  // overwritten before they could be taken
  std::uint64_t cut_ = 0;   // details that were too long, or no JSON
  bool said_lost_ = false, said_cut_ = false;
};

}  // namespace ncclwatch::watch
