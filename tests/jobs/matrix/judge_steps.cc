// Steps that a diagnosis counts, held against the program of the rank whose calls it has counted.
#include <fmt/core.h>

#include <cstdlib>

#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/simulator/scene.h"

namespace ncclwatch::jobs {
namespace {

using diagnosis::Finding;
using diagnosis::Step;

// Where the rank makes the collective: section, how many calls it has made in that before it, and the calls of a
// section that is as all are.
struct Place {
  int section = -1;
  std::uint64_t before = 0;
  std::uint64_t calls = 0;
  bool plain = true;  // the section has no more and no other calls than all have
};

std::uint64_t CallsIn(const Ops& ops) {
  std::uint64_t calls = 0;
  for (const Op& op : ops) calls += op.what == Do::kCall ? 1u : 0u;
  return calls;
}

std::optional<Place> PlaceOf(const Generated& made, int rank, std::uint64_t communicator, std::uint64_t position) {
  const Scene scene(made);
  int comm = -1;
  for (const LocalComm& own : made.world->rank(rank).comms)
    if (IdOf(scene, own.comm, own.ordinal) == communicator) comm = own.comm;
  std::uint64_t at = 0;
  for (int section = 0; comm >= 0 && section < made.job.sections(); ++section) {
    const Ops ops = made.job.Section(rank, section);
    Place place{.section = section, .calls = CallsIn(made.job.PlainSection(rank, 1))};
    place.plain = CallsIn(ops) == place.calls;
    for (const Op& op : ops) {
      const bool counts = IsCollective(op) && op.comm == comm && op.count > 0;
      if (counts && at++ == position) return place;
      place.before += op.what == Do::kCall ? 1u : 0u;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string WrongStep(const Generated& made, const Finding& finding) {
  if (!finding.step || !finding.communicator || !finding.position || finding.calls.empty()) return {};
  for (const diagnosis::CallSummary& call : finding.calls)
    if (call.peer) return {};  // positions of messages count for each peer
  const Step& step = *finding.step;
  const std::optional<Place> place = PlaceOf(made, step.rank, finding.communicator->id, *finding.position);
  if (!place) return {};
  const auto number = static_cast<std::int64_t>(step.number);
  const std::string reported = fmt::format("step {}, call {} of {} of rank {}{}; it is step {}, call {} of {}", number,
                                           step.call.value_or(0), step.calls, step.rank, step.exact ? "" : ", about",
                                           place->section - 1, place->before + 1, place->calls);
  if (place->plain && step.calls != place->calls) return reported;
  if (step.exact && number != place->section - 1) return reported;
  if (std::abs(number - (place->section - 1)) > 1 + place->section / 50) return reported;
  if (place->plain && step.call && *step.call != place->before + 1) return reported;
  return {};
}

}  // namespace ncclwatch::jobs
