// Lines of events.jsonl: into the run directory at once; into NCCLWATCH_OUT by a thread of its own, since a shared file
// system may hang. A full file is renamed to events.1.jsonl, and the one that had this name is removed. The next file
// then begins with an event `events_dropped`, which counts all lines that were removed since the job began.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "watchdog/watch/base/context.h"

namespace ncclwatch::watch {

inline constexpr char kEventFile[] = "events.jsonl", kOlderEventFile[] = "events.1.jsonl";
// Of either file in the run directory, which lies in shared memory. All processes of the node share it.
inline constexpr std::uint64_t kMostEventBytes = 2 << 20;

struct EventLine {
  std::int64_t realtime_ns = 0;
  std::string_view type;
  std::int64_t step = format::kNoStep;
  int rank = format::kNoRank;
  std::string_view host;
  std::string_view details;  // JSON
  bool into_out = true;      // else into the run directory alone: another node writes it to NCCLWATCH_OUT
};

class EventFile {
 public:
  explicit EventFile(const Context& context) : context_(context) {}
  void Write(const EventLine& line);
  // Hands on what waits for NCCLWATCH_OUT. True: nothing is on its way any more.
  bool Flush();

 private:
  void SayOnce(const std::string& why);

  const Context& context_;
  std::string waiting_;                      // lines for NCCLWATCH_OUT
  std::shared_ptr<std::atomic<bool>> done_;  // of the thread; null: there is none
  bool said_ = false;
};

}  // namespace ncclwatch::watch
