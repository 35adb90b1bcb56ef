// Which of the lines that match rules is the first cause, and what follows from it. Pure.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/known_bad/known_bad.h"
#include "analyzer/restart/restart.h"
#include "analyzer/triage/ends.h"
#include "analyzer/triage/finding.h"
#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

// A rank that wrote nothing more while the others went on.
struct Silent {
  int rank = -1;
  absl::Time at;
  std::string file;
  std::uint64_t line = 0;
};

// Templates of lines that matched rules in the logs of a run that went well: they mean nothing.
struct HarmlessLines {
  std::set<std::string> templates;
};
HarmlessLines BaselineOf(const std::vector<ScannedFile>& files);

// The first end, if no rule explains it, and what the rank wrote last.
struct Unexplained {
  RankEnd end;
  std::vector<std::string> lines;
};

struct Triage {
  std::uint64_t files = 0, bytes = 0;
  std::vector<TriageFinding> causes;  // the first cause first
  std::vector<TriageFinding> echoes, confirmations;
  std::vector<Silent> silent;
  std::vector<RankEnd> ended;  // by time
  std::optional<Unexplained> unexplained;
  std::optional<Restart> restart;     // nullopt: nothing failed
  bool unknown = false;               // something failed, and no rule says why
  bool succeeded = false;             // the job says that it has done its work
  bool fell_silent = false;           // unknown, and all stopped writing in the midst of their work
  std::vector<KnownBad> known_bad;    // versions.h finds them
  std::vector<std::string> failures;  // files that could not be read, and why
};

Triage Judge(const std::vector<Rule>& rules, std::vector<ScannedFile> files, const HarmlessLines& baseline = {});

}  // namespace ncclwatch::analyzer
