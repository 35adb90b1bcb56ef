#include "analyzer/import/chakra/traces.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "analyzer/import/base/call_fields.h"
#include "analyzer/import/base/json_lines.h"
#include "analyzer/import/base/text_file.h"
#include "analyzer/import/chakra/documents.h"
#include "analyzer/import/chakra/json_nodes.h"
#include "analyzer/import/chakra/messages.h"
#include "analyzer/import/chakra/rank_graph.h"
#include "core/model/text.h"
#include "core/reader/layout.h"

namespace ncclwatch::analyzer::import::chakra {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// "ranks.3.et", "dlrm_eg_3.json.gz": the last number of the name. -1: it has none.
int RankInName(const std::string& path) {
  fs::path name = fs::path(path).filename();
  while (name.extension() == ".gz" || name.extension() == ".json" || name.extension() == ".et") name = name.stem();
  const std::string text = name.string();
  const std::size_t end = text.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  const std::size_t before = text.find_last_not_of("0123456789", end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  int rank = -1;
  const bool read = absl::SimpleAtoi(text.substr(begin, end + 1 - begin), &rank);
  return read && rank < static_cast<int>(reader::kMaxCommunicatorSize) ? rank : -1;
}

class Reader {
 public:
  explicit Reader(Imported* imported) : imported_(*imported) {}

  void Read(const std::string& path) {
    int rank = RankInName(path);
    if (rank < 0) rank = next_rank_;
    next_rank_ = std::max(next_rank_, rank + 1);
    RankGraph graph(path, rank);
    own_ = false;
    if (const absl::Status status = ReadNodes(path, &graph); !status.ok())
      imported_.failures.push_back({path, std::string(status.message())});
    if (own_) return;
    const auto [found, fresh] = graphs_.try_emplace(rank, std::move(graph));
    if (!fresh) imported_.failures.push_back({path, fmt::format("a second trace of rank {}", rank)});
  }

  void Take(TakeTrace take) {
    lines_.Take(Slots::kOrder, take);
    if (graphs_.empty()) return;
    int world = 0;
    GroupRanks groups;
    for (const auto& [rank, graph] : graphs_) {
      world = std::max(world, graph.highest_rank() + 1);
      for (const std::string& name : graph.groups()) groups[name].push_back(rank);
    }
    for (const auto& [rank, graph] : graphs_)
      for (const auto& [name, ranks] : graph.listed())
        if (groups.contains(name)) groups[name] = ranks;
    AddNotes();
    for (auto& [rank, graph] : graphs_) take(graph.Take(world, groups));
  }

 private:
  absl::Status ReadNodes(const std::string& path, RankGraph* graph) {
    auto file = TextFile::Open(path);
    if (!file.ok()) return file.status();
    const absl::StatusOr<std::string_view> first = file->Next();
    if (!first.ok()) return first.status();
    const std::size_t begin = first->find_first_not_of(" \t\r\n");
    const bool json_text = begin != std::string_view::npos && ((*first)[begin] == '{' || (*first)[begin] == '[');
    return json_text ? ReadJson(*first, &*file, graph) : ReadMessages(*first, &*file, graph);
  }

  absl::Status ReadMessages(absl::StatusOr<std::string_view> piece, TextFile* file, RankGraph* graph) {
    MessageReader messages;
    for (;; piece = file->Next()) {
      if (!piece.ok()) return piece.status();
      if (piece->empty()) return messages.End();
      const absl::Status status =
          messages.Feed(*piece, [&](const Node& node) { AddNode(node, messages.metadata(), graph); });
      if (!status.ok()) return status;
    }
  }

  absl::Status ReadJson(absl::StatusOr<std::string_view> piece, TextFile* file, RankGraph* graph) {
    ObjectCutter objects;
    json metadata = json::object();
    std::uint64_t damaged = 0;
    const auto take = [&](std::string_view text) {
      const json object = json::parse(text, nullptr, false);
      if (!object.is_object()) {
        ++damaged;
      } else if (objects.in_array() && objects.head().contains("schema")) {
        AddOfTorch(object, graph);
      } else if (auto attributes = MetadataIn(object)) {
        metadata = *std::move(attributes);
      } else {
        AddNode(NodeOf(object), metadata, graph);
      }
    };
    for (;; piece = file->Next()) {
      if (!piece.ok()) return piece.status();
      if (piece->empty()) break;
      if (const absl::Status status = objects.Feed(*piece, take); !status.ok()) return status;
    }
    for (const json& part : {objects.head(), objects.Tail()})
      if (part.is_object()) graph->SetWorld(part.value("ngpus", json()));
    if (damaged > 0) return absl::DataLossError(fmt::format("{} are not JSON", diagnosis::Plural(damaged, "node")));
    return objects.End();
  }

  void AddOfTorch(const json& object, RankGraph* graph) {
    if (const json groups = GroupsIn(object); groups.is_array()) graph->AddGroups(groups);
    if (const auto node = TorchNodeOf(object)) graph->Add(*node);
  }

  // What `export` wrote has all that the call was.
  void AddNode(const Node& node, const json& metadata, RankGraph* graph) {
    own_ = metadata.value("creator", "") == kCreator;
    if (!own_) return graph->Add(node);
    if (!node.attributes.contains(Described(Field::kSeq).name)) return;
    json fields = node.attributes;
    for (const Field field : {Field::kHost, Field::kPid, Field::kRank})
      if (const auto found = metadata.find(Described(field).name); found != metadata.end())
        fields[Described(field).name] = *found;
    fields["op"] = node.name;
    const std::string wrong = lines_.Add(LineOf(std::move(fields)));
    if (!wrong.empty()) imported_.failures.push_back({graph->path(), fmt::format("node {}: {}", node.id, wrong)});
  }

  void AddNotes() {
    const auto any = [&](auto holds) {
      return std::any_of(graphs_.begin(), graphs_.end(), [&](const auto& one) { return holds(one.second); });
    };
    imported_.notes.push_back(
        "from Chakra's execution traces: they hold sizes in bytes or tensors, no reductions, roots or hosts, and no "
        "call that did not end");
    if (any([](const RankGraph& graph) { return !graph.timed(); }))
      imported_.notes.push_back(
          "some of the traces have no times: their calls have the order of their dependencies, a nanosecond apart");
    if (any([](const RankGraph& graph) { return graph.some_groups_unknown(); }))
      imported_.notes.push_back(
          "some calls are of process groups whose ranks are not told: they are on no communicator");
  }

  Imported& imported_;
  std::map<int, RankGraph> graphs_;  // by rank
  LinesToTraces lines_;              // of our own exports
  int next_rank_ = 0;
  bool own_ = false;
};

}  // namespace

void ReadTraces(const std::vector<std::string>& files, TakeTrace take, Imported* imported, FilesRead done) {
  Reader reader(imported);
  for (std::size_t i = 0; i < files.size(); ++i) {
    reader.Read(files[i]);
    done(i + 1);
  }
  reader.Take(take);
}

}  // namespace ncclwatch::analyzer::import::chakra
