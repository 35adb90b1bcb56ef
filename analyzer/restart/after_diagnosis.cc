// docs/commands.md has the table of these decisions.
#include "analyzer/restart/after_diagnosis.h"

#include <signal.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

using diagnosis::Culprit;
using diagnosis::Finding;
using diagnosis::Kind;

std::vector<std::string> HostsOf(const Finding& finding) {
  std::set<std::string> hosts(finding.shared_by.hosts.begin(), finding.shared_by.hosts.end());
  for (const Culprit& culprit : finding.culprit_details)
    if (!culprit.host.empty()) hosts.insert(culprit.host);
  return {hosts.begin(), hosts.end()};
}

Restart WithoutHosts(const Finding& finding) { return RestartAdvice("hardware", "without_hosts", HostsOf(finding), 1); }

// By whoever sent it: a scheduler, an administrator, a user.
bool IsEndedFromOutside(const Culprit& culprit) {
  if (!culprit.exit || !culprit.exit->signal || culprit.exit->out_of_memory) return false;
  if (culprit.last_words && (culprit.last_words->exception || culprit.last_words->allocation)) return false;
  const int signal = *culprit.exit->signal;
  return signal == SIGTERM || signal == SIGKILL || signal == SIGINT || signal == SIGHUP;
}

Restart AfterDeath(const Finding& finding) {
  const std::vector<Culprit>& dead = finding.culprit_details;
  if (!dead.empty() && std::all_of(dead.begin(), dead.end(), IsEndedFromOutside))
    return {"restart", {}, "A signal ended the ranks, and nothing shows that the program failed."};
  const bool known = std::any_of(dead.begin(), dead.end(), [](const Culprit& culprit) {
    return culprit.last_words || (culprit.exit && (culprit.exit->signal || culprit.exit->status));
  });
  if (!known) return {"restart", {}, "How the ranks ended is not known. If it happens again, find the cause first."};
  return RestartAdvice("python", "", {}, 1);
}

// NCCL says so of a peer that was lost, or of a connection.
Restart AfterLibraryError(const Finding& finding) {
  const bool remote = std::any_of(finding.culprit_details.begin(), finding.culprit_details.end(), [](const auto& who) {
    return who.last_words && who.last_words->error && who.last_words->error->result == "remote_error";
  });
  return RestartAdvice(remote ? "network" : "nccl", "", {}, 1);
}

// All ranks of a host are slow.
Restart AfterSlowness(const Finding& finding) {
  const bool hardware = finding.kind == Kind::kStraggler || finding.kind == Kind::kSlowCompute ||
                        finding.kind == Kind::kSlowCommunication;
  if (hardware && !finding.shared_by.hosts.empty()) return WithoutHosts(finding);
  return {"fix_first", {}, "The job makes progress. A restart without a change does not help."};
}

Restart AfterFinding(const Finding& finding) {
  switch (finding.kind) {
    case Kind::kDeadRank: return AfterDeath(finding);
    case Kind::kTransportStall: return RestartAdvice("network", "", {}, 1);
    case Kind::kDeviceStall: return RestartAdvice("cuda", "", {}, 1);
    case Kind::kLibraryError: return AfterLibraryError(finding);
    case Kind::kInitializationHang: return RestartAdvice("rendezvous", "", {}, 1);
    case Kind::kFrozenProcess:
      return {"wait", {}, "The job goes on when the frozen process does. If it cannot, leave out its host."};
    default: return IsSlow(finding.kind) ? AfterSlowness(finding) : RestartAdvice("python", "", {}, 1);
  }
}

}  // namespace

std::optional<Restart> RestartAfter(const diagnosis::Diagnosis& diagnosis) {
  if (diagnosis.harmless()) return std::nullopt;
  return AfterFinding(diagnosis.findings.front());
}

}  // namespace ncclwatch::analyzer
