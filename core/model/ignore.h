// Findings that somebody knows and wants left out. A file of them (NCCLWATCH_IGNORE) has one a line:
//   KIND [call=PATTERN] [at=PATTERN] [communicator=PATTERN] [host=PATTERN]   # comment
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"

namespace ncclwatch::diagnosis {

struct IgnoreLine {
  std::string text;  // without its comment
  Kind kind{};
  // core/text/pattern.h; empty: any
  std::string call;          // "MPI_Type_vector" or "Type_vector"
  std::string at;            // where it is called: function, "file.c", "file.c:12" or "module+0x1234"
  std::string communicator;  // label or id
  std::string host;          // of all culprits

  bool operator==(const IgnoreLine&) const = default;
};

struct IgnoreList {
  std::vector<IgnoreLine> lines;
  std::vector<std::string> wrong;  // what is wrong with the others: "line 3: there is no kind 'leak'"
};
IgnoreList ParseIgnoreList(std::string_view text);

// Leaves out each finding all of whose calls have a line that matches, and counts it. A finding
// that explains one that is not left out stays.
void LeaveOut(const std::vector<IgnoreLine>& lines, std::vector<Finding>* findings,
              std::vector<IgnoredFindings>* ignored);
inline void LeaveOut(const std::vector<IgnoreLine>& lines, Diagnosis* diagnosis) {
  LeaveOut(lines, &diagnosis->findings, &diagnosis->ignored);
}
std::string IgnoredText(const std::vector<IgnoredFindings>& ignored);  // "2 known findings are left out"; empty: none

// The lines that would leave the finding out, one for each place. Empty if ranks stand still or are gone over it, and
// if only a line for all findings of its kind would.
std::vector<std::string> IgnoreLinesFor(const Finding& finding);

}  // namespace ncclwatch::diagnosis
