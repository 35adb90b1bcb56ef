#include "analyzer/export/calls/chakra.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "analyzer/export/calls/call_fields.h"
#include "analyzer/files/output_file.h"
#include "core/calls/mpi_message.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/functions/bandwidth.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using functions::Pattern;

constexpr char kVersion[] = "0.0.4";  // of the schema
// Numbers of fields and values in et_def.proto.
namespace metadata {
constexpr std::uint32_t kVersion = 1, kAttribute = 2;
}
namespace node {
constexpr std::uint32_t kId = 1, kName = 2, kType = 3, kDataDeps = 5, kStart = 6, kDuration = 7, kAttribute = 10;
constexpr std::uint64_t kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7;
}  // namespace node
namespace attribute {
constexpr std::uint32_t kName = 1, kInt32 = 7, kInt64 = 9, kBool = 27, kText = 29;
}

// none: it has no name there.
std::optional<std::uint64_t> CollectiveOf(Pattern pattern) {
  switch (pattern) {
    case Pattern::kAllReduce: return 0;
    case Pattern::kReduce: return 1;
    case Pattern::kAllGather: return 2;
    case Pattern::kGather: return 3;
    case Pattern::kScatter: return 4;
    case Pattern::kBroadcast: return 5;
    case Pattern::kAllToAll: return 6;
    case Pattern::kReduceScatter: return 7;
    case Pattern::kBarrier: return 9;
    default: return std::nullopt;
  }
}

// What goes in on one rank.
std::uint64_t InputBytes(Pattern pattern, std::uint64_t bytes, std::uint32_t ranks) {
  const bool to_each =
      pattern == Pattern::kReduceScatter || pattern == Pattern::kAllToAll || pattern == Pattern::kScatter;
  return to_each ? bytes * ranks : bytes;
}

// The nodes of one rank so far.
struct Rank {
  std::string path, buffer;
  std::uint64_t nodes = 0;
  std::vector<std::uint64_t> last;          // what the next node comes after
  std::vector<std::uint64_t> before_group;  // what the calls of the group come after
  std::optional<std::uint64_t> group;       // whose calls `last` are
  std::int64_t host_free_ns = 0;            // when the last call returned
  absl::flat_hash_map<std::uint64_t, std::vector<std::uint64_t>>
      ended_by;  // nodes of requests, by the slot of their wait
};

class Chakra : public CallExporter {
 public:
  Chakra(const Source& source, std::string folder)
      : CallExporter(source), folder_(std::move(folder)), sites_(source.sites) {
    for (const ProcessRecording& process : source.recording.processes())
      for (const IndexedCommunicator& on : process.communicators())
        if ((on.flags & format::kCommRankUnknown) == 0) job_ranks_[{on.id, on.rank}] = process.rank();
    ranks_.resize(source.recording.processes().size());
  }

  absl::Status Add(const MergedCall& merged, const Facts& facts) override {
    Rank& rank = ranks_[merged.number];
    if (rank.path.empty())
      if (absl::Status status = Begin(facts, &rank); !status.ok()) return status;
    EndRequests(facts.call, &rank);
    AddCompute(facts, &rank);
    if (facts.communicator && (facts.call.flags & format::kEmpty) == 0) AddCommunication(merged, facts, &rank);
    rank.host_free_ns = std::max(rank.host_free_ns, facts.returned_ns.value_or(facts.time_ns));
    return rank.buffer.size() < kBufferBytes ? absl::OkStatus() : Flush(&rank);
  }

  absl::Status Finish() override {
    for (Rank& rank : ranks_)
      if (!rank.path.empty())
        if (absl::Status status = Flush(&rank); !status.ok()) return status;
    if (!left_out_.empty())
      notes_.push_back(
          fmt::format("Chakra has no {}: left out", diagnosis::Join({left_out_.begin(), left_out_.end()}, ", ")));
    return absl::OkStatus();
  }

