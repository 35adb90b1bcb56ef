// Questions that another process may never answer: /proc/PID/environ, cmdline and exe wait for a lock of its memory, or
// for a file system that is gone. /proc/PID/stat does not.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace ncclwatch::rundir {

// Asks the question elsewhere, and leaves it behind after a while: then false. It may go on alone, with what it owns.
// None: it is asked in this thread, for as long as it takes.
using Patience = std::function<bool(std::function<void()>)>;

template <class Answer>
std::optional<Answer> Asked(const Patience& patience, std::function<std::optional<Answer>()> ask) {
  if (!patience) return ask();
  auto answer = std::make_shared<std::optional<Answer>>();
  if (!patience([answer, ask = std::move(ask)] { *answer = ask(); })) return std::nullopt;
  return std::move(*answer);
}

}  // namespace ncclwatch::rundir
