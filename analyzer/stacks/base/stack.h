// What was read of a process's threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/stacks/base/registers.h"

namespace ncclwatch::stacks {

struct Frame {
  struct Variable {
    std::string name;
    std::int64_t value = 0;
  };
  enum class Kind : std::uint8_t { kNative, kPython, kFolded };
  Kind kind = Kind::kNative;
  std::string function;  // demangled and shortened; empty if it has no symbol; of kFolded the whole line

  std::vector<Variable> numbers;  // local variables, if they were asked for

  // kNative
  std::uint64_t address = 0;  // in the process; for a caller the instruction after the call
  std::string module;         // file name without folders, empty in anonymous memory
  std::string module_path;
  std::uint64_t module_address = 0;   // as addr2line takes it: inside the call for a caller
  bool guessed = false;               // found on the stack by likeness, not by unwind tables
  Registers registers;                // that are known there
  std::optional<std::uint64_t> base;  // the stack pointer before the call of this function

  // kPython
  std::string file;
  int line = 0;             // 0 unknown
  std::uint64_t group = 0;  // address of the object in its variable `group`
};

enum class How : std::uint8_t {
  kNotRead,
  kSleeping,  // it slept meanwhile: read without touching it
  kStopped,   // stopped by ptrace for some microseconds
  kPartly,    // without its registers, as it could not or must not be stopped: frames may be missing or guessed
};

struct Thread {
  int tid = 0;
  std::string name;
  char state = '?';      // R S D T t Z X I as /proc has it
  std::string channel;   // wait channel in the kernel, empty if it does not tell
  std::string call;      // system call it is in with what matters of its arguments: "read(7: pipe)"; empty: none
  std::string waits_on;  // a sentence on who could end the wait, where that is known
  How how = How::kNotRead;
  std::string trouble;        // why frames are missing, empty if none are
  std::vector<Frame> frames;  // innermost first
  bool cut = false;           // there were more frames than are kept
};

struct ProcessStacks {
  int pid = 0;
  std::uint64_t start_time = 0;  // field 22 of /proc/PID/stat
  std::int32_t rank = -1;        // of the job; -1 unknown
  std::string host;
  std::int64_t at_ns = 0;            // CLOCK_MONOTONIC
  std::string command;               // command line, cut
  std::vector<std::string> state;    // sentences on what holds the process up, most telling first
  std::vector<std::string> figures;  // ... and on what it uses, and runs on
  std::string python;                // version and who holds its lock, empty if it has none
  bool python_holds = false;         // another thread holds its lock, or it could not be read
  std::string trouble;               // why it could not be read, empty if it could
  int matters = 0;                   // the thread that matters: tid
  std::vector<Thread> threads;       // the one that matters first, then by tid
};

}  // namespace ncclwatch::stacks
