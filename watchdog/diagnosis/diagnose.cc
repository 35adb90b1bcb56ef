// The five steps put together: view, align, wait-for graph, reduce, explain; then the findings put in order.
#include "watchdog/diagnosis/diagnose.h"

#include <algorithm>
#include <set>

#include "watchdog/diagnosis/advice.h"
#include "watchdog/diagnosis/as_of.h"
#include "watchdog/diagnosis/ends.h"
#include "watchdog/diagnosis/explain.h"
#include "watchdog/diagnosis/notes.h"
#include "watchdog/diagnosis/snapshot.h"
#include "watchdog/diagnosis/steps.h"
#include "watchdog/diagnosis/text.h"
#include "watchdog/diagnosis/where.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kMaxFindings = 16;  // one fault in hundreds of communicators is still one story

void Append(std::vector<Finding> more, std::vector<Finding>* findings) {
  for (Finding& finding : more) findings->push_back(std::move(finding));
}

std::vector<Explained> ExplainedBy(const std::vector<Mismatch>& mismatches) {
  std::vector<Explained> explained;
  for (const Mismatch& mismatch : mismatches) explained.push_back({mismatch.comm, mismatch.difference.position});
  return explained;
}

// Stalls of the living, as of the snapshot's instant.
std::vector<Finding> Standstills(const View& view, const WaitGraph& graph) {
  std::vector<Finding> findings = FindInitializationHangs(view, graph);
  Append(FindStalls(view, graph), &findings);
  Append(FindErrors(view, graph), &findings);
  Append(FindUnseen(view, graph), &findings);
  Append(FindDeadlocks(view, graph), &findings);
  if (findings.empty()) Append(FindStuckCalls(view, graph), &findings);
  ExplainBySteps(view, graph, &findings);
  ExplainByRaces(view, &findings);
  return findings;
}

bool SharesCulprit(const Finding& a, const Finding& b) {
  return std::any_of(a.culprits.begin(), a.culprits.end(),
                     [&](int rank) { return std::binary_search(b.culprits.begin(), b.culprits.end(), rank); });
}

// Whoever does nothing and then dies was dying. Whoever is in a call was ended because that does not come to its end.
bool WasDying(const View& view, const Finding& standstill, const Finding& death) {
  if (standstill.certainty == Certainty::kCertain || !SharesCulprit(standstill, death)) return false;
  return std::none_of(death.culprits.begin(), death.culprits.end(), [&](int rank) {
    const auto node = view.node_of_rank.find(rank);
    return node != view.node_of_rank.end() && IsInACall(view, view.nodes[node->second]);
  });
}

// A standstill that had lasted too long already when the job began to end is what ended it.
std::vector<Finding> StandstillsBefore(const Snapshot& snapshot, std::int64_t end_ns,
                                       const std::vector<Finding>& deaths) {
  const Snapshot past = AsOf(snapshot, end_ns - 1);
  const View view = MakeView(past);
  const WaitGraph graph = MakeWaits(view, {});
  std::vector<Finding> findings = Standstills(view, graph);
  std::erase_if(findings,
                [&](const Finding& finding) { return !deaths.empty() && WasDying(view, finding, deaths.front()); });
  return findings;
}

// Proofs first, then by when they began.
void OrderByTime(std::vector<Finding>* findings) {
  std::stable_sort(findings->begin(), findings->end(), [](const Finding& a, const Finding& b) {
    if ((a.certainty == Certainty::kCertain) != (b.certainty == Certainty::kCertain)) {
      return a.certainty == Certainty::kCertain;
    }
    return a.began_at_ns < b.began_at_ns;
  });
}

bool DiedInFinalize(const View& view, int rank) {
  const auto found = view.node_of_rank.find(rank);
  if (found == view.node_of_rank.end()) return false;
  const Node& node = view.nodes[found->second];
  return view.process(node).fate.gone() && node.last != nullptr && node.last->returned_ns == 0 &&
         node.last->function == functions::Function::MPI_Finalize;
}

bool IsLeak(const Finding& finding) { return finding.kind == Kind::kResourceLeak; }

// They do no harm to others, and whatever else is wrong goes before them; but where MPI_Finalize itself fails over
// them, and nothing else explains that.
std::vector<Finding> TakeLeaks(const View& view, std::vector<Finding>* findings) {
  const auto killed = [&](const Finding& finding) {
    return std::any_of(finding.culprits.begin(), finding.culprits.end(),
                       [&](int rank) { return DiedInFinalize(view, rank); });
  };
  const bool nothing_else = std::all_of(findings->begin(), findings->end(), IsLeak);
  const auto first = std::stable_partition(findings->begin(), findings->end(), [&](const Finding& finding) {
    return !IsLeak(finding) || (nothing_else && killed(finding));
  });
  std::vector<Finding> leaks(std::make_move_iterator(first), std::make_move_iterator(findings->end()));
  findings->erase(first, findings->end());
  return leaks;
}

// The instant of a death is the last sign of life; what the dead one did wrong itself came before it all the same.
bool PutOwnDoingFirst(const Finding& death, std::vector<Finding>* findings) {
  const auto own = std::find_if(findings->begin(), findings->end(), [&](const Finding& finding) {
    return (finding.kind == Kind::kInvalidArgument || finding.kind == Kind::kRequestError ||
            finding.kind == Kind::kEpochError || IsLeak(finding)) &&
           SharesCulprit(finding, death);
  });
  if (own == findings->end()) return false;
  std::rotate(findings->begin(), own, own + 1);
  return true;
}