 private:
  static constexpr std::size_t kBufferBytes = 1 << 16;  // of each rank: there may be thousands

  absl::Status Begin(const Facts& facts, Rank* rank) {
    if (absl::Status made = MakeFolders(folder_); !made.ok()) return made;
    rank->path = fmt::format("{}/ranks.{}.et", folder_, facts.rank);
    files_.push_back(rank->path);
    rank->host_free_ns = facts.time_ns;
    bytes_.clear();
    message_.add_string(metadata::kVersion, kVersion);
    AddText(metadata::kAttribute, "creator", import::kCreator);
    AddText(metadata::kAttribute, Described(import::Field::kHost).name, Printable(facts.box.host));
    AddNumber(metadata::kAttribute, Described(import::Field::kPid).name, attribute::kInt64, facts.box.pid);
    AddNumber(metadata::kAttribute, Described(import::Field::kRank).name, attribute::kInt64,
              static_cast<std::uint64_t>(facts.rank));
    Put(rank);
    OutputFile file;  // empties it
    if (absl::Status status = file.Open(rank->path); !status.ok()) return status;
    return file.Close();
  }
  static absl::Status Flush(Rank* rank) {
    OutputFile file;
    if (absl::Status status = file.Open(rank->path, OutputFile::How::kAppend); !status.ok()) return status;
    if (absl::Status status = file.Write(std::exchange(rank->buffer, {})); !status.ok()) return status;
    return file.Close();
  }
  // Each message has its length before it.
  void Put(Rank* rank) {
    protozero::add_varint_to_buffer(&rank->buffer, bytes_.size());
    rank->buffer.append(bytes_);
  }

  // A request of MPI is over where the program has waited for it.
  static void EndRequests(const reader::Call& call, Rank* rank) {
    const auto ended = rank->ended_by.find(call.slot);
    if (ended == rank->ended_by.end()) return;
    rank->last.insert(rank->last.end(), ended->second.begin(), ended->second.end());
    rank->ended_by.erase(ended);
  }

  std::uint64_t BeginNode(std::string_view name, std::uint64_t type, const std::vector<std::uint64_t>& after,
                          std::int64_t start_ns, std::int64_t took_ns, Rank* rank) {
    bytes_.clear();
    message_.add_uint64(node::kId, rank->nodes);
    message_.add_string(node::kName, name.data(), name.size());
    message_.add_uint64(node::kType, type);
    message_.add_packed_uint64(node::kDataDeps, after.begin(), after.end());
    message_.add_uint64(node::kStart, static_cast<std::uint64_t>(start_ns / 1000));
    message_.add_uint64(node::kDuration, static_cast<std::uint64_t>(took_ns / 1000));
    return rank->nodes++;
  }
  void AddNumber(std::uint32_t field, std::string_view name, std::uint32_t type, std::uint64_t value) {
    protozero::pbf_writer one(message_, field);
    one.add_string(attribute::kName, name.data(), name.size());
    one.add_uint64(type, value);
  }
  void AddText(std::uint32_t field, std::string_view name, std::string_view value) {
    protozero::pbf_writer one(message_, field);
    one.add_string(attribute::kName, name.data(), name.size());
    one.add_string(attribute::kText, value.data(), value.size());
  }
  void Attribute(std::string_view name, std::uint32_t type, std::uint64_t value) {
    AddNumber(node::kAttribute, name, type, value);
  }
  void Fields(const MergedCall& merged, const Facts& facts) {
    for (const FieldValue& one : FieldsOf(merged, facts, &sites_)) {
      const std::string_view name = Described(one.field).name;
      if (const auto* const text = std::get_if<std::string>(&one.value))
        AddText(node::kAttribute, name, *text);
      else
        Attribute(name, attribute::kInt64, static_cast<std::uint64_t>(std::get<std::int64_t>(one.value)));
    }
    Attribute(Described(import::Field::kThread).name, attribute::kInt64, facts.call.thread);
  }

