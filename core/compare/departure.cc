#include "core/compare/departure.h"

#include <algorithm>
#include <functional>
#include <string>

#include "core/steps/period.h"
#include "core/steps/steps.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::size_t kOften = 2;  // and the period itself has been repeated three times

// The collectives of a side's first member on the communicator, by position, as far as its ring reaches back.
struct Sequence {
  int node = -1;
  std::vector<const Call*> calls;
  History history;  // holds them where the image of its box was sifted

  const Call* At(std::uint64_t position) const {
    const auto found = From(position);
    return found != calls.end() && (*found)->position == position ? *found : nullptr;
  }
  std::vector<const Call*>::const_iterator From(std::uint64_t position) const {
    return std::lower_bound(calls.begin(), calls.end(), position,
                            [](const Call* call, std::uint64_t wanted) { return call->position < wanted; });
  }
};

Sequence SequenceOf(const View& view, const CommView& comm, const Side& side) {
  const Member& member = comm.members[static_cast<std::size_t>(side.members.front())];
  const Process& process = view.process(member);
  Sequence sequence;
  sequence.node = member.node;
  sequence.calls = member.calls;
  if (process.box->left_out == 0 || !process.restored_calls.empty() || member.node < 0) return sequence;
  sequence.history = HistoryOf(view, view.nodes[static_cast<std::size_t>(member.node)]);
  sequence.calls.clear();
  for (const Call* call : sequence.history.calls) {
    if (call->communicator != member.comm->index || call->generation != member.comm->generation) continue;
    if (functions::IsCollective(call->function) && (call->flags & format::kEmpty) == 0 &&
        call->position < member.entered)
      sequence.calls.push_back(call);
  }
  return sequence;
}

// The calls before the position, without a hole: all members have made these.
std::vector<const Call*> Before(const Sequence& sequence, std::uint64_t position) {
  const auto end = sequence.From(position);
  auto begin = end;
  while (begin != sequence.calls.begin() && (*(begin - 1))->position + 1 == position) --begin, --position;
  return {begin, end};
}

std::vector<std::uint64_t> PrintsFrom(const Sequence& sequence, std::uint64_t position) {
  std::vector<std::uint64_t> prints;
  for (auto call = sequence.From(position); call != sequence.calls.end() && (*call)->position == position;
       ++call, ++position) {
    if (prints.size() >= kAlignedCalls + kMostChanged) break;
    prints.push_back(FingerprintOf(**call));
  }
  return prints;
}

// What the member has called from before, at the positions given and at all.
struct Sites {
  bool usual_there = false;
  bool ever = false;
};

Sites SitesOf(const Sequence& sequence, const Call& call, const std::vector<std::uint64_t>& there) {
  Sites sites;
  for (const std::uint64_t position : there) {
    const Call* before = sequence.At(position);
    sites.usual_there = sites.usual_there || (before != nullptr && before->site == call.site);
  }
  sites.ever = std::any_of(sequence.calls.begin(), sequence.calls.end(), [&](const Call* before) {
    return before->position < call.position && before->site == call.site;
  });
  return sites;
}

bool InGroup(const Difference& difference) {
  return std::any_of(difference.sides.begin(), difference.sides.end(),
                     [](const Side& side) { return side.call->group != 0; });
}

// Empty calls take no position: what came before cannot be read off the positions.
bool MadeEmptyCalls(const CommView& comm, std::uint64_t before) {
  return std::any_of(comm.members.begin(), comm.members.end(), [&](const Member& member) {
    return std::any_of(member.empties.begin(), member.empties.end(),
                       [&](const Call* call) { return call->position < before; });
  });
}

}  // namespace

std::optional<Departure> DepartureAt(const View& view, const CommView& comm, const Difference& difference) {
  if (!difference.surely_first || InGroup(difference) || MadeEmptyCalls(comm, difference.position)) return std::nullopt;
  std::vector<Sequence> sequences;
  for (const Side& side : difference.sides) sequences.push_back(SequenceOf(view, comm, side));
  int longest = -1;
  std::vector<const Call*> before;
  for (const Sequence& sequence : sequences) {
    std::vector<const Call*> calls = Before(sequence, difference.position);
    if (&sequence != &sequences.front() && calls.size() <= before.size()) continue;
    longest = sequence.node;
    before = std::move(calls);
  }
  if (longest < 0) return std::nullopt;
  const std::vector<Symbol> symbols = SymbolsOf(view, view.nodes[static_cast<std::size_t>(longest)], before);
  const std::optional<Period> period = FindPeriod(symbols);
  if (!period) return std::nullopt;
  // What followed on the last period's calls each time.
  std::vector<std::size_t> followed(difference.sides.size(), 0);
  std::vector<std::uint64_t> there;
  const std::size_t context = symbols.size() - period->length;
  for (const std::size_t at : Occurrences(symbols, context, period->length, 0, symbols.size() - 1)) {
    const Call& next = *before[at + period->length];
    there.push_back(next.position);
    for (std::size_t i = 0; i < followed.size(); ++i)
      if (FingerprintOf(next) == FingerprintOf(*difference.sides[i].call)) ++followed[i];
  }
  Departure departure;
  departure.period = period->length;
  departure.new_site = true;
  for (std::size_t i = 0; i < followed.size(); ++i) {
    if (followed[i] > followed[departure.goes_on]) departure.goes_on = i;
  }
  departure.repeated = followed[departure.goes_on];
  if (departure.repeated < kOften) return std::nullopt;
  const Side& goes_on = difference.sides[departure.goes_on];
  const bool from_elsewhere = !SitesOf(sequences[departure.goes_on], *goes_on.call, there).usual_there;
  for (std::size_t i = 0; i < followed.size(); ++i) {
    if (i == departure.goes_on) continue;
    if (followed[i] > 0) return std::nullopt;
    const Side& side = difference.sides[i];
    const Sites sites = SitesOf(sequences[i], *side.call, there);
    if (from_elsewhere && sites.usual_there) return std::nullopt;
    departure.new_site = departure.new_site && !sites.ever && side.call->site != 0;
  }
  return departure;
}

