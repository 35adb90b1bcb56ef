#include "watchdog/rundir/own_names.h"

#include <algorithm>
#include <iterator>

namespace ncclwatch::rundir {
namespace {

enum class Match { kName, kBeginning, kEnd };
struct Own {
  std::string_view text;
  Match match;
  bool routine;
};

constexpr Own kOwn[] = {
    {"job", Match::kName, true},
    {"job.", Match::kBeginning, true},
    {"latest", Match::kName, true},
    {".latest.", Match::kBeginning, true},
    {".trial.", Match::kBeginning, true},
    {"lease", Match::kBeginning, true},
    {"exchange", Match::kBeginning, true},
    {"collector", Match::kName, true},
    {"metrics", Match::kName, true},
    {"verdict.word", Match::kName, true},  // of several nodes, also of healthy ones
    {"ncclwatch.log", Match::kBeginning, true},
    {"events.jsonl", Match::kName, true},
    {"events.1.jsonl", Match::kName, true},
    {"meanwhile.", Match::kBeginning, true},
    {"machine.", Match::kBeginning, true},
    {"names.log", Match::kName, true},
    {"diagnosis.", Match::kBeginning, false},
    {"witness.txt", Match::kName, false},
    {".box", Match::kEnd, false},
    {".box.new", Match::kEnd, false},
    {".segments", Match::kEnd, false},
};

const Own* Find(std::string_view name) {
  name = name.substr(0, name.find(".draft."));  // of a writer that was killed
  const auto found = std::find_if(std::begin(kOwn), std::end(kOwn), [&](const Own& own) {
    if (own.match == Match::kName) return name == own.text;
    return own.match == Match::kBeginning ? name.starts_with(own.text) : name.ends_with(own.text);
  });
  return found == std::end(kOwn) ? nullptr : found;
}

}  // namespace

bool IsOwnFile(std::string_view name) { return Find(name) != nullptr; }

bool IsOwnFolder(std::string_view name) { return name == "stacks" || name == "evidence"; }

bool IsRoutineFile(std::string_view name) {
  const Own* const own = Find(name);
  return own && own->routine;
}

}  // namespace ncclwatch::rundir
