// SIGUSR2, where the application leaves it at its default: evidence of the whole node is wanted now. What the
// application has installed, or installs later, stays; a process that does not use NCCL ends by the signal as ever.
#pragma once

namespace ncclwatch::watch {

class AskSignal {
 public:
  // Takes the signal if it is at its default.
  static void Offer();
  // True once for each time that it has come, or for several at once. For the watchdog's every turn: nothing wakes it,
  // since it looks within 40 ms.
  static bool Taken();
  // The watchdog ends: the signal means again what it meant before.
  static void Withdraw();
};

}  // namespace ncclwatch::watch
