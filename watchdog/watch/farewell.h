// SIGTERM, where the application leaves it at its default. A launcher that finds a rank dead sends it to the others
// within a millisecond, the leader among them, and what the leader has just seen would be lost. So the process ends by
// it as before, but once its watchdog has looked a last time: within some 40 ms, kPatience_ms at most. A second SIGTERM
// ends it at once. docs/adr/0007 has the reasons.
#pragma once

namespace ncclwatch::watch {

class Farewell {
 public:
  static constexpr int kPatience_ms = 150;

  // Takes the signal if it is at its default. Not in process 1 of a container, to which the default means nothing.
  static void Offer();
  // The signal has come, and a thread of the application waits in its handler.
  static bool Asked();
  // Lets it go on: the process ends.
  static void Answer();
  // The watchdog ends: nobody would answer.
  static void Withdraw();
};

}  // namespace ncclwatch::watch