std::optional<std::size_t> GoesOnAtItsPlace(const View& view, const CommView& comm, const Difference& difference) {
  constexpr std::size_t kAlways = 3;
  std::optional<std::size_t> goes_on;
  std::optional<std::uint64_t> usual;
  for (std::size_t i = 0; i < difference.sides.size(); ++i) {
    const Call& now = *difference.sides[i].call;
    const Sequence sequence = SequenceOf(view, comm, difference.sides[i]);
    std::size_t times = 0;
    for (const Call* call : sequence.calls) {
      if (now.site == 0 || call->site != now.site || call->position >= difference.position) continue;
      if (usual && *usual != FingerprintOf(*call)) return std::nullopt;
      usual = FingerprintOf(*call);
      ++times;
    }
    if (times < kAlways) return std::nullopt;
    if (*usual != FingerprintOf(now)) continue;
    if (goes_on) return std::nullopt;
    goes_on = i;
  }
  return goes_on;
}

std::vector<Alignment> AlignSides(const View& view, const CommView& comm, const Difference& difference,
                                  const Side& usual, const Side& odd) {
  if (difference.zero_count || usual.call->group != 0 || odd.call->group != 0) return {};
  return Align(PrintsFrom(SequenceOf(view, comm, usual), difference.position),
               PrintsFrom(SequenceOf(view, comm, odd), difference.position));
}

InRun PlaceOfChange(const View& view, const CommView& comm, const Difference& difference, const Side& usual,
                    const Side& odd, const Alignment& alignment) {
  const bool left_out = alignment.change == Change::kLeftOut;
  const Sequence longer = SequenceOf(view, comm, left_out ? usual : odd);
  const Sequence shorter = SequenceOf(view, comm, left_out ? odd : usual);
  const Call* const last = longer.At(difference.position);
  std::uint64_t first = difference.position;
  while (last != nullptr && first > 0 && shorter.At(first - 1) != nullptr && longer.At(first - 1) != nullptr &&
         FingerprintOf(*longer.At(first - 1)) == FingerprintOf(*last))
    --first;
  // Addresses differ from process to process.
  const auto sites = [&](const Sequence& sequence, const Side& side, std::uint64_t end) {
    const Process& process = view.process(comm.members[static_cast<std::size_t>(side.members.front())]);
    std::vector<std::uint64_t> texts;
    for (std::uint64_t at = first; at < end; ++at) {
      const std::uint64_t site = sequence.At(at) == nullptr ? 0 : sequence.At(at)->site;
      texts.push_back(site == 0 ? 0 : std::hash<std::string>()(reader::SiteText(*process.box, site)));
    }
    return texts;
  };
  const InRun which = WhichOfRun(sites(longer, left_out ? usual : odd, difference.position + 1),
                                 sites(shorter, left_out ? odd : usual, difference.position));
  return {first + which.first, first + which.last};
}

bool WasMadeBefore(const View& view, const CommView& comm, const Difference& difference, const Side& side) {
  const Sequence sequence = SequenceOf(view, comm, side);
  return std::any_of(sequence.calls.begin(), sequence.calls.end(), [&](const Call* call) {
    return call->position < difference.position && FingerprintOf(*call) == FingerprintOf(*side.call);
  });
}

bool HaveParted(const View& view, const CommView& comm, const Difference& difference, const Side& usual,
                const Side& odd) {
  if (difference.zero_count) return false;
  constexpr std::size_t kLong = kMostChanged + kEnoughAgree;
  return PrintsFrom(SequenceOf(view, comm, usual), difference.position).size() > kLong &&
         PrintsFrom(SequenceOf(view, comm, odd), difference.position).size() > kLong &&
         AlignSides(view, comm, difference, usual, odd).empty();
}

}  // namespace ncclwatch::diagnosis
