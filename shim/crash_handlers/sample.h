// What a thread leaves when a signal ends its process: its registers, the top of its stack, and where the modules are.
// The `ncclwatch` command unwinds it after the death. Async-signal-safe; one thread at a time.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "ncclwatch/format/last_words.h"

namespace ncclwatch::shim {

struct Box;

inline constexpr std::uint64_t kRedZone = 128;  // below the stack pointer, the function's own (x86-64)

// Outside of signal handlers: of a stack so many bytes are kept, none where it is 0.
void PrepareSample(const Box& box, std::uint32_t bytes);

// Where the frames of the main thread end: its arguments and the environment lie behind. 0: not known.
std::uint64_t MainStackEnd();

std::uint64_t StackPointerOf(const ucontext_t& context);
// Frame 0 of the entry: where the signal found the thread.
void WritePlace(Box& box, const ucontext_t& context, format::FatalSignal* entry);
// Appends a sample (format/sample.h) to the file of the box. False if there is no room, or if it is not wanted.
bool AppendSample(const Box& box, const ucontext_t& context, const format::FatalSignal& entry);
// Cuts off the sample of a signal that the application handled. Its entry has given way to newer ones.
void DropReplaceableSample(const Box& box);

}  // namespace ncclwatch::shim
