// SIGTERM, where the application leaves it at its default. A launcher that finds a rank dead sends it to the others
// within a millisecond, the leader among them, and what the leader has just seen would be lost. So the process ends by
// it as before, but once its watchdog has looked a last time: within some 40 ms, kPatience_ms at most. A second SIGTERM
// ends it at once. docs/adr/0007 has the reasons.
#pragma once

#include <cstdint>

namespace ncclwatch::watch {

class SigtermDelay {
 public:
  static constexpr int kPatience_ms = 150;

  // Takes the signal if it is at its default. Not in process 1 of a container, to which the default means nothing.
  static void Offer();
  // The signal has come, and a thread of the application waits in its handler.
  static bool Asked();
  // Lets it go on: the process ends.
  static void Answer();
  // The signal has been waiting for a while for a thread that cannot take it: uninterruptible, in the kernel. At its
  // default it would have ended the process at once. Called by the watchdog's thread at every tick.
  static bool IsStuck(std::int64_t now_ns);
  // Ends the process by the signal, from this thread, if it is still waiting.
  static void TakeStuck();
  // The watchdog ends: nobody would answer.
  static void Withdraw();
};

}  // namespace ncclwatch::watch
