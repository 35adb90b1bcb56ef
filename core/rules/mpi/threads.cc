// Threads of one process inside MPI at once, where it may not be. order_mismatch: in collectives of one communicator,
// between which nothing decides which comes first. invalid_argument: at all, where MPI grants MPI_THREAD_SERIALIZED.
// request_error: in MPI_Finalize beside a call that is not over. That a thread may not call whoever else does, the
// recorder tells (format::Wrong::kNotMainThread).
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/calls/creations.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// Stamps of two processors may be apart by some nanoseconds, and handing on a lock takes a hundred.
constexpr std::int64_t kApart_ns = 1000;

struct AtOnce {
  const Process* process = nullptr;
  const Call* first = nullptr;
  const Call* second = nullptr;  // made by another thread before the first was over
};

// What is not in the table (a communicator of a session) may be any.
bool IsOfSeveral(const Call& call) {
  return (functions::IsCollective(call.function) || HasOrdinal(call)) && call.communicator != format::kNoCommunicator &&
         (call.flags & (format::kRequest | format::kOneRank)) == 0;
}

bool SameCommunicator(const Call& a, const Call& b) {
  return a.communicator == b.communicator && a.generation == b.generation;
}

// The first two calls of those that count which were under way at once.
template <class Counts, class Meet>
std::optional<AtOnce> FindAtOnce(const Process& process, const Counts& counts, const Meet& meet) {
  std::unordered_map<std::uint32_t, const Call*> latest;  // by thread
  for (const Call& call : process.box->calls) {
    if (!functions::IsMpi(call.function) || (call.flags & format::kPolls) != 0 || !counts(call)) continue;
    for (const auto& [thread, other] : latest) {
      const bool over = other->returned_ns != 0 && other->returned_ns < call.entered_ns + kApart_ns;
      if (thread != call.thread && !over && meet(*other, call)) return AtOnce{&process, other, &call};
    }
    latest[call.thread] = &call;
  }
  return std::nullopt;
}

std::optional<AtOnce> CollectivesAtOnce(const Process& process) {
  return FindAtOnce(process, IsOfSeveral, SameCommunicator);
}

std::optional<AtOnce> CallsAtOnce(const Process& process) {
  if (ThreadLevelOf(process) != ThreadLevel::kSerialized) return std::nullopt;
  const auto all = [](const Call&) { return true; };
  const auto any = [](const Call&, const Call&) { return true; };
  return FindAtOnce(process, all, any);
}

// MPI_Finalize of one thread, and a call of another one that it does not wait for.
std::optional<AtOnce> FinalizedTooEarly(const Process& process) {
  const auto all = [](const Call&) { return true; };
  const auto ends = [](const Call&, const Call& second) {
    return second.function == functions::Function::MPI_Finalize;
  };
  return FindAtOnce(process, all, ends);
}

std::string ThreadText(const View& view, const Process& process, const Call& call) {
  const std::string site = SiteText(view, process, call.site);
  return "thread " + std::to_string(call.thread) + " in " + CallText(call) + (site.empty() ? "" : " at " + site);
}

Finding Describe(const View& view, const std::vector<AtOnce>& all) {
  Finding finding;
  finding.certainty = Certainty::kCertain;
  std::vector<int> nodes;
  std::int64_t began = INT64_MAX;
  for (const AtOnce& two : all) {
    nodes.insert(nodes.end(), two.process->nodes.begin(), two.process->nodes.end());
    began = std::min(began, two.process->At(two.first->entered_ns));
  }
  AddCulprits(view, SortedUnique(RanksOf(view, nodes)), &finding);
  finding.began_at_ns = ToRealtime(view, began);
  constexpr std::size_t kEnough = 8;
  for (std::size_t i = 0; i < std::min(all.size(), kEnough); ++i) {
    const AtOnce& two = all[i];
    finding.evidence.push_back(Ranks(RanksOf(view, two.process->nodes)) + ": " +
                               ThreadText(view, *two.process, *two.second) + " while " +
                               ThreadText(view, *two.process, *two.first));
  }
  return finding;
}

Finding ExplainCollectives(const View& view, const CommView* comm, const std::vector<AtOnce>& all) {
  Finding finding = Describe(view, all);
  finding.kind = Kind::kOrderMismatch;
  const std::string where = comm != nullptr ? CommText(*comm) : std::string("one communicator");
  if (comm != nullptr) finding.communicator = DescribeComm(*comm);
  finding.summary = Capital(Ranks(finding.culprits)) + " called collectives on " + where +
                    " from two threads at once: nothing decides which of them comes first.";
  finding.next_steps = {
      "give each thread a communicator of its own (MPI_Comm_dup), or let one thread make the collectives"};
  return finding;
}

Finding ExplainEnds(const View& view, const std::vector<AtOnce>& all) {
  Finding finding = Describe(view, all);
  finding.kind = Kind::kRequestError;
  finding.summary = Capital(Ranks(finding.culprits)) + " called MPI_Finalize while " +
                    (finding.culprits.size() == 1 ? "another of its threads was" : "others of their threads were") +
                    " still in " + CallText(*all.front().first) + ".";
  finding.next_steps = {"let that thread return from its call first: send it what it waits for, or cancel the call"};
  return finding;
}

Finding ExplainCalls(const View& view, const std::vector<AtOnce>& all) {
  Finding finding = Describe(view, all);
  finding.kind = Kind::kInvalidArgument;
  finding.summary = Capital(Ranks(finding.culprits)) +
                    " called MPI from two threads at once, but MPI granted no more than MPI_THREAD_SERIALIZED.";
  finding.next_steps = {
      "request MPI_THREAD_MULTIPLE from MPI_Init_thread and check what it provides, or let the threads "
      "take turns (a lock around each call)"};
  return finding;
}

}  // namespace

std::vector<Finding> FindThreadsAtOnce(const Facts& facts) {
  const View& view = facts.view;
  std::map<std::size_t, std::vector<AtOnce>> collectives;  // by communicator; the last: of none that is known
  std::vector<AtOnce> calls, ends;
  for (const Process& process : view.processes) {
    if (process.nodes.empty() || OneThread(process)) continue;
    if (const std::optional<AtOnce> early = FinalizedTooEarly(process)) ends.push_back(*early);
    if (const std::optional<AtOnce> two = CallsAtOnce(process)) {
      calls.push_back(*two);
    } else if (const std::optional<AtOnce> both = CollectivesAtOnce(process)) {
      const CommView* comm = view.CommOf(process, both->first->communicator, both->first->generation);
      const std::size_t index =
          comm == nullptr ? view.comms.size() : static_cast<std::size_t>(comm - view.comms.data());
      collectives[index].push_back(*both);
    }
  }
  std::vector<Finding> findings;
  if (!ends.empty()) findings.push_back(ExplainEnds(view, ends));
  if (!calls.empty()) findings.push_back(ExplainCalls(view, calls));
  for (const auto& [index, all] : collectives)
    findings.push_back(ExplainCollectives(view, index < view.comms.size() ? &view.comms[index] : nullptr, all));
  return findings;
}

}  // namespace ncclwatch::diagnosis
