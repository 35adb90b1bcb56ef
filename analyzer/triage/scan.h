// What one log file says: the lines that match rules, and when each of its ranks wrote last.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
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
  std::string host;              // empty: not known
  std::optional<absl::Time> at;  // of the line, or of the last one before it that has a time
  bool own_time = false;         // it is the line's own
  LogLevel level = LogLevel::kNone;
  bool exception = false;  // it ends a traceback, or stands where a program's last words stand
  bool chained = false;    // raised while an exception that was reported before was handled
  std::string file;
  std::uint64_t line = 0;  // from 1
  std::string text;
  LineFields fields;
  std::uint64_t times = 1;  // that the same rank's lines match this rule
};

// The last line with a time of one rank.
struct LastLine {
  absl::Time first_at, at;
  std::string file;
  std::uint64_t line = 0;
  std::uint64_t lines = 0;  // with a time or without
};

// A line near the end of a file.
struct TailLine {
  int rank = -1;  // of its prefix
  std::uint64_t line = 0;
  std::string text;
  bool progress = false;  // a step, an epoch, a loss: the program runs
};

struct ScannedFile {
  LogFile file;
  std::vector<Match> matches;    // by line
  std::map<int, LastLine> last;  // by rank; -1: unknown
  std::map<int, int> ranks_of_pids;
  std::vector<TailLine> tail;  // the last lines that have text
  bool kernel = false;         // a log of the kernel
  std::string error;           // why it could not be read to its end
  std::uint64_t bytes = 0;
};

// Thread-safe. `year`: of time stamps that have none. `read` grows by the size of the file.
ScannedFile ScanLog(const Matcher& matcher, const LogFile& file, int year, std::atomic<std::uint64_t>* read);

}  // namespace ncclwatch::analyzer
