#include "analyzer/import/notes.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <functional>
#include <set>

#include "watchdog/diagnosis/model/text.h"

namespace ncclwatch::analyzer::import {
namespace {

using diagnosis::Plural;
using diagnosis::Ranks;

std::vector<std::int32_t> RanksWhere(const std::vector<Dump>& dumps, const std::function<bool(const Dump&)>& holds) {
  std::vector<std::int32_t> ranks;
  for (const Dump& dump : dumps)
    if (holds(dump)) ranks.push_back(dump.rank);
  return ranks;
}

bool AnyUnmatched(const Dump& dump) {
  for (const ProcessGroup& group : dump.groups)
    if (group.unmatched) return true;
  return false;
}

}  // namespace

void AddNotes(const std::vector<Dump>& dumps, const Membership& membership, reader::RunImage* run) {
  std::vector<std::string>& notes = run->notes;
  std::set<std::string> versions;
  std::uint64_t unknown = 0;
  for (const Dump& dump : dumps) {
    versions.insert(dump.version);
    unknown += dump.unknown;
  }
  notes.push_back(
      fmt::format("from dumps of torch's flight recorder ({}): they hold no reduction, root or stream, not whether a "
                  "process lives, "
                  "and no call before it is recorded, such as one that blocks in creating a communicator",
                  absl::StrJoin(versions, ", ")));
  notes.push_back("positions count from 0: torch's collective_seq_id is one more");
  if (run->untimed)
    notes.push_back(
        "when the dumps were written is not known, the files' times are not theirs (copy with `cp -p`): "
        "how long a call waited is not known, and no wait is more than suspected");
  const auto wrapped = RanksWhere(dumps, [](const Dump& dump) { return !dump.whole(); });
  if (!wrapped.empty())
    notes.push_back(Ranks(wrapped) +
                    ": the recorder's ring has wrapped: earlier calls are lost, and sends and "
                    "receives are not matched (TORCH_FR_BUFFER_SIZE makes it larger)");
  const auto unmatched = RanksWhere(dumps, AnyUnmatched);
  if (!unmatched.empty())
    notes.push_back(
        Ranks(unmatched) +
        ": receives from any rank, or messages before the first one recorded: sends and receives are not matched");
  for (const Group& group : membership.groups())
    if (group.guessed)
      notes.push_back(fmt::format("process group \"{}\": no dump tells its ranks; taken to be {}", group.label,
                                  Ranks(*group.ranks)));
  if (unknown > 0) notes.push_back(Plural(unknown, "call") + " of operations that are not known here: not compared");
}

}  // namespace ncclwatch::analyzer::import
