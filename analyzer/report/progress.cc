#include <nlohmann/json.hpp>

#include "analyzer/report/sections.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {

nlohmann::ordered_json ProgressSection(const diagnosis::View& view) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const diagnosis::CommView& comm : view.comms) {
    Json ranks = Json::array(), called = Json::array(), messages = Json::array();
    for (const diagnosis::Member& member : comm.members) {
      ranks.push_back(member.node >= 0 ? view.nodes[member.node].rank : -1);
      called.push_back(member.entered);
      messages.push_back(member.comm->sends + member.comm->receives);
    }
    Json unseen = Json::array();
    for (std::size_t rank = 0; rank < comm.job_ranks.size(); ++rank)
      if (!comm.OfRank(static_cast<std::uint32_t>(rank))) unseen.push_back(comm.job_ranks[rank]);
    all.push_back({{"id", diagnosis::Hex16(comm.id)},
                   {"label", Printable(comm.label)},
                   {"size", comm.size},
                   {"comparable", comm.comparable},
                   {"ranks", std::move(ranks)},
                   {"called", std::move(called)},  // collectives
                   {"messages", std::move(messages)},
                   {"unseen", std::move(unseen)}});
  }
  return all;
}

}  // namespace ncclwatch::analyzer
