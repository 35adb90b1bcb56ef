// The terminal of `ncclwatch top`: lines on it, keys from it. Left as it was found, also by Ctrl-C and for Ctrl-Z.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "analyzer/top/frame.h"

namespace ncclwatch::analyzer::top {

// One at a time. SIGINT and SIGTERM have handlers by then (jobs/signals.h): the curses library leaves those alone.
class Screen {
 public:
  // Of stdin and stdout. Unavailable: nothing is known of this terminal.
  static absl::StatusOr<std::unique_ptr<Screen>> Open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::size_t width() const;
  std::size_t height() const;
  void Show(const Frame& frame);
  // The next key within that time; kNone if there is none, or a signal came.
  Press Wait(std::chrono::milliseconds within);

 private:
  explicit Screen(void* screen) : screen_(screen) {}
  void* screen_;  // SCREEN: its header's macros stay out of this one
};

}  // namespace ncclwatch::analyzer::top
