#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/sections.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestValue = 1000, kMostValues = 64;

// 2.27.3 as 22703, and before 2.9 as 2804.
std::string VersionText(std::uint32_t version) {
  if (version == 0) return {};
  if (version < 10000) return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string GpuModel(const reader::BoxImage& box) {
  for (const reader::Communicator& one : box.communicators)
    if (!one.gpu.empty()) return one.gpu;
  return {};
}

class ProcessFacts {
 public:
  void Add(const char* what, int rank, std::string value) {
    if (value.size() > kLongestValue) value = value.substr(0, kLongestValue) + "...";
    if (!value.empty()) facts_[what][Printable(value)].push_back(rank);
  }
  Json Take() const {
    Json list = Json::array();
    for (const auto& [what, values] : facts_) {
      Json of_what = Json::array();
      for (const auto& [value, ranks] : values) {
        if (of_what.size() == kMostValues) break;
        of_what.push_back({{"value", value}, {"ranks", diagnosis::RankSet(diagnosis::SortedUnique(ranks))}});
      }
      list.push_back({{"what", what}, {"count", values.size()}, {"values", std::move(of_what)}});
    }
    return list;
  }

 private:
  std::map<std::string, std::map<std::string, std::vector<int>>> facts_;
};

}  // namespace

Json EnvironmentSection(const std::vector<reader::BoxImage>& boxes) {
  ProcessFacts facts;
  for (const reader::BoxImage& box : boxes) {
    facts.Add("command", box.rank, box.command);
    facts.Add("host", box.rank, box.host);
    facts.Add("node of the scheduler", box.rank, box.node);
    facts.Add("GPU", box.rank, GpuModel(box));
    facts.Add("NCCL version", box.rank, VersionText(box.nccl_version));
    facts.Add("NCCL library", box.rank, box.nccl_library);
    facts.Add("master", box.rank,
              box.master_address.empty() ? "" : fmt::format("{}:{}", box.master_address, box.master_port));
    if (box.world_size > 0) facts.Add("world size", box.rank, fmt::format("{}", box.world_size));
  }
  return facts.Take();
}

}  // namespace ncclwatch::analyzer
