// invalid_argument, request_error, resource_leak, epoch_error, library_error: what single processes do wrong with MPI
// by their own account (format/misuse.h). Processes that do the same at the same place are one finding.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/calls/mpi_message.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"
#include "core/waits/mpi_proofs.h"

namespace ncclwatch::diagnosis {
namespace {

using format::MisuseKind;
using format::Wrong;
using reader::Misuse;

constexpr std::size_t kMostLines = 8;

struct Case {
  const Process* process = nullptr;
  const Misuse* misuse = nullptr;
};

Kind KindOf(const Misuse& misuse) {
  switch (format::Find(misuse.wrong)->kind) {
    case MisuseKind::kInvalidArgument: return Kind::kInvalidArgument;
    case MisuseKind::kRequestError: return Kind::kRequestError;
    case MisuseKind::kResourceLeak: return Kind::kResourceLeak;
    case MisuseKind::kEpochError: return Kind::kEpochError;
    case MisuseKind::kLibraryError: return Kind::kLibraryError;
  }
  return Kind::kInvalidArgument;
}

// MPI has refused the call and told the program, which goes on: that is how a program asks, too.
bool WasReported(const Case& one) {
  const bool refused = one.misuse->result != format::kNoResult && one.misuse->result != 0;
  return refused && KindOf(*one.misuse) != Kind::kResourceLeak;
}
bool LivedOn(const Process& process) { return !process.outcome.gone() || process.outcome.orderly(); }

// The program is told if MPI refuses the call, which has not come back: it may have asked, and is not to blame then.
bool MayBeReported(const Case& one) {
  return one.misuse->tells_program && one.misuse->result == format::kNoResult && !one.process->outcome.gone() &&
         KindOf(*one.misuse) != Kind::kResourceLeak;
}
bool StandsOpen(const View& view, const Case& one) {
  return MayBeReported(one) && view.now_ns - one.process->At(one.misuse->at_ns) < kHeldNs;
}

// The handle may have been given out again by a function that is not watched, where MPI finds nothing wrong with it.
bool MayBeAnother(const Misuse& misuse) {
  const bool by_handle = misuse.wrong == Wrong::kFreedCommunicator || misuse.wrong == Wrong::kFreedType ||
                         misuse.wrong == Wrong::kFreedOperator || misuse.wrong == Wrong::kFreedWindow ||
                         misuse.wrong == Wrong::kFreedGroup || misuse.wrong == Wrong::kStaleRequest;
  return by_handle && misuse.result == 0;
}

// MPI allows it: a branch of the program starts some requests of an array, and all of them are waited for.
bool MayBeMeant(const Misuse& misuse) { return misuse.wrong == Wrong::kNeverStarted; }

// A cut message may be its sender's fault. Whose amounts are wrong, the calls of the other ranks show.
bool OthersKnowBetter(const Misuse& misuse) {
  return misuse.wrong == Wrong::kTruncated || misuse.wrong == Wrong::kUnlikeOwnPart;
}

// By a callback that MPI_Finalize runs: who has stayed in there for so long has perhaps not got that far.
bool MayBeFreedYet(const View& view, const Case& one) {
  const Process& process = *one.process;
  if (KindOf(*one.misuse) != Kind::kResourceLeak || HasLeftFinalize(*process.box)) return false;
  const std::int64_t until_ns = process.outcome.ended() ? process.outcome.observed_ns : view.now_ns;
  return until_ns - process.At(one.misuse->at_ns) >= kFinalizing_ns;
}

std::string Place(const std::string& name, std::uint64_t address) {
  if (name.empty()) return Hex(address);
  return name.substr(name.rfind('/') + 1);
}

std::string WhatIsWrong(const Misuse& misuse) {
  char text[256];
  const std::size_t size = format::MisuseText(misuse.wrong, misuse.value, misuse.limit, text, sizeof text);
  return std::string(text, size);
}

std::string MadeText(const Misuse& misuse) {
  if (misuse.made_at == 0) return {};
  return std::string(functions::FullName(misuse.made_by)) + " at " + Place(misuse.made_at_name, misuse.made_at);
}

// "called MPI_Send at train+0x1234: there is no rank 9: the communicator has 4 ranks (MPI_Isend at train+0x12)"; of
// what is left behind the call is not to blame: "called MPI_Finalize: 1 datatype was not freed (MPI_Type_vector at
// train+0x12)"
std::string CaseText(const Misuse& misuse) {
  const std::string made = MadeText(misuse);
  std::string text = "called " + std::string(functions::FullName(misuse.function));
  if (KindOf(misuse) != Kind::kResourceLeak) text += " at " + Place(misuse.site_name, misuse.site);
  text += ": " + WhatIsWrong(misuse);
  if (!made.empty()) text += " (" + made + ")";
  if (misuse.times > 1) text += ", " + std::to_string(misuse.times) + " times";
  return text;
}

bool AccessesMemory(functions::Function function) {
  const functions::FunctionInfo* info = functions::Find(function);
  return info != nullptr && info->family == functions::Family::kOneSided;
}

std::string NextStep(const Misuse& misuse) {
  const std::string call =
      std::string(functions::FullName(misuse.function)) + " at " + Place(misuse.site_name, misuse.site);
  const std::string made = MadeText(misuse);
  switch (KindOf(misuse)) {
    case Kind::kResourceLeak: return fmt::format("free the object that {} makes before MPI_Finalize", made);
    case Kind::kRequestError:
      if (misuse.wrong == Wrong::kBufferTouched && AccessesMemory(misuse.made_by))
        return fmt::format(
            "do not touch what {} sends until a fence, flush, unlock or its request shows it is complete", made);
      return made.empty() ? "look at the requests of " + call
                          : "follow the request that " + made + " makes to the one call that completes it";
    case Kind::kLibraryError:
      return "look at the arguments of " + call + ", and at what MPI printed about it on standard error";
    case Kind::kEpochError:
      return "look at the epochs of the window around " + call + (made.empty() ? "" : ", and at " + made);
    default: break;
  }
  switch (misuse.wrong) {
    case format::Wrong::kBeforeInit: return "call MPI_Init before " + call;
    case format::Wrong::kAfterFinalize: return "call MPI_Finalize after " + call;
    case format::Wrong::kNotMainThread:
      return fmt::format(
          "request the level that the program needs from MPI_Init_thread and check what it provides, or call {} only "
          "from the thread that initialized MPI",
          call);
    default: return "look at the arguments of " + call + (made.empty() ? "" : ", and at " + made);
  }
}

CallSummary Describe(const Misuse& misuse, const std::vector<int>& ranks, std::int64_t real_ns) {
  CallSummary call;
  call.ranks = ranks;
  call.op = functions::OpName(misuse.function);
  call.mpi = true;
  call.thread = misuse.thread;
  call.site = misuse.site;
  call.site_text = Place(misuse.site_name, misuse.site);
  call.source = PlaceNamed(misuse.site_name, real_ns);
  call.state = CallState::kEntered;
  if (misuse.result == format::kNoResult) return call;
  call.state = misuse.result == 0 ? CallState::kReturned : CallState::kFailed;
  call.result = misuse.result == 0 ? "success" : "MPI error " + std::to_string(misuse.result);
  return call;
}

// The calls that made what is left, one for each place. Empty if the box does not tell them.
std::vector<CallSummary> MakingCalls(const View& view, const std::vector<Case>& cases) {
  std::map<std::pair<functions::Function, std::string>, std::vector<const Case*>> places;
  for (const Case& one : cases)
    if (one.misuse->made_at != 0) places[{one.misuse->made_by, MadeText(*one.misuse)}].push_back(&one);
  std::vector<CallSummary> calls;
  for (const auto& [place, made] : places) {
    const Misuse& misuse = *made.front()->misuse;
    CallSummary& call = calls.emplace_back();
    for (const Case* one : made)
      for (const int rank : RanksOf(view, one->process->nodes)) call.ranks.push_back(rank);
    call.ranks = SortedUnique(std::move(call.ranks));
    call.op = functions::OpName(misuse.made_by);
    call.mpi = true;
    call.site = misuse.made_at;
    call.site_text = Place(misuse.made_at_name, misuse.made_at);
    call.source = PlaceNamed(misuse.made_at_name, ToRealtime(view, made.front()->process->At(misuse.at_ns)));
    call.state = CallState::kReturned;
  }
  return calls;
}

// A line for all that have done the same.
std::vector<std::string> WhoDidWhat(const View& view, const std::vector<Case>& cases) {
  std::vector<std::pair<std::string, std::vector<int>>> deeds;  // what, and nodes
  for (const Case& one : cases) {
    const std::string text = CaseText(*one.misuse);
    auto same = std::find_if(deeds.begin(), deeds.end(), [&](const auto& deed) { return deed.first == text; });
    if (same == deeds.end()) {
      if (deeds.size() == kMostLines) continue;
      same = deeds.insert(deeds.end(), {text, {}});
    }
    same->second.insert(same->second.end(), one.process->nodes.begin(), one.process->nodes.end());
  }
  std::vector<std::string> lines;
  for (const auto& [text, nodes] : deeds)
    lines.push_back(Capital(Ranks(SortedUnique(RanksOf(view, nodes)))) + " " + text);
  return lines;
}

std::vector<int> NodesOf(const std::vector<Case>& cases, const std::string& text) {
  std::vector<int> nodes;
  for (const Case& one : cases)
    if (CaseText(*one.misuse) == text) nodes.insert(nodes.end(), one.process->nodes.begin(), one.process->nodes.end());
  return nodes;
}

Finding Explain(const View& view, const std::vector<Case>& cases) {
  const auto first = std::min_element(cases.begin(), cases.end(), [&](const Case& a, const Case& b) {
    return a.process->At(a.misuse->at_ns) < b.process->At(b.misuse->at_ns);
  });
  const Misuse& misuse = *first->misuse;
  Finding finding;
  finding.kind = KindOf(misuse);
  const auto doubtful = [&](const Case& one) {
    return WasReported(one) || MayBeReported(one) || MayBeAnother(*one.misuse) || MayBeMeant(*one.misuse) ||
           OthersKnowBetter(*one.misuse) || MayBeFreedYet(view, one);
  };
  finding.certainty = std::all_of(cases.begin(), cases.end(), doubtful) ? Certainty::kLikely : Certainty::kCertain;
  std::vector<int> nodes;
  for (const Case& one : cases) nodes.insert(nodes.end(), one.process->nodes.begin(), one.process->nodes.end());
  AddCulprits(view, SortedUnique(RanksOf(view, nodes)), &finding);
  if (const CommView* comm = view.CommOf(*first->process, misuse.communicator, misuse.generation))
    finding.communicator = DescribeComm(*comm);
  finding.began_at_ns = ToRealtime(view, first->process->At(misuse.at_ns));
  if (finding.kind == Kind::kResourceLeak)
    finding.calls = MakingCalls(view, cases);
  else if (misuse.function != functions::Function::MPI_Finalize)  // what is found there is not about that call
    finding.calls.push_back(Describe(misuse, finding.culprits, finding.began_at_ns));
  finding.evidence = WhoDidWhat(view, cases);
  // Leaks of different places are one finding, of which the first is told.
  const std::vector<int> same = SortedUnique(RanksOf(view, NodesOf(cases, CaseText(misuse))));
  finding.summary = Capital(Ranks(same)) + (same.size() == 1 ? " (" + ProcessText(view, *first->process) + ") " : " ") +
                    CaseText(misuse) + (finding.evidence.size() > 1 ? "; there is more, see why." : ".");
  if (finding.kind == Kind::kResourceLeak)
    finding.evidence.emplace_back("the objects end with their process; a leak matters where more are made than freed");
  finding.next_steps.push_back(NextStep(misuse));
  return finding;
}

// contradicted: ranks have made calls that do not fit one another.
std::vector<Finding> AllMisuses(const View& view, bool contradicted = false) {
  // By what it is and where; leaks of different places are one story.
  using Key = std::tuple<Wrong, functions::Function, std::string>;
  std::map<Key, std::vector<Case>> sorts;
  for (const Process& process : view.processes) {
    if (process.nodes.empty()) continue;
    for (const Misuse& misuse : process.box->words.misuses) {
      const Case one{&process, &misuse};
      if (contradicted && OthersKnowBetter(misuse)) continue;
      if (format::Find(misuse.wrong) == nullptr || (WasReported(one) && LivedOn(process)) || StandsOpen(view, one))
        continue;
      sorts[{misuse.wrong, misuse.function, misuse.site_name}].push_back(one);
    }
  }
  std::vector<Finding> findings;
  findings.reserve(sorts.size());
  for (const auto& [key, cases] : sorts) findings.push_back(Explain(view, cases));
  return findings;
}

bool IsLeak(const Finding& finding) { return finding.kind == Kind::kResourceLeak; }

bool DiedInFinalize(const View& view, int rank) {
  const auto found = view.node_of_rank.find(rank);
  if (found == view.node_of_rank.end()) return false;
  const Node& node = view.nodes[found->second];
  return view.process(node).outcome.gone() && node.last != nullptr && node.last->returned_ns == 0 &&
         node.last->function == functions::Function::MPI_Finalize;
}

bool KilledSomebody(const View& view, const Finding& leak) {
  return std::any_of(leak.culprits.begin(), leak.culprits.end(), [&](int rank) { return DiedInFinalize(view, rank); });
}

}  // namespace

std::vector<Finding> FindMisuses(const Facts& facts) {
  std::vector<Finding> findings = AllMisuses(facts.view, !facts.findings.empty());
  std::erase_if(findings, IsLeak);
  return findings;
}

// MPI_Finalize itself fails over them, and nothing else explains that.
std::vector<Finding> FindFatalLeaks(const Facts& facts) {
  std::vector<Finding> leaks = AllMisuses(facts.view);
  if (!std::all_of(leaks.begin(), leaks.end(), IsLeak)) return {};
  std::erase_if(leaks, [&](const Finding& leak) { return !KilledSomebody(facts.view, leak); });
  return leaks;
}

std::vector<Finding> FindLeaks(const Facts& facts) {
  std::vector<Finding> leaks = AllMisuses(facts.view);
  const bool nothing_else = std::all_of(leaks.begin(), leaks.end(), IsLeak);
  std::erase_if(leaks, [&](const Finding& finding) {
    return !IsLeak(finding) || (nothing_else && KilledSomebody(facts.view, finding));
  });
  return leaks;
}

}  // namespace ncclwatch::diagnosis
