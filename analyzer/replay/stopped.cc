#include "analyzer/replay/stopped.h"

#include "core/model/text.h"
#include "ncclwatch/format/mpi_record.h"

namespace ncclwatch::analyzer {

nlohmann::ordered_json StoppedJson(const std::vector<StoppedCall>& stopped) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const StoppedCall& one : stopped)
    all.push_back({{"rank", one.rank},
                   {"communicator", one.communicator ? Json(diagnosis::Hex16(one.communicator)) : Json(nullptr)},
                   {"position", one.position == format::kNotMatched ? Json(nullptr) : Json(one.position)},
                   {"op", functions::OpName(one.function)}});
  return all;
}

}  // namespace ncclwatch::analyzer
