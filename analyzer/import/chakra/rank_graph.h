// The nodes of one rank, and what they are as calls and operations.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/import/base/trace.h"
#include "analyzer/import/chakra/node.h"

namespace ncclwatch::analyzer::import::chakra {

// Names of process groups; their ranks where the traces list them.
using GroupRanks = std::map<std::string, std::vector<int>>;

class RankGraph {
 public:
  RankGraph(std::string path, int rank);
  void Add(const Node& node);
  void AddGroups(const nlohmann::json& groups);  // of torch's traces
  void SetWorld(const nlohmann::json& ranks);    // how many the job has; null: not told

  const std::string& path() const { return trace_.path; }
  bool timed() const { return timed_; }
  bool some_groups_unknown() const { return unknown_groups_ > 0; }
  int highest_rank() const { return highest_rank_; }               // that it mentions
  const std::set<std::string>& groups() const { return groups_; }  // that it calls on
  const GroupRanks& listed() const { return listed_; }
  // `world`: ranks of the job. `groups`: who is in which, by all ranks' traces.
  Trace Take(int world, const GroupRanks& groups);

 private:
  struct Call {
    TraceCall traced;
    std::string group;      // empty: all ranks
    bool on_host = false;   // what the program called; what the GPU did is another node
    bool no_group = false;  // whose ranks are not known
    bool torch = false;     // its amount is that of the tensor that torch names, in elements
  };
  void AddCall(const Node& node, std::size_t operation);
  bool SetGroup(const Node& node, Call* call);
  void SetMessage(const Node& node, Call* call);
  void OrderByDependencies();
  void ResolveAfter();
  int PlaceOfGroup(const Call& call, int world, const GroupRanks& groups);

  Trace trace_;
  std::vector<Call> calls_;
  std::vector<std::vector<std::uint64_t>> after_;               // ids, by operation
  std::vector<std::uint64_t> ids_;                              // by operation
  absl::flat_hash_map<std::uint64_t, std::uint32_t> place_of_;  // operations, by id
  std::set<std::string> groups_;
  GroupRanks listed_;
  std::set<std::int64_t> addresses_;  // of process groups without names
  std::size_t unknown_groups_ = 0;
  int highest_rank_ = -1;
  bool timed_ = false, ordered_ = false;
};

}  // namespace ncclwatch::analyzer::import::chakra
