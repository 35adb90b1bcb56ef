// Stacks with what is of little interest folded: libraries into the call that was made of them, the beginnings of
// threads and the interpreter's own frames into one line.
#pragma once

#include <string>
#include <vector>

#include "analyzer/stacks/base/stack.h"
#include "watchdog/cpython/origin.h"

namespace ncclwatch::stacks {

enum class Group : std::uint8_t { kNone, kLibrary, kSystem, kPython, kOurs };
Group GroupOf(const Frame& frame);

using cpython::Origin;

struct Line {
  std::string text;
  bool python = false;
  bool noise = false;                // says nothing about the program: left out of short accounts
  Origin origin = Origin::kProgram;  // of Python code
};
// Innermost first.
std::vector<Line> Fold(const std::vector<Frame>& frames);

// "next_batch (train.py:57)", "poll (libc.so.6)", "libc.so.6+0x1234", with " ?" where the frame was guessed.
std::string ShortText(const Frame& frame);
// For a full list: with the whole path of a Python file, and the place in a module as addr2line takes it.
std::string FullText(const Frame& frame);

inline constexpr std::size_t kMostWhere = 6;
// The short account of where a thread stands, at most kMostWhere lines. In Python: the innermost line of the program
// itself, what it is in ("in Queue.get (queues.py:103)", "in poll (libc.so.6)"), and the lines that called it.
// Otherwise the native frames that say something, innermost first.
std::vector<std::string> Where(const Thread& thread);

// Text from elsewhere (file names, thread names) as one line without control characters.
std::string OneLine(const std::string& text);

}  // namespace ncclwatch::stacks
