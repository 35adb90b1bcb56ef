#include "core/slow/skew.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/model/text.h"
#include "core/report/advice.h"
#include "core/rules/describe.h"
#include "core/text/printable.h"
#include "ncclwatch/format/environment.h"

namespace ncclwatch::diagnosis {
namespace {

using RanksByValue = std::map<std::string, std::vector<int>, std::less<>>;  // value -> job ranks; "": none

struct Environment {
  std::map<std::string, std::string> values;
  bool cut = false;  // what is missing may only not be told
};

bool IsVersion(std::string_view name) { return !name.empty() && name.front() >= 'a' && name.front() <= 'z'; }

std::string NcclVersion(std::uint32_t version) {  // 22703, before 2.9 2708
  const std::uint32_t major = version < 10000 ? version / 1000 : version / 10000;
  const std::uint32_t minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return fmt::format("{}.{}.{}", major, minor, version % 100);
}

Environment Parse(const reader::BoxImage& box) {
  Environment environment;
  std::string_view rest = box.environment;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t equals = line.find('=');
    if (line == format::kEnvironmentCut) environment.cut = true;
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  if (box.nccl_version != 0) environment.values["nccl"] = NcclVersion(box.nccl_version);
  return environment;
}

// By name. Of ranks of one process each counts.
std::map<std::string, RanksByValue> Gather(const View& view) {
  std::map<int, Environment> of_rank;
  std::set<std::string> names;
  for (const Node& node : view.nodes) {
    const reader::BoxImage& box = *view.process(node).box;
    if (box.environment.empty() || node.rank < 0) continue;
    const Environment& one = of_rank.emplace(node.rank, Parse(box)).first->second;
    for (const auto& [name, value] : one.values) names.insert(name);
  }
  std::map<std::string, RanksByValue> all;
  for (const std::string& name : names) {
    if (format::MayDifferByHost(name)) continue;
    for (const auto& [rank, one] : of_rank) {
      const auto found = one.values.find(name);
      if (found != one.values.end())
        all[name][found->second].push_back(rank);
      else if (!one.cut && !IsVersion(name))
        all[name][""].push_back(rank);
    }
  }
  std::erase_if(all, [](const auto& one) { return one.second.size() < 2; });
  return all;
}

using Reported = std::vector<std::pair<std::string, std::vector<int>>>;

Reported MostFirst(const RanksByValue& values) {
  Reported reported(values.begin(), values.end());
  std::stable_sort(reported.begin(), reported.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return reported;
}

bool HasMajority(const Reported& reported) {
  std::size_t all = 0;
  for (const auto& [value, ranks] : reported) all += ranks.size();
  return 2 * reported.front().second.size() > all;
}

std::string TextOf(const std::string& name, const Reported& reported) {
  constexpr std::size_t kMostValues = 4;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(reported.size(), kMostValues); ++i) {
    const auto& [value, ranks] = reported[i];
    texts.push_back(fmt::format("{} on {}", value.empty() ? "unset" : fmt::format("'{}'", value), Ranks(ranks)));
  }
  if (reported.size() > kMostValues) texts.push_back(fmt::format("and {} more values", reported.size() - kMostValues));
  const std::string_view shown = name == "nccl"     ? "the version of NCCL"
                                 : name == "mpi"    ? "the MPI library"
                                 : name == "cuda"   ? "the CUDA version of the driver"
                                 : name == "driver" ? "the NVIDIA driver"
                                                    : std::string_view(name);
  return Printable(fmt::format("{}: {}", shown, Join(texts, ", ")));
}

}  // namespace

bool AllHaveSaid(const View& view) {
  return std::none_of(view.nodes.begin(), view.nodes.end(),
                      [&](const Node& node) { return view.process(node).box->environment.empty(); });
}

std::optional<Finding> FindSkew(const View& view) {
  constexpr std::size_t kMostLines = 12;
  const std::map<std::string, RanksByValue> differences = Gather(view);
  if (differences.empty()) return std::nullopt;
  Finding finding;
  finding.kind = Kind::kEnvironmentSkew;
  finding.certainty = Certainty::kSuspected;
  std::vector<int> culprits;
  for (const auto& [name, values] : differences) {
    const Reported reported = MostFirst(values);
    if (name == "nccl" || name == "mpi") finding.certainty = Certainty::kLikely;
    for (std::size_t i = 1; i < reported.size() && HasMajority(reported); ++i)
      culprits.insert(culprits.end(), reported[i].second.begin(), reported[i].second.end());
    if (finding.evidence.size() < kMostLines) finding.evidence.push_back(TextOf(name, reported));
  }
  AddCulprits(view, SortedUnique(std::move(culprits)), &finding);
  if (differences.size() > kMostLines)
    finding.evidence.push_back(fmt::format("and {} more variables", differences.size() - kMostLines));
  finding.summary = finding.culprits.empty()
                        ? fmt::format("Ranks run in different environments: {}.", finding.evidence.front())
                        : fmt::format("{} {} in another environment than most: {}.", Capital(Ranks(finding.culprits)),
                                      finding.culprits.size() == 1 ? "runs" : "run", finding.evidence.front());
  finding.began_at_ns = finding.detected_at_ns = ToRealtime(view, view.now_ns);
  finding.next_steps = {
      "compare these values with the variables that the launcher passes on (mpirun -x, srun --export, torchrun's "
      "nodes)",
      "ncclwatch doctor, under the same launcher: all versions and variables in which ranks differ"};
  AddAdvice(&finding);
  return finding;
}

}  // namespace ncclwatch::diagnosis
