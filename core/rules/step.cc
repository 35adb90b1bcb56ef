// step_mismatch: the calls on each communicator agree, and yet one rank's step is not what its steps were: it has left
// out a call that others wait in, or waits in one that its steps never had there.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/compare/sequence_alignment.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/steps/step_count.h"
#include "core/steps/steps.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::ptrdiff_t kFew = 8;  // ranks that are looked at; of more that are missing these stand for all

// Calls of the step after the one that was left out or too many: that it was made in another order is ruled out then.
// Two are enough, since somebody waits because of it.
constexpr std::size_t kEnoughOfStep = 2;

constexpr std::size_t kMostBetween = 8;  // calls between two steps: something that is done now and then

// How a rank's newest calls stand to the steps that it has made before.
struct Course {
  bool known = false;  // it has made steps
  bool fits = false;   // its newest calls are the beginning of one
  Alignment alignment;
  std::optional<Call> call;  // left out: as an earlier step made it; extra: this one
  std::vector<Call> later;   // calls of the rank behind that
  std::size_t earliest = 0;  // it may be so many equal calls before that one
  std::size_t latest = 0;
  std::size_t steps = 0;
};

bool HappenedBefore(const std::vector<Symbol>& symbols, std::size_t length, std::size_t at) {
  if (at < length) return true;
  const std::vector<std::size_t> before = Occurrences(symbols, at - length, length, 0, at - 1);
  return std::any_of(before.begin(), before.end(),
                     [&](std::size_t begin) { return symbols[begin + length].call == symbols[at].call; });
}

// `usual` and `odd`: where in the step that is as always, and in this one, the calls begin to differ. `begins`: this
// one's first call.
void FindInRun(const History& history, const std::vector<Symbol>& symbols, std::size_t begins, std::size_t usual,
               std::size_t odd, Course* course) {
  const bool left_out = course->alignment.change == Change::kLeftOut;
  const std::size_t at = left_out ? usual : odd;
  std::size_t before = 0;  // equal calls
  while (odd - before > begins && symbols[at - before - 1].call == symbols[at].call) ++before;
  const auto sites = [&](std::size_t behind, std::size_t last) {
    std::vector<std::uint64_t> made;
    for (std::size_t i = behind - before; i < last; ++i) made.push_back(history.calls[i]->site);
    return made;
  };
  const InRun which = left_out ? WhichOfRun(sites(usual, usual + 1), sites(odd, odd))
                               : WhichOfRun(sites(odd, odd + 1), sites(usual, usual));
  course->earliest = before - which.first;
  course->latest = before - which.last;
}

// `rest`: where a step begins that may not be as it should.
void Follow(const History& history, const std::vector<Symbol>& symbols, const OpenStep& open, std::size_t rest,
            Course* course) {
  const auto wanted = [&](std::size_t i) { return open.block + i; };
  std::size_t agree = 0;
  while (agree < open.length && rest + agree < symbols.size() &&
         symbols[rest + agree].call == symbols[wanted(agree)].call)
    ++agree;
  const std::size_t at = rest + agree;
  course->fits = at == symbols.size();
  if (course->fits || HappenedBefore(symbols, open.length, at)) return;
  // What comes after the step may be something else that is done between two.
  std::vector<std::uint64_t> usual, odd;
  for (std::size_t i = at; i < symbols.size() && odd.size() < kAlignedCalls; ++i) odd.push_back(symbols[i].call);
  for (std::size_t i = agree; i < open.length; ++i) usual.push_back(symbols[wanted(i)].call);
  const std::vector<Alignment> alignments = Align(usual, odd, kEnoughOfStep);
  if (alignments.size() != 1 || alignments.front().calls != 1) return;
  course->alignment = alignments.front();
  if (course->alignment.change == Change::kLeftOut) course->call = *history.calls[wanted(agree)];
  if (course->alignment.change == Change::kExtra) course->call = *history.calls[at];
  if (course->call) FindInRun(history, symbols, rest, wanted(agree), at, course);
  for (std::size_t i = at + 1; i < history.calls.size(); ++i) course->later.push_back(*history.calls[i]);
}