void MakeFindings(const Snapshot& snapshot, const View& view, std::vector<Finding>* findings) {
  const std::vector<Mismatch> mismatches = FindMismatches(view);
  WaitGraph graph = MakeWaits(view, ExplainedBy(mismatches));
  std::vector<Finding> messages = FindMessageMismatches(view, &graph);
  Append(FindMessageMismatchesOfMpi(view, &graph), &messages);
  Append(FindAmountMismatches(view, mismatches), &messages);
  Append(FindCreationMismatches(view, mismatches, &graph), &messages);
  Append(FindArgumentsOfCreations(view, mismatches, &graph), &messages);
  std::vector<Finding> misuses = FindMisuses(view);
  std::vector<Finding> leaks = TakeLeaks(view, &misuses);
  Append(FindThreadsAtOnce(view), &misuses);
  Append(FindAccessesOutOfBounds(view), &misuses);
  Append(FindEpochConflicts(view, graph), &misuses);
  std::vector<Finding> deaths = FindDeaths(view, graph);
  std::vector<Finding> before;
  if (mismatches.empty() && messages.empty()) {
    std::optional<std::int64_t> end = FirstEnd(view);
    if (!deaths.empty()) {
      const std::int64_t died = deaths.front().began_at_ns - view.realtime_minus_monotonic_ns;
      end = std::min(end.value_or(died), died);
    }
    if (end) before = StandstillsBefore(snapshot, *end, deaths);
    if (before.empty() && !deaths.empty()) before = FindErrorsBefore(view, graph, deaths.front());
  }
  for (const Mismatch& mismatch : mismatches) findings->push_back(mismatch.finding);
  Append(std::move(messages), findings);
  if (!misuses.empty()) {
    Append(std::move(misuses), findings);
    OrderByTime(findings);
  }
  const bool stood_still = !before.empty();
  Append(std::move(before), findings);
  const bool death_is_consequence =
      !findings->empty() && !deaths.empty() &&
      (findings->front().began_at_ns <= deaths.front().began_at_ns || PutOwnDoingFirst(deaths.front(), findings));
  if (death_is_consequence) {
    for (Finding& death : deaths) death.caused_by = 0;
    Append(std::move(deaths), findings);
  } else if (!deaths.empty()) {
    for (Finding& finding : *findings) finding.caused_by = 0;
    findings->insert(findings->begin(), std::make_move_iterator(deaths.begin()), std::make_move_iterator(deaths.end()));
  } else {
    if (!stood_still) Append(Standstills(view, graph), findings);
    OrderByTime(findings);
    for (std::size_t i = 1; i < findings->size(); ++i) {
      // The later of two differences that name the same rank follows from the first: it runs one call behind.
      if (SharesCulprit((*findings)[0], (*findings)[i])) (*findings)[i].caused_by = 0;
    }
  }
  Append(FindMessageRaces(view), findings);
  if (findings->empty()) Append(FindUnevenCollectives(view), findings);
  if (findings->empty()) Append(FindLeftOverMessages(view), findings);
  Append(FindEndsWithoutFinalize(view, *findings), findings);
  Append(std::move(leaks), findings);
  if (findings->size() > kMaxFindings) findings->resize(kMaxFindings);
  AddSteps(view, findings);
  for (Finding& finding : *findings) {
    finding.detected_at_ns = ToRealtime(view, view.now_ns);
    AddAdvice(&finding);
  }
}

void DescribeJob(const View& view, Diagnosis* diagnosis) {
  std::set<std::string> hosts;
  for (const Process& process : view.processes) {
    if (!process.box->dump) hosts.insert(process.box->host);
    if (diagnosis->job.empty()) diagnosis->job = process.box->job;
    diagnosis->attempt = std::max(diagnosis->attempt, process.box->attempt);
  }
  diagnosis->hosts.assign(hosts.begin(), hosts.end());
  diagnosis->processes = static_cast<int>(view.processes.size());
  diagnosis->watched = static_cast<int>(view.nodes.size());
  diagnosis->expected = std::max(view.expected, 0);
  diagnosis->world_size = view.expected > 0 ? view.expected : diagnosis->watched;
  for (int rank = 0; rank < diagnosis->expected; ++rank) {
    if (!view.node_of_rank.contains(rank)) diagnosis->unseen_ranks.push_back(rank);
  }
}

Diagnosis DiagnoseAt(const Snapshot& snapshot) {
  Diagnosis diagnosis;
  const View view = MakeView(snapshot);
  DescribeJob(view, &diagnosis);
  diagnosis.notes = snapshot.notes;
  AddNotes(view, &diagnosis.notes);
  MakeFindings(snapshot, view, &diagnosis.findings);
  if (std::all_of(diagnosis.findings.begin(), diagnosis.findings.end(), IsLeak))
    diagnosis.unexplained = StandstillOfAll(view);
  if (!diagnosis.unexplained.empty()) diagnosis.notes.push_back(diagnosis.unexplained);
  return diagnosis;
}

}  // namespace

Diagnosis Diagnose(const Snapshot& snapshot) {
  Diagnosis diagnosis = TellsOfLater(snapshot) ? DiagnoseAt(AsOf(snapshot, snapshot.now_ns)) : DiagnoseAt(snapshot);
  AddWhere(snapshot.stacks, &diagnosis);
  return diagnosis;
}

}  // namespace ncclwatch::diagnosis
