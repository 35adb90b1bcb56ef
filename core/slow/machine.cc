#include "core/slow/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "core/model/text.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::MachineEvent;
using reader::MachineSample;

constexpr std::int64_t kBefore_ns = 600'000'000'000;
constexpr std::size_t kMostLines = 8;

// Those of the culprits; empty: all hosts.
std::set<std::string> HostsOf(const Finding& finding) {
  std::set<std::string> hosts(finding.shared_by.hosts.begin(), finding.shared_by.hosts.end());
  for (const Culprit& culprit : finding.culprit_details)
    if (!culprit.host.empty()) hosts.insert(culprit.host);
  return hosts;
}

// The driver writes the domain with eight digits in some places and with four in others.
bool IsSamePlace(std::string_view a, std::string_view b) {
  const auto tail = [](std::string_view place) {
    return place.substr(place.size() - std::min<std::size_t>(12, place.size()));
  };
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  a = tail(a), b = tail(b);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool IsOfCulprits(const MachineEvent& event, const std::string& host, const Finding& finding) {
  if (event.gpu.empty()) return true;
  bool any_known = false;
  for (const Culprit& culprit : finding.culprit_details) {
    if (culprit.host != host || !culprit.gpu || culprit.gpu->pci_bus_id.empty()) continue;
    any_known = true;
    if (IsSamePlace(culprit.gpu->pci_bus_id, event.gpu)) return true;
  }
  return !any_known;
}

bool IsInTime(const MachineEvent& event, const Finding& finding) {
  const std::int64_t began_ns = finding.onset && finding.onset->at_ns != 0 ? finding.onset->at_ns : finding.began_at_ns;
  return event.seen_ns >= began_ns - kBefore_ns && event.since_ns <= finding.detected_at_ns;
}

// The same, once or more often.
struct Repeated {
  const std::string* host;
  const MachineEvent* first;
  std::int64_t last_ns;
  int times;
};

// Those of a host begin at `begin`.
void Add(const std::string& host, const MachineEvent& event, std::size_t begin, std::vector<Repeated>* all) {
  const auto known = std::find_if(all->begin() + static_cast<std::ptrdiff_t>(begin), all->end(),
                                  [&](const Repeated& one) { return one.first->text == event.text; });
  if (known == all->end()) return all->push_back({&host, &event, event.seen_ns, 1});
  known->last_ns = std::max(known->last_ns, event.seen_ns);
  ++known->times;
}

std::string LineOf(const Repeated& repeated) {
  const auto time = [](std::int64_t at_ns) { return UtcTime(at_ns).substr(11, 8); };
  const MachineEvent& event = *repeated.first;
  const std::string& host = *repeated.host;
  if (repeated.times > 1)
    return fmt::format("{}, {} times until {} UTC: {}", host, repeated.times, time(repeated.last_ns), event.text);
  if (event.since_ns == 0)
    return fmt::format("{}: {} (when first looked at, {} UTC)", host, event.text, time(event.seen_ns));
  if (event.since_ns == event.seen_ns) return fmt::format("{}, {} UTC: {}", host, time(event.seen_ns), event.text);
  return fmt::format("{}, between {} and {} UTC: {}", host, time(event.since_ns), time(event.seen_ns), event.text);
}

// Where the machine is the first to be asked.
bool IsOfHardware(Kind kind) {
  return kind == Kind::kSlowCommunication || kind == Kind::kSlowCompute || kind == Kind::kTransportStall;
}

std::string Quiet(const std::vector<const MachineSample*>& looked) {
  std::int64_t since_ns = 0;
  std::set<std::string> hosts, unseen;
  for (const MachineSample* look : looked) {
    since_ns = std::max(since_ns, look->first_ns);
    hosts.insert(look->host);
    unseen.insert(look->unseen.begin(), look->unseen.end());
  }
  std::string text =
      fmt::format("no error counter of {} has risen since {} UTC",
                  hosts.size() == 1 ? *hosts.begin() : Plural(hosts.size(), "host"), UtcTime(since_ns).substr(11, 8));
  if (!unseen.empty()) text += fmt::format("; not looked at: {}", Join({unseen.begin(), unseen.end()}, "; "));
  return text;
}

void Quote(const std::vector<MachineSample>& machines, Finding* finding) {
  const std::set<std::string> hosts = HostsOf(*finding);
  std::vector<const MachineSample*> looked;
  std::vector<Repeated> lines;
  for (const MachineSample& look : machines) {
    if (!hosts.empty() && !hosts.contains(look.host)) continue;
    looked.push_back(&look);
    const std::size_t begin = lines.size();
    for (const MachineEvent& event : look.events)
      if (IsInTime(event, *finding) && IsOfCulprits(event, look.host, *finding)) Add(look.host, event, begin, &lines);
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Repeated& a, const Repeated& b) { return a.first->seen_ns < b.first->seen_ns; });
  std::vector<std::string>& quoted = finding->machine_lines;
  const auto is_quoted = [&](const std::string& line) {
    return std::find(quoted.begin(), quoted.end(), line) != quoted.end();
  };
  std::erase_if(finding->evidence, is_quoted);
  quoted.clear();
  const auto quote = [&](const std::string& line) { quoted.push_back("the machine: " + line); };
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) quote(LineOf(lines[i]));
  if (lines.size() > kMostLines) quote(fmt::format("{} more such lines", lines.size() - kMostLines));
  if (lines.empty() && !looked.empty() && IsOfHardware(finding->kind)) quote(Quiet(looked));
  finding->evidence.insert(finding->evidence.end(), quoted.begin(), quoted.end());
}

}  // namespace

void AddMachines(const std::vector<MachineSample>& machines, std::vector<Finding>* findings) {
  if (machines.empty()) return;
  for (Finding& finding : *findings)
    if (finding.kind != Kind::kEnvironmentSkew) Quote(machines, &finding);
}

}  // namespace ncclwatch::diagnosis
