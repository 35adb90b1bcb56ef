#include "analyzer/export/calls/parquet.h"

#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/export/calls/parquet_columns.h"
#include "analyzer/export/calls/python_child.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::analyzer::exporting {
namespace {

constexpr char kWriter[] =
#include "parquet_writer.inc"
    ;
// What is in memory of all nodes; a node's share is a row group, which is best large.
constexpr std::size_t kMostRows = 1 << 20, kMostRowsOfNode = 1 << 17, kLeastRowsOfNode = 1 << 12;
constexpr std::int64_t kHour_ns = 3'600'000'000'000;

// In the name of a folder.
std::string FolderWord(const std::string& text) {
  std::string word = Printable(text.empty() ? "unknown" : text);
  for (char& letter : word)
    if (letter == '/' || letter == '=' || letter == '%' || letter == '?' || letter == '\\') letter = '_';
  constexpr std::size_t kMostLetters = 64;
  return word.front() == '.' ? "_" + word.substr(0, kMostLetters) : word.substr(0, kMostLetters);
}

struct Node {
  std::string name;
  std::int64_t hour = 0;  // of the rows, since 1970
  ParquetColumns columns;
};

class Parquet : public Exporter {
 public:
  explicit Parquet(const Source& source) : source_(source) {
    std::set<std::string> hosts;
    for (const ProcessRecording& process : source.recording.processes()) hosts.insert(process.process().host);
    most_rows_ = std::clamp(kMostRows / std::max<std::size_t>(1, hosts.size()), kLeastRowsOfNode, kMostRowsOfNode);
    nodes_of_.resize(source.recording.processes().size());
  }

  absl::Status Start(const std::string& folder) {
    const absl::Status started = python_.Start(kWriter);
    const std::string said = started.ok() ? python_.ReadLine() : std::string(started.message());
    if (said != "ready")
      return absl::FailedPreconditionError(fmt::format(
          "Parquet is written by pyarrow, and {} has none ({}): pip install 'ncclwatch[arrow]' or pyarrow, or "
          "name a Python that has it in NCCLWATCH_PYTHON",
          python_.python(), said));
    return python_.Write(nlohmann::ordered_json({{"out", folder}, {"columns", ParquetColumns::Schema()}}).dump() +
                         "\n");
  }

  absl::Status Add(const MergedCall& merged, const Facts& facts) override {
    Node& node = NodeOf(merged);
    const std::int64_t hour = facts.time_ns / kHour_ns;
    if (node.columns.rows() > 0 && (node.columns.rows() == most_rows_ || hour != node.hour))
      if (absl::Status status = Send(&node); !status.ok()) return status;
    node.hour = hour;
    node.columns.Add(merged, facts, source_.sites.Of(merged));
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    for (auto& [host, node] : nodes_)
      if (node->columns.rows() > 0)
        if (absl::Status status = Send(node.get()); !status.ok()) return status;
    python_.EndOfInput();
    const auto files = nlohmann::json::parse(python_.ReadLine(), nullptr, false);
    if (absl::Status status = python_.Wait(); !status.ok()) return status;
    if (!files.is_array()) return absl::UnavailableError("pyarrow wrote nothing");
    for (const auto& file : files) files_.push_back(file.get<std::string>());
    return absl::OkStatus();
  }

 private:
  Node& NodeOf(const MergedCall& merged) {
    Node*& known = nodes_of_[merged.number];
    if (known) return *known;
    std::unique_ptr<Node>& node = nodes_[merged.piece.host];
    if (!node) node = std::make_unique<Node>(Node{FolderWord(merged.piece.host), 0, {}});
    return *(known = node.get());
  }
  absl::Status Send(Node* node) {
    ParquetColumns::Batch batch = node->columns.Take();
    batch.head["node"] = node->name;
    batch.head["hour"] =
        absl::FormatTime("%Y-%m-%dT%H", absl::FromUnixNanos(node->hour * kHour_ns), absl::UTCTimeZone());
    if (absl::Status status = python_.Write(batch.head.dump() + "\n"); !status.ok()) return status;
    return python_.Write(batch.body);
  }

  const Source source_;
  std::size_t most_rows_ = 0;
  PythonChild python_;
  absl::flat_hash_map<std::string, std::unique_ptr<Node>> nodes_;  // by host
  std::vector<Node*> nodes_of_;                                    // by process
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> ToParquet(const Source& source, const std::string& folder) {
  auto parquet = std::make_unique<Parquet>(source);
  if (absl::Status status = parquet->Start(folder); !status.ok()) return status;
  return parquet;
}

}  // namespace ncclwatch::analyzer::exporting