  // What the host did since its last call, whatever that was.
  void AddCompute(const Facts& facts, Rank* rank) {
    const std::int64_t took_ns = facts.time_ns - rank->host_free_ns;
    if (took_ns < 1000 || (facts.group && facts.group == rank->group)) return;
    const std::uint64_t id = BeginNode("between calls", node::kCompute, rank->last, rank->host_free_ns, took_ns, rank);
    Attribute("is_cpu_op", attribute::kBool, 1);
    Put(rank);
    rank->last = {id};
  }

  void AddCommunication(const MergedCall& merged, const Facts& facts, Rank* rank) {
    const reader::Call& call = facts.call;
    const Pattern pattern = functions::PatternOf(call.function);
    const auto collective = CollectiveOf(pattern);
    const bool sends = call.function == functions::Function::ncclSend || diagnosis::IsSend(call);
    const bool receives = call.function == functions::Function::ncclRecv || diagnosis::IsReceive(call);
    if (!collective && ((!sends && !receives) || !facts.peer)) {
      if (functions::IsCollective(call.function)) left_out_.insert(OpText(call.function));
      return;
    }
    const reader::Communicator& on = *facts.communicator;
    const bool grouped = facts.group.has_value();
    if (!grouped || facts.group != rank->group) rank->before_group = rank->last;
    const std::int64_t took_ns =
        call.kernel.clock != format::KernelClock::kNone ? static_cast<std::int64_t>(call.kernel.ns) : facts.duration_ns;
    const std::uint64_t type = collective ? node::kCollective : sends ? node::kSend : node::kReceive;
    const std::uint64_t id = BeginNode(OpText(call.function), type, rank->before_group, facts.time_ns, took_ns, rank);
    Attribute("is_cpu_op", attribute::kBool, 0);
    if (collective) Attribute("comm_type", attribute::kInt64, *collective);
    Attribute("comm_size", attribute::kInt64, InputBytes(pattern, facts.bytes.value_or(0), on.size));
    if (!collective) Ends(facts, sends);
    AddText(node::kAttribute, "pg_name", on.label.empty() ? diagnosis::Hex16(on.id) : Printable(on.label));
    Fields(merged, facts);
    Put(rank);
    if ((call.flags & format::kRequest) != 0 && call.waiter != 0) {
      rank->ended_by[call.waiter - 1].push_back(id);
    } else if (grouped && facts.group == rank->group) {
      rank->last.push_back(id);
    } else {
      rank->last = {id};
    }
    rank->group = facts.group;
  }
  // As job ranks, which simulators count by.
  void Ends(const Facts& facts, bool sends) {
    const auto job_rank = [&](int on) {
      const auto known = job_ranks_.find({facts.communicator->id, static_cast<std::uint32_t>(on)});
      return static_cast<std::uint64_t>(known == job_ranks_.end() ? on : known->second);
    };
    const auto own = static_cast<std::uint64_t>(facts.rank), other = job_rank(*facts.peer);
    Attribute("comm_src", attribute::kInt32, sends ? own : other);
    Attribute("comm_dst", attribute::kInt32, sends ? other : own);
    const bool tagged = facts.call.tag != format::kNoTag;
    Attribute("comm_tag", attribute::kInt32, tagged ? static_cast<std::uint32_t>(facts.call.tag) : 0);
  }

  const std::string folder_;
  Sites& sites_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::uint32_t>, int> job_ranks_;  // by communicator and rank in it
  std::vector<Rank> ranks_;                                                      // by process
  std::set<std::string> left_out_;
  std::string bytes_;
  protozero::pbf_writer message_{bytes_};
};

}  // namespace

std::unique_ptr<Exporter> ToChakra(const Source& source, const std::string& folder) {
  return std::make_unique<Chakra>(source, folder);
}

}  // namespace ncclwatch::analyzer::exporting