Course CourseOf(const View& view, const Node& node) {
  const History history = HistoryOf(view, node);
  std::vector<Symbol> symbols = SymbolsOf(view, node, history.calls);
  std::optional<OpenStep> open = OpenStepOf(symbols, history.whole);
  if (!open) {
    symbols = SymbolsOf(view, node, history.calls, /*counts=*/false);
    open = OpenStepOf(symbols, history.whole);
  }
  Course course;
  if (!open) return course;
  course.known = true;
  course.steps = open->steps;
  // First as if nothing lay between the last two steps.
  for (std::size_t rest = open->rest; rest <= symbols.size() && rest <= open->rest + kMostBetween; ++rest) {
    const bool begins = rest < symbols.size() && symbols[rest].call == symbols[open->block].call;
    if (rest == open->rest || begins) Follow(history, symbols, *open, rest, &course);
    if (course.fits || course.call || (rest > open->rest && begins)) break;
  }
  return course;
}

// The communicator of the call is where others wait for the node, or where it waits for others.
const Wait* WaitIn(const View& view, const WaitGraph& graph, int node, const Course& course) {
  const bool left_out = course.alignment.change == Change::kLeftOut;
  const Node& own = view.nodes[static_cast<std::size_t>(node)];
  for (const auto& at : own.memberships) {
    const Member& member = view.member(at);
    if (member.comm->index != course.call->communicator || member.comm->generation != course.call->generation) continue;
    for (const int index : (left_out ? graph.in : graph.out)[static_cast<std::size_t>(node)]) {
      const Wait& wait = graph.waits[static_cast<std::size_t>(index)];
      if (wait.comm != at.first || wait.what != WaitFor::kCollective) continue;
      if (left_out ? wait.position == member.entered : wait.position == course.call->position) return &wait;
    }
  }
  return nullptr;
}

struct OutOfStep {
  int node = -1;
  Course course;
  const Wait* wait = nullptr;
};

// Exactly one of the nodes has departed from its steps; all others are in the midst of one.
std::optional<OutOfStep> OnlyOne(const View& view, const WaitGraph& graph, const std::vector<int>& nodes) {
  std::optional<OutOfStep> found;
  for (const int node : nodes) {
    const Course course = CourseOf(view, view.nodes[static_cast<std::size_t>(node)]);
    if (course.fits) continue;
    if (!course.known || !course.call || found) return std::nullopt;
    const Wait* wait = WaitIn(view, graph, node, course);
    if (wait == nullptr) return std::nullopt;
    found = OutOfStep{node, course, wait};
  }
  return found;
}

std::vector<int> NodesOf(const View& view, const std::vector<int>& ranks) {
  std::vector<int> nodes;
  for (const int rank : ranks) {
    const auto at = view.node_of_rank.find(rank);
    if (at != view.node_of_rank.end()) nodes.push_back(at->second);
  }
  return nodes;
}

