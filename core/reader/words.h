// What a process said of its own end (format/last_words.h), copied into plain values. Instants are CLOCK_MONOTONIC
// nanoseconds of the node that wrote the box.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ncclwatch/format/last_words.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::reader {

struct Layout;

struct Frame {
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::string module;  // its path, empty if unknown
};
// "train+0x1234", or the bare address.
std::string FrameText(const Frame& frame);

struct FatalSignal {
  std::int64_t at_ns = 0;
  std::uint64_t fault_address = 0;
  std::uint64_t stack_pointer = 0;
  std::int32_t signal = 0;
  std::int32_t code = 0;    // si_code
  std::int32_t sender = 0;  // pid, 0 unless it was sent
  std::uint32_t thread = 0;
  std::uint32_t flags = 0;  // format::SignalFlags
  std::string thread_name;
  std::vector<Frame> frames;  // innermost first
};

struct Exception {
  std::int64_t at_ns = 0;
  format::Language language{};
  std::uint32_t thread = 0;
  std::string type;  // as its language spells it; empty: std::terminate() without an exception
  std::string message;
  std::string place;  // "/path/file.py:12 in function", empty if unknown
};

struct FailedAllocation {
  std::int64_t at_ns = 0;
  std::int64_t recovered_ns = 0;  // 0: no allocation as large was seen to succeed afterwards
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;   // of the device right after
  std::uint64_t total_bytes = 0;  // 0: neither is known
  std::uint32_t function = 0;     // row of functions/cuda.def, or format::kNcclMemAlloc
  std::int32_t result = 0;
  std::int32_t device = -1;
  std::uint32_t thread = 0;
};

struct NcclError {
  std::int64_t at_ns = 0;
  std::uint64_t slot = 0;
  functions::Function function{};
  std::uint32_t communicator = 0;
  std::uint32_t generation = 0;
  std::int32_t result = 0;
  std::uint32_t thread = 0;
  bool asynchronous = false;
  std::string text;
};

// Of MPI, by the rules that hold for one process alone (format/misuse.h).
struct Misuse {
  std::int64_t at_ns = 0;
  std::uint64_t site = 0;
  std::uint64_t made_at = 0;
  std::int64_t value = 0;
  std::int64_t limit = 0;
  std::uint64_t times = 0;
  format::Wrong wrong{};
  functions::Function function{};
  functions::Function made_by{};
  std::uint32_t communicator = 0;
  std::uint32_t generation = 0;
  std::uint32_t thread = 0;
  std::int32_t result = 0;     // format::kNoResult: the call has not returned
  bool tells_program = false;  // where MPI refuses it the program is told, and goes on
  std::string site_name, made_at_name;
};

struct HostMemory {
  std::int64_t at_ns = 0;  // 0: not known
  std::uint64_t resident_bytes = 0;
  std::uint64_t available_bytes = 0;  // of the whole host, 0 unknown
};

// Each kind in order of time.
struct Words {
  bool catching = false;  // fatal signals were caught unless the application had taken them
  std::vector<FatalSignal> signals;
  std::vector<Exception> exceptions;
  std::vector<FailedAllocation> allocations;
  std::vector<NcclError> errors;
  std::vector<Misuse> misuses;
  std::uint64_t misuses_lost = 0;  // of further sorts than a box has room for
  HostMemory memory;               // as last seen
};

// Of a live or dead box; nothing of it is trusted. Empty for boxes of older writers.
Words CopyWords(const Layout& layout);
// The last instant at which anything was said, 0 if nothing was.
std::int64_t LastSaid(const Words& words);
// As if nothing after that instant had been said.
void RollBack(std::int64_t now_ns, Words* words);

}  // namespace ncclwatch::reader
