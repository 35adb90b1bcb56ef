// Fatal signals: SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS. What the black box is told: which one,
// where, in which thread, by whose calls. What the host sees: nothing. A signal that was at its default still ends the
// process, with the same status and the same core; an application's handler is called as the kernel would have called
// it, with its own mask, flags, stack and siginfo; one that is installed later replaces ours.
//
// Alternate stacks are the host's business: ours runs on the one that a thread has, and a thread that overflows its
// stack without one dies without words, as it would have died without us.
#pragma once

#include <cstdint>

namespace ncclwatch::shim {

struct Box;

// A thread that dies leaves so many bytes of its stack. Takes the signals, once per program: fork children inherit the
// handlers, which are silent there until the child has a box of its own.
void CatchFatalSignals(Box& box, std::uint32_t stack_bytes);

// While a library begins that installs its own where it finds the default only, and is silent otherwise: Open MPI in
// MPI_Init. Those that it installs tell the user of the signal and end the process by it.
void LendFatalSignals();
void TakeFatalSignalsBack();

}  // namespace ncclwatch::shim
