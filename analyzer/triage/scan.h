// What one log file says: the lines that match rules, and how each process in it wrote last.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/triage/log_file.h"
#include "analyzer/triage/matcher.h"

namespace ncclwatch::analyzer {

// How the logger that wrote a line rated it; kNone: the line does not say.
enum class LogLevel { kNone, kInfo, kWarning, kError };

// A line that matches a rule, or the end of a traceback.
struct Match {
  std::size_t rule = 0;  // index into the matcher's rules
  int rank = -1;         // -1: not known
  int local_rank = -1;
  int pid = -1;
  std::size_t stream = 0;        // of its file
  std::string host;              // empty: not known
  std::optional<absl::Time> at;  // of the line, or of the last one before it that has a time
  bool own_time = false;         // it is the line's own
  LogLevel level = LogLevel::kNone;
  bool exception = false;  // it ends a traceback, or stands where a program's last words stand
  bool caught = false;     // the line behind it says that the program lives with the exception
  bool chained = false;    // raised while an exception that was reported before was handled
  std::string file;
  std::uint64_t line = 0;  // from 1
  std::string text;
  LineFields fields;
  std::uint64_t times = 1;  // that the same process's lines match this rule
};

// A line near the end of a stream.
struct TailLine {
  enum class Kind {
    kOrdinary,  // the program does or says something
    kProgress,  // a step, an epoch, a loss
    kOther,     // warnings, frames, what libraries write while a process ends
  };
  std::uint64_t line = 0;
  std::string text;
  Kind kind = Kind::kOther;
};

// The lines of one process in one file, or those of which nobody knows whose they are.
struct Stream {
  int rank = -1, local_rank = -1, pid = -1;  // -1: not known
  std::string host;
  std::uint64_t lines = 0, last_line = 0;                    // last_line: its number
  std::optional<absl::Time> first_at, last_at, progress_at;  // progress_at: of the last line of progress
  std::vector<TailLine> tail;                                // the last ones that have text, the newest last

  bool is_process() const { return rank >= 0 || local_rank >= 0 || pid >= 0; }
};

struct ScannedFile {
  LogFile file;
  std::vector<Match> matches;   // by line
  std::vector<Stream> streams;  // the first: lines without a prefix, or all
  std::map<int, int> ranks_of_pids;
  std::map<std::pair<std::string, std::string>, int> ranks_of_gpus;  // by host and PCI bus, "1b"
  int named_rank = -1;      // the only one that its first lines name as the writer's
  bool kernel = false;      // a log of the kernel
  std::optional<int> year;  // of its first date that has one; without it times are of the year that was given
  std::string error;        // why it could not be read to its end
  std::uint64_t bytes = 0;
};

// Thread-safe. `year`: of time stamps that have none. `read` grows by the size of the file.
ScannedFile ScanLog(const Matcher& matcher, const LogFile& file, int year, std::atomic<std::uint64_t>* read);

}  // namespace ncclwatch::analyzer
