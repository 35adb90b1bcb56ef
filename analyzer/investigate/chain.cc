#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/investigate/incident.h"
#include "analyzer/investigate/words.h"
#include "core/model/text.h"

namespace ncclwatch::investigate {
namespace {

using analyzer::TriageFinding;
using diagnosis::Finding;

// -----------------------------------------------------------------------------------

Link SymptomOf(const Finding& root) {
  Link link;
  if (root.share_lost)
    link.text = fmt::format("Steps take longer than they could: {:.1f} % of the time is lost.", 100 * *root.share_lost);
  else if (IsOfNumbers(root.kind))
    link.text = "The program's own numbers went wrong.";
  else
    link.text = root.victims.empty() ? "The job stopped."
                                     : fmt::format("{} {}.", diagnosis::Capital(diagnosis::Ranks(root.victims)),
                                                   root.victims.size() == 1 ? "waits" : "wait");
  if (root.effect && root.effect->before && root.effect->after)
    link.evidence.push_back(fmt::format("{} went from {:.4g} to {:.4g} {}", root.effect->metric, *root.effect->before,
                                        *root.effect->after, root.effect->unit));
  for (const diagnosis::CallSummary& call : root.calls)
    link.evidence.push_back(call.op ? fmt::format("{}: {}, {}", diagnosis::Ranks(call.ranks), diagnosis::CallText(call),
                                                  diagnosis::Name(call.state))
                                    : fmt::format("{}: no such call", diagnosis::Ranks(call.ranks)));
  if (root.onset)
    link.evidence.push_back(fmt::format("{} step {}, {}", root.onset->since_before ? "at the latest since" : "since",
                                        root.onset->step, At(root.onset->at_ns)));
  return link;
}

std::vector<std::string> StateOf(const Finding& root) {
  std::vector<std::string> lines;
  for (const diagnosis::Culprit& culprit : root.culprit_details) {
    if (lines.size() >= 6) break;
    for (const std::string& sentence : culprit.state)
      lines.push_back(fmt::format("rank {}: {}", culprit.rank, sentence));
    if (!culprit.where.empty())
      lines.push_back(fmt::format(
          "rank {} was in {}", culprit.rank,
          absl::StrJoin(
              culprit.where.begin(),
              culprit.where.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(4, culprit.where.size())),
              " < ")));
  }
  return lines;
}

}  // namespace

std::vector<Link> ChainOf(const Material& material) {
  std::vector<Link> chain;
  const Finding* const root = RootFinding(material);
  const TriageFinding* const cause = FirstCause(material);
  if (root) {
    chain.push_back(SymptomOf(*root));
    chain.push_back({root->summary, root->evidence});
    if (std::vector<std::string> state = StateOf(*root); !state.empty())
      chain.push_back({"What it did then, as far as somebody looked:", std::move(state)});
  } else if (cause) {
    std::vector<std::string> echoes;
    for (const TriageFinding& echo : material.triage->echoes)
      echoes.push_back(fmt::format("{}: {}", WhoseText(echo), Quoted(echo)));
    for (const TriageFinding& one : material.triage->confirmations)
      if (echoes.size() < 5) echoes.push_back(Quoted(one));
    if (!echoes.empty()) chain.push_back({"Other ranks, and the launcher, report what follows:", std::move(echoes)});
  }
  if (cause && (!root || root->culprits.empty() || IsOfCulprit(*cause, *root) || cause->ranks.empty()))
    chain.push_back({fmt::format("{}: {}", diagnosis::Capital(WhoseText(*cause)), cause->summary), {Quoted(*cause)}});
  return chain;
}

std::vector<std::string> FurtherOf(const Material& material, Class kind) {
  const std::string where = absl::StrJoin(material.words, " ");
  switch (kind) {
    case Class::kHang:
      return {"`ncclwatch stacks` while such a job stands: what the culprit's threads do",
              fmt::format("`ncclwatch replay {} --shrink -o repro`: the hang as a small program", where)};
    case Class::kSlow:
      return {"`srun ncclwatch doctor --active` on these hosts: clocks, links, who else runs there",
              "`ncclwatch stacks` a few times on the culprit"};
    case Class::kNumbers:
      return {"the same step again from the last checkpoint, on the same and on another host",
              "`ncclwatch bisect --items LAYERS -- CMD {items}`: the first layer that is wrong"};
    case Class::kFailure:
      return {"`ncclwatch doctor` before the next start",
              "`ncclwatch run -- CMD`: with black boxes the ranks' calls are known too"};
    case Class::kHealthy: break;
  }
  return {};
}

}  // namespace ncclwatch::investigate
