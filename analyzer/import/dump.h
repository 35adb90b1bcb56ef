// One dump of torch's flight recorder, taken apart: its calls as a black box would hold them, and the process groups
// that they belong to. What only all dumps together tell (who is in a group, which number it has) is filled in by
// boxes.h.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/import/value.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer::import {

struct ProcessGroup {
  std::string name, description;
  std::vector<std::int32_t> ranks;        // job ranks by rank in the group; empty if the dump does not say
  std::optional<std::uint64_t> enqueued;  // collectives that pg_status counts; of some groups it counts messages
  bool used = false;                      // has entries
  bool anyone = false;                    // receives that name no sender
  bool begins_late = false;               // messages before the first that is recorded
};

struct Dump {
  std::string path;
  std::string version;
  std::int32_t rank = -1;
  std::int64_t written_ns = 0;   // CLOCK_REALTIME: the file's time of modification
  std::int64_t newest_ns = 0;    // of all instants in it
  std::int64_t timeout_ns = 0;   // the longest of its entries
  std::uint64_t unknown = 0;     // entries of operations that are not known here
  std::uint64_t ended = 0;       // entries of calls that are over
  bool missing_records = false;  // numbers of records are missing before or between the entries
  // calls: `communicator` is the index of a group; chain is not set. communicators: one for each group, with what its
  // own dump tells.
  reader::BoxImage box;
  std::vector<char> by_rank;  // by call: its count differs from rank to rank by right
  std::vector<ProcessGroup> groups;

  // The recorder still holds everything since it began.
  bool whole() const { return box.first_slot == 0 && !box.active_only; }
};

// The rank in a file's name: behind the last "rank" ("nccl_trace_rank_12", "rank3_gpu1.json", "rank_3.node17"), or else
// the number that it ends in ("fr-12"). -1: there is none.
std::int32_t RankInName(const std::string& path);

// Reads files one after the other, with one tree for all.
class DumpReader {
 public:
  // One, or as many as a page of torch's debug server has.
  std::vector<absl::StatusOr<Dump>> Read(const std::string& path);

 private:
  std::vector<absl::StatusOr<Dump>> Parse(const std::string& path);

  std::string bytes_;
  Tree tree_;
};

// For the fuzzers: what Read() does with the bytes of a file.
absl::StatusOr<Dump> ParseDump(std::string_view bytes, Tree* tree);

}  // namespace ncclwatch::analyzer::import