// Who waits for the culprits where the finding says.
std::vector<int> Waiters(const View& view, const WaitGraph& graph, const Finding& finding, int culprit) {
  std::vector<int> nodes;
  for (const int index : graph.in[static_cast<std::size_t>(culprit)]) {
    const Wait& wait = graph.waits[static_cast<std::size_t>(index)];
    const bool there = wait.what == WaitFor::kCollective && wait.position == finding.position;
    if (there && view.comms[static_cast<std::size_t>(wait.comm)].id == finding.communicator->id)
      nodes.push_back(wait.waiter);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

// A later call of the departed one has been made by the other as well: it has passed the place of the extra call, and
// does not stand before it.
bool HasPassed(const View& view, const OutOfStep& departed, int other) {
  const Node& own = view.nodes[static_cast<std::size_t>(departed.node)];
  for (const auto& at : own.memberships) {
    const Member& member = view.member(at);
    const std::vector<Call>& calls = departed.course.later;
    const auto later = std::find_if(calls.begin(), calls.end(), [&](const Call& call) {
      return functions::IsCollective(call.function) && (call.flags & format::kEmpty) == 0 &&
             call.communicator == member.comm->index && call.generation == member.comm->generation;
    });
    if (later == calls.end()) continue;
    for (const Member& peer : view.comms[static_cast<std::size_t>(at.first)].members)
      if (peer.node == other && peer.entered > later->position) return true;
  }
  return false;
}

// In a cycle each is a suspect. A missing participant is one; and those who wait for it, unless they are more: they may
// wait in a call that nobody else was to make. One of more waiters stands for all, and must be where its steps say.
std::optional<OutOfStep> SuspectOf(const View& view, const WaitGraph& graph, const Finding& finding) {
  std::vector<int> nodes = NodesOf(view, finding.culprits);
  if (nodes.size() != finding.culprits.size() || nodes.empty()) return std::nullopt;
  if (finding.kind == Kind::kDeadlock) return std::ssize(nodes) > kFew ? std::nullopt : OnlyOne(view, graph, nodes);
  const std::vector<int> culprits(nodes.begin(), nodes.begin() + std::min(std::ssize(nodes), kFew));
  std::vector<int> waiters = Waiters(view, graph, finding, culprits.front());
  const bool more = waiters.size() > nodes.size() || std::ssize(waiters) > kFew;
  if (more) waiters.resize(1);
  nodes = culprits;
  nodes.insert(nodes.end(), waiters.begin(), waiters.end());
  std::optional<OutOfStep> departed = OnlyOne(view, graph, nodes);
  if (!departed) return departed;
  const bool missing = std::find(culprits.begin(), culprits.end(), departed->node) != culprits.end();
  if (missing) return departed->course.alignment.change == Change::kLeftOut ? departed : std::nullopt;
  if (more || departed->course.alignment.change != Change::kExtra) return std::nullopt;
  const bool passed =
      std::all_of(culprits.begin(), culprits.end(), [&](int culprit) { return HasPassed(view, *departed, culprit); });
  return passed ? departed : std::nullopt;
}

std::string What(const View& view, const OutOfStep& departed) {
  const bool left_out = departed.course.alignment.change == Change::kLeftOut;
  return Ranks({view.nodes[static_cast<std::size_t>(departed.node)].rank}) +
         (left_out ? " left out " : " made one extra ") + CallText(*departed.course.call) + ", " +
         CollectiveText(departed.wait->position - departed.course.earliest,
                        departed.wait->position - departed.course.latest) +
         " of " + CommText(view.comms[static_cast<std::size_t>(departed.wait->comm)]) +
         (left_out ? ", which its earlier steps made here" : ", which its earlier steps did not make here");
}

std::string Why(const OutOfStep& departed) {
  return fmt::format("it made {} before that were all the same; the {} after this one match a step again",
                     Plural(departed.course.steps, "step"), Plural(departed.course.alignment.agree, "call"));
}

// NCCL has paired equal calls that do not belong together.
void AddMixed(const OutOfStep& departed, std::vector<std::string>* evidence) {
  const Course& course = departed.course;
  if (course.earliest > 0)
    evidence->push_back(MixedText(departed.wait->position - course.earliest, departed.wait->position - course.latest,
                                  departed.wait->position));
}

// Nothing else has changed: who waits for whom, and since when.
Finding Explain(const View& view, const WaitGraph& graph, const OutOfStep& departed, const Finding& found) {
  Finding finding;
  finding.kind = Kind::kStepMismatch;
  finding.certainty = std::min(found.certainty, Certainty::kLikely);
  AddCulprits(view, {view.nodes[static_cast<std::size_t>(departed.node)].rank}, &finding);
  AddVictims(view, graph, {departed.node}, &finding);
  const CommView& comm = view.comms[static_cast<std::size_t>(departed.wait->comm)];
  finding.communicator = DescribeComm(comm);
  finding.position = departed.wait->position;
  finding.calls = DescribeCalls(view, comm, departed.wait->position);
  finding.began_at_ns = found.began_at_ns;
  finding.summary = Capital(What(view, departed)) + "; " + Ranks(finding.victims) +
                    (finding.victims.size() == 1 ? " waits" : " wait") + " for it, directly or through others.";
  finding.evidence.push_back(Why(departed));
  AddMixed(departed, &finding.evidence);
  for (const std::string& line : found.evidence) finding.evidence.push_back(line);
  finding.next_steps.push_back(fmt::format(
      "compare what {} did in this step with the others: look for a branch on the rank or on its data around "
      "the call",
      Ranks(finding.culprits)));
  return finding;
}

}  // namespace

void ExplainBySteps(const Facts& facts, std::vector<Finding>* findings) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  for (Finding& finding : *findings) {
    if (finding.kind != Kind::kDeadlock && finding.kind != Kind::kMissingParticipant) continue;
    const std::optional<OutOfStep> departed = SuspectOf(view, graph, finding);
    if (!departed) continue;
    if (finding.certainty == Certainty::kCertain) {  // a proof: it stands, and this is how it came about
      finding.evidence.push_back(What(view, *departed));
      finding.evidence.push_back(Why(*departed));
      AddMixed(*departed, &finding.evidence);
    } else {
      finding = Explain(view, graph, *departed, finding);
    }
  }
}

}  // namespace ncclwatch::diagnosis
